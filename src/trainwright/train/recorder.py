"""Writes what happens in training into the run folder, and passes requests to stop on to the loop."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from transformers import TrainerCallback

from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal
from trainwright.train.allocator import STEPS_BETWEEN_RETURNS, give_back_memory

if TYPE_CHECKING:
    from trainwright.train.trainer import Trainer

HEARTBEAT_SECONDS = 1.0


class StepCounter:
    """What the steps since the last log line took: tokens, micro-batches, and the seconds spent on what."""

    def __init__(self) -> None:
        self.last_step_tokens = 0
        self.reset()

    def reset(self) -> None:
        self.steps = self.rows = self.real_tokens = self.padded_tokens = self.micro_batches = 0
        self.waiting_seconds = self.saving_seconds = 0.0

    def count(self, real_tokens: int, padded_tokens: int, micro_batches: int, rows: int) -> None:
        """Add one optimizer step."""
        self.steps += 1
        self.rows += rows
        self.real_tokens += real_tokens
        self.padded_tokens += padded_tokens
        self.micro_batches += micro_batches

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent waiting for rows."""
        began = time.monotonic()
        yield
        self.waiting_seconds += time.monotonic() - began

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Time spent saving."""
        began = time.monotonic()
        yield
        self.saving_seconds = time.monotonic() - began


class Recorder(TrainerCallback):
    """Journal and status of one training process.

    Files appear when training begins, not before. A stop that was asked for (by signal, or because the parent died)
    ends training after the current step, with a checkpoint.

    Args:
        folder: The run folder.
        trainer: Whose counter and arguments are read.
    """

    def __init__(self, folder: RunFolder, trainer: Trainer) -> None:
        self.folder = folder
        self.trainer = trainer
        self.journal: Journal | None = None
        self.rehearsal = False
        self.stop_because = ""
        self.writes_status = True  # the product's watcher writes the final state itself
        self._training = False  # evaluations before and after training leave the status as it is
        self._beat = 0.0
        self._log_began = time.monotonic()
        self._paused = 0.0  # seconds since the last log line that were not training
        self._evaluation_began: float | None = None

    def ask_to_stop(self, because: str) -> None:
        """Stop after the current step. Safe to call from a signal handler."""
        self.stop_because = self.stop_because or because

    # -- events of the loop ------------------------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.journal is None:
            self.journal = Journal(self.folder.journal, str(args.process_index))
            self.journal.write("start", pid=os.getpid(), phase="rehearse" if self.rehearsal else "train")
        self._training = True
        self._phase("rehearse" if self.rehearsal else "train")
        self.trainer.recovery.training_begins()
        self.journal.write(
            "cut",
            sync=True,
            step=state.global_step,
            tokens_per_micro_batch=self.trainer.tokens_per_micro_batch,
            because="as planned" if self.trainer.tokens_per_micro_batch else "as the script's own micro-batches",
            rehearsal=self.rehearsal,
            fresh=self.trainer.recovery.fresh,
        )
        self._restart_clock()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.stop_because:
            control.should_save = not self.rehearsal
            control.should_training_stop = True
        if state.global_step >= state.max_steps and not self.rehearsal:
            control.should_log = True
        if args.device.type == "cpu" and state.global_step % STEPS_BETWEEN_RETURNS == 0:
            give_back_memory()
        now = time.monotonic()
        if now - self._beat >= HEARTBEAT_SECONDS:
            self._beat = now
            self._set_status(step=state.global_step, steps=state.max_steps, epoch=state.epoch)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        counter = self.trainer.counter
        if self.journal is None or not logs or "loss" not in logs or counter.steps == 0:
            return
        seconds = time.monotonic() - self._log_began - self._paused
        self.journal.write(
            "log",
            step=state.global_step,
            epoch=state.epoch,
            loss=logs["loss"],
            grad_norm=logs.get("grad_norm"),
            learning_rate=logs.get("learning_rate"),
            steps=counter.steps,
            rows=counter.rows,
            step_seconds=seconds / counter.steps,
            waiting_seconds=counter.waiting_seconds,
            real_tokens=counter.real_tokens,
            padded_tokens=counter.padded_tokens,
            micro_batches=counter.micro_batches,
            memory=resident_bytes(),
            gpu_memory=gpu_bytes(),
            rehearsal=self.rehearsal,
        )
        counter.reset()
        self._restart_clock()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._evaluation_began is None:
            self._evaluation_began = time.monotonic()
            self._phase("evaluate")

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict | None = None, **_: Any) -> None:
        took = time.monotonic() - self._evaluation_began if self._evaluation_began else 0.0
        self._evaluation_began = None
        self._paused += took
        if self.journal is None:
            return
        names = {
            name.removeprefix("eval_"): value for name, value in (metrics or {}).items() if name.startswith("eval_")
        }
        shown = {name: value for name, value in names.items() if isinstance(value, (int, float))}
        if not shown:  # an evaluation after training, of another prefix: its scores go into results.json
            return
        self.journal.write("evaluate", step=state.global_step, metrics=shown, took=took, rehearsal=self.rehearsal)
        self._phase("rehearse" if self.rehearsal else "train")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        took = self.trainer.counter.saving_seconds
        self._paused += took
        if self.journal is None:
            return
        saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if state.global_step not in self.trainer.recovery.saved:
            return  # it failed, which was said
        size = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
        self.journal.write(
            "save", step=state.global_step, took=took, bytes=size, folder=saved.name, rehearsal=self.rehearsal
        )

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._training = False
        ended = "stopped" if self.stop_because else "finished"
        if self.journal is not None and not self.rehearsal:
            self.journal.write("end", state=ended, because=self.stop_because)
        if self.writes_status and not self.rehearsal:
            self._set_status(state=ended, because=self.stop_because, step=state.global_step, exit_code=0)

    # -- helpers -----------------------------------------------------------------------------------------------

    def _phase(self, phase: str) -> None:
        if self.journal is None or not self._training:
            return
        self.journal.write("phase", phase=phase)
        state = {"rehearse": "rehearsing", "train": "training", "evaluate": "evaluating"}[phase]
        if not self.rehearsal or phase == "rehearse":
            self._set_status(state=state)

    def _set_status(self, **changes: Any) -> None:
        if self.trainer.args.process_index == 0 and self.journal is not None:
            self.folder.set_status(worker_pid=os.getpid(), **changes)

    def _restart_clock(self) -> None:
        self._log_began, self._paused = time.monotonic(), 0.0


def resident_bytes() -> int:
    """Resident memory of this process now, in bytes."""
    return psutil.Process().memory_info().rss


def peak_resident_bytes() -> int:
    """The most resident memory that this process has had, in bytes."""
    kilobytes_or_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes_or_bytes * (1 if sys.platform == "darwin" else 1024)


def gpu_bytes() -> int | None:
    """The most memory that torch held on this process's GPU so far, in bytes; None without a GPU."""
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else None
