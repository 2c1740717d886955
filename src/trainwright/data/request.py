"""What is asked of the data: the part of a recipe that decides which rows are read, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.units import parse_share

if TYPE_CHECKING:
    from trainwright.recipe.schema import Recipe

# Told how far a long piece of work is: done, total (None while it is not known), unit.
Progress = Callable[[int, int | None, str], None]


@dataclass(frozen=True)
class DataRequest:
    """What is asked of the data.

    Attributes:
        train: Absolute path of the training file or folder, a pattern for several, or a list of such.
        validation: The same, a share of the training rows such as "10%", or None for no validation.
        test: The same, a share of the training rows, or None.
        text: Name of the column with the text.
        label: Name of the column with the label, or of several with 0 and 1.
        labels: Label names in the order of their ids; None means sorted.
        max_length: Longest row in tokens, special tokens included, or "auto".
        empty_rows: "drop" or "refuse" training rows without text.
        seed: Decides which rows are held out.
        model_folder: Local folder with the tokenizer.
        model_max_length: Tokens that the model's position table allows; None if it has no such limit.
        task: What is learned, as the recipe names it.
        text_pair: Name of the column with a second text; None if there is none.
        label_separator: What stands between the labels of a row; None if nothing does.
        encoding: Encoding of text files, or "auto".
    """

    train: str | tuple[str, ...]
    validation: str | tuple[str, ...] | None
    test: str | tuple[str, ...] | None
    text: str
    label: str | tuple[str, ...]
    labels: tuple[str, ...] | None
    max_length: int | str
    empty_rows: str
    seed: int
    model_folder: str
    model_max_length: int | None
    task: str = "text-classification"
    text_pair: str | None = None
    label_separator: str | None = None
    encoding: str = "auto"


def request_for(recipe: Recipe, model_folder: str | Path, model_max_length: int | None) -> DataRequest:
    """The request of a recipe, for a model that was found on this machine."""
    data = recipe.data
    return DataRequest(
        train=_plain(data.train),
        validation=None if data.validation is None else _plain(data.validation),
        test=None if data.test is None else _plain(data.test),
        text=data.text,
        label=data.label if isinstance(data.label, str) else tuple(data.label),
        labels=None if data.labels is None else tuple(data.labels),
        max_length=data.max_length,
        empty_rows=data.empty_rows,
        seed=recipe.learn.seed,
        model_folder=str(model_folder),
        model_max_length=model_max_length,
        task=recipe.task,
        text_pair=data.text_pair,
        label_separator=data.label_separator,
        encoding=data.encoding,
    )


def _plain(asked: str | list[str]) -> str | tuple[str, ...]:
    return str(asked) if isinstance(asked, str) else tuple(asked)


def named(asked: str | Sequence[str]) -> str:
    """What a recipe asks for in a split, as text."""
    return asked if isinstance(asked, str) else ", ".join(asked)


def share_of(value: str | tuple[str, ...] | None) -> float | None:
    """The share that a split asks for ("10%" is 0.1); None if it names a file, or nothing."""
    if not isinstance(value, str):
        return None
    try:
        return parse_share(value)
    except ValueError:
        return None
