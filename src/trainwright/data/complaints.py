"""Errors that several readers share, in one wording."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from trainwright.errors import DataError
from trainwright.messages.text import _

SHOWN = 5  # examples in a sentence; more would hide what it says


def listed(items: Sequence[object], shown: int = SHOWN) -> str:
    """The first few items, and how many more there are: "2, 5, 9 and 4 more"."""
    text = ", ".join(str(item) for item in items[:shown])
    return text if len(items) <= shown else _("{items} and {more} more").format(items=text, more=len(items) - shown)


def where(path: Path | str, lines: Sequence[int]) -> dict[str, object]:
    """For a sentence about rows: their file, how many they are, the first lines."""
    return {"file": path, "count": len(lines), "lines": listed(lines)}


def unreadable(path: Path, error: BaseException) -> DataError:
    """A file is damaged: what the library says that reads it."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(_("{file} cannot be read: {reason}.").format(file=path, reason=reason.rstrip(".")))


def missing_file(path: Path) -> DataError:
    """There is no such file: the nearest name in its folder."""
    message = _("There is no file {file}.").format(file=path)
    if not path.parent.is_dir():
        return DataError(message, _("The folder {folder} does not exist either.").format(folder=path.parent))
    near = get_close_matches(path.name, [item.name for item in path.parent.iterdir()], n=1)
    return DataError(message, _("Did you mean {name}?").format(name=path.parent / near[0]) if near else "")


def missing_column(path: Path, column: str, key: str, found: Sequence[str]) -> DataError:
    """There is no such column: those found, the closest one, and the key of the recipe that names it."""
    message = _("{file} has no column '{column}'. Columns found: {found}.")
    by_lower = {name.lower(): name for name in found}
    near = [by_lower[name] for name in get_close_matches(column.lower(), list(by_lower), n=1)]
    way_out = _("Set {key} to the right one.").format(key=key)
    if near:
        way_out = _("Did you mean '{name}'? Set {key}: {name}.").format(name=near[0], key=key)
    return DataError(message.format(file=path, column=column, found=", ".join(map(repr, found))), way_out)
