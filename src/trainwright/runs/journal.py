"""The journal: append-only events of a run, one JSON object a line, one file per writer and start.

``journal/<host>-<rank>-<attempt>.jsonl`` is written by one process only, so no lock is needed and a training process
never waits for a reader. The watcher's files have ``watcher`` in place of the rank, the preparing child's ``prepare``
or ``fetch``. A torn last line is skipped. For a step that was redone the latest attempt wins.

Events, beside ``event``, ``attempt``, ``wall`` (UTC, for people) and ``seconds`` (monotonic, since the file began):

    start      pid, phase
    phase      phase: fetch | prepare | rehearse | train | evaluate | save | predict
    progress   phase, done, total, unit
    cut        step, tokens_per_micro_batch, because; synced before the step that uses it. finer: memory ran out, and it
               holds from that step on, also after a resume; recompute: activations are computed anew; fresh: a new
               training begins, whose cuts alone count
    back       step, to (a checkpoint), because: memory ran out outside of forward and backward
    restart    number, step, because: the training process was killed and is started again
    log        step, epoch, loss, grad_norm, learning_rate, step_seconds, real_tokens, padded_tokens, micro_batches,
               memory (bytes, resident), gpu_memory (bytes or null), rehearsal (bool)
    evaluate   step, metrics, took (seconds), rehearsal
    save       step, took (seconds), bytes, folder
    finding    finding
    error      type, message, way_out, traceback (for a bug)
    end        state, because
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright.records import to_plain
from trainwright.runs.folder import utc_now


class Journal:
    """Writes the events of one process. Each line is handed to the system at once.

    Args:
        folder: The run's journal folder.
        writer: ``0``, ``1``, ... for the rank of a training process, ``prepare`` or ``watcher``.
    """

    def __init__(self, folder: Path, writer: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.attempt = 1 + max((attempt_of(path) for path in folder.glob("*.jsonl")), default=0)
        while True:
            self.path = folder / f"{socket.gethostname()}-{writer}-{self.attempt}.jsonl"
            try:
                self._file = open(self.path, "x", encoding="utf-8", buffering=1)  # noqa: SIM115 - lives as long as the writer
                break
            except FileExistsError:
                self.attempt += 1
        self._began = time.monotonic()

    def write(self, event: str, sync: bool = False, **fields: Any) -> None:
        """Append one event; ``sync`` returns only when it is on the disk."""
        line = {
            "event": event,
            "attempt": self.attempt,
            "wall": utc_now(),
            "seconds": round(time.monotonic() - self._began, 3),
        }
        self._file.write(json.dumps(line | to_plain(fields), ensure_ascii=False) + "\n")
        if sync:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def attempt_of(path: Path) -> int:
    """The number of the start that wrote this journal file; 0 if the name is not ours."""
    match = re.search(r"-(\d+)\.jsonl$", path.name)
    return int(match[1]) if match else 0


def read_events(folder: Path) -> list[dict[str, Any]]:
    """All events of a run, by attempt and then in the order written; torn lines are skipped."""
    files = sorted(folder.glob("*.jsonl"), key=lambda path: (attempt_of(path), path.name))
    return [event for path in files for event in _events_of(path)]


def steps_of(events: list[dict[str, Any]], kind: str, rehearsal: bool = False) -> list[dict[str, Any]]:
    """Events of one kind by step, of training or of the rehearsal; the latest attempt wins for a redone step.

    Args:
        kind: ``log``, ``evaluate`` or ``save``.
    """
    latest: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["event"] == kind and bool(event.get("rehearsal")) == rehearsal:
            latest[event["step"]] = event
    return [latest[step] for step in sorted(latest)]


class Follower:
    """Reads what was added to a run's journal since the last look; for live views."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def new_events(self) -> list[dict[str, Any]]:
        """Events that have come since the last call, whole lines only."""
        events = []
        for path in sorted(self._folder.glob("*.jsonl"), key=lambda path: (attempt_of(path), path.name)):
            with open(path, "rb") as file:
                file.seek(self._read.get(path, 0))
                whole, _separator, _torn = file.read().rpartition(b"\n")
            if whole:
                self._read[path] = self._read.get(path, 0) + len(whole) + 1
                events += [event for event in map(_parse, whole.split(b"\n")) if event]
        return events


def _events_of(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as file:
        for line in file:
            event = _parse(line)
            if event:
                yield event


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return event if isinstance(event, dict) and "event" in event else None
