"""Attention over rows that lie one behind the other, without a padding token between them.

Registered with transformers' public ``AttentionInterface`` and chosen only while a packed batch runs. Each row attends
to itself alone: the boundaries are given, never guessed from positions (which is silently wrong for encoders).
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# A word like "flash" in the name would make transformers look for a kernel of that name on the hub.
NAME = "trainwright_unpadded"
# On a CPU, matrix products with a softmax between them beat the fused kernel up to about this many tokens a row; above
# it their memory traffic grows faster. The fused CPU kernel has no dropout, so with dropout they are used always.
CPU_PLAIN_TOKENS = 160


def register() -> None:
    """Make the attention known to transformers; may be called many times."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, unpadded_attention)


def unpadded_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    row_lengths: Sequence[int] = (),
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of each row with itself.

    Args:
        query: Shape (1, heads, tokens, head size); key and value alike, possibly with fewer heads.
        attention_mask: Always None; the boundaries say all.
        dropout: Probability on the attention weights.
        row_lengths: Tokens of each row, in order; rows of equal length side by side are computed together.
        sliding_window: Positions further apart than this, or as far, do not see each other; None means all do.

    Returns:
        Shape (1, tokens, heads, head size), and None in place of the weights.
    """
    import torch

    if attention_mask is not None or sum(row_lengths) != query.shape[2]:
        raise ValueError(f"packed rows of {sum(row_lengths)} tokens in all, but {query.shape[2]} tokens came")
    causal = bool(getattr(module, "is_causal", False))
    if query.device.type == "cpu" and (dropout > 0 or max(row_lengths) <= CPU_PLAIN_TOKENS):
        return _plain(query, key, value, tuple(row_lengths), dropout, scaling, causal, sliding_window), None
    if query.device.type == "cuda" and (kernel := flash_kernel(query.dtype, dropout)):
        return kernel(query, key, value, row_lengths, dropout, scaling, causal, sliding_window), None
    groups = [(length, len(list(rows))) for length, rows in itertools.groupby(row_lengths)]
    sizes = [length * rows for length, rows in groups]
    # split, not slices: the gradient of a slice is a tensor of zeros as large as the whole
    query, key, value = (_all_heads(states, query.shape[1]) for states in (query, key, value))
    parts = zip(*(states.squeeze(0).split(sizes, dim=1) for states in (query, key, value)), strict=True)
    mixed = []
    for (length, rows), (q, k, v) in zip(groups, parts, strict=True):
        out = _attend(_by_row(q, rows, length), _by_row(k, rows, length), _by_row(v, rows, length),
                      dropout, scaling, causal, sliding_window)  # fmt: skip
        mixed.append(out.permute(1, 2, 0, 3).reshape(rows * length, query.shape[1], query.shape[3]))
    return torch.cat(mixed).unsqueeze(0), None


def flash_kernel(kind: torch.dtype, dropout: float) -> Callable[..., torch.Tensor] | None:
    """The kernel for rows of any lengths on a card, or None; one without dropout is never taken where it is asked for.

    FlashAttention 2 if it is installed; else torch's own, which has no dropout.
    """
    import torch

    if kind not in (torch.bfloat16, torch.float16):
        return None
    if importlib.util.find_spec("flash_attn") is not None:
        return _flash_attention_2
    if dropout == 0 and importlib.util.find_spec("torch.nn.attention.varlen") is not None:
        return _torch_varlen
    return None


def _flash_attention_2(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    row_lengths: Sequence[int],
    dropout: float,
    scaling: float | None,
    causal: bool,
    window: int | None,
) -> torch.Tensor:
    from flash_attn import flash_attn_varlen_func

    q, k, v = (states.squeeze(0).transpose(0, 1) for states in (query, key, value))
    bounds, longest = _bounds(row_lengths, query), max(row_lengths)
    mixed: torch.Tensor = flash_attn_varlen_func(
        q, k, v, bounds, bounds, longest, longest,
        dropout_p=dropout, softmax_scale=scaling, causal=causal, window_size=_flash_window(window),
    )  # fmt: skip
    return mixed.unsqueeze(0)


def _torch_varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    row_lengths: Sequence[int],
    _dropout: float,
    scaling: float | None,
    causal: bool,
    window: int | None,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (states.squeeze(0).transpose(0, 1) for states in (query, key, value))
    bounds, longest = _bounds(row_lengths, query), max(row_lengths)
    before, behind = _flash_window(window)
    mixed: Any = varlen_attn(
        q, k, v, bounds, bounds, longest, longest,
        scale=scaling, window_size=(before, 0 if causal else behind), enable_gqa=k.shape[1] != q.shape[1],
    )  # fmt: skip
    unpadded: torch.Tensor = mixed.unsqueeze(0)
    return unpadded


def _bounds(row_lengths: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """Where each row begins, and where the last ends; int32, shape (rows + 1,)."""
    import torch

    return torch.tensor([0, *itertools.accumulate(row_lengths)], dtype=torch.int32, device=like.device)


def _flash_window(window: int | None) -> tuple[int, int]:
    """Positions that are seen on each side; -1 is all. A window of w sees those nearer than w."""
    return (-1, -1) if window is None else (window - 1, window - 1)


def _plain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    row_lengths: tuple[int, ...],
    dropout: float,
    scaling: float | None,
    causal: bool,
    window: int | None,
) -> torch.Tensor:
    """By plain matrix products; shapes as in :func:`unpadded_attention`."""
    import torch

    from trainwright.model.row_attention import SINGLE_PRECISION_TOKENS, RowAttention, layout_of

    heads, size = query.shape[1], query.shape[3]
    half = query.dtype in (torch.bfloat16, torch.float16)
    kind = torch.float32 if half and max(row_lengths) <= SINGLE_PRECISION_TOKENS else value.dtype
    tokens_first = (_all_heads(states, heads).squeeze(0).transpose(0, 1).to(kind) for states in (query, key, value))
    scale = size**-0.5 if scaling is None else scaling
    layout = layout_of(row_lengths, heads)
    mixed: torch.Tensor = RowAttention.apply(*tokens_first, layout, scale, dropout, causal, window)
    return mixed.to(value.dtype).unsqueeze(0)


def _all_heads(states: torch.Tensor, heads: int) -> torch.Tensor:
    """Where several query heads share a key head: that head once for each of them."""
    return states if states.shape[1] == heads else states.repeat_interleave(heads // states.shape[1], dim=1)


def _by_row(states: torch.Tensor, rows: int, length: int) -> torch.Tensor:
    """(heads, rows x length, size) as (heads, rows, length, size); a view."""
    return states.view(states.shape[0], rows, length, states.shape[2])


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout: float,
    scaling: float | None,
    causal: bool,
    window: int | None,
) -> torch.Tensor:
    """By torch's fused kernel, within rows of equal length. Shapes (heads, rows, length, size)."""
    from torch.nn import functional

    from trainwright.model.row_attention import visible

    mask = visible(q.shape[2], causal, window, q.device)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling)
