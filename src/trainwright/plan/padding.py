"""How much is padded where rows are not packed, from the lengths of the rows alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

from trainwright.plan.cut import cut_by_tokens, padded_tokens

STEPS = 50  # drawn; the mean of their padding is known to a percent


def padding_of(lengths: Sequence[tuple[int, int]], batch_size: int, tokens: int) -> float:
    """Padded tokens over real ones of steps of random rows, each cut as training cuts it.

    Args:
        lengths: (tokens of a row, number of such rows).
        batch_size: Rows of a step.
        tokens: Padded tokens that a micro-batch may hold.
    """
    rng = random.Random(0)
    sizes = [length for length, _rows in lengths]
    reached = list(itertools.accumulate(rows for _length, rows in lengths))
    padded = real = 0
    for _step in range(STEPS):
        drawn = rng.choices(sizes, cum_weights=reached, k=batch_size)
        padded += padded_tokens(drawn, cut_by_tokens(drawn, tokens))
        real += sum(drawn)
    return padded / real
