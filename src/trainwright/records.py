"""The frozen records that rooms hand each other, and how they are written to and read from JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

FORMAT = 1

Origin = Literal["default", "recipe", "--set", "chosen"]
Severity = Literal["note", "warning", "error"]


@dataclass(frozen=True)
class Choice:
    """A value in force, where it came from and, if Trainwright chose it, why."""

    value: Any
    origin: Origin
    because: str = ""


@dataclass(frozen=True)
class Finding:
    """Something seen, with evidence and a remedy.

    Attributes:
        id: Stable name such as ``data.empty-text``; the first part is the room it speaks of.
        severity: ``error`` refuses the run, ``warning`` deserves a look, ``note`` is worth knowing.
        message: One plain sentence in the user's language.
        evidence: The numbers, and examples with file and line.
        remedy: What to do, in one sentence; empty if there is nothing to do.
        change: The remedy as a change to the recipe, dotted key to value; empty if it is not one.
    """

    id: str
    severity: Severity
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
    remedy: str = ""
    change: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelFile:
    """One file of a model: name, bytes, and the SHA-256 it was verified to have; None where the hub lists none."""

    name: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True)
class ModelSource:
    """Where the model of a run came from; written once, so that a resumed run loads the same bytes.

    Attributes:
        model: What the recipe says.
        folder: Where it lies on this machine.
        because: How it was found, in words.
        hub: local, packaged, hf, hf-mirror or modelscope.
        endpoint: Address that was asked; None if none was.
        revision: Commit (on ModelScope: the branch or tag) that was fetched; None for a folder.
        files: What was fetched; empty for a folder.
    """

    model: str
    folder: str
    because: str
    hub: str
    endpoint: str | None = None
    revision: str | None = None
    files: list[ModelFile] = field(default_factory=list)


@dataclass(frozen=True)
class Split:
    """One part of the prepared data.

    Attributes:
        name: train, validation or test.
        rows: Number of rows kept.
        tokens: Real tokens of all rows after truncation to ``max_length``, special tokens included.
        file: The Arrow file with the rows, relative to the prepared folder.
        source: Where the rows came from, in words ("reviews.csv", "10% held out of reviews.csv").
    """

    name: str
    rows: int
    tokens: int
    file: str
    source: str


@dataclass(frozen=True)
class Prepared:
    """Tokenised data, ready to be read by a training process.

    Attributes:
        folder: The cache folder that holds the Arrow files.
        key: Hash of content, options and tokenizer that names the folder.
        cached: Whether it was found, rather than made.
        because: Why it was found, or why it had to be made.
        splits: By name; always has train, and validation unless the recipe says none.
        labels: Label names by id.
        max_length: Longest row in tokens, special tokens included.
        prefix: Token ids put before each row ([CLS]).
        suffix: Token ids put after each row ([SEP]).
        middle: Token ids put between the two texts of a row ([SEP]); None where rows have one text.
        second_type: Token type of the second text and what is behind it; None where the model has no token types.
        pad_id: Token id for padding.
        lengths: Per split: rows by untruncated length, as ``[[tokens, rows], ...]`` (a histogram).
        label_rows: Per split: rows per label, in the order of ``labels``.
        label_sets: For sets of labels: the ids of the labels of each value that rows have.
    """

    folder: str
    key: str
    cached: bool
    because: str
    splits: dict[str, Split]
    labels: list[str]
    max_length: int
    prefix: list[int]
    suffix: list[int]
    pad_id: int
    lengths: dict[str, list[list[int]]]
    label_rows: dict[str, list[int]]
    middle: list[int] | None = None
    second_type: int | None = None
    label_sets: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class Audit:
    """What was found in the data before training.

    Attributes:
        findings: In order of severity.
        facts: Per split: rows, empty rows, duplicates, length percentiles, share truncated, label counts, ...
    """

    findings: list[Finding]
    facts: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Gpu:
    """One card as the driver shows it; memory in bytes."""

    index: int
    name: str
    memory: int | None
    capability: tuple[int, int] | None
    driver: str | None


@dataclass(frozen=True)
class Machine:
    """What is here. ``None`` means not available; memory and disk in bytes.

    Attributes:
        cores: Processor cores that this process may use (affinity and cgroup quota), possibly a fraction.
        memory: Memory limit of the container or the machine.
        platform: ``autodl`` or ``generic``.
        data_disk: The platform's disk for large data, if it has one.
    """

    host: str
    system: str
    python: str
    processor: str
    cores: float
    memory: int | None
    bf16_cpu: bool
    gpus: list[Gpu]
    platform: str
    data_disk: str | None
    versions: dict[str, str]


@dataclass(frozen=True)
class Forecast:
    """What a run will take on a machine; None is "not available".

    Attributes:
        device: Name of the card, or of the processor.
        cards: How many cards on all hosts; 0 for a processor.
        precision: fp32, bf16 or fp16.
        tokens_per_micro_batch: Tokens of the micro-batches that memory is predicted for.
        parameters: Of the model.
        flops: Operations of all training steps, by plan/shape.py.
        memory: Bytes at the highest moment, by part; see plan/memory.py. ``learned`` is what past runs took more.
        memory_total: Their sum.
        memory_available: What the card, or the machine, has.
        fits: Whether it fits; None if either is not known.
        ways: Where it does not fit: what would, in order of cost, in words.
        seconds: By phase: preparing, download, start, rehearsal, training, evaluation, saving.
        seconds_total: Their sum.
        cost: As text with a currency, in all; and of an epoch of training.
        price: What the machine costs an hour.
        because: Reasons for memory, speed and price.
    """

    device: str
    cards: int
    precision: str
    tokens_per_micro_batch: int
    parameters: int | None
    flops: float | None
    memory: dict[str, int] | None
    memory_total: int | None
    memory_available: int | None
    fits: bool | None
    ways: list[str]
    seconds: dict[str, float | None]
    seconds_total: float | None
    cost: str | None
    cost_per_epoch: str | None
    price: str | None
    because: dict[str, str]


@dataclass(frozen=True)
class Plan:
    """What will happen, and what it will take.

    Attributes:
        steps: Optimizer steps in all.
        steps_per_epoch: Optimizer steps that make one pass over the training rows.
        warmup_steps: Steps of linear warm-up.
        eval_steps: Steps between evaluations.
        save_steps: Steps between checkpoints.
        logging_steps: Steps between log lines.
        precision: fp32, bf16 or fp16.
        tokens_per_micro_batch: Padded tokens that one micro-batch may hold.
        rehearsal_steps: Steps of the rehearsal; 0 means none.
        device: cpu or cuda.
        price_per_hour: As text with a currency, or None.
        forecast: What it will take; None in plans of before there was one.
    """

    steps: int
    steps_per_epoch: int
    warmup_steps: int
    eval_steps: int
    save_steps: int
    logging_steps: int
    precision: str
    tokens_per_micro_batch: int
    rehearsal_steps: int
    device: str
    price_per_hour: str | None
    forecast: Forecast | None = None


Record = TypeVar("Record")


def to_plain(value: Any) -> Any:
    """Turn records, paths, tuples and numpy scalars into what JSON can hold; not-a-number becomes a string."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [to_plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has no NaN; "nan" is never taken for 0
    if hasattr(value, "item"):
        return to_plain(value.item())
    return str(value)


def from_plain(kind: type[Record], value: Any) -> Record:
    """Build a record from what :func:`to_plain` made; unknown fields of later formats are ignored.

    Raises:
        pydantic.ValidationError: A field is missing or has another type.
    """
    from pydantic import TypeAdapter

    known = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return TypeAdapter(kind).validate_python({key: item for key, item in value.items() if key in known})


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never a part (temporary name, sync, rename)."""
    import os

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(to_plain(value), file, ensure_ascii=False, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read_json(path: Path) -> Any:
    """Read a JSON file; None if it does not exist."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
