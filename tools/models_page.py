"""docs/models.md, from the committed results of bench/families.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results" / "families.json"


def models_page() -> str:
    """The page; it says so where there are no results yet."""
    parts = [
        "# Families of models",
        "This page is written by `make docs` from bench/results; run `python bench/families.py` to measure again.",
    ]
    if not RESULTS.exists():
        return "\n\n".join([*parts, "There are no results yet."]) + "\n"
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    about = measured["about"]
    parts += [
        f"Measured on {about['date']} at commit {about['commit']}: {about['processor']}, Python {about['python']}, "
        f"torch {about['torch']}, transformers {about['transformers']}.",
        f"A tiny classifier of each family, drawn at random (seed {about['seed']}) and without dropout, is trained for "
        f"{about['steps']} steps of {about['batch']} rows of 2 to 39 tokens in float64: by `trainwright.Trainer` with "
        "each step cut into single rows, by the same with each step whole, and by a loop in plain PyTorch on padded "
        "batches. The numbers are the greatest distance of the gradient from that of the plain loop, as a share of its "
        "norm; the test suite holds every one of them below 1e-12.",
        table(measured["families"]),
        "*Real* weights are those of the packaged encoder (`packaged:all-minilm-l6-v2`, a BERT), which the quickstart "
        "trains. *Packed* means that rows lie one behind the other without padding tokens; the others are padded to "
        "rows of like length. The longest row is by the model's position table of 64 places in these tests; RoBERTa's "
        "kind never uses its first two. Without a table a model takes longer rows than it was trained for, and "
        "`data.max_length` is held at the length that its configuration names.",
    ]
    return "\n\n".join(parts) + "\n"


def table(families: list[dict[str, Any]]) -> str:
    """A line a family."""
    lines = [
        "| family | model type | task | weights | cut | whole | batches | longest row |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in families:
        weights = "random, real" if one["model_type"] == "bert" else "random"
        batches = "packed" if one["packed"] else "padded"
        longest = "no table" if one["longest"] is None else str(one["longest"])
        lines.append(
            f"| {one['family']} | {one['model_type']} | {one['task']} | {weights} | {one['cut']:.1e} | "
            f"{one['whole']:.1e} | {batches} | {longest} |"
        )
    return "\n".join(lines)
