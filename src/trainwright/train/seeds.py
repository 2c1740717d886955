"""Random numbers as a function of what they are for, not of how many were drawn before.

Order and masking depend on (seed, epoch, example), dropout on (seed, step, micro-batch). A run that is resumed, or
whose loader has another number of workers, therefore draws the same.
"""

from __future__ import annotations

import hashlib

import numpy as np


def seed_for(*parts: int | str) -> int:
    """A 63-bit seed for the named purpose; equal parts give equal seeds on every machine and Python.

    Args:
        parts: For example ``("dropout", seed, step, micro_batch, rank)``.
    """
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def shuffled(rows: int, seed: int, epoch: int) -> np.ndarray:
    """The order in which an epoch visits the rows: a permutation of 0..rows-1, shape (rows,)."""
    return np.random.default_rng(seed_for("order", seed, epoch)).permutation(rows)
