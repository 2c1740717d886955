"""Plain text: a document a line, or a file each, in a folder or in folders named like their labels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from trainwright.data.cells import Cell, Noticed, RowBatch, in_batches
from trainwright.data.encodings import Encoding, find_encoding, noticed_encoding
from trainwright.data.textfile import ending_of, open_text
from trainwright.errors import DataError
from trainwright.messages.text import _

TEXT_ENDINGS = (".txt", ".text")
TEXT, LABEL = "text", "label"  # names of the columns, since the files give none


class Lines:
    """A text file whose every line is a document; its one column is called ``text``."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self.path = path
        self.noticed = noticed_encoding(encoding)
        self._encoding = encoding.name

    def columns(self) -> list[str]:
        return [TEXT]

    def has(self, column: str) -> bool:
        return column == TEXT

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The lines that are not empty; a cell is always text."""
        return in_batches(self._rows(), list(columns))

    def _rows(self) -> Iterator[tuple[int, list[Cell]]]:
        self.noticed.blank_lines = 0
        with open_text(self.path, self._encoding, newline="") as file:
            for line, text in enumerate(file, 1):
                document = text.rstrip("\r\n")
                if document:
                    yield line, [document]
                else:
                    self.noticed.blank_lines += 1


class TextFolder:
    """A folder of text files, each a document; in sub-folders, the name of the sub-folder is the label.

    The line of a row is the number of its file, in the order of the names.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        self.path = path
        self.noticed = Noticed()
        self._asked = encoding
        self._files = text_files(path)
        self._labelled = self._files[0].parent != path

    def columns(self) -> list[str]:
        return [TEXT, LABEL] if self._labelled else [TEXT]

    def has(self, column: str) -> bool:
        return column in self.columns()

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The documents; the line breaks inside them stay.

        Raises:
            DataError: The encoding of a file cannot be found.
        """
        return in_batches(self._rows(list(columns)), list(columns))

    def _rows(self, columns: list[str]) -> Iterator[tuple[int, list[Cell]]]:
        for number, path in enumerate(self._files, 1):
            encoding = find_encoding(path, self._asked)
            if self.noticed.encoding in (None, "utf-8"):  # the first that is worth a word stays
                told = noticed_encoding(encoding)
                self.noticed.encoding, self.noticed.encoding_because = told.encoding, told.encoding_because
                self.noticed.encoding_doubtful = told.encoding_doubtful
            with open_text(path, encoding.name, newline="") as file:
                row = {TEXT: file.read(), LABEL: path.parent.name}
            yield number, [row[name] for name in columns]


def text_files(folder: Path) -> list[Path]:
    """The text files of a folder: those of its sub-folders, which stand for labels, or else its own.

    Raises:
        DataError: There are none.
    """
    for pattern in ("*/*", "*"):
        files = sorted(path for path in folder.glob(pattern) if ending_of(path) in TEXT_ENDINGS and path.is_file())
        if files:
            return files
    text = _("{folder} is a folder without text files, and none that datasets wrote (it has no state.json).")
    raise DataError(
        text.format(folder=folder),
        _("Name a file, a folder with a sub-folder of .txt files for each label, or one written by save_to_disk."),
    )
