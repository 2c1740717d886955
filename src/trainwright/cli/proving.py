"""What prove shows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from trainwright.errors import CheckFailed
from trainwright.messages.text import _

if TYPE_CHECKING:
    from rich.console import Console

    from trainwright.launch.local import Observer
    from trainwright.runs.folder import RunFolder


class _Silent:
    def update(self) -> None:
        """Nothing is shown while a proof runs but that it runs."""


def prove_and_show(recipe: Path, steps: int, sets: list[str], console: Console) -> None:
    """Compare and print the differences.

    Raises:
        CheckFailed: They are larger than rounding explains.
    """
    from trainwright.flow import prove

    @contextlib.contextmanager
    def watch(_folder: RunFolder) -> Iterator[Observer]:
        with console.status(_("Training the first steps whole, cut, packed and cut finer ...")):
            yield _Silent()

    proof = prove(recipe, steps, watch, sets)
    console.print(_table(proof))
    if not proof["holds"]:
        raise CheckFailed(
            _("Cutting a step changes what it learns: {ways}.").format(
                ways=", ".join(_name(name) for name, way in proof["ways"].items() if not way["holds"])
            ),
            _("Please report this with the recipe; until then, let run.tokens_per_micro_batch hold a whole step."),
        )
    console.print(
        _("However the step is cut, it is the same step, up to the rounding of {format}.").format(
            format=proof["format"]
        )
    )


def _table(proof: dict[str, Any]) -> Table:
    title = _("{steps} steps of {rows} rows in {format}, beside the same steps run whole and padded")
    table = Table(title=title.format(steps=proof["steps"], rows=proof["rows"], format=proof["format"]))
    table.add_column(_("way"))
    for head in (_("cuts"), _("gradient, at most"), _("median"), _("weights"), _("logits")):
        table.add_column(head, justify="right")
    for name, way in proof["ways"].items():
        shown = [way[key] for key in ("gradient_largest", "gradient_median", "weights", "logits")]
        label = _name(name) if name != "packed" or way["packed"] else _("packed (not this model: padded)")
        table.add_row(
            label, str(way["micro_batches"]), *("n/a" if value is None else f"{value:.1e}" for value in shown)
        )
    return table


def _name(way: str) -> str:
    return {"cut": _("cut"), "packed": _("packed"), "cut finer": _("cut finer")}[way]
