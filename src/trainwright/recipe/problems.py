"""What is wrong with a recipe, in words: unknown names with the nearest valid ones, values that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainwright.errors import RecipeError
from trainwright.messages.text import _
from trainwright.recipe.names import answers, leaf_names, nearest, owner_of, training_argument_names
from trainwright.recipe.schema import SECTIONS, Recipe
from trainwright.recipe.tasks import TASKS, metrics_of
from trainwright.recipe.words import what_fits
from trainwright.units import format_share, parse_share


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with the key as it was written."""

    name: str
    text: str


def unknown_name(name: str) -> Problem | None:
    """What to say of a dotted name: nothing if it is a key, else which key was meant, or why there is none."""
    section, _dot, bare = name.rpartition(".")
    if name in leaf_names():
        return None
    owner, answer = owner_of(bare), answers().get(bare)
    if section == "trainer":
        return _unfit_for_trainer(name, bare, owner, answer)
    if owner is not None:
        return Problem(name, _("{name}: this key is {owner}").format(name=name, owner=owner))
    if answer is not None:
        return Problem(name, f"{name}: {answer}")
    if bare in training_argument_names():
        return Problem(name, _("{name}: this key belongs into trainer:").format(name=name))
    return Problem(name, _no_such_key(name))


def _unfit_for_trainer(name: str, bare: str, owner: str | None, answer: str | None) -> Problem | None:
    if owner is not None:
        return Problem(name, f"{name}: " + _("this belongs to another section: {owner}").format(owner=owner))
    if answer is not None:
        return Problem(name, f"{name}: {answer}")
    known = training_argument_names()
    if not known or bare in known:
        return None
    near = nearest(bare, known)
    hint = _("; near it are {names}").format(names=", ".join(near)) if near else ""
    return Problem(name, f"{name}: " + _("TrainingArguments has no such field") + hint)


def _no_such_key(name: str) -> str:
    section, _dot, rest = name.partition(".") if name.partition(".")[0] in SECTIONS else ("", "", name)
    known = list(SECTIONS[section].model_fields if section else Recipe.model_fields)
    near = [f"{section}.{one}" if section else one for one in nearest(rest, known)]
    near = near or [leaf for leaf in leaf_names() if nearest(rest, [leaf.rpartition(".")[2]])][:3]
    if near:
        return _("{name} is not a key; did you mean {near}?").format(name=name, near=", ".join(near))
    return _("{name} is not a key; keys there are {known}").format(name=name, known=", ".join(known))


def wrong_values(error: ValidationError, flat: Mapping[str, Any]) -> list[Problem]:
    """One problem for each key whose value does not fit, though each kind that it may have complains.

    Args:
        flat: The values as they were written, by dotted name.
    """
    by_name: dict[str, list[Any]] = {}
    for one in error.errors():
        by_name.setdefault(_name_of(one["loc"]), []).append(one)
    return [Problem(name, _wrong_value(name, flat.get(name), errors)) for name, errors in by_name.items()]


def _name_of(location: tuple[int | str, ...]) -> str:
    words = [str(part) for part in location]
    return ".".join(words[:2]) if words[0] in SECTIONS else words[0]


def _wrong_value(name: str, value: Any, errors: list[Any]) -> str:
    if errors[0]["type"] == "missing":
        return _("{name} is missing").format(name=name)
    if all(one["type"] == "value_error" for one in errors):  # our own checks say it best
        why = str(errors[0]["ctx"]["error"])
    elif errors[0]["type"] == "too_short":
        why = _("at least {n} are needed").format(n=errors[0]["ctx"]["min_length"])
    else:
        why = _("it takes {kinds}").format(kinds=what_fits(name))
    return _("{name}: {value!r} does not fit: {why}").format(name=name, value=value, why=why)


# schedules of transformers that have no default of their own for something, and an example of what they want
_SCHEDULE_NEEDS = {"cosine_with_min_lr": "{min_lr_rate: 0.1}", "warmup_stable_decay": "{num_decay_steps: 100}"}


def contradictions(recipe: Recipe) -> list[Problem]:
    """Values that fit, but not beside each other."""
    found = []
    data, learn = recipe.data, recipe.learn
    held_out = [part.strip() for part in (data.validation, data.test) if isinstance(part, str)]
    shares = [parse_share(part) for part in held_out if part.endswith(("%", "％"))]
    if sum(shares) >= 1:
        text = _("data.validation and data.test hold out {share} together; nothing is left to train on")
        found.append(Problem("data.test", text.format(share=format_share(sum(shares), 0))))
    if learn.early_stopping_patience is not None and data.validation is None:
        text = _("{name}: nothing can be stopped early without evaluations, and data.validation is none")
        found.append(Problem("learn.early_stopping_patience", text.format(name="learn.early_stopping_patience")))
    needed = _SCHEDULE_NEEDS.get(learn.lr_scheduler_type)
    if needed and not recipe.trainer.get("lr_scheduler_kwargs"):
        text = _("{name}: {value} needs trainer: {{lr_scheduler_kwargs: {example}}}")
        name = "learn.lr_scheduler_type"
        found.append(Problem(name, text.format(name=name, value=learn.lr_scheduler_type, example=needed)))
    return found + _unfit_for_task(recipe)


def _unfit_for_task(recipe: Recipe) -> list[Problem]:
    """Values that the task has no use for."""
    kind, data, learn = TASKS[recipe.task], recipe.data, recipe.learn
    found = []
    if learn.metric_for_best_model not in ("auto", *metrics_of(kind.name)):
        text = _("{name}: {task} is not measured by {metric}, but by {known}")
        name, known = "learn.metric_for_best_model", ", ".join(metrics_of(kind.name))
        fields = {"name": name, "task": kind.name, "metric": learn.metric_for_best_model, "known": known}
        found.append(Problem(name, text.format(**fields)))
    weighted = kind.label in ("class", "set")
    unfit = {
        "learn.class_weights": learn.class_weights is not None and not weighted,
        "learn.focal_gamma": learn.focal_gamma > 0 and not weighted,
        "learn.label_smoothing_factor": learn.label_smoothing_factor > 0 and kind.label != "class",
        "data.label": isinstance(data.label, list) and kind.label != "set",
        "data.label_separator": data.label_separator is not None and kind.label != "set",
        "data.labels": data.labels is not None and kind.label == "score",
    }
    if learn.focal_gamma > 0 and learn.label_smoothing_factor > 0:
        text = _("{name}: focal loss and label smoothing pull in opposite directions; use one of them")
        found.append(Problem("learn.focal_gamma", text.format(name="learn.focal_gamma")))
    text = _("{name} has no meaning for task: {task}")
    return found + [
        Problem(name, text.format(name=name, task=kind.name)) for name, is_unfit in unfit.items() if is_unfit
    ]


def refusal(path: Path, problems: Iterable[Problem], lines: Mapping[str, int], set_names: Iterable[str]) -> RecipeError:
    """One error that names all problems, each with its line in the file or as what --set asked for.

    Args:
        lines: Line of each dotted key.
        set_names: Keys that came from the command line.
    """
    placed = {}
    for one in problems:
        if one.name in set_names:
            placed[_sentence(f"--set {one.text}")] = ""
        elif one.name in lines:
            placed[_sentence(_("line {line}: ").format(line=lines[one.name]) + one.text)] = f"{path}, "
        else:
            placed[_sentence(one.text)] = f"{path}: "
    if len(placed) == 1:
        message = "".join(f"{place}{text}" for text, place in placed.items())
    else:
        heading = _("{file} has {n} problems:").format(file=path, n=len(placed))
        message = "\n".join([heading, *(f"  {text}" for text in placed)])
    return RecipeError(message, _("The keys of a recipe are in docs/recipe.md."))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "。", "？")) else f"{text}."
