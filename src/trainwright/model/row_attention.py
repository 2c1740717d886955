"""Attention of packed rows by plain matrix products, on a processor.

Rows of like length form a block; a block is one product a step, and what is done to every element is done once for
all blocks. Forward and backward are written out, since what autograd would record for each block costs more than its
arithmetic when rows are short.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trainwright.model.dropout import keep_mask

# Blocks hold rows whose length differs by this share at most: fewer products, little padding inside them.
LIKE_LENGTH = 1 / 8
# Up to this length single precision is faster: the library of half-precision products compiles a kernel for each new
# shape (0.4 ms, measured on a Zen 4), and packed batches bring new shapes all the time.
SINGLE_PRECISION_TOKENS = 64


@dataclass(frozen=True)
class Block:
    """Rows of like length, side by side.

    Attributes:
        rows: Number of rows.
        width: Tokens of the longest.
        lengths: Tokens of each, shape (rows,); None if all are as long as the longest.
        start: Place of its first element among those of all blocks; an element is a (row, head, position).
        elements: How many it has.
        area: Place of its first pair of positions among those of all blocks.
    """

    rows: int
    width: int
    lengths: torch.Tensor | None
    start: int
    elements: int
    area: int


@dataclass(frozen=True)
class Layout:
    """How packed rows are laid out as blocks.

    Attributes:
        blocks: In the order of the rows.
        read: Where each element lies in the packed (tokens x heads), shape (elements,); a place beyond a row's end
            reads the row's last token.
        beyond: Elements beyond their row's end, shape (some,).
        write: Where each (token, head) lies among the elements, shape (tokens x heads,).
        pairs: Pairs of positions of all blocks.
    """

    blocks: list[Block]
    read: torch.Tensor
    beyond: torch.Tensor
    write: torch.Tensor
    pairs: int


@functools.lru_cache(maxsize=4)  # every layer of a model asks for the same one
def layout_of(row_lengths: tuple[int, ...], heads: int) -> Layout:
    """Lay rows out as blocks; rows should come sorted by length."""
    blocks, reads, beyond, writes = [], [], [], []
    first_token = start = area = 0
    for group in _groups(row_lengths):
        rows, width = len(group), max(group)
        lengths = torch.tensor(group)
        places = torch.arange(width)
        tokens = lengths.cumsum(0)[:, None] - lengths[:, None] + torch.minimum(places, lengths[:, None] - 1)
        elements = (first_token + tokens)[:, None, :] * heads + torch.arange(heads)[:, None]  # (rows, heads, width)
        outside = (places >= lengths[:, None])[:, None, :].expand_as(elements)
        inside = torch.arange(elements.numel()).view_as(elements).transpose(1, 2)[places < lengths[:, None]]
        reads.append(elements.flatten())
        beyond.append(start + outside.flatten().nonzero().flatten())
        writes.append(start + inside.flatten())  # (tokens of the block, heads)
        even = min(group) == width
        blocks.append(Block(rows, width, None if even else lengths, start, elements.numel(), area))
        first_token += sum(group)
        start += elements.numel()
        area += elements.numel() * width
    return Layout(blocks, torch.cat(reads), torch.cat(beyond), torch.cat(writes), area)


def _groups(row_lengths: Sequence[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for length in row_lengths:
        if groups and abs(length - groups[-1][0]) <= LIKE_LENGTH * groups[-1][0]:
            groups[-1].append(length)
        else:
            groups.append([length])
    return groups


class RowAttention(torch.autograd.Function):
    """softmax(q k' x scaling) v within each row, with dropout on the softmax.

    Query, key, value and result have shape (tokens, heads, head size) and one number format.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layout: Layout,
        scaling: float,
        dropout: float,
        causal: bool,
        window: int | None,
    ) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            q, k, v = (_elements(states, layout) for states in (query, key, value))
            q.mul_(scaling)
            weights = q.new_empty(layout.pairs)
            for block in layout.blocks:
                scores = torch.bmm(_part(q, block), _part(k, block).mT)
                hidden = _hidden(block, causal, window)
                if hidden is not None:
                    scores.view(block.rows, -1, block.width, block.width).masked_fill_(hidden, float("-inf"))
                torch.softmax(scores, -1, out=_square(weights, block))
            keep, factor = keep_mask(weights.shape, dropout) if dropout > 0 else (None, 1.0)
            kept = weights if keep is None else weights * keep
            mixed = torch.empty_like(q)
            for block in layout.blocks:
                torch.bmm(_square(kept, block), _part(v, block), out=_part(mixed, block))
            ctx.save_for_backward(q, k, v, weights, keep, mixed)
            ctx.layout, ctx.scaling, ctx.factor = layout, scaling, factor
            return _tokens(mixed, layout, query).mul_(factor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, weights, keep, mixed = ctx.saved_tensors
        layout: Layout = ctx.layout
        with torch.autocast("cpu", enabled=False):
            g = _elements(gradients[0], layout).index_fill_(0, layout.beyond, 0.0).mul_(ctx.factor)
            row_sums = (g * mixed).sum(-1)  # of softmax x its gradient, as FlashAttention (Dao et al. 2022) has it
            kept = weights if keep is None else weights * keep
            for_q, for_k, for_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            scores = torch.empty_like(weights)
            for block in layout.blocks:
                torch.bmm(_square(kept, block).mT, _part(g, block), out=_part(for_v, block))
                torch.bmm(_part(g, block), _part(v, block).mT, out=_square(scores, block))
            if keep is not None:
                scores.mul_(keep)
            for block in layout.blocks:
                _square(scores, block).sub_(_part(row_sums, block).unsqueeze(-1))
            scores.mul_(weights)
            for block in layout.blocks:
                torch.bmm(_square(scores, block), _part(k, block), out=_part(for_q, block))
                torch.bmm(_square(scores, block).mT, _part(q, block), out=_part(for_k, block))
            given = gradients[0]
            q_tokens, k_tokens, v_tokens = (_tokens(values, layout, given) for values in (for_q, for_k, for_v))
        return q_tokens.mul_(ctx.scaling), k_tokens, v_tokens, None, None, None, None, None


def _elements(states: torch.Tensor, layout: Layout) -> torch.Tensor:
    """(tokens, heads, size) as (elements, size); a copy."""
    return states.reshape(-1, states.shape[-1]).index_select(0, layout.read)


def _tokens(elements: torch.Tensor, layout: Layout, like: torch.Tensor) -> torch.Tensor:
    """(elements, size) as (tokens, heads, size), without what lies beyond the rows; a copy."""
    return elements.index_select(0, layout.write).view(like.shape)


def _part(elements: torch.Tensor, block: Block) -> torch.Tensor:
    """A block's elements as (rows x heads, width, ...)."""
    return elements[block.start : block.start + block.elements].unflatten(0, (-1, block.width))


def _square(pairs: torch.Tensor, block: Block) -> torch.Tensor:
    """A block's pairs of positions as (rows x heads, width, width)."""
    area = block.elements * block.width
    return pairs[block.area : block.area + area].view(-1, block.width, block.width)


def _hidden(block: Block, causal: bool, window: int | None) -> torch.Tensor | None:
    """Positions that are not seen, (rows or 1, 1, width or 1, width); None if all are."""
    seen = visible(block.width, causal, window, torch.device("cpu"))
    hidden = None if seen is None else ~seen[None, None]
    if block.lengths is not None:
        beyond = (torch.arange(block.width) >= block.lengths[:, None])[:, None, None]
        # a position beyond the end may see nobody within a window; it sees itself, so that nothing is 0 / 0
        hidden = beyond if hidden is None else (hidden | beyond) & ~torch.eye(block.width, dtype=torch.bool)
    return hidden


def visible(length: int, causal: bool, window: int | None, device: torch.device) -> torch.Tensor | None:
    """Which positions a position sees, shape (length, length); None if all."""
    if not causal and (window is None or length <= window):
        return None
    places = torch.arange(length, device=device)
    distance = places[:, None] - places[None, :]
    seen = torch.ones(length, length, dtype=torch.bool, device=device)
    if causal:
        seen &= distance >= 0
    if window is not None:
        seen &= distance.abs() < window
    return seen
