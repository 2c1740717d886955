"""A JSON file that holds one array of objects, read piece by piece: the array need not fit into memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

from trainwright.data.jsonlines import DECODER, JsonLines
from trainwright.data.textfile import open_text
from trainwright.errors import DataError
from trainwright.messages.text import _

PIECE = 1 << 20  # characters read at once
LONGEST = 200_000_000  # characters of one object; a brace that stays open must not fill the memory
SPACE = re.compile(r"[ \t\r\n]*")


class JsonArray(JsonLines):
    """``[{"text": ...}, ...]`` over any number of lines; the line of a row is where its object begins."""

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with open_text(self.path, self._encoding, newline="\n") as file:
            text = _Text(file)
            text.next()
            text.take()  # the bracket by which the format was told
            while text.next() != "]":
                line, value = text.line, self._element(text)
                if not isinstance(value, dict):
                    raise self._wrong(line, _("an object is expected"))
                yield line, value
                if text.next() == ",":
                    text.take()
                elif text.next() != "]":
                    raise self._wrong(text.line, _("a comma or the end of the array is expected"))
            text.take()
            if text.next():
                raise self._wrong(text.line, _("more follows after the end of the array"))

    def _element(self, text: _Text) -> Any:
        line = text.line
        while True:
            try:
                value, end = DECODER.raw_decode(text.held, text.place)
            except (json.JSONDecodeError, RecursionError) as error:
                if len(text.held) > LONGEST or not text.more():
                    raise self._wrong(line, str(error)) from error
                continue
            text.go_to(end)
            return value

    def _wrong(self, line: int, reason: str) -> DataError:
        text = _("{file}, line {line} is no JSON: {reason}.")
        example = '[{"text": "...", "label": "..."}, ...]'
        way_out = _("The file must be one array of objects, such as {example}.").format(example=example)
        return DataError(text.format(file=self.path, line=line, reason=reason), way_out)


class _Text:
    """The text of a file from the place that was read to; counts lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._piece = PIECE
        self.held, self.place = "", 0
        self.line = 1

    def more(self) -> bool:
        """Read on; each time twice as much, so that a long object costs no more than its length."""
        read = self._file.read(self._piece)
        self._piece *= 2
        self.held, self.place = self.held[self.place :] + read, 0
        return bool(read)

    def next(self) -> str:
        """The next character that is no white space, which stays; empty at the end."""
        while True:
            space = SPACE.match(self.held, self.place)
            assert space is not None
            self.go_to(space.end())
            if self.place < len(self.held) or not self.more():
                return self.held[self.place : self.place + 1]

    def take(self) -> None:
        self.place += 1

    def go_to(self, place: int) -> None:
        self.line += self.held.count("\n", self.place, place)
        self.place, self._piece = place, PIECE
