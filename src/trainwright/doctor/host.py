"""Processor, memory and limits of this process: a container's own, not those of the machine around it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from trainwright.doctor.records import Asked, Check, Facts, Fix, HostSeen
from trainwright.machine.look import ROOT, memory_available
from trainwright.messages.text import _
from trainwright.units import format_bytes

GIB = 2**30
# What a training process holds before it has a model: torch, its CUDA context's share of the host, and the watcher
BASE_MEMORY = 2 * GIB
BYTES_PER_PARAMETER = 16  # fp32 weight, gradient and AdamW's two moments
SHARED_MEMORY = GIB  # Docker's default is 64 MiB, which the processes that read rows fill with a few batches
FILES = 1024  # the usual soft limit, below which several reading processes run out


def see_host(root: Path = ROOT) -> HostSeen:
    """The limits that hold here."""
    return HostSeen(
        cores=os.cpu_count(),
        memory=memory_available(root),
        shared_memory=_size(root / "dev/shm"),
        files=resource.getrlimit(resource.RLIMIT_NOFILE),
    )


def _size(folder: Path) -> int | None:
    """Size of the disk of a folder; None if there is no such folder (macOS has no /dev/shm)."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return None
    return state.f_blocks * state.f_frsize


# -- checks --------------------------------------------------------------------------------------------------------


def cores_suffice(facts: Facts) -> Iterator[Check]:
    """How many cores may be used, of how many that are there."""
    usable, there = facts.machine.cores, facts.host.cores
    evidence = {"usable": usable, "machine": there}
    if usable < 1:
        message = _("Only {usable:g} of a processor core may be used here: tokenising and reading rows will be slow.")
        fix = Fix(_("Copy and install here; train on an instance with its card."))
        yield Check("hardware.cores", "warning", message.format(usable=usable), evidence, fix)
    elif there is not None and usable < there:
        message = _("{usable:g} of the machine's {there} cores may be used; Trainwright starts no more than that.")
        yield Check("hardware.cores", "ok", message.format(usable=usable, there=there), evidence)
    else:
        yield Check("hardware.cores", "ok", _("{usable:g} cores may be used.").format(usable=usable), evidence)


def memory_suffices(facts: Facts) -> Iterator[Check]:
    """The memory that is free holds a training process."""
    limit, free = facts.machine.memory, facts.host.memory
    if free is None:
        yield Check("hardware.memory", "not available", _("How much memory is free cannot be told."))
        return
    need = memory_needed(facts.asked, on_card=bool(facts.machine.gpus))
    said = {"free": format_bytes(free), "limit": format_bytes(limit), "need": format_bytes(need)}
    evidence = {"free": free, "limit": limit, "need": need}
    if free < need:
        message = _(
            "{free} of {limit} of memory is free, and training takes about {need}; beyond the limit it is killed."
        )
        fix = Fix(_("End what else is running here, or take a machine with more memory."))
        yield Check("hardware.memory", "warning", message.format(**said), evidence, fix)
    else:
        yield Check("hardware.memory", "ok", _("{free} of {limit} of memory is free.").format(**said), evidence)


def memory_needed(asked: Asked | None, on_card: bool) -> int:
    """Bytes of host memory that training takes: a base, and the model, which on a card is there only to be loaded."""
    parameters = asked.parameters if asked and asked.parameters else 0
    on_card = on_card and not (asked and asked.recipe.run.device == "cpu")
    return BASE_MEMORY + parameters * (4 if on_card else BYTES_PER_PARAMETER)


def shared_memory_suffices(facts: Facts) -> Iterator[Check]:
    """/dev/shm, through which the processes that read rows hand over their batches."""
    size = facts.host.shared_memory
    evidence = {"size": size}
    if size is None:
        yield Check("hardware.shared-memory", "not available", _("There is no /dev/shm here."))
    elif size < SHARED_MEMORY:
        message = _("Shared memory (/dev/shm) is {size}: processes that read rows may end with a bus error.")
        text = _("Start the container with --shm-size=8g; or, in the recipe, run.dataloader_num_workers: 0.")
        yield Check("hardware.shared-memory", "warning", message.format(size=format_bytes(size)), evidence, Fix(text))
    else:
        message = _("Shared memory is {size}.").format(size=format_bytes(size))
        yield Check("hardware.shared-memory", "ok", message, evidence)


def files_suffice(facts: Facts) -> Iterator[Check]:
    """How many files may be open at once."""
    if facts.host.files is None:
        yield Check("hardware.files", "not available", _("The limit of open files cannot be told."))
        return
    now, most = facts.host.files
    unlimited = resource.RLIM_INFINITY
    evidence = {"now": now, "most": most}
    if now != unlimited and now < FILES:
        message = _("Only {now} files may be open at once; training with several processes opens more.")
        goal = 65536 if most == unlimited else min(most, 65536)
        fix = Fix(_("Raise the limit in this shell."), by_hand=f"ulimit -n {goal}") if goal > now else None
        yield Check("hardware.files", "warning", message.format(now=now), evidence, fix)
    else:
        shown = _("any number of") if now == unlimited else now
        yield Check("hardware.files", "ok", _("{now} files may be open at once.").format(now=shown), evidence)


CHECKS = (cores_suffice, memory_suffices, shared_memory_suffices, files_suffice)
