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
from functools import partial
from pathlib import Path, PurePosixPath
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
    """Processor cores that this process may use: the fewer of its affinity and its cgroups' quota.

    Args:
        affinity: Cores of the affinity mask; asked of the system by default.
    """
    cores = float(affinity if affinity is not None else _affinity())
    quota = cpu_quota(root)
    return cores if quota is None else min(cores, quota)


def _affinity() -> int:
    process = psutil.Process()
    return len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else os.cpu_count() or 1  # none on macOS


def cpu_quota(root: Path = ROOT) -> float | None:
    """Cores that the cgroups' quotas allow, the least of them; None if there is none."""
    quotas = []
    for folder in _cgroups(root, "cpu"):
        words = _read(folder / "cpu.max").split() or [
            _read(folder / "cpu.cfs_quota_us"),
            _read(folder / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and all(word.isdigit() for word in words):  # "max" and "-1" mean no quota
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_limit(root: Path = ROOT, total: int | None = None) -> int:
    """Bytes of memory that may be used: the least of the machine's memory and its cgroups' limits.

    Args:
        total: The machine's memory; asked of the system by default.
    """
    whole = total if total is not None else psutil.virtual_memory().total
    files = ("memory.max", "memory.limit_in_bytes")
    limits = [_read(folder / name) for folder in _cgroups(root, "memory") for name in files]
    return min([whole, *(int(limit) for limit in limits if limit.isdigit())])  # "max" is no digit: no limit


def memory_available(root: Path = ROOT, available: int | None = None) -> int:
    """Bytes of memory that can still be had: of the machine, and within each cgroup's limit.

    File pages that nobody has touched lately count as free, since the system gives them back.

    Args:
        available: The machine's own; asked of the system by default.
    """
    rooms = [available if available is not None else psutil.virtual_memory().available]
    names = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    for folder in _cgroups(root, "memory"):
        for limit, used in ((_read(folder / limit), _read(folder / used)) for limit, used in names):
            if limit.isdigit() and used.isdigit():
                rooms.append(int(limit) - max(int(used) - _inactive_files(folder), 0))
    return max(min(rooms), 0)


def _inactive_files(folder: Path) -> int:
    """Bytes of file pages of a cgroup that can be given back; v1 counts those of the groups below apart."""
    stat = dict(line.split(maxsplit=1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
    return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _cgroups(root: Path, controller: str) -> list[Path]:
    """Folders of the cgroups that bind this process: its own and those above it.

    In a container they are what is mounted; on a cluster a job's limits are those of a group further down, which
    ``/proc/self/cgroup`` names. Where it names a path of the host that is not mounted here, only the mount remains.
    """
    folders = [root / "sys/fs/cgroup", root / "sys/fs/cgroup" / controller]
    for line in _read(root / "proc/self/cgroup").splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = folders[1] if controllers else folders[0]  # v1 has a tree for each controller, v2 one for all
        inner = PurePosixPath(path.strip("/"))
        folders += [mount / part for part in (inner, *inner.parents) if ".." not in part.parts]
    return list(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def has_bf16(root: Path = ROOT) -> bool:
    """Whether the processor multiplies bf16 in hardware (AVX512-BF16 or AMX), by its own flags."""
    flags = _cpu_field(root, "flags").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def processor_name(root: Path = ROOT) -> str:
    """The processor's name as the system gives it."""
    return _cpu_field(root, "model name") or platform.processor() or platform.machine()


def rental_platform(root: Path = ROOT) -> tuple[str, str | None]:
    """``autodl`` or ``generic``, and the platform's disk for large data.

    AutoDL is known by its variables or, in shells that lack them, by its files. Elsewhere /root is closed to users,
    and looking into it must not fail: os.path answers no where pathlib raises.
    """
    disk = root / "root/autodl-tmp"
    has_disk = os.path.isdir(disk)
    here = "AutoDLContainerUUID" in os.environ or os.path.exists(root / "init/others/help") or has_disk
    return ("autodl" if here else "generic", str(disk) if has_disk else None)


def versions() -> dict[str, str]:
    """Versions of what a run depends on, by package name; what is not installed is left out."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def gpus(library: Any = None, visible: str | None = None) -> list[Gpu]:
    """The cards that this process may use, as the driver shows them; empty without a driver.

    Args:
        library: Stands in for ``pynvml`` in tests.
        visible: Stands in for the variable CUDA_VISIBLE_DEVICES; by default what the environment says.
    """
    nvml: Any = library if library is not None else importlib.import_module("pynvml")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        driver = reading(nvml, nvml.nvmlSystemGetDriverVersion)
        handles = [reading(nvml, partial(nvml.nvmlDeviceGetHandleByIndex, i)) for i in range(nvml.nvmlDeviceGetCount())]
        present = {index: handle for index, handle in enumerate(handles) if handle is not None}
        return [_gpu(nvml, index, handle, driver) for index, handle in _allowed(nvml, present, visible).items()]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _allowed(nvml: Any, present: dict[int, Any], visible: str | None) -> dict[int, Any]:
    """The cards that CUDA_VISIBLE_DEVICES leaves, in its order, by index.

    It lists indexes or identifiers, which may be cut short; the first one that names no card ends the list (CUDA C++
    Programming Guide, "CUDA Environment Variables"). Parts of a card (MIG) are not told apart: all cards stay then.
    The driver counts by slot, CUDA by speed unless CUDA_DEVICE_ORDER says otherwise; among equal cards both agree.
    """
    if visible is None or visible.startswith("MIG-"):
        return present
    names = {str(index): index for index in present}
    names |= {str(reading(nvml, partial(nvml.nvmlDeviceGetUUID, card))): index for index, card in present.items()}
    allowed: dict[int, Any] = {}
    for word in visible.replace(" ", "").split(","):
        cut_short = word.startswith("GPU-")
        fitting = [i for name, i in names.items() if name == word or (cut_short and name.startswith(word))]
        if not fitting:
            break
        allowed[fitting[0]] = present[fitting[0]]
    return allowed


def _gpu(nvml: Any, index: int, handle: Any, driver: str | None) -> Gpu:
    memory = reading(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    capability = reading(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    return Gpu(
        index=index,
        name=str(reading(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or f"card {index}"),
        memory=int(memory.total) if memory else None,
        capability=(int(capability[0]), int(capability[1])) if capability else None,
        driver=driver,
    )


def reading(nvml: Any, read: Callable[[], Any]) -> Any:
    """One reading of the driver; None if this card or driver does not give it.

    Args:
        nvml: ``pynvml``, or what stands in for it.
    """
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
