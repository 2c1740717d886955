"""What the doctor found, for people: the verdict, what needs a hand first, then every area in a few lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainwright.doctor.records import AREAS, VERDICTS, Check
from trainwright.messages.text import _
from trainwright.units import format_seconds

MARKS = {"blocker": "✗", "warning": "!", "note": "·", "not available": "?", "ok": "✓"}
STYLES = {"blocker": "bold red", "warning": "yellow", "note": "cyan", "not available": "dim", "ok": "green"}


def doctor_table(checks: Sequence[Check], seconds: float) -> RenderableType:
    """Every check, grouped by area; the areas with the gravest findings first, and in each the gravest first."""
    areas = sorted({check.area for check in checks}, key=lambda area: (_gravest(checks, area), AREAS.index(area)))
    return Group(*(_area(checks, area) for area in areas), _verdict_line(checks, seconds))


def _gravest(checks: Sequence[Check], area: str) -> int:
    """0 for an area with a blocker, 1 for one with a warning; all others alike."""
    return min(2, *(VERDICTS.index(check.verdict) for check in checks if check.area == area))


def _area(checks: Sequence[Check], area: str) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(width=1)
    table.add_column(overflow="fold")
    for check in sorted((one for one in checks if one.area == area), key=lambda one: VERDICTS.index(one.verdict)):
        table.add_row(Text(MARKS[check.verdict], style=STYLES[check.verdict]), _said(check))
    return Group(Text(_area_name(area), style="bold"), Padding(table, (0, 0, 1, 1)))


def _said(check: Check) -> RenderableType:
    """The sentence; below it, where something should be done, what, and a line to paste."""
    quiet = check.verdict in ("ok", "not available")
    parts: list[RenderableType] = [Text(check.message, style="dim" if quiet else "")]
    if check.fix is not None and check.verdict != "ok":
        parts.append(Text(f"→ {check.fix.text}"))
        if check.fix.command:
            parts.append(Text(f"  {check.fix.command}", style="cyan", overflow="fold"))
    return Group(*parts)


def _verdict_line(checks: Sequence[Check], seconds: float) -> Text:
    counts = {verdict: sum(check.verdict == verdict for check in checks) for verdict in VERDICTS}
    numbers = "  ".join(f"{MARKS[verdict]} {count}" for verdict, count in counts.items() if count)
    numbers += f"  ({format_seconds(seconds)})"
    if counts["blocker"]:
        return Text.assemble((_("Not fit to train."), "bold red"), f" {numbers}")
    if counts["warning"]:
        return Text.assemble((_("Fit to train, with warnings."), "bold yellow"), f" {numbers}")
    return Text.assemble((_("Fit to train."), "bold green"), f" {numbers}")


def _area_name(area: str) -> str:
    names = {
        "versions": _("Versions"),
        "hardware": _("Hardware"),
        "disks": _("Disks"),
        "network": _("Network"),
        "platform": _("Platform"),
        "libraries": _("Libraries"),
        "recipe": _("Recipe"),
    }
    return names[area]
