"""Time a few steps on a copy of the model to choose how large a micro-batch is fastest on this machine.

Nothing of the training is touched: the model is another copy, its gradients are thrown away, and the random numbers of
the training are drawn from its own seeds. The choice is written into the plan, so a resumed run repeats it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING

import torch

from trainwright.messages.text import _
from trainwright.model.memory import is_out_of_memory
from trainwright.recipe.load import choose
from trainwright.records import Plan
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal
from trainwright.train.recovery import release

if TYPE_CHECKING:
    from trainwright.train.rows import StepRows
    from trainwright.train.trainer import Trainer

FACTORS = (0.5, 1, 2, 4)  # of the planned tokens of a micro-batch
ROUNDS = 3  # each candidate in turn, so that a noisy moment hits all alike
COST = 0.02  # share of the run that the timed steps may take
GAIN = 0.03  # below this the plan stays as it is: timings differ by as much


def probe(
    folder: RunFolder, plan: Plan, journal: Journal, make_trainer: Callable[[], Trainer], chosen_by_us: bool
) -> Plan:
    """Choose the tokens of a micro-batch by timing, where the run is long enough to pay for it.

    Args:
        make_trainer: Makes a trainer with a model of its own.
        chosen_by_us: Whether the planned size is Trainwright's; a user's own is never changed.

    Returns:
        The plan in force from now on; written to the run folder if it changed.
    """
    timed = ROUNDS * len(FACTORS) + 1
    if not chosen_by_us or timed > COST * plan.steps:
        return plan
    trainer = make_trainer()
    rows = next(iter(trainer.get_train_dataloader()))
    candidates = sorted({max(1, int(plan.tokens_per_micro_batch * factor)) for factor in FACTORS})
    different = _that_differ(trainer, rows, candidates, plan.tokens_per_micro_batch)
    if len(different) < 2:  # the whole step fits into the smallest: nothing to choose from
        return plan
    seconds = time_steps(trainer, rows, different)
    best = fastest(seconds, plan.tokens_per_micro_batch)
    because = _("the fastest of timed steps: {timings}").format(
        timings=", ".join(f"{tokens}: {value:.3g} s" for tokens, value in seconds.items())
    )
    journal.write("probe", sync=True, seconds={str(key): value for key, value in seconds.items()}, chosen=best)
    folder.write_resolved(choose(folder.resolved(), "run.tokens_per_micro_batch", best, because))
    plan = dataclasses.replace(plan, tokens_per_micro_batch=best)
    folder.write_plan(plan)
    return plan


def fastest(seconds: Mapping[int, float], planned: int) -> int:
    """The fastest candidate, or the planned one where nothing is clearly faster."""
    best = min(seconds, key=lambda tokens: seconds[tokens])
    return best if planned not in seconds or seconds[best] < (1 - GAIN) * seconds[planned] else planned


def time_steps(trainer: Trainer, rows: StepRows, candidates: list[int]) -> dict[int, float]:
    """Median seconds of forward and backward of one step per candidate; one that does not fit is left out."""
    taken: dict[int, list[float]] = {tokens: [] for tokens in candidates}
    trainer.model.to(trainer.args.device)
    for number in range(ROUNDS + 1):  # the first round warms up
        for tokens in list(taken):
            trainer.tokens_per_micro_batch = tokens
            try:
                seconds = _one_step(trainer, rows)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                del taken[tokens]
                release(trainer.model)
                continue
            if number:
                taken[tokens].append(seconds)
    return {tokens: median(values) for tokens, values in taken.items() if values}


def _one_step(trainer: Trainer, rows: StepRows) -> float:
    began = time.perf_counter()
    trainer.timed_step(rows)
    if trainer.args.device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    trainer.model.zero_grad(set_to_none=True)
    return seconds


def _that_differ(trainer: Trainer, rows: StepRows, candidates: list[int], planned: int) -> list[int]:
    """Candidates that cut these rows differently; of those that cut alike, the planned one stays."""
    trainer.choose_batches(rows.rows[0])
    by_cut: dict[str, int] = {}
    for tokens in [planned, *candidates]:
        trainer.tokens_per_micro_batch = tokens
        by_cut.setdefault(repr(trainer.cut(rows.lengths())), tokens)
    return sorted(by_cut.values())
