"""The main path: one call after another, from a recipe to a report."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from trainwright.data.prepare import find_prepared
from trainwright.data.request import request_for
from trainwright.diagnose.engine import diagnose
from trainwright.errors import MachineError, NothingToDo, Stopped, TrainwrightError, UserError
from trainwright.launch.local import Observer, run_child
from trainwright.launch.stopping import wait_for_worker
from trainwright.launch.watchdog import run_training
from trainwright.machine.look import look
from trainwright.machine.places import cache_root, default_runs_root
from trainwright.messages.text import _
from trainwright.model.check import LocalModel, head_finding, padding_finding
from trainwright.model.hub_fetch import still_whole
from trainwright.model.locate import comes_from_hub, model_of, source_here
from trainwright.model.unpad import choose_batches
from trainwright.plan.cards import card_named, machine_with
from trainwright.plan.choose import make_plan
from trainwright.plan.cost import Prices, read_prices
from trainwright.plan.forecast import Place, forecast, model_name
from trainwright.plan.hindsight import compare, learned
from trainwright.plan.shape import shape_of
from trainwright.plan.speed import remember, remembered
from trainwright.recipe.load import LoadedRecipe, change_values, choose, load_recipe, recipe_from_values
from trainwright.recipe.tasks import task_of
from trainwright.records import Choice, Machine, Plan, Prepared, read_json, to_plain, write_json
from trainwright.runs import folder as runs
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal, read_events, steps_of
from trainwright.runs.lock import owned
from trainwright.runs.resume import changes, facts_of, newest_checkpoint, unlike

# Shows a run while it goes on; made by whoever calls, since faces stand above the flow.
Watch = Callable[[RunFolder], AbstractContextManager[Observer]]


@dataclasses.dataclass(frozen=True)
class OnCard:
    """A place to plan for: so many cards of a kind on so many hosts; without a kind, this machine."""

    card: str | None = None
    gpus: int | None = None
    hosts: int = 1
    price: str | None = None


@dataclasses.dataclass(frozen=True)
class Planned:
    """A plan for a place, with the values in force there; without a plan, why it cannot be run there."""

    on: OnCard
    plan: Plan | None
    problem: str
    values: dict[str, Choice]


def start(recipe_file: Path, watch: Watch, sets: Sequence[str] = (), runs_root: Path | None = None) -> RunFolder:
    """Train a recipe from its file to its report.

    Args:
        recipe_file: The recipe.
        watch: Makes the view of the run.
        sets: ``key=value`` changes to the recipe.
        runs_root: Where the run folder is made; by default ``runs`` here, or the platform's data disk.

    Returns:
        The finished run.

    Raises:
        UserError: The recipe, its data or its model cannot be used; nothing was trained.
        Stopped: Stopped on request; resumable.
    """
    loaded = load_recipe(recipe_file, sets)
    machine = look()
    folder = open_run_folder(loaded, machine, recipe_file, runs_root)
    with owned(folder.path):
        return carry_on(folder, watch)


def resume(folder: RunFolder, watch: Watch, sets: Sequence[str] = (), accept: bool = False) -> RunFolder:
    """Go on with a run that was stopped, failed or was killed; or with a finished one that is to train longer.

    Args:
        sets: ``key=value`` changes to the recipe; those of ``run:`` are free.
        accept: Agree to changes that decide the result.

    Raises:
        NothingToDo: It has finished.
        UserError: It is still going on, or would learn something else than before.
    """
    from trainwright.train.seam import agree, trains_longer

    with owned(folder.path):
        status = wait_for_worker(folder)
        before = folder.resolved()
        values = change_values(before, sets) if sets else before
        if status.state == "finished" and not trains_longer(folder, values):
            raise NothingToDo(_("{run} has finished; there is nothing to do.").format(run=folder.id))
        agree(folder, changes(before, values), values, accept)
        folder.set_status(state="opened", because="", pid=os.getpid(), exit_code=None)
        folder.write_machine(look())
        folder.write_resolved(values)
        return carry_on(folder, watch, accept)


def carry_on(folder: RunFolder, watch: Watch, accept: bool = False) -> RunFolder:
    """The road of a run, from wherever it stands."""
    with watch(folder) as view, ending_written_down(folder):
        model = find_model(folder, view)
        prepare_data(folder, model, view)
        agree_with_checkpoint(folder, accept)
        note_model(folder, model)
        write_plan(folder, model)
        train(folder, model, view)
    return folder


def prove(recipe_file: Path, steps: int, watch: Watch, sets: Sequence[str] = ()) -> dict[str, Any]:
    """Train the first steps of a recipe whole, cut, packed and cut finer, and compare them; no run is left behind.

    Returns:
        See :func:`trainwright.train.proof.prove`.

    Raises:
        UserError: The recipe, its data or its model cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="trainwright-prove-") as scratch:
        folder = open_run_folder(load_recipe(recipe_file, sets), look(), recipe_file, Path(scratch))
        with watch(folder) as view, ending_written_down(folder):
            model = find_model(folder, view)
            prepare_data(folder, model, view)
            write_plan(folder, model)
            write_json(folder.proof, {"steps": steps})
            run_child("prove", folder, view)
        proof: dict[str, Any] = read_json(folder.proof)
        return proof


def plan(recipe_file: Path, watch: Watch, sets: Sequence[str] = (), places: Sequence[OnCard] = ()) -> list[Planned]:
    """What a recipe would take, here or on other cards; its data is prepared, its model fetched, nothing trained.

    Args:
        places: Where else; none is this machine.

    Returns:
        For each place its plan with the forecast, or why it cannot be run there.

    Raises:
        UserError: The recipe, its data or its model cannot be used.
    """
    prices = read_prices()
    with tempfile.TemporaryDirectory(prefix="trainwright-plan-") as scratch:
        folder = open_run_folder(load_recipe(recipe_file, sets), look(), recipe_file, Path(scratch))
        with watch(folder) as view, ending_written_down(folder):
            model = find_model(folder, view)
            prepare_data(folder, model, view)
        return [planned_for(folder, model, place, prices) for place in places or [OnCard()]]


def planned_for(folder: RunFolder, model: LocalModel, on: OnCard, prices: Prices) -> Planned:
    """The plan of a prepared run for a card."""
    prepared, machine, values = folder.prepared(), folder.machine(), folder.resolved()
    assert prepared is not None
    assert machine is not None
    place = Place(on.card is not None, on.hosts, on.price, prices)
    if on.card is not None:
        machine = machine_with(machine, card_named(on.card), on.gpus or 1)
        values = {**values, "run.device": Choice("cuda", "--set")}
    elif on.gpus is not None:
        machine = dataclasses.replace(machine, gpus=machine.gpus[: on.gpus])
    try:
        made, values = plan_with_forecast(values, prepared, machine, model, place)
    except MachineError as error:
        return Planned(on, None, str(error), values)
    return Planned(on, made, "", values)


# -- the steps ---------------------------------------------------------------------------------------------------


def open_run_folder(loaded: LoadedRecipe, machine: Machine, recipe_file: Path, runs_root: Path | None) -> RunFolder:
    """Make the run folder and write down what is asked for and what is here."""
    folder = runs.create(runs_root or default_runs_root(machine), loaded.recipe.name)
    shutil.copyfile(recipe_file, folder.recipe_file)
    folder.checkpoints.mkdir()
    folder.write_resolved(loaded.values)
    folder.write_machine(machine)
    show_in_panel(folder, machine)
    return folder


def show_in_panel(folder: RunFolder, machine: Machine, panel: Path = Path("/root/tf-logs")) -> None:
    """Link the TensorBoard files into the folder that AutoDL's panel shows."""
    if machine.platform == "autodl" and panel.is_dir():
        with contextlib.suppress(OSError):  # a full or read-only panel folder must not stop a run
            (panel / folder.id).symlink_to(folder.tensorboard)


def find_model(folder: RunFolder, view: Observer) -> LocalModel:
    """The model of the run: here already, or fetched from a hub once. From then on the run reads its folder only.

    Raises:
        ModelError: It cannot be had, or lacks what training needs.
        Stopped: Stopped on request; what has come is kept.
    """
    recipe = recipe_from_values(folder.resolved())
    source = folder.model_source()
    if source is None and not comes_from_hub(recipe.model):
        folder.write_model_source(source_here(recipe.model))
    elif source is None or not still_whole(source):
        folder.set_status(state="preparing")
        if run_child("fetch", folder, view):
            raise Stopped(_("Stopped while fetching the model."), resume_line(folder))
        source = folder.model_source()
        assert source is not None
        if recipe.hub == "auto":
            folder.write_resolved(choose(folder.resolved(), "hub", source.hub, source.because))
    return model_of(folder)


def agree_with_checkpoint(folder: RunFolder, accept: bool) -> None:
    """Before anything is trained: is it still the recipe, and are they still the rows, of the newest checkpoint?

    Raises:
        UserError: It would learn something else, and nobody agreed to that.
    """
    from trainwright.train.seam import agree

    newest, prepared = newest_checkpoint(folder.checkpoints), folder.prepared()
    if newest is not None and prepared is not None:
        values = folder.resolved()
        agree(folder, unlike(newest, facts_of(values, prepared, folder.machine())), values, accept)


def note_model(folder: RunFolder, model: LocalModel) -> None:
    """Say what the model's own head and padding mean for the labels of the data."""
    prepared = folder.prepared()
    assert prepared is not None
    found = [padding_finding(model)]
    if task_of(folder.resolved()).label in ("class", "set"):  # the others have outputs of their own
        found.append(head_finding(model, prepared.labels))
    journal = Journal(folder.journal, "watcher")
    for finding in found:
        if finding is not None:
            journal.write("finding", finding=finding)
    journal.close()


def prepare_data(folder: RunFolder, model: LocalModel, view: Observer) -> None:
    """Audit and tokenise, or find that it was done before; without a heavy import in this process."""
    folder.set_status(state="preparing")
    values = folder.resolved()
    machine = folder.machine()
    assert machine is not None
    request = request_for(recipe_from_values(values), model.folder, model.max_length)
    found = find_prepared(request, cache_root(machine))
    if found.preparation is None:
        if run_child("prepare", folder, view):
            raise Stopped(_("Stopped while preparing."), resume_line(folder))
        return
    for name, choice in found.preparation.choices.items():
        values = choose(values, name, choice.value, choice.because)
    folder.write_data(found.preparation.audit, found.preparation.prepared)
    folder.write_resolved(values)


def write_plan(folder: RunFolder, model: LocalModel) -> None:
    """Settle what depends on model, data and machine."""
    folder.set_status(state="planning")
    prepared, machine = folder.prepared(), folder.machine()
    assert prepared is not None
    assert machine is not None
    plan, values = plan_with_forecast(folder.resolved(), prepared, machine, model, Place(prices=read_prices()))
    folder.write_plan(plan)
    folder.write_resolved(values)
    folder.set_status(steps=plan.steps)


def plan_with_forecast(
    values: dict[str, Choice], prepared: Prepared, machine: Machine, model: LocalModel, place: Place
) -> tuple[Plan, dict[str, Choice]]:
    """The plan, with what it will take; and the values with what was chosen."""
    label_of = task_of(values).label_of
    batches = choose_batches(model.config["model_type"], label_of, model.config.get("classifier_pooling", "cls"))
    recipe = recipe_from_values(values)
    shape, dropout = shape_of(model.config, max(1, len(prepared.labels))), recipe.learn.dropout
    if shape is not None and dropout is not None:
        shape = dataclasses.replace(shape, dropout=dropout, attention_dropout=dropout)
    plan, values = make_plan(values, prepared, machine, batches, shape)
    packed = values["run.batches"].value == "packed"
    taken = forecast(recipe, plan, prepared, machine, shape, packed, remembered(), place)
    return dataclasses.replace(plan, forecast=taken), values


def train(folder: RunFolder, model: LocalModel, view: Observer) -> None:
    """Rehearse, train and evaluate in a process of its own.

    Raises:
        Stopped: Stopped on request, with a checkpoint.
    """
    run_training(folder, view)
    if folder.status().state == "stopped":
        raise Stopped(_("Stopped at step {step}.").format(step=folder.status().step or 0), resume_line(folder))
    look_back(folder, model)


def look_back(folder: RunFolder, model: LocalModel) -> None:
    """Write what was predicted beside what was measured into the results, and remember it for the next plan."""
    plan, results, prepared = folder.plan(), folder.results(), folder.prepared()
    if plan is None or results is None or prepared is None:
        return
    events = read_events(folder.journal)
    parts = sum(event["event"] == "start" and event.get("phase") == "train" for event in events)
    folder.write_results(results | {"hindsight": to_plain(compare(plan, results, resumed=parts > 1))})
    name = model_name(shape_of(model.config, max(1, len(prepared.labels))))
    speed = learned(plan, name, results, steps_of(events, "log"), steps_of(events, "save"))
    if speed is not None and "hindsight" not in results:
        with contextlib.suppress(OSError):  # a home that cannot be written to must not fail a run that is done
            remember(speed)


@contextlib.contextmanager
def ending_written_down(folder: RunFolder) -> Iterator[None]:
    """However the road ends: the status says how and why, and the findings are written."""
    try:
        yield
    except TrainwrightError as error:
        state = ended_state(folder, error)
        folder.set_status(state=state, because=str(error), exit_code=error.exit_code, worker_pid=None)
        folder.write_findings(diagnose(folder))
        raise
    folder.set_status(exit_code=0, worker_pid=None)
    folder.write_findings(diagnose(folder))


def ended_state(folder: RunFolder, error: TrainwrightError) -> str:
    """The state of a run that ended with an error: refused before training began, else stopped or failed."""
    if isinstance(error, Stopped):
        return "stopped"
    if isinstance(error, NothingToDo):
        return "finished"
    started_training = any(folder.checkpoints.glob("checkpoint-*"))
    return "refused" if isinstance(error, UserError) and not started_training else "failed"


def resume_line(folder: RunFolder) -> str:
    return _("Go on with: trainwright resume {run}").format(run=folder.id)
