"""The tasks: what each one learns, which head it takes and by which scores it is measured, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.records import Choice


@dataclass(frozen=True)
class TaskKind:
    """What a name of ``task:`` stands for.

    Attributes:
        name: As the recipe has it.
        head: The kind of model, as in transformers' ``AutoModelFor...``.
        label: What a row is labelled with: ``class`` (one of several), ``set`` (any number of several), ``score`` (a
            number), or ``rank`` (one of several that have an order).
        label_of: What a label belongs to: ``row``, ``token`` or ``next token``.
        metrics: Its scores; the best model is chosen by the first, unless the recipe names another.
        shown: Those that are shown where there is room for two.
    """

    name: str
    head: str
    label: str
    label_of: str
    metrics: tuple[str, ...]
    shown: tuple[str, str]


TASKS = {
    kind.name: kind
    for kind in (
        TaskKind(
            name="text-classification",
            head="SequenceClassification",
            label="class",
            label_of="row",
            metrics=("macro_f1", "accuracy", "mcc"),
            shown=("accuracy", "macro_f1"),
        ),
        TaskKind(
            name="multi-label",
            head="SequenceClassification",
            label="set",
            label_of="row",
            metrics=("micro_f1", "macro_f1", "exact_match"),
            shown=("micro_f1", "macro_f1"),
        ),
        TaskKind(
            name="regression",
            head="SequenceClassification",
            label="score",
            label_of="row",
            metrics=("rmse", "pearson", "spearman", "mae"),
            shown=("rmse", "pearson"),
        ),
        TaskKind(
            name="ordinal",
            head="SequenceClassification",
            label="rank",
            label_of="row",
            metrics=("kappa", "mae", "accuracy", "macro_f1"),
            shown=("kappa", "accuracy"),
        ),
    )
}
LESS_IS_BETTER = ("loss", "rmse", "mae")


def greater_is_better(metric: str) -> bool:
    """Whether a greater value of a score is a better one."""
    return metric not in LESS_IS_BETTER


def metrics_of(task: str) -> tuple[str, ...]:
    """The scores by which the best model of a task may be chosen; the first one is unless another is named."""
    return (*TASKS[task].metrics, "loss")


def all_metrics() -> tuple[str, ...]:
    """The scores of all tasks, each once."""
    return tuple(dict.fromkeys(metric for task in TASKS for metric in metrics_of(task)))


def task_of(values: Mapping[str, Choice]) -> TaskKind:
    """The task of a recipe's values by dotted name; text classification where they do not say."""
    named = values.get("task")
    return TASKS[str(named.value) if named else "text-classification"]
