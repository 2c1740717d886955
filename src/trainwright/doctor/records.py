"""What a check says (verdict, evidence, the smallest fix), and the facts that checks judge."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainwright.recipe.schema import Recipe
from trainwright.records import Machine

Verdict = Literal["blocker", "warning", "note", "not available", "ok"]
VERDICTS: tuple[Verdict, ...] = ("blocker", "warning", "note", "not available", "ok")  # as people want to see them
AREAS = ("versions", "hardware", "disks", "network", "platform", "libraries", "recipe")


@dataclass(frozen=True)
class Fix:
    """The smallest change that helps.

    Attributes:
        text: What to do, in one sentence.
        by_hand: A line to paste that ``--fix`` never runs: it removes or replaces something, or takes gigabytes.
        install: Packages to install, as pip writes them.
        variables: Environment variables to set from now on, in ~/.bashrc.
        folders: Folders to make.
    """

    text: str
    by_hand: str = ""
    install: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    @property
    def safe(self) -> bool:
        """Whether ``--fix`` may do it after asking: it only adds."""
        return bool(self.install or self.variables or self.folders)

    @property
    def command(self) -> str:
        """The line to paste; empty if there is none."""
        parts = [self.by_hand] if self.by_hand else []
        if self.install:
            parts.append(f"{shlex.quote(sys.executable)} -m pip install {shlex.join(self.install)}")
        if self.folders:
            parts.append(f"mkdir -p {shlex.join(self.folders)}")
        if self.variables:
            line = export_line(self.variables)
            parts.append(f"printf '\\n%s\\n' {shlex.quote(line)} >> ~/.bashrc && {line}")  # its end may lack a newline
        return " && ".join(parts)


def export_line(variables: dict[str, str]) -> str:
    """``export A=1 B=2``, as a shell reads it."""
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes:
        id: Stable name such as ``versions.numpy-torch``; the first part is its area.
        message: One plain sentence in the user's language.
        evidence: What was seen.
    """

    id: str
    verdict: Verdict
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
    fix: Fix | None = None

    @property
    def area(self) -> str:
        return self.id.partition(".")[0]


# -- facts: what was seen, before anything is judged. None means not available; sizes are in bytes ---------------------


@dataclass(frozen=True)
class Asked:
    """What a recipe needs of the machine.

    Attributes:
        runs_root: Where its run folder would be made.
        from_hub: Whether its model has to be fetched.
        parameters: Of the model, where its files are here.
        data_bytes: Size of the data files together.
        missing: Files that the recipe names and that are not here.
        model_problem: Why the model that is here cannot be used, and the way out; empty if it can.
    """

    recipe: Recipe
    runs_root: Path
    from_hub: bool = False
    parameters: int | None = None
    data_bytes: int | None = None
    missing: list[str] = field(default_factory=list)
    model_problem: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Packages:
    """Installed packages, by their own metadata.

    Attributes:
        versions: By canonical name; what is not installed is left out.
        requires: What each package requires here, as it writes it.
        extras: What each extra of Trainwright brings.
        python: The versions of Python that Trainwright supports, as a specifier.
    """

    versions: dict[str, str] = field(default_factory=dict)
    requires: dict[str, list[str]] = field(default_factory=dict)
    extras: dict[str, list[str]] = field(default_factory=dict)
    python: str = ""


@dataclass(frozen=True)
class TorchCard:
    """A card as torch sees it; ``error`` is what the tiny kernel ended with, empty if its result was right."""

    index: int
    name: str
    error: str


@dataclass(frozen=True)
class TorchSeen:
    """What a child process found when it imported torch.

    Attributes:
        error: Why it could not be imported; empty if it could.
        seconds: What the import took.
        version: Such as 2.13.0+cu126.
        cuda: The CUDA version of the build; None for a build without CUDA.
        architectures: What its kernels were compiled for, as torch writes it: ``sm_86``, ``compute_90``.
        to_numpy: Why a tensor could not be turned into an array; empty if it could.
        cards: Those that torch can open.
    """

    error: str = ""
    seconds: float | None = None
    version: str | None = None
    cuda: str | None = None
    architectures: list[str] = field(default_factory=list)
    to_numpy: str | None = None
    cards: list[TorchCard] = field(default_factory=list)


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a card; name and memory where the driver tells them."""

    pid: int
    name: str | None
    memory: int | None


@dataclass(frozen=True)
class CardSeen:
    """Readings of one card.

    Attributes:
        used: Bytes in use, by whomever.
        slowed_by: Why its clocks are lower than they could be: heat, power-brake, hardware or power-cap.
        width: PCIe lanes in use and at most.
        generation: PCIe generation at most (an idle card goes down to the first one).
        nvlinks: Active NVLink connections.
    """

    index: int
    name: str
    memory: int | None = None
    used: int | None = None
    holders: list[Holder] = field(default_factory=list)
    slowed_by: list[str] | None = None
    temperature: int | None = None
    width: tuple[int, int] | None = None
    generation: int | None = None
    nvlinks: int | None = None


@dataclass(frozen=True)
class CardsSeen:
    """Readings of all cards.

    Attributes:
        cuda: The highest CUDA version that the driver serves, such as (12, 4).
        driver: Its own version.
        links: How each pair of cards is joined: ``(0, 1, "NV")``; NV, PIX, PXB, PHB, NODE or SYS as nvidia-smi has it.
    """

    cards: list[CardSeen] = field(default_factory=list)
    cuda: tuple[int, int] | None = None
    driver: str | None = None
    links: list[tuple[int, int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class HostSeen:
    """Limits of this process.

    Attributes:
        cores: Cores of the machine, whatever may be used of them.
        memory: Bytes that can still be had.
        shared_memory: Size of /dev/shm.
        files: Files that may be open at once, now and at most.
    """

    cores: int | None = None
    memory: int | None = None
    shared_memory: int | None = None
    files: tuple[int, int] | None = None


@dataclass(frozen=True)
class Place:
    """A folder that a run writes, and the disk on which it lies.

    Attributes:
        purpose: runs, prepared, hf, modelscope, tmp, pip, uv or triton.
        variable: The environment variable that moves it; empty if an option does.
        path: It need not exist yet.
        disk: Mount point.
        device: Two places with the same number share their free space.
        files: Files that the disk can hold, in all and still; None where it counts none.
        need: Bytes that the recipe's run would write there; None if not known.
    """

    purpose: str
    variable: str
    path: str
    disk: str
    device: int
    total: int
    free: int
    files: tuple[int, int] | None
    writable: bool
    need: int | None = None


@dataclass(frozen=True)
class Road:
    """A hub, asked once: directly or through the proxy. ``skew`` is its clock minus ours, in seconds."""

    hub: str
    endpoint: str
    way: Literal["direct", "proxy"]
    error: str = ""
    skew: float | None = None


@dataclass(frozen=True)
class Weights:
    """What a hub said when it was asked for the recipe's model, and the parameters that it lists for it."""

    hub: str
    given: bool
    details: str
    parameters: int | None = None


@dataclass(frozen=True)
class Port:
    """A port of this machine, who listens on it (None: nobody), and the address under which it is public."""

    number: int
    holder: str | None = None
    address: str | None = None


@dataclass(frozen=True)
class Network:
    """What leads out.

    Attributes:
        proxies: Variable name to address without credentials, those in force.
        proxy_errors: Why a proxy does not answer, by variable; empty text if it does.
        local_exempt: Whether requests to this machine itself go past the proxy.
        mirrors: Variables that name another address, without credentials.
        offline: The variable that forbids asking a hub; empty if none does.
    """

    proxies: dict[str, str] = field(default_factory=dict)
    proxy_errors: dict[str, str] = field(default_factory=dict)
    local_exempt: bool = True
    mirrors: dict[str, str] = field(default_factory=dict)
    offline: str = ""
    roads: list[Road] = field(default_factory=list)
    weights: list[Weights] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)


@dataclass(frozen=True)
class Facts:
    """Everything that was seen."""

    machine: Machine
    asked: Asked | None = None
    packages: Packages = Packages()
    torch: TorchSeen | None = None
    cards: CardsSeen = CardsSeen()
    host: HostSeen = HostSeen()
    places: list[Place] = field(default_factory=list)
    network: Network = Network()
    environment: dict[str, str] = field(default_factory=dict)
