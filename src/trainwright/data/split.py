"""Hold out a share of the rows: by label, by seed, and equal texts on one side."""

from __future__ import annotations

import numpy as np

from trainwright.errors import DataError
from trainwright.messages.text import _
from trainwright.units import format_share


def hold_out(
    hashes: np.ndarray, labels: np.ndarray, free: np.ndarray, share: float, seed: int, purpose: str
) -> np.ndarray:
    """Choose the rows to hold out of a file; a function of texts, labels and seed alone.

    Rows with equal texts form a group, which stays on one side. Each class gives its share, met as closely as its
    groups allow; the class of a group is the most frequent label in it. At least one group with each class stays.

    Args:
        hashes: A hash for each group of equal texts, uint64, (rows,).
        labels: Label ids, int32, (rows,).
        free: Rows that may be held out or trained on, bool, (rows,); equal texts must agree.
        share: Of all rows of the file that can be used, between 0 and 1.
        seed: The recipe's seed.
        purpose: "validation" or "test", so that both draw differently.

    Returns:
        The rows held out, bool, (rows,).

    Raises:
        DataError: There are too few rows for this share.
    """
    rows = np.flatnonzero(free)
    texts, group_of_row, sizes = np.unique(hashes[rows], return_inverse=True, return_counts=True)
    kind_of_group = _most_frequent(group_of_row, labels[rows], len(texts))
    rank = np.argsort(_scramble(texts, seed, purpose), kind="stable")
    available = ~_kept_for_training(group_of_row, labels[rows], rank)
    wanted = _quotas(np.bincount(kind_of_group, weights=sizes).astype(np.int64), share)
    chosen = np.zeros(len(texts), dtype=np.bool_)
    for kind, quota in enumerate(wanted):
        candidates = rank[(kind_of_group[rank] == kind) & available[rank]]
        chosen[_fill(candidates, sizes, int(quota))] = True
    held = np.zeros(len(hashes), dtype=np.bool_)
    held[rows] = chosen[group_of_row]
    if not held.any():
        raise DataError(
            _("{share} of {rows} rows leaves no row for {purpose}.").format(
                share=format_share(share), rows=len(rows), purpose=purpose
            ),
            _("Ask for a larger share, or name a file: data.{purpose}.").format(purpose=purpose),
        )
    return held


def _most_frequent(group_of_row: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    """The most frequent label of each group, the lowest id among equals."""
    classes = int(labels.max()) + 1
    pairs, counts = np.unique(group_of_row.astype(np.int64) * classes + labels, return_counts=True)
    group, label = np.divmod(pairs, classes)
    order = np.lexsort((label, -counts, group))
    first = np.searchsorted(group[order], np.arange(groups))  # every group has a row
    return label[order][first]


def _scramble(texts: np.ndarray, seed: int, purpose: str) -> np.ndarray:
    """A pseudo-random number for each text: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).

    Arithmetic of our own rather than a random generator, whose stream may change with the version of numpy; and a
    text keeps its number when other rows come or go, so that few rows change sides.
    """
    salt = int.from_bytes(purpose.encode()[:8], "little") ^ (seed * 0x9E3779B97F4A7C15)
    mixed = texts ^ np.uint64(salt % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _kept_for_training(group_of_row: np.ndarray, labels: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Groups that stay in training so that every class is there: for each class the last one in the drawn order."""
    place = np.empty(len(rank), dtype=np.int64)
    place[rank] = np.arange(len(rank))
    last = np.full(int(labels.max()) + 1, -1, dtype=np.int64)
    np.maximum.at(last, labels, place[group_of_row])
    kept = np.zeros(len(rank), dtype=np.bool_)
    kept[rank[last[last >= 0]]] = True
    return kept


def _quotas(counts: np.ndarray, share: float) -> np.ndarray:
    """Rows that each class gives: its share rounded down, and the largest remainders until the total is met."""
    exact = counts * share
    quotas = np.floor(exact).astype(np.int64)
    missing = round(float(counts.sum()) * share) - int(quotas.sum())
    quotas[np.argsort(quotas - exact, kind="stable")[: max(0, missing)]] += 1
    return quotas


def _fill(candidates: np.ndarray, sizes: np.ndarray, quota: int) -> np.ndarray:
    """The first groups that fit the quota, then smaller ones into the rest."""
    whole = int(np.searchsorted(np.cumsum(sizes[candidates]), quota, side="right"))
    chosen = list(candidates[:whole])
    room = quota - int(sizes[candidates[:whole]].sum())
    for group in candidates[whole:]:
        if room == 0:
            break
        if sizes[group] <= room:
            chosen.append(group)
            room -= int(sizes[group])
    return np.array(chosen, dtype=np.int64)
