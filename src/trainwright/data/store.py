"""Texts and tokens on disk, as Arrow streams that are memory-mapped and read without a copy.

A prepared folder holds one ``<split>.arrow`` per split (``ids: list<int32>``, ``label: int32``, ``line: int64``,
``row: int64``) and the texts of each source file in a file of its own (``text: string``), to which ``row`` points; so
the token files stay small. Special tokens are not stored: truncation and special tokens are applied when a row is
read, so another ``max_length`` needs no new tokenising. `datasets.Dataset.from_file` opens these files as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from trainwright.records import Prepared, Split

TEXT_SCHEMA = pa.schema([("text", pa.large_string())])  # large: a batch may hold more than 2 GiB of text
TOKEN_SCHEMA = pa.schema(
    [("ids", pa.list_(pa.int32())), ("label", pa.int32()), ("line", pa.int64()), ("row", pa.int64())]
)
TEXTS_KEY = b"trainwright.texts"  # in the schema of a split: the name of the file with its texts


class ArrowWriter:
    """Writes an Arrow stream, batch by batch; on the disk for sure when closed."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._file = open(path, "wb")  # noqa: SIM115 - closed by __exit__
        self._writer = pa.ipc.new_stream(self._file, schema)

    def write(self, *columns: Any) -> None:
        """Append rows, given as one array or list per column."""
        arrays = [
            values if isinstance(values, pa.Array) else pa.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))

    def __enter__(self) -> ArrowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


class TextRows:
    """The texts of a source file by row number."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as file:
            self._chunks = [batch.column(0) for batch in pa.ipc.open_stream(file)]
        self._starts = _starts(self._chunks)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> str:
        chunk, place = _find(self._starts, row)
        return self._chunks[chunk][place].as_py()

    def take(self, rows: np.ndarray) -> list[str]:
        """The texts of some rows, in ascending order of rows."""
        cuts = np.searchsorted(rows, self._starts)
        texts: list[str] = []
        for chunk in np.flatnonzero(np.diff(cuts)):
            places = rows[cuts[chunk] : cuts[chunk + 1]] - self._starts[chunk]
            texts += self._chunks[chunk].take(pa.array(places)).to_pylist()
        return texts


class TokenRows:
    """The rows of one split as a model takes them: truncated, with special tokens.

    ``rows[i]`` is ``{"input_ids": list of int, "labels": int}``. Copies for other processes carry the path only and
    map the file again.

    Args:
        folder: The prepared folder.
        split: Which part of it.
        prepared: Says how rows are truncated and which special tokens surround them.
    """

    def __init__(self, folder: Path, split: Split, prepared: Prepared) -> None:
        self.folder, self.split, self.prepared = folder, split, prepared
        self._prefix, self._suffix = list(prepared.prefix), list(prepared.suffix)
        self._room = prepared.max_length - len(self._prefix) - len(self._suffix)  # for a row's own tokens

    def __len__(self) -> int:
        return self.split.rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        index = index % len(self)
        chunk, place = _find(self._starts, index)
        values, offsets = self._flat[chunk]
        first = int(offsets[place])
        last = min(int(offsets[place + 1]), first + self._room)
        return {
            "input_ids": self._prefix + values[first:last].tolist() + self._suffix,
            "labels": int(self.labels[index]),
        }

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Some rows at once, as a loader asks for them: ids are views of one array, filled from the memory map."""
        places = np.asarray(indices, dtype=np.int64)
        ends = np.cumsum(self.lengths[places], dtype=np.int64)
        flat = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
        labels, rows, begin = self.labels[places].tolist(), [], 0
        before, behind = len(self._prefix), len(self._suffix)
        for place, end, label in zip(places.tolist(), ends.tolist(), labels, strict=True):
            chunk, row = _find(self._starts, place)
            values, offsets = self._flat[chunk]
            first = int(offsets[row])
            ids = flat[begin:end]
            ids[:before] = self._prefix
            ids[before : len(ids) - behind] = values[first : first + len(ids) - before - behind]
            ids[len(ids) - behind :] = self._suffix
            rows.append({"input_ids": ids, "labels": label})
            begin = end
        return rows

    def text(self, index: int) -> str:
        """The text of a row, exactly as in its file."""
        return self._texts[int(self._places[index])]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row as it is read: truncated, with special tokens; int32."""
        own = np.concatenate([np.diff(offsets) for _values, offsets in self._flat])
        return np.minimum(own, self._room) + np.int32(len(self._prefix) + len(self._suffix))

    @cached_property
    def labels(self) -> np.ndarray:
        """Label id of each row, int32."""
        return self._column("label")

    @cached_property
    def lines(self) -> np.ndarray:
        """Line of each row in its file, int64."""
        return self._column("line")

    @cached_property
    def _places(self) -> np.ndarray:
        return self._column("row")

    @cached_property
    def _texts(self) -> TextRows:
        return TextRows(self.folder / self._stream[0].metadata[TEXTS_KEY].decode())

    @cached_property
    def _stream(self) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        with pa.memory_map(str(self.folder / self.split.file)) as file:
            reader = pa.ipc.open_stream(file)
            return reader.schema, list(reader)

    @cached_property
    def _flat(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per batch: all token ids one after the other, and where each row's begin."""
        columns = [batch.column("ids") for batch in self._stream[1]]
        return [(column.values.to_numpy(), column.offsets.to_numpy()) for column in columns]

    @cached_property
    def _starts(self) -> np.ndarray:
        return _starts(self._stream[1])

    def _column(self, name: str) -> np.ndarray:
        return np.concatenate([batch.column(name).to_numpy() for batch in self._stream[1]])

    def __getstate__(self) -> tuple[Path, Split, Prepared]:
        return self.folder, self.split, self.prepared

    def __setstate__(self, state: tuple[Path, Split, Prepared]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def _starts(chunks: Sequence[Any]) -> np.ndarray:
    """The first row of each chunk, and the number of all rows."""
    return np.cumsum([0] + [len(chunk) for chunk in chunks])


def _find(starts: np.ndarray, row: int) -> tuple[int, int]:
    """Chunk and place in it of a row."""
    chunk = int(np.searchsorted(starts, row, side="right")) - 1
    return chunk, row - int(starts[chunk])
