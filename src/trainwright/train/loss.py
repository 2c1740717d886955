"""How a loss falls apart into the losses of micro-batches, so that cutting a step leaves its gradient as it is.

torch's mean over the uncut batch is (sum of the items' losses) / (divisor), where the divisor counts examples, label
tokens, or the class weights of the targets. A micro-batch whose own mean is ``m`` over ``a`` items therefore adds
``m * a / A``, with A the divisor of the whole step over all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from trainwright.train.collate import IGNORED_LABEL

Divisor = Callable[[Mapping[str, Any]], float]


def count_examples(batch: Mapping[str, Any]) -> float:
    """Rows of a batch: its labels, or what its first field holds."""
    if isinstance(batch.get("labels"), torch.Tensor):
        return float(len(batch["labels"]))
    first = next(value for value in batch.values() if isinstance(value, torch.Tensor) and value.dim() > 0)
    return float(len(first))


def count_labels(batch: Mapping[str, Any]) -> float:
    """Labels that take part in the loss: those other than -100; rows where labels are not whole numbers."""
    labels = batch.get("labels")
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
        return count_examples(batch)
    return float(labels.ne(IGNORED_LABEL).sum())


def count_shifted_labels(batch: Mapping[str, Any]) -> float:
    """Targets of next-token prediction: the first label of each row predicts nothing."""
    if "shift_labels" in batch:
        return float(batch["shift_labels"].ne(IGNORED_LABEL).sum())
    return float(batch["labels"][..., 1:].ne(IGNORED_LABEL).sum())


def sum_class_weights(weights: torch.Tensor) -> Divisor:
    """The divisor of torch's weighted cross-entropy: the targets' weights, added up. weights: (classes,), float64."""

    def divisor(batch: Mapping[str, Any]) -> float:
        labels = batch["labels"]
        return float(weights[labels[labels.ne(IGNORED_LABEL)].cpu()].sum())

    return divisor


def cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor | None,
    smoothing: float,
    next_token: bool,
    focal_gamma: float = 0.0,
) -> torch.Tensor:
    """torch's mean cross-entropy over the labels other than -100, never in less than fp32.

    With ``focal_gamma`` each label's loss is multiplied by (1 - p)^gamma, p being the probability of the right class
    (Lin et al. 2017); the divisor stays the same, so a step falls apart as before.

    Args:
        logits: Shape (rows, classes) or (rows, tokens, classes).
        labels: Shape (rows,) or (rows, tokens).
        weights: Weight of each class, shape (classes,), or None.
        smoothing: Share of the target that is spread over all classes.
        next_token: Each position predicts the label after it.
        focal_gamma: 0 is plain cross-entropy. It goes without smoothing.
    """
    if next_token:
        logits, labels = logits[:, :-1], labels[:, 1:]
    flat = logits.reshape(-1, logits.shape[-1])
    flat = flat if flat.dtype == torch.float64 else flat.float()
    if focal_gamma:
        return _focal(flat, labels.reshape(-1), weights, focal_gamma)
    return nn.functional.cross_entropy(
        flat,
        labels.reshape(-1),
        weight=weights.to(flat) if weights is not None else None,
        ignore_index=IGNORED_LABEL,
        label_smoothing=smoothing,
    )


def _focal(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None, gamma: float) -> torch.Tensor:
    kept = labels.ne(IGNORED_LABEL)
    right = logits[kept].log_softmax(dim=-1).gather(1, labels[kept].unsqueeze(1)).squeeze(1)
    weight = torch.ones_like(right) if weights is None else weights.to(right)[labels[kept]]
    return -(weight * (1 - right.exp()).clamp(min=0) ** gamma * right).sum() / weight.sum()


def binary_cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None, focal_gamma: float = 0.0
) -> torch.Tensor:
    """The mean over rows and labels of the cross-entropy of each label for itself, never in less than fp32.

    Args:
        logits: Shape (rows, labels).
        labels: 0 or 1, the same shape.
        weights: Weight of each label where a row has it, shape (labels,), or None.
        focal_gamma: As in :func:`cross_entropy`, p being the probability of what is true of the label.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    labels = labels.to(logits)
    losses = nn.functional.binary_cross_entropy_with_logits(
        logits, labels, pos_weight=weights.to(logits) if weights is not None else None, reduction="none"
    )
    if focal_gamma:
        wrong = torch.sigmoid(torch.where(labels > 0, -logits, logits))  # 1 - p, without cancellation
        losses = losses * wrong**focal_gamma
    return losses.mean()


def couples_examples(model: nn.Module) -> str | None:
    """The name of a layer whose output for one example depends on the others in training, or None."""
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(
            module, nn.modules.instancenorm._InstanceNorm
        ):
            return f"{name} ({type(module).__name__})"
    return None


def find_divisor(
    mean_loss: Callable[[Mapping[str, Any]], float],
    collate: Callable[[list[Any]], Mapping[str, Any]],
    rows: list[Any],
    candidates: dict[str, Divisor],
    tolerance: float,
) -> str | None:
    """Try which divisor makes the parts of a few rows add up to their whole.

    Args:
        mean_loss: The caller's loss of a batch, without dropout.
        collate: Makes a batch of rows.
        rows: At least two rows.
        candidates: Divisors by name, the likeliest first.
        tolerance: Relative difference that counts as equal.

    Returns:
        The name of the first divisor that fits; None if none does (the loss couples examples).
    """
    parts = [rows[:1], rows[1:]]
    whole_batch, part_batches = collate(rows), [collate(part) for part in parts]
    whole, losses = mean_loss(whole_batch), [mean_loss(batch) for batch in part_batches]
    for name, divisor in candidates.items():
        amounts = [divisor(batch) for batch in part_batches]
        if min(amounts) <= 0:
            continue
        together = sum(loss * amount for loss, amount in zip(losses, amounts, strict=True)) / divisor(whole_batch)
        if abs(together - whole) <= tolerance * max(abs(whole), 1e-8):
            return name
    return None
