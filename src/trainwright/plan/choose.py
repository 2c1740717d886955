"""Settle everything that depends on data and machine, each value with its reason, before anything expensive starts."""

from __future__ import annotations

import math
from typing import Any

from trainwright.machine.precision import choose_device, choose_precision
from trainwright.messages.text import _
from trainwright.plan.forecast import USABLE, memory_available, predicted_memory, setting_of
from trainwright.plan.memory import Setting
from trainwright.plan.shape import Shape
from trainwright.recipe.load import choose, recipe_from_values
from trainwright.recipe.schema import Recipe
from trainwright.recipe.tasks import metrics_of
from trainwright.records import Choice, Machine, Plan, Prepared
from trainwright.units import format_bytes, parse_share

WARMUP_SHARE = 0.06  # of all steps: the share that RoBERTa (Liu et al. 2019) used for fine-tuning
EVALUATIONS = 10  # over a run: enough to see a curve, few enough to be cheap
EVALUATION_COST = 0.1  # share of the training time that automatic evaluations may take
FORWARD_SHARE = 1 / 3  # of a training step's work: forward is one part, backward two
LOG_LINES = 100  # over a run: as many points as a curve on a screen can show
# Padded tokens of a micro-batch. On a CPU small ones of like length waste least padding and stay in the caches; a GPU
# wants more work per kernel launch.
CPU_TOKENS = 2048
GPU_TOKENS = 16384
REHEARSAL_STEPS = 50  # at most
REHEARSAL_SHARE = 0.03  # of all steps, where that is less
REHEARSAL_LEAST = 4  # the longest rows, some others, an evaluation, a save


def make_plan(
    values: dict[str, Choice],
    prepared: Prepared,
    machine: Machine,
    batches: Choice | None = None,
    shape: Shape | None = None,
) -> tuple[Plan, dict[str, Choice]]:
    """Decide what will happen.

    Args:
        values: Every value of the recipe with its origin.
        prepared: The tokenised data.
        machine: What is here.
        batches: Packed or padded, as the model allows; None leaves it to the training process.
        shape: Sizes of the model, so that micro-batches fit into memory; None where they are not counted.

    Returns:
        The plan, and the values with what was chosen filled in.

    Raises:
        MachineError: The recipe asks for a device or precision that is not here.
    """
    recipe = recipe_from_values(values)
    steps_per_epoch = math.ceil(prepared.splits["train"].rows / recipe.learn.batch_size)
    steps = recipe.learn.max_steps or math.ceil(recipe.learn.num_train_epochs * steps_per_epoch)
    device = choose_device(machine, recipe.run.device)
    precision = choose_precision(machine, device.value, recipe.run.precision)
    if recipe.trainer.get("gradient_checkpointing") and batches is not None:
        batches = Choice("padded", "chosen", _("layers that are computed anew need padded batches"))
    kind = recipe.run.batches if recipe.run.batches != "auto" or batches is None else batches.value
    chosen = {
        "run.device": device,
        "run.precision": precision,
        "run.tokens_per_micro_batch": _that_fits(
            _micro_batch(recipe, prepared, device.value),
            recipe,
            prepared,
            machine,
            setting_of(recipe, device.value, precision.value, kind == "packed"),
            shape,
        ),
        "run.dataloader_num_workers": _workers(recipe),
        "learn.warmup_steps": _warmup(recipe, steps),
        "learn.eval_steps": _eval_steps(recipe, prepared, steps),
        "learn.metric_for_best_model": _metric(recipe),
        "run.rehearse": _rehearsal(recipe, prepared, steps),
    }
    if batches is not None and recipe.run.batches == "auto":
        chosen["run.batches"] = batches
    for name, choice in chosen.items():
        if choice.because and choice.origin == "chosen":
            values = choose(values, name, choice.value, choice.because)
    eval_steps = chosen["learn.eval_steps"].value
    plan = Plan(
        steps=steps,
        steps_per_epoch=steps_per_epoch,
        warmup_steps=chosen["learn.warmup_steps"].value,
        eval_steps=eval_steps,
        save_steps=int(recipe.trainer.get("save_steps") or eval_steps),
        logging_steps=int(recipe.trainer.get("logging_steps") or max(1, steps // LOG_LINES)),
        precision=chosen["run.precision"].value,
        tokens_per_micro_batch=chosen["run.tokens_per_micro_batch"].value,
        rehearsal_steps=chosen["run.rehearse"].value,
        device=device.value,
        price_per_hour=recipe.run.price_per_hour,
    )
    return plan, values


def of_steps(value: int | str, steps: int) -> int:
    """A number of steps from a number or a share: "6%" of 200 steps is 12, and never less than 1 unless it is 0."""
    if isinstance(value, int):
        return value
    share = parse_share(value)
    return max(1, round(share * steps)) if share > 0 else 0


def _asked(value: Any) -> Choice:
    return Choice(value, "recipe")


def _warmup(recipe: Recipe, steps: int) -> Choice:
    asked = recipe.learn.warmup_steps
    if asked != "auto":
        return _asked(of_steps(asked, steps))
    warmup = max(1, round(WARMUP_SHARE * steps))
    because = _("{share:.0%} of {steps} steps, so that the first large gradients meet a small rate")
    return Choice(warmup, "chosen", because.format(share=WARMUP_SHARE, steps=steps))


def _eval_steps(recipe: Recipe, prepared: Prepared, steps: int) -> Choice:
    asked = recipe.learn.eval_steps
    if asked != "auto":
        return _asked(min(steps, max(1, of_steps(asked, steps))))
    validation = prepared.splits.get("validation")
    rows = validation.rows if validation else 0
    affordable = math.ceil(rows * FORWARD_SHARE / (EVALUATION_COST * recipe.learn.batch_size))
    every = min(steps, max(1, steps // EVALUATIONS, affordable))
    because = _("about {times} evaluations of {rows} rows, at most {cost:.0%} of the training time")
    return Choice(every, "chosen", because.format(times=max(1, steps // every), rows=rows, cost=EVALUATION_COST))


def _micro_batch(recipe: Recipe, prepared: Prepared, device: str) -> Choice:
    asked = recipe.run.tokens_per_micro_batch
    if asked != "auto":
        return _asked(asked)
    if device == "cpu":
        because = _("on a processor small micro-batches of like length pad least")
        return Choice(max(CPU_TOKENS, prepared.max_length), "chosen", because)
    because = _("a card wants many tokens per kernel launch")
    return Choice(max(GPU_TOKENS, prepared.max_length), "chosen", because)


def _metric(recipe: Recipe) -> Choice:
    if recipe.learn.metric_for_best_model != "auto":
        return _asked(recipe.learn.metric_for_best_model)
    first = metrics_of(recipe.task)[0]
    return Choice(first, "chosen", _("the usual score of the task {task}").format(task=recipe.task))


def _that_fits(
    planned: Choice, recipe: Recipe, prepared: Prepared, machine: Machine, setting: Setting, shape: Shape | None
) -> Choice:
    """The planned tokens, or so few that memory suffices; what the user asked for stays, and the forecast tells."""
    available = memory_available(machine, setting.device)
    if planned.origin != "chosen" or shape is None or available is None:
        return planned
    tokens = planned.value
    while True:
        memory = predicted_memory(recipe, prepared, shape, setting, tokens, max(1, len(machine.gpus)))
        if memory is None or memory.total <= USABLE[setting.device] * available or tokens <= prepared.max_length:
            break
        tokens = max(prepared.max_length, tokens // 2)
    if tokens == planned.value:
        return planned
    because = _("more would not fit into {memory}").format(memory=format_bytes(available))
    return Choice(tokens, "chosen", because)


def _workers(recipe: Recipe) -> Choice:
    if recipe.run.dataloader_num_workers != "auto":
        return _asked(recipe.run.dataloader_num_workers)
    return Choice(0, "chosen", _("rows are read from a memory map, faster than a second process could hand them over"))


def _rehearsal(recipe: Recipe, prepared: Prepared, steps: int) -> Choice:
    asked = recipe.run.rehearse
    if asked == "off":
        return _asked(0)
    if isinstance(asked, int):
        return _asked(min(asked, steps))
    if asked != "auto":
        rows = parse_share(asked) * prepared.splits["train"].rows
        return _asked(max(1, math.ceil(rows / recipe.learn.batch_size)))
    count = min(REHEARSAL_STEPS, max(REHEARSAL_LEAST, round(REHEARSAL_SHARE * steps)))
    because = _("the whole road once, on the longest rows and some others, before the long part")
    return Choice(min(count, steps), "chosen", because)
