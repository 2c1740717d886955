"""CSV and TSV files, read a record at a time with every character kept."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from trainwright.data.cells import Cell, Noticed, RowBatch, Span, in_batches
from trainwright.data.complaints import not_utf8, where
from trainwright.errors import DataError
from trainwright.messages.text import _

NO_FIELD_LIMIT = 2**31 - 1  # csv refuses fields above 131,072 characters unless told otherwise
DOUBTFUL_KEPT = 1000  # records kept for a closer look; a file with more is found out by these


class Delimited:
    """A CSV or TSV file.

    Quoting is strict: a quote mark opens a field only at its start, is doubled inside, and must be closed. In a TSV
    file, where many tools write quote marks as they are, they are plain characters if strict reading fails or
    swallows rows.
    """

    def __init__(self, path: Path) -> None:
        csv.field_size_limit(NO_FIELD_LIMIT)
        self.path = path
        self.noticed = Noticed()
        self._delimiter = self._find_delimiter()
        self._header = self._read_header()
        if path.suffix.lower() == ".tsv":
            self.noticed.plain_quotes = self._quotes_are_text()

    def columns(self) -> list[str]:
        """Names in the first line."""
        return self._header

    def has(self, column: str) -> bool:
        return column in self._header

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The rows, a batch at a time; a cell is always text here, so no column holds ``lists``.

        Raises:
            DataError: A row has another number of fields than the header, a quote is not closed, two columns have
                the name asked for, or the file is not UTF-8.
        """
        for name in columns:
            if self._header.count(name) > 1:
                text = _("{file} has several columns called '{column}'.").format(file=self.path, column=name)
                raise DataError(text, _("Give them different names."))
        self.noticed.unused = [name for name in self._header if name not in columns]
        return in_batches(self._rows(list(columns)), list(columns))

    # -- rows -----------------------------------------------------------------------------------------------

    def _rows(self, columns: list[str]) -> Iterator[tuple[int, list[Cell]]]:
        places = [self._header.index(name) for name in columns]
        uneven: list[int] = []
        records = self._records(self.noticed.plain_quotes)
        next(records)  # the header
        for line, row, physical in records:
            if not row:
                self.noticed.blank_lines += 1
            elif len(row) != len(self._header):
                uneven.append(line)
            elif not uneven:
                if len(physical) > 1:
                    self._notice_span(line, physical, columns, places)
                yield line, [row[place] for place in places]
        if uneven:
            text = _("{file}: rows with more or fewer fields than the {fields} of the header: {count} (lines {lines}).")
            raise DataError(
                text.format(fields=len(self._header), **where(self.path, uneven)),
                _("A text with the delimiter in it must stand in double quotes."),
            )

    def _records(self, plain_quotes: bool) -> Iterator[tuple[int, list[str], list[str]]]:
        """Each record: its first line, its fields, its physical lines."""
        with open(self.path, encoding="utf-8-sig", newline="") as file:
            lines = _Remembered(file)
            reader = csv.reader(
                lines,
                delimiter=self._delimiter,
                quoting=csv.QUOTE_NONE if plain_quotes else csv.QUOTE_MINIMAL,
                strict=True,
            )
            first = 1
            try:
                for row in reader:
                    yield first, row, lines.latest
                    lines.latest = []
                    first = reader.line_num + 1
            except UnicodeDecodeError as error:
                raise not_utf8(self.path) from error
            except csv.Error as error:
                raise self._bad_quotes(first, lines.latest) from error

    def _notice_span(self, first: int, physical: list[str], columns: list[str], places: list[int]) -> None:
        span = (first, first + len(physical) - 1)
        longest = self.noticed.longest_span
        self.noticed.spanning += 1
        if longest is None or span[1] - span[0] > longest[1] - longest[0]:
            self.noticed.longest_span = span
        rows = self._rows_inside(physical)
        if rows and len(self.noticed.doubtful) < DOUBTFUL_KEPT:
            pairs = zip(columns, places, strict=True)
            values = {name: [row[place].strip('"') for row in rows] for name, place in pairs}
            self.noticed.doubtful.append(Span(*span, values))

    def _rows_inside(self, physical: list[str]) -> list[list[str]]:
        """What the lines of a record are with quote marks as plain characters: a row each, or else nothing."""
        rows = list(csv.reader(physical, delimiter=self._delimiter, quoting=csv.QUOTE_NONE))
        return rows if all(len(row) == len(self._header) for row in rows) else []

    # -- what kind of file it is ----------------------------------------------------------------------------

    def _find_delimiter(self) -> str:
        if self.path.suffix.lower() == ".tsv":
            return "\t"
        try:
            with open(self.path, encoding="utf-8-sig", newline="") as file:
                header = file.readline()
        except UnicodeDecodeError as error:
            raise not_utf8(self.path) from error
        if "," in header or not (";" in header or "\t" in header):
            return ","
        self.noticed.delimiter = max(";", "\t", key=header.count)
        return self.noticed.delimiter

    def _read_header(self) -> list[str]:
        for _line, row, _physical in self._records(plain_quotes=False):
            return row
        raise DataError(_("{file} is empty.").format(file=self.path))

    def _quotes_are_text(self) -> bool:
        try:
            records = self._records(plain_quotes=False)
            return any(len(physical) > 1 and self._rows_inside(physical) for _line, _row, physical in records)
        except DataError:
            fields = len(self._header)
            return all(len(row) in (0, fields) for _line, row, _physical in self._records(plain_quotes=True))

    def _bad_quotes(self, first: int, physical: list[str]) -> DataError:
        opened = _line_of_open_quote(physical, self._delimiter)
        way_out = _('Close the quote, write quote marks inside a text twice (""), or save the file as JSON lines.')
        if opened is not None:
            text = _("{file}, line {line}: a quote is opened here and never closed.")
            return DataError(text.format(file=self.path, line=first + opened), way_out)
        text = _("{file}, lines {first} to {last}: text follows a closing quote, so the record cannot be told apart.")
        return DataError(text.format(file=self.path, first=first, last=first + len(physical) - 1), way_out)


class _Remembered:
    """Lines of a file, as csv takes them; ``latest`` holds those taken since it was last emptied."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.latest: list[str] = []

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.latest.append(line)
            yield line


def _line_of_open_quote(physical: list[str], delimiter: str) -> int | None:
    """The line (from 0) of a record where a quote opens that is never closed; None if every quote is closed."""
    opened: int | None = None
    for number, line in enumerate(physical):
        place = 0
        while place < len(line):
            if opened is not None:
                place = _after_closing_quote(line, place)
                opened = None if place >= 0 else opened
                if place < 0:
                    break
            elif line[place] == '"' and (place == 0 or line[place - 1] == delimiter):
                opened, place = number, place + 1
            else:
                place += 1
    return opened


def _after_closing_quote(line: str, place: int) -> int:
    """Where the text after a closing quote begins, doubled quotes passed over; -1 if none closes in this line."""
    while (place := line.find('"', place)) >= 0:
        if line[place + 1 : place + 2] != '"':
            return place + 1
        place += 2
    return -1
