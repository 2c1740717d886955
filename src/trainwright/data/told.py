"""The facts of an audit as short texts: a row a fact, a cell a split. The terminal and the report show the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainwright.messages.text import _
from trainwright.units import format_count, format_share


def told(facts: dict[str, dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Name and cells of each fact that any split has; n/a for a split that has not."""
    rows = [(name, [show(split) for split in facts.values()]) for name, show in _facts()]
    return [
        (name, ["n/a" if cell is None else cell for cell in cells])
        for name, cells in rows
        if any(cell is not None for cell in cells)
    ]


def of_all(count: int | None, facts: dict[str, Any]) -> str | None:
    """A number of rows, with its share of the split; None if it is not known."""
    if not count:
        return _count(count)
    return f"{format_count(count)} ({format_share(count / max(1, facts['rows']))})"


def _facts() -> list[tuple[str, Callable[[dict[str, Any]], str | None]]]:
    """Name of each fact, and how it is shown; None where a split does not have it."""
    return [
        (_("rows"), lambda facts: format_count(facts["rows"])),
        (_("encoding"), lambda facts: _in(facts, "reading", "encoding")),
        (_("without text"), lambda facts: of_all(_in(facts, "empty", "count"), facts)),
        (_("repeated in the split"), lambda facts: of_all(_in(facts, "duplicates", "rows"), facts)),
        (_("nearly repeated in the split"), lambda facts: of_all(_in(facts, "near_duplicates", "texts"), facts)),
        (_("with contradicting labels"), lambda facts: of_all(_in(facts, "conflicts", "rows"), facts)),
        (_("in training too"), lambda facts: of_all(_in(facts, "overlap", "rows"), facts)),
        (_("nearly in training too"), lambda facts: of_all(_in(facts, "near_overlap", "rows"), facts)),
        (_("characters, half have at most"), lambda facts: _count(_in(facts, "characters", "p50"))),
        (_("characters, 99% have at most"), lambda facts: _count(_in(facts, "characters", "p99"))),
        (_("characters, longest (line)"), lambda facts: _longest(facts.get("characters"))),
        (_("tokens, half have at most"), lambda facts: _count(_in(facts, "tokens", "p50"))),
        (_("tokens, 99% have at most"), lambda facts: _count(_in(facts, "tokens", "p99"))),
        (_("tokens, longest (line)"), lambda facts: _longest(facts.get("tokens"))),
        ("max_length", lambda facts: _count(_in(facts, "truncation", "max_length"))),
        (_("rows cut"), lambda facts: _share(_in(facts, "truncation", "rows_share"))),
        (_("tokens removed"), lambda facts: _share(_in(facts, "truncation", "tokens_share"))),
        (_("unknown tokens"), lambda facts: _share(_in(facts, "unknown", "share"))),
    ]


def _in(facts: dict[str, Any], group: str, name: str) -> Any:
    found = facts.get(group)
    return found.get(name) if isinstance(found, dict) else None


def _count(value: int | None) -> str | None:
    return None if value is None else format_count(value)


def _share(value: float | None) -> str | None:
    return None if value is None else format_share(value)


def _longest(lengths: dict[str, Any] | None) -> str | None:
    if not lengths or lengths.get("max") is None:
        return None
    return f"{format_count(lengths['max'])} ({lengths['max_line']})"
