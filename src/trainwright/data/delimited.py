"""CSV and TSV files, read a record at a time with every character kept."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO

from trainwright.data.cells import Cell, RowBatch, Span, in_batches
from trainwright.data.complaints import where
from trainwright.data.encodings import Encoding, noticed_encoding
from trainwright.data.textfile import ending_of, open_text
from trainwright.errors import DataError
from trainwright.messages.text import _

NO_FIELD_LIMIT = 2**31 - 1  # csv refuses fields above 131,072 characters unless told otherwise
LONGEST_RECORD = 100_000_000  # characters; where a quote stays open, memory must not fill with the rest of the file
DOUBTFUL_KEPT = 1000  # records kept for a closer look; a file with more is found out by these


class Delimited:
    """A CSV or TSV file.

    Quoting is strict: a quote mark opens a field only at its start, is doubled inside, and must be closed. In a TSV
    file, where many tools write quote marks as they are, they are plain characters if strict reading fails or
    swallows rows.
    """

    def __init__(self, path: Path, encoding: Encoding) -> None:
        csv.field_size_limit(NO_FIELD_LIMIT)
        self.path = path
        self.noticed = noticed_encoding(encoding)
        self._encoding = encoding.name
        self._delimiter = self._find_delimiter()
        self._header = self._read_header()
        if ending_of(path) == ".tsv":
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
                the name asked for, or a byte is not of the encoding.
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
        with open_text(self.path, self._encoding, newline="") as file:
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
            except _RecordTooLong:
                raise self._bad_quotes(first, lines.latest) from None
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
        if ending_of(self.path) == ".tsv":
            return "\t"
        with open_text(self.path, self._encoding, newline="") as file:
            header = file.readline()
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
        opened, closed = _last_quote(physical, self._delimiter)
        way_out = _('Close the quote, write quote marks inside a text twice (""), or save the file as JSON lines.')
        where = {"file": self.path, "line": first + opened, "last": first + (closed or 0)}
        if closed is None:
            text = _("{file}, line {line}: a quote is opened here and never closed.")
        elif opened == closed:
            text = _("{file}, line {line}: text follows a closing quote, so the record cannot be told apart.")
        else:
            text = _("{file}, line {line}: a quote is opened here and closed in line {last}, where text follows it.")
        return DataError(text.format(**where), way_out)


class _RecordTooLong(Exception):
    """A record that takes more of the file than any text does: a quote is open."""


class _Remembered:
    """Lines of a file, as csv takes them; ``latest`` holds those taken since it was last emptied."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.latest: list[str] = []

    def __iter__(self) -> Iterator[str]:
        characters = 0
        for line in self._file:
            characters = len(line) + (characters if self.latest else 0)
            self.latest.append(line)
            if characters > LONGEST_RECORD and len(self.latest) > 1:
                raise _RecordTooLong
            yield line


def _last_quote(physical: list[str], delimiter: str) -> tuple[int, int | None]:
    """The lines (from 0) of a record where the last quote opens and where it closes; None if it does not."""
    opened, closed, is_open = 0, None, False
    for number, line in enumerate(physical):
        place = 0
        while place < len(line):
            if is_open:
                place = _after_closing_quote(line, place)
                if place < 0:
                    break
                closed, is_open = number, False
            elif line[place] == '"' and (place == 0 or line[place - 1] == delimiter):
                opened, closed, is_open = number, None, True
                place += 1
            else:
                place += 1
    return opened, closed


def _after_closing_quote(line: str, place: int) -> int:
    """Where the text after a closing quote begins, doubled quotes passed over; -1 if none closes in this line."""
    while (place := line.find('"', place)) >= 0:
        if line[place + 1 : place + 2] != '"':
            return place + 1
        place += 2
    return -1
