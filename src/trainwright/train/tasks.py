"""What a task brings to training: its model, its rows, its meter, its loss weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.data.store import TokenRows
from trainwright.errors import RecipeError
from trainwright.messages.text import _
from trainwright.model.build import Head, build_model, load_tokenizer
from trainwright.recipe.tasks import TASKS
from trainwright.records import Prepared
from trainwright.runs.folder import RunFolder
from trainwright.train.meters import ClassMeter, Meter, RankMeter, ScoreMeter, SetMeter

if TYPE_CHECKING:
    from trainwright.recipe.schema import Recipe


@dataclass
class Task:
    """A task with labels of whole rows: a class, a set of labels, a score or a rank.

    Args:
        recipe: What is asked for.
        prepared: The tokenised data.
        model_folder: Where the pretrained model lies.
    """

    recipe: Recipe
    prepared: Prepared
    model_folder: Path

    @property
    def label(self) -> str:
        """The kind of label; see :class:`trainwright.recipe.tasks.TaskKind`."""
        return TASKS[self.recipe.task].label

    def rows(self, split: str) -> TokenRows | None:
        """The rows of train, validation or test; None if the data has no such split."""
        found = self.prepared.splits.get(split)
        return TokenRows(Path(self.prepared.folder), found, self.prepared, self.label) if found else None

    def model(self) -> Any:
        """A fresh model, the same for the same seed."""
        learn = self.recipe.learn
        return build_model(self.model_folder, self.head(), learn.dropout, learn.seed)

    def head(self) -> Head:
        """What the model must put out for the labels."""
        labels, kind = self.prepared.labels, TASKS[self.recipe.task].head
        saved = {"task": self.recipe.task}
        if self.label == "score":
            return Head(kind, ["score"], "regression", saved)
        if self.label == "set":
            return Head(kind, labels, "multi_label_classification", saved)
        if self.label == "rank":  # one output for each rank but the highest: whether a row is above it
            above = [f"> {name}" for name in labels[:-1]]
            return Head(kind, above, "multi_label_classification", saved | {"labels": labels})
        return Head(kind, labels, "single_label_classification", saved)

    def tokenizer(self) -> Any:
        return load_tokenizer(self.model_folder)

    def meter(self, folder: RunFolder | None) -> Meter:
        """The task's scores; predictions are written below ``folder`` if one is given."""
        labels, predictions = self.prepared.labels, folder.predictions if folder else None
        if self.label == "score":
            return ScoreMeter(predictions, float(self._train_labels.mean()))
        if self.label == "set":
            return SetMeter(labels, predictions, self._train_counts / self.prepared.splits["train"].rows)
        if self.label == "rank":
            median = int(np.searchsorted(np.cumsum(self._train_counts), self._train_counts.sum() / 2))
            return RankMeter(labels, predictions, median)
        return ClassMeter(labels, predictions, int(self._train_counts.argmax()))

    @property
    def _train_counts(self) -> np.ndarray:
        return np.array(self.prepared.label_rows["train"])

    @cached_property
    def _train_labels(self) -> np.ndarray:
        rows = self.rows("train")
        assert rows is not None
        return rows.labels

    def class_weights(self) -> list[float] | None:
        """Weight of each class in the loss, by label id; for sets of labels, of each label where a row has it.

        ``balanced`` is rows / (classes x rows of the class), as in King and Zeng (2001): each class then counts alike
        and the mean weight over the rows is 1. For sets it is the rows without the label over the rows with it, so
        that both sides of each label count alike.

        Raises:
            RecipeError: A weight is given for a label that the data does not have.
        """
        asked = self.recipe.learn.class_weights
        if asked is None:
            return None
        counts = self.prepared.label_rows["train"]
        if asked == "balanced":
            if self.label == "set":
                rows = self.prepared.splits["train"].rows
                return [(rows - count) / max(1, count) for count in counts]
            return [sum(counts) / (len(counts) * count) for count in counts]
        unknown = sorted(set(asked) - set(self.prepared.labels))
        if unknown:
            raise RecipeError(
                _("learn.class_weights names labels that the data does not have: {names}.").format(
                    names=", ".join(unknown)
                ),
                _("Labels are: {labels}.").format(labels=", ".join(self.prepared.labels)),
            )
        return [float(asked.get(name, 1.0)) for name in self.prepared.labels]
