"""A file whose rows come back with predictions: what stood there stays as it is, byte for byte.

Rows are found by the reader that training uses, so that both agree on delimiter, quotes and blank lines. What is
written are the file's own lines, with the new cells or keys put behind the old ones.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from trainwright.data.complaints import missing_column
from trainwright.data.jsonarray import JsonArray
from trainwright.data.sources import open_source
from trainwright.errors import DataError
from trainwright.messages.text import _

DELIMITED = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".json", ".ndjson")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so
DIGITS = 6  # of a probability, after the point
SEPARATOR = "|"  # between several labels in one cell


class Table:
    """A CSV, TSV or JSONL file with a column of text.

    It is read through once when it is opened, so that a broken row is named before a model is loaded.

    Args:
        path: The file.
        column: Column with the text.
        pair: Column with a second text; None for single texts.

    Attributes:
        rows: Number of rows.

    Raises:
        DataError: The file is missing, broken or of another format, or has no such column.
    """

    def __init__(self, path: Path, column: str, pair: str | None = None) -> None:
        ending = path.suffix.lower()
        if ending not in DELIMITED + JSON_LINES:
            raise DataError(_("{file} is none of CSV, TSV and JSONL.").format(file=path), _("Save it as one of them."))
        self._source = open_source(path)
        if isinstance(self._source, JsonArray):
            text = _("{file} is one JSON array; predictions are written behind rows that have a line each.")
            raise DataError(text.format(file=path), _("Save it as JSON lines."))
        self._encoding = self._source.noticed.encoding or "utf-8"
        self._columns = [column] if pair is None else [column, pair]
        self._is_json = ending in JSON_LINES
        self._delimiter = self._source.noticed.delimiter or ("\t" if ending == ".tsv" else ",")
        lacking = next((name for name in self._columns if not self._source.has(name)), None)
        if lacking is not None:
            found = self._source.columns()
            no_rows = DataError(_("{file} has no rows.").format(file=path))
            raise (
                missing_column(path, lacking, "--column" if lacking == column else "data.text_pair", found)
                if found
                else no_rows
            )
        self.rows = sum(len(batch.lines) for batch in self._source.batches(self._columns))

    def pieces(self) -> Iterator[tuple[str | tuple[str, str], str]]:
        """First what stands before the rows, with an empty text; then the text or pair of each row, and its lines.

        A row without text has an empty one. Blank lines belong to the row before them.
        """
        # Lines end where the reader ends them: csv at any kind of line break, JSON lines at "\n" only.
        with open(self._source.path, encoding=self._encoding, newline="\n" if self._is_json else "") as file:
            for (first, text), (following, _text) in pairwise(chain([(1, "")], self._rows(), [(sys.maxsize, "")])):
                yield text, "".join(islice(file, following - first))

    def _rows(self) -> Iterator[tuple[int, str | tuple[str, str]]]:
        for batch in self._source.batches(self._columns):
            for line, *cells in zip(batch.lines, *(batch.columns[name] for name in self._columns), strict=True):
                texts = [str(cell or "") for cell in cells]
                yield line, texts[0] if len(texts) == 1 else (texts[0], texts[1])

    def encoding_with(self, labels: Sequence[str]) -> str:
        """The encoding to write in: the file's own, or UTF-8 where that lacks a character of a label."""
        try:
            "".join(labels).encode(self._encoding)
        except UnicodeEncodeError:
            return "utf-8"
        return self._encoding

    def head_with_names(self, head: str, columns: Mapping[str, Sequence[str]]) -> str:
        """What stands before the rows, with the names of the new columns.

        Args:
            head: The lines before the rows.
            columns: Names of what is added; in a delimited file each label below a name has a column of its own.

        Raises:
            DataError: The file has a column of one of these names.
        """
        added = list(columns)
        if not self._is_json:
            added = [one for name, of in columns.items() for one in ([f"{name}_{label}" for label in of] or [name])]
        taken = [name for name in self._source.columns() if name in added]
        if taken:
            raise DataError(
                _("{file} already has the columns {columns}.").format(file=self._source.path, columns=", ".join(taken)),
                _("Rename or remove them first."),
            )
        return head if self._is_json else self._with_cells(head, added)

    def row_with_prediction(self, lines: str, record: dict[str, Any]) -> str:
        """The lines of a row with what the model said of it: predicted, confidence, probability."""
        if self._is_json:
            added = json.dumps({name: _rounded(value) for name, value in record.items()}, ensure_ascii=False)
            row = lines.rstrip()  # ends with the brace of the object
            return f"{row[:-1]}, {added[1:]}{lines[len(row) :]}"
        cells: list[str] = []
        for value in record.values():
            cells += map(_cell, value.values()) if isinstance(value, dict) else [_cell(value)]
        return self._with_cells(lines, cells)

    def _with_cells(self, lines: str, cells: list[str]) -> str:
        written = io.StringIO()
        csv.writer(written, delimiter=self._delimiter, lineterminator="").writerow(cells)
        row = lines.rstrip("\r\n")
        return f"{row}{self._delimiter}{written.getvalue()}{lines[len(row) :]}"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def _cell(value: Any) -> str:
    """A label, several, or a number as a cell; a label that a spreadsheet would run is quoted."""
    if isinstance(value, float):
        return f"{value:.{DIGITS}f}"
    text = SEPARATOR.join(value) if isinstance(value, list) else str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
