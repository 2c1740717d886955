"""Whether this data was prepared before: by content, tokenizer and options, decided without a heavy import.

<cache>/hashes.json                 content hashes, remembered by path, size, inode, mtime and ctime
<cache>/prepared/<key>/             one prepared set, whole or absent
    identity.json                   what it was made from, in parts that can be compared; sizes of its files
    prepared.json                   facts and lengths of its rows
    train.arrow  ...                see store.py
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trainwright.data.files import Place, paths_of
from trainwright.data.request import DataRequest, named
from trainwright.data.sources import places_of, source_files
from trainwright.data.textfile import ending_of
from trainwright.messages.text import _
from trainwright.records import read_json, write_json

FORMAT = 2  # of the prepared folder and of how files are read; raise it when either changes
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
)
# A file that was written so short a time ago may change again without a new time; disks keep times in steps of up to
# two seconds.
SETTLED_NS = 2_000_000_000


@dataclass(frozen=True)
class Looked:
    """What a look into the cache found.

    Attributes:
        folder: Where the prepared set is, or would be.
        parts: What it is made from.
        hit: It is there and whole.
        because: Why it was found, or why not.
    """

    folder: Path
    parts: dict[str, Any]
    hit: bool
    because: str


def look(request: DataRequest, cache: Path) -> Looked:
    """Look for a prepared set with the same content, tokenizer and options.

    Raises:
        DataError: A file does not exist.
    """
    parts = identity_of(request, cache)
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache / "prepared" / key
    identity = read_json(folder / "identity.json")
    if identity is None:
        return Looked(folder, parts, False, _why_not(request, parts, cache))
    if not is_whole(folder):
        return Looked(folder, parts, False, _("a file of the prepared set is damaged or gone"))
    because = _("same content, tokenizer and options as prepared on {date}").format(date=_day(identity["made"]))
    return Looked(folder, parts, True, because)


def identity_of(request: DataRequest, cache: Path) -> dict[str, Any]:
    """Everything that decides what a prepared set holds. max_length does not: it is applied when rows are read."""
    hashes = ContentHashes(cache)
    places = places_of(request)
    content = {split: place if isinstance(place, float) else _content(place, hashes) for split, place in places.items()}
    tokenizer = {file.name: hashes.of(file) for file in tokenizer_files(Path(request.model_folder))}
    hashes.remember()
    return {
        "format": FORMAT,
        "train": content["train"],
        "validation": content.get("validation"),
        "test": content.get("test"),
        "data.text": request.text,
        "data.text_pair": request.text_pair,
        "data.label": request.label if isinstance(request.label, str) else list(request.label),
        "data.label_separator": request.label_separator,
        "task": request.task,
        "data.labels": list(request.labels) if request.labels else None,
        "data.empty_rows": request.empty_rows,
        "data.encoding": request.encoding,
        "learn.seed": request.seed if any(isinstance(place, float) for place in places.values()) else None,
        "tokenizer": tokenizer | {"model_type": _model_type(Path(request.model_folder))},
        "libraries": {name: version(name) for name in ("tokenizers", "transformers")},
    }


def _content(place: Place, hashes: ContentHashes) -> list[list[str]]:
    """Hash of each file, with its ending, or in a folder its name: names of sub-folders may be labels."""
    return [
        [file.relative_to(path).as_posix() if path.is_dir() else ending_of(file), hashes.of(file)]
        for path in paths_of(place)
        for file in source_files(path)
    ]


def write_identity(folder: Path, request: DataRequest, parts: dict[str, Any], made: str) -> None:
    """Write beside a prepared set's other files what it was made from."""
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    write_json(folder / "identity.json", {"made": made, "train": named(request.train), "sizes": sizes, "parts": parts})


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of a model folder that decide how text becomes tokens."""
    return sorted({file for pattern in TOKENIZER_FILES for file in folder.glob(pattern) if file.is_file()})


def is_whole(folder: Path) -> bool:
    """Whether a prepared set is there with all its files at their full size."""
    identity = read_json(folder / "identity.json")
    if identity is None:
        return False
    files = {file.name: file.stat().st_size for file in folder.iterdir() if file.name != "identity.json"}
    return files == identity["sizes"]


class ContentHashes:
    """SHA-256 of files, remembered as long as nothing about a file changes.

    The change time is part of it: copying tools can set the modification time back, but not that one.
    """

    def __init__(self, cache: Path) -> None:
        self._file = cache / "hashes.json"
        self._known = _read_or_empty(self._file)
        self._fresh: dict[str, dict[str, Any]] = {}

    def of(self, path: Path) -> str:
        """The hash of a file's content, read only if it is not known."""
        state = _state(path)
        known = self._known.get(str(path))
        if known and known["state"] == state:
            return known["sha256"]
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if _state(path) == state and time.time_ns() - path.stat().st_ctime_ns > SETTLED_NS:
            self._fresh[str(path)] = {"state": state, "sha256": digest}
        return digest

    def remember(self) -> None:
        """Write what is new; another process that writes at the same moment costs at most a second reading."""
        if self._fresh:
            write_json(self._file, _read_or_empty(self._file) | self._fresh)


def _state(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns]


def _read_or_empty(file: Path) -> dict[str, Any]:
    try:
        known = read_json(file)
    except ValueError:  # damaged: everything is hashed again
        return {}
    return known if isinstance(known, dict) else {}


def _model_type(folder: Path) -> str | None:
    """What chooses the class of a tokenizer whose own files do not name it."""
    return _read_or_empty(folder / "config.json").get("model_type")


def _why_not(request: DataRequest, parts: dict[str, Any], cache: Path) -> str:
    """What differs from the newest set that was prepared from the same training file."""
    found = [read_json(file) for file in (cache / "prepared").glob("[!.]*/identity.json")]
    same_file = [identity for identity in found if identity and identity["train"] == named(request.train)]
    if not same_file:
        return _("nothing was prepared from {file} yet").format(file=named(request.train))

    def differing(identity: dict[str, Any]) -> list[str]:
        return [name for name in parts if parts[name] != identity["parts"].get(name)]

    newest = max(same_file, key=lambda identity: (identity["made"], -len(differing(identity))))
    changed = differing(newest)
    what = ", ".join(_difference(request, name, parts[name], newest["parts"].get(name)) for name in changed)
    return _("since {date}: {what}").format(date=_day(newest["made"]), what=what)


def _difference(request: DataRequest, name: str, now: Any, before: Any) -> str:
    if name == "tokenizer":
        return _("the tokenizer has changed")
    if name == "libraries":
        return _("the tokenizer's library has another version")
    if name == "format":
        return _("Trainwright prepares data in another way")
    if name in ("train", "validation", "test"):
        asked = getattr(request, name)
        file = None if asked is None else named(asked)
        same_kind = isinstance(now, list) and isinstance(before, list)
        if same_kind:
            return _("{file} has changed").format(file=file)
        return _("data.{name} is now {value}").format(name=name, value=file)
    return _("{name} was {before} and is {now}").format(name=name, before=before, now=now)


def _day(moment: str) -> str:
    return moment[:16].replace("T", " ") + " UTC"
