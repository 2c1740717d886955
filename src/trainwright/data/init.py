"""Write a recipe for a file: what can be seen in it is filled in, each guess with its reason."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from trainwright.data.columns import Guess, guess_columns, guess_pair, label_kind, sample
from trainwright.data.labels import labels_of
from trainwright.data.language import guess_language
from trainwright.data.lengths import histogram_of, percentiles
from trainwright.data.rows import read_rows
from trainwright.data.sources import SPLIT_NAMES, open_source, split_folder
from trainwright.errors import DataError
from trainwright.messages.text import _
from trainwright.recipe.tasks import TASKS
from trainwright.units import format_count, parse_share

MODELS = {
    "zh": "google-bert/bert-base-chinese",
    "en": "google-bert/bert-base-uncased",
    "other": "FacebookAI/xlm-roberta-base",
}
# Usual characters of a token, for an estimate only: a Chinese BERT takes each character as one, an English one about
# four letters with the space, a multilingual one less.
CHARACTERS_PER_TOKEN = {"zh": 1.0, "en": 4.0, "other": 3.5}
TASK_OF_KIND = {"class": "text-classification", "set": "multi-label", "score": "regression"}
WARMUP = "6%"  # the share that RoBERTa (Liu et al. 2019) used for fine-tuning
VALIDATION = "10%"
FEW_ROWS, MANY_ROWS = 2_000, 50_000


@dataclass(frozen=True)
class InitResult:
    """A recipe, and what was guessed in it.

    Attributes:
        text: The recipe as commented YAML, in the language in use.
        guesses: One sentence each.
    """

    text: str
    guesses: list[str]


@dataclass(frozen=True)
class _Seen:
    """What was seen of a file."""

    file: Path
    text: Guess
    pair: Guess | None
    label: Guess
    task: str
    rows: int
    classes: int
    language: str
    why_language: str
    characters: int  # that 99% of the texts do not exceed
    validation: Path | None
    test: Path | None


def make_recipe(file: Path, model: str | None, text: str | None = None, label: str | None = None) -> InitResult:
    """Make a recipe for a labelled file.

    Args:
        file: The file or folder.
        model: Model folder or hub id; None picks one by the language of the texts.
        text: The text column, if it need not be guessed.
        label: The label column, likewise.

    Raises:
        DataError: The file cannot be read, or it is not clear which column is which.
    """
    seen = _look_at(file.resolve(), text, label)
    return InitResult(_recipe(seen, model), list(_guesses(seen, model)))


# -- look -----------------------------------------------------------------------------------------------------------


def _look_at(file: Path, text: str | None, label: str | None) -> _Seen:
    train = split_folder(file, "train") or file
    text_guess, label_guess = guess_columns(train, text, label)
    pair = guess_pair(train, text_guess.column)
    cells = sample(train, label_guess.column)
    task = TASK_OF_KIND[label_kind(cells)]
    kind = TASKS[task].label
    table = read_rows(train, text_guess.column, label_guess.column, lambda *_texts: None, kind=kind)
    labels = labels_of(kind, table.names, None, train, table.first_lines)
    texts = [str(cell or "") for cell in sample(train, text_guess.column)]
    if not texts:
        raise DataError(_("{file} has no rows.").format(file=file))
    language, why = guess_language(texts)
    return _Seen(
        file=file,
        text=text_guess,
        pair=pair,
        label=label_guess,
        task=task,
        rows=len(table),
        classes=len(labels.names),
        language=language,
        why_language=why,
        characters=percentiles(histogram_of(np.array([len(item) for item in texts])))["p99"] or 0,
        validation=_sibling(file, "validation", text_guess.column, label_guess.column),
        test=_sibling(file, "test", text_guess.column, label_guess.column),
    )


def _sibling(file: Path, split: str, text: str, label: str) -> Path | None:
    """The file beside a training file that is named like it, for another split, and has the same columns."""
    for name in SPLIT_NAMES[split]:
        stem = re.sub("train(ing)?", name, file.stem, flags=re.IGNORECASE)
        path = file.with_name(stem + file.suffix)
        if stem != file.stem and path.is_file():
            source = open_source(path)
            if source.has(text) and source.has(label):
                return path
    return None


# -- say ------------------------------------------------------------------------------------------------------------


def _guesses(seen: _Seen, model: str | None) -> Iterator[str]:
    for what, guess in ((_("Text"), seen.text), (_("Second text"), seen.pair), (_("Label"), seen.label)):
        if guess is None:
            continue
        yield _("{what}: column '{column}' ({because}).").format(what=what, column=guess.column, because=guess.because)
    yield f"{_size(seen)}."
    if seen.task != "text-classification":
        why = _("the labels are lists") if seen.task == "multi-label" else _("the labels are scores")
        yield _("Task: {task}, since {why}.").format(task=seen.task, why=why)
    if model is None:
        yield _("Model: {model}, since {because}.").format(model=MODELS[seen.language], because=seen.why_language)
    for key, path in (("validation", seen.validation), ("test", seen.test)):
        if path is not None:
            yield _("data.{key}: {file}, found beside the training file.").format(key=key, file=path.name)


def _recipe(seen: _Seen, model: str | None) -> str:
    epochs, batch_size = _epochs(seen.rows), 16 if seen.rows < FEW_ROWS else 32
    share = 0.0 if seen.validation or split_folder(seen.file, "validation") else parse_share(VALIDATION)
    steps = math.ceil(seen.rows * (1 - share) / batch_size) * epochs
    lines = [
        ("name", _name(seen.file), ""),
        ("task", seen.task, ""),
        ("model", model or MODELS[seen.language], "" if model else seen.why_language),
        ("data", None, _size(seen)),
        *_data_lines(seen),
        ("learn", None, _("decides the result")),
        ("  num_train_epochs", epochs, _("passes over the training rows; fewer rows need more of them")),
        (
            "  batch_size",
            batch_size,
            _("examples per step on any machine; few rows want small steps"),
        ),
        ("  learning_rate", 5e-5, _("the usual one for BERT; try 2e-5 to 5e-5")),
        ("  warmup_steps", WARMUP, _("about {count} of {steps} steps").format(count=_warmup(steps), steps=steps)),
        ("  seed", 42, _("another seed is another run")),
        ("run", None, _("decides time and memory only")),
        ("  precision", "auto", _("what this machine does best: bf16, fp16 or fp32")),
    ]
    return "".join(_line(*line) for line in lines)


def _size(seen: _Seen) -> str:
    rows = format_count(seen.rows)
    if seen.task == "regression":
        return _("{rows} rows").format(rows=rows)
    return _("{rows} rows, {classes} classes").format(rows=rows, classes=seen.classes)


def _data_lines(seen: _Seen) -> Iterator[tuple[str, object, str]]:
    yield "  train", str(seen.file), ""
    if seen.validation:
        yield "  validation", str(seen.validation), _("found beside the training file")
    elif split_folder(seen.file, "validation") is None:
        yield "  validation", VALIDATION, _("held out of the training rows, the same share of each class")
    if seen.test:
        yield "  test", str(seen.test), _("found beside the training file")
    yield "  text", seen.text.column, seen.text.because
    if seen.pair:
        yield "  text_pair", seen.pair.column, seen.pair.because
    yield "  label", seen.label.column, seen.label.because
    tokens = math.ceil(seen.characters / CHARACTERS_PER_TOKEN[seen.language])
    estimate = _("settled by the tokens; 99 in 100 texts have at most about {tokens}, estimated by characters")
    yield "  max_length", "auto", estimate.format(tokens=tokens)


def _line(key: str, value: object, comment: str) -> str:
    written = f"{key}:" if value is None else f"{key}: {_scalar(value)}"
    return f"{written}  # {comment}\n" if comment else f"{written}\n"


def _scalar(value: object) -> str:
    """A value as YAML, in quotes where it would read back as something else."""
    return yaml.safe_dump(value, allow_unicode=True, width=math.inf).removesuffix("\n").removesuffix("\n...")


def _name(file: Path) -> str:
    """A name for the run: the file's, or that of its folder if the file is just called train."""
    stem = file.parent.name if file.stem.lower() in ("train", "training", "data") else file.stem
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "run"


def _epochs(rows: int) -> int:
    if rows < FEW_ROWS:
        return 5
    return 3 if rows < MANY_ROWS else 2


def _warmup(steps: int) -> int:
    return max(1, round(parse_share(WARMUP) * steps))
