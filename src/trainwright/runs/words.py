"""A run's state and what to do next, in the user's language."""

from __future__ import annotations

from trainwright.messages.text import _
from trainwright.runs.folder import RunFolder


def next_steps(folder: RunFolder) -> list[str]:
    """What to do next, as lines to paste."""
    state = folder.status().state
    if state == "finished":
        return [
            _('Predict: trainwright predict {run} FILE   or   --text "..."').format(run=folder.path),
            _("Export:  trainwright export {run} --to onnx").format(run=folder.path),
        ]
    if state in ("stopped", "failed"):
        return [_("Go on with: trainwright resume {run}").format(run=folder.path)]
    return []


def state_name(state: str) -> str:
    """A run's state in the user's language."""
    return {
        "opened": _("opened"),
        "preparing": _("preparing"),
        "planning": _("planning"),
        "rehearsing": _("rehearsing"),
        "training": _("training"),
        "evaluating": _("evaluating"),
        "finished": _("finished"),
        "stopped": _("stopped, resumable"),
        "failed": _("failed, resumable"),
        "refused": _("refused"),
    }.get(state, state)


def metric_name(name: str) -> str:
    """A score in words."""
    return {
        "accuracy": _("accuracy"),
        "macro_f1": _("macro-F1"),
        "micro_f1": _("micro-F1"),
        "exact_match": _("whole set right"),
        "mcc": _("Matthews correlation"),
        "rmse": _("root mean squared error"),
        "mae": _("mean absolute error"),
        "pearson": _("Pearson correlation"),
        "spearman": _("Spearman correlation"),
        "kappa": _("quadratic kappa"),
        "loss": _("loss"),
    }.get(name, name)
