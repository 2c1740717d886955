"""What the real model keeps in a step, counted by running it on tensors without storage (torch's fake tensors).

Takes a second for BERT-base, once torch is imported, and no memory: the way to know it for families that nobody has
counted by hand, and what the hand count of plan/memory.py is held to. Always as on a processor.
"""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForSequenceClassification, PretrainedConfig

from trainwright.model.dropout import quick_dropout
from trainwright.model.row_attention import layout_of
from trainwright.model.unpad import Unpadded


@dataclass(frozen=True)
class Footprint:
    """What one micro-batch takes beyond weights and gradients; bytes.

    Attributes:
        parameters: Number of them.
        saved: What autograd keeps for the backward pass, copies of weights in half precision included.
        peak: The highest moment of forward and backward.
    """

    parameters: int
    saved: int
    peak: int


def trace(
    config: PretrainedConfig, lengths: Sequence[int], precision: str, packed: bool = True, recompute: bool = False
) -> Footprint:
    """Forward and backward of one micro-batch, as a training process with gradients of earlier ones runs it.

    Args:
        config: Of a sequence classifier.
        lengths: Tokens of each row.
        precision: fp32 or bf16.
        packed: Rows one behind the other, through our attention; else padded, through torch's.
        recompute: With activation checkpointing.

    Raises:
        CannotUnpad: ``packed`` is asked of a model that is not exact that way.
    """
    rows = [{"input_ids": [1] * length, "labels": 0} for length in lengths]
    config = copy.deepcopy(config)
    config.problem_type = "single_label_classification"  # as training sets it
    layout_of(tuple(lengths), config.num_attention_heads)  # depends on data, which fake tensors have not; kept by it
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    model.train()
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    batch, running = _batch(model, rows, packed)
    with fake, _Living() as living:
        for parameter in model.parameters():
            living.add(parameter)
            parameter.grad = torch.zeros_like(parameter)
        before = living.now
        kind = torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16")
        with kind, quick_dropout(model), running:
            with _saved_bytes(model) as saved:
                loss = model(**batch).loss
            loss.backward()
    return Footprint(sum(parameter.numel() for parameter in model.parameters()), sum(saved), living.peak - before)


def _batch(model: Any, rows: list[dict[str, Any]], packed: bool) -> tuple[dict[str, Any], Any]:
    if packed:
        unpadded = Unpadded(model)
        batch = unpadded.batch(rows)
        return batch, unpadded.running(batch.pop("kept"))
    width = max(len(row["input_ids"]) for row in rows)
    ids = torch.ones(len(rows), width, dtype=torch.int64)
    return {"input_ids": ids, "attention_mask": ids, "labels": ids[:, 0] * 0}, contextlib.nullcontext()


@contextlib.contextmanager
def _saved_bytes(model: torch.nn.Module) -> Iterator[list[int]]:
    """Fills a list with the bytes of each storage that autograd keeps; parameters are none of them."""
    kept: dict[int, torch.UntypedStorage] = {}
    parameters = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    bytes_of: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield bytes_of
    bytes_of += [storage.nbytes() for key, storage in kept.items() if key not in parameters]
    kept.clear()  # the hook outlives this, and what it holds would live through the backward pass


class _Living(TorchDispatchMode):
    """Bytes of the storages that live, now and at most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self.add(value)
        return result

    def add(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage, once, until it is freed."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size
