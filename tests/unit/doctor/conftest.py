"""Made-up machines for the doctor: what is installed, and what torch found, as one wants it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trainwright.doctor.examine import judge
from trainwright.doctor.packages import see_packages
from trainwright.doctor.records import CardsSeen, Check, Facts, TorchCard, TorchSeen
from trainwright.machine.madeup import made_up

# What the build of torch 2.13 for CUDA 12.8 is compiled for
CU128 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]


@pytest.fixture(scope="session")
def installed():
    """The packages of this environment, by their own metadata."""
    return see_packages()


@pytest.fixture
def facts_of(installed) -> Callable[..., Facts]:
    """``facts_of("4090-24g", torch="2.1.0", accelerate=None)``: that machine, with those versions in place of ours."""

    def make(machine: str = "laptop-cpu", seen: dict[str, Any] | None = None, **versions: str | None) -> Facts:
        made = made_up(machine)
        have = installed.versions | {name.replace("_", "-"): version for name, version in versions.items()}
        have = {name: version for name, version in have.items() if version is not None}
        cuda = "12.8" if made.gpus else None
        cards = [TorchCard(card.index, card.name, "") for card in made.gpus]
        torch = TorchSeen(
            seconds=1.0,
            version=have.get("torch"),
            cuda=cuda,
            architectures=CU128 if cuda else [],
            to_numpy="",
            cards=cards,
        )
        return Facts(
            machine=made,
            packages=replace(installed, versions=have),
            torch=replace(torch, **(seen or {})),
            cards=CardsSeen(driver=made.gpus[0].driver if made.gpus else None),
        )

    return make


@pytest.fixture
def found() -> Callable[..., dict[str, Check]]:
    """The checks of some facts by id, those that are fine left out."""

    def find(facts: Facts) -> dict[str, Check]:
        return {check.id: check for check in judge(facts) if check.verdict != "ok"}

    return find
