"""The values of a table as exact text, with what kind of value each was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

BATCH_ROWS = 4096  # a few hundred kilobytes of usual text: big enough for speed, small enough for any machine
BATCH_CHARACTERS = 8_000_000  # ends a batch of very long texts early, so that memory stays bounded


class Number(str):
    """The digits of a number as they stand in the file."""

    __slots__ = ()


class Boolean(str):
    """``true`` or ``false``."""

    __slots__ = ()


class Items(str):
    """A list of values: the JSON text of a list of strings, so that equal lists are equal cells."""

    __slots__ = ()

    def values(self) -> list[str]:
        found: list[str] = json.loads(self)
        return found


Cell = str | None  # a Number, Boolean or Items where the file says so; None where it says null


@dataclass
class RowBatch:
    """Some rows of a file.

    Attributes:
        lines: The physical line where each record starts, from 1; the row's number in a format without lines.
        columns: By name, one cell a row.
    """

    lines: list[int]
    columns: dict[str, list[Cell]]


@dataclass
class Span:
    """A record of a delimited file that takes several physical lines, each of which could be a row of its own.

    Attributes:
        first: Its first line.
        last: Its last line.
        values: By requested column, what each of its lines holds when quote marks are taken as plain characters.
    """

    first: int
    last: int
    values: dict[str, list[str]]


@dataclass
class Noticed:
    """What a source noticed while it was read; complete when its last batch has been given out.

    Attributes:
        encoding: Of a text file; None where the format has one of its own.
        encoding_because: Why it was taken.
        encoding_doubtful: Others would fit as well.
        delimiter: The delimiter, where it is not the one that the file's ending promises.
        plain_quotes: Quote marks were read as part of the texts.
        blank_lines: Lines with nothing in them, which are no rows.
        spanning: Number of records that take several lines.
        longest_span: First and last line of the longest of them.
        doubtful: Those whose every line could be a row of its own.
        unused: Columns that are not read.
        unread: Sheets that are not read.
        files: Where several files are read as one: each, and what its first line is counted as.
    """

    encoding: str | None = None
    encoding_because: str = ""
    encoding_doubtful: bool = False
    delimiter: str | None = None
    plain_quotes: bool = False
    blank_lines: int = 0
    spanning: int = 0
    longest_span: tuple[int, int] | None = None
    doubtful: list[Span] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)


def in_batches(rows: Iterable[tuple[int, list[Cell]]], columns: list[str]) -> Iterator[RowBatch]:
    """Gather rows into batches.

    Args:
        rows: Line and cells, in the order of ``columns``.
        columns: Names of the cells.
    """
    lines: list[int] = []
    cells: list[list[Cell]] = []
    characters = 0
    for line, row in rows:
        lines.append(line)
        cells.append(row)
        characters += sum(len(cell) for cell in row if cell)
        if len(lines) == BATCH_ROWS or characters >= BATCH_CHARACTERS:
            yield _batch(lines, cells, columns)
            lines, cells, characters = [], [], 0
    if lines:
        yield _batch(lines, cells, columns)


def _batch(lines: list[int], cells: list[list[Cell]], columns: list[str]) -> RowBatch:
    return RowBatch(lines, {name: [row[place] for row in cells] for place, name in enumerate(columns)})


def cell_of(value: Any, may_be_list: bool = False) -> Cell:
    """The cell of a parsed value.

    Args:
        value: What a parser made of it.
        may_be_list: A list of single values becomes :class:`Items`.

    Raises:
        TypeError: It is a mapping, or a list where none may be, which is no single value.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return Boolean("true" if value else "false")
    if may_be_list and isinstance(value, (list, tuple)):
        return Items(json.dumps([cell_of(item) or "" for item in value], ensure_ascii=False))
    if isinstance(value, (list, tuple, dict)):
        raise TypeError(type(value).__name__)
    if isinstance(value, float) and value != value:  # pandas writes a missing number as not-a-number
        return None
    return Number(value) if isinstance(value, (int, float)) else str(value)
