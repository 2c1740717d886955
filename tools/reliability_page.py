"""docs/reliability.md, from the committed results of the fault harnesses below bench/results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results"
HEAD = [
    "# Reliability",
    "This page is written by `make docs` from bench/results; run `make bench-kill` and `make bench` to measure again.",
]
NOTHING_YET = "There are no results yet."


def reliability_page(results: Path = RESULTS) -> str:
    """The page; it says where there are no results yet."""
    return "\n\n".join([*HEAD, *kills(results / "kill.json"), *corruptions(results / "corrupt.json")]) + "\n"


def kills(file: Path) -> list[str]:
    """Runs that were killed and resumed."""
    if not file.exists():
        return ["## Kills", NOTHING_YET]
    measured = json.loads(file.read_text(encoding="utf-8"))
    trials = measured["trials"]
    return [
        "## Kills",
        "Small trainings on a CPU are killed with SIGKILL and resumed in another process. Two thirds of the kills are "
        "aimed inside a save, at a random one of its file operations, the others at a random moment. A trial passes if "
        "the run resumes and ends with the weights, optimizer moments, learning rates, logged losses and random state "
        "of the undisturbed run, bit for bit.",
        where(measured["about"]),
        table(trials),
        sentence(trials),
    ]


def corruptions(file: Path) -> list[str]:
    """Checkpoints that were damaged."""
    if not file.exists():
        return ["## Damaged checkpoints", NOTHING_YET]
    measured = json.loads(file.read_text(encoding="utf-8"))
    trials = measured["trials"]
    lines = ["| damage | trials | found | file named | older one taken |", "|---|---|---|---|---|"]
    for name in [*sorted({trial["kind"] for trial in trials}), "all"]:
        part = [trial for trial in trials if name in (trial["kind"], "all")]
        counts = [sum(trial[what] for trial in part) for what in ("found", "named", "survived")]
        lines.append(f"| {name.replace('_', ' ')} | {len(part)} | {' | '.join(map(str, counts))} |")
    return [
        "## Damaged checkpoints",
        "The newest checkpoint of a small real run is damaged. A trial passes if it is not taken, the reason names a "
        "file that was damaged, and the older whole checkpoint is taken in its place.",
        where(measured["about"]),
        "\n".join(lines),
    ]


def where(about: dict[str, Any]) -> str:
    """When, and on which machine and versions."""
    return (
        f"Measured on {about['date']} at commit {about['commit']}: {about['processor']}, {about['cores']:.0f} cores, "
        f"Python {about['python']}, torch {about['torch']}, transformers {about['transformers']}."
    )


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
