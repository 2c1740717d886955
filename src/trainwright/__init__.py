"""Trainwright: from labelled text and a Transformer to a trained, measured, reproducible model.

The public door. Nothing heavy is imported before it is used.

    Trainer     transformers.Trainer with an exact optimizer step; change the import line of an existing script
    Recipe      the schema of a recipe file
    open_run    read a run folder
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.recipe.schema import Recipe
    from trainwright.runs.folder import open_run
    from trainwright.train.trainer import Trainer

__version__ = "0.1.0"
__all__ = ["Recipe", "Trainer", "open_run"]

_PLACES = {
    "Trainer": ("trainwright.train.trainer", "Trainer"),
    "Recipe": ("trainwright.recipe.schema", "Recipe"),
    "open_run": ("trainwright.runs.folder", "open_run"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'trainwright' has no attribute '{name}'")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
