"""Choose device and precision, each with its reason; refuse what the hardware does only by emulation."""

from __future__ import annotations

from trainwright.errors import MachineError
from trainwright.messages.text import _
from trainwright.records import Choice, Gpu, Machine

# From this compute capability on a card multiplies bf16 in hardware (NVIDIA, Ampere whitepaper). Older ones emulate
# it slowly, though torch.cuda.is_bf16_supported() says yes on a V100.
BF16_CAPABILITY = (8, 0)


def choose_device(machine: Machine, asked: str) -> Choice:
    """``cpu`` or ``cuda``.

    Args:
        asked: auto, cpu or cuda.

    Raises:
        MachineError: A card is asked for and none is seen.
    """
    if asked == "cpu":
        return Choice("cpu", "recipe")
    if machine.gpus:
        because = _("{name} is here").format(name=machine.gpus[0].name)
        return Choice("cuda", "chosen" if asked == "auto" else "recipe", because)
    if asked == "cuda":
        raise MachineError(
            _("run.device asks for a card, but none is seen here.") + " " + why_no_card(machine), _way_out()
        )
    return Choice("cpu", "chosen", _("no card is seen here"))


def choose_precision(machine: Machine, device: str, asked: str) -> Choice:
    """``bf16``, ``fp16`` or ``fp32`` for a device.

    Args:
        device: cpu or cuda.
        asked: auto, fp32, bf16 or fp16.

    Raises:
        MachineError: fp16 without a card, or bf16 on a card that only emulates it.
    """
    card = machine.gpus[0] if device == "cuda" and machine.gpus else None
    if asked != "auto":
        _refuse_impossible(machine, card, asked)
        return Choice(asked, "recipe")
    if card is None:
        return _for_processor(machine)
    if card.capability is None:
        return Choice("fp32", "chosen", _("the compute capability of {name} is not known").format(name=card.name))
    if card.capability >= BF16_CAPABILITY:
        return Choice("bf16", "chosen", _("{name} multiplies bf16 in hardware").format(name=_card(card)))
    return Choice(
        "fp16", "chosen", _("{name} has fp16, with scaling, but bf16 only by emulation").format(name=_card(card))
    )


def why_no_card(machine: Machine) -> str:
    """Why no card is seen, as far as the machine tells."""
    if machine.platform == "autodl":
        return _("On AutoDL the instance may have been started without its card (cardless mode).")
    return _("The driver shows none: there is no NVIDIA card, no driver, or the container was started without it.")


def _for_processor(machine: Machine) -> Choice:
    if machine.bf16_cpu:
        because = _("{name} multiplies bf16 in hardware (AVX512-BF16 or AMX)").format(name=machine.processor)
        return Choice("bf16", "chosen", because)
    return Choice("fp32", "chosen", _("{name} has no bf16 in hardware").format(name=machine.processor))


def _refuse_impossible(machine: Machine, card: Gpu | None, asked: str) -> None:
    if asked == "fp16" and card is None:
        raise MachineError(
            _("run.precision is fp16, which needs a card, but none is used here.") + " " + why_no_card(machine),
            _way_out(),
        )
    if asked == "bf16" and card is not None and card.capability is not None and card.capability < BF16_CAPABILITY:
        raise MachineError(
            _("run.precision is bf16, but {name} only emulates it, slowly.").format(name=_card(card)),
            _("Set run.precision to auto or fp16."),
        )


def _card(card: Gpu) -> str:
    return f"{card.name} ({card.capability[0]}.{card.capability[1]})" if card.capability else card.name


def _way_out() -> str:
    return _("Set run.device and run.precision to auto, or start a machine with a card.")
