"""The report: one page about a run, made from its folder alone, whatever state it is in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trainwright.data.told import told
from trainwright.messages.text import _, current_language, use_language
from trainwright.plan.hindsight import Compared, in_words
from trainwright.recipe.tasks import TaskKind, task_of
from trainwright.records import from_plain
from trainwright.report import charts, words
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import read_events, steps_of
from trainwright.runs.words import metric_name, next_steps, state_name
from trainwright.units import (
    format_bytes,
    format_count,
    format_number,
    format_seconds,
    format_share,
    parse_money,
)

MANY_CLASSES = 20  # beyond this a confusion matrix is unreadable, and the most confused pairs are listed instead
WORST_ROWS = 10


def write_report(folder: RunFolder, language: str) -> Path:
    """Write ``report.html`` of a run.

    Args:
        language: en or zh; the language in use is the same again afterwards.

    Returns:
        The file.
    """
    before = current_language()
    use_language(language)
    try:
        page = _environment().get_template("report.html.j2").render(context(folder))
    finally:
        use_language(before)
    temporary = folder.path / f".report.{os.getpid()}.tmp"
    temporary.write_text(page, encoding="utf-8")
    os.replace(temporary, folder.report)
    return folder.report


def context(folder: RunFolder) -> dict[str, Any]:
    """Everything that the page shows."""
    events = read_events(folder.journal) if folder.journal.is_dir() else []
    results: dict[str, Any] = folder.results() or {}
    plan = folder.plan()
    scores = results.get("validation")
    logs = steps_of(events, "log")
    audit, prepared = folder.audit(), folder.prepared()
    classes = len(scores.get("per_class", [])) if scores else 0
    values, kind = folder.resolved(), task_of(folder.resolved())
    return {
        "folder": folder,
        "language": "zh-CN" if current_language() == "zh" else "en",
        "status": folder.status(),
        "state": state_name(folder.status().state),
        "verdict": words.verdict(folder),
        "next_steps": next_steps(folder),
        "tiles": list(_tiles(folder, results, logs)),
        "findings": folder.findings(),
        "charts": list(_curve_charts(logs, steps_of(events, "evaluate"), scores, kind)),
        "kind": kind,
        "scores": scores,
        "test": results.get("test"),
        "confusion": _confusion_chart(scores),
        "scatter": _scatter_chart(scores),
        "pairs": words.confused_pairs(scores) if scores else [],
        "many_classes": classes > MANY_CLASSES,
        "worst": _worst_rows(folder.predictions / "validation.jsonl"),
        "audit": audit,
        "audit_rows": told(audit.facts) if audit is not None else [],
        "lengths": _length_chart(prepared),
        "labels": _label_chart(prepared),
        "prepared": prepared,
        "groups": results.get("groups", []),
        "recipe": folder.recipe_file.read_text(encoding="utf-8") if folder.recipe_file.exists() else "",
        "values": sorted(values.items(), key=lambda item: (item[1].origin != "chosen", item[0])),
        "plan": plan,
        "results": results,
        "hindsight": in_words([from_plain(Compared, one) for one in results.get("hindsight", [])]),
        "machine": folder.machine(),
    }


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"_": _, "metric_name": metric_name}
    environment.filters |= {
        "bytes": format_bytes,
        "seconds": format_seconds,
        "count": format_count,
        "share": format_share,
        "number": format_number,
        "score": lambda value: "n/a" if value is None else f"{value:.3f}",
        "value": _value_text,
        "label": lambda value: ", ".join(value) or "-" if isinstance(value, list) else value,
    }
    return environment


# -- tiles and charts ----------------------------------------------------------------------------------------------


def _tiles(folder: RunFolder, results: dict[str, Any], logs: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Key numbers: name, value, and a word on it."""
    scores = results.get("validation")
    for name in task_of(folder.resolved()).shown:
        if scores:
            note = _("± {error:.3f}, baseline {baseline:.3f}").format(
                error=scores["error"].get(name, float("nan")), baseline=scores["baseline"][name]
            )
            yield metric_name(name), f"{scores[name]:.4f}", note
        else:
            yield metric_name(name), "n/a", ""
    status = folder.status()
    yield _("steps"), format_count(status.step), _("of {steps}").format(steps=format_count(status.steps))
    real, seen = (sum(event[name] for event in logs) for name in ("real_tokens", "padded_tokens"))
    seconds = sum(event["step_seconds"] * event["steps"] for event in logs)
    padding = _("{share} padding").format(share=format_share(1 - real / seen if seen else None))
    yield _("real tokens/s"), format_count(real / seconds if seconds else None), padding
    yield _("time"), format_seconds(results.get("seconds") or seconds or None), _predicted(results)
    peak = results.get("peak_memory") or {}
    kind = _("card") if peak.get("gpu") else _("processor")
    yield _("peak memory"), format_bytes(peak.get("gpu") or peak.get("resident")), kind if peak else ""
    cost = _cost(folder, results)
    yield (
        _("cost"),
        cost,
        _("no price was given") if cost == "n/a" else _("at {price} an hour").format(price=plan_price(folder)),
    )


def plan_price(folder: RunFolder) -> str | None:
    """The price per hour as the plan has it; None if none was given."""
    plan = folder.plan()
    return plan.price_per_hour if plan else None


def _predicted(results: dict[str, Any]) -> str:
    predicted = results.get("predicted_seconds")
    return _("{time} predicted").format(time=format_seconds(predicted)) if predicted else ""


def _cost(folder: RunFolder, results: dict[str, Any]) -> str:
    price = plan_price(folder)
    if not price or not results.get("seconds"):
        return "n/a"
    return str(parse_money(price).times(results["seconds"] / 3600))


def _curve_charts(
    logs: list[dict[str, Any]], evaluations: list[dict[str, Any]], scores: dict[str, Any] | None, kind: TaskKind
) -> Iterator[tuple[str, str]]:
    """Title and SVG of each curve that there is something to draw for."""
    if not logs:
        return
    steps = [event["step"] for event in logs]
    tested = [event["step"] for event in evaluations]
    step_name = _("step")

    def of(events: list[dict[str, Any]], name: str) -> list[float]:
        return [_finite(event["metrics"].get(name) if "metrics" in event else event.get(name)) for event in events]

    losses = [(_("training"), steps, of(logs, "loss")), (_("validation"), tested, of(evaluations, "loss"))]
    yield _("Loss"), charts.curves(losses if tested else losses[:1], step_name)
    if tested:
        first = kind.metrics[0]
        names = [first, *(name for name in kind.shown if name != first)]
        metrics = [(metric_name(name), tested, of(evaluations, name)) for name in names]
        band = scores["error"].get(first) if scores else None
        title = _("Validation scores, with the sampling error of {metric}").format(metric=metric_name(first))
        yield title, charts.curves(metrics, step_name, band=band)
    yield _("Learning rate"), charts.curves([("", steps, of(logs, "learning_rate"))], step_name)
    yield _("Gradient norm before clipping"), charts.curves([("", steps, of(logs, "grad_norm"))], step_name)
    rates = [event["real_tokens"] / max(1e-9, event["step_seconds"] * event["steps"]) for event in logs]
    yield _("Real tokens per second"), charts.curves([("", steps, rates)], step_name)
    memory = [(event.get("gpu_memory") or event["memory"]) / 2**30 for event in logs]
    yield _("Memory in GiB"), charts.curves([("", steps, memory)], step_name)


def _confusion_chart(scores: dict[str, Any] | None) -> str:
    if not scores or "confusion" not in scores:
        return ""
    counts = np.array(scores["confusion"])
    labels = [one["label"] for one in scores["per_class"]]
    if len(labels) > MANY_CLASSES:
        return ""
    return charts.confusion(counts, labels, _("true class"), _("predicted class"))


def _scatter_chart(scores: dict[str, Any] | None) -> str:
    """True against predicted, where rows have a number."""
    pairs = scores.get("scatter") if scores else None
    return charts.scatter(pairs, _("true score"), _("predicted score")) if pairs else ""


def _length_chart(prepared: Any) -> str:
    lengths = prepared.lengths.get("train") if prepared else None
    return charts.histogram(lengths, prepared.max_length, _("tokens"), _("cut at")) if lengths else ""


def _label_chart(prepared: Any) -> str:
    if not prepared or not prepared.labels:
        return ""
    order = np.argsort(prepared.label_rows["train"])[::-1][:MANY_CLASSES]
    names = [prepared.labels[place] for place in order]
    split_names = {"train": _("training"), "validation": _("validation"), "test": _("test")}
    groups = [(split_names[split], [rows[place] for place in order]) for split, rows in prepared.label_rows.items()]
    return charts.bars(names, groups[:3])


# -- tables --------------------------------------------------------------------------------------------------------


def _worst_rows(file: Path) -> list[dict[str, Any]]:
    """The rows that the model was most surely wrong about, or farthest off; memory does not grow with the file."""
    worst: list[dict[str, Any]] = []
    if not file.exists():
        return worst
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["predicted"] != row["label"]:
                worst = sorted([*worst, row], key=lambda one: -one.get("confidence", one.get("error")))[:WORST_ROWS]
    return worst


def _value_text(value: Any) -> str:
    """Any value of the recipe or the audit as a short text."""
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, int):
        return format_count(value)
    if isinstance(value, float):
        return format_number(value, 6)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _finite(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")
