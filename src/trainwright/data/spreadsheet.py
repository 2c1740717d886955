"""The first sheet of an Excel workbook, read row by row."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from trainwright.data.cells import Cell, Noticed, RowBatch, cell_of, in_batches
from trainwright.data.complaints import missing_column, unreadable
from trainwright.errors import DataError
from trainwright.messages.text import _


class Spreadsheet:
    """An .xlsx file; names of columns stand in the first row, the line of a row is its number in the sheet.

    Formulas count as what they gave when the file was saved.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.noticed = Noticed()
        self._header = next((names for _row, names in self._sheet()), [])
        while self._header and self._header[-1] is None:  # empty columns that were formatted once
            self._header.pop()

    def columns(self) -> list[str]:
        return [str(name) for name in self._header if name is not None]

    def has(self, column: str) -> bool:
        return column in self.columns()

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The rows, a batch at a time; a cell is never a list.

        Raises:
            DataError: Two columns have the name asked for, or a row has values beyond the last column.
        """
        names = [None if name is None else str(name) for name in self._header]
        for name in columns:
            if names.count(name) > 1:
                text = _("{file} has several columns called '{column}'.").format(file=self.path, column=name)
                raise DataError(text, _("Give them different names."))
            if name not in names:
                raise missing_column(self.path, name, "data", self.columns())
        self.noticed.unused = [name for name in self.columns() if name not in columns]
        return in_batches(self._rows([names.index(name) for name in columns]), list(columns))

    def _rows(self, places: list[int]) -> Iterator[tuple[int, list[Cell]]]:
        self.noticed.blank_lines, blank = 0, 0
        for row, values in self._sheet():
            if row == 1:
                continue
            if all(value is None for value in values):
                blank += 1  # counted once a row follows: sheets often end in rows that were cleared
                continue
            self.noticed.blank_lines, blank = self.noticed.blank_lines + blank, 0
            if any(value is not None for value in values[len(self._header) :]):
                text = _("{file}, line {line}: a value stands beyond the last column that has a name.")
                raise DataError(text.format(file=self.path, line=row), _("Give every column a name in the first row."))
            yield row, [cell_of(values[place]) if place < len(values) else None for place in places]

    def _sheet(self) -> Iterator[tuple[int, list[Any]]]:
        """Number and values of each row of the first sheet."""
        book = _open(self.path)
        try:
            self.noticed.unread = book.sheetnames[1:]
            for row, values in enumerate(book.worksheets[0].iter_rows(values_only=True), 1):
                yield row, list(values)
        finally:
            book.close()


def _open(path: Path) -> Any:
    try:
        import openpyxl
    except ImportError as error:
        text = _("{file}: the library that reads Excel workbooks is not installed.").format(file=path)
        raise DataError(text, "pip install 'trainwright[xlsx]'") from error
    try:
        return openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise unreadable(path, error) from error
