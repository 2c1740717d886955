"""docs/reliability.md, from the committed results of the kill harness below bench/results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results"


def reliability_page(file: Path = RESULTS / "kill.json") -> str:
    """The page; it says so where there are no results yet."""
    parts = [
        "# Reliability",
        "This page is written by `make docs` from bench/results; run `make bench-kill` to measure again.",
    ]
    if not file.exists():
        return "\n\n".join([*parts, "There are no results yet."]) + "\n"
    measured = json.loads(file.read_text(encoding="utf-8"))
    about, trials = measured["about"], measured["trials"]
    parts += [
        "Small trainings on a CPU are killed with SIGKILL and resumed in another process. Two thirds of the kills are "
        "aimed inside a save, at a random one of its file operations, the others at a random moment. A trial passes if "
        "the run resumes and ends with the weights, optimizer moments, learning rates, logged losses and random state "
        "of the undisturbed run, bit for bit.",
        f"Measured on {about['date']} at commit {about['commit']}: {about['processor']}, {about['cores']:.0f} cores, "
        f"Python {about['python']}, torch {about['torch']}, transformers {about['transformers']}.",
        table(trials),
        sentence(trials),
    ]
    return "\n\n".join(parts) + "\n"


def table(trials: list[dict[str, Any]]) -> str:
    """One line a task and one for all."""
    tasks = sorted({trial["task"] for trial in trials})
    lines = [
        "| task | trials | killed | of these in a save | could not resume | other bits |",
        "|---|---|---|---|---|---|",
    ]
    for name, part in [*((task, [t for t in trials if t["task"] == task]) for task in tasks), ("all", trials)]:
        killed = [trial for trial in part if trial["killed"]]
        in_save = sum(trial["in"] == "save" for trial in killed)
        lost, other = failures(part)
        lines.append(f"| {name} | {len(part)} | {len(killed)} | {in_save} | {lost} | {other} |")
    return "\n".join(lines)


def failures(trials: list[dict[str, Any]]) -> tuple[int, int]:
    """Trials that could not resume, and trials that ended with other bits."""
    return sum(not t["resumed"] for t in trials), sum(t["resumed"] and not t["same"] for t in trials)


def sentence(trials: list[dict[str, Any]]) -> str:
    """What the numbers allow to say: for no failure the exact 95 % bound, 1 - 0.05^(1/n) (Clopper and Pearson)."""
    killed = [trial for trial in trials if trial["killed"]]
    failed = sum(failures(killed))
    if failed or not killed:
        return f"{failed} of {len(killed)} killed runs failed."
    bound = 1 - 0.05 ** (1 / len(killed))
    return f"None of {len(killed)} killed runs failed: with 95 % confidence fewer than {bound:.2%} do."
