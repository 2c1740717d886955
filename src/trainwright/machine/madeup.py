"""Made-up machines, for tests of ours and of users: what Trainwright decides on a card that is not here."""

from __future__ import annotations

from trainwright.records import Gpu, Machine

GIB = 2**30


def made_up(name: str) -> Machine:
    """A machine by name; see ``NAMES``.

    Raises:
        KeyError: There is no such machine.
    """
    return _MACHINES[name]


def _machine(
    gpus: list[Gpu], cores: float = 8.0, memory: int = 32 * GIB, bf16: bool = False, autodl: bool = False
) -> Machine:
    return Machine(
        host="made-up",
        system="Linux",
        python="3.11.7",
        processor="a made-up processor",
        cores=cores,
        memory=memory,
        bf16_cpu=bf16,
        gpus=gpus,
        platform="autodl" if autodl else "generic",
        data_disk="/root/autodl-tmp" if autodl else None,
        versions={"torch": "2.13.0", "transformers": "5.24.0"},
    )


def _card(name: str, memory: int, capability: tuple[int, int] | None) -> list[Gpu]:
    return [Gpu(0, name, memory * GIB, capability, "580.65")]


_MACHINES = {
    "laptop-cpu": _machine([], cores=4.0, memory=8 * GIB),
    "cpu-bf16": _machine([], cores=2.0, memory=24 * GIB, bf16=True),
    "gtx1070": _machine(_card("NVIDIA GeForce GTX 1070", 8, (6, 1))),
    "v100-16g": _machine(_card("Tesla V100-PCIE-16GB", 16, (7, 0))),
    "4090-24g": _machine(_card("NVIDIA GeForce RTX 4090", 24, (8, 9))),
    "4090-48g": _machine(_card("NVIDIA GeForce RTX 4090", 48, (8, 9))),  # with more memory than the maker's
    "5090-32g": _machine(_card("NVIDIA GeForce RTX 5090", 32, (12, 0))),
    "a100-80g": _machine(_card("NVIDIA A100-SXM4-80GB", 80, (8, 0)), cores=16.0, memory=120 * GIB),
    "unknown-card": _machine(_card("NVIDIA Something", 16, None)),
    "autodl-a100": _machine(_card("NVIDIA A100-PCIE-40GB", 40, (8, 0)), cores=10.0, autodl=True),
    "autodl-no-card": _machine([], cores=0.5, memory=2 * GIB, autodl=True),
}
NAMES = tuple(_MACHINES)
