"""Read a recipe's YAML: safely, with the line of each key, and no key twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trainwright.errors import RecipeError
from trainwright.messages.text import _
from trainwright.recipe.names import nearest

_DEPTH = 4  # how deep keys are noted: learn.class_weights.LABEL is three; an alias to itself would never end


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The file as nested dictionaries, and the line of each dotted key, counted from 1.

    Raises:
        RecipeError: It is missing, not text, not YAML, holds no keys, or gives a key twice.
    """
    text = _text(path)
    lines: dict[str, int] = {}
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _note_lines(node, "", lines, path, _DEPTH)
        given = loader.construct_document(node) if node is not None else None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2024-13-45
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


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        near = nearest(path.name, [one.name for one in path.parent.iterdir()]) if path.parent.is_dir() else []
        hint = _("Did you mean {names}?").format(names=", ".join(near)) if near else ""
        raise RecipeError(
            _("There is no recipe {file}.").format(file=path), hint or _("Write one: trainwright init YOUR_DATA")
        ) from None
    except OSError as error:
        raise RecipeError(_("{file} cannot be read: {error}.").format(file=path, error=error.strerror)) from None
    except UnicodeDecodeError as error:
        raise RecipeError(_("{file} is not a text file in UTF-8: {error}.").format(file=path, error=error)) from None


def _note_lines(node: yaml.Node | None, prefix: str, lines: dict[str, int], path: Path, depth: int) -> None:
    if not isinstance(node, yaml.MappingNode) or depth == 0:
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
        _note_lines(value, f"{name}.", lines, path, depth - 1)
