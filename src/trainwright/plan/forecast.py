"""What a planned run will take: memory, time and money, each with its reason."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trainwright.messages.text import _
from trainwright.plan import cost
from trainwright.plan.cards import all_cards, card_of
from trainwright.plan.memory import Memory, Setting, largest_micro_batch, memory_of
from trainwright.plan.padding import padding_of
from trainwright.plan.shape import Shape
from trainwright.plan.speed import SEVERAL_CARDS, Speed, device_name, like, rate_of
from trainwright.recipe.schema import Recipe
from trainwright.records import Forecast, Machine, Plan, Prepared
from trainwright.units import Money, format_bytes

# Share of the memory that is there which a prediction may fill. The rest belongs to the driver, the display, the
# system; and on a processor a prediction was seen to be a sixth too low (docs/plan-memory.md).
USABLE = {"cpu": 0.8, "cuda": 0.95}
EVALUATED = 256  # rows that the rehearsal evaluates
# Until runs here are remembered; measured on two Zen 4 cores with a cloud disk
START_SECONDS = 15.0  # importing torch and transformers, building the model
SAVE_RATE = 300e6  # bytes per second: written, synced and hashed
# Elsewhere the data is prepared and the model fetched anew
PREPARE_RATE = 0.3e6  # tokens per second and core; a fast tokenizer on one core
DOWNLOAD_RATE = 10e6  # bytes per second; what hubs and mirrors commonly give


# A layer's forward and backward is some hundred kernels, each of which eager PyTorch takes about ten microseconds to
# start, however small: below that a card waits. An order of magnitude, until a run on the card is remembered.
LAUNCH_SECONDS = 1e-3
LEARNED = "learned"  # the part of memory that past runs add to what is counted
NO_PRICES = cost.Prices({}, {})


@dataclass(frozen=True)
class Place:
    """Where a run would go.

    Attributes:
        elsewhere: Whether that is another machine than this one.
        hosts: How many machines.
        price: What they cost an hour together, as the command line says.
        prices: The user's list.
    """

    elsewhere: bool = False
    hosts: int = 1
    price: str | None = None
    prices: cost.Prices = NO_PRICES


def forecast(
    recipe: Recipe,
    plan: Plan,
    prepared: Prepared,
    machine: Machine,
    shape: Shape | None,
    packed: bool,
    past: Sequence[Speed] = (),
    place: Place | None = None,
) -> Forecast:
    """Predict memory, time and money of a plan.

    Args:
        shape: Sizes of the model; None where its family is not counted.
        packed: Whether rows run without padding.
        past: What earlier runs reached.
        place: Which machine, and what it costs.
    """
    place = place or Place()
    cards = len(machine.gpus) * place.hosts if plan.device == "cuda" else 0
    name = device_name(machine, plan.device)
    setting = setting_of(recipe, plan.device, plan.precision, packed)
    memory = predicted_memory(recipe, prepared, shape, setting, plan.tokens_per_micro_batch, max(1, cards))
    parts = _with_what_was_learned(memory, like(past, name, plan.precision, model_name(shape))) if memory else None
    needed = sum(parts.values()) if parts else None
    available = memory_available(machine, plan.device)
    fits = needed <= USABLE[plan.device] * available if needed and available else None
    rate = rate_of(machine, plan.device, plan.precision, model_name(shape), past)
    speed = rate.value * max(1, cards) * (SEVERAL_CARDS if cards > 1 else 1) if rate.value else None
    flops = step_flops(recipe, prepared, shape, packed, plan.tokens_per_micro_batch)
    seconds = _seconds(recipe, plan, prepared, machine, shape, flops, speed, past, name, place.elsewhere)
    total = None if None in seconds.values() else math.fsum(value or 0.0 for value in seconds.values())
    card = card_of(machine.gpus[0]) if cards else None
    in_recipe = None if place.elsewhere else recipe.run.price_per_hour
    price = cost.price_of(card, cards, place.price, in_recipe, place.prices)
    epochs = plan.steps / plan.steps_per_epoch
    training = seconds["training"]
    return Forecast(
        device=name,
        cards=cards,
        precision=plan.precision,
        tokens_per_micro_batch=plan.tokens_per_micro_batch,
        parameters=shape.parameters if shape else None,
        flops=flops * plan.steps if flops else None,
        memory=parts,
        memory_total=needed,
        memory_available=available,
        fits=fits,
        ways=[] if fits is not False else ways_to_fit(recipe, prepared, shape, setting, available or 0, max(1, cards)),
        seconds=seconds,
        seconds_total=total,
        cost=_text(cost.cost_of(price.value, total)),
        cost_per_epoch=_text(cost.cost_of(price.value, None if training is None else training / epochs)),
        price=_text(price.value),
        because={"memory": _why_memory(shape, memory), "speed": rate.because, "price": price.because},
    )


def setting_of(recipe: Recipe, device: str, precision: str, packed: bool) -> Setting:
    """How the steps of a recipe are run, as far as memory depends on it."""
    optimizer = str(recipe.trainer.get("optim", "adamw_torch_fused"))
    return Setting(device, precision, packed, _recomputes(recipe), optimizer)


def model_name(shape: Shape | None) -> str:
    """By what a model's speed is remembered."""
    return f"{shape.kind} {shape.layers}x{shape.hidden}" if shape else "n/a"


def memory_available(machine: Machine, device: str) -> int | None:
    """Bytes of the smallest card, or of the machine; None if not known."""
    if device == "cpu":
        return machine.memory
    known = [gpu.memory for gpu in machine.gpus if gpu.memory is not None]
    return min(known, default=None)


def predicted_memory(
    recipe: Recipe, prepared: Prepared, shape: Shape | None, setting: Setting, tokens: int, cards: int
) -> Memory | None:
    """Memory of the largest micro-batch that the training rows can make."""
    if shape is None:
        return None
    rows = math.ceil(recipe.learn.batch_size / cards)
    packed = setting.packed and not setting.recompute
    return memory_of(shape, largest_micro_batch(cut_lengths(prepared), rows, tokens, packed), setting)


def ways_to_fit(
    recipe: Recipe, prepared: Prepared, shape: Shape | None, setting: Setting, available: int, cards: int
) -> list[str]:
    """What would make it fit, the cheapest first, each with what it would take."""
    longest = max(length for length, _rows in cut_lengths(prepared))
    finest = dataclasses.replace(setting, recompute=False)
    recomputing = dataclasses.replace(finest, recompute=True)
    eight_bit = dataclasses.replace(recomputing, optimizer="adamw_bnb_8bit")
    tried = [
        (_("the finest cut, run.tokens_per_micro_batch: {tokens}").format(tokens=longest), finest),
        (_("recomputation, trainer.gradient_checkpointing: true"), recomputing),
        (_("an optimizer that keeps 8 bits, trainer.optim: adamw_bnb_8bit (package bitsandbytes)"), eight_bit),
    ]
    ways, least = [], None
    for words, way in tried:
        memory = predicted_memory(recipe, prepared, shape, way, longest, cards)
        if memory is None:
            continue
        least = memory
        enough = memory.total <= USABLE[setting.device] * available
        text = _("{way}: {bytes}, which fits") if enough else _("{way}: {bytes}, still too much")
        ways.append(text.format(way=words, bytes=format_bytes(memory.total)))
        if enough:
            return ways
    if least is None or shape is None:
        return ways
    frozen = least.total - least.gradients - least.optimizer
    ways.append(_("adapters (LoRA) on frozen weights: about {bytes}").format(bytes=format_bytes(frozen)))
    if setting.device == "cuda":
        state = least.weights + least.gradients + least.optimizer
        ways.append(
            _("weights and optimizer sharded over two cards: {bytes} each").format(
                bytes=format_bytes(least.total - state // 2)
            )
        )
        larger = sorted(
            (card for card in all_cards() if least.total <= USABLE["cuda"] * card.memory), key=lambda c: c.memory
        )
        if larger:
            ways.append(_("a larger card: {name}").format(name=larger[0].name))
    return ways


def cut_lengths(prepared: Prepared, split: str = "train") -> list[tuple[int, int]]:
    """Rows of a split by length as they are trained on: no longer than max_length."""
    cut: dict[int, int] = {}
    for length, rows in prepared.lengths.get(split, []):
        cut[min(length, prepared.max_length)] = cut.get(min(length, prepared.max_length), 0) + rows
    return sorted(cut.items())


def step_flops(recipe: Recipe, prepared: Prepared, shape: Shape | None, packed: bool, tokens: int) -> float | None:
    """Operations of an average training step, those for padding included."""
    if shape is None:
        return None
    lengths = cut_lengths(prepared)
    rows = sum(count for _length, count in lengths)
    padding = 1.0 if packed and not _recomputes(recipe) else padding_of(lengths, recipe.learn.batch_size, tokens)
    return shape.training_flops(lengths, _recomputes(recipe)) / rows * recipe.learn.batch_size * padding


def _seconds(
    recipe: Recipe,
    plan: Plan,
    prepared: Prepared,
    machine: Machine,
    shape: Shape | None,
    flops: float | None,
    speed: float | None,
    past: Sequence[Speed],
    name: str,
    elsewhere: bool,
) -> dict[str, float | None]:
    """By phase; None where the model's size or the device's speed is not known."""
    here = [run for run in past if run.device == name]
    starts = [run.startup_seconds for run in here if run.startup_seconds is not None]
    saves = [run.save_bytes_per_second for run in here if run.save_bytes_per_second]
    tokens = sum(split.tokens for split in prepared.splits.values())
    found: dict[str, float | None] = {
        "preparing": tokens / (PREPARE_RATE * max(1.0, machine.cores)) if elsewhere else 0.0,
        "download": 4 * shape.parameters / DOWNLOAD_RATE if elsewhere and shape else 0.0,
        "start": median(starts) if starts else START_SECONDS,
    }
    if shape is None or flops is None or not speed:
        return found | dict.fromkeys(("rehearsal", "training", "evaluation", "saving"), None)
    step = flops / speed
    if plan.device == "cuda":
        real = sum(length * count for length, count in cut_lengths(prepared)) / prepared.splits["train"].rows
        pieces = math.ceil(recipe.learn.batch_size * real / plan.tokens_per_micro_batch)
        step = max(step, LAUNCH_SECONDS * shape.layers * pieces)
    evaluate = {split: shape.forward_flops(cut_lengths(prepared, split)) / speed for split in ("validation", "test")}
    rows = max(1, sum(count for _length, count in cut_lengths(prepared, "validation")))
    rate = median(saves) if saves else SAVE_RATE
    weights = 4 * shape.parameters
    evaluations = plan.steps // plan.eval_steps + 1
    rehearsed = step * plan.rehearsal_steps + min(1.0, EVALUATED / rows) * evaluate["validation"] + 2 * weights / rate
    return found | {
        "rehearsal": rehearsed if plan.rehearsal_steps else 0.0,
        "training": step * plan.steps,
        "evaluation": evaluations * evaluate["validation"] + evaluate["test"],
        "saving": (math.ceil(plan.steps / plan.save_steps) * 3 * weights + weights) / rate,
    }


def _with_what_was_learned(memory: Memory, seen: Sequence[Speed]) -> dict[str, int]:
    """The parts, and what past runs of this model took more or less than such a sum."""
    ratios = [run.memory_ratio for run in seen if run.memory_ratio]
    learned = round((median(ratios) - 1) * memory.total) if ratios else 0
    return dataclasses.asdict(memory) | {LEARNED: learned}


def _why_memory(shape: Shape | None, memory: Memory | None) -> str:
    if memory is not None:
        return _("counted from the model's sizes for a micro-batch of the longest rows")
    kind = shape.kind if shape else _("this family")
    return _("not counted for {kind} with these settings; the rehearsal will measure it").format(kind=kind)


def _recomputes(recipe: Recipe) -> bool:
    return bool(recipe.trainer.get("gradient_checkpointing", False))


def _text(money: Money | None) -> str | None:
    return None if money is None else str(money)
