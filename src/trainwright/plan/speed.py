"""How fast a device trains: learned from past runs on it, else its rate on paper times what is usually reached."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from trainwright.messages.text import _
from trainwright.plan.cards import Card, card_of
from trainwright.records import Choice, Machine

# Share of a card's rate on paper that fine-tuning of an encoder reaches. NVIDIA's own BERT-large (DeepLearningExamples
# 21.11, table of single cards) reached 26 % in fine-tuning and 45 % in pre-training on an A100 in fp16, 31 % on a V100;
# without tensor cores, V100 in fp32, 57 %. The lowest of each kind is taken, so that a plan rather ends early.
CARD_SHARE = {"tensor": 0.26, "plain": 0.55}
# The same for a processor, of the rate of a plain product of matrices in fp32 that is timed when the plan is made:
# MiniLM and BERT layers on two Zen 4 cores. bf16 products are faster than that where the processor has units for them.
PROCESSOR_SHARE = {"fp32": 0.6, "bf16": 0.8, "fp16": 0.6}
SEVERAL_CARDS = 0.95  # of the sum of the cards' speeds: 7.66 of 8 in the same table
REMEMBERED = 5  # runs whose median counts
TENSOR_CORES = (7, 0)  # compute capability from which a card has them (NVIDIA, Volta whitepaper)
_PRODUCT = 768  # rows and columns of the timed product: a BERT-base layer's own size


@dataclass(frozen=True)
class Speed:
    """What a past run reached.

    Attributes:
        device: Name of the card, or of the processor with its threads.
        cards: How many; 0 for a processor.
        precision: fp32, bf16 or fp16.
        model: ``model_type``, layers and size, as words.
        flops_per_second: Operations of the steps by the closed form of plan/shape.py, over their seconds.
        memory_ratio: Memory measured over memory predicted; None if either is not known.
        save_bytes_per_second: Of checkpoints; None if none was written.
        startup_seconds: From the start of the training process to its first step; None if not known.
    """

    device: str
    cards: int
    precision: str
    model: str
    flops_per_second: float
    memory_ratio: float | None = None
    save_bytes_per_second: float | None = None
    startup_seconds: float | None = None


def speeds_file() -> Path:
    """Where past runs are remembered: in the user's state folder (XDG base directory specification)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "trainwright" / "speeds.jsonl"


def remember(speed: Speed, file: Path | None = None) -> None:
    """Add a run; one short line, written at once, so that runs which end together both stay."""
    file = file or speeds_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="utf-8") as opened:
        opened.write(json.dumps(asdict(speed)) + "\n")


def remembered(file: Path | None = None) -> list[Speed]:
    """Past runs, oldest first; a torn or foreign line is skipped."""
    try:
        lines = (file or speeds_file()).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            plain: dict[str, Any] = json.loads(line)
            found.append(Speed(**{name: plain[name] for name in Speed.__annotations__ if name in plain}))
        except (ValueError, TypeError):
            continue
    return found


def device_name(machine: Machine, device: str) -> str:
    """What speeds are remembered by: the card's name, or the processor's with its whole cores."""
    if device == "cuda" and machine.gpus:
        card = card_of(machine.gpus[0])
        return card.name if card else machine.gpus[0].name
    return f"{machine.processor}, {max(1, int(machine.cores))}"


def like(past: Sequence[Speed], device: str, precision: str, model: str) -> list[Speed]:
    """The last runs on this device in this precision: of this model if there are any, else of any model."""
    fitting = [speed for speed in past if (speed.device, speed.precision) == (device, precision)]
    same = [speed for speed in fitting if speed.model == model]
    return (same or fitting)[-REMEMBERED:]


def rate_of(machine: Machine, device: str, precision: str, model: str, past: Sequence[Speed]) -> Choice:
    """Operations per second that training will reach on one card, or on the processor, with the reason.

    Returns:
        A choice whose value is None for a card that is neither known nor was trained on.
    """
    name = device_name(machine, device)
    seen = like(past, name, precision, model)
    if seen:
        value = median(speed.flops_per_second / max(1, speed.cards) for speed in seen)
        kind = _("of this model") if seen[0].model == model else _("of other models")
        because = _("the median of {n} past runs {kind} on {device}").format(n=len(seen), kind=kind, device=name)
        return Choice(value, "chosen", because)
    if device == "cpu":
        return _rate_of_processor(name, precision)
    card = card_of(machine.gpus[0]) if machine.gpus else None
    if card is None:
        return Choice(None, "chosen", _("{device} is not in the catalogue and was not trained on").format(device=name))
    return _rate_of_card(card, precision)


def _rate_of_card(card: Card, precision: str) -> Choice:
    tensor = precision != "fp32" and card.capability >= TENSOR_CORES
    share = CARD_SHARE["tensor" if tensor else "plain"]
    because = _(
        "{share:.0%} of {peak:.4g} TFLOP/s in {precision} on paper ({confidence}: {source}); what NVIDIA's own BERT "
        "reaches, until a run here is remembered"
    ).format(
        share=share,
        peak=card.rate(precision) / 1e12,
        precision=precision if precision in card.rates else "fp32",
        confidence={"read": _("read"), "derived": _("derived"), "from memory": _("from memory")}[card.confidence],
        source=card.source,
    )
    return Choice(share * card.rate(precision), "chosen", because)


def _rate_of_processor(name: str, precision: str) -> Choice:
    timed, share = timed_product(), PROCESSOR_SHARE[precision]
    because = _(
        "{share:.0%} of {rate:.3g} GFLOP/s, which a product of matrices in fp32 reached here just now; until a run on "
        "{device} is remembered"
    ).format(share=share, rate=timed / 1e9, device=name)
    return Choice(share * timed, "chosen", because)


def timed_product(rounds: int = 5) -> float:
    """Operations per second of a product of matrices in fp32, the fastest of some rounds; takes milliseconds."""
    import numpy as np

    left, right = np.ones((_PRODUCT, _PRODUCT), np.float32), np.ones((_PRODUCT, _PRODUCT), np.float32)
    seconds = []
    for _round in range(rounds):
        began = time.perf_counter()
        np.matmul(left, right)
        seconds.append(time.perf_counter() - began)
    return 2 * _PRODUCT**3 / min(seconds)
