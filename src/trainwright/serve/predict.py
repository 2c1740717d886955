"""Predict with a run's model: texts in, labels and probabilities out, in the same order, memory flat in rows."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging as transformers_logging

from trainwright.errors import DataError, ModelError, UserError
from trainwright.messages.text import _
from trainwright.model.build import load_tokenizer
from trainwright.model.locate import position_limit
from trainwright.plan.cut import cut_by_tokens
from trainwright.runs.folder import RunFolder

CHUNK = 1024  # texts that are read, sorted by length and cut at once
CPU_TOKENS, GPU_TOKENS = 4096, 16384  # padded tokens of a batch
DEFAULT_LENGTH = 512  # where neither run, tokenizer nor model name a limit
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet runs a cell that begins so

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Prediction:
    """What the model says of one text."""

    label: str
    probabilities: dict[str, float]

    @property
    def confidence(self) -> float:
        return self.probabilities[self.label]


@dataclass(frozen=True)
class WrittenFile:
    """A file of predictions.

    Attributes:
        rows: Rows written, as many as were read.
        empty: Rows without text; they have a prediction too.
    """

    path: Path
    rows: int
    empty: int


class Predictor:
    """A trained classifier, loaded once.

    Args:
        folder: Model folder with tokenizer.
        max_length: Longest text in tokens; longer ones are cut at the end. By default what the model allows.
        device: cpu or cuda; by default cuda where there is a card.

    Raises:
        ModelError: The folder holds no usable model.
    """

    def __init__(self, folder: Path, max_length: int | None = None, device: str | None = None) -> None:
        if not (folder / "config.json").is_file():
            raise ModelError(
                _("There is no trained model in {folder}.").format(folder=folder),
                _("A run has one when it has finished; go on with a stopped one: trainwright resume RUN"),
            )
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.tokenizer = load_tokenizer(folder)
        self.model = AutoModelForSequenceClassification.from_pretrained(folder, dtype="float32").to(self.device).eval()
        config = self.model.config
        self.labels = [config.id2label[number] for number in range(config.num_labels)]
        limits = [max_length, position_limit(config.to_dict()), _asked_limit(self.tokenizer)]
        self.max_length = min([limit for limit in limits if limit] or [DEFAULT_LENGTH])

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """Predict some texts; the answers come in their order."""
        return list(self.stream(texts))

    def stream(self, texts: Iterable[str]) -> Iterator[Prediction]:
        """Predict texts as they come, a chunk at a time."""
        chunk: list[str] = []
        for text in texts:
            chunk.append(text)
            if len(chunk) == CHUNK:
                yield from self._chunk(chunk)
                chunk = []
        if chunk:
            yield from self._chunk(chunk)

    def _chunk(self, texts: list[str]) -> Iterator[Prediction]:
        rows = self.tokenizer(texts, truncation=True, max_length=self.max_length)["input_ids"]
        probabilities = np.empty((len(texts), len(self.labels)), dtype=np.float32)
        budget = CPU_TOKENS if self.device.type == "cpu" else GPU_TOKENS
        for piece in cut_by_tokens([len(row) for row in rows], budget):
            batch = self.tokenizer.pad({"input_ids": [rows[place] for place in piece]}, return_tensors="pt")
            with torch.inference_mode():
                logits = self.model(**batch.to(self.device)).logits
            probabilities[piece] = torch.softmax(logits.float(), dim=-1).cpu().numpy()
        for row in probabilities:
            named = {label: float(value) for label, value in zip(self.labels, row, strict=True)}
            yield Prediction(self.labels[int(row.argmax())], named)


def predictor_of(folder: RunFolder) -> Predictor:
    """The predictor of a run's best model, with the length that it was trained with."""
    prepared = folder.prepared()
    return Predictor(folder.model, prepared.max_length if prepared else None)


def predict_texts(folder: RunFolder, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Predict some texts: for each, predicted, confidence and the probability of every label."""
    return [
        {"predicted": one.label, "confidence": one.confidence, "probability": one.probabilities}
        for one in predictor_of(folder).predict(texts)
    ]


def predict_file(
    folder: RunFolder,
    source: Path,
    target: Path | None = None,
    column: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> WrittenFile:
    """Predict a CSV, TSV or JSONL file into a file of the same kind, row for row.

    Every column is kept as it is; predicted, confidence and the probability of each label are added.

    Args:
        target: By default ``NAME.predictions.ENDING`` beside the source.
        column: Column with the text; by default the recipe's.
        force: Replace an existing target.
        progress: Told the number of rows done.

    Raises:
        UserError: The target exists.
        DataError: The source is missing, of another kind, or has no such column.
    """
    kind = source.suffix.lower()
    target = target or source.with_name(f"{source.stem}.predictions{source.suffix}")
    if not source.is_file():
        raise DataError(_("There is no file {file}.").format(file=source))
    if kind not in (".csv", ".tsv", ".jsonl", ".json"):
        raise DataError(
            _("{file} is none of CSV, TSV and JSONL.").format(file=source), _("Save it as one of them, in UTF-8.")
        )
    if target.exists() and not force:
        raise UserError(
            _("{file} exists and is left as it is.").format(file=target),
            _("Choose another name with -o, or replace it with --force."),
        )
    named = folder.resolved().get("data.text")
    text_column = column or (str(named.value) if named else "text")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    write = _predict_lines if kind in (".jsonl", ".json") else _predict_table
    try:
        rows, empty = write(predictor_of(folder), source, temporary, text_column, progress or (lambda _done: None))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return WrittenFile(target, rows, empty)


def _predict_table(
    predictor: Predictor, source: Path, target: Path, column: str, progress: Progress
) -> tuple[int, int]:
    delimiter = "\t" if source.suffix.lower() == ".tsv" else ","
    csv.field_size_limit(2**31 - 1)
    with (
        open(source, newline="", encoding="utf-8-sig") as reading,
        open(target, "w", newline="", encoding="utf-8") as writing,
    ):
        reader = csv.reader(reading, delimiter=delimiter)
        header = _first_row(reader, source)
        place = _column_place(header, column, source)
        writer = csv.writer(writing, delimiter=delimiter, lineterminator="\n")
        added = ["predicted", "confidence", *(f"probability_{label}" for label in predictor.labels)]
        _refuse_taken(header, added, source)
        writer.writerow([*header, *map(_no_formula, added)])
        counts = [0, 0]

        def cells(row: list[str], one: Prediction) -> list[str]:
            values = [f"{one.probabilities[label]:.6f}" for label in predictor.labels]
            return [*row, _no_formula(one.label), f"{one.confidence:.6f}", *values]

        rows = (_row_of(row, header, reader, source) for row in reader if row)
        for row, one in _with_predictions(predictor, rows, lambda row: row[place], counts, progress):
            writer.writerow(cells(row, one))
    return counts[0], counts[1]


def _predict_lines(
    predictor: Predictor, source: Path, target: Path, column: str, progress: Progress
) -> tuple[int, int]:
    with open(source, encoding="utf-8-sig") as reading, open(target, "w", encoding="utf-8") as writing:
        counts = [0, 0]
        rows = (_object_of(line, number, column, source) for number, line in enumerate(reading, 1) if line.strip())
        for row, one in _with_predictions(predictor, rows, lambda row: row[column], counts, progress):
            probability = {label: round(value, 6) for label, value in one.probabilities.items()}
            added = {"predicted": one.label, "confidence": round(one.confidence, 6), "probability": probability}
            writing.write(json.dumps(row | added, ensure_ascii=False) + "\n")
    return counts[0], counts[1]


def _with_predictions(
    predictor: Predictor, rows: Iterable[Any], text_of: Callable[[Any], Any], counts: list[int], progress: Progress
) -> Iterator[tuple[Any, Prediction]]:
    """Rows beside what the model says of them; counts becomes [rows, rows without text]."""
    waiting: list[Any] = []  # rows read ahead of their predictions: at most a chunk

    def texts() -> Iterator[str]:
        for row in rows:
            waiting.append(row)
            text = text_of(row)
            yield "" if text is None else str(text)

    for one in predictor.stream(texts()):
        row = waiting.pop(0)
        counts[0] += 1
        counts[1] += not str(text_of(row) or "").strip()
        progress(counts[0])
        yield row, one


def _first_row(reader: Any, source: Path) -> list[str]:
    header = next(reader, None)
    if not header:
        raise DataError(_("{file} is empty.").format(file=source))
    return header


def _column_place(header: list[str], column: str, source: Path) -> int:
    if column in header:
        return header.index(column)
    raise DataError(
        _("{file} has no column {column}; it has {columns}.").format(
            file=source, column=column, columns=", ".join(header)
        ),
        _("Name the column with the text: --column NAME"),
    )


def _refuse_taken(header: list[str], added: list[str], source: Path) -> None:
    taken = [name for name in added if name in header]
    if taken:
        raise DataError(
            _("{file} already has the columns {columns}.").format(file=source, columns=", ".join(taken)),
            _("Rename or remove them first."),
        )


def _row_of(row: list[str], header: list[str], reader: Any, source: Path) -> list[str]:
    if len(row) != len(header):
        raise DataError(
            _("{file}, line {line}: {seen} cells where the header has {expected}.").format(
                file=source, line=reader.line_num, seen=len(row), expected=len(header)
            ),
            _("Check commas and quotes there."),
        )
    return row


def _object_of(line: str, number: int, column: str, source: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        message = _("{file}, line {line}: this is not JSON: {error}.")
        raise DataError(message.format(file=source, line=number, error=error.msg)) from None
    if not isinstance(row, dict) or column not in row:
        keys = ", ".join(row) if isinstance(row, dict) else "-"
        raise DataError(
            _("{file}, line {line}: there is no key {column}; keys are {keys}.").format(
                file=source, line=number, column=column, keys=keys
            ),
            _("Name the key with the text: --column NAME"),
        )
    return row


def _no_formula(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def _asked_limit(tokenizer: Any) -> int | None:
    """The tokenizer's own limit; the huge number that stands for none is None."""
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit and limit < 10**6 else None
