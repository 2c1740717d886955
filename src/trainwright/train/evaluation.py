"""Evaluation as a stream: rows sorted by length and cut, the loss weighted by rows, results in the caller's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers.trainer_pt_utils import nested_concat, nested_detach, nested_numpify
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction, denumpify_detensorize

from trainwright.model.memory import is_out_of_memory
from trainwright.train import loss
from trainwright.train.recovery import release
from trainwright.train.rows import StepRows

if TYPE_CHECKING:
    from trainwright.train.trainer import Trainer

PADDING = -100  # what transformers fills predictions of unequal width with


class Collected:
    """Predictions and labels in memory, for ``predict`` and for a caller's ``compute_metrics``."""

    def __init__(self) -> None:
        self.logits: Any = None
        self.labels: Any = None
        self.indices: list[int] = []

    def add(self, logits: Any, labels: Any, indices: list[int]) -> None:
        logits, labels = nested_numpify(logits), nested_numpify(labels)
        self.logits = logits if self.logits is None else nested_concat(self.logits, logits, padding_index=PADDING)
        if labels is not None:
            self.labels = labels if self.labels is None else nested_concat(self.labels, labels, padding_index=PADDING)
        self.indices += indices

    def in_order(self) -> tuple[Any, Any]:
        """Predictions and labels by the rows' places in the data set; a stream keeps the order it came in."""
        order = np.argsort(self.indices, kind="stable")
        return _reordered(self.logits, order), _reordered(self.labels, order)


def run(
    trainer: Trainer, loader: Any, only_loss: bool | None, ignore_keys: list[str] | None, prefix: str
) -> EvalLoopOutput:
    """Evaluate this rank's rows and put the ranks' results together.

    Args:
        only_loss: Collect no predictions.
        prefix: Put before the name of each metric, as in ``eval_loss``.

    Returns:
        As transformers' own loop: predictions, labels, metrics, number of rows.
    """
    model = _prepared_model(trainer)
    model.eval()
    meter, collected = trainer.meter, Collected()
    if meter is not None:
        meter.begin(prefix)
    sums = torch.zeros(3, dtype=torch.float64)  # loss x amount, amount, rows
    trainer.callback_handler.eval_dataloader = loader
    predict = partial(_predict, trainer, model, bool(only_loss), ignore_keys)
    for rows, (amount, value, logits, labels) in _survived(trainer, predict, _pieces(trainer, loader)):
        if value is not None and amount:
            sums += torch.tensor([float(value) * amount, amount, 0.0], dtype=torch.float64)
        sums[2] += len(rows.indices)
        if meter is not None:
            meter.update(logits, labels, rows.indices)
        elif logits is not None:
            if trainer.preprocess_logits_for_metrics is not None:
                logits = trainer.preprocess_logits_for_metrics(logits, labels)
            collected.add(nested_detach(logits), labels, rows.indices)
        trainer.control = trainer.callback_handler.on_prediction_step(trainer.args, trainer.state, trainer.control)
    return _finish(trainer, sums, collected, prefix)


def _pieces(trainer: Trainer, loader: Any) -> Iterator[StepRows]:
    """Chunks of rows cut into batches of like length."""
    for chunk in loader:
        trainer.choose_batches(chunk.rows[0])
        lengths = chunk.lengths()
        budget = trainer.token_budget(max(lengths), trainer.args.per_device_eval_batch_size)
        for piece in trainer.batches.cut(lengths, budget):
            yield StepRows([chunk.rows[place] for place in piece], [chunk.indices[place] for place in piece])


def _predict(
    trainer: Trainer, model: Any, only_loss: bool, ignore_keys: list[str] | None, rows: StepRows
) -> tuple[float, Any, Any, Any]:
    """Divisor, loss, predictions and labels of one batch."""
    batches = trainer.batches_for_predictions() if not only_loss else trainer.batches
    batch = batches.make(rows.rows)
    amount = loss.count_labels(batch)
    with batches.running(batch):
        value, logits, labels = trainer.prediction_step(model, batch, only_loss, ignore_keys=ignore_keys)
    return amount, None if value is None else float(value), logits, labels


def _survived(
    trainer: Trainer, predict: Callable[[StepRows], Any], pieces: Iterable[StepRows]
) -> Iterator[tuple[StepRows, Any]]:
    """Each batch with its outcome; one that does not fit into memory is halved and done again.

    Raises:
        GaveUp: A single row does not fit.
    """
    for piece in pieces:
        outcome, why = None, ""
        if not trainer.recovery.known_not_to_fit(piece.lengths()):
            try:
                outcome = predict(piece)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                why = str(error) or type(error).__name__
            if not why:
                yield piece, outcome
                continue
            release()  # outside the except clause: its traceback held the tensors of the failed attempt
            trainer.recovery.cut_evaluation(piece.indices, piece.lengths(), why)
        middle = len(piece.rows) // 2
        parts = (slice(0, middle), slice(middle, None))
        yield from _survived(trainer, predict, [StepRows(piece.rows[part], piece.indices[part]) for part in parts])


def _prepared_model(trainer: Trainer) -> Any:
    """The model as training uses it; prepared by accelerate here if no training came before."""
    if len(trainer.accelerator._models) == 0 and trainer.model_wrapped is trainer.model:
        trainer.model_wrapped = trainer.accelerator.prepare_model(trainer.model, evaluation_mode=True)
    return trainer.model_wrapped


def _finish(trainer: Trainer, sums: torch.Tensor, collected: Collected, prefix: str) -> EvalLoopOutput:
    predictions: Any
    labels: Any
    predictions, labels = _over_ranks(trainer, collected).in_order() if collected.indices else (None, None)
    if trainer.args.world_size > 1:
        sums = trainer.accelerator.reduce(sums.to(trainer.args.device), reduction="sum").cpu()
    metrics: dict[str, Any] = {}
    if trainer.meter is not None:
        metrics = trainer.meter.compute()
    elif trainer.compute_metrics is not None and predictions is not None and labels is not None:
        metrics = trainer.compute_metrics(EvalPrediction(predictions=predictions, label_ids=labels))
    metrics = denumpify_detensorize(dict(metrics))
    if sums[1] > 0:
        metrics[f"{prefix}_loss"] = float(sums[0] / sums[1])
    named = {name if name.startswith(f"{prefix}_") else f"{prefix}_{name}": value for name, value in metrics.items()}
    return EvalLoopOutput(predictions=predictions, label_ids=labels, metrics=named, num_samples=int(sums[2]))


def _over_ranks(trainer: Trainer, mine: Collected) -> Collected:
    if trainer.args.world_size == 1:
        return mine
    from accelerate.utils import gather_object

    together = Collected()
    for logits, labels, indices in gather_object([(mine.logits, mine.labels, mine.indices)]):
        if indices:
            together.add(logits, labels, indices)
    return together


def _reordered(values: Any, order: np.ndarray) -> Any:
    if isinstance(values, (list, tuple)):
        return type(values)(_reordered(value, order) for value in values)
    return values[order] if isinstance(values, np.ndarray) else values
