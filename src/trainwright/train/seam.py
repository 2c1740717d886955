"""Where a run goes on with another recipe than before: what changes, and whether that is agreed to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.errors import UserError
from trainwright.messages.text import _
from trainwright.plan.choose import make_plan
from trainwright.records import Choice, Finding, Plan
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal
from trainwright.runs.resume import Difference, newest_checkpoint
from trainwright.units import format_number


def agree(folder: RunFolder, found: Sequence[Difference], values: Mapping[str, Choice], accept: bool) -> None:
    """Write down what differs from before; go on only if it decides nothing of the result, or is agreed to.

    Args:
        values: The recipe's values from now on.

    Raises:
        UserError: Naming every value before and now, and the learning rate where the run would go on.
    """
    if not found:
        return
    learned = [one for one in found if one.learns]
    text = "; ".join(str(one) for one in (learned or found))
    seam = rates_at_seam(folder, values) if learned else ""
    if learned and not accept:
        refused = _("{run} would learn something else than before: {changes}.").format(run=folder.id, changes=text)
        raise UserError(
            refused + seam,
            _("Agree to it with `trainwright resume {run} --accept`, or train a new run.").format(run=folder.id),
        )
    message = _("Resumed with changes: {changes}.").format(changes="; ".join(map(str, found))) + seam
    evidence = {one.name: {"before": one.before, "now": one.now, "decides_result": one.learns} for one in found}
    journal = Journal(folder.journal, "watcher")
    journal.write("finding", finding=Finding("resume.changed", "warning" if learned else "note", message, evidence))
    journal.close()


def trains_longer(folder: RunFolder, values: Mapping[str, Choice]) -> bool:
    """Whether the recipe asks for more steps than the run's plan had."""
    before, now = folder.plan(), _plan_of(folder, values)
    return before is not None and now is not None and now.steps > before.steps


def rates_at_seam(folder: RunFolder, values: Mapping[str, Choice]) -> str:
    """A sentence with the learning rate of the next step, by the recipe before and by the one now; or nothing."""
    before, now, newest = folder.plan(), _plan_of(folder, values), newest_checkpoint(folder.checkpoints)
    if before is None or now is None or newest is None:
        return ""
    step = int(newest.name.rpartition("-")[2])
    rates = [_rate(folder.resolved(), before, step), _rate(values, now, step)]
    if rates[0] == rates[1]:
        return ""
    sentence = _("After step {step} the learning rate goes from {before} to {now}.")
    return " " + sentence.format(step=step, before=format_number(rates[0]), now=format_number(rates[1]))


def _plan_of(folder: RunFolder, values: Mapping[str, Choice]) -> Plan | None:
    prepared, machine = folder.prepared(), folder.machine()
    return make_plan(dict(values), prepared, machine)[0] if prepared and machine else None


def _rate(values: Mapping[str, Choice], plan: Plan, step: int) -> float | None:
    from trainwright.train.optimizer import rate_at  # heavy: only where something has changed

    rate, kind = values["learn.learning_rate"].value, values["learn.lr_scheduler_type"].value
    return rate_at(step, plan.steps, plan.warmup_steps, rate, kind)
