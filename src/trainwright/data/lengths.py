"""Lengths of rows: percentiles, what truncation removes, and the max_length that fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainwright.data.request import DataRequest
from trainwright.errors import ModelError
from trainwright.messages.text import _
from trainwright.records import Choice
from trainwright.units import format_share

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
MULTIPLE = 8  # matrix units of cards work on blocks of 8
SHORTEST = 16  # an automatic max_length is at least this; shorter saves nothing
LONGEST = 512  # and at most this: BERT's own length, beyond which attention's cost outgrows the rest

Histogram = list[list[int]]  # [[length, rows], ...] by length


def check_max_length(request: DataRequest) -> None:
    """Check a max_length that was asked for against the model.

    Raises:
        ModelError: The model allows less.
    """
    asked, allowed = request.max_length, request.model_max_length
    if isinstance(asked, int) and allowed is not None and asked > allowed:
        raise ModelError(
            _("data.max_length: {asked} tokens are requested, but the model allows {allowed}.").format(
                asked=asked, allowed=allowed
            ),
            _("Set data.max_length to {allowed} or less, or choose a model for longer texts.").format(allowed=allowed),
        )


def max_length_for(request: DataRequest, train: Histogram, specials: int) -> Choice:
    """The max_length in force: the one asked for, or one that holds 99% of the training rows whole.

    Args:
        request: What is asked for.
        train: Training rows by length, special tokens included.
        specials: Special tokens of a row.

    Raises:
        ModelError: No token of the text would be left.
    """
    if isinstance(request.max_length, int):
        chosen = Choice(request.max_length, "recipe")
    else:
        chosen = _automatic(percentiles(train)["p99"] or SHORTEST, request.model_max_length)
    if chosen.value <= specials:
        text = _("max_length {length} leaves no room for text beside {specials} special tokens.")
        raise ModelError(text.format(length=chosen.value, specials=specials), _("Set data.max_length higher."))
    return chosen


def _automatic(p99: int, allowed: int | None) -> Choice:
    whole = max(SHORTEST, -(-p99 // MULTIPLE) * MULTIPLE)
    limit = LONGEST if allowed is None else min(LONGEST, allowed)
    share = format_share(PERCENTILES["p99"], 0)
    if whole <= limit:
        because = _("{share} of the training rows have at most {tokens} tokens").format(share=share, tokens=p99)
        return Choice(whole, "chosen", because)
    because = _("{share} of the training rows have at most {tokens} tokens; more than {limit} only if asked for")
    if limit == allowed:
        because = _("{share} of the training rows have at most {tokens} tokens, but the model allows {limit}")
    return Choice(limit, "chosen", because.format(share=share, tokens=p99, limit=limit))


def histogram_of(lengths: np.ndarray) -> Histogram:
    """Rows by length, for lengths that occur."""
    values, counts = np.unique(lengths, return_counts=True)
    return np.stack([values, counts], axis=1).tolist()


def percentiles(histogram: Histogram) -> dict[str, int | None]:
    """For each percentile the smallest length that this share of the rows does not exceed; None without rows."""
    if not histogram:
        return dict.fromkeys(PERCENTILES)
    lengths, rows = np.array(histogram).T
    reached = np.cumsum(rows)
    needed = {name: np.ceil(share * reached[-1] - 1e-9) for name, share in PERCENTILES.items()}
    return {name: int(lengths[np.searchsorted(reached, count)]) for name, count in needed.items()}


def longest(lengths: np.ndarray, lines: np.ndarray) -> dict[str, int | None]:
    """The longest row and its line."""
    if not len(lengths):
        return {"max": None, "max_line": None}
    place = int(lengths.argmax())
    return {"max": int(lengths[place]), "max_line": int(lines[place])}


def truncation(histogram: Histogram, max_length: int, specials: int) -> dict[str, Any]:
    """What a ``max_length`` removes. Lengths are with special tokens, which are never removed.

    Returns:
        Rows cut and their share; tokens removed and their share of all tokens of the texts.
    """
    lengths, rows = np.array(histogram or [[0, 0]], dtype=np.int64).T
    lost = np.maximum(0, lengths - max_length)
    all_rows, all_tokens = int(rows.sum()), int(((lengths - specials) * rows).sum())
    cut_rows, cut_tokens = int(rows[lost > 0].sum()), int((lost * rows).sum())
    return {
        "max_length": max_length,
        "rows": cut_rows,
        "rows_share": cut_rows / max(1, all_rows),
        "tokens": cut_tokens,
        "tokens_share": cut_tokens / max(1, all_tokens),
    }
