"""The process that fetches, prepares or trains, below the watcher: ``python -m trainwright.child KIND RUN LANGUAGE``,
with ``--trust-remote-code`` behind it where the user's own command line had it.

Whatever it has to say goes into the run's journal; what libraries print goes into the run's log.txt. Its exit code is
that of errors.py.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

from trainwright.errors import DataError, TrainwrightError, error_record
from trainwright.messages.text import use_language
from trainwright.model import remote_code
from trainwright.recipe.load import choose, recipe_from_values
from trainwright.records import read_json, write_json
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal

KINDS = {"fetch": "fetch", "prepare": "prepare", "train": "0", "prove": "0"}  # kind -> writer of its journal
PROGRESS_SECONDS = 0.5  # between two events while bytes come in


def main(kind: str, path: str, language: str, *options: str) -> int:
    """Do the work of one kind for a run; returns the exit code."""
    use_language(language)
    remote_code.allow(remote_code.OPTION in options)
    folder = RunFolder(Path(path))
    journal = Journal(folder.journal, KINDS[kind])
    journal.write("start", pid=os.getpid(), phase=kind)
    folder.set_status(worker_pid=os.getpid())
    try:
        {"fetch": fetch, "prepare": prepare, "train": train, "prove": prove}[kind](folder, journal)
    except TrainwrightError as error:
        journal.write("error", sync=True, **error_record(error))
        return error.exit_code
    except BaseException as error:
        kind_of_error = type(error).__name__
        trace = traceback.format_exc()
        journal.write("error", sync=True, type=kind_of_error, message=str(error), way_out="", traceback=trace)
        return TrainwrightError.exit_code
    return 0


def fetch(folder: RunFolder, journal: Journal) -> None:
    """Bring the model from a hub; writes model.json. Where the run had one, the same revision from the same hub."""
    from trainwright.model import hub_fetch

    recipe = recipe_from_values(folder.resolved())
    before = folder.model_source()
    journal.write("phase", phase="fetch")
    last = 0.0

    def progress(done: int, total: int, unit: str) -> None:
        nonlocal last
        if done >= total or time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            journal.write("progress", phase="fetch", done=done, total=total, unit=unit)

    if before is not None:
        folder.write_model_source(hub_fetch.fetch_again(before, progress))
    else:
        source = hub_fetch.fetch(recipe.model, recipe.hub, progress)
        folder.write_model_source(source)
        if recipe.hub == "auto":
            journal.write("finding", finding=hub_fetch.source_finding(source))


def prepare(folder: RunFolder, journal: Journal) -> None:
    """Audit and tokenise the run's data; writes data.json."""
    from trainwright.data.prepare import prepare as prepare_data
    from trainwright.data.request import request_for
    from trainwright.machine.places import cache_root
    from trainwright.model.locate import model_of

    values = folder.resolved()
    recipe = recipe_from_values(values)
    model = model_of(folder)
    machine = folder.machine()
    assert machine is not None
    journal.write("phase", phase="prepare")

    def progress(done: int, total: int | None, unit: str) -> None:
        journal.write("progress", phase="prepare", done=done, total=total, unit=unit)

    try:
        made = prepare_data(request_for(recipe, model.folder, model.max_length), cache_root(machine), progress)
    except DataError as error:
        audit = getattr(error, "audit", None)
        if audit is not None:
            folder.write_data(audit, None)  # the report of a refused run shows what was found
        raise
    for name, choice in made.choices.items():
        values = choose(values, name, choice.value, choice.because)
    folder.write_data(made.audit, made.prepared)
    folder.write_resolved(values)


def train(folder: RunFolder, journal: Journal) -> None:
    """Rehearse, train, evaluate and save."""
    from trainwright.train.worker import run

    run(folder, journal)


def prove(folder: RunFolder, journal: Journal) -> None:
    """Compare the ways of running the first steps; proof.json asks for it and is answered."""
    from trainwright.train.proof import prove as compare

    write_json(folder.proof, compare(folder, journal, read_json(folder.proof)["steps"]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
