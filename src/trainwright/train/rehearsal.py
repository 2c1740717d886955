"""The rehearsal: the whole road, shortened, before the long part.

Train, evaluate, save, reload and predict on a sample that begins with the longest rows, with a model that is thrown
away: what would fail after hours fails now, and the time of the whole run is known from measured steps.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import TrainerCallback

from trainwright.errors import CheckFailed
from trainwright.messages.text import _
from trainwright.recipe.schema import Recipe
from trainwright.records import Plan
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal
from trainwright.train.recorder import gpu_bytes, peak_resident_bytes
from trainwright.train.seeds import shuffled

if TYPE_CHECKING:
    from trainwright.train.callbacks import StopRequests
    from trainwright.train.tasks import Task
    from trainwright.train.trainer import Trainer

MOST_SECONDS = 120.0
EVALUATED_ROWS = 256
SAME_PREDICTION = 1e-5  # fp32 weights are saved exactly, so a reloaded model differs by rounding at most


class Sample:
    """Some rows of a data set, by place."""

    def __init__(self, rows: Any, places: np.ndarray) -> None:
        self.rows, self.places = rows, places
        self.lengths = rows.lengths[places]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Any:
        return self.rows[int(self.places[index])]


class TimeLimit(TrainerCallback):
    """Ends the rehearsal when its time is up."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = control.should_training_stop or time.monotonic() > self.until


def longest_first(lengths: np.ndarray, count: int, first: int, seed: int) -> np.ndarray:
    """Places of a sample: the ``first`` longest rows, then others at random, each once.

    Args:
        lengths: Tokens of each row, shape (rows,).
        count: Rows of the sample.
    """
    longest = np.argsort(-lengths, kind="stable")[: min(first, count)]
    others = np.setdiff1d(shuffled(len(lengths), seed, 0), longest, assume_unique=True)
    return np.concatenate([longest, others[: max(0, count - len(longest))]])


def rehearse(
    folder: RunFolder,
    recipe: Recipe,
    plan: Plan,
    task: Task,
    journal: Journal,
    make_trainer: Callable[..., Trainer],
    stop: StopRequests,
) -> dict[str, Any]:
    """Go the whole road once.

    Returns:
        What it took: steps, seconds, peak_memory (bytes), tokens_per_second, predicted_seconds of the whole training.

    Raises:
        CheckFailed: The reloaded model predicts something else than the one that was saved.
        Exception: Whatever failed on the way, with its own message.
    """
    began = time.monotonic()
    place = folder.path / "rehearsal"
    shutil.rmtree(place, ignore_errors=True)
    trainer = make_trainer(
        folder, recipe, plan, task, journal, output=place,
        max_steps=plan.rehearsal_steps, warmup_steps=0, logging_steps=1, save_strategy="no", eval_strategy="no",
        report_to=[],
    )  # fmt: skip
    trainer.recorder.rehearsal = True
    stop.passes_to(trainer.recorder.ask_to_stop)
    batch = recipe.learn.batch_size
    rows = task.rows("train")
    assert rows is not None
    places = longest_first(rows.lengths, min(len(rows), plan.rehearsal_steps * batch), batch, recipe.learn.seed)
    trainer.train_dataset = Sample(rows, places)
    trainer.args.train_sampling_strategy = "sequential"
    trainer.add_callback(TimeLimit(MOST_SECONDS))
    trainer.train()
    took = measured(journal)
    if not trainer.recorder.stop_because:
        _evaluate_and_reload(task, trainer, place)
    shutil.rmtree(place, ignore_errors=True)
    summary: dict[str, Any] = {
        "steps": trainer.state.global_step,
        "seconds": time.monotonic() - began,
        "peak_memory": gpu_bytes() or peak_resident_bytes(),
        "tokens_per_second": took,
        "predicted_seconds": predicted_seconds(task, plan, batch, took),
        "ok": True,
    }
    journal.write("rehearsed", **summary)
    return summary


def measured(journal: Journal) -> float | None:
    """Real tokens per second of the rehearsal, without its first step, which warms everything up; None if unknown."""
    from trainwright.runs.journal import read_events, steps_of

    mine = [event for event in read_events(journal.path.parent) if event["attempt"] == journal.attempt]
    logs = steps_of(mine, "log", rehearsal=True)[1:]
    seconds = sum(event["step_seconds"] * event["steps"] for event in logs)
    return sum(event["real_tokens"] for event in logs) / seconds if seconds > 0 else None


def predicted_seconds(task: Task, plan: Plan, batch: int, tokens_per_second: float | None) -> float | None:
    """Seconds that the steps of the whole training will take, from the rows' real tokens; None if unknown."""
    if not tokens_per_second:
        return None
    train = task.prepared.splits["train"]
    return plan.steps * batch * (train.tokens / train.rows) / tokens_per_second


def _evaluate_and_reload(task: Task, trainer: Trainer, place: Any) -> None:
    rows = task.rows("validation") or task.rows("train")
    assert rows is not None
    places = longest_first(rows.lengths, min(len(rows), EVALUATED_ROWS), EVALUATED_ROWS // 4, 0)
    trainer.evaluate(Sample(rows, places))  # type: ignore[arg-type]
    trainer.save_model(str(place / "model"))
    trainer.model.eval()
    batch = trainer._prepare_inputs(trainer.data_collator([rows[int(place)] for place in places[:4]]))
    reloaded = type(trainer.model).from_pretrained(place / "model").to(trainer.args.device).eval()
    with torch.no_grad():
        before = _logits(trainer.model, batch)
        after = _logits(reloaded, batch)
    difference = float((before - after).abs().max())
    if not difference <= SAME_PREDICTION * max(1.0, float(before.abs().max())):
        raise CheckFailed(
            _("The saved model, loaded again, predicts something else: logits differ by {difference:.2g}.").format(
                difference=difference
            ),
            _("This model does not keep all of its state in its saved files; choose another model."),
        )


def _logits(model: Any, batch: Any) -> torch.Tensor:
    forward = getattr(model, "_original_forward", model.forward)  # without the autocast that accelerate wraps around it
    return forward(**batch).logits.float()
