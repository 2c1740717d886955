"""Start a child process for a run on this machine, and watch it to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

import psutil

from trainwright.errors import KilledBySystem, TrainwrightError, error_from_record
from trainwright.messages.text import _, current_language
from trainwright.model import remote_code
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import read_events

LOOKS_PER_SECOND = 4
SPINS = "5000"  # turns of GNU OpenMP, which torch's wheels bring, before a waiting thread sleeps
SHAPES = "64"  # for which oneDNN and its wrapper in torch keep what they have built


class Observer(Protocol):
    """Whoever shows a run while it goes on."""

    def update(self) -> None:
        """Look at the run folder and show what is new; called a few times a second."""


class Interrupt:
    """Ctrl-C and SIGTERM in the watcher: the first asks the child to save and end, the second ends it at once."""

    def __init__(self) -> None:
        self.count = 0
        self.child: subprocess.Popen | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _asked(self, _number: int, _frame: Any) -> None:
        self.count += 1
        if self.child is not None and self.child.poll() is None:
            signal_group(self.child.pid, signal.SIGTERM if self.count == 1 else signal.SIGKILL)


def run_child(kind: str, folder: RunFolder, observer: Observer) -> int:
    """Run ``fetch``, ``prepare`` or ``train`` of a run in a process of its own, and wait for it.

    Returns:
        0, or the exit code of :mod:`trainwright.errors` for a stop that was asked for.

    Raises:
        TrainwrightError: What the child reported, or how it was killed.
    """
    command = [sys.executable, "-m", "trainwright.child", kind, str(folder.path), current_language()]
    command += [remote_code.OPTION] if remote_code.allowed() else []
    with Interrupt() as interrupt, open(folder.path / "log.txt", "ab") as log:
        # A session of its own: a Ctrl-C or a closed terminal reaches the watcher alone, which passes it on.
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=child_environment(os.environ) | ({} if kind == "fetch" else offline(os.environ)),
        )
        interrupt.child = child
        while child.poll() is None:
            observer.update()
            time.sleep(1 / LOOKS_PER_SECOND)
    observer.update()
    if child.returncode != 0 and not (interrupt.count and kind in ("fetch", "prepare")):
        raise _reported_error(folder, child.pid, child.returncode, interrupt.count)
    return child.returncode


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process and those it started; nothing happens if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def is_alive(pid: int | None) -> bool:
    """Whether a process of ours with this number is running here; a number that another program now has is not."""
    if not pid:
        return False
    try:
        process = psutil.Process(pid)
        ours = pid == os.getpid() or any("trainwright" in word for word in process.cmdline())
        return ours and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment of the child: the given one, with what keeps libraries quiet and threads from spinning.

    Threads of one parallel loop wait for each other, by default spinning for long. Where another process wants the
    same core (a rented share of a processor, a second run) they spin against it and all stand still: training beside
    one busy process was seen to be ten times slower on two cores. A short spin costs some percent on an idle
    processor and keeps that from happening. Whoever has set how threads wait is left alone.

    oneDNN, which does torch's matrix products on a processor, keeps what it has built for each shape, by default for
    1024 of them. Batches without padding have another shape almost every time, so that grew by 0.2 GiB in 100 steps
    of a small encoder; fewer took no more time.
    """
    quiet = {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "true"}
    waiting = {} if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(given) else {"GOMP_SPINCOUNT": SPINS}
    shapes = {name: given.get(name, SHAPES) for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")}
    return {**given, **quiet, **waiting, **shapes}


def offline(given: Mapping[str, str]) -> dict[str, str]:
    """Keeps a child that has its model from asking a hub again; whoever has set it otherwise is left alone."""
    return {} if "HF_HUB_OFFLINE" in given else {"HF_HUB_OFFLINE": "1"}


def _reported_error(folder: RunFolder, pid: int, code: int, asked: int) -> TrainwrightError:
    """The error that the child wrote down; else what its exit code says."""
    events = read_events(folder.journal)
    starts = [place for place, event in enumerate(events) if event["event"] == "start" and event.get("pid") == pid]
    errors = [event for event in events[starts[-1] :] if event["event"] == "error"] if starts else []
    log = folder.path / "log.txt"
    if errors and "traceback" not in errors[-1]:
        return error_from_record(errors[-1])
    if errors:
        error = errors[-1]
        message = _("{type} in the training process: {message}")
        return TrainwrightError(
            message.format(type=error["type"], message=error["message"]),
            _("The traceback is in {folder}.").format(folder=folder.journal),
        )
    if code < 0:
        name = signal.Signals(-code).name
        message = _("The training process was killed by {signal}.").format(signal=name)
        if -code == signal.SIGKILL and not asked:
            message += " " + _("The system does this when memory runs out.")
        kind = TrainwrightError if asked or -code != signal.SIGKILL else KilledBySystem
        return kind(message, _("Go on from the last checkpoint: trainwright resume {run}").format(run=folder.id))
    return TrainwrightError(
        _("The process ended with code {code} and no word.").format(code=code),
        _("Its output is in {log}.").format(log=log),
    )
