"""The run folder: where everything that shows or judges a run is found, and nothing else is needed.

runs/<id>/
  recipe.yaml  resolved.json         as given; every value in force with its origin
  machine.json  model.json  data.json  plan.json   what was found and decided
  journal/                           append-only events, one file per writer (see journal.py)
  status.json                        state, step, pid, host, heartbeat; written atomically
  checkpoints/checkpoint-500/        Hugging Face's own layout, plus manifest.json
  model/                             the best model as a standard Hugging Face folder
  results.json  predictions/         scores, and what the model said of each row
  report.html  tensorboard/
"""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainwright.errors import UserError
from trainwright.messages.text import _
from trainwright.records import (
    FORMAT,
    Audit,
    Choice,
    Finding,
    Machine,
    ModelSource,
    Plan,
    Prepared,
    from_plain,
    read_json,
    to_plain,
    write_json,
)

# States of a run. The first group is going on, the second can be resumed, the third is over.
GOING_ON = ("opened", "preparing", "planning", "rehearsing", "training", "evaluating")
RESUMABLE = ("stopped", "failed")
OVER = ("finished", "refused")


@dataclass(frozen=True)
class Status:
    """What a run is doing, as its ``status.json`` says.

    Attributes:
        state: One of GOING_ON, RESUMABLE or OVER.
        because: Why it is in this state, in words; empty while all goes well.
        step, steps: Optimizer steps done, and in all; None before they are known.
        pid: The watcher's process; worker_pid: the process that prepares or trains, or None.
        host: Where both run.
        heartbeat: Wall-clock time of the last sign of life, ISO 8601 in UTC.
        exit_code: How the command ended; None while it goes on.
    """

    state: str
    because: str = ""
    step: int | None = None
    steps: int | None = None
    epoch: float | None = None
    pid: int | None = None
    worker_pid: int | None = None
    host: str = ""
    heartbeat: str = ""
    started: str = ""
    exit_code: int | None = None
    format: int = FORMAT


@dataclass(frozen=True)
class RunFolder:
    """A run on disk. Every method reads or writes one file; a missing file reads as None."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def recipe_file(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def journal(self) -> Path:
        return self.path / "journal"

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie: ``checkpoints/``, or the folder itself for a script's ``output_dir``."""
        inner = self.path / "checkpoints"
        return inner if inner.is_dir() or self.recipe_file.exists() else self.path

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def predictions(self) -> Path:
        return self.path / "predictions"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def proof(self) -> Path:
        """Where a proof is asked for and answered."""
        return self.path / "proof.json"

    # -- status ---------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """The status as written; state ``opened`` if none was written yet."""
        plain = read_json(self.path / "status.json")
        return from_plain(Status, plain) if plain else Status(state="opened")

    def set_status(self, **changes: Any) -> Status:
        """Change some fields of the status and write it, with a fresh heartbeat."""
        plain = read_json(self.path / "status.json") or {"state": "opened", "started": utc_now()}
        plain |= {"host": socket.gethostname(), **changes, "heartbeat": utc_now(), "format": FORMAT}
        write_json(self.path / "status.json", plain)
        return from_plain(Status, plain)

    # -- what was decided and found -------------------------------------------------------------------------

    def resolved(self) -> dict[str, Choice]:
        """Every value in force by dotted name; empty if not written yet."""
        plain = read_json(self.path / "resolved.json")
        return {name: from_plain(Choice, item) for name, item in plain["values"].items()} if plain else {}

    def write_resolved(self, values: dict[str, Choice]) -> None:
        write_json(self.path / "resolved.json", {"format": FORMAT, "values": values})

    def machine(self) -> Machine | None:
        plain = read_json(self.path / "machine.json")
        return from_plain(Machine, plain) if plain else None

    def write_machine(self, machine: Machine) -> None:
        write_json(self.path / "machine.json", machine)

    def model_source(self) -> ModelSource | None:
        plain = read_json(self.path / "model.json")
        return from_plain(ModelSource, plain) if plain else None

    def write_model_source(self, source: ModelSource) -> None:
        write_json(self.path / "model.json", {"format": FORMAT} | to_plain(source))

    def prepared(self) -> Prepared | None:
        plain = read_json(self.path / "data.json")
        return from_plain(Prepared, plain["prepared"]) if plain and plain.get("prepared") else None

    def audit(self) -> Audit | None:
        plain = read_json(self.path / "data.json")
        return from_plain(Audit, plain["audit"]) if plain and plain.get("audit") else None

    def write_data(self, audit: Audit, prepared: Prepared | None) -> None:
        write_json(self.path / "data.json", {"format": FORMAT, "audit": audit, "prepared": prepared})

    def plan(self) -> Plan | None:
        plain = read_json(self.path / "plan.json")
        return from_plain(Plan, plain) if plain else None

    def write_plan(self, plan: Plan) -> None:
        write_json(self.path / "plan.json", {"format": FORMAT} | to_plain(plan))

    def results(self) -> dict[str, Any] | None:
        return read_json(self.path / "results.json")

    def write_results(self, results: dict[str, Any]) -> None:
        write_json(self.path / "results.json", {"format": FORMAT} | results)

    def findings(self) -> list[Finding]:
        plain = read_json(self.path / "findings.json")
        return [from_plain(Finding, item) for item in plain["findings"]] if plain else []

    def write_findings(self, findings: list[Finding]) -> None:
        write_json(self.path / "findings.json", {"format": FORMAT, "findings": findings})


def open_run(path: str | Path) -> RunFolder:
    """Open a run folder for reading.

    Raises:
        UserError: There is no run at that path.
    """
    folder = RunFolder(Path(path).resolve())
    if not (folder.path / "status.json").exists():
        raise UserError(_("{path} is not a run folder: it has no status.json.").format(path=path))
    return folder


def utc_now() -> str:
    """The wall-clock time, ISO 8601 in UTC. For people only: order comes from step numbers."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def create(root: Path, name: str) -> RunFolder:
    """Make a new run folder ``<root>/<name>-<date>-<n>``.

    The folder is made with ``mkdir``, which fails if it exists: two starters never share one.
    """
    root.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
    stem = f"{safe}-{time.strftime('%Y%m%d-%H%M%S')}"
    for attempt in range(1, 1000):
        path = root / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        folder = RunFolder(path)
        folder.journal.mkdir()
        folder.set_status(state="opened", pid=os.getpid(), started=utc_now())
        return folder
    raise UserError(_("No free name for a run below {root}.").format(root=root))


def all_runs(root: Path) -> list[RunFolder]:
    """Every run below ``root``, oldest first by the time in its status."""
    if not root.is_dir():
        return []
    folders = [RunFolder(path) for path in root.iterdir() if (path / "status.json").exists()]
    return sorted(folders, key=lambda folder: (folder.status().started, folder.id))


def find(root: Path, run: str) -> RunFolder:
    """The run that the user names: a path, an id, the start of an id, or ``last``.

    Raises:
        UserError: There is none, or several fit.
    """
    if (Path(run) / "status.json").exists():
        return RunFolder(Path(run).resolve())
    runs = all_runs(root)
    if run == "last" and runs:
        return runs[-1]
    fitting = [folder for folder in runs if folder.id == run] or [f for f in runs if f.id.startswith(run)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        known = ", ".join(folder.id for folder in runs[-5:]) or _("none yet")
        raise UserError(
            _("There is no run '{run}' in {root}.").format(run=run, root=root),
            _("Runs there: {known}. Name one of them, a run folder, or 'last'.").format(known=known),
        )
    raise UserError(
        _("'{run}' fits several runs: {runs}.").format(run=run, runs=", ".join(f.id for f in fitting)),
        _("Name one of them in full."),
    )
