"""The audit of the data as tables: a column a split, a row a fact; then the labels; then what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainwright.messages.text import _
from trainwright.records import Audit
from trainwright.terminal.tables import findings_list
from trainwright.units import format_count, format_share

LABELS_SHOWN = 20  # the most frequent; a list of hundreds hides what the findings say


def audit_view(audit: Audit) -> RenderableType:
    """Everything that the audit knows, readable without colour."""
    findings = findings_list(audit.findings) or [Text(_("Nothing was found that deserves a look."))]
    return Group(facts_table(audit.facts), Text(), labels_table(audit.facts), Text(), *findings)


def facts_table(facts: dict[str, dict[str, Any]]) -> Table:
    """Counts and lengths of each split."""
    table = _table(_("data"), list(facts))
    for name, show in _facts():
        cells = [show(split) for split in facts.values()]
        if any(cell is not None for cell in cells):
            table.add_row(name, *("n/a" if cell is None else cell for cell in cells))
    return table


def labels_table(facts: dict[str, dict[str, Any]]) -> Table:
    """Rows of each label in each split, the most frequent of training first."""
    table = _table(_("label"), list(facts))
    train = facts["train"]["labels"]
    names = sorted(train, key=lambda name: -train[name])
    for name in names[:LABELS_SHOWN]:
        table.add_row(Text(str(name)), *(_of_all(split["labels"].get(name, 0), split) for split in facts.values()))
    if len(names) > LABELS_SHOWN:
        table.add_row(_("and {count} more").format(count=len(names) - LABELS_SHOWN), *("" for _split in facts))
    return table


def _table(first: str, splits: list[str]) -> Table:
    names = {"train": _("train"), "validation": _("validation"), "test": _("test")}
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, overflow="fold")
    for split in splits:
        table.add_column(names.get(split, split), justify="right", overflow="fold")
    return table


def _facts() -> list[tuple[str, Callable[[dict[str, Any]], str | None]]]:
    """Name of each fact, and how it is shown; None where a split does not have it."""
    return [
        (_("rows"), lambda facts: format_count(facts["rows"])),
        (_("encoding"), lambda facts: _in(facts, "reading", "encoding")),
        (_("without text"), lambda facts: _of_all(_in(facts, "empty", "count"), facts)),
        (_("repeated in the split"), lambda facts: _of_all(_in(facts, "duplicates", "rows"), facts)),
        (_("with contradicting labels"), lambda facts: _of_all(_in(facts, "conflicts", "rows"), facts)),
        (_("in training too"), lambda facts: _of_all(_in(facts, "overlap", "rows"), facts)),
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
    return (facts.get(group) or {}).get(name)


def _count(value: int | None) -> str | None:
    return None if value is None else format_count(value)


def _share(value: float | None) -> str | None:
    return None if value is None else format_share(value)


def _of_all(count: int | None, facts: dict[str, Any]) -> str | None:
    """A number of rows, with its share of the split."""
    if not count:
        return _count(count)
    return f"{format_count(count)} ({format_share(count / max(1, facts['rows']))})"


def _longest(lengths: dict[str, Any] | None) -> str | None:
    if not lengths or lengths.get("max") is None:
        return None
    return f"{format_count(lengths['max'])} ({lengths['max_line']})"
