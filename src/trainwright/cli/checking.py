"""What data check and data prepare show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.data.prepare import Preparation, prepare
from trainwright.data.request import DataRequest, Progress, request_for
from trainwright.errors import CheckFailed, DataError
from trainwright.machine.look import look
from trainwright.machine.places import cache_root
from trainwright.messages.text import _
from trainwright.model.check import LocalModel, check_folder
from trainwright.model.hub import split_revision
from trainwright.model.locate import comes_from_hub, locate
from trainwright.recipe.load import load_recipe
from trainwright.terminal.audit import audit_view
from trainwright.units import format_count

if TYPE_CHECKING:
    from rich.console import Console

    from trainwright.recipe.schema import Recipe
    from trainwright.records import Audit


def check_and_show(recipe_file: Path, sets: list[str], rows_only: bool, console: Console) -> None:
    """Audit the data of a recipe and print what was found; its tokens too, where the model is on this machine.

    Raises:
        CheckFailed: The audit has an error, which would refuse a run.
        DataError: The data cannot be read.
        ModelError: The model folder cannot be used.
    """
    recipe = load_recipe(recipe_file, sets).recipe
    model = None if rows_only else model_here(recipe)
    cache = cache_root(look())
    if model is None:
        from trainwright.data.build import audit_rows

        with _progress(console) as progress:
            audit = audit_rows(request_for(recipe, "", None), cache, progress)
        console.print(audit_view(audit), soft_wrap=True)
        if not rows_only:
            console.print(_("Tokens were not looked at: {model} is not on this machine.").format(model=recipe.model))
    else:
        audit = _prepared(request_for(recipe, model.folder, model.max_length), cache, console).audit
        console.print(audit_view(audit), soft_wrap=True)
    _fail_on_errors(audit)


def prepare_and_show(recipe_file: Path, sets: list[str], console: Console) -> None:
    """Audit and tokenise the data of a recipe into the cache, where a run finds them; fetches a model from its hub.

    Raises:
        CheckFailed: The audit has an error, which would refuse a run.
        DataError: The data cannot be read.
        ModelError: The model cannot be had, or its tokenizer cannot be used.
    """
    recipe = load_recipe(recipe_file, sets).recipe
    model = model_here(recipe) or _fetched(recipe, console)
    made = _prepared(request_for(recipe, model.folder, model.max_length), cache_root(look()), console)
    console.print(audit_view(made.audit), soft_wrap=True)
    _fail_on_errors(made.audit)
    prepared = made.prepared
    rows = ", ".join(f"{name} {format_count(split.rows)}" for name, split in prepared.splits.items())
    text = (
        _("Found in the cache: {rows} rows, {because}.") if prepared.cached else _("Prepared: {rows} rows, {because}.")
    )
    console.print(text.format(rows=rows, because=prepared.because), soft_wrap=True)
    console.print(prepared.folder, soft_wrap=True, highlight=False)


def model_here(recipe: Recipe) -> LocalModel | None:
    """The model of a recipe without asking a hub; None if it would have to be fetched.

    Raises:
        ModelError: Its folder lacks what training needs.
    """
    if not comes_from_hub(recipe.model):
        return locate(recipe.model)
    from trainwright.model.hub_fetch import cached_folder

    cached = cached_folder(*split_revision(recipe.model))
    return None if cached is None else check_folder(cached, _("in the cache"))


def _fetched(recipe: Recipe, console: Console) -> LocalModel:
    from trainwright.model.hub_fetch import fetch

    with _progress(console) as progress:
        source = fetch(recipe.model, recipe.hub, progress)
    return check_folder(Path(source.folder), source.because)


def _prepared(request: DataRequest, cache: Path, console: Console) -> Preparation:
    """The prepared data; an audit that refuses them is printed before the check fails."""
    try:
        with _progress(console) as progress:
            return prepare(request, cache, progress)
    except DataError as error:
        audit = getattr(error, "audit", None)
        if audit is None:
            raise
        console.print(audit_view(audit), soft_wrap=True)
        raise CheckFailed(error.message, error.way_out) from error


def _fail_on_errors(audit: Audit) -> None:
    errors = [finding for finding in audit.findings if finding.severity == "error"]
    if errors:
        raise CheckFailed("\n".join(one.message for one in errors), "\n".join(one.remedy for one in errors))


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    """Says how far the work is, in a line that goes away; nothing where no terminal is."""
    with console.status(_("Reading ...")) as status:

        def progress(done: int, total: int | None, unit: str) -> None:
            of = "" if total is None else f"/{format_count(total)}"
            status.update(f"{format_count(done)}{of} {unit}")

        yield progress
