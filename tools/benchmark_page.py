"""docs/benchmarks.md and the READMEs' table, from the committed results below bench/results."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results"
BASE = "stock fp32"
WORDS = {
    "short": "short requests (snips), {tokens:.0f} tokens a row",
    "sentences": "sentences (sentence_polarity), {tokens:.0f} tokens a row",
    "mixed": "docstrings of mixed length, {tokens:.0f} tokens a row",
    "long": "long reviews (movie_reviews_long, cut at 512), {tokens:.0f} tokens a row",
}
MODELS = {"minilm": "The packaged encoder (MiniLM-L6)", "bert4": "Four layers of BERT-base's size"}


def benchmark_page() -> str:
    """The page; it says so where there are no results yet."""
    parts = [
        "# Benchmarks",
        "This page is written by `make docs` from bench/results; run `make bench` to measure again.",
    ]
    file = RESULTS / "speed.json"
    if not file.exists():
        return "\n\n".join([*parts, "There are no results yet."]) + "\n"
    measured = json.loads(file.read_text(encoding="utf-8"))
    about = measured["about"]
    parts.append(
        f"Measured on {about['date']} at commit {about['commit']}: {about['processor']}, {about['cores']:.0f} cores, "
        f"bf16 in hardware: {'yes' if about['bf16'] else 'no'}; Python {about['python']}, torch {about['torch']}, "
        f"transformers {about['transformers']}. Not measured on a GPU yet."
    )
    parts.append(
        "One optimizer step of 64 examples. Every contender ran in a process of its own, in turn; a number is the "
        "median of the rounds, with least and greatest in brackets; the ratio is taken round by round. The model's own "
        "dropout is on in all of them, and all wait for their threads as Trainwright's training process does "
        "(GOMP_SPINCOUNT=5000). `stock` is transformers' own Trainer at 16 x 4; `by length` trains on other steps."
    )
    parts.append(
        "*Gradient off by*: relative difference of one step's gradient from that of the same 64 rows uncut in float64, "
        "dropout off (a contender that trains something else is seen here: 3 means four times too large). *Products*: "
        "share of the step that its matrix products alone take in bf16, measured in the same process."
    )
    for model, work in dict.fromkeys((trial["model"], trial["work"]) for trial in measured["trials"]):
        trials = [trial for trial in measured["trials"] if (trial["model"], trial["work"]) == (model, work)]
        heading = WORDS[work].format(tokens=trials[0]["tokens_per_row"])
        parts += [f"## {MODELS[model]}, {heading}, {rounds(trials)} rounds", table(trials)]
    return "\n\n".join([*parts, *data_parts()]) + "\n"


def data_parts() -> list[str]:
    """Tokenising and loading, and the cost of a token as rows grow; nothing where that was not measured."""
    file = RESULTS / "data.json"
    if not file.exists():
        return []
    measured = json.loads(file.read_text(encoding="utf-8"))
    lines = ["| | rows/s: file to cache | real tokens/s: cache to batches |", "|---|---|---|"]
    for name in dict.fromkeys(trial["contender"] for trial in measured["trials"]):
        mine = [trial for trial in measured["trials"] if trial["contender"] == name]
        made, loaded = ([trial[key] for trial in mine] for key in ("rows_per_second", "loaded_tokens_per_second"))
        lines.append(f"| {name} | {spread(made, 0)} | {spread(loaded, 0)} |")
    sizes = dict.fromkeys(trial["rows"] for trial in measured["scale"])
    costs = {rows: [t["seconds_per_token"] * 1e6 for t in measured["scale"] if t["rows"] == rows] for rows in sizes}
    scale = "; ".join(f"{rows:,} rows: {spread(costs[rows], 0)}" for rows in sizes)
    return [
        "## Data",
        "40,000 short texts. Ours also audits them (labels, duplicates, overlaps) before it tokenises.",
        "\n".join(lines),
        f"Microseconds of training per real token (trainwright bf16, short requests) as the set grows: {scale}.",
    ]


def table(trials: list[dict[str, Any]]) -> str:
    """A line a contender: seconds a step, against the base, real tokens a second, peak memory."""
    lines = [
        "| | s a step | times as fast | real tokens/s | peak memory | gradient off by | products |",
        "|---|---|---|---|---|---|---|",
    ]
    base = {trial["round"]: trial["seconds"] for trial in trials if trial["contender"] == BASE}
    for name in dict.fromkeys(trial["contender"] for trial in trials):
        mine = [trial for trial in trials if trial["contender"] == name]
        ratios = [base[trial["round"]] / trial["seconds"] for trial in mine]
        tokens = statistics.median(trial["real_tokens_per_second"] for trial in mine)
        memory = statistics.median(trial["peak_bytes"] for trial in mine) / 2**30
        seconds = spread([trial["seconds"] for trial in mine], 3)
        gradient = known([trial["gradient_difference"] for trial in mine], ".1e")
        products = known([share_of_products(trial) for trial in mine], ".0%")
        cells = [name, seconds, spread(ratios, 2), f"{tokens:,.0f}", f"{memory:.2f} GiB", gradient, products]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def share_of_products(trial: dict[str, Any]) -> float | None:
    """What part of the step its matrix products alone would take; None where they were not measured."""
    return trial["products_seconds"] / trial["seconds"] if trial["products_seconds"] else None


def known(values: list[float | None], form: str) -> str:
    """The median of those that were measured; n/a where none was."""
    there = [value for value in values if value is not None]
    return format(statistics.median(there), form) if there else "n/a"


def spread(values: list[float], digits: int) -> str:
    """Median, with least and greatest."""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


def rounds(trials: list[dict[str, Any]]) -> int:
    return 1 + max(trial["round"] for trial in trials)
