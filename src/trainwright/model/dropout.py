"""Dropout whose random bits are drawn four to a number: on a processor, drawing them is what dropout costs.

The masks are other ones than torch's for the same seed; their probability is the same to 1/131072.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

_VALUES = 2**16  # of the 16 bits that decide on one element


def keep_mask(shape: Sequence[int], probability: float) -> tuple[torch.Tensor, float]:
    """Which elements stay, drawn from torch's generator of the processor.

    Args:
        shape: Shape of the mask.
        probability: Of an element to be dropped; rounded to a multiple of 1/65536.

    Returns:
        The mask, bool, and the factor by which what stays is multiplied, so that the mean stays as it is.
    """
    if probability >= 1:
        return torch.zeros(*shape, dtype=torch.bool), 0.0
    count = math.prod(shape)
    bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    dropped = round(probability * _VALUES)
    keep = bits.view(torch.int16)[:count] >= dropped - _VALUES // 2
    return keep.view(*shape), _VALUES / max(1, _VALUES - dropped)


def dropout(values: torch.Tensor, probability: float) -> torch.Tensor:
    """As ``torch.nn.functional.dropout`` in training, for tensors on the processor."""
    if probability <= 0:
        return values
    result: torch.Tensor = _Dropout.apply(values, *keep_mask(values.shape, probability))
    return result


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, keep: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.save_for_backward(keep)
        ctx.factor = factor
        return values.mul(keep).mul_(factor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0].mul(ctx.saved_tensors[0]).mul_(ctx.factor), None, None


@contextlib.contextmanager
def quick_dropout(model: torch.nn.Module) -> Iterator[None]:
    """While it lasts, the model's dropout layers draw their masks this way, if they compute on a processor."""
    layers = [layer for layer in model.modules() if type(layer) is torch.nn.Dropout and not layer.inplace]
    for layer in layers:
        layer.forward = _forward_of(layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _forward_of(layer: torch.nn.Dropout) -> Any:
    def forward(values: torch.Tensor) -> torch.Tensor:
        if layer.training and values.device.type == "cpu":
            return dropout(values, layer.p)
        return torch.nn.functional.dropout(values, layer.p, layer.training)

    return forward
