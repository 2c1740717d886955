"""Look at the machine: processor, memory limits, cards, rental platform, versions. Imports nothing heavy.

A container shows the host's numbers in many places; what counts are its own limits, read from cgroup v2 or v1.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import math
import os
import platform
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from trainwright.records import Gpu, Machine

PACKAGES = ("trainwright", "torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy", "pyarrow")
ROOT = Path("/")


def look(root: Path = ROOT) -> Machine:
    """What is here. A reading that is not to be had is None; nothing is guessed.

    Args:
        root: Where ``proc``, ``sys`` and the platform's folders are looked for; another one in tests.
    """
    name, disk = rental_platform(root)
    return Machine(
        host=socket.gethostname(),
        system=platform.platform(),
        python=platform.python_version(),
        processor=processor_name(root),
        cores=usable_cores(root),
        memory=memory_limit(root),
        bf16_cpu=has_bf16(root),
        gpus=gpus(),
        platform=name,
        data_disk=disk,
        versions=versions(),
    )


def usable_cores(root: Path = ROOT, affinity: int | None = None) -> float:
    """Processor cores that this process may use: the fewer of its affinity and its cgroup's quota."""
    count = (
        affinity or len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else os.cpu_count()
    )
    quota = cpu_quota(root)
    return min(float(count or 1), quota) if quota else float(count or 1)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Cores that the cgroup's quota allows; None if there is none."""
    words = _read(root / "sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = _read(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit() and int(period) > 0:  # "-1" means no quota, and is no digit
        return int(quota) / int(period)
    return None


def memory_limit(root: Path = ROOT, total: int | None = None) -> int:
    """Bytes of memory that may be used: the less of the machine's and its cgroup's limit."""
    whole = total if total is not None else psutil.virtual_memory().total
    limits = [_read(root / "sys/fs/cgroup/memory.max"), _read(root / "sys/fs/cgroup/memory/memory.limit_in_bytes")]
    return min([whole, *(int(limit) for limit in limits if limit.isdigit())])  # "max" is no digit: no limit


def has_bf16(root: Path = ROOT) -> bool:
    """Whether the processor multiplies bf16 in hardware (AVX512-BF16 or AMX), by its own flags."""
    flags = _cpu_field(root, "flags").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def processor_name(root: Path = ROOT) -> str:
    """The processor's name as the system gives it."""
    return _cpu_field(root, "model name") or platform.processor() or platform.machine()


def rental_platform(root: Path = ROOT) -> tuple[str, str | None]:
    """``autodl`` or ``generic``, and the platform's disk for large data.

    AutoDL is known by its variables or, in shells that lack them, by its files.
    """
    disk = root / "root/autodl-tmp"
    here = "AutoDLContainerUUID" in os.environ or (root / "init/others/help").exists() or disk.is_dir()
    return ("autodl", str(disk) if disk.is_dir() else None) if here else ("generic", None)


def versions() -> dict[str, str]:
    """Versions of what a run depends on, by package name; what is not installed is left out."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def gpus(library: Any = None) -> list[Gpu]:
    """The cards as the driver shows them; empty without a driver.

    Args:
        library: Stands in for ``pynvml`` in tests.
    """
    nvml: Any = library if library is not None else importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        driver = _reading(nvml, nvml.nvmlSystemGetDriverVersion)
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return [_gpu(nvml, index, handle, driver) for index, handle in enumerate(handles)]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, index: int, handle: Any, driver: str | None) -> Gpu:
    memory = _reading(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    capability = _reading(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    return Gpu(
        index=index,
        name=str(_reading(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or f"card {index}"),
        memory=int(memory.total) if memory else None,
        capability=(int(capability[0]), int(capability[1])) if capability else None,
        driver=driver,
    )


def _reading(nvml: Any, read: Callable[[], Any]) -> Any:
    """One reading of the driver; None if this card or driver does not give it."""
    try:
        value = read()
    except nvml.NVMLError:
        return None
    return value.decode() if isinstance(value, bytes) else value


def _cpu_field(root: Path, name: str) -> str:
    for line in _read(root / "proc/cpuinfo").splitlines():
        key, _separator, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def whole_cores(machine: Machine) -> int:
    """Threads worth starting: the usable cores, rounded down, at least one."""
    return max(1, math.floor(machine.cores))
