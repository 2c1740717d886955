"""Cards, by the driver's own library: memory, who holds it, what slows them, how they are joined."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import psutil

from trainwright.doctor.records import CardSeen, CardsSeen, Check, Facts, Fix, Holder
from trainwright.errors import MachineError
from trainwright.machine.look import reading
from trainwright.machine.precision import choose_device, choose_precision, why_no_card
from trainwright.messages.text import _
from trainwright.records import Gpu
from trainwright.units import format_bytes

GIB = 2**30
HELD = GIB  # a driver keeps some hundred MiB of an idle card for itself
# Bits of NVML's nvmlClocksEventReasons; an idle card's and an application's own clocks slow nothing down
SLOWED_BY = {0x08: "hardware", 0x20: "heat", 0x40: "heat", 0x80: "power-brake", 0x04: "power-cap"}
JOINED_BY = {0: "board", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}  # NVML's nvmlGpuTopologyLevel_t
# Cards that are sold with more memory than their maker gives them, and what that is (makers' product pages), in GiB
USUAL_MEMORY = {"RTX 2080 Ti": (11,), "RTX 3080": (10, 12), "RTX 3090": (24,), "RTX 4080": (16,), "RTX 4090": (24,)}


def see_cards(gpus: list[Gpu], library: Any = None) -> CardsSeen:
    """Readings of these cards; one that the driver does not give is None.

    Args:
        library: Stands in for ``pynvml`` in tests.
    """
    nvml: Any = library if library is not None else importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return CardsSeen()
    try:
        handles = {gpu.index: reading(nvml, partial(nvml.nvmlDeviceGetHandleByIndex, gpu.index)) for gpu in gpus}
        handles = {index: handle for index, handle in handles.items() if handle is not None}
        cuda = reading(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
        return CardsSeen(
            cards=[_card(nvml, gpu, handles[gpu.index]) for gpu in gpus if gpu.index in handles],
            cuda=(cuda // 1000, cuda % 1000 // 10) if cuda else None,  # 12040 is 12.4
            driver=reading(nvml, nvml.nvmlSystemGetDriverVersion),
            links=[(one, other, _link(nvml, handles[one], handles[other])) for one, other in combinations(handles, 2)],
        )
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, gpu: Gpu, handle: Any) -> CardSeen:
    def ask(name: str, *more: Any) -> Any:
        return reading(nvml, lambda: getattr(nvml, name)(handle, *more))

    memory = ask("nvmlDeviceGetMemoryInfo")
    bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons")  # the name that old drivers have, too
    width, most = ask("nvmlDeviceGetCurrPcieLinkWidth"), ask("nvmlDeviceGetMaxPcieLinkWidth")
    return CardSeen(
        index=gpu.index,
        name=gpu.name,
        memory=int(memory.total) if memory else None,
        used=int(memory.used) if memory else None,
        holders=[_holder(one) for one in ask("nvmlDeviceGetComputeRunningProcesses") or []],
        slowed_by=None if bits is None else list(dict.fromkeys(word for bit, word in SLOWED_BY.items() if bits & bit)),
        temperature=ask("nvmlDeviceGetTemperature", 0),  # 0: the sensor on the chip
        width=(width, most) if width and most else None,
        generation=ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        nvlinks=_nvlinks(lambda number: ask("nvmlDeviceGetNvLinkState", number)),
    )


def _holder(process: Any) -> Holder:
    try:
        name: str | None = psutil.Process(process.pid).name()
    except (psutil.Error, ValueError):  # of another container, whose numbers are not ours
        name = None
    return Holder(process.pid, name, process.usedGpuMemory)


def _nvlinks(state: Callable[[int], Any]) -> int | None:
    """Active connections; None where the card has none to ask about."""
    states = [state(number) for number in range(18)]  # NVML_NVLINK_MAX_LINKS
    return None if all(one is None for one in states) else sum(one == 1 for one in states)


def _link(nvml: Any, one: Any, other: Any) -> str:
    """How two cards are joined, in the words of ``nvidia-smi topo -m``."""
    if reading(nvml, lambda: nvml.nvmlDeviceGetP2PStatus(one, other, 2)) == 0:  # 2: over NVLink; 0: yes
        return "NV"
    level = reading(nvml, lambda: nvml.nvmlDeviceGetTopologyCommonAncestor(one, other))
    return JOINED_BY.get(level, "n/a")


# -- checks --------------------------------------------------------------------------------------------------------


def cards_are_here(facts: Facts) -> Iterator[Check]:
    """Which cards there are, with their real memory; why none is seen."""
    wanted = facts.asked is not None and facts.asked.recipe.run.device == "cuda"
    if not facts.machine.gpus:
        fix = Fix(_("Start the machine with its card, or train on the processor: run.device: auto."))
        message = _("No card is seen.") + " " + why_no_card(facts.machine)
        yield Check("hardware.cards", "blocker" if wanted else "note", message, fix=fix)
    for card in facts.machine.gpus:
        usual = next((sizes for name, sizes in USUAL_MEMORY.items() if name in card.name), ())
        evidence = {"card": card.index, "name": card.name, "memory": card.memory, "capability": card.capability}
        if card.memory is None or card.capability is None:
            message = _("Card {index}, {name}: the driver does not tell its memory or capability.")
            yield Check("hardware.cards", "not available", message.format(index=card.index, name=card.name), evidence)
        elif usual and card.memory > 1.25 * max(usual) * GIB:
            message = _(
                "Card {index}, {name}, has {memory}, more than its maker gives it ({usual} GiB): a modified card."
            )
            said = message.format(index=card.index, name=card.name, memory=format_bytes(card.memory), usual=max(usual))
            yield Check("hardware.cards", "note", said, evidence)
        else:
            message = _("Card {index}: {name} with {memory}.")
            said = message.format(index=card.index, name=card.name, memory=format_bytes(card.memory))
            yield Check("hardware.cards", "ok", said, evidence)


def precision_is_possible(facts: Facts) -> Iterator[Check]:
    """The device and precision that the recipe asks for are in this hardware."""
    asked = facts.asked.recipe.run if facts.asked else None
    try:
        device = choose_device(facts.machine, asked.device if asked else "auto").value
        precision = choose_precision(facts.machine, device, asked.precision if asked else "auto")
    except MachineError as error:
        yield Check("hardware.precision", "blocker", error.message, fix=Fix(error.way_out))
        return
    message = _("Training would use {device} with {precision}")
    said = message.format(device=device, precision=precision.value)
    because = f": {precision.because}." if precision.because else "."
    yield Check("hardware.precision", "ok", said + because, {"device": device, "precision": precision.value})


def memory_is_free(facts: Facts) -> Iterator[Check]:
    """Nobody else holds the memory of a card."""
    for card in facts.cards.cards:
        if card.used is None:
            message = _("Card {index}: the driver does not tell how much memory is in use.").format(index=card.index)
            yield Check("hardware.card-memory", "not available", message)
        elif card.used > HELD:
            yield Check("hardware.card-memory", "warning", _held(card), vars(card), _holders_fix(card))
        else:
            message = _("Card {index}: its memory is free.").format(index=card.index)
            yield Check("hardware.card-memory", "ok", message, {"used": card.used})


def _held(card: CardSeen) -> str:
    message = _("Card {index}: {used} of {memory} is in use already, by {holders}.")
    holders = [f"{one.name or _('process')} {one.pid} ({format_bytes(one.memory)})" for one in card.holders]
    return message.format(
        index=card.index,
        used=format_bytes(card.used),
        memory=format_bytes(card.memory),
        holders=", ".join(holders) or _("processes that cannot be seen from here"),
    )


def _holders_fix(card: CardSeen) -> Fix:
    """Nothing is ended for the user: it may be theirs, and going on."""
    here = [str(one.pid) for one in card.holders if one.name is not None]
    text = _("If it is left over from an earlier run, end it; nothing is ended for you.")
    return Fix(text, by_hand=f"kill {' '.join(here)}" if here else "")


def nothing_slows_cards(facts: Facts) -> Iterator[Check]:
    """No card is slowed by heat or power."""
    words = {
        "heat": _("heat"),
        "power-brake": _("its power supply"),
        "hardware": _("a fault"),
        "power-cap": _("its power limit"),
    }
    for card in facts.cards.cards:
        if card.slowed_by is None:
            message = _("Card {index}: the driver does not tell whether it is slowed down.").format(index=card.index)
            yield Check("hardware.slowed", "not available", message)
        elif card.slowed_by:
            message = _("Card {index} is slowed down by {reasons} ({temperature} °C).").format(
                index=card.index,
                reasons=", ".join(words[one] for one in card.slowed_by),
                temperature=card.temperature if card.temperature is not None else "n/a",
            )
            only_cap = card.slowed_by == ["power-cap"]
            fix = None if only_cap else Fix(_("Rent another machine if it lasts; you pay for speed that is not there."))
            evidence = {"slowed_by": card.slowed_by, "temperature": card.temperature}
            yield Check("hardware.slowed", "note" if only_cap else "warning", message, evidence, fix)


def lanes_are_whole(facts: Facts) -> Iterator[Check]:
    """Each card has all its PCIe lanes; an idle card lowers its generation, never its width."""
    for card in facts.cards.cards:
        if card.width and card.width[0] < card.width[1]:
            message = _("Card {index} is connected by {now} of its {most} PCIe lanes: data reaches it more slowly.")
            said = message.format(index=card.index, now=card.width[0], most=card.width[1])
            yield Check("hardware.lanes", "note", said, {"width": card.width, "generation": card.generation})


def cards_are_joined(facts: Facts) -> Iterator[Check]:
    """How several cards reach each other."""
    links = facts.cards.links
    if not links:
        return
    kinds = sorted({kind for _one, _other, kind in links})
    evidence = {"links": [f"{one}-{other}: {kind}" for one, other, kind in links]}
    if kinds == ["NV"]:
        yield Check("hardware.links", "ok", _("All cards are joined by NVLink."), evidence)
    elif "SYS" in kinds:
        message = _("Some cards reach each other only through two processors (SYS): several cards gain less.")
        yield Check("hardware.links", "note", message, evidence)
    else:
        message = _("The cards are joined by {kinds}.").format(kinds=", ".join(kinds))
        yield Check("hardware.links", "note" if "n/a" not in kinds else "not available", message, evidence)


CHECKS = (
    cards_are_here,
    precision_is_possible,
    memory_is_free,
    nothing_slows_cards,
    lanes_are_whole,
    cards_are_joined,
)
