"""Which build of torch runs on which card and driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import Version

from trainwright.doctor.records import Facts, Fix
from trainwright.messages.text import _

Capability = tuple[int, int]
WHEELS = "https://download.pytorch.org/whl"


@dataclass(frozen=True)
class Build:
    """One of the builds that PyTorch offers.

    Attributes:
        name: As in the address of its wheels.
        torch: The first torch that has it.
        covers: Lowest and highest compute capability.
        cuda: Major version of CUDA, which the driver must serve.
    """

    name: str
    torch: str
    covers: tuple[Capability, Capability]
    cuda: int


# From PyTorch's release matrix; since torch 2.11 only cu126 keeps the cards before Turing (7.5).
BUILDS = (
    Build("cu126", "2.6", ((5, 0), (9, 0)), 12),
    Build("cu128", "2.7", ((7, 5), (12, 0)), 12),
    Build("cu130", "2.9", ((7, 5), (12, 1)), 13),
)
# Oldest driver for each major version of CUDA on Linux (CUDA release notes, "CUDA minor version compatibility")
DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 65)}


def covers(architectures: Sequence[str], capability: Capability) -> bool:
    """Whether a build runs on a card of this compute capability.

    Binary code (``sm_86``) runs on the same major version from its own minor version on; PTX (``compute_90``) is
    compiled by the driver for every later card; ``sm_90a`` is for that one capability only. From NVIDIA's CUDA C++
    programming guide, "Application Compatibility".
    """
    return any(_runs_on(architecture, capability) for architecture in architectures)


def _runs_on(architecture: str, capability: Capability) -> bool:
    match = re.match(r"^(sm|compute)_(\d+)(\d)(a?)", architecture)
    if not match:
        return False
    built_for = (int(match[2]), int(match[3]))
    if match[4]:
        return built_for == capability
    if match[1] == "compute":
        return built_for <= capability
    return built_for[0] == capability[0] and built_for[1] <= capability[1]


def served_cuda(driver: str | None, told: tuple[int, int] | None) -> int | None:
    """Highest major version of CUDA that a driver serves; by what it tells, else by its version; None if unknown."""
    if told is not None:
        return told[0]
    numbers = re.findall(r"\d+", driver or "")
    if len(numbers) < 2:
        return None
    version = (int(numbers[0]), int(numbers[1]))
    return max((major for major, oldest in DRIVERS.items() if version >= oldest), default=0)


def build_for(capabilities: Sequence[Capability], cuda: int | None) -> Build | None:
    """The first build that covers all these cards and that the driver serves; None if there is none."""
    for build in BUILDS:
        lowest, highest = build.covers
        if all(lowest <= one <= highest for one in capabilities) and (cuda is None or build.cuda <= cuda):
            return build
    return None


def torch_fix(facts: Facts) -> Fix:
    """The line that installs a torch for the cards and the driver that are here.

    The smallest change: the same version from another build where that version has one, else a newer one.
    """
    capabilities = [card.capability for card in facts.machine.gpus if card.capability is not None]
    if not facts.machine.gpus:
        return Fix(_("Install a torch that fits."), by_hand=f"python -m pip install '{_wanted(facts)}'")
    cuda = served_cuda(facts.cards.driver, facts.cards.cuda)
    build = build_for(capabilities, cuda)
    if build is None and build_for(capabilities, None) is None:
        text = _("No current build of torch covers this card: hide it to train on the processor, or rent another.")
        return Fix(text, by_hand="export CUDA_VISIBLE_DEVICES=")
    if build is None:
        text = _("The driver is too old for every build that covers this card: rent a machine with a newer driver.")
        return Fix(text)
    text = _("Install the build of torch for CUDA {cuda}.").format(cuda=f"{build.name[2:4]}.{build.name[4:]}")
    line = f"python -m pip install '{_wanted(facts, build)}' --index-url {WHEELS}/{build.name}"
    return Fix(text, by_hand=line)


def _wanted(facts: Facts, build: Build | None = None) -> str:
    """torch as pip writes it: the version that is here, of this build, if it fits; else the range that fits."""
    ours = [Requirement(one) for one in facts.packages.requires.get("trainwright", [])]
    needed = next((one for one in ours if one.name == "torch"), Requirement("torch"))
    found = facts.packages.versions.get("torch")
    public = Version(found).public if found else ""
    if build and public and needed.specifier.contains(public) and Version(public) >= Version(build.torch):
        return f"torch=={public}+{build.name}"
    floor = [build.torch] if build else []
    floor += [one.version for one in needed.specifier if one.operator == ">="]
    highest = max(floor, key=Version, default="")
    return f"torch>={highest}" if highest else "torch"
