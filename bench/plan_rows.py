"""The rows of a configuration of plan_configs.json; light, since the page about it is made from them too."""

from __future__ import annotations

import random
from typing import Any


def lengths_of(one: dict[str, Any]) -> list[int]:
    """Tokens of each row of a micro-batch."""
    rng = random.Random(one["name"])
    lengths: list[int] = []
    while True:
        even = one["rows"] == "even" or not lengths
        length = one["longest"] if even else rng.randint(one["longest"] // 2, one["longest"])
        if lengths and size_of([*lengths, length], one) > one["tokens"]:
            return lengths
        lengths.append(length)


def size_of(lengths: list[int], one: dict[str, Any]) -> int:
    """Tokens of a micro-batch: padded where layers are recomputed, else the real ones."""
    return len(lengths) * max(lengths) if one["recompute"] else sum(lengths)
