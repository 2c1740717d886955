"""Predict with a run's model: texts in, labels and probabilities out, in the same order, memory flat in rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging as transformers_logging

from trainwright.errors import GaveUp, ModelError, UserError
from trainwright.messages.text import _
from trainwright.model import remote_code
from trainwright.model.build import load_tokenizer
from trainwright.model.locate import locate
from trainwright.model.memory import free_unused, is_out_of_memory
from trainwright.model.unpad import Unpadded, problem_of
from trainwright.plan.cut import cut_by_tokens
from trainwright.runs.folder import RunFolder
from trainwright.serve.table import Table

CHUNK = 1024  # texts that are read, sorted by length and cut at once
CPU_TOKENS, GPU_TOKENS = 4096, 16384  # padded tokens of a batch
DEFAULT_LENGTH = 512  # where neither run, tokenizer nor model name a limit

Progress = Callable[[int, int], None]


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
        found = locate(str(folder))  # without a tokenizer transformers makes an empty one, to which no word is known
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.tokenizer = load_tokenizer(folder)
        self.model = (
            AutoModelForSequenceClassification.from_pretrained(
                folder, dtype="float32", trust_remote_code=remote_code.allowed()
            )
            .to(self.device)
            .eval()
        )
        config = self.model.config
        self.labels = [config.id2label[number] for number in range(config.num_labels)]
        limits = [max_length, found.max_length, _asked_limit(self.tokenizer)]
        self.max_length = min([limit for limit in limits if limit] or [DEFAULT_LENGTH])
        self.fits: int | None = None  # padded tokens of a batch, where memory once ran out
        self.largest_done = 0  # tokens of the longest row that did fit
        self.unpadded = None if problem_of(self.model) else Unpadded(self.model)

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

    @torch.inference_mode()
    def _logits(self, rows: list[dict[str, list[int]]]) -> torch.Tensor:
        """Packed where the model is exact that way, else padded; shape (rows, classes)."""
        if self.unpadded is None:
            padded = self.tokenizer.pad(rows, return_tensors="pt").to(self.device)
            logits: torch.Tensor = self.model(**padded).logits
            return logits
        batch = self.unpadded.batch(rows)
        moved = {name: value.to(self.device) if hasattr(value, "to") else value for name, value in batch.items()}
        with self.unpadded.running(moved.pop("kept")):
            logits = self.model(**moved).logits
        return logits

    def _survived(self, rows: list[list[int]], piece: list[int]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """The places of a batch with their logits; one that does not fit into memory is halved and done again.

        Raises:
            GaveUp: A single row does not fit.
        """
        why = ""
        try:
            logits = self._logits([{"input_ids": rows[place]} for place in piece])
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            why = str(error) or type(error).__name__
        if not why:
            self.largest_done = max(self.largest_done, max(len(rows[place]) for place in piece))
            yield piece, logits
            return
        free_unused()  # outside the except clause: its traceback held the tensors of the failed attempt
        longest = max(len(rows[place]) for place in piece)
        if len(piece) == 1:
            raise _does_not_fit(longest, self.largest_done)
        self.fits = min(
            self.fits or longest * len(piece), max(1, longest * len(piece) // 2)
        )  # the chunks to come are cut so from the start
        middle = len(piece) // 2
        for part in (piece[:middle], piece[middle:]):
            yield from self._survived(rows, part)

    def _chunk(self, texts: list[str]) -> Iterator[Prediction]:
        # Half a surrogate pair is no character, and tokenizers take none: it is read as a question mark.
        texts = [text.encode(errors="replace").decode() for text in texts]
        rows = self.tokenizer(texts, truncation=True, max_length=self.max_length)["input_ids"]
        probabilities = np.empty((len(texts), len(self.labels)), dtype=np.float32)
        budget = CPU_TOKENS if self.device.type == "cpu" else GPU_TOKENS
        for piece in cut_by_tokens([len(row) for row in rows], min(budget, self.fits or budget)):
            for part, logits in self._survived(rows, piece):
                probabilities[part] = torch.softmax(logits.float(), dim=-1).cpu().numpy()
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

    Every row is kept byte for byte; predicted, confidence and the probability of each label are added.

    Args:
        target: By default ``NAME.predictions.ENDING`` beside the source.
        column: Column with the text; by default the recipe's.
        force: Replace an existing target.
        progress: Told the number of rows done and of rows in all.

    Raises:
        UserError: The target exists, or is the source.
        DataError: The source is missing, broken or of another kind, has no such column, or has one of those added.
        ModelError: The run has no model yet.
    """
    target = target or source.with_name(f"{source.stem}.predictions{source.suffix}")
    _refuse_existing(source, target, force)
    named = folder.resolved().get("data.text")
    table = Table(source, column or (str(named.value) if named else "text"))
    predictor = predictor_of(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            empty = _write_predictions(predictor, table, file, progress or (lambda _done, _rows: None))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return WrittenFile(target, table.rows, empty)


def _write_predictions(predictor: Predictor, table: Table, file: TextIO, progress: Progress) -> int:
    """Write the table with predictions; returns the number of rows without text."""
    pieces = table.pieces()
    _text, head = next(pieces)
    file.write(table.head_with_names(head, predictor.labels))
    rows, ahead = tee(pieces)  # texts are read ahead of their rows, at most a chunk
    empty = 0
    predictions = predictor.stream(text for text, _lines in ahead)
    for done, ((text, lines), one) in enumerate(zip(rows, predictions, strict=True), 1):
        file.write(table.row_with_prediction(lines, one.label, one.probabilities))
        empty += not text.strip()
        progress(done, table.rows)
    return empty


def _refuse_existing(source: Path, target: Path, force: bool) -> None:
    message = _("{file} exists and is left as it is.").format(file=target)
    if target.is_dir() or (target.exists() and target.samefile(source)):
        raise UserError(message, _("Choose another name with -o."))
    if target.exists() and not force:
        raise UserError(message, _("Choose another name with -o, or replace it with --force."))


def _does_not_fit(tokens: int, largest_done: int) -> GaveUp:
    message = _("A text of {tokens} tokens does not fit into memory, even by itself.").format(tokens=tokens)
    if largest_done:
        return GaveUp(message, _("Texts of {tokens} tokens did fit: shorten it to that.").format(tokens=largest_done))
    return GaveUp(message, _("Take a machine with more memory, or a smaller model."))


def _asked_limit(tokenizer: Any) -> int | None:
    """The tokenizer's own limit; the huge number that stands for none is None."""
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit and limit < 10**6 else None
