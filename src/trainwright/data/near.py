"""Copies that differ only in case, spaces or the width of characters: inside a split, and between splits.

They are the same text to a reader, and nearly so to a model, but no exact comparison sees them.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from trainwright.data.audit import Part

EXAMPLES = 5


def loosely(text: str) -> str:
    """A text without what does not matter: NFKC (full width becomes half width), case-folded, no white space.

    Source: Unicode Standard Annex 15, compatibility normalisation; chapter 3.13, caseless matching.
    """
    return "".join((text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold().split())


def near_duplicates(part: Part, filled: np.ndarray) -> dict[str, Any]:
    """Texts of a split that are loosely equal to an earlier, different one; and loose copies with other labels.

    Args:
        part: The split.
        filled: Places of its rows with a text.
    """
    loose, exact, labels = part.loose()[filled], part.hashes()[filled], part.labels[filled]
    _texts, first = np.unique(exact, return_index=True)
    first = np.sort(first)  # where each text stands first
    groups, start, sizes = np.unique(loose[first], return_index=True, return_counts=True)
    shown = np.sort(start[sizes > 1])[:EXAMPLES]
    copies = [first[loose[first] == loose[first[place]]][:2] for place in shown]
    return {
        "texts": len(first) - len(groups),
        "torn": _torn(loose, labels) - _torn_exactly(exact, loose, labels),
        "examples": [[_shown(part, int(filled[place])) for place in pair] for pair in copies],
    }


def near_overlap(part: Part, filled: np.ndarray, train: Part) -> dict[str, Any]:
    """Rows that are loosely equal to a training row, but no exact copy of one."""
    loose = part.loose()[filled]
    known = train.loose()
    near = np.flatnonzero(np.isin(loose, known) & ~np.isin(part.hashes()[filled], train.hashes()))
    order = np.argsort(known, kind="stable")
    examples = []
    for place in near[:EXAMPLES]:
        twin = int(order[np.searchsorted(known, loose[place], sorter=order)])
        examples.append([_shown(part, int(filled[place])), _shown(train, twin)])
    return {"rows": len(near), "share": len(near) / max(1, len(part.rows)), "examples": examples}


def together(exact: np.ndarray, loose: np.ndarray) -> np.ndarray:
    """One hash for all texts that are loosely equal: the smallest of their own.

    A text without a loose copy keeps its own hash, and with it its place in any split drawn by hashes.
    """
    groups, group_of_row = np.unique(loose, return_inverse=True)
    smallest = np.full(len(groups), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(smallest, group_of_row, exact)
    return smallest[group_of_row]


def _torn(groups: np.ndarray, labels: np.ndarray) -> int:
    """Groups with more than one label."""
    pairs = np.unique(np.stack([groups, labels.astype(np.uint64)], axis=1), axis=0)
    return int((np.unique(pairs[:, 0], return_counts=True)[1] > 1).sum())


def _torn_exactly(exact: np.ndarray, loose: np.ndarray, labels: np.ndarray) -> int:
    """Loose groups in which a single exact text has several labels, which is told elsewhere."""
    triples = np.unique(np.stack([loose, exact, labels.astype(np.uint64)], axis=1), axis=0)
    texts, counts = np.unique(triples[:, :2], axis=0, return_counts=True)
    return len(np.unique(texts[counts > 1, 0]))


def _shown(part: Part, place: int) -> dict[str, Any]:
    return {"line": int(part.lines()[place]), "text": part.snippet(place)}
