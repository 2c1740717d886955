"""Does a build of torch cover the cards of this machine, and what to choose if it does not: a decision on plain facts.

Only the standard library is used: this runs before anything is installed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TORCH_FLOOR = (2, 6)  # the lowest version in pyproject.toml

# What PyTorch's own builds cover since 2.11: the default ones (CUDA 12.8 and later) begin with Turing, and the one
# for CUDA 12.6 goes from Maxwell to Hopper. 12.0 (the 50 series) came with CUDA 12.8.
DEFAULT_BUILD_FROM = (7, 5)
CU126_BUILD = ((5, 0), (9, 0))


@dataclass(frozen=True)
class Card:
    """A card: its name and compute capability."""

    name: str
    capability: tuple[int, int]


@dataclass(frozen=True)
class Build:
    """A torch that is installed.

    Attributes:
        version: Such as ``2.13.0+cu126``.
        platform: ``CUDA 12.6``, ``ROCm 6.4`` or ``the processor``.
        architectures: What it was compiled for, as torch writes it: ``sm_86``, ``compute_90``.
        requires: Names of the packages that it needs; their versions come with it.
    """

    version: str
    platform: str
    architectures: Sequence[str] = ()
    requires: Sequence[str] = ()


@dataclass(frozen=True)
class Decision:
    """What to do about torch.

    Attributes:
        reuse: Share the torch of the active Python with ``.venv``; otherwise the pinned one is installed.
        because: Why, in one sentence.
        refusal: Why neither would work, and what to choose; empty if all is well.
    """

    reuse: bool
    because: str
    refusal: str = ""


def decide(active: Build | None, cards: list[Card]) -> Decision:
    """Decide from what is there.

    Args:
        active: The torch of the active Python; None if it has none or it does not import.
        cards: The NVIDIA cards of this machine.
    """
    if active is None:
        return _install_pinned("This Python has no torch", cards)
    if version_numbers(active.version) < TORCH_FLOOR:
        floor = ".".join(map(str, TORCH_FLOOR))
        return _install_pinned(f"The torch of this Python ({active.version}) is older than {floor}", cards)
    uncovered = first_uncovered(active, cards)
    if uncovered is not None:
        return Decision(False, "", refusal(active, uncovered))
    return Decision(True, f"The torch of this Python ({active.version}) works here")


def first_uncovered(build: Build, cards: list[Card]) -> Card | None:
    """The first card that the build has no code for; None if it covers all."""
    return next((card for card in cards if not covers(build.architectures, card.capability)), None)


def covers(architectures: Sequence[str], capability: tuple[int, int]) -> bool:
    """Whether a build runs on a card of this compute capability.

    Binary code (``sm_86``) runs on the same major version from its own minor version on; PTX (``compute_90``) is
    compiled by the driver for every later card; ``sm_90a`` is for that one capability only. From NVIDIA's CUDA C++
    programming guide, "Application Compatibility".
    """
    return any(_runs_on(architecture, capability) for architecture in architectures)


def _runs_on(architecture: str, capability: tuple[int, int]) -> bool:
    match = re.match(r"^(sm|compute)_(\d+)(\d)(a?)", architecture)
    if not match:
        return False
    built_for = (int(match.group(2)), int(match.group(3)))
    if match.group(4):
        return built_for == capability
    if match.group(1) == "compute":
        return built_for <= capability
    return built_for[0] == capability[0] and built_for[1] <= capability[1]


def refusal(build: Build, card: Card) -> str:
    """Say which card, what the build covers and what to choose."""
    if build.architectures:
        covered = f"({build.platform}) covers {', '.join(build.architectures)}"
    else:
        covered = f"was built for {build.platform}, without code for NVIDIA cards"
    return (
        f"{card.name} has compute capability {_dotted(card.capability)}, but torch {build.version} {covered}.\n"
        f"{way_out(card)}"
    )


def way_out(card: Card) -> str:
    """Which build of torch to choose for a card, and how."""
    if card.capability >= DEFAULT_BUILD_FROM:
        return (
            "Choose a build for CUDA 12.8 or newer: `python3 tools/setup.py quickstart --fresh-torch` installs the "
            "pinned one in .venv and leaves this Python as it is."
        )
    if CU126_BUILD[0] <= card.capability <= CU126_BUILD[1]:
        return (
            "Choose the build for CUDA 12.6 (cu126), or an older torch from 2.6 on that names this card: install it "
            "in the active Python with the line that PyTorch's install page gives for CUDA 12.6, then run this again; "
            "it will be reused."
        )
    return (
        f"No build of torch from {'.'.join(map(str, TORCH_FLOOR))} on covers so old a card. Hide it to train on the "
        "processor (export CUDA_VISIBLE_DEVICES=), or rent a newer one."
    )


def version_numbers(version: str) -> tuple[int, int]:
    """Major and minor version: ``2.13.0+cu126`` is (2, 13)."""
    numbers = re.findall(r"\d+", version)
    return int(numbers[0]), int(numbers[1])


def _install_pinned(because: str, cards: list[Card]) -> Decision:
    """Install the pinned torch, unless it is known beforehand that it would not run on a card."""
    too_old = next((card for card in cards if card.capability < DEFAULT_BUILD_FROM), None)
    if too_old is None:
        return Decision(False, because)
    text = (
        f"{too_old.name} has compute capability {_dotted(too_old.capability)}, but the default builds of torch begin "
        f"with {_dotted(DEFAULT_BUILD_FROM)}. {because}.\n{way_out(too_old)}"
    )
    return Decision(False, because, text)


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
