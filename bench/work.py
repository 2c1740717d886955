"""The work that benchmarks do: rows of token ids with labels, and the model that learns from them."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
EXAMPLES = 64  # of one optimizer step


@dataclass(frozen=True)
class Work:
    """A set of texts and the longest row in tokens."""

    name: str
    source: str
    max_length: int
    steps: int  # timed in one round, after one to warm up


WORKS = {
    "short": Work("short", "snips", 128, 6),
    "sentences": Work("sentences", "sentence_polarity", 128, 5),
    "mixed": Work("mixed", "docstrings", 128, 3),
    "long": Work("long", "movie_reviews_long", 512, 1),
}


def rows_of(work: Work, rows: int = 1500) -> tuple[list[dict[str, Any]], int]:
    """Tokenised rows in a fixed random order, and the number of classes."""
    from transformers import AutoTokenizer

    texts, labels = _texts(work.source)
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    order = order[:rows]
    tokenizer = AutoTokenizer.from_pretrained(encoder())
    ids = tokenizer([texts[place] for place in order], truncation=True, max_length=work.max_length)["input_ids"]
    names = sorted(set(labels))
    made = [{"input_ids": one, "labels": names.index(labels[place])} for one, place in zip(ids, order, strict=True)]
    return made, len(names)


def encoder() -> str:
    """The packaged encoder's folder."""
    from trainwright.model.packaged import packaged_folder

    return str(packaged_folder("packaged:all-minilm-l6-v2"))


def model_of(name: str, classes: int) -> Any:
    """``minilm``: the packaged encoder; ``bert4``: four layers of BERT-base's size, drawn at random."""
    import torch
    from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    if name == "minilm":
        return AutoModelForSequenceClassification.from_pretrained(encoder(), num_labels=classes, dtype="float32")
    return BertForSequenceClassification(BertConfig(num_hidden_layers=4, num_labels=classes))


def _texts(source: str) -> tuple[list[str], list[str]]:
    if source == "docstrings":
        import csv

        from trainwright.data.docstrings import write_docstrings

        path = Path(tempfile.gettempdir()) / "trainwright-bench-docstrings.csv"
        if not path.exists():
            write_docstrings(path, rows=1500)
        with open(path, newline="", encoding="utf-8") as file:
            rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
    else:
        path = SHARED / source / "train.jsonl"
        rows = [(row["text"], row["label"]) for row in map(json.loads, path.read_text().splitlines())]
    return [text for text, _label in rows], [str(label) for _text, label in rows]
