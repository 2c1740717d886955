"""Scores of a classifier: streamed through torchmetrics, and worked out from the confusion matrix.

Every score comes with its majority baseline and its sampling error, since a number without them says little.
"""

from __future__ import annotations

import json
import os
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

RESAMPLES = 400  # draws for the sampling error: its own error is then about 1/sqrt(2 x 400) = 3.5 % of it
Z_95 = 1.96  # half-width of a 95 % interval in standard deviations of a normal distribution
SHOWN_TEXT = 300  # characters of a row's text kept beside its prediction
MANY_CLASSES = 20  # beyond this, predictions name the five likeliest classes only


class Meter:
    """Streaming metrics of single-label classification; memory does not grow with the rows.

    Torchmetrics holds the counts, is updated with each rank's own rows, and is synced once, in :meth:`compute`.

    Args:
        labels: Names by id.
        predictions: Folder for prediction files, or None to write none.
    """

    def __init__(self, labels: list[str], predictions: Path | None = None) -> None:
        classes = len(labels)
        self.labels = labels
        self.metrics = MetricCollection(
            {
                "accuracy": MulticlassAccuracy(classes, average="micro"),
                "macro_f1": MulticlassF1Score(classes, average="macro"),
                "mcc": MulticlassMatthewsCorrCoef(classes),
                "confusion": MulticlassConfusionMatrix(classes),
            }
        )
        self.folder = predictions
        self.confusion = np.zeros((classes, classes), dtype=np.int64)
        self._split: tuple[str, TokenRows] | None = None
        self._file: PredictionFile | None = None

    def watch(self, split: str, rows: TokenRows) -> None:
        """From now on evaluations are of this split; its predictions go to ``<split>.jsonl``."""
        self._split = (split, rows)

    def begin(self, prefix: str) -> None:
        """Start an evaluation."""
        self.metrics.reset()
        if self.folder is not None and self._split is not None:
            name, rows = self._split
            self._file = PredictionFile(self.folder / f"{name}.jsonl", rows, self.labels)

    def update(self, logits: Any, labels: Any, indices: list[int]) -> None:
        """Add a batch. logits: (rows, classes); labels: (rows,); indices: each row's place in the data set."""
        logits = logits[0] if isinstance(logits, (list, tuple)) else logits
        probabilities = torch.softmax(logits.detach().float().cpu(), dim=-1)
        self.metrics.update(probabilities, labels.detach().cpu())
        if self._file is not None:
            self._file.add(indices, probabilities.numpy())

    def compute(self) -> dict[str, float]:
        """Close the evaluation: accuracy, macro_f1 and mcc over all ranks' rows."""
        values = self.metrics.compute()
        self.confusion = values.pop("confusion").cpu().numpy().astype(np.int64)
        if self._file is not None:
            self._file.close()
            self._file = None
        return {name: float(value) for name, value in values.items()}


class PredictionFile:
    """What the model said of each row, one JSON object a line, in the order of the rows.

    Rows arrive in any order within a chunk; those that are early wait. The file appears under its name when complete.
    """

    def __init__(self, path: Path, rows: TokenRows, labels: list[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.rows, self.labels = path, rows, labels
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._file = open(self._temporary, "w", encoding="utf-8")  # noqa: SIM115 - closed in close()
        self._waiting: dict[int, np.ndarray] = {}
        self._next = 0

    def add(self, indices: list[int], probabilities: np.ndarray) -> None:
        """Add rows by their places. probabilities: (rows, classes)."""
        self._waiting |= dict(zip(indices, probabilities, strict=True))
        while self._next in self._waiting:
            self._write(self._next, self._waiting.pop(self._next))
            self._next += 1

    def close(self) -> None:
        for index in sorted(self._waiting):  # rows of other ranks are not here, so gaps are normal then
            self._write(index, self._waiting[index])
        self._file.close()
        os.replace(self._temporary, self.path)

    def _write(self, index: int, probability: np.ndarray) -> None:
        best = int(probability.argmax())
        shown = range(len(self.labels)) if len(self.labels) <= MANY_CLASSES else np.argsort(-probability)[:5]
        line = {
            "row": index,
            "line": int(self.rows.lines[index]),
            "label": self.labels[int(self.rows.labels[index])],
            "predicted": self.labels[best],
            "confidence": round(float(probability[best]), 6),
            "probability": {self.labels[int(place)]: round(float(probability[place]), 6) for place in shown},
            "text": self.rows.text(index)[:SHOWN_TEXT],
        }
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def scores(confusion: np.ndarray, loss: float | None, labels: list[str], majority: int) -> dict[str, Any]:
    """Everything that a confusion matrix says.

    Args:
        confusion: Counts, shape (classes, classes); rows are the true classes, columns the predicted ones.
        loss: Mean loss of the same rows, or None.
        majority: Id of the class that most training rows have; the baseline predicts it always.

    Returns:
        Scores as ``results.json`` holds them: values, 95 % half-widths, baseline, per class, confusion.
    """
    baseline = np.zeros_like(confusion)
    baseline[:, majority] = confusion.sum(axis=1)
    return {
        "rows": int(confusion.sum()),
        "loss": loss,
        **summary(confusion),
        "error": sampling_error(confusion),
        "baseline": summary(baseline) | {"label": labels[majority]},
        "per_class": list(_per_class(confusion, labels)),
        "confusion": confusion.tolist(),
    }


def summary(confusion: np.ndarray) -> dict[str, float]:
    """Accuracy, macro-F1 (over classes that occur or are predicted) and Matthews' correlation coefficient.

    The multi-class MCC is that of Gorodkin (2004); it is 0 where a side is constant.
    """
    counts = confusion.astype(np.float64)
    right, true, predicted, rows = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    seen = (true + predicted) > 0
    f1 = 2 * right[seen] / (true + predicted)[seen]
    covariance = right.sum() * rows - true @ predicted
    spread = np.sqrt(rows**2 - true @ true) * np.sqrt(rows**2 - predicted @ predicted)
    return {
        "accuracy": float(right.sum() / rows) if rows else float("nan"),
        "macro_f1": float(f1.mean()) if seen.any() else float("nan"),
        "mcc": float(covariance / spread) if spread > 0 else 0.0,
    }


def sampling_error(confusion: np.ndarray) -> dict[str, float]:
    """Half-widths of the 95 % intervals that come from having only these rows.

    Rows are drawn anew from the confusion matrix (a multinomial bootstrap), so no row needs to be kept. For accuracy
    this is the binomial error, which has a closed form: 1.96 x sqrt(p (1 - p) / n).
    """
    rows = int(confusion.sum())
    if rows == 0:
        return {"accuracy": float("nan"), "macro_f1": float("nan"), "mcc": float("nan")}
    cells = confusion.reshape(-1) / rows
    generator = np.random.default_rng(0)
    draws = [summary(generator.multinomial(rows, cells).reshape(confusion.shape)) for _draw in range(RESAMPLES)]
    errors = {name: Z_95 * float(np.std([draw[name] for draw in draws])) for name in ("macro_f1", "mcc")}
    accuracy = float(np.trace(confusion)) / rows
    return {"accuracy": Z_95 * float(np.sqrt(accuracy * (1 - accuracy) / rows))} | errors


def _per_class(confusion: np.ndarray, labels: list[str]) -> Iterator[dict[str, Any]]:
    for number, name in enumerate(labels):
        right, true, predicted = (
            int(confusion[number, number]),
            int(confusion[number].sum()),
            int(confusion[:, number].sum()),
        )
        yield {
            "label": name,
            "rows": true,
            "recall": right / true if true else None,
            "precision": right / predicted if predicted else None,
            "f1": 2 * right / (true + predicted) if true + predicted else None,
        }
