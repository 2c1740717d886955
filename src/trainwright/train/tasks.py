"""What a task brings to training: its model, its rows, its metrics, its class weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.data.store import TokenRows
from trainwright.errors import RecipeError
from trainwright.messages.text import _
from trainwright.model.build import build_classifier, load_tokenizer
from trainwright.records import Prepared
from trainwright.runs.folder import RunFolder
from trainwright.train.metrics import Meter, scores

if TYPE_CHECKING:
    from trainwright.recipe.schema import Recipe


@dataclass
class TextClassification:
    """Text classification, one label a text.

    Args:
        recipe: What is asked for.
        prepared: The tokenised data.
        model_folder: Where the pretrained model lies.
    """

    recipe: Recipe
    prepared: Prepared
    model_folder: Path

    def rows(self, split: str) -> TokenRows | None:
        """The rows of train, validation or test; None if the data has no such split."""
        found = self.prepared.splits.get(split)
        return TokenRows(Path(self.prepared.folder), found, self.prepared) if found else None

    def model(self) -> Any:
        """A fresh model, the same for the same seed."""
        learn = self.recipe.learn
        return build_classifier(self.model_folder, self.prepared.labels, learn.dropout, learn.seed)

    def tokenizer(self) -> Any:
        return load_tokenizer(self.model_folder)

    def meter(self, folder: RunFolder | None) -> Meter:
        """Streaming metrics; predictions are written below ``folder`` if one is given."""
        return Meter(self.prepared.labels, folder.predictions if folder else None)

    def class_weights(self) -> list[float] | None:
        """Weight of each class in the loss, by label id.

        ``balanced`` is rows / (classes x rows of the class), as in King and Zeng (2001): each class then counts alike
        and the mean weight over the rows is 1.

        Raises:
            RecipeError: A weight is given for a label that the data does not have.
        """
        asked = self.recipe.learn.class_weights
        if asked is None:
            return None
        counts = self.prepared.label_rows["train"]
        if asked == "balanced":
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

    def scores(self, meter: Meter, loss: float | None) -> dict[str, Any]:
        """Scores of the evaluation that the meter saw last, with baseline and sampling error."""
        counts = self.prepared.label_rows["train"]
        return scores(meter.confusion, loss, self.prepared.labels, majority=counts.index(max(counts)))
