"""What doctor asks, shows and, after asking, mends."""

from __future__ import annotations

import contextlib
import glob
import json
import time
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainwright.doctor.network import Hub
from trainwright.doctor.records import Asked, Check, Weights
from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.model.hub import DEFAULT_REVISION, ENDPOINTS, Door, doors, probe, split_revision
from trainwright.records import FORMAT, to_plain

if TYPE_CHECKING:
    from rich.console import Console

    from trainwright.recipe.schema import Recipe

Confirm = Callable[[str], bool]


def doctor_and_show(
    recipe: Path | None, sets: list[str], runs: Path | None, as_json: bool, fix: bool, console: Console
) -> bool:
    """Examine this machine, show what was found and, with ``fix``, apply the safe fixes that the user agrees to.

    Returns:
        Whether the machine is fit: nothing blocks.

    Raises:
        RecipeError: The recipe cannot be read.
    """
    from trainwright.doctor.examine import examine

    begun = time.monotonic()
    asked, hubs = None, [Hub(door.hub, door.endpoint) for door in doors("auto")]
    if recipe is not None:
        asked = needs_of(recipe, sets, runs)
        hubs = hubs_for(asked)
    if as_json:
        checks = examine(asked, hubs)
        typer.echo(as_document(checks, time.monotonic() - begun))
    else:
        from trainwright.terminal.doctor import doctor_table

        with console.status(_("Looking at this machine ...")):
            checks = examine(asked, hubs)
        console.print(doctor_table(checks, time.monotonic() - begun), soft_wrap=False)
    if fix:
        mend(checks, console, partial(typer.confirm, err=True))
    return not any(check.verdict == "blocker" for check in checks)


def as_document(checks: list[Check], seconds: float) -> str:
    """The checks as JSON, with the line to paste of each fix."""
    plain = [
        to_plain(check) | {"fix": to_plain(check.fix) | {"command": check.fix.command} if check.fix else None}
        for check in checks
    ]
    fit = not any(check.verdict == "blocker" for check in checks)
    document = {"format": FORMAT, "fit": fit, "seconds": round(seconds, 2), "checks": plain}
    return json.dumps(document, ensure_ascii=False, indent=1)


def mend(checks: list[Check], console: Console, confirm: Confirm) -> None:
    """Ask for each safe fix, and apply those agreed to."""
    from trainwright.doctor.fix import apply_fix, safe_fixes

    fixes = safe_fixes(checks)
    applied = 0
    for check in fixes:
        assert check.fix is not None
        if confirm(f"{check.message} {check.fix.text}\n  {check.fix.command}\n" + _("Do it?")):
            apply_fix(check.fix)
            applied += 1
    if not fixes:
        console.print(_("Nothing here can be mended by itself; the lines above are for you to paste."))
    elif applied:
        console.print(_("Done. Open a new shell, restart any running notebook, and look again: trainwright doctor"))


# -- what a recipe needs -------------------------------------------------------------------------------------------


def needs_of(recipe_file: Path, sets: list[str], runs: Path | None) -> Asked:
    """What a recipe needs of the machine, as far as it is known before anything is fetched.

    Raises:
        RecipeError: It cannot be read.
    """
    from trainwright.machine.look import look
    from trainwright.machine.places import default_runs_root
    from trainwright.recipe.load import load_recipe

    recipe = load_recipe(recipe_file, sets).recipe
    files = _files_of(recipe.data.train, recipe.data.validation, recipe.data.test)
    folder, problem = model_here(recipe)
    return Asked(
        recipe=recipe,
        runs_root=runs or default_runs_root(look()),
        from_hub=folder is None and not any(problem),
        parameters=parameters_of(folder) if folder else None,
        data_bytes=sum(_bytes(file) for file in files),
        missing=[str(file) for file in files if not file.exists()],
        model_problem=problem,
    )


def _files_of(*named: str | list[str] | None) -> list[Path]:
    """The files that a recipe names; a pattern that finds none stands for itself, so that it is told to be missing."""
    from trainwright.data.request import share_of

    names = [name for some in named if some is not None for name in ([some] if isinstance(some, str) else some)]
    files: list[Path] = []
    for name in names:
        if share_of(name) is None:
            found = sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else []
            files += map(Path, found or [name])
    return files


def _bytes(path: Path) -> int:
    """Size of a file, or of the files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def model_here(recipe: Recipe) -> tuple[Path | None, tuple[str, str]]:
    """The folder of the recipe's model, if it need not be fetched; why it cannot be used, and the way out."""
    from trainwright.model.check import check_folder
    from trainwright.model.hub_fetch import cached_folder
    from trainwright.model.locate import comes_from_hub, source_here

    try:
        if comes_from_hub(recipe.model):
            name, revision = split_revision(recipe.model)
            cached = cached_folder(name, revision) if recipe.hub != "modelscope" else None
            if cached is None and recipe.hub == "local":
                reason = _("hub: local asks nobody, and the cache does not have {model}.").format(model=recipe.model)
                return None, (reason, _("Name a folder, or set hub: auto."))
            return cached, ("", "")
        return check_folder(Path(source_here(recipe.model).folder), "").folder, ("", "")
    except ModelError as error:
        return None, (error.message, error.way_out)


def parameters_of(folder: Path) -> int | None:
    """Numbers in the weights of a model folder; None where they are pickles, which are not opened for this."""
    from trainwright.model.check import weight_shapes

    with contextlib.suppress(ModelError):
        return sum(prod(shape) for shape in weight_shapes(folder).values()) or None
    return None


def hubs_for(asked: Asked) -> list[Hub]:
    """The hubs that the recipe's model may come from, each with the question for it if it must be fetched."""
    hub = asked.recipe.hub if asked.recipe.hub in ENDPOINTS else "auto"
    if not asked.from_hub:
        return [Hub(door.hub, door.endpoint) for door in doors(hub)]
    name, revision = split_revision(asked.recipe.model)
    return [Hub(door.hub, door.endpoint, partial(ask_for_weights, door, name, revision)) for door in doors(hub)]


def ask_for_weights(door: Door, model: str, revision: str | None) -> Weights:
    """Whether a hub sends the first bytes of a model, and how many parameters it lists for it."""
    from trainwright.model.hub_size import listed_parameters

    answer = probe(door, model, revision or DEFAULT_REVISION[door.hub])
    given = answer.state == "ok"
    return Weights(door.hub, given, answer.details, listed_parameters(door, model, revision) if given else None)
