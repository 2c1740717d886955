"""Other processes at work on a run of this machine: ask them to save and end, and wait until they have."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable

from trainwright.errors import NothingToDo, UserError
from trainwright.launch.local import is_alive, signal_group
from trainwright.messages.text import _
from trainwright.runs import folder as runs
from trainwright.runs.folder import RunFolder

STOP_SECONDS = 120.0  # how long `stop` and `resume` wait for a process to save and end


def stop(folder: RunFolder) -> None:
    """Ask a run of this machine to save and end, and wait until it has.

    Raises:
        NothingToDo: It is not going on.
        UserError: It runs on another machine, or does not end.
    """
    status = folder.status()
    if status.state not in runs.GOING_ON:
        raise NothingToDo(_("{run} is not going on: {state}.").format(run=folder.id, state=status.state))
    if status.host != socket.gethostname():
        raise UserError(
            _("{run} runs on the machine {host}.").format(run=folder.id, host=status.host),
            _("Stop it there: trainwright stop {run}").format(run=folder.id),
        )
    if is_alive(status.pid):
        os.kill(int(status.pid or 0), signal.SIGTERM)
    elif is_alive(status.worker_pid):
        signal_group(int(status.worker_pid or 0), signal.SIGTERM)
    _wait_until(lambda: not is_alive(status.pid) and not is_alive(status.worker_pid), folder)
    if folder.status().state in runs.GOING_ON:  # its watcher was killed and could not write it down
        folder.set_status(state="stopped", because=_("its watcher was gone"), worker_pid=None)


def wait_for_worker(folder: RunFolder) -> runs.Status:
    """The status once no process of this machine works on the run; an orphaned worker saves and ends by itself.

    Raises:
        UserError: Its watcher is alive, so it is going on.
    """
    status = folder.status()
    here = status.host == socket.gethostname()
    if here and status.state in runs.GOING_ON and status.pid != os.getpid() and is_alive(status.pid):
        raise UserError(
            _("{run} is going on (process {pid}).").format(run=folder.id, pid=status.pid),
            _("Watch it with `trainwright show {run}`, or stop it with `trainwright stop {run}`.").format(
                run=folder.id
            ),
        )
    if here and is_alive(status.worker_pid):
        _wait_until(lambda: not is_alive(status.worker_pid), folder)
    return folder.status()


def _wait_until(done: Callable[[], bool], folder: RunFolder) -> None:
    until = time.monotonic() + STOP_SECONDS
    while not done():
        if time.monotonic() > until:
            raise UserError(
                _("{run} did not end within {seconds:.0f} seconds.").format(run=folder.id, seconds=STOP_SECONDS),
                _("Its processes: watcher {pid}, worker {worker}.").format(
                    pid=folder.status().pid, worker=folder.status().worker_pid
                ),
            )
        time.sleep(0.1)
