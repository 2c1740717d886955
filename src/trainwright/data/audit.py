"""Facts about the rows of each split: counts, repeats, contradictions, overlap, labels, lengths.

Facts are numbers and examples with their lines; what they mean is judged in findings.py, anew at each start, so that a
cached start speaks the language of its user and judges the ``max_length`` in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trainwright.data.labels import Labels
from trainwright.data.lengths import histogram_of, longest, percentiles
from trainwright.data.near import near_duplicates, near_overlap
from trainwright.data.rows import RowTable
from trainwright.data.store import TextRows

EXAMPLES = 5  # of each kind; enough to see a pattern
LINES = 10  # lines named in a list
SNIPPET = 80  # characters of a text shown


@dataclass
class Part:
    """A split: some rows of a file.

    Attributes:
        name: train, validation or test.
        table: The file's rows.
        texts: The file's texts.
        rows: Which of them, ascending, int64.
        labels: Id of the value that each is labelled with, int32.
        blank: Rows of the file without text, whether kept or dropped, int64.
        dropped: How many of those were left out.
        whole: The file has no other split before this one, so what was noticed while reading it is told here.
    """

    name: str
    table: RowTable
    texts: TextRows
    rows: np.ndarray
    labels: np.ndarray
    blank: np.ndarray
    dropped: int
    whole: bool

    def hashes(self) -> np.ndarray:
        return self.table.hashes[self.rows]

    def loose(self) -> np.ndarray:
        return self.table.loose[self.rows]

    def lines(self) -> np.ndarray:
        return self.table.lines[self.rows]

    def snippet(self, place: int) -> str:
        """The start of a row's text, or of both its texts, on one line."""
        row = int(self.rows[place])
        second = self.texts.second(row)
        shown = [self.texts[row][:SNIPPET]] + ([second[:SNIPPET]] if second is not None else [])
        return " | ".join(" ".join(text.split()) for text in shown)


def row_facts(part: Part, train: Part, labels: Labels) -> dict[str, Any]:
    """What can be told of a split before tokenising.

    Args:
        part: The split.
        train: The training split, to compare with; may be the same.
        labels: What labels mean.
    """
    filled = np.flatnonzero(~part.table.blank[part.rows])  # blank rows are told apart, not called copies
    facts: dict[str, Any] = {
        "rows": len(part.rows),
        "label_kind": labels.kind,
        "rows_dropped": part.dropped,
        "empty": {"count": len(part.blank), "lines": part.table.lines[part.blank[:LINES]].tolist()},
        "duplicates": duplicates(part, filled),
        "near_duplicates": near_duplicates(part, filled),
        "conflicts": conflicts(part, filled, labels.values),
        "labels": dict(zip(labels.names, labels.rows_by_name(part.labels), strict=True)),
        "characters": character_facts(part),
        "longest": longest_rows(part),
    }
    if part is not train:
        facts["overlap"] = overlap(part, filled, train, labels.values)
        facts["near_overlap"] = near_overlap(part, filled, train)
    if labels.kind == "score":
        facts["scores"] = score_facts(labels.numbers[part.labels])
    if part.whole:
        table = part.table
        facts["reading"] = table.noticed
        facts["replacement"] = {"rows": table.replaced_rows, "lines": table.replaced[:LINES]}
    return facts


def duplicates(part: Part, filled: np.ndarray) -> dict[str, Any]:
    """Rows that repeat the text of an earlier row of the split, and the texts repeated most often."""
    hashes = part.hashes()[filled]
    texts, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    most = np.lexsort((first, -counts))[:EXAMPLES]
    examples = [
        {
            "text": part.snippet(int(filled[first[text]])),
            "count": int(counts[text]),
            "lines": part.lines()[filled[hashes == texts[text]]][:LINES].tolist(),
        }
        for text in most
        if counts[text] > 1
    ]
    return {"rows": len(hashes) - len(texts), "texts": int((counts > 1).sum()), "examples": examples}


def conflicts(part: Part, filled: np.ndarray, names: list[str]) -> dict[str, Any]:
    """Texts that stand in the split with more than one label."""
    hashes, labels = part.hashes()[filled], part.labels[filled]
    texts, group, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    lowest, highest = np.full(len(texts), len(names)), np.full(len(texts), -1)
    np.minimum.at(lowest, group, labels)
    np.maximum.at(highest, group, labels)
    torn = np.flatnonzero(lowest < highest)
    rows = np.flatnonzero((lowest < highest)[group])
    seen = list(dict.fromkeys(group[rows].tolist()))[:EXAMPLES]
    return {
        "texts": len(torn),
        "rows": int(counts[torn].sum()),
        "examples": [_conflict(part, filled[group == text], names) for text in seen],
    }


def _conflict(part: Part, places: np.ndarray, names: list[str]) -> dict[str, Any]:
    lines: dict[str, list[int]] = {}
    for place in places:
        lines.setdefault(names[int(part.labels[place])], []).append(int(part.table.lines[part.rows[place]]))
    return {"text": part.snippet(int(places[0])), "lines": {name: of[:LINES] for name, of in lines.items()}}


def overlap(part: Part, filled: np.ndarray, train: Part, names: list[str]) -> dict[str, Any]:
    """Rows whose very text is in the training rows too, and how many of them have another label there."""
    hashes, labels = part.hashes()[filled], part.labels[filled]
    known = train.hashes()
    shared = np.flatnonzero(np.isin(hashes, known))
    agreeing = np.isin(_pairs(hashes[shared], labels[shared]), _pairs(known, train.labels))
    order = np.argsort(known, kind="stable")
    examples = []
    for place in shared[:EXAMPLES]:
        twin = int(order[np.searchsorted(known, hashes[place], sorter=order)])
        example = {"text": part.snippet(int(filled[place])), "line": int(part.lines()[filled[place]])}
        example |= {"train_line": int(train.lines()[twin]), "train_label": names[int(train.labels[twin])]}
        examples.append(example | {"label": names[int(labels[place])]})
    return {
        "rows": len(shared),
        "share": len(shared) / max(1, len(part.rows)),
        "other_label": int((~agreeing).sum()),
        "examples": examples,
    }


def _pairs(hashes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One number for a text with its label (a multiplicative hash; the constant is 2**64 over the golden ratio)."""
    return hashes ^ ((labels.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def score_facts(scores: np.ndarray) -> dict[str, Any]:
    """Lowest, mean and highest score, their standard deviation, and how many different ones there are."""
    return {
        "lowest": float(scores.min()),
        "mean": float(scores.mean()),
        "highest": float(scores.max()),
        "deviation": float(scores.std()),
        "different": len(np.unique(scores)),
    }


def character_facts(part: Part) -> dict[str, Any]:
    """Percentiles of text length in characters, and the longest with its line."""
    lengths = part.table.characters[part.rows]
    return percentiles(histogram_of(lengths)) | longest(lengths, part.lines())


def longest_rows(part: Part) -> list[dict[str, Any]]:
    """The longest texts, with how they begin."""
    lengths = part.table.characters[part.rows]
    order = np.argsort(-lengths.astype(np.int64), kind="stable")[:EXAMPLES].tolist()
    return [
        {"line": int(part.lines()[place]), "characters": int(lengths[place]), "text": part.snippet(place)}
        for place in order
    ]
