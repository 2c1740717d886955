"""What a training step holds in memory at its highest, by parts, from the sizes of the model alone.

Counted by hand for BERT and those built like it: which tensors autograd keeps for the backward pass, and what lives
beside them at the three moments that can be the highest. ``tests/unit/train/test_footprint.py`` holds it to what
torch keeps when the real model runs on tensors without storage. h is the size of a token's vector, f that of the
feed-forward part; a pair is one (head, position, position) of attention.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainwright.plan.shape import LIKE_BERT, Shape

MIB = 2**20
# Rows of like length form a block of attention on a processor; see model/row_attention.py, which this follows.
LIKE_LENGTH = 1 / 8
SINGLE_PRECISION_TOKENS = 64
PLAIN_TOKENS = 160  # longer rows without dropout go through torch's fused kernel; see model/attention.py
# Bytes that an optimizer keeps for each parameter, by the name that TrainingArguments.optim has for it
OPTIMIZER_BYTES = {
    "adamw_torch": 8, "adamw_torch_fused": 8, "adamw_torch_4bit": 1, "adamw_torch_8bit": 2, "adamw_bnb_8bit": 2,
    "adamw_8bit": 2, "paged_adamw_8bit": 2, "sgd": 0, "adagrad": 4, "rmsprop": 4, "lion_32bit": 4, "lion_8bit": 1,
    "adafactor": 0,
}  # fmt: skip
# Context: what is there before the first tensor. On a processor Python with torch and the libraries of training,
# fitted on half of the configurations of bench/plan_configs.json (docs/plan.md); on a card CUDA's own context and the
# workspace of cuBLAS, 0.5 to 1 GB (PyTorch documentation, CUDA semantics), not fitted.
CONTEXT = {"cpu": 425 * MIB, "cuda": 800 * MIB}
# What the allocator keeps and cannot use, as shares of the activations and of the workspace. On a processor fitted
# likewise: freed memory is kept for the next step (train/allocator.py), in pieces; where layers are recomputed, each
# input that is kept pins a piece of what a layer has used. On a card the upper end of what is commonly seen.
SLACK = {"cpu": (0.69, 0.69), "cpu, recomputing": (12.0, 0.56), "cuda": (0.10, 0.10)}


@dataclass(frozen=True)
class Setting:
    """How a step is run.

    Attributes:
        device: cpu or cuda.
        precision: fp32, bf16 or fp16.
        packed: Rows one behind the other without padding.
        recompute: Layers are computed a second time in the backward pass in place of being kept; always padded.
        optimizer: Name in TrainingArguments.optim.
    """

    device: str
    precision: str
    packed: bool = True
    recompute: bool = False
    optimizer: str = "adamw_torch_fused"


@dataclass(frozen=True)
class Memory:
    """Bytes at the highest moment of a step, by parts.

    Attributes:
        weights: Parameters, in fp32.
        gradients: One fp32 number for each parameter.
        optimizer: What the optimizer keeps.
        copies: The weights of the matrices in half precision, where there are such.
        activations: What is kept for the backward pass of the largest micro-batch.
        workspace: What lives beside the activations for a moment.
        context: What is there before the first tensor.
        slack: What the allocator cannot use.
    """

    weights: int
    gradients: int
    optimizer: int
    copies: int
    activations: int
    workspace: int
    context: int
    slack: int

    @property
    def total(self) -> int:
        return sum(dataclasses.astuple(self))


def memory_of(shape: Shape, lengths: Sequence[int], setting: Setting) -> Memory | None:
    """Memory of a step whose largest micro-batch has rows of these lengths.

    Args:
        lengths: Tokens of each row of the largest micro-batch.

    Returns:
        None for families, activations or optimizers that are not counted here.
    """
    state = OPTIMIZER_BYTES.get(setting.optimizer)
    if shape.kind not in LIKE_BERT or state is None or shape.activation not in _ACTIVATIONS:
        return None
    activations, peak = _Counted(shape, lengths, setting).step()
    embedding_gradient = 4 * shape.largest  # at the end of the backward pass, when the layers' activations are gone
    copies = 2 * _matrices(shape) if setting.precision != "fp32" else 0
    weights = 4 * shape.parameters
    workspace = max(peak - activations, embedding_gradient - activations, 0)
    tensors = Memory(weights, weights, state * shape.parameters, copies, activations, workspace, 0, 0)
    kind = "cpu, recomputing" if setting.recompute and setting.device == "cpu" else setting.device
    of_activations, of_workspace = SLACK[kind]
    slack = round(of_activations * activations + of_workspace * workspace)
    return dataclasses.replace(tensors, context=CONTEXT[setting.device], slack=slack)


def largest_micro_batch(histogram: Iterable[Sequence[int]], batch_size: int, tokens: int, packed: bool) -> list[int]:
    """The rows of the largest micro-batch that can occur: the longest rows of the data, as many as it may hold.

    Args:
        histogram: Rows by length, ``[[tokens, rows], ...]``.
        batch_size: Rows of a step; a micro-batch holds no more.
        tokens: Tokens that a micro-batch may hold.
        packed: Whether real tokens are counted, or those of the longest row times the rows.

    Returns:
        Tokens of each row, the longest first; one row at least.
    """
    longest = (length for length, rows in sorted(map(tuple, histogram), reverse=True) for _ in range(rows))
    chosen: list[int] = []
    held = 0
    for length in itertools.islice(longest, batch_size):
        more = length if packed else chosen[0] if chosen else length
        if chosen and held + more > tokens:
            break
        chosen.append(length)
        held += more
    return chosen


# -- the count -------------------------------------------------------------------------------------------------------

# Values of size f that are kept by a token's feed-forward part: what goes in, what comes out, and what is between
_ACTIVATIONS = {"gelu": 2, "gelu_new": 5, "relu": 1}


class _Counted:
    """The count for one micro-batch. Everything is in bytes."""

    def __init__(self, shape: Shape, lengths: Sequence[int], setting: Setting) -> None:
        self.shape, self.setting = shape, setting
        self.padded = setting.recompute or not setting.packed
        self.rows = len(lengths)
        self.tokens = self.rows * max(lengths) if self.padded else sum(lengths)
        self.number = 4 if setting.precision == "fp32" else 2
        # What runs from layer to layer is in half precision only where a matrix stands in front of the layers (ALBERT,
        # small ELECTRA) and norms are not computed in fp32, as they are on a card.
        self.stream = self.number if setting.device == "cpu" and shape.entry_products else 4
        self.drops = shape.dropout > 0
        self.attention_drops = shape.attention_dropout > 0
        self.places, self.pairs = self._layout(list(lengths))
        self.plain = setting.device == "cpu" and (
            self.attention_drops or (max(lengths) <= PLAIN_TOKENS and not self.padded)
        )
        single = max(lengths) <= SINGLE_PRECISION_TOKENS
        self.attention_number = 4 if self.padded or single else self.number

    def step(self) -> tuple[int, int]:
        """What is kept when the forward pass ends, and the highest moment."""
        h, layers, layer = self.shape.hidden, self.shape.layers, self._layer()
        around = self._around()
        if self.setting.recompute:
            # each layer's input is kept, and the layer whose turn it is has all of its own
            kept = layers * self.stream * h * self.tokens + around
            highest = kept + layer + self._beside()
            return round(kept), round(highest)
        kept = layers * layer + around
        return round(kept), round(kept + self._beside())

    def _layer(self) -> float:
        """Kept by one layer."""
        h, f, size, tokens = self.shape.hidden, self.shape.inner, self.number, self.tokens
        # inputs of the matrices: attention's result, the first norm's result and the layer's input. An input in fp32
        # is cast to half precision by query, key and value each for themselves.
        inputs = (3 if size == self.stream else 5) * size * h
        norms = 2 * self.stream * h + 2 * 2 * 4  # their inputs, and mean and deviation in fp32
        masks = 2 * h if self.drops else 0
        forward = _ACTIVATIONS[self.shape.activation] * size * f
        return tokens * (inputs + norms + masks + forward) + self._attention()

    def _attention(self) -> float:
        h, tokens = self.shape.hidden, self.tokens
        if not self.plain:  # a fused kernel keeps query, key, value, its result, and a sum for each head
            return tokens * (4 * self.number * h + 4 * self.shape.heads)
        if self.padded:  # torch's own products: copies of query, key and value; softmax, mask, and what it leaves
            return 3 * 4 * h * tokens + 3 * 4 * self.pairs
        mask = 1 if self.attention_drops else 0
        return 4 * self.attention_number * h * self.places + (self.attention_number + mask) * self.pairs

    def _around(self) -> float:
        """Kept outside of the layers: the embeddings' norm, ids, and the head's few vectors a row."""
        h, size, tokens = self.shape.hidden, self.number, self.tokens
        embeddings = tokens * (4 * h + 8 + (h if self.drops else 0) + 3 * 8)
        return embeddings + self.rows * (3 * size + 1) * h

    def _beside(self) -> float:
        """The most that lives beside what is kept, at the last layer, where everything is kept."""
        return max(self._at_the_last_norm(), self._at_the_last_matrix(), self._in_its_attention(), 0)

    def _at_the_last_norm(self) -> float:
        """Forward: input and result of the layer and of its first norm, dense result before and after dropout."""
        cast = self.number != self.stream  # then neither input nor result of a norm is among what is kept
        return self.tokens * self.shape.hidden * (16 if cast else 2 * self.stream)

    def _at_the_last_matrix(self) -> float:
        """Backward: gradients of the inner values and of the matrix; the last norm's input and mask are gone."""
        h, f = self.shape.hidden, self.shape.inner
        mask = h * self.drops
        if self.number == 4:
            return self.tokens * (4 * f + 4 * h - mask) + 4 * f * h
        matrix = 6 * f * h - self.tokens * mask  # its gradient in half precision, and cast
        return max(matrix, 2 * self.number * f * self.tokens) if self.shape.activation == "gelu_new" else matrix

    def _in_its_attention(self) -> float:
        """Backward: squares of pairs and six times the vectors; the feed-forward part is gone."""
        if not self.plain:
            return 0.0
        h, f, size = self.shape.hidden, self.shape.inner, self.number
        gone = self.tokens * (_ACTIVATIONS[self.shape.activation] * size * f + (18 if size == 4 else 14) * h)
        squares = 1 if self.padded else 2
        return squares * self.attention_number * self.pairs + 6 * self.attention_number * self.places * h - gone

    def _layout(self, lengths: list[int]) -> tuple[int, int]:
        """Positions and pairs of attention, with the padding inside its blocks."""
        if self.padded:
            width = max(lengths)
            return self.tokens, self.shape.heads * self.rows * width**2
        blocks: list[list[int]] = []
        for length in sorted(lengths, reverse=True):
            if blocks and blocks[-1][0] - length <= LIKE_LENGTH * blocks[-1][0]:
                blocks[-1].append(length)
            else:
                blocks.append([length])
        places = sum(len(block) * block[0] for block in blocks)
        return places, self.shape.heads * sum(len(block) * block[0] ** 2 for block in blocks)


def _matrices(shape: Shape) -> int:
    """Parameters that are cast to half precision: those of every matrix product, once each."""
    return shape.products * shape.distinct_layers + shape.entry_products + shape.head_products
