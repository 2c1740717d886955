"""Make a prepared set: read each file once, split, audit, tokenise, and put the whole folder in place at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trainwright.data.audit import LINES, Part, row_facts
from trainwright.data.cache import Looked, identity_of, is_whole, write_identity
from trainwright.data.files import Place
from trainwright.data.findings import audit_of, refusal
from trainwright.data.labels import Labels, ids_of, labels_of
from trainwright.data.lengths import histogram_of, longest
from trainwright.data.near import together
from trainwright.data.request import DataRequest, Progress
from trainwright.data.rows import RowTable, read_rows
from trainwright.data.sources import files_of, places_of
from trainwright.data.split import hold_out
from trainwright.data.store import PAIR_SCHEMA, TEXT_SCHEMA, ArrowWriter, TextRows, token_schema
from trainwright.data.tokenise import Tokenizer, encode_all, load_tokenizer
from trainwright.errors import DataError
from trainwright.messages.text import _
from trainwright.recipe.tasks import TASKS
from trainwright.records import Audit, to_plain, write_json

BATCH_ROWS = 2048  # texts handed to the tokenizer at once: all cores are busy, and memory stays small
BATCH_CHARACTERS = 4_000_000  # or fewer of very long ones
TELL_SECONDS = 0.5  # between two words about progress


def build(request: DataRequest, looked: Looked, cache: Path, progress: Progress) -> None:
    """Make the prepared set that a look into the cache did not find.

    Raises:
        DataError: The data cannot be used.
        ModelError: The tokenizer cannot be used.
    """
    teller = _Teller(progress)
    with _staged(looked.folder) as folder:
        parts, labels = _read(request, folder, teller)
        facts = _facts(request, parts, labels)
        refused = refusal(audit_of(request, facts))
        if refused is not None:
            raise refused
        tokenizer = load_tokenizer(Path(request.model_folder), pairs=request.text_pair is not None)
        _tokenise(folder, parts, facts, labels, tokenizer, teller)
        if identity_of(request, cache) != looked.parts:
            raise DataError(_("A data file changed while it was read."), _("Start again when it is complete."))
        write_identity(folder, request, looked.parts, datetime.now(UTC).isoformat(timespec="milliseconds"))


def audit_rows(request: DataRequest, cache: Path, progress: Progress) -> Audit:
    """Audit rows and labels only: no tokenizer is needed, and nothing stays in the cache.

    Raises:
        DataError: The data cannot be read.
    """
    cache.mkdir(parents=True, exist_ok=True)  # the disk with room for texts
    with tempfile.TemporaryDirectory(prefix=".audit-", dir=cache) as folder:
        parts, labels = _read(request, Path(folder), _Teller(progress))
        return audit_of(request, _facts(request, parts, labels))


# -- read and split -------------------------------------------------------------------------------------------------


def _read(request: DataRequest, folder: Path, teller: _Teller) -> tuple[list[Part], Labels]:
    """Read every file; the rows of each split, and what their labels mean."""
    places = places_of(request)
    tables = {
        split: _read_file(request, place, folder / text_file(split), teller)
        for split, place in places.items()
        if not isinstance(place, float)
    }
    table, texts = tables["train"]
    labels = _labels(request, tables)
    parts = _split_training(request, places, table, texts, labels)
    for split, (table, texts) in tables.items():
        if split != "train":
            ids = ids_of(table.names, labels, table.path, table.first_lines)[table.codes]
            blank = np.flatnonzero(table.blank)
            parts.append(Part(split, table, texts, np.arange(len(table)), ids, blank, dropped=0, whole=True))
    return sorted(parts, key=lambda part: ("train", "validation", "test").index(part.name)), labels


def _labels(request: DataRequest, tables: dict[str, tuple[RowTable, TextRows]]) -> Labels:
    """The labels of training rows with a text, since the others are not trained on."""
    table, _texts = tables["train"]
    codes = np.unique(table.codes[~table.blank])
    if not len(codes):
        raise DataError(_("{file}: no row has a text.").format(file=table.path), _("Check data.text."))
    values, lines = [table.names[code] for code in codes], [table.first_lines[code] for code in codes]
    others = [other.names for split, (other, _texts) in tables.items() if split != "train"]
    return labels_of(TASKS[request.task].label, values, request.labels, table.path, lines, others)


def _read_file(request: DataRequest, path: Place, target: Path, teller: _Teller) -> tuple[RowTable, TextRows]:
    read = 0
    with ArrowWriter(target, PAIR_SCHEMA if request.text_pair else TEXT_SCHEMA) as writer:

        def keep(*texts: list[str]) -> None:
            nonlocal read
            writer.write(*texts)
            read += len(texts[0])
            teller.tell(read, None)

        kind, separator = TASKS[request.task].label, request.label_separator
        columns = (request.text, request.label)
        table = read_rows(path, *columns, keep, request.encoding, kind, request.text_pair, separator)
    return table, TextRows(target)


def _split_training(
    request: DataRequest, places: dict[str, Place | float], table: RowTable, texts: TextRows, labels: Labels
) -> list[Part]:
    """The training rows, and what is held out of them. Rows without text are in neither."""
    free, blank = ~table.blank, np.flatnonzero(table.blank)
    places_of_names = {name: place for place, name in enumerate(labels.values)}
    ids = np.array([places_of_names.get(name, -1) for name in table.names], np.int32)[table.codes]
    strata = labels.stratum(ids)
    groups = together(table.hashes, table.loose)  # loose copies stay on one side, too
    parts, rest = [], 1.0
    for split in ("validation", "test"):
        share = places.get(split)
        if isinstance(share, float):  # a share is one of all rows, so of the rest it is more
            held = hold_out(groups, strata, free, share / rest, request.seed, split)
            rows = np.flatnonzero(held)
            parts.append(Part(split, table, texts, rows, ids[rows], blank[:0], dropped=0, whole=False))
            free, rest = free & ~held, rest - share
    rows = np.flatnonzero(free)
    return [Part("train", table, texts, rows, ids[rows], blank, dropped=len(blank), whole=True), *parts]


def _facts(request: DataRequest, parts: list[Part], labels: Labels) -> dict[str, dict[str, Any]]:
    files = files_of(request)
    return {part.name: to_plain(row_facts(part, parts[0], labels)) | {"file": files[part.name]} for part in parts}


# -- tokenise -------------------------------------------------------------------------------------------------------


def _tokenise(
    folder: Path,
    parts: list[Part],
    facts: dict[str, dict[str, Any]],
    labels: Labels,
    tokenizer: Tokenizer,
    teller: _Teller,
) -> None:
    """Write the tokens of every split, and what is known of them."""
    stored: dict[str, Any] = {"labels": labels.names, "label_sets": labels.sets}
    stored |= {"lengths": {}, "label_rows": {}, "splits": {}}
    stored |= {name: getattr(tokenizer, name) for name in ("prefix", "middle", "suffix", "pad_id", "second_type")}
    teller.total = sum(len(part.rows) for part in parts)
    for part in parts:
        lengths, unknown = _write_tokens(folder, part, labels, tokenizer, teller)
        lengths = lengths + tokenizer.specials
        stored["lengths"][part.name] = histogram_of(lengths)
        stored["label_rows"][part.name] = labels.rows_by_name(part.labels)
        stored["splits"][part.name] = {
            "rows": len(part.rows),
            "file": token_file(part.name),
            "longest": longest(lengths, part.lines()),
            "facts": facts[part.name] | {"unknown": unknown},
        }
    write_json(folder / "prepared.json", stored)


def _write_tokens(
    folder: Path, part: Part, labels: Labels, tokenizer: Tokenizer, teller: _Teller
) -> tuple[np.ndarray, dict[str, Any]]:
    """Write one split; the number of tokens of each row, and what is unknown among them."""
    texts = text_file(part.name if part.whole else "train")
    scores, pairs = labels.kind == "score", part.texts.pairs
    of_rows = labels.numbers[part.labels] if scores else part.labels
    schema = token_schema(texts, scores, pairs)
    all_lines = part.lines()
    slices = list(_slices(part.table.characters[part.rows]))
    encoded = encode_all(tokenizer, (_texts_of(part, where) for where in slices))
    all_lengths, unknown_of_row = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    with ArrowWriter(folder / token_file(part.name), schema) as writer:
        for where, (ids, of_texts) in zip(slices, encoded, strict=True):
            firsts = of_texts[::2]
            lengths = firsts + of_texts[1::2] if pairs else of_texts
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            rows = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(ids, pa.int32()))
            columns = [rows, of_rows[where], all_lines[where], part.rows[where]]
            writer.write(*columns, *([firsts] if pairs else []))
            all_lengths.append(lengths)
            unknown_of_row.append(np.diff(np.concatenate([[0], np.cumsum(ids == tokenizer.unknown_id)])[offsets]))
            teller.add(len(lengths))
    lengths, unknown = np.concatenate(all_lengths), np.concatenate(unknown_of_row)
    lines = all_lines[unknown > 0][:LINES].tolist()
    count = int(unknown.sum())
    return lengths, {"tokens": count, "share": count / max(1, int(lengths.sum())), "lines": lines}


def _texts_of(part: Part, where: slice) -> list[str]:
    """The texts of some rows; of pairs, each row's first and second one behind the other."""
    rows = part.rows[where]
    if not part.texts.pairs:
        return part.texts.take(rows)
    both = zip(part.texts.take(rows), part.texts.take(rows, column=1), strict=True)
    return [text for pair in both for text in pair]


def _slices(characters: np.ndarray) -> Iterator[slice]:
    """Cut rows into batches by number and by size."""
    ends = np.cumsum(characters, dtype=np.int64)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        by_size = int(np.searchsorted(ends, before + BATCH_CHARACTERS, side="right"))
        last = min(max(by_size, first + 1), first + BATCH_ROWS, len(ends))
        yield slice(first, last)
        first = last


# -- files ----------------------------------------------------------------------------------------------------------


def text_file(split: str) -> str:
    return f"{split}-texts.arrow"


def token_file(split: str) -> str:
    return f"{split}.arrow"


@contextlib.contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes ``target`` when whole; a kill at any moment leaves no half of it there.

    If another process was faster, its folder stays: it holds the same.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target.parent)
    staging = target.with_name(f".{target.name}.{socket.gethostname()}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        yield staging
        _sync_folder(staging)
        _put_in_place(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _put_in_place(staging: Path, target: Path) -> None:
    if is_whole(target):
        return
    shutil.rmtree(target, ignore_errors=True)  # damaged
    try:
        os.rename(staging, target)
    except OSError:
        if not is_whole(target):
            raise
    _sync_folder(target.parent)


def _sweep(folder: Path) -> None:
    """Remove what killed processes of this machine left unfinished."""
    for staging in folder.glob(f".*.{socket.gethostname()}.*"):
        with contextlib.suppress(ValueError, PermissionError):
            try:
                os.kill(int(staging.suffix[1:]), 0)
            except ProcessLookupError:
                shutil.rmtree(staging, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Teller:
    """Hands progress on, not more often than anyone can read it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._told = 0.0
        self._done = 0
        self.total: int | None = None

    def tell(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._told >= TELL_SECONDS or done == total:
            self._progress(done, total, "rows")
            self._told = now

    def add(self, rows: int) -> None:
        self._done += rows
        self.tell(self._done, self.total)
