"""Watch the training process, and start it again from its last checkpoint where the system killed it.

A process that the kernel killed for memory is started with micro-batches half as large; restarts are bounded and
journalled. A stop that was asked for is never taken for an accident.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from trainwright.errors import KilledBySystem
from trainwright.launch.local import Observer, run_child
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal, read_events

RESTARTS = 3
# Counts of processes that the kernel ended for memory: of this control group, and of the whole machine.
COUNTERS = (
    Path("/sys/fs/cgroup/memory.events"),
    Path("/sys/fs/cgroup/memory/memory.oom_control"),
    Path("/proc/vmstat"),
)


def run_training(folder: RunFolder, observer: Observer) -> int:
    """Run the training process to its end, through kills by the system.

    Returns:
        As :func:`trainwright.launch.local.run_child`.

    Raises:
        TrainwrightError: What the process reported, or that it was killed too often.
    """
    for restart in range(RESTARTS + 1):
        kills = memory_kills()
        try:
            return run_child("train", folder, observer)
        except KilledBySystem:
            if restart == RESTARTS:
                raise
        _prepare_restart(folder, restart + 1, for_memory=memory_kills() > kills)
    raise AssertionError("unreachable")


def memory_kills(counters: tuple[Path, ...] = COUNTERS) -> int:
    """How many processes the kernel has ended for memory so far; 0 where no counter can be read."""
    found = 0
    for path in counters:
        try:
            match = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
        except OSError:
            continue
        found += int(match[1]) if match else 0
    return found


def _prepare_restart(folder: RunFolder, number: int, for_memory: bool) -> None:
    events = read_events(folder.journal)
    step = max(
        (int(path.name[11:]) for path in folder.checkpoints.glob("checkpoint-*") if path.name[11:].isdigit()), default=0
    )
    journal = Journal(folder.journal, "watcher")
    because = "killed by the system for memory" if for_memory else "killed by a signal"
    tokens = smallest_cut(events) if for_memory else None
    if tokens is not None:
        fields = {"tokens_per_micro_batch": max(1, tokens // 2), "finer": True, "because": because}
        journal.write("cut", sync=True, step=step, **fields)
    journal.write("restart", sync=True, number=number, step=step, because=because)
    journal.close()
    folder.set_status(because="", worker_pid=None)


def smallest_cut(events: list[dict[str, Any]]) -> int | None:
    """The finest cut that the journal knows of, in tokens; None if there is none."""
    known = [event.get("tokens_per_micro_batch") for event in events if event["event"] == "cut"]
    return min((tokens for tokens in known if tokens), default=None)
