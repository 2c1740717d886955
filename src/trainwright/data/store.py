"""Texts and tokens on disk, as Arrow streams that are memory-mapped and read without a copy.

A prepared folder holds one ``<split>.arrow`` per split (``ids: list<int32>``, ``label: int32`` or, for scores,
``float64``, ``line: int64``, ``row: int64``; of pairs also ``first: int32``, the tokens of the first text) and the
texts of each source file in a file of its own (``text: string``, of pairs also ``pair: string``), to which ``row``
points; so the token files stay small. Special tokens are not stored: truncation and special tokens are applied when a
row is read, so another ``max_length`` needs no new tokenising. `datasets.Dataset.from_file` opens these files as they
are.
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
PAIR_SCHEMA = TEXT_SCHEMA.append(pa.field("pair", pa.large_string()))
TOKEN_SCHEMA = pa.schema(
    [("ids", pa.list_(pa.int32())), ("label", pa.int32()), ("line", pa.int64()), ("row", pa.int64())]
)
TEXTS_KEY = b"trainwright.texts"  # in the schema of a split: the name of the file with its texts


def token_schema(texts: str, scores: bool, pairs: bool) -> pa.Schema:
    """The schema of a split whose texts lie in the file ``texts``."""
    schema = TOKEN_SCHEMA.set(1, pa.field("label", pa.float64())) if scores else TOKEN_SCHEMA
    schema = schema.append(pa.field("first", pa.int32())) if pairs else schema
    return schema.with_metadata({TEXTS_KEY: texts})


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
    """The texts of a source file by row number; of pairs, the first ones."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as file:
            self._batches = list(pa.ipc.open_stream(file))
        self._starts = _starts(self._batches)
        self.pairs = bool(self._batches) and self._batches[0].num_columns == 2

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> str:
        return self._cell(row, 0)

    def second(self, row: int) -> str | None:
        """The second text of a pair; None where rows have one text."""
        return self._cell(row, 1) if self.pairs else None

    def _cell(self, row: int, column: int) -> str:
        batch, place = _find(self._starts, row)
        text: str = self._batches[batch].column(column)[place].as_py()
        return text

    def take(self, rows: np.ndarray, column: int = 0) -> list[str]:
        """The texts of some rows, in ascending order of rows; the second ones of pairs are column 1."""
        cuts = np.searchsorted(rows, self._starts)
        texts: list[str] = []
        for batch in np.flatnonzero(np.diff(cuts)):
            places = rows[cuts[batch] : cuts[batch + 1]] - self._starts[batch]
            texts += self._batches[batch].column(column).take(pa.array(places)).to_pylist()
        return texts


class TokenRows:
    """The rows of one split as a model takes them: truncated, with special tokens.

    ``rows[i]`` is ``{"input_ids": list of int, "labels": label}``, of pairs with ``token_type_ids`` where the model has
    such. A label is an int for a class; for a set of labels a vector of 0 and 1, a float for a score, and for a rank
    the vector whose place k says whether the rank is above the k-th (float32, as binary cross-entropy takes them).
    Copies for other processes carry the path only and map the file again.

    Args:
        folder: The prepared folder.
        split: Which part of it.
        prepared: Says how rows are truncated and which special tokens surround them.
        kind: Of label; see :class:`trainwright.recipe.tasks.TaskKind`.
    """

    def __init__(self, folder: Path, split: Split, prepared: Prepared, kind: str = "class") -> None:
        self.folder, self.split, self.prepared, self.kind = folder, split, prepared, kind
        self._prefix, self._suffix = list(prepared.prefix), list(prepared.suffix)
        self._middle = list(prepared.middle or [])
        specials = len(self._prefix) + len(self._middle) + len(self._suffix)
        self._room = prepared.max_length - specials  # for a row's own tokens

    def __len__(self) -> int:
        return self.split.rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        (row,) = self.__getitems__([index % len(self)])
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in row.items()}

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Some rows at once, as a loader asks for them: ids are views of one array, filled from the memory map."""
        places = np.asarray(indices, dtype=np.int64)
        ends = np.cumsum(self.lengths[places], dtype=np.int64)
        flat = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
        rows, begin = [], 0
        for place, end, label in zip(places.tolist(), ends.tolist(), self._targets(places), strict=True):
            ids = flat[begin:end]
            row: dict[str, Any] = {"input_ids": ids, "labels": label}
            if self.prepared.middle is None:
                self._fill(ids, place)
            else:
                first = self._fill_pair(ids, place)
                if self.prepared.second_type is not None:
                    types = np.zeros(len(ids), np.int64)
                    types[first:] = self.prepared.second_type
                    row["token_type_ids"] = types
            rows.append(row)
            begin = end
        return rows

    def _fill(self, ids: np.ndarray, place: int) -> None:
        """A row's tokens between prefix and suffix, cut at the end."""
        chunk, row = _find(self._starts, place)
        values, offsets = self._flat[chunk]
        start, before, behind = int(offsets[row]), len(self._prefix), len(self._suffix)
        ids[:before] = self._prefix
        ids[before : len(ids) - behind] = values[start : start + len(ids) - before - behind]
        ids[len(ids) - behind :] = self._suffix

    def _fill_pair(self, ids: np.ndarray, place: int) -> int:
        """Both texts of a row, the longer one cut first; returns where the part of the second text begins."""
        chunk, row = _find(self._starts, place)
        values, offsets = self._flat[chunk]
        start, end = int(offsets[row]), int(offsets[row + 1])
        middle = start + int(self._firsts[place])
        first, second = longest_first(middle - start, end - middle, self._room)
        parts = [self._prefix, values[start : start + first], self._middle, values[middle : middle + second]]
        ids[:] = np.concatenate([*parts, self._suffix])
        return len(self._prefix) + first + len(self._middle)

    def _targets(self, places: np.ndarray) -> list[Any]:
        labels = self.labels[places]
        if self.kind == "score":
            return list(labels.astype(np.float32))  # of one precision, however batches are made of them
        return labels.tolist() if self._vectors is None else list(self._vectors[labels])

    @cached_property
    def _vectors(self) -> np.ndarray | None:
        """By id of a value, what the model is to put out for it, float32; None where that is the id itself."""
        count = len(self.prepared.labels)
        if self.kind == "rank":
            return np.tril(np.ones((count, count), np.float32), -1)[:, : count - 1]
        if self.kind != "set":
            return None
        vectors = np.zeros((len(self.prepared.label_sets), count), np.float32)
        for value, members in enumerate(self.prepared.label_sets):
            vectors[value, members] = 1.0
        return vectors

    def text(self, index: int) -> str:
        """The text of a row, exactly as in its file; of a pair, both with a line between them."""
        place = int(self._places[index])
        second = self._texts.second(place)
        return self._texts[place] if second is None else f"{self._texts[place]}\n{second}"

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row as it is read: truncated, with special tokens; int32."""
        own = np.concatenate([np.diff(offsets) for _values, offsets in self._flat])
        return np.minimum(own, self._room) + np.int32(self.prepared.max_length - self._room)

    @cached_property
    def labels(self) -> np.ndarray:
        """Id of each row's label or set of labels, int32; for scores the score, float64."""
        return self._column("label")

    @cached_property
    def _firsts(self) -> np.ndarray:
        return self._column("first")

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

    def __getstate__(self) -> tuple[Path, Split, Prepared, str]:
        return self.folder, self.split, self.prepared, self.kind

    def __setstate__(self, state: tuple[Path, Split, Prepared, str]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Tokens that stay of two texts: the longer one gives until both are alike, as `tokenizers` cuts pairs.

    Args:
        first: Tokens of the first text.
        second: Tokens of the second text.
        room: Tokens that both may have together.
    """
    if first + second <= room:
        return first, second
    shorter, longer = min(first, second), room - min(first, second)
    if longer < shorter:
        shorter, longer = room // 2, room - room // 2
    return (shorter, longer) if first <= second else (longer, shorter)


def _starts(chunks: Sequence[Any]) -> np.ndarray:
    """The first row of each chunk, and the number of all rows."""
    return np.cumsum([0] + [len(chunk) for chunk in chunks])


def _find(starts: np.ndarray, row: int) -> tuple[int, int]:
    """Chunk and place in it of a row."""
    chunk = int(np.searchsorted(starts, row, side="right")) - 1
    return chunk, row - int(starts[chunk])
