"""Every command: its options, and one call into the library. What a command shows comes from terminal/ and report/."""

from __future__ import annotations

import contextlib
import importlib.metadata
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.errors import NothingToDo, TrainwrightError, UserError
from trainwright.messages.text import LANGUAGES, _, current_language, language_of_environment, use_language
from trainwright.model import remote_code

if TYPE_CHECKING:
    from trainwright.launch.local import Observer
    from trainwright.runs.folder import RunFolder

app = typer.Typer(
    name="trainwright",
    help="From labelled text and a Transformer to a trained, measured, reproducible model.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

data_app = typer.Typer(help="Look at the data of a recipe before anything is trained.", no_args_is_help=True)
app.add_typer(data_app, name="data")

RunsOption = Annotated[
    Path | None,
    typer.Option("--runs", help="Folder that holds the runs. [default: ./runs, or the data disk on AutoDL]"),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe.")
]
CodeOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model. Read it first.")
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the start of it, its folder, or 'last'.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trainwright {importlib.metadata.version('trainwright')}")
        raise typer.Exit


@app.callback()
def options(
    lang: Annotated[str | None, typer.Option(help="Language of texts: en or zh. [default: by locale]")] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""
    if lang is not None and lang not in LANGUAGES:
        raise UserError(_("The language '{lang}' is not known.").format(lang=lang), _("Use --lang en or --lang zh."))
    use_language(lang or language_of_environment())


@app.command()
def quickstart(
    folder: Annotated[Path, typer.Option(help="Where its data, recipe and runs go.")] = Path("quickstart"),
    model: Annotated[str | None, typer.Option(help="A model folder. [default: the packaged encoder]")] = None,
    rows: Annotated[int, typer.Option(help="Rows of text, for training and validation together.")] = 3000,
) -> None:
    """Fine-tune a packaged encoder on real text that is already on this machine; needs no network."""
    from trainwright.quickstart import write_quickstart

    recipe = write_quickstart(folder, model, rows)
    _train(recipe, [], folder / "runs")


@app.command()
def init(
    file: Annotated[
        Path,
        typer.Argument(help="Your labelled text: a table, JSON, or a folder with a sub-folder of texts per label."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The recipe to write.")] = Path("recipe.yaml"),
    model: Annotated[str | None, typer.Option(help="Model folder or hub id. [default: by the language]")] = None,
    text: Annotated[str | None, typer.Option(help="Column with the text. [default: found]")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the label. [default: found]")] = None,
) -> None:
    """Write a commented recipe for a file."""
    from trainwright.data.init import make_recipe

    if output.exists():
        raise UserError(_("{file} exists and is left as it is.").format(file=output), _("Choose another name with -o."))
    made = make_recipe(file, model, text=text, label=label)
    output.write_text(made.text, encoding="utf-8")
    for guess in made.guesses:
        typer.echo(guess)
    typer.echo(_("Wrote {file}. Next: trainwright train {file}").format(file=output))


@app.command()
def doctor(
    recipe: Annotated[Path | None, typer.Argument(help="A recipe: whether this machine fits what it needs.")] = None,
    set_: SetOption = None,
    fix: Annotated[bool, typer.Option("--fix", help="Apply what only adds, after asking for each.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every check as JSON.")] = False,
    runs: RunsOption = None,
) -> None:
    """Check whether this machine is fit to train; every finding comes with its fix. Exit code 1: something blocks."""
    from trainwright.cli.doctoring import doctor_and_show

    if not doctor_and_show(recipe, list(set_ or []), runs, as_json, fix, _console()):
        raise typer.Exit(1)


@app.command()
def plan(
    recipe: Annotated[Path, typer.Argument(help="The recipe file.")],
    on: Annotated[
        str | None, typer.Option(help="A card to plan for, such as a100-80g. [default: this machine]")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="Cards of a host.")] = None,
    hosts: Annotated[int, typer.Option(min=1, help="Hosts with as many cards each.")] = 1,
    price: Annotated[str | None, typer.Option(help='What the machine costs, such as "2.18 CNY/h".')] = None,
    compare: Annotated[str | None, typer.Option(help="Several cards, side by side: a100-80g,4090,v100.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    set_: SetOption = None,
) -> None:
    """Memory, time and cost of a recipe before paying, here or on another card; nothing is trained."""
    from trainwright.cli.planning import places_of, plan_and_show
    from trainwright.terminal.console import PatientConsole

    places = places_of(on, gpus, hosts, price, compare)
    plan_and_show(recipe, list(set_ or []), places, as_json, _console(), PatientConsole(stderr=True))


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="The recipe file.")],
    set_: SetOption = None,
    rehearse: Annotated[str | None, typer.Option(help="Share of the rows for the rehearsal, such as 10%.")] = None,
    no_rehearse: Annotated[bool, typer.Option("--no-rehearse", help="Train without a rehearsal.")] = False,
    trust_remote_code: CodeOption = False,
    runs: RunsOption = None,
) -> None:
    """Audit, prepare, plan, rehearse, train, evaluate and report."""
    remote_code.allow(trust_remote_code)
    sets = list(set_ or [])
    if rehearse is not None:
        sets.append(f"run.rehearse={rehearse}")
    if no_rehearse:
        sets.append("run.rehearse=off")
    _train(recipe, sets, runs)


@app.command()
def resume(
    run: RunArgument,
    set_: SetOption = None,
    accept: Annotated[bool, typer.Option("--accept", help="Agree to changes that decide what is learned.")] = False,
    trust_remote_code: CodeOption = False,
    runs: RunsOption = None,
) -> None:
    """Go on with a run that was stopped, failed or was killed, or train a finished one longer."""
    from trainwright import flow

    remote_code.allow(trust_remote_code)
    flow.resume(_find(run, runs), watched, set_ or [], accept)


@app.command()
def stop(run: RunArgument = "last", runs: RunsOption = None) -> None:
    """Ask a run to save and end; it can be resumed."""
    from trainwright.launch import stopping

    folder = _find(run, runs)
    stopping.stop(folder)
    typer.echo(_("{run} has stopped. Go on with: trainwright resume {run}").format(run=folder.id))


@app.command("runs")
def list_runs(runs: RunsOption = None) -> None:
    """List the runs."""
    from trainwright.runs.folder import all_runs
    from trainwright.terminal.tables import runs_table

    folders = all_runs(_runs_root(runs))
    if not folders:
        raise NothingToDo(_("There are no runs in {root}.").format(root=_runs_root(runs)))
    _console().print(runs_table(folders))


@app.command()
def show(
    run: RunArgument = "last",
    report: Annotated[bool, typer.Option("--report", help="Write the report anew, in the language in use.")] = False,
    runs: RunsOption = None,
) -> None:
    """Show what became of a run."""
    from trainwright.terminal.tables import run_summary

    folder = _find(run, runs)
    if report:
        write_report(folder)
    _console().print(run_summary(folder))


@app.command()
def predict(
    run: RunArgument,
    file: Annotated[Path | None, typer.Argument(help="CSV, TSV or JSONL file with texts.")] = None,
    text: Annotated[list[str] | None, typer.Option("--text", help="A text; may be given several times.")] = None,
    text_pair: Annotated[
        list[str] | None, typer.Option("--text-pair", help="The second text of a pair, for each --text.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write. [default: beside FILE]")] = None,
    column: Annotated[str | None, typer.Option(help="Column with the text. [default: the recipe's]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing output file.")] = False,
    trust_remote_code: CodeOption = False,
    runs: RunsOption = None,
) -> None:
    """Predict labels or scores of new texts with a run's best model."""
    from trainwright.cli.serving import predict_and_show

    remote_code.allow(trust_remote_code)
    predict_and_show(_find(run, runs), file, list(text or []), list(text_pair or []), output, column, force, _console())


@app.command()
def export(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="hf or onnx.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write. [default: RUN-hf, RUN-onnx]")
    ] = None,
    trust_remote_code: CodeOption = False,
    runs: RunsOption = None,
) -> None:
    """Export a run's best model."""
    from trainwright.cli.serving import export_and_show

    remote_code.allow(trust_remote_code)
    export_and_show(_find(run, runs), to, output, _console())


@data_app.command("check")
def data_check(
    recipe: Annotated[Path, typer.Argument(help="The recipe file.")],
    set_: SetOption = None,
    rows: Annotated[bool, typer.Option("--rows", help="Rows and labels only; needs no model.")] = False,
) -> None:
    """Audit the data: rows, labels, copies, lengths, tokens; ends with 1 if a run would be refused."""
    from trainwright.cli.checking import check_and_show

    check_and_show(recipe, set_ or [], rows, _console())


@data_app.command("prepare")
def data_prepare(recipe: Annotated[Path, typer.Argument(help="The recipe file.")], set_: SetOption = None) -> None:
    """Audit and tokenise the data into the cache, so that a run begins at once."""
    from trainwright.cli.checking import prepare_and_show

    prepare_and_show(recipe, set_ or [], _console())


# -- helpers -------------------------------------------------------------------------------------------------------


@app.command()
def prove(
    recipe: Annotated[Path, typer.Argument(help="The recipe.")],
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps to compare.")] = 3,
    sets: SetOption = None,
) -> None:
    """Show on your own recipe that cutting and packing a step changes nothing of what it learns."""
    from trainwright.cli.proving import prove_and_show

    prove_and_show(recipe, steps, sets or [], _console())


@contextlib.contextmanager
def watched(folder: RunFolder) -> Iterator[Observer]:
    """Show a run while it goes on; when it has ended, however it did, write its report and say what became of it."""
    from trainwright.terminal.console import discard_output
    from trainwright.terminal.live import LiveView
    from trainwright.terminal.tables import files_and_next, run_summary

    console = _console()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal ends neither the run nor its watcher
    shown = files_and_next  # an error is told by itself, in run()
    try:
        with LiveView(folder, console) as view:
            yield view
        shown = run_summary
    finally:
        write_report(folder)
        try:
            console.print(shown(folder), soft_wrap=True)
        except OSError:  # the terminal is gone
            discard_output()


def write_report(folder: RunFolder) -> None:
    """Write report.html in the language in use."""
    from trainwright.report.build import write_report as write

    write(folder, current_language())


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code: a sentence for a user's mistake, a traceback for our bug."""
    use_language(language_of_environment())
    try:
        app(arguments, prog_name="trainwright")
    except SystemExit as ended:  # typer's own way out: 0, or 2 for a word that it does not know
        return ended.code if isinstance(ended.code, int) else 0
    except TrainwrightError as error:
        _complain(error.message, error.way_out)
        return error.exit_code
    except Exception:
        traceback.print_exc()
        _complain(_("This is a bug in Trainwright, not your mistake."), _("Please report it with the lines above."))
        return TrainwrightError.exit_code
    return 0


def _train(recipe: Path, sets: list[str], runs: Path | None) -> None:
    from trainwright import flow

    flow.start(recipe, watched, sets, runs)


def _find(run: str, runs: Path | None) -> RunFolder:
    from trainwright.runs.folder import find

    return find(_runs_root(runs), run)


def _runs_root(runs: Path | None) -> Path:
    if runs is not None:
        return runs
    from trainwright.machine.look import look
    from trainwright.machine.places import default_runs_root

    return default_runs_root(look())


def _console():  # type: ignore[no-untyped-def]  # rich is imported only where something is shown
    from trainwright.terminal.console import PatientConsole

    return PatientConsole()


def _complain(message: str, way_out: str) -> None:
    sys.stderr.write(f"{_('Error')}: {message}\n")
    if way_out:
        sys.stderr.write(f"{way_out}\n")
