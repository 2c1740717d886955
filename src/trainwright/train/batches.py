"""Two ways to make a micro-batch of rows: padded to the longest, or packed one behind the other without padding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trainwright.model.unpad import Unpadded
from trainwright.plan.cut import cut_by_tokens, padded_tokens

PACKED_FIELDS = {"input_ids", "attention_mask", "token_type_ids", "labels", "label", "label_ids"}


class PaddedBatches:
    """Each micro-batch is padded by a collator to its longest row."""

    def __init__(self, collator: Callable[[list[Any]], Any]) -> None:
        self.collator = collator

    def cut(self, lengths: Sequence[int], budget: int) -> list[list[int]]:
        return cut_by_tokens(lengths, budget)

    def tokens(self, lengths: Sequence[int], pieces: list[list[int]]) -> int:
        """Tokens that the model sees, padding included."""
        return padded_tokens(lengths, pieces)

    def make(self, rows: list[Any]) -> Any:
        return self.collator(rows)

    def running(self, batch: Any) -> contextlib.AbstractContextManager[None]:
        """What must be in force while the batch runs."""
        return contextlib.nullcontext()


class PackedBatches:
    """Each micro-batch is one row of real tokens; see :mod:`trainwright.model.unpad`."""

    def __init__(self, unpadded: Unpadded) -> None:
        self.unpadded = unpadded

    def cut(self, lengths: Sequence[int], budget: int) -> list[list[int]]:
        """Longest first; a new micro-batch begins where the budget of real tokens is full."""
        pieces: list[list[int]] = []
        filled = budget
        for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
            if filled + lengths[place] > budget:
                pieces.append([])
                filled = 0
            pieces[-1].append(place)
            filled += lengths[place]
        return pieces

    def tokens(self, lengths: Sequence[int], pieces: list[list[int]]) -> int:
        return sum(lengths)

    def make(self, rows: list[Any]) -> Any:
        return self.unpadded.batch(rows)

    def running(self, batch: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
        kept: torch.Tensor | None = batch.pop("kept")
        return self.unpadded.running(kept)


def can_be_packed(row: Mapping[str, Any]) -> bool:
    """Whether a row holds nothing but tokens and a label, so that it may be packed."""
    return "input_ids" in row and set(row) <= PACKED_FIELDS
