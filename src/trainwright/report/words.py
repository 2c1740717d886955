"""The verdict of a run in plain sentences."""

from __future__ import annotations

from typing import Any

from trainwright.messages.text import _
from trainwright.recipe.tasks import TaskKind, greater_is_better, task_of
from trainwright.runs.folder import RunFolder
from trainwright.runs.words import metric_name
from trainwright.units import format_number, format_seconds, format_share


def verdict(folder: RunFolder) -> list[str]:
    """Two to four sentences: what was reached, whether it is real, where it is weakest, what it took."""
    status, results = folder.status(), folder.results()
    if not results or "validation" not in results:
        return [_unfinished(status.state, status.because)]
    scores, kind = results["validation"], task_of(folder.resolved())
    reached = _reached(scores) if kind.label == "class" else _measured(scores, kind)
    return [reached, *_weakest(scores), _took(results)]


def confused_pairs(scores: dict[str, Any], most: int = 15) -> list[dict[str, Any]]:
    """The pairs of true and predicted class that are confused most, with rows and share of the true class."""
    names = [one["label"] for one in scores.get("per_class", [])]
    pairs = [
        {"true": names[row], "predicted": names[column], "rows": count, "share": count / max(1, sum(counts))}
        for row, counts in enumerate(scores.get("confusion", []))
        for column, count in enumerate(counts)
        if row != column and count
    ]
    return sorted(pairs, key=lambda pair: (-pair["rows"], pair["true"], pair["predicted"]))[:most]


def _unfinished(state: str, because: str) -> str:
    texts = {
        "refused": _("The run was refused before any training: {why}"),
        "failed": _("The run failed: {why}"),
        "stopped": _("The run was stopped and can be resumed: {why}"),
    }
    return texts.get(state, _("The run is going on. {why}")).format(why=because).strip()


def _reached(scores: dict[str, Any]) -> str:
    value, error, baseline = scores["accuracy"], scores["error"]["accuracy"], scores["baseline"]["accuracy"]
    real = value - baseline > error
    text = (
        _(
            "On {rows} validation rows the model is right for {value} (± {error}); always answering "
            "“{label}” would be right for {baseline}. The difference is real, not chance."
        )
        if real
        else _(
            "On {rows} validation rows the model is right for {value} (± {error}), no better than always answering "
            "“{label}” ({baseline}): on so few rows the difference may be chance."
        )
    )
    return text.format(
        rows=f"{scores['rows']:,}",
        value=format_share(value),
        error=format_share(error),
        label=scores["baseline"]["label"],
        baseline=format_share(baseline),
    )


def _measured(scores: dict[str, Any], kind: TaskKind) -> str:
    """The verdict on a task whose score is no share of rows that are right."""
    name = kind.metrics[0]
    value, error, baseline = scores[name], scores["error"].get(name, float("nan")), scores["baseline"][name]
    gain = value - baseline if greater_is_better(name) else baseline - value
    text = (
        _(
            "On {rows} validation rows the {metric} is {value} (± {error}); always answering “{label}” would reach "
            "{baseline}. The difference is real, not chance."
        )
        if gain > error
        else _(
            "On {rows} validation rows the {metric} is {value} (± {error}), no better than always answering “{label}” "
            "({baseline}): on so few rows the difference may be chance."
        )
    )
    return text.format(
        rows=f"{scores['rows']:,}",
        metric=metric_name(name),
        value=format_number(value),
        error=format_number(error, 2),
        label=scores["baseline"]["label"],
        baseline=format_number(baseline),
    )


def _weakest(scores: dict[str, Any]) -> list[str]:
    seen = [one for one in scores.get("per_class", []) if one["rows"] and one["recall"] is not None]
    if len(seen) < 2:
        return []
    weakest = min(seen, key=lambda one: (one["recall"], -one["rows"]))
    if weakest["recall"] == 1.0:
        return [_("Every class is found without a miss.")]
    text = _("It is weakest on “{label}”: {recall} of its {rows} rows are found").format(
        label=weakest["label"], recall=format_share(weakest["recall"], 0), rows=weakest["rows"]
    )
    pairs = [pair for pair in confused_pairs(scores, 10**6) if pair["true"] == weakest["label"]]
    if pairs:
        text += _("; it is most often taken for “{other}”").format(other=pairs[0]["predicted"])
    return [text + _(".")]


def _took(results: dict[str, Any]) -> str:
    text = _("Training took {time} for {steps} steps; the best model is that of step {best}.")
    return text.format(time=format_seconds(results.get("seconds")), steps=results["steps"], best=results["best_step"])
