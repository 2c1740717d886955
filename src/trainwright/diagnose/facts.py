"""What a run folder says, as typed facts that the rules look at. Pure reading; whatever is missing is None or empty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trainwright.records import Finding, Plan, from_plain
from trainwright.runs.folder import RunFolder, Status
from trainwright.runs.journal import read_events, steps_of


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run.

    Attributes:
        status: What the run is doing, or how it ended.
        values: Every value in force by dotted name.
        logs: Log events of training by step.
        phases: Phases that were begun, oldest first.
        evaluations: Evaluate events of training by step.
        saves: Save events by step.
        errors: Error events, oldest first.
        noted: Findings that were made on the way; the latest of each kind.
        validation: Scores on validation, as results.json has them.
        best_step: Step of the best model.
    """

    status: Status
    values: dict[str, Any]
    plan: Plan | None = None
    logs: list[dict[str, Any]] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    saves: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    noted: list[Finding] = field(default_factory=list)
    validation: dict[str, Any] | None = None
    best_step: int | None = None

    @property
    def metric(self) -> str:
        """The metric by which the best model is chosen."""
        return str(self.values.get("learn.metric_for_best_model", "macro_f1"))


def facts_of(folder: RunFolder) -> RunFacts:
    """Read the facts of a run, whatever state it is in."""
    events = read_events(folder.journal) if folder.journal.is_dir() else []
    results = folder.results() or {}
    noted = [event for event in events if event["event"] == "finding"]
    return RunFacts(
        status=folder.status(),
        values={name: choice.value for name, choice in folder.resolved().items()},
        plan=folder.plan(),
        logs=steps_of(events, "log"),
        phases=[event["phase"] for event in events if event["event"] == "phase"],
        evaluations=steps_of(events, "evaluate"),
        saves=steps_of(events, "save"),
        errors=[event for event in events if event["event"] == "error"],
        noted=list({event["finding"]["id"]: from_plain(Finding, event["finding"]) for event in noted}.values()),
        validation=results.get("validation"),
        best_step=results.get("best_step"),
    )
