"""One owner for a run folder: two runs never mix.

The owner holds a lock of the system on ``owner.json``, which the system lets go of when the process dies, however it
dies. Where the folder is shared between machines, the file also says who the owner is, and its beat goes on while the
owner lives: another machine waits for a beat, and takes over only if none comes. No clocks are compared.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from trainwright.errors import UserError
from trainwright.messages.text import _
from trainwright.runs.folder import utc_now

NAME = "owner.json"
BEAT_SECONDS = 5.0
MISSED_BEATS = 4  # without one for so long, an owner on another machine is gone
ORPHAN_SECONDS = 15.0  # torch's loader processes look for their parent every 5 seconds
# Some network file systems have no locks: there the file's content alone decides.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


@contextlib.contextmanager
def owned(folder: Path, beat_seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Own a run folder while the block runs.

    Args:
        folder: The run folder; it is made if need be.
        beat_seconds: Time between signs of life.

    Raises:
        UserError: Another living process owns it; its host and process number are named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    ended = threading.Event()
    try:
        if not _lock_when_free(descriptor):
            raise _refusal(folder, _read(descriptor))
        before = _read(descriptor)
        if before and _is_alive(descriptor, before, beat_seconds):
            raise _refusal(folder, before)
        mine = owner_record()
        _write(descriptor, mine)
        beating = threading.Thread(target=_beat, args=(descriptor, mine, ended, beat_seconds), daemon=True)
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def owner_record() -> dict[str, Any]:
    """This process, so that it is told apart from a later one with the same number."""
    me = psutil.Process()
    return {
        "host": socket.gethostname(),
        "pid": me.pid,
        "process_began": me.create_time(),
        "since": utc_now(),
        "beat": 0,
    }


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _lock_when_free(descriptor: int) -> bool:
    """Take the lock; a dead owner's may be held for some seconds by its loader processes, which end after it."""
    until = time.monotonic() + ORPHAN_SECONDS
    while not _lock(descriptor):
        owner = _read(descriptor)
        dead = owner.get("host") == socket.gethostname() and not _runs_here(owner)
        if not dead or time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _is_alive(descriptor: int, owner: dict[str, Any], beat_seconds: float) -> bool:
    """Whether the owner that the file names lives: on this machine by its process, elsewhere by its beats."""
    if owner.get("host") == socket.gethostname():
        return owner.get("pid") != os.getpid() and _runs_here(owner)
    until = time.monotonic() + MISSED_BEATS * beat_seconds
    while time.monotonic() < until:
        time.sleep(min(beat_seconds, 0.2))
        if _read(descriptor) != owner:
            return True
    return False


def _runs_here(owner: dict[str, Any]) -> bool:
    with contextlib.suppress(psutil.Error, KeyError):
        process = psutil.Process(int(owner["pid"]))
        same = abs(process.create_time() - float(owner["process_began"])) < 0.01
        return same and process.status() != psutil.STATUS_ZOMBIE
    return False


def _beat(descriptor: int, mine: dict[str, Any], ended: threading.Event, beat_seconds: float) -> None:
    while not ended.wait(beat_seconds):
        mine["beat"] += 1
        with contextlib.suppress(OSError):  # a full disk must not end the sign of life: the next one may come through
            _write(descriptor, mine)


def _read(descriptor: int) -> dict[str, Any]:
    try:
        record = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:  # empty, or torn by a power cut
        return {}
    return record if isinstance(record, dict) else {}


def _write(descriptor: int, record: dict[str, Any]) -> None:
    """In place and of one length, so that a reader sees one record or the other."""
    os.pwrite(descriptor, json.dumps(record).ljust(512).encode(), 0)


def _refusal(folder: Path, owner: dict[str, Any]) -> UserError:
    return UserError(
        _("{run} is going on: process {pid} on {host} owns it.").format(
            run=folder.name, pid=owner.get("pid"), host=owner.get("host")
        ),
        _("Wait for it, stop it there, or use another folder."),
    )
