"""Labels: read from a column whatever type it has, put in an order that never changes, checked in every split.

Every kind of label is read the same way: each different value of the column has a code, and a text that stands for
it. A set of labels is one value, as a score is; :class:`Labels` says what the values mean to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import numpy as np

from trainwright.data.cells import Boolean, Cell, Items, Number
from trainwright.data.complaints import listed, where
from trainwright.errors import DataError
from trainwright.messages.text import _

_WHOLE = re.compile(r"-?\d+(\.0*)?")
STRATA = 10  # parts of a range of scores that are held out in equal shares


@dataclass
class LabelColumn:
    """Reads the label column of one file; remembers each name once.

    Attributes:
        path: The file, for messages.
        column: Name of the column.
        names: Each name seen, with its code: 0, 1, ... in order of appearance.
        first_lines: The first line of each name, by code.
    """

    path: Path
    column: str
    names: dict[str, int] = field(default_factory=dict)
    first_lines: list[int] = field(default_factory=list)
    _kinds: dict[type[str], tuple[int, str]] = field(default_factory=dict)
    _missing: list[int] = field(default_factory=list)

    def codes(self, cells: Sequence[Cell], lines: Sequence[int]) -> np.ndarray:
        """Codes of some rows, int32; -1 where the label is missing, which :meth:`check` complains about."""
        return np.fromiter(map(self._code, cells, lines), dtype=np.int32, count=len(cells))

    def _code(self, cell: Cell, line: int) -> int:
        code = self.names.get(cell) if type(cell) is str else None  # by far the most rows end here
        if code is not None and str in self._kinds:
            return code
        if cell is None or not cell.strip():
            self._missing.append(line)
            return -1
        self._kinds.setdefault(type(cell), (line, str(cell)))
        return self._code_of(self._name(cell, line), line)

    def _code_of(self, name: str, line: int) -> int:
        if name not in self.names:
            self.names[name] = len(self.names)
            self.first_lines.append(line)
        return self.names[name]

    def _name(self, cell: str, line: int) -> str:
        name = self._whole(cell, line) if isinstance(cell, Number) else str(cell)
        if name.startswith("[") and name.endswith("]"):
            raise DataError(
                _("{file}, line {line}: the label '{label}' is a list.").format(file=self.path, line=line, label=name),
                _("Where a text has several labels, set task: multi-label; else write a plain word or number."),
            )
        return name

    def _whole(self, cell: Number, line: int) -> str:
        try:
            return str(int(cell))
        except ValueError:
            pass
        value = float(cell)
        if not value.is_integer():
            text = _("{file}, line {line}: the label {label} is a score, not a class.")
            raise DataError(
                text.format(file=self.path, line=line, label=cell),
                _("To learn scores, set task: regression; classes are words or whole numbers."),
            )
        return str(int(value))

    def check(self) -> None:
        """Complain about what only the whole column can tell, so that the order of rows does not matter.

        Raises:
            DataError: Rows without a label, or labels of several kinds.
        """
        if self._missing:
            text = _("{file}: rows without a label in '{name}': {count} (lines {lines}).")
            raise DataError(
                text.format(name=self.column, **where(self.path, self._missing)),
                _("Give them a label, or take these rows out."),
            )
        if len(self._kinds) > 1:
            kinds = {str: _("text"), Number: _("a number"), Boolean: _("true or false")}
            examples = [
                _("'{label}' in line {line} is {kind}").format(
                    label=label, line=line, kind=kinds.get(kind, _("a list"))
                )
                for kind, (line, label) in sorted(self._kinds.items(), key=lambda item: item[1])
            ]
            raise DataError(
                _("{file}: the labels in '{name}' are of several kinds: {examples}.").format(
                    file=self.path, name=self.column, examples=", ".join(examples)
                ),
                _("Write all of them as text, or all as numbers."),
            )

    def whole_names(self) -> list[str]:
        """Names by code; "1.0" becomes "1" where every label of the column is a whole number, as spreadsheets do it.

        Two codes may then share a name.
        """
        if all(_WHOLE.fullmatch(name) for name in self.names):
            return [name.partition(".")[0] for name in self.names]
        return list(self.names)


@dataclass
class ScoreColumn(LabelColumn):
    """Reads numbers. The name of a score is its shortest text, so that 0.50 and 0.5 are one value."""

    def _name(self, cell: str, line: int) -> str:
        try:
            value = float(cell)
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            text = _("{file}, line {line}: the label '{label}' is no number.")
            raise DataError(
                text.format(file=self.path, line=line, label=cell),
                _("For classes with names, set task: text-classification."),
            )
        return repr(value)

    def check(self) -> None:
        self._kinds.clear()  # "0.5" written as text is as good a score as a number
        super().check()

    def whole_names(self) -> list[str]:
        return list(self.names)


@dataclass
class SetColumn(LabelColumn):
    """Reads sets of labels: a list, the JSON text of one, or text with a separator. No label at all is a set too.

    The name of a set is the JSON text of its sorted labels.

    Attributes:
        separator: What stands between labels in a text.
        columns: With several columns of 0 and 1: their names, which are the labels.
    """

    separator: str | None = None
    columns: tuple[str, ...] = ()

    def codes(self, cells: Sequence[Cell], lines: Sequence[int]) -> np.ndarray:
        return np.fromiter(
            (self._code_of(self._name_of_set(cell, line), line) for cell, line in zip(cells, lines, strict=True)),
            dtype=np.int32,
            count=len(cells),
        )

    def codes_of_columns(self, cells: dict[str, list[Cell]], lines: Sequence[int]) -> np.ndarray:
        """The same for a column of 0 and 1 a label. cells: by name of the column."""
        codes = np.empty(len(lines), np.int32)
        for place, line in enumerate(lines):
            present = [name for name in self.columns if self._is_present(cells[name][place], name, line)]
            codes[place] = self._code_of(name_of_set(present), line)
        return codes

    def _name_of_set(self, cell: Cell, line: int) -> str:
        if cell is None or not cell.strip():
            return name_of_set([])
        if isinstance(cell, Items):
            return name_of_set(cell.values())
        if cell.startswith("[") and cell.rstrip().endswith("]"):
            return name_of_set(self._parsed(cell, line))
        parts = cell.split(self.separator) if self.separator else [cell]
        return name_of_set([part.strip() for part in parts if part.strip()])

    def _parsed(self, cell: str, line: int) -> list[str]:
        try:
            return [str(value) for value in json.loads(cell)]
        except ValueError:
            pass
        words = re.findall(r"'([^']*)'", cell)  # as Python prints a list, and pandas saves one
        if words or not cell.strip("[] "):
            return words
        text = _("{file}, line {line}: '{label}' looks like a list of labels and is none.")
        raise DataError(
            text.format(file=self.path, line=line, label=cell[:80]),
            _("Write lists as {example}, or separate labels by a mark: data.label_separator.").format(
                example='["a", "b"]'
            ),
        )

    def _is_present(self, cell: Cell, name: str, line: int) -> bool:
        text = (cell or "").strip().lower()
        if text in ("1", "1.0", "true"):
            return True
        if text in ("0", "0.0", "false"):
            return False
        message = _("{file}, line {line}: the label column '{name}' holds '{label}', neither 0 nor 1.")
        raise DataError(
            message.format(file=self.path, line=line, name=name, label=cell or ""), _("Write 0 or 1 in every row.")
        )

    def whole_names(self) -> list[str]:
        return list(self.names)


def name_of_set(labels: Sequence[str]) -> str:
    """The text that stands for a set of labels, whatever order they came in."""
    return json.dumps(sorted(set(labels)), ensure_ascii=False)


@dataclass(frozen=True)
class Labels:
    """What the labels of a data set mean.

    Attributes:
        kind: ``class``, ``set``, ``score`` or ``rank``; see :class:`trainwright.recipe.tasks.TaskKind`.
        names: The labels themselves, by id. For scores: none.
        values: What rows are labelled with, by id: a label, a set of them as JSON text, a number as text.
    """

    kind: str
    names: list[str]
    values: list[str]

    @cached_property
    def sets(self) -> list[list[int]]:
        """For sets: the ids of each value's labels."""
        places = {name: place for place, name in enumerate(self.names)}
        return [[places[name] for name in json.loads(value)] for value in self.values] if self.kind == "set" else []

    @cached_property
    def numbers(self) -> np.ndarray:
        """For scores: each value as a number, float64."""
        return np.array([float(value) for value in self.values])

    def rows_by_name(self, ids: np.ndarray) -> list[int]:
        """How many of some rows have each label, by id of the label. ids: of the rows' values, (rows,)."""
        rows = np.bincount(ids, minlength=len(self.values))
        if self.kind != "set":
            return rows.tolist() if self.names else []
        counts = np.zeros(len(self.names), np.int64)
        for value, members in enumerate(self.sets):
            counts[members] += rows[value]
        return counts.tolist()

    def stratum(self, ids: np.ndarray) -> np.ndarray:
        """What is held out in equal shares: classes; for sets by the rarest label; for scores by tenths of the rows.

        Args:
            ids: Ids of the rows' values, int32, (rows,); -1 for rows that do not count.
        """
        if self.kind == "set":
            counts = self.rows_by_name(ids[ids >= 0])
            rarest = [min(members, key=lambda label: (counts[label], label), default=-1) for members in self.sets]
            of_value = np.array([*(place + 1 for place in rarest), -1])
        elif self.kind == "score":
            known = np.sort(self.numbers[ids[ids >= 0]])
            edges = known[[len(known) * part // STRATA for part in range(1, STRATA)]] if len(known) else known
            of_value = np.append(np.searchsorted(edges, self.numbers, side="right"), -1)
        else:
            return ids
        return of_value[ids].astype(np.int32)


def labels_of(
    kind: str, train: Sequence[str], asked: Sequence[str] | None, path: Path, first_lines: Sequence[int],
    others: Sequence[Sequence[str]] = (),
) -> Labels:  # fmt: skip
    """What the labels of the training file, and of the other splits, mean.

    Args:
        kind: Of labels.
        train: Values of the training file, by code.
        asked: The recipe's data.labels.
        path: The training file, for messages.
        first_lines: First line of each value, by code.
        others: Values of the other files.

    Raises:
        DataError: A label is not among those asked for, or one asked for is not there; or ranks have no order.
    """
    if kind == "score":
        return Labels(kind, [], sorted({value for values in (train, *others) for value in values}, key=float))
    if kind == "set":
        members = [(name, line) for value, line in zip(train, first_lines, strict=True) for name in json.loads(value)]
        names = in_order([name for name, _line in members], asked, path, [line for _name, line in members])
        return Labels(kind, names, sorted({value for values in (train, *others) for value in values}))
    names = in_order(train, asked, path, first_lines)
    if kind == "rank" and asked is None and not _all_whole(names):
        text = _("{file}: the labels {labels} have no order of their own.")
        raise DataError(
            text.format(file=path, labels=listed(names, 10)),
            _("Name them from the lowest to the highest: data.labels: [...]"),
        )
    return Labels(kind, names, names)


def _all_whole(names: Sequence[str]) -> bool:
    return all(re.fullmatch(r"-?\d+", name) for name in names)


def in_order(names: Sequence[str], asked: Sequence[str] | None, path: Path, first_lines: Sequence[int]) -> list[str]:
    """Label names by id: the order asked for, else whole numbers by value and words by code point.

    Args:
        names: Names in the training file, by code.
        asked: The recipe's data.labels.
        path: The training file, for messages.
        first_lines: First line of each name, by code.

    Raises:
        DataError: A label of the file is not among those asked for, or one asked for is not in the file.
    """
    if asked is None:
        return sorted(set(names), key=(lambda name: (int(name), name)) if _all_whole(names) else None)
    for name, line in zip(names, first_lines, strict=True):
        if name not in asked:
            text = _("{file}, line {line}: the label '{label}' is not among data.labels ({labels}).")
            raise DataError(
                text.format(file=path, line=line, label=name, labels=listed(asked, 10)),
                _("Add it there, or leave data.labels out to take all labels of the file."),
            )
    for name in asked:
        if name not in names:
            near = get_close_matches(name, list(names), n=1)
            way_out = _("Did you mean '{name}'?").format(name=near[0]) if near else _("Take it out of data.labels.")
            text = _("data.labels has '{label}', but no text of {file} has that label.")
            raise DataError(text.format(label=name, file=path), way_out)
    return list(asked)


def ids_of(names: Sequence[str], labels: Labels, path: Path, first_lines: Sequence[int]) -> np.ndarray:
    """Ids of values by code, int32.

    Raises:
        DataError: A label is one that training never saw.
    """
    for name, line in zip(names, first_lines, strict=True):
        of_row = json.loads(name) if labels.kind == "set" else [name]
        unknown = [label for label in of_row if label not in labels.names and labels.kind != "score"]
        if unknown:
            text = _("{file}, line {line}: the label '{label}' is not in the training data, which has {labels}.")
            raise DataError(
                text.format(file=path, line=line, label=unknown[0], labels=listed(labels.names, 10)),
                _("Correct it, take its rows out, or add training rows with that label."),
            )
    places = {value: place for place, value in enumerate(labels.values)}
    return np.array([places[name] for name in names], dtype=np.int32)
