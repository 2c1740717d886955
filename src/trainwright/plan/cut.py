"""Cut the examples of one optimizer step into micro-batches. A cut changes time and memory, never the gradient."""

from __future__ import annotations

from collections.abc import Sequence


def cut_by_tokens(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Cut positions 0..n-1 into micro-batches whose padded size stays within a token budget.

    The longest rows come first, so that a budget which does not fit is found out at once, and rows of like length
    share a micro-batch, so that little is padded. A row longer than the budget gets a micro-batch of its own.

    Args:
        lengths: Tokens of each row, shape (n,).
        budget: Padded tokens (longest row x rows) that one micro-batch may hold.

    Returns:
        Lists of positions; together they hold every position once.
    """
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    pieces = []
    start = 0
    while start < len(order):
        width = max(1, lengths[order[start]])
        count = max(1, budget // width)
        pieces.append(order[start : start + count])
        start += count
    return pieces


def padded_tokens(lengths: Sequence[int], pieces: list[list[int]]) -> int:
    """Tokens that the micro-batches hold when each is padded to its longest row."""
    return sum(len(piece) * max(lengths[position] for position in piece) for piece in pieces)
