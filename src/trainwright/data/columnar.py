"""Parquet files and `datasets` folders (save_to_disk), read with pyarrow alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trainwright.data.cells import BATCH_ROWS, Cell, Noticed, RowBatch, cell_of
from trainwright.data.complaints import unreadable
from trainwright.errors import DataError
from trainwright.messages.text import _


class Columnar:
    """A table in Arrow's memory format: its schema, and its record batches.

    Args:
        path: The file or folder, for messages.
        schema: Column names and types.
        read: Yields record batches with the named columns.
    """

    def __init__(self, path: Path, schema: pa.Schema, read: Callable[[list[str]], Iterator[pa.RecordBatch]]) -> None:
        self.path = path
        self.noticed = Noticed()
        self._schema, self._read = schema, read

    def columns(self) -> list[str]:
        return list(self._schema.names)

    def has(self, column: str) -> bool:
        return column in self._schema.names

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The rows, a batch at a time; the line of a row is its number, from 1; ``lists`` names columns that may hold
        lists.

        Raises:
            DataError: A column holds lists where none may be, structures or bytes, or the file is damaged.
        """
        self.noticed.unused = [name for name in self._schema.names if name not in columns]
        converters = {name: self._converter(name, name in lists) for name in columns}
        row = 1
        try:
            for batch in self._read(list(columns)):
                cells = {name: convert(batch.column(name)) for name, convert in converters.items()}
                yield RowBatch(list(range(row, row + batch.num_rows)), cells)
                row += batch.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise unreadable(self.path, error) from error

    def _converter(self, column: str, may_be_list: bool) -> Callable[[pa.Array], list[Cell]]:
        kind = self._schema.field(column).type
        if may_be_list and _is_list(kind) and not pa.types.is_nested(kind.value_type):
            item_names = class_names(self._schema, column)
            return lambda values: [_items(value, item_names) for value in values.to_pylist()]
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            text = _("{file}: column '{column}' holds {kind}, not one text or number a row.")
            raise DataError(text.format(file=self.path, column=column, kind=kind))
        names = class_names(self._schema, column)
        if names is None:
            return lambda values: [cell_of(value) for value in values.to_pylist()]
        # -1 stands for "no label" there
        return lambda values: [
            names[value] if value is not None and value >= 0 else None for value in values.to_pylist()
        ]


def open_parquet(path: Path) -> Columnar:
    """Open a Parquet file.

    Raises:
        DataError: It is no Parquet file.
    """
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)

    return Columnar(path, schema, read)


def open_arrow(path: Path) -> Columnar:
    """Open an Arrow or Feather file, whether it was written as a file or as a stream.

    Raises:
        DataError: It is no such file.
    """

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as file:
            for batch in _arrow_batches(file):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.select(columns).slice(start, BATCH_ROWS)

    try:
        with pa.memory_map(str(path)) as file:
            schema = _arrow_reader(file).schema
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    return Columnar(path, schema, read)


def _arrow_batches(file: Any) -> Iterator[pa.RecordBatch]:
    reader = _arrow_reader(file)
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        yield from reader


def _arrow_reader(file: Any) -> Any:
    """The file format begins with its name; a stream does not."""
    begins = file.read(6)
    file.seek(0)
    return pa.ipc.open_file(file) if begins == b"ARROW1" else pa.ipc.open_stream(file)


def open_dataset(folder: Path) -> Columnar:
    """Open a folder that `datasets.Dataset.save_to_disk` wrote.

    Raises:
        DataError: A file of it is missing or damaged, or its rows are chosen by an index file of an old version.
    """
    files = dataset_files(folder)
    try:
        with pa.memory_map(str(files[0])) as file:
            schema = pa.ipc.open_stream(file).schema
    except (pa.ArrowException, OSError) as error:
        raise unreadable(files[0], error) from error

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        for path in files:
            with pa.memory_map(str(path)) as file:
                for batch in pa.ipc.open_stream(file):
                    for start in range(0, batch.num_rows, BATCH_ROWS):
                        yield batch.select(columns).slice(start, BATCH_ROWS)

    return Columnar(folder, schema, read)


def dataset_files(folder: Path) -> list[Path]:
    """The Arrow files of a `datasets` folder, in order."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    if state.get("_indices_data_files"):
        raise DataError(
            _("{folder} was saved by an old version of datasets and has its rows reordered by an index.").format(
                folder=folder
            ),
            _("Load it and save it again with save_to_disk."),
        )
    files = [folder / item["filename"] for item in state["_data_files"]]
    if not files:
        raise DataError(_("{file} has no rows.").format(file=folder))
    for path in files:
        if not path.is_file():
            raise DataError(_("{folder} lacks its file {name}.").format(folder=folder, name=path.name))
    return files


def class_names(schema: pa.Schema, column: str) -> list[str] | None:
    """Names of a ClassLabel column by number, from what datasets writes into the schema; None if it is none."""
    written = (schema.metadata or {}).get(b"huggingface")
    if not written:
        return None
    features: dict[str, Any] = json.loads(written).get("info", {}).get("features") or {}
    feature = features.get(column)
    if isinstance(feature, dict) and isinstance(feature.get("feature"), dict):  # a list of class labels
        feature = feature["feature"]
    elif isinstance(feature, list) and len(feature) == 1:  # as older versions of datasets write one
        feature = feature[0]
    return feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _items(values: list[Any] | None, names: list[str] | None) -> Cell:
    """The cell of a list; class numbers become names."""
    if values is None:
        return None
    return cell_of(values if names is None else [names[value] for value in values], may_be_list=True)
