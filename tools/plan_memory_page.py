"""docs/plan-memory.md and its figure, from the committed results of bench/plan.py."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median
from typing import Any

from trainwright.plan.memory import CONTEXT, SLACK, Setting, memory_of
from trainwright.plan.shape import shape_of

BENCH = Path(__file__).resolve().parent.parent / "bench"
MIB = 2**20


def plan_memory_page(rows: list[dict[str, Any]] | None = None) -> str:
    """The page: errors of the half that nothing was fitted on, and every configuration."""
    rows = compared() if rows is None else rows
    about = json.loads((BENCH / "results" / "plan.json").read_text(encoding="utf-8"))["about"]
    packed, again = SLACK["cpu"][0], SLACK["cpu, recomputing"]
    held_out = [row for row in rows if row["part"] == "test"]
    parts = [
        "# Memory as planned and as measured",
        "This page is written by `make docs` from bench/results/plan.json.",
        "48 configurations were written down before anything was measured (bench/plan_configs.json). Each trains two "
        "steps of two micro-batches with the real Trainer in a fresh process on one thread of a processor; its highest "
        f"resident memory is read. {len(rows)} have a result. On one half of them the constants were fitted: a context "
        f"of {CONTEXT['cpu'] / MIB:.0f} MiB, and what the allocator keeps: {packed:.0%} of activations and workspace "
        f"where rows are packed, {again[0]:.1f} times the activations and {again[1]:.0%} of the workspace where layers "
        "are recomputed. The other half shows how good the plan is:",
        errors_table(rows),
        f"Within 5 % of what was measured: {share(held_out, lambda e: abs(e) <= 0.05)} of the other half; more "
        f"than 5 % too low: {share(held_out, lambda e: e < -0.05)}. Which constants there are (one share where rows "
        "are packed, two where layers are recomputed) was decided with all results in sight; their values come from "
        "one half.",
        "What the tensors need agrees with what torch keeps to a few percent (tests/unit/train/test_footprint.py). "
        "What remains is how the heap of glibc falls into pieces, which differs from model to model. A run that has "
        "ended corrects the next plan for its model on its machine.",
        "![predicted against measured](plan-memory.svg)",
        f"Measured on {about['date']}: {about['processor']}, {about['threads']} thread, Python {about['python']}, "
        f"torch {about['torch']}, transformers {about['transformers']}, {about['allocator']}. Nothing here was "
        "measured on a card.",
        rows_table(rows),
    ]
    return "\n\n".join(parts) + "\n"


def compared() -> list[dict[str, Any]]:
    """Every configuration that has a result, with bytes predicted and measured and the error."""
    plain = json.loads((BENCH / "plan_configs.json").read_text(encoding="utf-8"))
    measured = json.loads((BENCH / "results" / "plan.json").read_text(encoding="utf-8"))["measured"]
    found = []
    for one in plain["configurations"]:
        highest = measured.get(one["name"], {}).get("highest")
        if highest:
            predicted = predicted_bytes(plain["architectures"][one["architecture"]], one)
            found.append(one | {"predicted": predicted, "measured": highest, "error": predicted / highest - 1})
    return found


def predicted_bytes(config: dict[str, Any], one: dict[str, Any]) -> int:
    """What a plan says; the rows are those of the benchmark."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("plan_rows", BENCH / "plan_rows.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    setting = Setting("cpu", one["precision"], not one["recompute"], one["recompute"], one["optimizer"])
    shape = shape_of(config, 2)
    memory = memory_of(shape, module.lengths_of(one), setting) if shape else None
    assert memory is not None
    return memory.total


def errors_table(rows: list[dict[str, Any]]) -> str:
    """Errors of both halves."""
    lines = ["| | configurations | median error | 95th percentile | lowest | highest |", "|---|---|---|---|---|---|"]
    for part, name in (("fit", "fitted"), ("test", "the other half")):
        errors = [row["error"] for row in rows if row["part"] == part]
        size = sorted(map(abs, errors))
        high = size[math.ceil(0.95 * len(size)) - 1]
        cells = f"{median(size):.1%} | {high:.1%} | {min(errors):+.1%} | {max(errors):+.1%}"
        lines.append(f"| {name} | {len(errors)} | {cells} |")
    return "\n".join(lines)


def share(rows: list[dict[str, Any]], holds: Any) -> str:
    """How many of the rows' errors are so."""
    return f"{sum(holds(row['error']) for row in rows)} of {len(rows)}"


def rows_table(rows: list[dict[str, Any]]) -> str:
    """A line for each configuration."""
    head = "| | half | model | longest | rows | tokens | precision | recomputed | optimizer "
    head += "| predicted | measured | error |"
    lines = [head, "|" + "---|" * 12]
    for row in rows:
        cells = [
            row["name"],
            "fit" if row["part"] == "fit" else "other",
            row["architecture"],
            row["longest"],
            row["rows"],
        ]
        cells += [row["tokens"], row["precision"], "yes" if row["recompute"] else "no", row["optimizer"]]
        cells += [f"{row['predicted'] / MIB:.0f} MiB", f"{row['measured'] / MIB:.0f} MiB", f"{row['error']:+.1%}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def plan_memory_figure(rows: list[dict[str, Any]] | None = None) -> str:
    """The scatter as SVG: measured to the right, predicted upwards, the line where they are equal."""
    rows = compared() if rows is None else rows
    most = max(max(row["predicted"], row["measured"]) for row in rows) / 2**30
    size, edge = 360.0, 40.0

    def at(value: float) -> float:
        return value / most * (size - 2 * edge)

    dots = [
        f'<circle cx="{edge + at(row["measured"] / 2**30):.1f}" cy="{size - edge - at(row["predicted"] / 2**30):.1f}" '
        f'r="4" fill="{"#888" if row["part"] == "fit" else "#1f77b4"}"><title>{row["name"]}</title></circle>'
        for row in rows
    ]
    end = size - edge
    ticks = [
        f'<text x="{edge + at(gib):.1f}" y="{end + 16}" text-anchor="middle">{gib}</text>'
        f'<text x="{edge - 6}" y="{end - at(gib) + 4:.1f}" text-anchor="end">{gib}</text>'
        for gib in range(1, int(most) + 1)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size:.0f} {size:.0f}" width="{size:.0f}" '
            'font-family="sans-serif" font-size="11" fill="#777">',
            f'<path d="M{edge} {edge}V{end}H{end}" stroke="#777" fill="none"/>',
            f'<line x1="{edge}" y1="{end}" x2="{end}" y2="{edge}" stroke="#777" stroke-dasharray="4 3"/>',
            *dots,
            *ticks,
            f'<text x="{size / 2}" y="{size - 6}" text-anchor="middle">measured, GiB (grey: fitted)</text>',
            f'<text x="{edge}" y="{edge - 10}">predicted, GiB</text>',
            "</svg>",
            "",
        ]
    )
