"""Load a recipe: its file and ``--set``, old names translated, checked at once, every value with its origin.

Precedence: ``--set`` over recipe over default. The environment sets nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trainwright.errors import RecipeError
from trainwright.messages.text import _
from trainwright.recipe.names import TRANSLATED, leaf_names
from trainwright.recipe.problems import Problem, contradictions, refusal, unknown_name, wrong_values
from trainwright.recipe.schema import SECTIONS, Recipe
from trainwright.recipe.yaml_file import read_yaml
from trainwright.records import Choice, Origin


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe, every value in force by dotted name, and what was translated."""

    recipe: Recipe
    values: dict[str, Choice]
    notes: list[str]


def load_recipe(path: Path, sets: Sequence[str] = ()) -> LoadedRecipe:
    """Read and check a recipe file.

    Args:
        path: The YAML file; relative paths in it start at its folder.
        sets: ``key=value`` changes, the value written as in YAML.

    Raises:
        RecipeError: It is missing, not YAML, or asks for something impossible; all problems are named at once.
    """
    given, lines = read_yaml(path)
    problems: list[Problem] = []
    notes: list[str] = []
    from_file = _translate(_flatten(given, problems), lines, notes, problems)
    changes = _flatten(_read_sets(sets), problems)
    from_sets = _translate(changes, {}, notes, problems)
    flat = from_file | from_sets
    origins: dict[str, Origin] = {**dict.fromkeys(from_file, "recipe"), **dict.fromkeys(from_sets, "--set")}
    problems += [problem for name in flat if (problem := unknown_name(name)) is not None]
    recipe = _checked(flat, path.parent, problems)
    if recipe is None:
        raise refusal(path, problems, lines, {*changes, *from_sets})
    values = {name: Choice(value, origins.get(name, "default")) for name, value in _leaves(recipe).items()}
    return LoadedRecipe(recipe, values, notes)


def recipe_from_values(values: Mapping[str, Choice]) -> Recipe:
    """Rebuild the recipe from the values of resolved.json."""
    return Recipe.model_validate(_nested({name: choice.value for name, choice in values.items()}))


def change_values(values: Mapping[str, Choice], sets: Sequence[str]) -> dict[str, Choice]:
    """The values of a run with some changes of the command line; relative paths in these start here.

    Raises:
        RecipeError: A change asks for something that is not possible.
    """
    problems: list[Problem] = []
    changed = _translate(_flatten(_read_sets(sets), problems), {}, [], problems)
    problems += [problem for name in changed if (problem := unknown_name(name)) is not None]
    flat = {name: choice.value for name, choice in values.items()} | changed
    recipe = _checked(flat, Path.cwd(), problems)
    if recipe is None:
        raise refusal(Path("--set"), problems, {}, set(changed))
    now = _leaves(recipe)
    return {
        **values,
        **{name: Choice(now[name], "--set") for name in changed if name in now},
    }


def choose(values: Mapping[str, Choice], name: str, value: Any, because: str) -> dict[str, Choice]:
    """The values with one that Trainwright chose, and why."""
    return {**values, name: Choice(value, "chosen", because)}


# -- what is given -------------------------------------------------------------------------------------------------


def _read_sets(sets: Sequence[str]) -> dict[str, Any]:
    """The changes of the command line by name; a later one replaces an earlier one."""
    return dict(_read_set(one) for one in sets)


def _read_set(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise RecipeError(
            _("--set {text} has no value.").format(text=text), _("Write it as --set learn.batch_size=64.")
        )
    try:
        return name.strip(), yaml.safe_load(value)
    except (yaml.YAMLError, ValueError):
        return name.strip(), value


def _flatten(given: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Dotted names for the keys of data:, learn:, run: and trainer:; everything else stays as it is."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        if name not in (*SECTIONS, "trainer"):
            flat[str(name)] = value
        elif isinstance(value, dict):
            flat |= {f"{name}.{key}": item for key, item in value.items()}
        elif value is not None:
            text = _("{name} must hold keys, not {value!r}").format(name=name, value=value)
            problems.append(Problem(name, text))
    return flat


# -- old and foreign names -----------------------------------------------------------------------------------------


def _translate(
    flat: Mapping[str, Any], lines: dict[str, int], notes: list[str], problems: list[Problem]
) -> dict[str, Any]:
    """Give old and foreign names their key here; a new name stands in the line of the old one."""
    now = {name: value for name, value in flat.items() if not _is_foreign(name)}
    _multiply_batch(now, lines, notes, problems)
    foreign = [name for name in flat if _is_foreign(name)]
    for name in sorted(foreign, key=lambda name: flat[name] is False):  # fp16: false gives way to bf16: true
        target, convert = TRANSLATED[_bare(name)]
        try:
            value = convert(flat[name])
        except (TypeError, ValueError):
            text = _("{name}: {value!r} is not a number").format(name=name, value=flat[name])
            problems.append(Problem(name, text))
            continue
        if target not in now:
            now[target] = value
            _same_line(lines, target, name)
            notes.append(
                _("{name}: {value} is read as {target}: {now}").format(
                    name=name, value=flat[name], target=target, now=value
                )
            )
        elif flat[name] is not False:
            problems.append(_same_thing(name, target))
    return now


def _multiply_batch(now: dict[str, Any], lines: dict[str, int], notes: list[str], problems: list[Problem]) -> None:
    """The batch of one device times the steps that are added up is the whole batch."""
    places = {_bare(name): name for name in now}
    device, steps = places.get("per_device_train_batch_size"), places.get("gradient_accumulation_steps")
    if device is None or steps is None or not all(isinstance(now[name], int) for name in (device, steps)):
        return
    product = now.pop(device) * now.pop(steps)
    if "learn.batch_size" in now:
        problems.append(_same_thing(device, "learn.batch_size"))
        return
    now["learn.batch_size"] = product
    _same_line(lines, "learn.batch_size", device)
    notes.append(
        _("{one} x {two} is read as learn.batch_size: {product}").format(one=device, two=steps, product=product)
    )


def _same_line(lines: dict[str, int], target: str, name: str) -> None:
    if name in lines:
        lines[target] = lines[name]


def _same_thing(name: str, target: str) -> Problem:
    return Problem(name, _("{name} and {target} mean the same").format(name=name, target=target))


def _is_foreign(name: str) -> bool:
    return name not in leaf_names() and _bare(name) in TRANSLATED


def _bare(name: str) -> str:
    return name.rpartition(".")[2]


# -- values --------------------------------------------------------------------------------------------------------


def _checked(flat: Mapping[str, Any], folder: Path, problems: list[Problem]) -> Recipe | None:
    """The recipe, or None if there are problems; those of the values are added to the ones given."""
    named = {problem.name for problem in problems}
    known = {name: value for name, value in flat.items() if name in leaf_names() or name.startswith("trainer.")}
    try:
        recipe = Recipe.model_validate(
            _nested({"name": _name(flat.get("data.train"))} | _with_absolute_paths(known, folder))
        )
    except ValidationError as error:
        # a misspelt key makes the right one missing: said once
        wrong = wrong_values(error, flat)
        problems += [one for one in wrong if not named or (one.name in flat and one.name not in named)]
        return None
    problems += contradictions(recipe)
    return None if problems else recipe


def _name(train: Any) -> str:
    """A name for the run: that of the training file, the first of several; of its folder where a pattern names all."""
    first = Path(str((train[0] if isinstance(train, list) and train else train) or "run"))
    return re.sub(r"[*?\[\]]+", "", first.stem).strip("-_.") or first.parent.name or "run"


def _with_absolute_paths(flat: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Paths of data and model, made absolute from the recipe's folder."""
    return {name: _absolute(name, value, folder) for name, value in flat.items()}


def _absolute(name: str, value: Any, folder: Path) -> Any:
    if name not in ("model", "data.train", "data.validation", "data.test"):
        return value
    if isinstance(value, list) and name != "model":
        return [_absolute(name, one, folder) for one in value]
    if not isinstance(value, str):
        return value
    if not value.strip() or value in ("none", "None") or value.strip().endswith(("%", "％")):
        return value
    place = (folder / os.path.expanduser(value)).resolve()
    if name == "model" and not value.startswith((".", "~")) and not place.is_dir():
        return value  # the name of a hub or of a package
    return str(place)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        section, dot, key = name.partition(".")
        if dot:
            nested.setdefault(section, {})[key] = value
        else:
            nested[name] = value
    return nested


def _leaves(recipe: Recipe) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in recipe.model_dump().items():
        if name in (*SECTIONS, "trainer"):
            leaves |= {f"{name}.{key}": item for key, item in value.items()}
        else:
            leaves[name] = value
    return leaves
