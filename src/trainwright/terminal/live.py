"""A run while it goes on: a live panel in a terminal, plain lines elsewhere, silence where nobody reads."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainwright.messages.text import _
from trainwright.recipe.tasks import all_metrics, greater_is_better, task_of
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Follower
from trainwright.terminal.console import discard_output
from trainwright.units import (
    format_bytes,
    format_count,
    format_number,
    format_seconds,
    format_share,
    parse_money,
)

PLAIN_SECONDS = 10.0  # between plain lines of one kind, so that a log file stays readable
BARS = "▁▂▃▄▅▆▇█"


class Seen:
    """What the journal has said so far, reduced to what a view shows."""

    def __init__(self) -> None:
        self.phase = ""
        self.progress: dict[str, Any] = {}
        self.log: dict[str, Any] = {}
        self.losses: list[float] = []
        self.best: dict[str, float] = {}
        self.step_seconds: list[float] = []
        self.messages: list[str] = []

    def take(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        kind = event["event"]
        if kind == "phase":
            self.phase = event["phase"]
            self.progress = {}
        elif kind == "progress":
            self.progress = event
        elif kind == "log":
            if self.log and self.log.get("rehearsal") != event.get("rehearsal"):
                self.losses, self.step_seconds = [], []
            self.log = event
            if isinstance(event["loss"], float):
                self.losses.append(event["loss"])
            self.step_seconds = [*self.step_seconds[-9:], event["step_seconds"]]
        elif kind == "evaluate" and not event.get("rehearsal"):
            for name, value in event["metrics"].items():
                known = self.best.get(name)
                if isinstance(value, float) and (known is None or (value > known) == greater_is_better(name)):
                    self.best[name] = value
        elif kind == "finding":
            self.messages.append(event["finding"]["message"])

    def seconds_left(self, steps: int | None) -> float | None:
        """Seconds of training still to come, by the latest steps; None if unknown."""
        if not self.log or not steps or not self.step_seconds or self.log.get("rehearsal"):
            return None
        return (steps - self.log["step"]) * sum(self.step_seconds) / len(self.step_seconds)


class LiveView:
    """Shows a run while it goes on; ``update`` is called a few times a second.

    Args:
        folder: The run.
        console: Where to.
        plain: Plain lines (True) or a live panel (False); by default whatever the console is.
    """

    def __init__(self, folder: RunFolder, console: Console, plain: bool | None = None) -> None:
        self.folder = folder
        self.console = console
        self.plain = plain if plain is not None else not console.is_terminal
        self.seen = Seen()
        self._follower = Follower(folder.journal)
        self._began = time.monotonic()
        self._price = self._price_per_hour()
        self._last_line: dict[str, float] = {}
        self._phases_said: set[str] = set()
        self._live: Live | None = None
        self._quiet = False

    def __enter__(self) -> LiveView:
        if self.plain:
            self._say(_("Run {run} in {folder}").format(run=self.folder.id, folder=self.folder.path))
        else:
            self._live = Live(self.panel(), console=self.console, auto_refresh=False, transient=True)
            self._guard(self._live.start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._guard(self._live.stop)

    def update(self) -> None:
        """Look at the run and show what is new. A closed output makes the view silent; it never raises."""
        for event in self._follower.new_events():
            self.seen.take(event)
            if self.plain:
                self._plain_line(event)
        live = self._live
        if live is not None:
            self._guard(lambda: live.update(self.panel(), refresh=True))

    # -- the panel -------------------------------------------------------------------------------------------------

    def panel(self) -> RenderableType:
        """The live panel."""
        status = self.folder.status()
        steps = status.steps
        log = {} if self.seen.log.get("rehearsal") and self.seen.phase == "train" else self.seen.log
        step = log.get("step") or (status.step if status.state == "training" else 0) or 0
        total = self.folder.plan().rehearsal_steps if log.get("rehearsal") and self.folder.plan() else steps  # type: ignore[union-attr]
        parts: list[RenderableType] = [Text(self._doing(), style="bold")]
        if total:
            bar = Table.grid(expand=True)  # a row of its own: a bar ends without a new line
            bar.add_row(ProgressBar(total=total, completed=min(step, total)))
            parts.append(bar)
        if log:
            parts.append(self._numbers(log, step, total))
        parts += [Text(f"! {message}", style="yellow") for message in self.seen.messages[-2:]]
        return Panel(Group(*parts), title=self.folder.id, title_align="left", border_style="dim", padding=(0, 1))

    def _doing(self) -> str:
        progress = self.seen.progress
        if progress:
            if progress["phase"] == "fetch":
                line = _("Fetching the model: {done} of {total}")
                return line.format(done=format_bytes(progress["done"]), total=format_bytes(progress["total"]))
            total = f"/{format_count(progress['total'])}" if progress.get("total") else ""
            done = format_count(progress["done"])
            return _("Preparing: {done}{total} {unit}").format(done=done, total=total, unit=progress["unit"])
        return phase_name(self.seen.phase) or _("Starting")

    def _numbers(self, log: dict[str, Any], step: int, total: int | None) -> Table:
        padding = 1 - log["real_tokens"] / log["padded_tokens"] if log["padded_tokens"] else None
        rate = log["real_tokens"] / (log["step_seconds"] * log["steps"]) if log["step_seconds"] else None
        best = {name: self.seen.best[name] for name in task_of(self.folder.resolved()).shown if name in self.seen.best}
        cells = [
            (_("step"), f"{format_count(step)}/{format_count(total)}"),
            (_("epoch"), format_number(log.get("epoch"), 3)),
            (_("loss"), f"{number_or_word(log['loss'])} {sparkline(self.seen.losses, 12)}"),
            (_("learning rate"), format_number(log.get("learning_rate"), 3)),
            (_("gradient norm"), number_or_word(log.get("grad_norm"))),
            (_("real tokens/s"), format_count(rate)),
            (_("padding"), format_share(padding)),
            (_("memory"), format_bytes(log.get("gpu_memory") or log.get("memory"))),
            (_("time left"), format_seconds(self.seen.seconds_left(self.folder.status().steps))),
            (_("money so far"), self.money() or "n/a"),
            *((_("best {metric}").format(metric=name), f"{value:.4f}") for name, value in best.items()),
        ]
        table = Table.grid(padding=(0, 2), expand=True)
        for _column in range(4):
            table.add_column(no_wrap=True)
        pairs = [*cells, ("", "")] if len(cells) % 2 else cells
        for (name, value), (other, more) in zip(pairs[::2], pairs[1::2], strict=True):
            table.add_row(Text(name, style="dim"), value, Text(other, style="dim"), more)
        return table

    # -- plain lines -----------------------------------------------------------------------------------------------

    def _plain_line(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "phase":
            if event["phase"] not in self._phases_said and event["phase"] != "evaluate":
                self._phases_said.add(event["phase"])
                self._say(phase_name(event["phase"]))
        elif kind in ("log", "progress") and self._is_time_for(kind):
            self._say(self._log_line(event) if kind == "log" else f"  {self._doing()}")
        elif kind == "evaluate" and not event.get("rehearsal"):
            shown = ", ".join(
                f"{name} {score_or_word(value)}" for name, value in event["metrics"].items() if name in SCORES
            )
            self._say(_("  step {step}: validation {scores}").format(step=event["step"], scores=shown))
        elif kind == "finding":
            self._say(f"  ! {event['finding']['message']}")

    def _log_line(self, log: dict[str, Any]) -> str:
        rate = log["real_tokens"] / (log["step_seconds"] * log["steps"]) if log["step_seconds"] else None
        line = _("  step {step}/{steps}: loss {loss}, {rate} real tokens/s, {left} left")
        return line.format(
            step=log["step"],
            steps=self.folder.status().steps or "n/a",
            loss=number_or_word(log["loss"]),
            rate=format_count(rate),
            left=format_seconds(self.seen.seconds_left(self.folder.status().steps)),
        )

    def _is_time_for(self, kind: str) -> bool:
        now = time.monotonic()
        if now - self._last_line.get(kind, float("-inf")) < PLAIN_SECONDS:
            return False
        self._last_line[kind] = now
        return True

    # -- helpers ---------------------------------------------------------------------------------------------------

    def money(self) -> str | None:
        """What the run has cost so far, from the price in the recipe; None without one."""
        return str(self._price.times((time.monotonic() - self._began) / 3600)) if self._price else None

    def _price_per_hour(self) -> Any:
        price = self.folder.resolved().get("run.price_per_hour")
        return parse_money(price.value) if price and price.value else None

    def _say(self, line: str) -> None:
        self._guard(lambda: self.console.print(line, markup=False, highlight=False, soft_wrap=True))

    def _guard(self, show: Any) -> None:
        """Show something, or fall silent for good: the terminal may be gone, the run goes on."""
        if self._quiet:
            return
        try:
            show()
        except (OSError, ValueError):  # a closed stream raises one or the other
            self._quiet = True
            discard_output()


SCORES = all_metrics()


def phase_name(phase: str) -> str:
    """A phase of the journal in words; empty for one that is over at once."""
    return {
        "fetch": _("Finding the model"),
        "prepare": _("Preparing the data"),
        "rehearse": _("Rehearsing: the whole road on a sample"),
        "train": _("Training"),
        "evaluate": _("Evaluating"),
        "save": _("Saving"),
        "predict": _("Predicting"),
    }.get(phase, "")


def number_or_word(value: Any) -> str:
    """A number with four digits; what is no number (nan, inf) as it is; None as n/a."""
    return format_number(value) if value is None or isinstance(value, (int, float)) else str(value)


def score_or_word(value: Any) -> str:
    """A score or loss with four decimals; what is no number (nan, inf) as it is."""
    return f"{value:.4f}" if isinstance(value, (int, float)) else str(value)


def sparkline(values: list[float], width: int) -> str:
    """The last values as bars, the highest being the tallest."""
    shown = values[-width:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in shown)
