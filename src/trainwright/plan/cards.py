"""What rented cards can do, from their makers' data sheets: memory, rates of arithmetic, bandwidth.

``cards.json`` beside this file holds one line a card, with source and confidence of its figures.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path

from trainwright.errors import MachineError
from trainwright.messages.text import _
from trainwright.records import Gpu, Machine

GIB = 2**30


@dataclass(frozen=True)
class Card:
    """A kind of card.

    Attributes:
        name: As people call it.
        aliases: Other spellings, without spaces, in small letters.
        driver_name: Pattern that the driver's name of such a card fits.
        memory: Bytes.
        capability: CUDA compute capability.
        rates: Floating-point operations per second of dense matrix products by precision; a precision that the card
            does not multiply faster than fp32 is left out.
        bandwidth: Bytes per second of its memory.
        source: Where the figures are from.
        confidence: ``read`` in the source, ``derived``, or ``from memory``.
    """

    name: str
    aliases: tuple[str, ...]
    driver_name: str
    memory: int
    capability: tuple[int, int]
    rates: dict[str, float]
    bandwidth: float
    source: str
    confidence: str

    def rate(self, precision: str) -> float:
        """Operations per second in a precision; that of fp32 where the card has no units for it."""
        return self.rates.get(precision, self.rates["fp32"])


@functools.cache
def all_cards() -> tuple[Card, ...]:
    """The catalogue."""
    plain = json.loads((Path(__file__).parent / "cards.json").read_text(encoding="utf-8"))
    return tuple(_card(item) for item in plain["cards"])


def card_named(name: str) -> Card:
    """A card by what people call it: ``a100-80g``, ``RTX 4090``, ``V100``.

    Raises:
        MachineError: It is not in the catalogue; the nearest names are given.
    """
    wanted = _plain(name)
    by_name = {_plain(alias): card for card in all_cards() for alias in (card.name, *card.aliases)}
    if wanted in by_name:
        return by_name[wanted]
    near = difflib.get_close_matches(wanted, by_name, n=3, cutoff=0.5)
    shown = list(dict.fromkeys(by_name[word].aliases[0] for word in near)) or [c.aliases[0] for c in all_cards()]
    raise MachineError(
        _("The card '{name}' is not in the catalogue.").format(name=name),
        _("Name one that is: {names}.").format(names=", ".join(shown)),
    )


def card_of(gpu: Gpu) -> Card | None:
    """The kind of a card that is here, by the driver's name and its memory; None if the catalogue lacks it."""
    named = [card for card in all_cards() if card.name == gpu.name]  # one that is planned for
    fitting = named or [card for card in all_cards() if re.search(card.driver_name, gpu.name)]
    if gpu.memory is None or len(fitting) < 2:
        return fitting[0] if fitting else None
    return min(fitting, key=lambda card: abs(card.memory - (gpu.memory or 0)))


def machine_with(machine: Machine, card: Card, count: int) -> Machine:
    """The same machine with other cards in it: what is planned for them is planned as if they were here."""
    gpus = [Gpu(index, card.name, card.memory, card.capability, None) for index in range(count)]
    return dataclasses.replace(machine, gpus=gpus)


def _card(item: dict) -> Card:
    named = {kind: item[f"{kind}_tflops"] for kind in ("fp32", "fp16", "bf16")}
    return Card(
        name=item["name"],
        aliases=tuple(item["aliases"]),
        driver_name=item["driver_name"],
        memory=item["memory_gib"] * GIB,
        capability=(item["capability"][0], item["capability"][1]),
        rates={kind: rate * 1e12 for kind, rate in named.items() if rate is not None},
        bandwidth=item["bandwidth_gb_s"] * 1e9,
        source=item["source"],
        confidence=item["confidence"],
    )


def _plain(name: str) -> str:
    """Spelled in one way: ``RTX 4090``, ``rtx4090`` and ``NVIDIA GeForce RTX-4090`` are one; so are 80g and 80GB."""
    word = re.sub(r"nvidia|geforce|tesla|rtx|[\s_-]", "", name.lower())
    return re.sub(r"(\d)gi?b?$", r"\1g", word)
