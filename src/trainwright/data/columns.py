"""Guess which column holds the text and which the label: by name first, then by content."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from trainwright.data.cells import Cell, Items, Number
from trainwright.data.complaints import missing_column
from trainwright.data.sources import Source, open_source
from trainwright.errors import DataError
from trainwright.messages.text import _


def _names(words: str) -> tuple[str, ...]:
    return tuple(words.split())


# In order of preference; compared without case.
TEXT_NAMES = _names(
    "text sentence review content comment document body utterance message query question tweet description title "
    "headline 文本 评论 内容 正文 句子 评价 标题 问题"
)
LABEL_NAMES = _names(
    "label labels category class target sentiment intent topic polarity stars rating 标签 类别 分类 情感 意图 标注"
)
SCORE_NAMES = _names("score scores 分数 得分 评分")
# First and second text of a pair, as public sets of pairs name them.
PAIRS = [
    _names(pair)
    for pair in (
        "text text_pair",
        "sentence1 sentence2",
        "premise hypothesis",
        "question1 question2",
        "text1 text2",
        "text_a text_b",
        "sentence_a sentence_b",
        "question sentence",
        "句子1 句子2",
        "文本1 文本2",
    )
]
MOST_CLASSES = 200  # a column with more different values is no list of classes
LEAST_REPEATS = 3  # rows per value: names and ids hardly repeat, classes do
CLEARLY_LONGER = 1.5  # times the next longest column, to be taken for the text


@dataclass(frozen=True)
class Guess:
    """A column, and why it was taken."""

    column: str
    because: str


def guess_columns(path: Path, text: str | None, label: str | None) -> tuple[Guess, Guess]:
    """The columns with the text and the label.

    Args:
        path: The file.
        text: The text column, if it is known.
        label: The label column, if it is known.

    Raises:
        DataError: A column named does not exist, or several fit alike, or none does.
    """
    source = open_source(path)
    for column, option in ((text, "--text"), (label, "--label")):
        if column is not None and not source.has(column):
            raise missing_column(path, column, option, source.columns())
    asked = _("asked for")
    text_guess = Guess(text, asked) if text else _guess_text(source, taken=label)
    label_guess = Guess(label, asked) if label else _guess_label(source, taken=text_guess.column)
    return text_guess, label_guess


def guess_pair(path: Path, text: str) -> Guess | None:
    """The column with a second text, where the one with the first has a name of :data:`PAIRS`; else None."""
    by_lower = {column.strip().lower(): column for column in reversed(open_source(path).columns())}
    second = next((by_lower[two] for one, two in PAIRS if one == text.strip().lower() and two in by_lower), None)
    return Guess(second, _("by its name")) if second else None


def label_kind(cells: list[Cell]) -> str:
    """What a label column looks like it holds: a ``class``, a ``set`` of labels or a ``score``."""
    if any(isinstance(cell, Items) or (cell and cell.startswith("[") and cell.endswith("]")) for cell in cells):
        return "set"
    numbers = [_number(cell) for cell in cells if cell and cell.strip()]
    if numbers and None not in numbers and any(number != int(number) for number in numbers if number is not None):
        return "score"
    return "class"


def _number(cell: str) -> float | None:
    """A finite number; None for anything else."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def sample(path: Path, column: str) -> list[Cell]:
    """The first few thousand values of a column, lists among them; empty if it cannot be read."""
    try:
        return next((batch.columns[column] for batch in open_source(path).batches([column], lists=[column])), [])
    except DataError:
        return []


def _by_name(columns: list[str], names: tuple[str, ...]) -> Guess | None:
    by_lower = {column.strip().lower(): column for column in reversed(columns)}
    found = next((by_lower[name] for name in names if name in by_lower), None)
    return Guess(found, _("by its name")) if found else None


def _guess_text(source: Source, taken: str | None) -> Guess:
    columns = [column for column in source.columns() if column != taken]
    lower = {column.strip().lower() for column in columns}
    named = _by_name(columns, TEXT_NAMES + tuple(one for one, two in PAIRS if one in lower and two in lower))
    if named:
        return named
    means = {column: _mean_length(sample(source.path, column)) for column in columns}
    order = sorted(columns, key=lambda column: -means[column])
    if not order or not means[order[0]]:
        raise _undecided(source, _("text"), "--text", columns)
    if len(order) > 1 and means[order[0]] < CLEARLY_LONGER * means[order[1]]:
        raise _undecided(source, _("text"), "--text", order[:2])
    because = _("its values are the longest, {mean:.0f} characters on average")
    return Guess(order[0], because.format(mean=means[order[0]]))


def _mean_length(cells: list[Cell]) -> float:
    texts = [cell for cell in cells if cell and not isinstance(cell, (Number, Items))]
    return sum(map(len, texts)) / len(texts) if texts else 0.0


def _guess_label(source: Source, taken: str) -> Guess:
    columns = [column for column in source.columns() if column != taken]
    named = _by_name(columns, LABEL_NAMES + SCORE_NAMES)
    if named:
        return named
    counts = {column: _classes(sample(source.path, column)) for column in columns}
    fitting = [column for column in columns if counts[column]]
    if len(fitting) != 1:
        raise _undecided(source, _("label"), "--label", fitting or columns)
    return Guess(fitting[0], _("it has {count} different values that repeat").format(count=counts[fitting[0]]))


def _classes(cells: list[Cell]) -> int:
    """Number of different values, if they may be classes; else 0."""
    if label_kind(cells) == "set":
        return 0  # found by its name or not at all
    values = {cell for cell in cells if cell and cell.strip()}
    return len(values) if 2 <= len(values) <= min(MOST_CLASSES, len(cells) // LEAST_REPEATS) else 0


def _undecided(source: Source, what: str, option: str, candidates: list[str]) -> DataError:
    message = _("{file}: it is not clear which column holds the {what}. It may be: {columns}.")
    columns = ", ".join(map(repr, candidates)) or _("none of them")
    return DataError(
        message.format(file=source.path, what=what, columns=columns),
        _("Say which one: {option} NAME.").format(option=option),
    )
