"""Meters: what the evaluation hands its batches to, one for each kind of label.

A meter sees the model's outputs batch by batch, gives the scores that choose the best model, and writes what the model
said of each row. Counts of classes stream through torchmetrics; sets of labels and numbers keep a few bytes a row.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    MulticlassMatthewsCorrCoef,
)

from trainwright.data.store import TokenRows
from trainwright.model.ranks import rank_of, rank_probabilities
from trainwright.train import metrics

SHOWN_TEXT = 300  # characters of a row's text kept beside its prediction
MANY_CLASSES = 20  # beyond this, predictions name the five likeliest classes only
CERTAIN = 6  # digits of a probability


class Meter(ABC):
    """The scores of a task, gathered over an evaluation.

    Args:
        labels: Names by id.
        predictions: Folder for prediction files, or None to write none.
    """

    def __init__(self, labels: list[str], predictions: Path | None = None) -> None:
        self.labels, self.folder = labels, predictions
        self._split: tuple[str, TokenRows] | None = None

    def watch(self, split: str, rows: TokenRows) -> None:
        """From now on evaluations are of this split; its predictions go to ``<split>.jsonl``."""
        self._split = (split, rows)

    @abstractmethod
    def begin(self, prefix: str) -> None:
        """Start an evaluation."""

    @abstractmethod
    def update(self, logits: Any, labels: Any, indices: list[int]) -> None:
        """Add a batch. logits: (rows, outputs); labels: as rows have them; indices: places in the data set."""

    @abstractmethod
    def compute(self) -> dict[str, float]:
        """Close the evaluation: the task's scores over all ranks' rows."""

    @abstractmethod
    def scores(self, loss: float | None) -> dict[str, Any]:
        """Scores of the last evaluation with baseline and sampling error, as ``results.json`` holds them."""

    def learnt(self) -> dict[str, Any]:
        """What predictions need to know that validation has settled."""
        return {}


class ClassMeter(Meter):
    """One class a row; memory does not grow with the rows.

    Torchmetrics holds the counts, is updated with each rank's own rows, and is synced once, in :meth:`compute`.

    Args:
        majority: Id of the class that most training rows have.
    """

    def __init__(self, labels: list[str], predictions: Path | None = None, majority: int = 0) -> None:
        super().__init__(labels, predictions)
        classes = len(labels)
        self.constant = majority
        self.metrics = MetricCollection(
            {
                "accuracy": MulticlassAccuracy(classes, average="micro"),
                "macro_f1": MulticlassF1Score(classes, average="macro"),
                "mcc": MulticlassMatthewsCorrCoef(classes),
                "confusion": MulticlassConfusionMatrix(classes),
            }
        )
        self.confusion = np.zeros((classes, classes), dtype=np.int64)
        self._file: PredictionFile | None = None

    def begin(self, prefix: str) -> None:
        self.metrics.reset()
        if self.folder is not None and self._split is not None:
            name, rows = self._split
            self._file = PredictionFile(self.folder / f"{name}.jsonl", rows, self.labels)

    def update(self, logits: Any, labels: Any, indices: list[int]) -> None:
        probabilities, predicted, true = self.outcome(_plain(logits), labels.detach().cpu())
        self.metrics.update(predicted, true)
        if self._file is not None:
            self._file.add(indices, probabilities, predicted.tolist())

    def outcome(self, logits: torch.Tensor, labels: torch.Tensor) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
        """Probability of each class (rows, classes), the predicted and the true class of each row."""
        probabilities = torch.softmax(logits, dim=-1)
        return probabilities.numpy(), probabilities.argmax(dim=-1), labels

    def compute(self) -> dict[str, float]:
        values = self.metrics.compute()
        self.confusion = values.pop("confusion").cpu().numpy().astype(np.int64)
        if self._file is not None:
            self._file.close()
            self._file = None
        return {name: float(value) for name, value in values.items()}

    def scores(self, loss: float | None) -> dict[str, Any]:
        return metrics.scores(self.confusion, loss, self.labels, self.constant)


class RankMeter(ClassMeter):
    """One of several ordered classes a row; the model puts out, for each but the highest, whether the rank is above."""

    def outcome(self, logits: torch.Tensor, labels: torch.Tensor) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
        return rank_probabilities(logits).numpy(), rank_of(logits), labels.sum(dim=-1).round().long()

    def compute(self) -> dict[str, float]:
        super().compute()
        return metrics.rank_summary(self.confusion)

    def scores(self, loss: float | None) -> dict[str, Any]:
        return metrics.scores(self.confusion, loss, self.labels, self.constant, metrics.rank_summary)


class KeptMeter(Meter):
    """Keeps the outputs of all rows until the evaluation ends, in the order of the data set."""

    def begin(self, prefix: str) -> None:
        self._kept: list[tuple[list[int], np.ndarray, np.ndarray]] = []
        self.indices = np.zeros(0, np.int64)
        self.outputs = self.targets = np.zeros((0, max(1, len(self.labels))), np.float32)

    def update(self, logits: Any, labels: Any, indices: list[int]) -> None:
        self._kept.append((indices, _plain(logits).numpy(), labels.detach().float().cpu().numpy()))

    def compute(self) -> dict[str, float]:
        kept = self._kept
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            from accelerate.utils import gather_object

            kept = gather_object(kept)
        if kept:
            indices, outputs, targets = (np.concatenate(part) for part in zip(*kept, strict=True))
            order = np.argsort(indices, kind="stable")
            self.indices, self.outputs, self.targets = indices[order], outputs[order], targets[order]
        self._kept = []
        found = self.summary()
        if self.folder is not None and self._split is not None:
            name, rows = self._split
            write_lines(self.folder / f"{name}.jsonl", self.lines(rows))
        return found

    @abstractmethod
    def summary(self) -> dict[str, float]:
        """The task's scores of what was kept."""

    @abstractmethod
    def lines(self, rows: TokenRows) -> Iterator[dict[str, Any]]:
        """What the model said of each row."""


class SetMeter(KeptMeter):
    """Any number of labels a row; a label is given from a probability on that validation chooses.

    Args:
        train_share: Share of the training rows that have each label.
    """

    def __init__(self, labels: list[str], predictions: Path | None, train_share: np.ndarray) -> None:
        super().__init__(labels, predictions)
        self.train_share = train_share
        self.threshold = 0.5

    def summary(self) -> dict[str, float]:
        self.probabilities = _sigmoid(self.outputs)
        if self._split is None or self._split[0] == "validation":  # test rows choose nothing
            self.threshold = metrics.best_threshold(self.probabilities, self.targets)
        return metrics.set_summary(self.probabilities >= self.threshold, self.targets)

    def scores(self, loss: float | None) -> dict[str, Any]:
        given = self.probabilities >= self.threshold
        found = metrics.set_scores(given, self.targets, loss, self.labels, self.train_share)
        return found | {"threshold": self.threshold}

    def learnt(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def lines(self, rows: TokenRows) -> Iterator[dict[str, Any]]:
        for index, probability, target in zip(self.indices, self.probabilities, self.targets, strict=True):
            given = probability >= self.threshold
            # the surest of all decisions about this row that were wrong, or the least sure one of right ones
            sure = np.where(given, probability, 1 - probability)
            wrong = given != (target > 0)
            yield _line(
                rows,
                int(index),
                label=[name for name, true in zip(self.labels, target, strict=True) if true],
                predicted=[name for name, said in zip(self.labels, given, strict=True) if said],
                confidence=round(float(sure[wrong].max() if wrong.any() else sure.min()), CERTAIN),
                probability=_named(self.labels, probability),
            )


class ScoreMeter(KeptMeter):
    """A number a row.

    Args:
        train_mean: Mean of the training rows.
    """

    def __init__(self, predictions: Path | None, train_mean: float) -> None:
        super().__init__([], predictions)
        self.train_mean = train_mean

    def summary(self) -> dict[str, float]:
        if not len(self.outputs):
            return {}
        return metrics.regression_summary(self.outputs[:, 0].astype(np.float64), self.targets.astype(np.float64))

    def scores(self, loss: float | None) -> dict[str, Any]:
        return metrics.regression_scores(self.outputs[:, 0], self.targets, loss, self.train_mean)

    def lines(self, rows: TokenRows) -> Iterator[dict[str, Any]]:
        for index, (output,), target in zip(self.indices, self.outputs, self.targets, strict=True):
            label, predicted = round(float(target), CERTAIN), round(float(output), CERTAIN)
            yield _line(
                rows, int(index), label=label, predicted=predicted, error=round(abs(label - predicted), CERTAIN)
            )


# -- files -----------------------------------------------------------------------------------------------------------


class PredictionFile:
    """What the model said of each row, one JSON object a line, in the order of the rows.

    Rows arrive in any order within a chunk; those that are early wait. The file appears under its name when complete.
    """

    def __init__(self, path: Path, rows: TokenRows, labels: list[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.rows, self.labels = path, rows, labels
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._file = open(self._temporary, "w", encoding="utf-8")  # noqa: SIM115 - closed in close()
        self._waiting: dict[int, tuple[np.ndarray, int]] = {}
        self._next = 0

    def add(self, indices: list[int], probabilities: np.ndarray, predicted: list[int]) -> None:
        """Add rows by their places. probabilities: (rows, classes); predicted: the class of each row."""
        self._waiting |= dict(zip(indices, zip(probabilities, predicted, strict=True), strict=True))
        while self._next in self._waiting:
            self._write(self._next, *self._waiting.pop(self._next))
            self._next += 1

    def close(self) -> None:
        for index in sorted(self._waiting):  # rows of other ranks are not here, so gaps are normal then
            self._write(index, *self._waiting[index])
        self._file.close()
        os.replace(self._temporary, self.path)

    def _write(self, index: int, probability: np.ndarray, best: int) -> None:
        line = _line(
            self.rows,
            index,
            label=self.labels[int(self.rows.labels[index])],
            predicted=self.labels[best],
            confidence=round(float(probability[best]), CERTAIN),
            probability=_named(self.labels, probability),
        )
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def write_lines(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    """Write JSON objects, one a line; the file appears under its name when complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    os.replace(temporary, path)


def _line(rows: TokenRows, index: int, **said: Any) -> dict[str, Any]:
    place = {"row": index, "line": int(rows.lines[index])}
    return place | said | {"text": rows.text(index)[:SHOWN_TEXT]}


def _named(labels: list[str], probability: np.ndarray) -> dict[str, float]:
    shown = range(len(labels)) if len(labels) <= MANY_CLASSES else np.argsort(-probability)[:5]
    return {labels[int(place)]: round(float(probability[place]), CERTAIN) for place in shown}


def _plain(logits: Any) -> torch.Tensor:
    """The first output of a model, in float32 on the processor."""
    first = logits[0] if isinstance(logits, (list, tuple)) else logits
    return first.detach().float().cpu()


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return torch.sigmoid(torch.from_numpy(np.ascontiguousarray(values))).numpy()
