"""Read a file once: its texts go to disk, and what must be known of each row stays in memory (33 bytes a row)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from trainwright.data.cells import Noticed, RowBatch
from trainwright.data.complaints import missing_column
from trainwright.data.files import Place
from trainwright.data.labels import LabelColumn
from trainwright.data.near import loosely
from trainwright.data.sources import Source, open_source
from trainwright.errors import DataError
from trainwright.messages.text import _

REPLACEMENT = "\ufffd"  # what a decoder leaves where it could not read a byte
LINES_KEPT = 1000  # lines remembered of rows with such a character; more than anyone looks at


@dataclass
class RowTable:
    """What is known of each row of a file, as arrays of one length.

    Attributes:
        path: The file.
        hashes: 64-bit hash of the text, uint64. Equal hashes stand for equal texts: among ten million different
            texts two share one with a probability of about 3e-6.
        loose: The same of the text without case, spaces and width, uint64; see near.py.
        codes: Label codes, int32.
        lines: Line where the record starts, int64.
        characters: Length of the text, int32.
        blank: Text is empty or only white space, bool.
        names: Label names by code.
        first_lines: First line of each label, by code.
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
    place: Place, text: str, label: str, keep: Callable[[list[str]], None], encoding: str = "auto"
) -> RowTable:
    """Read a labelled file from its first row to its last.

    Args:
        place: The file, or several.
        text: Column with the text.
        label: Column with the label.
        keep: Takes the texts of each batch.
        encoding: The recipe's data.encoding.

    Raises:
        DataError: The file, a column, a row or a label cannot be used; with file and line.
    """
    source = open_source(place, encoding)
    path = source.path
    check_columns(source, text, label)
    labels = LabelColumn(path, label)
    parts: list[tuple[np.ndarray, ...]] = []
    replaced: list[int] = []
    replaced_rows = 0
    for batch in source.batches([text, label]):
        texts = [cell if type(cell) is str else str(cell or "") for cell in batch.columns[text]]
        parts.append((*_of_texts(path, texts, batch), labels.codes(batch.columns[label], batch.lines)))
        keep(texts)
        bad = [line for line, value in zip(batch.lines, texts, strict=True) if REPLACEMENT in value]
        replaced_rows += len(bad)
        replaced += bad[: LINES_KEPT - len(replaced)]
    if not parts:
        raise _no_rows(path)
    labels.check()
    hashes, loose, lines, characters, blank, codes = (np.concatenate(column) for column in zip(*parts, strict=True))
    names = labels.whole_names()
    noticed = source.noticed
    noticed.doubtful = [span for span in noticed.doubtful if all(value in names for value in span.values[label])]
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


def check_columns(source: Source, text: str, label: str) -> None:
    """Check that both columns are there.

    Raises:
        DataError: One is missing, or there are no rows at all.
    """
    for column, key in ((text, "data.text"), (label, "data.label")):
        if not source.has(column):
            found = source.columns()
            raise missing_column(source.path, column, key, found) if found else _no_rows(source.path)


def _no_rows(path: Path) -> DataError:
    return DataError(_("{file} has no rows.").format(file=path))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


def _of_texts(path: Path, texts: list[str], batch: RowBatch) -> tuple[np.ndarray, ...]:
    digests, loose = [], []
    for text, line in zip(texts, batch.lines, strict=True):
        try:
            digests.append(_digest(text))
            loose.append(_digest(loosely(text)))
        except UnicodeEncodeError as error:
            message = _("{file}, line {line}: the text has half a surrogate pair (U+{code:04X}), no character.")
            raise DataError(
                message.format(file=path, line=line, code=ord(text[error.start])), _("Correct that row.")
            ) from error
    return (
        np.frombuffer(b"".join(digests), dtype="<u8"),
        np.frombuffer(b"".join(loose), dtype="<u8"),
        np.array(batch.lines, dtype=np.int64),
        np.fromiter(map(len, texts), dtype=np.int32, count=len(texts)),
        np.fromiter((not text or text.isspace() for text in texts), dtype=np.bool_, count=len(texts)),
    )
