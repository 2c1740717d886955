"""Predict with a run's model: texts or pairs in, labels or scores out, in the same order, memory flat in rows."""

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
from trainwright.model.ranks import rank_of, rank_probabilities
from trainwright.model.unpad import Unpadded, problem_of
from trainwright.plan.cut import cut_by_tokens
from trainwright.recipe.tasks import TASKS
from trainwright.runs.folder import RunFolder
from trainwright.serve.table import Table

CHUNK = 1024  # texts that are read, sorted by length and cut at once
CPU_TOKENS, GPU_TOKENS = 4096, 16384  # padded tokens of a batch
DEFAULT_LENGTH = 512  # where neither run, tokenizer nor model name a limit

Progress = Callable[[int, int], None]


Item = str | tuple[str, str]  # a text, or a pair


@dataclass(frozen=True)
class Prediction:
    """What the model says of one text or pair.

    Attributes:
        label: A label; a list of labels where a text has any number of them; a number where it has a score.
        probabilities: Of each label; none for scores.
    """

    label: str | list[str] | float
    probabilities: dict[str, float]

    @property
    def confidence(self) -> float | None:
        """Probability of the label; None where there is no single one."""
        return self.probabilities[self.label] if isinstance(self.label, str) else None

    def as_record(self) -> dict[str, Any]:
        """``predicted``, and where there are such, ``confidence`` and ``probability``."""
        record = {"predicted": self.label, "confidence": self.confidence, "probability": self.probabilities}
        return {name: value for name, value in record.items() if value is not None and value != {}}


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
    """A trained model with labels or scores of whole texts, loaded once.

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
        learnt = getattr(config, "trainwright", None) or {}
        self.kind = TASKS[learnt.get("task", "text-classification")].label
        self.threshold = float(learnt.get("threshold", 0.5))
        self.labels: list[str] = learnt.get("labels") or [
            config.id2label[number] for number in range(config.num_labels)
        ]
        limits = [max_length, found.max_length, _asked_limit(self.tokenizer)]
        self.max_length = min([limit for limit in limits if limit] or [DEFAULT_LENGTH])
        self.fits: int | None = None  # padded tokens of a batch, where memory once ran out
        self.largest_done = 0  # tokens of the longest row that did fit
        self.unpadded = None if problem_of(self.model) else Unpadded(self.model)

    def predict(self, texts: Sequence[Item]) -> list[Prediction]:
        """Predict some texts or pairs; the answers come in their order."""
        return list(self.stream(texts))

    def stream(self, texts: Iterable[Item]) -> Iterator[Prediction]:
        """Predict texts or pairs as they come, a chunk at a time."""
        chunk: list[Item] = []
        for text in texts:
            chunk.append(text)
            if len(chunk) == CHUNK:
                yield from self._chunk(chunk)
                chunk = []
        if chunk:
            yield from self._chunk(chunk)

    def columns(self) -> dict[str, list[str]]:
        """What a prediction holds, and of which labels: predicted, and where there are such the others."""
        if self.kind == "score":
            return {"predicted": []}
        confidence: dict[str, list[str]] = {} if self.kind == "set" else {"confidence": []}
        return {"predicted": []} | confidence | {"probability": self.labels}

    @torch.inference_mode()
    def _logits(self, rows: list[dict[str, Any]]) -> torch.Tensor:
        """Packed where the model is exact that way, else padded; shape (rows, outputs)."""
        if self.unpadded is None:
            padded = self.tokenizer.pad(rows, return_tensors="pt").to(self.device)
            logits: torch.Tensor = self.model(**padded).logits
            return logits
        batch = self.unpadded.batch(rows)
        moved = {name: value.to(self.device) if hasattr(value, "to") else value for name, value in batch.items()}
        with self.unpadded.running(moved.pop("kept")):
            logits = self.model(**moved).logits
        return logits

    def _survived(self, rows: list[dict[str, Any]], piece: list[int]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """The places of a batch with their logits; one that does not fit into memory is halved and done again.

        Raises:
            GaveUp: A single row does not fit.
        """
        why = ""
        try:
            logits = self._logits([rows[place] for place in piece])
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            why = str(error) or type(error).__name__
        if not why:
            self.largest_done = max(self.largest_done, max(len(rows[place]["input_ids"]) for place in piece))
            yield piece, logits
            return
        free_unused()  # outside the except clause: its traceback held the tensors of the failed attempt
        longest = max(len(rows[place]["input_ids"]) for place in piece)
        if len(piece) == 1:
            raise _does_not_fit(longest, self.largest_done)
        half = max(1, longest * len(piece) // 2)
        self.fits = min(self.fits or half, half)  # the chunks to come are cut so from the start
        middle = len(piece) // 2
        for part in (piece[:middle], piece[middle:]):
            yield from self._survived(rows, part)

    def _chunk(self, items: list[Item]) -> Iterator[Prediction]:
        rows = self._rows(items)
        outputs = np.empty((len(items), self.model.config.num_labels), dtype=np.float32)
        budget = CPU_TOKENS if self.device.type == "cpu" else GPU_TOKENS
        for piece in cut_by_tokens([len(row["input_ids"]) for row in rows], min(budget, self.fits or budget)):
            for part, logits in self._survived(rows, piece):
                outputs[part] = logits.float().cpu().numpy()
        for output in outputs:
            yield self._said(torch.from_numpy(output))

    def _rows(self, items: list[Item]) -> list[dict[str, Any]]:
        # Half a surrogate pair is no character, and tokenizers take none: it is read as a question mark.
        pairs = [(item, None) if isinstance(item, str) else item for item in items]
        firsts = [_readable(first) for first, _second in pairs]
        seconds = [_readable(second) for _first, second in pairs if second is not None]
        encoded = self.tokenizer(firsts, seconds or None, truncation=True, max_length=self.max_length)
        names = ["input_ids", *(["token_type_ids"] if seconds and "token_type_ids" in encoded else [])]
        return [{name: encoded[name][place] for name in names} for place in range(len(items))]

    def _said(self, output: torch.Tensor) -> Prediction:
        """The prediction of one row from the model's outputs, (outputs,)."""
        if self.kind == "score":
            return Prediction(float(output[0]), {})
        if self.kind == "set":
            probabilities = self._by_label(torch.sigmoid(output))
            return Prediction([name for name in self.labels if probabilities[name] >= self.threshold], probabilities)
        if self.kind == "rank":
            place = int(rank_of(output[None])[0])
            return Prediction(self.labels[place], self._by_label(rank_probabilities(output[None])[0]))
        probabilities = self._by_label(torch.softmax(output, dim=-1))
        return Prediction(self.labels[int(output.argmax())], probabilities)

    def _by_label(self, values: torch.Tensor) -> dict[str, float]:
        return dict(zip(self.labels, values.tolist(), strict=True))


def predictor_of(folder: RunFolder) -> Predictor:
    """The predictor of a run's best model, with the length that it was trained with."""
    prepared = folder.prepared()
    return Predictor(folder.model, prepared.max_length if prepared else None)


def predict_texts(folder: RunFolder, texts: Sequence[Item]) -> list[dict[str, Any]]:
    """Predict some texts or pairs: for each, predicted, and where there are such, confidence and probabilities.

    Raises:
        UserError: The run learnt from pairs and texts are given, or the other way round.
    """
    wants_pairs = pair_column(folder) is not None
    if any(isinstance(text, str) == wants_pairs for text in texts):
        text = _("The run {run} learnt from single texts, and pairs are given.")
        if wants_pairs:
            text = _("The run {run} learnt from pairs of texts, and single texts are given.")
        way_out = _("Give each --text its --text-pair.") if wants_pairs else _("Leave --text-pair out.")
        raise UserError(text.format(run=folder.id), way_out)
    return [one.as_record() for one in predictor_of(folder).predict(texts)]


def pair_column(folder: RunFolder) -> str | None:
    """The column with the second texts that the run learnt from; None if it learnt from single texts."""
    named = folder.resolved().get("data.text_pair")
    return str(named.value) if named and named.value else None


def predict_file(
    folder: RunFolder,
    source: Path,
    target: Path | None = None,
    column: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> WrittenFile:
    """Predict a CSV, TSV or JSONL file into a file of the same kind, row for row.

    Every row is kept byte for byte; predicted and, where there are such, confidence and the probability of each label
    are added.

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
    table = Table(source, column or (str(named.value) if named else "text"), pair_column(folder))
    predictor = predictor_of(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding=table.encoding_with(predictor.labels), newline="") as file:
            empty = _write_predictions(predictor, table, file, progress or (lambda _done, _rows: None))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return WrittenFile(target, table.rows, empty)


def _write_predictions(predictor: Predictor, table: Table, file: TextIO, progress: Progress) -> int:
    """Write the table with predictions; returns the number of rows without text."""
    pieces = table.pieces()
    _text, head = next(pieces)
    file.write(table.head_with_names(head, predictor.columns()))
    rows, ahead = tee(pieces)  # texts are read ahead of their rows, at most a chunk
    empty = 0
    predictions = predictor.stream(text for text, _lines in ahead)
    for done, ((text, lines), one) in enumerate(zip(rows, predictions, strict=True), 1):
        file.write(table.row_with_prediction(lines, one.as_record()))
        empty += not all(part.strip() for part in ([text] if isinstance(text, str) else text))
        progress(done, table.rows)
    return empty


def _refuse_existing(source: Path, target: Path, force: bool) -> None:
    message = _("{file} exists and is left as it is.").format(file=target)
    if target.is_dir() or (target.exists() and target.samefile(source)):
        raise UserError(message, _("Choose another name with -o."))
    if target.exists() and not force:
        raise UserError(message, _("Choose another name with -o, or replace it with --force."))


def _readable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _does_not_fit(tokens: int, largest_done: int) -> GaveUp:
    message = _("A text of {tokens} tokens does not fit into memory, even by itself.").format(tokens=tokens)
    if largest_done:
        return GaveUp(message, _("Texts of {tokens} tokens did fit: shorten it to that.").format(tokens=largest_done))
    return GaveUp(message, _("Take a machine with more memory, or a smaller model."))


def _asked_limit(tokenizer: Any) -> int | None:
    """The tokenizer's own limit; the huge number that stands for none is None."""
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit and limit < 10**6 else None
