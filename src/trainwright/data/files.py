"""Several files as one: a list of them, or a pattern such as ``part-*.csv``."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.data.cells import Noticed, RowBatch
from trainwright.data.complaints import missing_column, missing_file
from trainwright.errors import DataError
from trainwright.messages.text import _

if TYPE_CHECKING:
    from trainwright.data.sources import Source


@dataclass(frozen=True)
class Files:
    """Several files that are read one after the other."""

    paths: tuple[Path, ...]

    def __str__(self) -> str:
        first, more = self.paths[0], len(self.paths) - 1
        return _("{file} and {more} more").format(file=first, more=more) if more else str(first)

    @property
    def name(self) -> str:
        return Files(tuple(Path(path.name) for path in self.paths)).__str__()


Place = Path | Files


def place_of(asked: str | Sequence[str]) -> Place:
    """The file or folder that a recipe names, or the several that it lists or that its pattern finds, sorted.

    Raises:
        DataError: A pattern finds nothing, or a file is named twice.
    """
    names = [asked] if isinstance(asked, str) else list(asked)
    paths = [path for name in names for path in _found(name)]
    twice = {path for path in paths if paths.count(path) > 1} if len(paths) > 1 else set()
    if twice:
        text = _("{file} is named twice, so its rows would count twice.").format(file=min(twice))
        raise DataError(text, _("Name each file once."))
    return paths[0] if len(paths) == 1 else Files(tuple(paths))


def _found(name: str) -> list[Path]:
    if not glob.has_magic(name) or Path(name).exists():
        return [Path(name)]
    found = sorted(map(Path, glob.glob(name, recursive=True)))
    if not found:
        raise DataError(_("No file fits {pattern}.").format(pattern=name), _("Correct the pattern, or name the files."))
    return found


def paths_of(place: Place) -> list[Path]:
    """The files or folders of a place, each of which must exist.

    Raises:
        DataError: One does not.
    """
    paths = list(place.paths) if isinstance(place, Files) else [place]
    for path in paths:
        if not path.exists():
            raise missing_file(path)
    return paths


class Several:
    """Files that are read as one table, in order.

    Lines are counted through: those of a file go on after the last row of the one before. ``noticed.files`` says where
    each begins.
    """

    def __init__(self, files: Files, sources: list[Source]) -> None:
        self.path = Path(str(files))
        self.noticed = Noticed()
        self._sources = sources

    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for source in self._sources for name in source.columns()))

    def has(self, column: str) -> bool:
        """Whether any file has it; reading complains about one that has not, by its own name."""
        return any(source.has(column) for source in self._sources)

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The rows of all files.

        Raises:
            DataError: A file lacks a column, or cannot be read.
        """
        self.noticed = Noticed()
        before = 0
        for source in self._sources:
            for column in columns:
                if not source.has(column):
                    wrong = missing_column(source.path, column, "", source.columns())
                    raise DataError(wrong.message, _("Every file needs the column."))
            self.noticed.files.append((str(source.path), before + 1))
            last = before
            for batch in source.batches(columns, lists):
                lines = [before + line for line in batch.lines]
                last = lines[-1] if lines else last
                yield RowBatch(lines, batch.columns)
            _add(self.noticed, source.noticed, before)
            before = last


def _add(all_of_them: Noticed, one: Noticed, before: int) -> None:
    """Add what was noticed in a file to what was noticed before it; ``before`` lines were counted by then."""
    if all_of_them.encoding in (None, "utf-8"):  # the first that is worth a word stays
        all_of_them.encoding, all_of_them.encoding_because = one.encoding, one.encoding_because
        all_of_them.encoding_doubtful = one.encoding_doubtful
    all_of_them.delimiter = all_of_them.delimiter or one.delimiter
    all_of_them.plain_quotes |= one.plain_quotes
    all_of_them.blank_lines += one.blank_lines
    all_of_them.spanning += one.spanning
    if one.longest_span is not None:
        first, last = one.longest_span
        longest = all_of_them.longest_span
        if longest is None or last - first > longest[1] - longest[0]:
            all_of_them.longest_span = (before + first, before + last)
    for span in one.doubtful:
        span.first, span.last = before + span.first, before + span.last
        all_of_them.doubtful.append(span)
    all_of_them.unused += [name for name in one.unused if name not in all_of_them.unused]
    all_of_them.unread += one.unread
