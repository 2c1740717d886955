"""CoNLL columns: a token a line with its tag, an empty line between sentences."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from trainwright.data.cells import Cell, RowBatch, cell_of, in_batches
from trainwright.data.complaints import where
from trainwright.data.encodings import Encoding, noticed_encoding
from trainwright.data.textfile import open_text
from trainwright.errors import DataError
from trainwright.messages.text import _

CONLL_ENDINGS = (".conll", ".bio", ".iob", ".iob2")
TOKENS, TAGS = "tokens", "tags"
TAG = re.compile(r"O|[BIESLUM]-\S+")  # BIO, IOBES, BILOU and BMES
COMMENT = re.compile(r"#\s*\w+( \w+)*\s*=|# newdoc|# newpar")  # as CoNLL-U writes them; a token may be "#" too
DOCUMENT = "-DOCSTART-"  # CoNLL 2003 begins a document so; it is no sentence


class Conll:
    """Sentences with the columns ``tokens`` and ``tags``, both lists; the line of a row is where its sentence begins.

    Columns are parted by tabs, or else by spaces. The tags stand in the last column whose every value is O or a tag
    such as B-PER; the tokens in the first, or in the second where the first counts them.
    """

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self.path = path
        self.noticed = noticed_encoding(encoding)
        self._encoding = encoding.name
        self._token, self._tag = self._find_columns()

    def columns(self) -> list[str]:
        return [TOKENS, TAGS]

    def has(self, column: str) -> bool:
        return column in (TOKENS, TAGS)

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The sentences, a batch at a time; ``lists`` must name the columns, since both hold lists.

        Raises:
            DataError: A column is asked for where no list may be.
        """
        return in_batches(self._rows(list(columns), lists), list(columns))

    def _rows(self, columns: list[str], lists: Collection[str]) -> Iterator[tuple[int, list[Cell]]]:
        for name in columns:
            if name not in lists:
                text = _("{file}: '{column}' holds a list a row, not one text or number.")
                raise DataError(text.format(file=self.path, column=name))
        for line, rows in self._sentences():
            row = {TOKENS: [fields[self._token] for fields in rows], TAGS: [fields[self._tag] for fields in rows]}
            yield line, [cell_of(row[name], may_be_list=True) for name in columns]

    def _sentences(self) -> Iterator[tuple[int, list[list[str]]]]:
        """The first line of each sentence, and the fields of its tokens."""
        first = 1
        rows: list[list[str]] = []
        with open_text(self.path, self._encoding, newline="") as file:
            for line, text in enumerate(file, 1):
                bare = text.strip()
                if bare and not COMMENT.match(bare) and not bare.startswith(DOCUMENT):
                    first = first if rows else line
                    rows.append(_fields(bare))
                elif not bare and rows:
                    yield first, rows
                    rows = []
        if rows:
            yield first, rows

    def _find_columns(self) -> tuple[int, int]:
        """Where the tokens and the tags stand, by all lines of the file.

        Raises:
            DataError: Lines have different numbers of columns, or no column holds tags.
        """
        width, uneven, counted = 0, [], True
        tags: list[bool] = []
        for first, rows in self._sentences():
            width = width or len(rows[0])
            tags = tags or [True] * width
            uneven += [first + place for place, fields in enumerate(rows) if len(fields) != width]
            counted = counted and all(fields[0] == str(place) for place, fields in enumerate(rows, 1))
            if not uneven:
                tags = [ok and all(TAG.fullmatch(fields[at]) for fields in rows) for at, ok in enumerate(tags)]
        if uneven:
            text = _(
                "{file}: lines with more or fewer columns than the {columns} of the first: {count} (lines {lines})."
            )
            raise DataError(text.format(columns=width, **where(self.path, uneven)), _expected())
        token = 1 if counted and width > 2 else 0
        places = [place for place, ok in enumerate(tags) if ok and place > token]
        if not places:
            raise DataError(_("{file}: no column holds tags such as B-PER or O.").format(file=self.path), _expected())
        return token, places[-1]


def _fields(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _expected() -> str:
    return _("Each line must hold a token and its tag, such as: Berlin B-LOC; sentences are parted by an empty line.")
