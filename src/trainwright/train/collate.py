"""Padding for callers who bring ragged rows and no collator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

IGNORED_LABEL = -100  # the label that torch's cross-entropy leaves out by default


class PadRows:
    """Pads the ragged fields of rows to the longest one and makes the attention mask.

    Args:
        pad_id: Token id that fills ``input_ids``.
        side: ``right`` or ``left``, the tokenizer's padding side.
    """

    def __init__(self, pad_id: int, side: str = "right") -> None:
        self.fill = {"input_ids": pad_id, "labels": IGNORED_LABEL}
        self.side = side

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Rows of dictionaries to tensors of shape (rows, longest) for lists and (rows,) for numbers."""
        renamed = [{("labels" if name in ("label", "label_ids") else name): row[name] for name in row} for row in rows]
        batch = {name: self._column(name, [row[name] for row in renamed]) for name in renamed[0]}
        if "input_ids" in batch and "attention_mask" not in batch:
            batch["attention_mask"] = self._mask([len(row["input_ids"]) for row in renamed])
        return batch

    def _column(self, name: str, values: list[Any]) -> torch.Tensor:
        tensors = [torch.as_tensor(value) for value in values]
        if tensors[0].dim() != 1 or len({len(tensor) for tensor in tensors}) == 1:
            return torch.stack(tensors)
        return torch.nn.utils.rnn.pad_sequence(
            tensors, batch_first=True, padding_value=self.fill.get(name, 0), padding_side=self.side
        )

    def _mask(self, lengths: list[int]) -> torch.Tensor:
        ones = [torch.ones(length, dtype=torch.long) for length in lengths]
        return torch.nn.utils.rnn.pad_sequence(ones, batch_first=True, padding_side=self.side)
