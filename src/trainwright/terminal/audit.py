"""The audit of the data as tables: a column a split, a row a fact; then the labels; then what was found."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainwright.data.told import of_all, told
from trainwright.messages.text import _
from trainwright.records import Audit
from trainwright.terminal.tables import findings_list
from trainwright.units import format_count

LONGEST_SHOWN = 3
LABELS_SHOWN = 20  # the most frequent; a list of hundreds hides what the findings say


def audit_view(audit: Audit) -> RenderableType:
    """Everything that the audit knows, readable without colour."""
    findings = findings_list(audit.findings) or [Text(_("Nothing was found that deserves a look."))]
    tables = [facts_table(audit.facts), labels_table(audit.facts), longest_table(audit.facts)]
    return Group(*(part for table in tables if table.row_count for part in (table, Text())), *findings)


def facts_table(facts: dict[str, dict[str, Any]]) -> Table:
    """Counts and lengths of each split."""
    table = _table(_("data"), list(facts))
    for name, cells in told(facts):
        table.add_row(name, *cells)
    return table


def labels_table(facts: dict[str, dict[str, Any]]) -> Table:
    """Rows of each label in each split, the most frequent of training first."""
    table = _table(_("label"), list(facts))
    train = facts["train"]["labels"]
    names = sorted(train, key=lambda name: -train[name])
    for name in names[:LABELS_SHOWN]:
        table.add_row(Text(str(name)), *(of_all(split["labels"].get(name, 0), split) for split in facts.values()))
    if len(names) > LABELS_SHOWN:
        table.add_row(_("and {count} more").format(count=len(names) - LABELS_SHOWN), *("" for _split in facts))
    return table


def _table(first: str, splits: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, overflow="fold")
    for split in splits:
        table.add_column(_split_name(split), justify="right", overflow="fold")
    return table


def _split_name(split: str) -> str:
    return {"train": _("train"), "validation": _("validation"), "test": _("test")}.get(split, split)


def longest_table(facts: dict[str, dict[str, Any]]) -> Table:
    """The longest texts of each split."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(_("longest texts"), overflow="fold")
    for name in (_("line"), _("characters")):
        table.add_column(name, justify="right")
    table.add_column(_("begins"), no_wrap=True, overflow="ellipsis")
    for split, of_split in facts.items():
        for row in of_split.get("longest", [])[:LONGEST_SHOWN]:
            table.add_row(_split_name(split), str(row["line"]), format_count(row["characters"]), Text(row["text"]))
    return table
