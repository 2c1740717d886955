"""A file whose rows come back with predictions: what stood there stays as it is, byte for byte.

Rows are found by the reader that training uses, so that both agree on delimiter, quotes and blank lines. What is
written are the file's own lines, with the new cells or keys put behind the old ones.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path

from trainwright.data.complaints import missing_column
from trainwright.data.jsonarray import JsonArray
from trainwright.data.sources import open_source
from trainwright.errors import DataError
from trainwright.messages.text import _

DELIMITED = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".json", ".ndjson")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so
DIGITS = 6  # of a probability, after the point


class Table:
    """A CSV, TSV or JSONL file with a column of text.

    It is read through once when it is opened, so that a broken row is named before a model is loaded.

    Args:
        path: The file.
        column: Column with the text.

    Attributes:
        rows: Number of rows.

    Raises:
        DataError: The file is missing, broken or of another format, or has no such column.
    """

    def __init__(self, path: Path, column: str) -> None:
        ending = path.suffix.lower()
        if ending not in DELIMITED + JSON_LINES:
            raise DataError(_("{file} is none of CSV, TSV and JSONL.").format(file=path), _("Save it as one of them."))
        self._source = open_source(path)
        if isinstance(self._source, JsonArray):
            text = _("{file} is one JSON array; predictions are written behind rows that have a line each.")
            raise DataError(text.format(file=path), _("Save it as JSON lines."))
        self._encoding = self._source.noticed.encoding or "utf-8"
        self._column = column
        self._is_json = ending in JSON_LINES
        self._delimiter = self._source.noticed.delimiter or ("\t" if ending == ".tsv" else ",")
        if not self._source.has(column):
            found = self._source.columns()
            no_rows = DataError(_("{file} has no rows.").format(file=path))
            raise missing_column(path, column, "--column", found) if found else no_rows
        self.rows = sum(len(batch.lines) for batch in self._source.batches([column]))

    def pieces(self) -> Iterator[tuple[str, str]]:
        """First what stands before the rows, with an empty text; then the text of each row, and its lines.

        A row without text has an empty one. Blank lines belong to the row before them.
        """
        batches = self._source.batches([self._column])
        rows = (row for batch in batches for row in zip(batch.lines, batch.columns[self._column], strict=True))
        # Lines end where the reader ends them: csv at any kind of line break, JSON lines at "\n" only.
        with open(self._source.path, encoding=self._encoding, newline="\n" if self._is_json else "") as file:
            for (first, text), (following, _text) in pairwise(chain([(1, "")], rows, [(sys.maxsize, "")])):
                yield str(text or ""), "".join(islice(file, following - first))

    def encoding_with(self, labels: Sequence[str]) -> str:
        """The encoding to write in: the file's own, or UTF-8 where that lacks a character of a label."""
        try:
            "".join(labels).encode(self._encoding)
        except UnicodeEncodeError:
            return "utf-8"
        return self._encoding

    def head_with_names(self, head: str, labels: Sequence[str]) -> str:
        """What stands before the rows, with the names of the new columns.

        Raises:
            DataError: The file has a column of one of these names.
        """
        probabilities = ["probability"] if self._is_json else [f"probability_{label}" for label in labels]
        added = ["predicted", "confidence", *probabilities]
        taken = [name for name in self._source.columns() if name in added]
        if taken:
            raise DataError(
                _("{file} already has the columns {columns}.").format(file=self._source.path, columns=", ".join(taken)),
                _("Rename or remove them first."),
            )
        return head if self._is_json else self._with_cells(head, added)

    def row_with_prediction(self, lines: str, label: str, probabilities: dict[str, float]) -> str:
        """The lines of a row with the label, its probability and those of all labels."""
        confidence = probabilities[label]
        if self._is_json:
            rounded = {name: round(value, DIGITS) for name, value in probabilities.items()}
            added = {"predicted": label, "confidence": round(confidence, DIGITS), "probability": rounded}
            row = lines.rstrip()  # ends with the brace of the object
            return f"{row[:-1]}, {json.dumps(added, ensure_ascii=False)[1:]}{lines[len(row) :]}"
        values = [f"{value:.{DIGITS}f}" for value in (confidence, *probabilities.values())]
        return self._with_cells(lines, [f"'{label}" if label.startswith(FORMULA_STARTS) else label, *values])

    def _with_cells(self, lines: str, cells: list[str]) -> str:
        written = io.StringIO()
        csv.writer(written, delimiter=self._delimiter, lineterminator="").writerow(cells)
        row = lines.rstrip("\r\n")
        return f"{row}{self._delimiter}{written.getvalue()}{lines[len(row) :]}"
