"""What plan shows: memory, time and money of a recipe, here or on other cards, before anything is paid for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from trainwright.errors import CheckFailed, UserError
from trainwright.messages.text import _
from trainwright.records import Forecast, to_plain
from trainwright.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from trainwright.flow import OnCard, Planned
    from trainwright.launch.local import Observer
    from trainwright.runs.folder import RunFolder


class _Silent:
    def update(self) -> None:
        """Nothing is shown while data is prepared but that it is."""


def plan_and_show(
    recipe: Path, sets: list[str], places: Sequence[OnCard], as_json: bool, console: Console, wait: Console
) -> None:
    """Plan and print.

    Raises:
        CheckFailed: It does not fit where it was planned for; not where several were compared.
    """
    from trainwright.flow import plan

    @contextlib.contextmanager
    def watch(_folder: RunFolder) -> Iterator[Observer]:
        with wait.status(_("Finding the model and preparing the data ...")):
            yield _Silent()

    planned = plan(recipe, watch, sets, places)
    if as_json:
        print(json.dumps([_as_json(one) for one in planned], ensure_ascii=False, indent=1))
    elif len(planned) > 1:
        console.print(comparison(planned))
    else:
        show(planned[0], console)
    if len(planned) == 1:
        _refuse_what_does_not_fit(planned[0])


def places_of(on: str | None, gpus: int | None, hosts: int, price: str | None, compare: str | None) -> list[OnCard]:
    """The places that the command line names.

    Raises:
        UserError: The price is none, or a place makes no sense.
    """
    from trainwright.flow import OnCard
    from trainwright.plan.cost import parse_price

    if price is not None:
        try:
            parse_price(price)
        except ValueError as error:
            raise UserError(str(error), _('Write it as --price "2.18 CNY/h".')) from None
    if price is not None and compare is not None:
        raise UserError(
            _("One price cannot be that of several cards."),
            _("Leave out --price and write the prices into ~/.config/trainwright/prices.yaml."),
        )
    names = [name.strip() for name in (compare or "").split(",") if name.strip()]
    if names:
        return [OnCard(name, gpus, hosts) for name in names]
    return [OnCard(on, gpus, hosts, price)]


# -- one place -----------------------------------------------------------------------------------------------------


def show(one: Planned, console: Console) -> None:
    """A plan: what is chosen and why, memory by parts, time by phases, money."""
    if one.plan is None or one.plan.forecast is None:
        console.print(Text(one.problem, style="red"))
        return
    plan, taken = one.plan, one.plan.forecast
    where = f"{taken.cards} x {taken.device}" if taken.cards > 1 else taken.device
    console.print(Text(where, style="bold"))
    steps = _("{steps} steps, {per_epoch} an epoch; micro-batches of {tokens} tokens in {precision}")
    console.print(
        steps.format(
            steps=format_count(plan.steps),
            per_epoch=format_count(plan.steps_per_epoch),
            tokens=format_count(plan.tokens_per_micro_batch),
            precision=plan.precision,
        )
    )
    for name in ("run.precision", "run.tokens_per_micro_batch", "run.batches"):
        choice = one.values[name]
        if choice.because:
            console.print(Text(f"  {name}: {choice.value} ({choice.because})", style="dim"))
    console.print(_parts(_("memory"), memory_rows(taken)))
    console.print(Text(f"  {taken.because['memory']}", style="dim"))
    console.print(_parts(_("time"), time_rows(taken)))
    console.print(Text(f"  {taken.because['speed']}", style="dim"))
    console.print(Text(money_line(taken)))
    console.print(Text(f"  {taken.because['price']}", style="dim"))


def memory_rows(taken: Forecast) -> list[tuple[str, str]]:
    """Parts of memory, their sum and what there is; each with its size."""
    names = {
        "weights": _("weights"), "gradients": _("gradients"), "optimizer": _("optimizer"),
        "copies": _("weights in half precision"), "activations": _("activations"), "workspace": _("workspace"),
        "context": _("libraries and context"), "slack": _("allocator's slack"), "learned": _("learned from past runs"),
    }  # fmt: skip
    rows = [(names[name], format_bytes(size)) for name, size in (taken.memory or {}).items() if size]
    verdict = {True: _("fits"), False: _("does not fit"), None: _("not known whether it fits")}[taken.fits]
    of = _("{total} of {available}: {verdict}").format(
        total=format_bytes(taken.memory_total), available=format_bytes(taken.memory_available), verdict=verdict
    )
    return [*rows, (_("together"), of)]


def time_rows(taken: Forecast) -> list[tuple[str, str]]:
    """Phases of a run and their sum."""
    names = {
        "preparing": _("preparing the data"), "download": _("fetching the model"), "start": _("starting"),
        "rehearsal": _("rehearsal"), "training": _("training"), "evaluation": _("evaluation"), "saving": _("saving"),
    }  # fmt: skip
    rows = [(names[name], format_seconds(value)) for name, value in taken.seconds.items() if value != 0]
    return [*rows, (_("together"), format_seconds(taken.seconds_total))]


def money_line(taken: Forecast) -> str:
    """What it costs, or that nobody has said."""
    if taken.cost is None:
        return _("cost: n/a")
    return _("cost: {cost} at {price} an hour; {epoch} an epoch").format(
        cost=taken.cost, price=taken.price, epoch=taken.cost_per_epoch or "n/a"
    )


def _parts(title: str, rows: list[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(min_width=28)
    table.add_column(justify="right")
    for number, (name, value) in enumerate(rows):
        table.add_row(name, value, style="bold" if number == len(rows) - 1 else None)
    return table


def _refuse_what_does_not_fit(one: Planned) -> None:
    if one.plan is None:
        raise CheckFailed(one.problem)
    taken = one.plan.forecast
    if taken is not None and taken.fits is False:
        raise CheckFailed(
            _("It does not fit into {available}. What would, the cheapest first:").format(
                available=format_bytes(taken.memory_available)
            ),
            "\n".join(f"  {number}. {way}" for number, way in enumerate(taken.ways, 1)),
        )


# -- several -------------------------------------------------------------------------------------------------------


def comparison(planned: Sequence[Planned]) -> Table:
    """A line for each card; the quickest and the cheapest that fit are marked."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in (_("card"), _("precision"), _("tokens"), _("memory"), _("time"), _("price"), _("cost"), ""):
        table.add_column(name, overflow="fold")
    fitting = [one.plan.forecast for one in planned if one.plan and one.plan.forecast and one.plan.forecast.fits]
    for one in planned:
        taken = one.plan.forecast if one.plan else None
        if taken is None:
            table.add_row(str(one.on.card), "", "", "", "", "", "", one.problem)
            continue
        memory = f"{format_bytes(taken.memory_total)} / {format_bytes(taken.memory_available)}"
        table.add_row(
            f"{taken.cards} x {taken.device}" if taken.cards > 1 else taken.device,
            taken.precision,
            format_count(taken.tokens_per_micro_batch),
            memory,
            format_seconds(taken.seconds_total),
            taken.price or "n/a",
            taken.cost or "n/a",
            ", ".join(_marks(taken, fitting)),
        )
    return table


def _marks(taken: Forecast, fitting: Sequence[Forecast]) -> list[str]:
    if taken.fits is False:
        return [_("does not fit")]
    marks = []
    timed = [one.seconds_total for one in fitting if one.seconds_total is not None]
    if taken in fitting and timed and taken.seconds_total == min(timed):
        marks.append(_("quickest"))
    costs = [one.cost for one in fitting if one.cost is not None]
    one_currency = len({cost.split()[1] for cost in costs}) == 1  # amounts of several are not compared
    if taken in fitting and taken.cost and one_currency and _amount(taken.cost) == min(map(_amount, costs)):
        marks.append(_("cheapest"))
    return marks


def _amount(cost: str) -> float:
    return float(cost.split()[0])


def _as_json(one: Planned) -> dict[str, Any]:
    chosen = {name: choice for name, choice in one.values.items() if choice.origin == "chosen"}
    plain: dict[str, Any] = to_plain({"on": one.on, "plan": one.plan, "problem": one.problem, "chosen": chosen})
    return plain
