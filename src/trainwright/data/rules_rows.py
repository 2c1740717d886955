"""Rules about rows and labels: one small function per rule, from facts to findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainwright.data.complaints import listed
from trainwright.messages.text import _
from trainwright.records import Finding, Severity
from trainwright.units import format_count, format_number, format_share

FEW_EVALUATED = 100  # rows: below this the sampling error of an accuracy may pass 5 points (sqrt(0.25 / 100))
FEW_TRAINED = 100  # rows: fine-tuning results on so few swing by many points from seed to seed
RARE = 10  # training rows of a class: with fewer its recall cannot be told from chance
IMBALANCE = 10.0  # times as many rows in the largest class as in the smallest; then a model may ignore the smallest
REPEATED = 0.05  # share of rows that repeat others; less hardly changes what is learnt
SHARED = 0.01  # share of evaluated rows that were trained on; about what a score's sampling error hides
TORN = 0.01  # share of rows with contradicting labels; that much is lost of any score


@dataclass(frozen=True)
class Seen:
    """All that the rules look at.

    Attributes:
        facts: By split, as audit.py makes them, with ``file``; ``tokens`` and ``truncation`` once tokenised.
        refuse_empty: Training rows without text refuse the run.
        model_max_length: Tokens that the model allows; None if it has no limit.
    """

    facts: dict[str, dict[str, Any]]
    refuse_empty: bool
    model_max_length: int | None


# -- what refuses a run ---------------------------------------------------------------------------------------------


def one_class(seen: Seen) -> Iterator[Finding]:
    train = seen.facts["train"]
    names = list(train["labels"])
    if train.get("label_kind") == "score":
        if train["scores"]["different"] < 2:
            text = _("{file}: every row has the same score ({score}); nothing can be learnt from it.")
            score = format_number(train["scores"]["mean"])
            evidence = {"file": train["file"], **train["scores"]}
            remedy = _("Check that data.label names the right column.")
            yield Finding("data.one-score", "error", text.format(file=train["file"], score=score), evidence, remedy)
    elif len(names) < 2:
        text = _("{file}: there is one class only ({label}); nothing can be learnt from it.")
        yield Finding(
            "data.one-class",
            "error",
            text.format(file=train["file"], label=", ".join(names)),
            {"file": train["file"], "labels": train["labels"]},
            _("Check that data.label names the right column, or add rows of other classes."),
        )


def empty_text(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        empty = facts["empty"]
        if not empty["count"]:
            continue
        refused = split == "train" and seen.refuse_empty
        where = {"file": facts["file"], "count": format_count(empty["count"]), "lines": listed(empty["lines"])}
        text = _("{file}: rows without text: {count} (lines {lines}); they are kept and predicted all the same.")
        if facts["rows_dropped"]:
            text = _("{file}: rows without text: {count} (lines {lines}); they are left out of training.")
        if refused:
            text = _("{file}: rows without text: {count} (lines {lines}).")
        remedy = _("Fill them or take them out of the file.")
        if refused:
            remedy = _("Fill them, take them out, or leave them out of training by data.empty_rows: drop.")
        yield Finding(
            "data.empty-text",
            "error" if refused else "warning",
            text.format(**where),
            {"split": split, "file": facts["file"], **empty},
            remedy,
            {"data.empty_rows": "drop"} if refused else {},
        )


# -- rows -----------------------------------------------------------------------------------------------------------


def few_rows(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        least = FEW_TRAINED if split == "train" else FEW_EVALUATED
        if facts["rows"] >= least:
            continue
        text = _("{split} has {rows} rows only: a score on them is uncertain by several points.")
        if split == "train":
            text = _("{split} has {rows} rows only: results will differ much from one seed to another.")
        message = text.format(split=split, rows=facts["rows"])
        yield Finding("data.few-rows", "warning", message, {"split": split, "rows": facts["rows"], "least": least})


def duplicates(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        found = facts["duplicates"]
        if not found["rows"]:
            continue
        share = found["rows"] / facts["rows"]
        text = _("{split}: {count} of {rows} rows ({share}) repeat the text of another row of the same split.")
        yield Finding(
            "data.duplicates",
            "warning" if share > REPEATED else "note",
            text.format(
                split=split,
                count=format_count(found["rows"]),
                rows=format_count(facts["rows"]),
                share=format_share(share),
            ),
            {"split": split, "file": facts["file"], "share": share, **found},
            _("Keep one of each, unless their number means something."),
        )


def conflicting_labels(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        found = facts["conflicts"]
        if not found["texts"]:
            continue
        text = _("{split}: texts with several labels: {texts} ({rows} rows, {share}); no model can get them all right.")
        share = found["rows"] / facts["rows"]
        yield Finding(
            "data.conflicting-labels",
            "warning" if share > TORN else "note",
            text.format(
                split=split,
                texts=format_count(found["texts"]),
                rows=format_count(found["rows"]),
                share=format_share(share),
            ),
            {"split": split, "file": facts["file"], "share": share, **found},
            _("Decide for one label per text, or take these rows out."),
        )


def overlap(seen: Seen) -> Iterator[Finding]:
    text = _("{split}: {count} of {rows} rows ({share}) are training rows too, so its score flatters.")
    remedy = _("Take these rows out of one of the two files.")
    for severity, words, evidence in _shared_rows(seen, "overlap"):
        yield Finding("data.overlap", severity, text.format(**words), evidence, remedy)


def near_duplicates(seen: Seen) -> Iterator[Finding]:
    for split, facts in seen.facts.items():
        found = facts.get("near_duplicates")
        if not found or not found["texts"]:
            continue
        text = _("{split}: {count} texts differ from another one of the split only in case, spaces or width.")
        if found["torn"]:
            text = _(
                "{split}: {count} texts differ from another one of the split only in case, spaces or width; "
                "{torn} of them have another label there."
            )
        share = found["texts"] / facts["rows"]
        yield Finding(
            "data.near-duplicates",
            "warning" if found["torn"] / facts["rows"] > TORN else "note",
            text.format(split=split, count=format_count(found["texts"]), torn=format_count(found["torn"])),
            {"split": split, "file": facts["file"], "share": share, **found},
            _("Look at the examples; keep one of each, with one label."),
        )


def near_overlap(seen: Seen) -> Iterator[Finding]:
    text = _("{split}: {count} more of {rows} rows ({share}) differ from a training row only in case, spaces or width.")
    remedy = _("Take these rows out of one of the two files.")
    for severity, words, evidence in _shared_rows(seen, "near_overlap"):
        yield Finding("data.near-overlap", severity, text.format(**words), evidence, remedy)


def _shared_rows(seen: Seen, fact: str) -> Iterator[tuple[Severity, dict[str, str], dict[str, Any]]]:
    """For each split with rows that are trained on as well: severity, words for a message, and evidence."""
    for split, facts in seen.facts.items():
        found = facts.get(fact)
        if not found or not found["rows"]:
            continue
        words = {"split": split, "count": format_count(found["rows"]), "rows": format_count(facts["rows"])}
        evidence = {"split": split, "file": facts["file"], "train_file": seen.facts["train"]["file"], **found}
        yield (
            "warning" if found["share"] > SHARED else "note",
            words | {"share": format_share(found["share"])},
            evidence,
        )


# -- labels ---------------------------------------------------------------------------------------------------------


def imbalance(seen: Seen) -> Iterator[Finding]:
    labels = seen.facts["train"]["labels"]
    if len(labels) < 2 or seen.facts["train"].get("label_kind", "class") != "class":
        return
    largest, smallest = max(labels, key=labels.__getitem__), min(labels, key=labels.__getitem__)
    times, share = labels[largest] / labels[smallest], labels[largest] / sum(labels.values())
    if times < IMBALANCE:
        return
    text = _("'{largest}' has {times:.0f} times the training rows of '{smallest}'; always guessing it scores {share}.")
    yield Finding(
        "data.imbalance",
        "warning",
        text.format(largest=largest, smallest=smallest, times=times, share=format_share(share)),
        {"times": times, "majority_share": share, "labels": labels},
        _("Look at macro-F1 rather than accuracy; class weights make each class count alike."),
        {"learn.class_weights": "balanced"},
    )


def rare_label(seen: Seen) -> Iterator[Finding]:
    train = seen.facts["train"]["labels"]
    rare = {name: rows for name, rows in train.items() if rows < RARE}
    if rare:
        text = _("classes with fewer than {least} training rows: {count} ({names}).")
        message = text.format(count=len(rare), least=RARE, names=listed(list(rare)))
        remedy = _("Add rows of them, or join them with other classes.")
        yield Finding("data.rare-label", "warning", message, {"split": "train", "labels": rare}, remedy)
    for split in ("validation", "test"):
        facts = seen.facts.get(split)
        unseen = [name for name, rows in facts["labels"].items() if not rows] if facts else []
        if unseen:
            text = _("{split} has no row of some classes, so nothing is measured for them: {names}.")
            message = text.format(split=split, names=listed(unseen))
            yield Finding("data.unmeasured-label", "warning", message, {"split": split, "labels": unseen})


def similar_labels(seen: Seen) -> Iterator[Finding]:
    groups: dict[str, list[str]] = {}
    for name in seen.facts["train"]["labels"]:
        groups.setdefault(name.strip().casefold(), []).append(name)
    alike = [names for names in groups.values() if len(names) > 1]
    if alike:
        shown = listed([" = ".join(map(repr, names)) for names in alike])
        text = _("Some labels differ in case or spaces only, and count as different classes: {names}.")
        remedy = _("Write them alike if the same class is meant.")
        yield Finding("data.similar-labels", "warning", text.format(names=shown), {"labels": alike}, remedy)
