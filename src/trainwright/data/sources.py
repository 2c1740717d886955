"""Open a labelled file or folder, whatever its format."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from trainwright.data.cells import Noticed, RowBatch
from trainwright.data.complaints import missing_file
from trainwright.data.conll import CONLL_ENDINGS, Conll
from trainwright.data.delimited import Delimited
from trainwright.data.encodings import Encoding, find_encoding
from trainwright.data.files import Files, Place, Several, paths_of, place_of
from trainwright.data.jsonarray import JsonArray
from trainwright.data.jsonlines import JsonLines
from trainwright.data.lines import TEXT_ENDINGS, Lines, TextFolder, text_files
from trainwright.data.request import DataRequest, share_of
from trainwright.data.spreadsheet import Spreadsheet
from trainwright.data.textfile import ending_of, open_text
from trainwright.errors import DataError
from trainwright.messages.text import _

TEXT = (".csv", ".tsv", ".jsonl", ".json", ".ndjson", *TEXT_ENDINGS, *CONLL_ENDINGS)  # each also with .gz or .zst
COLUMNAR = (".parquet", ".arrow", ".feather", ".xlsx")
ENDINGS = (*TEXT, *COLUMNAR)
# Names of splits in a folder of several, by what they are for here.
SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}


class Source(Protocol):
    """A table of rows that is read from its start, a batch at a time."""

    path: Path
    noticed: Noticed

    def columns(self) -> list[str]:
        """Names of all columns."""

    def has(self, column: str) -> bool:
        """Whether there is a column of this name."""

    def batches(self, columns: Sequence[str], lists: Collection[str] = ()) -> Iterator[RowBatch]:
        """The rows from the start, with the named columns only; ``lists`` names those that may hold lists."""


def open_source(path: Place, encoding: str = "auto") -> Source:
    """Open a file or folder by what it is.

    Args:
        path: The file or folder, or several of them.
        encoding: The recipe's data.encoding.

    Raises:
        DataError: It does not exist, is empty, is of no known format, or its encoding cannot be found.
    """
    if isinstance(path, Files):
        return Several(path, [open_source(one, encoding) for one in paths_of(path)])
    if not path.exists():
        raise missing_file(path)
    if path.is_dir():
        return _open_folder(path, encoding)
    if path.stat().st_size == 0:
        raise DataError(_("{file} is empty.").format(file=path))
    ending = ending_of(path)
    if ending in COLUMNAR and path.suffix.lower() == ending:
        return _open_columnar(path, ending)
    if ending not in TEXT:
        text = _("{file}: the format '{ending}' is not known.").format(file=path, ending=path.suffix.lower())
        known = _("Known are {endings} and folders of datasets or of text files.")
        raise DataError(text, known.format(endings=", ".join(ENDINGS)))
    return _open_text(path, ending, find_encoding(path, encoding))


def _open_text(path: Path, ending: str, encoding: Encoding) -> Source:
    if ending in (".csv", ".tsv"):
        return Delimited(path, encoding)
    if ending in TEXT_ENDINGS:
        return Lines(path, encoding)
    if ending in CONLL_ENDINGS:
        return Conll(path, encoding)
    if ending == ".json" and _begins_with(path, encoding.name, "["):
        return JsonArray(path, encoding)
    return JsonLines(path, encoding)


def _open_columnar(path: Path, ending: str) -> Source:
    if ending == ".xlsx":
        return Spreadsheet(path)
    from trainwright.data.columnar import open_arrow, open_parquet  # pyarrow is slow to import and often not needed

    return open_parquet(path) if ending == ".parquet" else open_arrow(path)


def _begins_with(path: Path, encoding: str, character: str) -> bool:
    with open_text(path, encoding, newline="") as file:
        return next((line.lstrip()[:1] for line in file if line.strip()), "") == character


def source_files(path: Path) -> list[Path]:
    """The files that hold the content of a file or folder, in order."""
    if not path.is_dir():
        return [path]
    if _is_saved(path):
        return sorted(item for item in path.rglob("*") if item.suffix in (".arrow", ".json"))
    return text_files(path)


def _is_saved(folder: Path) -> bool:
    """Whether datasets wrote a folder."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def split_folder(path: Place, split: str) -> Path | None:
    """The sub-folder of a saved DatasetDict that holds a split; None if it has none, or is no such folder."""
    if isinstance(path, Files) or not (path / "dataset_dict.json").is_file():
        return None
    names = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
    return next((path / name for name in SPLIT_NAMES[split] if name in names), None)


def _open_folder(path: Path, encoding: str) -> Source:
    if not _is_saved(path):
        return TextFolder(path, encoding)
    from trainwright.data.columnar import open_dataset

    if (path / "state.json").is_file():
        return open_dataset(path)
    text = _("{folder} holds several splits, and it is not clear which one is meant.").format(folder=path)
    raise DataError(text, _("Name the folder of one split, which lies below it."))


def places_of(request: DataRequest) -> dict[str, Place | float]:
    """Where each split comes from: files, or a share held out of train; only the splits that there are.

    A folder that was saved with several splits brings its own validation and test, which come before a share.

    Raises:
        DataError: The shares leave nothing to train on, or a pattern finds no file.
    """
    root = place_of(request.train)
    places: dict[str, Place | float] = {"train": split_folder(root, "train") or root}
    wishes = {"validation": request.validation, "test": request.test}
    for split, wish in wishes.items():
        share, own = share_of(wish), split_folder(root, split)
        if own is not None and (share is not None or (wish is None and split == "test")):
            places[split] = own
        elif share is not None:
            places[split] = share
        elif wish is not None:
            places[split] = place_of(wish)
    shares = [place for place in places.values() if isinstance(place, float)]
    if sum(shares) >= 1 or 0.0 in shares:
        text = _("data.validation: {validation} and data.test: {test} leave nothing to train on or to measure.")
        raise DataError(text.format(**wishes), _("Ask for shares such as 10%, or name files."))
    return places


def files_of(request: DataRequest) -> dict[str, str]:
    """The file of each split; that of train for a split that is held out of it."""
    places = places_of(request)
    return {split: str(places["train"] if isinstance(place, float) else place) for split, place in places.items()}
