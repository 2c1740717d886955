"""JSON lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from trainwright.data.cells import Cell, Number, RowBatch, cell_of, in_batches
from trainwright.data.complaints import where
from trainwright.data.encodings import Encoding, noticed_encoding
from trainwright.data.textfile import open_text
from trainwright.errors import DataError
from trainwright.messages.text import _

DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)


class JsonLines:
    """A file of JSON lines. Rows may have different keys; numbers keep their digits."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self.path = path
        self.noticed = noticed_encoding(encoding)
        self._encoding = encoding.name

    def columns(self) -> list[str]:
        """All keys of all rows, in the order in which they first appear."""
        return list(dict.fromkeys(key for _line, row in self._objects() for key in row))

    def has(self, column: str) -> bool:
        """Whether any row has this key."""
        return any(column in row for _line, row in self._objects())

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The rows, a batch at a time; ``lists`` names columns that may hold lists.

        Raises:
            DataError: A line is no JSON object, a row lacks one of the columns, or holds a list where none may be.
        """
        return in_batches(self._rows(list(columns), lists), list(columns))

    def _rows(self, columns: list[str], lists: Collection[str]) -> Iterator[tuple[int, list[Cell]]]:
        lacking: dict[str, list[int]] = {}
        keys: dict[str, None] = {}
        for line, row in self._objects():
            keys.update(dict.fromkeys(row))
            missing = [name for name in columns if name not in row]
            for name in missing:
                lacking.setdefault(name, []).append(line)
            if not lacking:
                yield line, [self._cell(line, name, row[name], name in lists) for name in columns]
        self.noticed.unused = [name for name in keys if name not in columns]
        for name, lines in lacking.items():
            text = _("{file}: rows without '{name}': {count} (lines {lines}).").format(
                name=name, **where(self.path, lines)
            )
            raise DataError(text, _("Give every row a '{name}', or take these rows out.").format(name=name))

    def _cell(self, line: int, name: str, value: Any, may_be_list: bool) -> Cell:
        try:
            return cell_of(value, may_be_list)
        except TypeError as error:
            text = _("{file}, line {line}: '{name}' is a {kind}, not one text or number.")
            raise DataError(text.format(file=self.path, line=line, name=name, kind=error)) from error

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self.noticed.blank_lines = 0
        with open_text(self.path, self._encoding, newline="\n") as file:
            for line, raw in enumerate(file, 1):
                if raw.strip():
                    yield line, self._parse(line, raw)
                else:
                    self.noticed.blank_lines += 1

    def _parse(self, line: int, raw: str) -> dict[str, Any]:
        try:
            value = DECODER.decode(raw.strip())
        except (ValueError, RecursionError) as error:
            text = _("{file}, line {line} is no JSON: {reason}.")
            raise DataError(text.format(file=self.path, line=line, reason=error), _expected()) from error
        if not isinstance(value, dict):
            text = _("{file}, line {line} is JSON, but no object.").format(file=self.path, line=line)
            raise DataError(text, _expected())
        return value


def _expected() -> str:
    example = '{"text": "...", "label": "..."}'
    return _("Each line must be an object of its own, such as {example}.").format(example=example)
