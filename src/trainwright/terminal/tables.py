"""Tables and summaries for the terminal; everything is readable without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainwright.messages.text import _
from trainwright.plan.hindsight import Compared, in_words
from trainwright.recipe.tasks import task_of
from trainwright.records import Finding, from_plain
from trainwright.runs.folder import RunFolder
from trainwright.runs.words import next_steps, state_name
from trainwright.units import format_count, format_number, format_seconds

_MARKS = {"error": "✗", "warning": "!", "note": "·"}
_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


def runs_table(folders: Sequence[RunFolder]) -> RenderableType:
    """Every run in a line: state, score, steps, time, model."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in (_("run"), _("state"), _("score"), _("steps"), _("time"), _("model")):
        table.add_column(name, overflow="fold")
    for folder in folders:
        status, results = folder.status(), folder.results() or {}
        model = folder.resolved().get("model")
        steps = f"{format_count(status.step or 0)}/{format_count(status.steps)}"
        table.add_row(
            folder.id,
            state_name(status.state),
            score_text(folder),
            steps,
            format_seconds(results.get("seconds")),
            str(model.value).rstrip("/").rsplit("/", 1)[-1] if model else "n/a",
        )
    return table


def run_summary(folder: RunFolder) -> RenderableType:
    """What became of a run: state and why, scores with baseline and error, findings, files, what to do next."""
    status, results = folder.status(), folder.results() or {}
    parts: list[RenderableType] = [Text(f"{folder.id}: {state_name(status.state)}", style="bold")]
    if status.because:
        parts.append(Text(status.because))
    for split in ("validation", "test"):
        if split in results:
            parts.append(Text(scores_line(split, results[split], task_of(folder.resolved()).shown)))
    if results:
        line = _("{steps} steps in {time}; best at step {best}")
        parts.append(
            Text(
                line.format(
                    steps=results["steps"], time=format_seconds(results.get("seconds")), best=results["best_step"]
                )
            )
        )
    parts += [Text(line) for line in hindsight_lines(results)]
    parts += findings_list(folder.findings())
    return Group(*parts, files_and_next(folder))


def files_and_next(folder: RunFolder) -> RenderableType:
    """Where the report is, and what to do next."""
    lines = [_("Report: {file}").format(file=folder.report)] if folder.report.exists() else []
    return Group(*map(Text, lines + next_steps(folder)))


def hindsight_lines(results: dict[str, Any]) -> list[str]:
    """What was predicted beside what was measured, in one line; nothing where nothing was predicted."""
    compared = in_words([from_plain(Compared, one) for one in results.get("hindsight", [])])
    line = _("{name} {predicted} predicted, {measured} measured")
    said = [line.format(name=name, predicted=p, measured=m) for name, p, m, _error in compared if "n/a" not in (p, m)]
    return ["; ".join(said)] if said else []


def findings_list(findings: Sequence[Finding]) -> list[RenderableType]:
    """Findings, each with its remedy and the change of the recipe as a line to paste."""
    lines: list[RenderableType] = []
    for finding in findings:
        lines.append(Text(f"{_MARKS[finding.severity]} {finding.message}", style=_STYLES[finding.severity]))
        if finding.remedy:
            change = " ".join(f"--set {name}={value}" for name, value in finding.change.items())
            lines.append(Text(f"  {finding.remedy} {change}".rstrip()))
    return lines


def scores_line(split: str, scores: dict[str, Any], shown: Sequence[str]) -> str:
    """One split's scores in a line: value, half-width of its 95 % interval, and the baseline."""
    names = {"validation": _("validation"), "test": _("test")}
    words = ", ".join(
        f"{name} {scores[name]:.4f} ± {scores['error'].get(name, float('nan')):.4f} "
        f"({_('baseline')} {scores['baseline'][name]:.4f})"
        for name in shown
    )
    return _("{split}, {rows} rows: {scores}").format(
        split=names.get(split, split), rows=format_count(scores["rows"]), scores=words
    )


def score_text(folder: RunFolder) -> str:
    """The score by which the run chose its best model; n/a before there is one."""
    scores = (folder.results() or {}).get("validation")
    metric = folder.resolved().get("learn.metric_for_best_model")
    return f"{metric.value} {format_number(scores[metric.value])}" if scores and metric else "n/a"
