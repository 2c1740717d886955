"""What the product adds to the loop: keeping the best model, and ending for a reason."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from trainwright.recipe.tasks import greater_is_better


class KeepBest(TrainerCallback):
    """Saves a checkpoint at each new best evaluation, whatever the saving interval is."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.greater = greater_is_better(metric)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        value = (metrics or {}).get(f"eval_{self.metric}")
        if value is None or not math.isfinite(value):
            return
        best = state.best_metric
        if best is None or (value > best if self.greater else value < best):
            control.should_save = True


class StopWhenOrphaned(TrainerCallback):
    """Ends training, with a checkpoint, when the watcher that started this process is gone."""

    def __init__(self, stop: StopRequests) -> None:
        self.stop = stop
        self.parent = os.getppid()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if os.getppid() != self.parent:
            self.stop.ask("the watcher is gone")


class StopRequests:
    """SIGTERM and SIGINT as wishes: training ends after the step, with a checkpoint."""

    def __init__(self) -> None:
        self.because = ""
        self._pass_on: Callable[[str], None] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)

    def passes_to(self, ask: Callable[[str], None]) -> None:
        """From now on tell ``ask`` about requests, also about one that came before."""
        self._pass_on = ask
        if self.because:
            ask(self.because)

    def ask(self, because: str) -> None:
        """Ask for a stop; the first reason stays."""
        self.because = self.because or because
        if self._pass_on is not None:
            self._pass_on(self.because)

    def _asked(self, number: int, _frame: Any) -> None:
        self.ask(f"{signal.Signals(number).name} received")
