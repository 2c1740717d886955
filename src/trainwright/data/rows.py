"""Read a file once: its texts go to disk, and what must be known of each row stays in memory (33 bytes a row)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from trainwright.data.cells import Noticed, RowBatch
from trainwright.data.complaints import missing_column
from trainwright.data.files import Place
from trainwright.data.labels import LabelColumn, ScoreColumn, SetColumn
from trainwright.data.near import loosely
from trainwright.data.sources import Source, open_source
from trainwright.errors import DataError
from trainwright.messages.text import _

REPLACEMENT = "\ufffd"  # what a decoder leaves where it could not read a byte
PAIR = "\x1f"  # between two texts that are hashed together: Unicode's unit separator, which no text has
LINES_KEPT = 1000  # lines remembered of rows with such a character; more than anyone looks at


@dataclass
class RowTable:
    """What is known of each row of a file, as arrays of one length.

    Attributes:
        path: The file.
        hashes: 64-bit hash of the text, or of both texts of a pair, uint64. Equal hashes stand for equal texts: among
            ten million different texts two share one with a probability of about 3e-6.
        loose: The same of the text without case, spaces and width, uint64; see near.py.
        codes: Codes of the labels' values, int32.
        lines: Line where the record starts, int64.
        characters: Length of the text, or of both, int32.
        blank: Text, or one of two, is empty or only white space, bool.
        names: The labels' values by code; see labels.py.
        first_lines: First line of each value, by code.
        noticed: What the source noticed.
        replaced: First lines of texts with a replacement character.
        replaced_rows: Number of rows with one.
    """

    path: Path
    hashes: np.ndarray
    loose: np.ndarray
    codes: np.ndarray
    lines: np.ndarray
    characters: np.ndarray
    blank: np.ndarray
    names: list[str]
    first_lines: list[int]
    noticed: Noticed
    replaced: list[int]
    replaced_rows: int

    def __len__(self) -> int:
        return len(self.hashes)


def read_rows(
    place: Place,
    text: str,
    label: str | Sequence[str],
    keep: Callable[..., None],
    encoding: str = "auto",
    kind: str = "class",
    pair: str | None = None,
    separator: str | None = None,
) -> RowTable:
    """Read a labelled file from its first row to its last.

    Args:
        place: The file, or several.
        text: Column with the text.
        label: Column with the label; several for sets of labels in columns of 0 and 1.
        keep: Takes the texts of each batch; of pairs, the first and the second ones.
        encoding: The recipe's data.encoding.
        kind: Of label; see :class:`trainwright.recipe.tasks.TaskKind`.
        pair: Column with a second text.
        separator: What stands between the labels of a set.

    Raises:
        DataError: The file, a column, a row or a label cannot be used; with file and line.
    """
    source = open_source(place, encoding)
    path = source.path
    label_columns = [label] if isinstance(label, str) else list(label)
    text_columns = [text] if pair is None else [text, pair]
    check_columns(source, text_columns, label_columns)
    labels = _label_reader(path, label, kind, separator)
    parts: list[tuple[np.ndarray, ...]] = []
    replaced: list[int] = []
    replaced_rows = 0
    for batch in source.batches(text_columns + label_columns, lists=label_columns if kind == "set" else ()):
        texts = [
            [cell if type(cell) is str else str(cell or "") for cell in batch.columns[name]] for name in text_columns
        ]
        parts.append((*_of_texts(path, texts, batch), _codes(labels, batch, label_columns)))
        keep(*texts)
        bad = [line for line, *both in zip(batch.lines, *texts, strict=True) if REPLACEMENT in "".join(both)]
        replaced_rows += len(bad)
        replaced += bad[: LINES_KEPT - len(replaced)]
    if not parts:
        raise _no_rows(path)
    labels.check()
    hashes, loose, lines, characters, blank, codes = (np.concatenate(column) for column in zip(*parts, strict=True))
    names = labels.whole_names()
    noticed = source.noticed
    noticed.doubtful = [
        span for span in noticed.doubtful if all(value in names for value in span.values[label_columns[0]])
    ]
    return RowTable(
        path,
        hashes,
        loose,
        codes,
        lines,
        characters,
        blank,
        names,
        labels.first_lines,
        noticed,
        replaced,
        replaced_rows,
    )


def _label_reader(path: Path, label: str | Sequence[str], kind: str, separator: str | None) -> LabelColumn:
    if kind == "set":
        if isinstance(label, str):
            return SetColumn(path, label, separator=separator)
        return SetColumn(path, ", ".join(label), columns=tuple(label))
    assert isinstance(label, str)  # the recipe's own check
    return ScoreColumn(path, label) if kind == "score" else LabelColumn(path, label)


def _codes(labels: LabelColumn, batch: RowBatch, columns: list[str]) -> np.ndarray:
    if isinstance(labels, SetColumn) and labels.columns:
        return labels.codes_of_columns(batch.columns, batch.lines)
    return labels.codes(batch.columns[columns[0]], batch.lines)


def check_columns(source: Source, texts: Sequence[str], labels: Sequence[str]) -> None:
    """Check that all columns are there.

    Raises:
        DataError: One is missing, or there are no rows at all.
    """
    keys = zip(("data.text", "data.text_pair"), texts, strict=False)
    for key, column in (*keys, *(("data.label", name) for name in labels)):
        if not source.has(column):
            found = source.columns()
            raise missing_column(source.path, column, key, found) if found else _no_rows(source.path)


def _no_rows(path: Path) -> DataError:
    return DataError(_("{file} has no rows.").format(file=path))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


def _of_texts(path: Path, columns: list[list[str]], batch: RowBatch) -> tuple[np.ndarray, ...]:
    digests, loose = [], []
    texts = columns[0] if len(columns) == 1 else [PAIR.join(both) for both in zip(*columns, strict=True)]
    for text, line in zip(texts, batch.lines, strict=True):
        try:
            digests.append(_digest(text))
            loose.append(_digest(PAIR.join(map(loosely, text.split(PAIR)))))
        except UnicodeEncodeError as error:
            message = _("{file}, line {line}: the text has half a surrogate pair (U+{code:04X}), no character.")
            raise DataError(
                message.format(file=path, line=line, code=ord(text[error.start])), _("Correct that row.")
            ) from error
    return (
        np.frombuffer(b"".join(digests), dtype="<u8"),
        np.frombuffer(b"".join(loose), dtype="<u8"),
        np.array(batch.lines, dtype=np.int64),
        np.fromiter(map(len, texts), dtype=np.int32, count=len(texts)) - (len(columns) - 1),
        np.logical_or.reduce([_blank(column) for column in columns]),
    )


def _blank(texts: list[str]) -> np.ndarray:
    return np.fromiter((not text or text.isspace() for text in texts), dtype=np.bool_, count=len(texts))
