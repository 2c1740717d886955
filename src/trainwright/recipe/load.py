"""Read a recipe: YAML by a safe loader that knows lines, checked at once, every value with its origin.

Precedence: ``--set`` over recipe over default. The environment sets nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trainwright.errors import RecipeError
from trainwright.messages.text import _
from trainwright.recipe.names import TRANSLATED, answers, nearest, owner_of, training_argument_names
from trainwright.recipe.schema import SECTIONS, Recipe
from trainwright.records import Choice, Origin

_PATHS = ("train", "validation", "test")


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
    given, lines = _read(path)
    problems: list[str] = []
    notes: list[str] = []
    flat = _flatten(given, lines, problems, path)
    origins: dict[str, Origin] = dict.fromkeys(flat, "recipe")
    for one in sets:
        name, value = _read_set(one)
        flat[name] = value
        origins[name] = "--set"
    flat, origins = _translate(flat, origins, notes, problems)
    if "data.train" in flat and "name" not in flat:
        flat["name"] = Path(str(flat["data.train"])).stem
    _refuse_unknown(flat, problems)
    recipe = _checked(_nested(_with_absolute_paths(flat, path.parent)), problems) if not problems else None
    if recipe is None:
        raise RecipeError(_problem_text(path, problems, lines), _("The keys of a recipe are in docs/recipe.md."))
    values = {name: Choice(value, origins.get(name, "default")) for name, value in _leaves(recipe).items()}
    return LoadedRecipe(recipe, values, notes)


def recipe_from_values(values: Mapping[str, Choice]) -> Recipe:
    """Rebuild the recipe from the values of resolved.json."""
    return Recipe.model_validate(_nested({name: choice.value for name, choice in values.items()}))


def choose(values: Mapping[str, Choice], name: str, value: Any, because: str) -> dict[str, Choice]:
    """The values with one that Trainwright chose, and why."""
    return {**values, name: Choice(value, "chosen", because)}


# -- reading -------------------------------------------------------------------------------------------------------


class _LinedLoader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice and remembers the line of each key."""


def _read(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The recipe as nested dictionaries, and the line of each dotted key."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = nearest(path.name, [one.name for one in path.parent.iterdir()]) if path.parent.is_dir() else []
        hint = _("Did you mean {names}?").format(names=", ".join(near)) if near else ""
        raise RecipeError(
            _("There is no recipe {file}.").format(file=path), hint or _("Write one: trainwright init YOUR_DATA")
        ) from None
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise RecipeError(_("{file} is not a text file in UTF-8: {error}.").format(file=path, error=error)) from None
    lines: dict[str, int] = {}
    try:
        loader = _LinedLoader(text)
        node = loader.get_single_node()
        if node is not None:
            _note_lines(node, "", lines, path)
        given = loader.construct_document(node) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = _("{file}, line {line}").format(file=path, line=mark.line + 1) if mark else str(path)
        what = getattr(error, "problem", None) or str(error)
        raise RecipeError(
            _("{place}: this is not YAML: {what}.").format(place=place, what=what),
            _("Check indentation, colons and quotes there."),
        ) from None
    if not isinstance(given, dict):
        raise RecipeError(
            _("{file} holds no keys.").format(file=path), _("A recipe names at least model and data: {train: ...}.")
        )
    return given, lines


def _note_lines(node: yaml.Node, prefix: str, lines: dict[str, int], path: Path) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        line = key.start_mark.line + 1
        if name in lines:
            raise RecipeError(
                _("{file}, line {line}: {name} is given twice, first in line {first}.").format(
                    file=path, line=line, name=name, first=lines[name]
                ),
                _("Remove one of them."),
            )
        lines[name] = line
        _note_lines(value, f"{name}.", lines, path)


def _read_set(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise RecipeError(
            _("--set {text} has no value.").format(text=text), _("Write it as --set learn.batch_size=64.")
        )
    try:
        return name.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        return name.strip(), value


# -- names ---------------------------------------------------------------------------------------------------------


def _flatten(given: dict[str, Any], lines: dict[str, int], problems: list[str], path: Path) -> dict[str, Any]:
    """Dotted names for the keys of data:, learn:, run: and trainer:; everything else stays as it is."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        if str(name) in (*SECTIONS, "trainer"):
            if isinstance(value, dict):
                flat |= {f"{name}.{key}": item for key, item in value.items()}
            elif value is not None:
                problems.append(
                    _at(lines, str(name)) + _("{name} must hold keys, not {value!r}").format(name=name, value=value)
                )
        else:
            flat[str(name)] = value
    return flat


def _translate(
    flat: dict[str, Any], origins: dict[str, Origin], notes: list[str], problems: list[str]
) -> tuple[dict[str, Any], dict[str, Origin]]:
    """Give old and foreign names their key here; the product of two batch numbers becomes learn.batch_size."""
    flat, origins = dict(flat), dict(origins)
    _multiply_batch(flat, origins, notes)
    for name in list(flat):
        bare = name.rpartition(".")[2]
        if name in _leaf_names() or (bare not in TRANSLATED):
            continue
        target, convert = TRANSLATED[bare]
        value, origin = flat.pop(name), origins.pop(name)
        if target in flat:
            problems.append(_("{name} and {target} mean the same").format(name=name, target=target))
            continue
        try:
            flat[target], origins[target] = convert(value), origin
        except (TypeError, ValueError):
            problems.append(_("{name}: {value!r} is not a number").format(name=name, value=value))
            continue
        notes.append(
            _("{name}: {value} is read as {target}: {now}").format(
                name=name, value=value, target=target, now=flat[target]
            )
        )
    return flat, origins


def _multiply_batch(flat: dict[str, Any], origins: dict[str, Origin], notes: list[str]) -> None:
    places = {name.rpartition(".")[2]: name for name in flat}
    device, steps = places.get("per_device_train_batch_size"), places.get("gradient_accumulation_steps")
    if device is None or steps is None or not all(isinstance(flat[name], int) for name in (device, steps)):
        return
    product = flat.pop(device) * flat.pop(steps)
    origins["learn.batch_size"] = origins.pop(device)
    origins.pop(steps)
    flat["learn.batch_size"] = product
    notes.append(
        _("{one} x {two} is read as learn.batch_size: {product}").format(one=device, two=steps, product=product)
    )


def _refuse_unknown(flat: dict[str, Any], problems: list[str]) -> None:
    answered = answers()
    for name in flat:
        section, _dot, bare = name.rpartition(".")
        if name in _leaf_names():
            continue
        owner = owner_of(bare)
        if section == "trainer":
            problem = _trainer_problem(bare, owner, answered)
            if problem:
                problems.append(f"{name}: {problem}")
        elif owner is not None and owner != name:
            problems.append(_("{name}: this key is {owner}").format(name=name, owner=owner))
        elif bare in answered:
            problems.append(f"{name}: {answered[bare]}")
        elif not section and bare in training_argument_names():
            problems.append(_("{name}: this key belongs into trainer:").format(name=name))
        else:
            problems.append(_unknown(name, section, bare))


def _trainer_problem(bare: str, owner: str | None, answered: dict[str, str]) -> str | None:
    if owner is not None:
        return _("this belongs to another section: {owner}").format(owner=owner)
    if bare in answered:
        return answered[bare]
    known = training_argument_names()
    if known and bare not in known:
        near = nearest(bare, sorted(known))
        hint = _("; near it are {names}").format(names=", ".join(near)) if near else ""
        return _("TrainingArguments has no such field") + hint
    return None


def _unknown(name: str, section: str, bare: str) -> str:
    known = list(SECTIONS[section].model_fields) if section in SECTIONS else list(Recipe.model_fields)
    near = [f"{section}.{one}" if section else one for one in nearest(bare, known)]
    if not near:
        everywhere = [leaf for leaf in _leaf_names() if nearest(bare, [leaf.rpartition(".")[2]])]
        near = everywhere[:3]
    if near:
        return _("{name} is not a key; did you mean {near}?").format(name=name, near=", ".join(near))
    return _("{name} is not a key; keys there are {known}").format(name=name, known=", ".join(known))


def _leaf_names() -> list[str]:
    top = [name for name in Recipe.model_fields if name not in (*SECTIONS, "trainer")]
    return top + [f"{section}.{name}" for section, kind in SECTIONS.items() for name in kind.model_fields]


# -- values --------------------------------------------------------------------------------------------------------


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


def _with_absolute_paths(flat: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Paths of data and model, made absolute from the recipe's folder."""
    changed = dict(flat)
    for name in _PATHS:
        value = flat.get(f"data.{name}")
        if isinstance(value, str) and value not in ("none", "None") and not value.strip().endswith(("%", "％")):
            changed[f"data.{name}"] = str((folder / Path(value).expanduser()).resolve())
    model = flat.get("model")
    if isinstance(model, str) and (model.startswith((".", "~")) or (folder / model).is_dir()):
        changed["model"] = str((folder / Path(model).expanduser()).resolve())
    return changed


def _checked(nested: dict[str, Any], problems: list[str]) -> Recipe | None:
    try:
        return Recipe.model_validate(nested)
    except ValidationError as error:
        seen: set[str] = set()
        for one in error.errors():
            name = _name_of(one["loc"])
            if name not in seen:  # one sentence a key, though each kind that it may have complains
                seen.add(name)
                problems.append(_value_problem(name, one, [o for o in error.errors() if _name_of(o["loc"]) == name]))
        return None


def _name_of(location: tuple[int | str, ...]) -> str:
    words = [str(part) for part in location]
    return ".".join(words[:2]) if words[0] in (*SECTIONS, "trainer") else words[0]


def _value_problem(name: str, first: Any, every: list[Any]) -> str:
    if first["type"] == "missing":
        return _("{name} is missing").format(name=name)
    wanted = dict.fromkeys(str(one["msg"]).removeprefix("Value error, ") for one in every)
    return _("{name}: {value!r} does not fit: {why}").format(name=name, value=first["input"], why=" / ".join(wanted))


def _at(lines: Mapping[str, int], name: str) -> str:
    return _("line {line}: ").format(line=lines[name]) if name in lines else ""


def _problem_text(path: Path, problems: list[str], lines: Mapping[str, int]) -> str:
    placed = []
    for problem in problems:
        name = problem.split(":")[0].split(" ")[0]
        placed.append(_at(lines, name) + problem if not problem.startswith(_at(lines, name) or "\0") else problem)
    if len(placed) == 1:
        return f"{path}, {placed[0]}."
    return "\n".join([_("{file} has {n} problems:").format(file=path, n=len(placed)), *(f"  {one}" for one in placed)])
