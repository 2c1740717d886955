"""Label names: read from a column whatever type it has, put in an order that never changes, checked in every split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from trainwright.data.cells import Boolean, Cell, Number
from trainwright.data.complaints import listed, where
from trainwright.errors import DataError
from trainwright.messages.text import _

_WHOLE = re.compile(r"-?\d+(\.0*)?")


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
        name = self._whole(cell, line) if isinstance(cell, Number) else str(cell)
        if name.startswith("[") and name.endswith("]"):
            raise DataError(
                _("{file}, line {line}: the label '{label}' is a list.").format(file=self.path, line=line, label=name),
                _("Here each text has one label; write it as a plain word or number."),
            )
        if name not in self.names:
            self.names[name] = len(self.names)
            self.first_lines.append(line)
        return self.names[name]

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
                _("Classes are words or whole numbers; round the scores, or write the classes as words."),
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
                _("'{label}' in line {line} is {kind}").format(label=label, line=line, kind=kinds[kind])
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
        by_value = all(re.fullmatch(r"-?\d+", name) for name in names)
        return sorted(set(names), key=(lambda name: (int(name), name)) if by_value else None)
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


def ids_of(names: Sequence[str], order: Sequence[str], path: Path, first_lines: Sequence[int]) -> np.ndarray:
    """Label ids by code, int32.

    Raises:
        DataError: A label is not in ``order``: training never saw it.
    """
    places = {name: place for place, name in enumerate(order)}
    for name, line in zip(names, first_lines, strict=True):
        if name not in places:
            text = _("{file}, line {line}: the label '{label}' is not in the training data, which has {labels}.")
            raise DataError(
                text.format(file=path, line=line, label=name, labels=listed(order, 10)),
                _("Correct it, take its rows out, or add training rows with that label."),
            )
    return np.array([places[name] for name in names], dtype=np.int32)
