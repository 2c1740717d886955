"""Prepared data: found in the cache, or made. Finding imports nothing heavy; making does so only when it is called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainwright.data.cache import Looked, look
from trainwright.data.files import Place
from trainwright.data.findings import audit_of
from trainwright.data.lengths import check_max_length, max_length_for, percentiles, truncation
from trainwright.data.request import DataRequest, Progress
from trainwright.data.sources import files_of, places_of
from trainwright.messages.text import _
from trainwright.records import Audit, Choice, Prepared, Split, read_json
from trainwright.units import format_share


@dataclass(frozen=True)
class Preparation:
    """Data ready for training.

    Attributes:
        audit: What was found in it.
        prepared: Where it is, and how its rows are read.
        choices: By dotted recipe key, what was chosen, with reasons.
    """

    audit: Audit
    prepared: Prepared
    choices: dict[str, Choice]


@dataclass(frozen=True)
class Found:
    """The answer of the cache.

    Attributes:
        preparation: The data, if it was prepared before.
        because: Why it was found, or why it must be made.
    """

    preparation: Preparation | None
    because: str


def find_prepared(request: DataRequest, cache: Path) -> Found:
    """Find data that was prepared before from the same content with the same tokenizer and options.

    Args:
        request: What is asked for.
        cache: The cache folder.

    Raises:
        DataError: A file does not exist.
        ModelError: A longer max_length is asked for than the model allows.
    """
    check_max_length(request)
    looked = look(request, cache)
    return Found(_load(request, looked) if looked.hit else None, looked.because)


def prepare(request: DataRequest, cache: Path, progress: Progress) -> Preparation:
    """Audit and tokenise, unless that was done before.

    Args:
        request: What is asked for.
        cache: The cache folder.
        progress: Told from time to time how far the work is.

    Raises:
        DataError: The data cannot be used. If its audit is the reason, the error carries it as ``audit``.
        ModelError: The tokenizer cannot be used, or max_length does not fit the model.
    """
    check_max_length(request)
    looked = look(request, cache)
    if not looked.hit:
        from trainwright.data.build import build  # pyarrow, and transformers for the tokenizer

        build(request, looked, cache, progress)
    return _load(request, looked)


def _load(request: DataRequest, looked: Looked) -> Preparation:
    """Read a prepared set, and settle what depends on the max_length in force."""
    stored = read_json(looked.folder / "prepared.json")
    specials = len(stored["prefix"]) + len(stored["middle"] or []) + len(stored["suffix"])
    length = max_length_for(request, stored["lengths"]["train"], specials)
    files, places = files_of(request), places_of(request)
    facts, splits = {}, {}
    for name, split in stored["splits"].items():
        histogram = stored["lengths"][name]
        cut = truncation(histogram, length.value, specials)
        tokens = percentiles(histogram) | split["longest"]
        facts[name] = split["facts"] | {"file": files[name], "tokens": tokens, "truncation": cut}
        real = sum(min(size, length.value) * rows for size, rows in histogram)
        splits[name] = Split(name, split["rows"], real, split["file"], _source(places[name], files["train"]))
    prepared = Prepared(
        folder=str(looked.folder),
        key=looked.folder.name,
        cached=looked.hit,
        because=looked.because,
        splits=splits,
        labels=stored["labels"],
        max_length=length.value,
        prefix=stored["prefix"],
        suffix=stored["suffix"],
        pad_id=stored["pad_id"],
        lengths=stored["lengths"],
        label_rows=stored["label_rows"],
        middle=stored["middle"],
        second_type=stored["second_type"],
        label_sets=stored["label_sets"],
    )
    choices = {"data.max_length": length} if length.origin == "chosen" else {}
    return Preparation(audit_of(request, facts), prepared, choices)


def _source(place: Place | float, train: str) -> str:
    """Where a split comes from, in words."""
    if isinstance(place, float):
        return _("{share} held out of {file}").format(share=format_share(place, 0), file=Path(train).name)
    return place.name
