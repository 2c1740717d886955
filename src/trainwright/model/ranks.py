"""Ordered classes from binary outputs: for each rank but the highest, a model says whether a row is above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def rank_of(logits: Tensor) -> Tensor:
    """The rank of each row: how many of the ranks below it the model says it is above. logits: (rows, ranks - 1)."""
    return (logits > 0).sum(dim=-1)


def rank_probabilities(logits: Tensor) -> Tensor:
    """The probability of each rank, (rows, ranks), from those of being above each one, which are made to fall.

    P(rank = k) = P(rank > k - 1) - P(rank > k), as in Frank and Hall (2001).
    """
    import torch

    above = logits.double().sigmoid().cummin(dim=-1).values
    edges = torch.cat([torch.ones_like(above[:, :1]), above, torch.zeros_like(above[:, :1])], dim=-1)
    return (edges[:, :-1] - edges[:, 1:]).float()
