"""Rules about the texts and the file that holds them: one small function per rule, from facts to findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright.data.complaints import listed
from trainwright.data.rules_rows import Seen
from trainwright.messages.text import _
from trainwright.records import Finding
from trainwright.units import format_count, format_share

CUT_ROWS = 0.05  # share of rows cut, or
CUT_TOKENS = 0.02  # share of tokens removed, from where on a model misses what labels depend on
UNKNOWN = 0.01  # share of unknown tokens; tokenizers that fit the language stay far below
FILES_SHOWN = 20
OUTLIER = 10  # times the 99th percentile
OUTLIER_CHARACTERS = 10_000  # a longest text below this is nothing unusual


# -- text -----------------------------------------------------------------------------------------------------------


def truncation(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        cut = facts.get("truncation")
        if not cut or (cut["rows_share"] <= CUT_ROWS and cut["tokens_share"] <= CUT_TOKENS):
            continue
        text = _("{split}: max_length {length} cuts {rows} of the rows and removes {tokens} of all tokens.")
        longer = _whole_length(facts["tokens"]["p99"], seen.model_max_length)
        helps = longer > cut["max_length"]
        remedy = _("The model allows no more; what decides the label should come early in the text.")
        if helps:
            remedy = _("With max_length {length} fewer rows are cut, and steps take longer.").format(length=longer)
        yield Finding(
            "data.truncation",
            "warning",
            text.format(
                split=split,
                length=cut["max_length"],
                rows=format_share(cut["rows_share"]),
                tokens=format_share(cut["tokens_share"]),
            ),
            {"split": split, "file": facts["file"], **cut, "lengths": facts["tokens"]},
            remedy,
            {"data.max_length": longer} if helps else {},
        )


def _whole_length(tokens: int, limit: int | None) -> int:
    """A multiple of 8 that holds so many tokens, or the model's limit."""
    length = -(-tokens // 8) * 8
    return length if limit is None else min(length, limit)


def long_text(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        characters = facts["characters"]
        longest, usual = characters["max"], characters["p99"]
        if not longest or longest < OUTLIER_CHARACTERS or longest < OUTLIER * usual:
            continue
        evidence = {"split": split, "file": facts["file"], "line": characters["max_line"], "characters": longest}
        if "tokens" in facts:
            tokens, limit = facts["tokens"]["max"], facts["truncation"]["max_length"]
            evidence |= {"tokens": tokens, "removed": max(0, tokens - limit) / tokens}
        text = _("{file}, line {line}: a text of {characters} characters, where 99% have at most {usual}.")
        message = text.format(
            file=facts["file"], line=characters["max_line"], characters=format_count(longest), usual=format_count(usual)
        )
        remedy = _("See whether it is one text; max_length keeps only its beginning.")
        yield Finding("data.long-text", "warning", message, evidence, remedy)


def replacement_characters(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        found = facts.get("replacement")
        if not found or not found["rows"]:
            continue
        text = _(
            "{file}: rows with the character U+FFFD: {count} (lines {lines}); it is a trace of a wrong decoding before."
        )
        yield Finding(
            "data.replacement-characters",
            "warning",
            text.format(file=facts["file"], count=format_count(found["rows"]), lines=listed(found["lines"])),
            {"split": split, "file": facts["file"], **found},
            _("Make the file again from its source with the right encoding."),
        )


def unknown_tokens(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        unknown = facts.get("unknown")
        if not unknown or unknown["share"] <= UNKNOWN:
            continue
        text = _("{split}: {share} of the tokens are unknown to the model's tokenizer (lines {lines}).")
        yield Finding(
            "data.unknown-tokens",
            "warning",
            text.format(split=split, share=format_share(unknown["share"]), lines=listed(unknown["lines"])),
            {"split": split, "file": facts["file"], **unknown},
            _("Choose a model that was made for the language and script of the text."),
        )


# -- the file -------------------------------------------------------------------------------------------------------


def long_record(seen: Seen) -> Iterator[Finding]:
    for facts in seen.facts.values():
        reading = facts.get("reading")
        if not reading or not reading["spanning"]:
            continue
        first, last = reading["longest_span"]
        evidence = {"file": facts["file"], "records": reading["spanning"], "longest": [first, last]}
        text = _("{file}: records of several lines: {count}; the record at line {first} spans lines {first}..{last}.")
        message = text.format(file=facts["file"], count=format_count(reading["spanning"]), first=first, last=last)
        if not reading["doubtful"]:
            yield Finding("data.long-record", "note", message, evidence)
            continue
        spans = [f"{span['first']}..{span['last']}" for span in reading["doubtful"]]
        text = _(
            "{file}: a quote mark may have swallowed rows; records whose lines look like rows: {count} (lines {lines})."
        )
        yield Finding(
            "data.long-record",
            "warning",
            text.format(file=facts["file"], count=format_count(len(spans)), lines=listed(spans)),
            evidence | {"doubtful": reading["doubtful"][:10]},
            _('If these are rows, write quote marks inside a text twice (""), or save the file as JSON lines.'),
        )


def reading_notes(seen: Seen) -> Iterator[Finding]:
    for facts in seen.facts.values():
        reading = facts.get("reading")
        if not reading:
            continue
        where = {"file": facts["file"]}
        yield from _encoding(reading, where)
        if reading["delimiter"]:
            mark = {"\t": _("tabs"), ";": _("semicolons")}[reading["delimiter"]]
            text = _("{file} separates its columns by {mark}, not by commas, and is read so.")
            yield Finding("data.delimiter", "note", text.format(mark=mark, **where), where)
        if reading["plain_quotes"]:
            text = _("{file}: quote marks are read as part of the texts, since read otherwise they would swallow rows.")
            yield Finding("data.plain-quotes", "note", text.format(**where), where)
        if reading["blank_lines"]:
            text = _("{file}: blank lines, which are no rows: {count}.").format(count=reading["blank_lines"], **where)
            yield Finding("data.blank-lines", "note", text, where | {"count": reading["blank_lines"]})
        if reading.get("files"):
            begins = [
                _("{name} from {line}").format(name=Path(name).name, line=line) for name, line in reading["files"]
            ]
            text = _("{file}: lines are counted through several files: {files}.")
            text = text.format(files=listed(begins, FILES_SHOWN), **where)
            yield Finding("data.several-files", "note", text, where | {"files": reading["files"]})
        if reading.get("unread"):
            text = _("{file}: sheets that are not read, since the first one is: {names}.")
            text = text.format(names=listed(reading["unread"]), **where)
            yield Finding("data.unread-sheets", "note", text, where | {"sheets": reading["unread"]})
        if reading["unused"]:
            text = _("{file}: columns that are not used: {names}.").format(names=listed(reading["unused"]), **where)
            yield Finding("data.unused-columns", "note", text, where | {"columns": reading["unused"]})


def _encoding(reading: dict[str, Any], where: dict[str, Any]) -> Iterator[Finding]:
    name = reading.get("encoding")
    if name in (None, "utf-8"):
        return
    text = _("{file} is read as {encoding}: {because}.")
    yield Finding(
        "data.encoding",
        "warning" if reading["encoding_doubtful"] else "note",
        text.format(encoding=name.upper(), because=reading["encoding_because"], **where),
        where | {"encoding": name, "because": reading["encoding_because"]},
        _("Look at a few texts; if they are wrong, name the encoding: data.encoding.")
        if reading["encoding_doubtful"]
        else "",
    )
