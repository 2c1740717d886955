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
        "One optimizer step of 64 examples. Every contender ran in a process of its own, in turn, "
        f"{rounds(measured)} rounds; a number is the median, with least and greatest in brackets; the ratio is taken "
        "round by round. The model's own dropout is on in all of them, and all wait for their threads as Trainwright's "
        "training process does (GOMP_SPINCOUNT=5000). `stock` is transformers' own Trainer at 16 x 4."
    )
    for work in dict.fromkeys(trial["work"] for trial in measured["trials"]):
        trials = [trial for trial in measured["trials"] if trial["work"] == work]
        tokens = trials[0]["tokens_per_row"]
        parts += [f"## {WORDS[work].format(tokens=tokens).capitalize()}", table(trials)]
    return "\n\n".join(parts) + "\n"


def table(trials: list[dict[str, Any]]) -> str:
    """A line a contender: seconds a step, against the base, real tokens a second, peak memory."""
    lines = ["| | s a step | times as fast | real tokens/s | peak memory |", "|---|---|---|---|---|"]
    base = {trial["round"]: trial["seconds"] for trial in trials if trial["contender"] == BASE}
    for name in dict.fromkeys(trial["contender"] for trial in trials):
        mine = [trial for trial in trials if trial["contender"] == name]
        ratios = [base[trial["round"]] / trial["seconds"] for trial in mine]
        tokens = statistics.median(trial["real_tokens_per_second"] for trial in mine)
        memory = statistics.median(trial["peak_bytes"] for trial in mine) / 2**30
        seconds = spread([trial["seconds"] for trial in mine], 3)
        lines.append(f"| {name} | {seconds} | {spread(ratios, 2)} | {tokens:,.0f} | {memory:.2f} GiB |")
    return "\n".join(lines)


def spread(values: list[float], digits: int) -> str:
    """Median, with least and greatest."""
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


def rounds(measured: dict[str, Any]) -> int:
    return 1 + max(trial["round"] for trial in measured["trials"])
