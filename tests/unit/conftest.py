"""Made-up run folders, as a training process leaves them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.machine.madeup import made_up
from trainwright.records import Audit, Choice, Finding, Plan, Prepared, Split
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal
from trainwright.train.metrics import scores

LABELS = ["negative <b>", "neutral", "positive"]
CONFUSION = [[40, 8, 2], [6, 20, 4], [1, 3, 66]]


@pytest.fixture
def made_up_run(tmp_path: Path) -> Callable[..., RunFolder]:
    """Makes a run folder: ``made_up_run(state="failed", steps=100)``; ``began``: training did."""

    def make(
        state: str = "finished",
        steps: int = 100,
        labels: list[str] = LABELS,
        confusion: Any = CONFUSION,
        values: dict[str, Any] | None = None,
        losses: Callable[[int], float] = lambda step: 0.2 + math.exp(-step / 20),
        curve: Callable[[int], float] = lambda step: 0.8,
        padding: float = 0.1,
        because: str = "",
        plan: dict[str, Any] | None = None,
        price: str | None = None,
        took: float = 0.5,
        began: bool = True,
    ) -> RunFolder:
        folder = RunFolder(tmp_path / "reviews-20260101-120000")
        folder.journal.mkdir(parents=True)
        folder.recipe_file.write_text("name: reviews\n")
        folder.set_status(state=state, because=because, step=steps, steps=steps, exit_code=0)
        folder.write_machine(made_up("a100-80g"))
        _write_values(folder, {"run.price_per_hour": price} | (values or {}))
        _write_data(folder, labels, confusion)
        made = {"steps": steps, "steps_per_epoch": steps, "warmup_steps": 6, "eval_steps": 20, "save_steps": 20}
        made |= {"logging_steps": 1, "precision": "bf16", "tokens_per_micro_batch": 2048, "rehearsal_steps": 4}
        folder.write_plan(Plan(**(made | {"device": "cpu", "price_per_hour": price} | (plan or {}))))
        if began:
            _write_journal(folder, steps, losses, curve, padding, took)
        if state == "finished":
            _write_results(folder, steps, labels, confusion)
        return folder

    return make


def _write_values(folder: RunFolder, values: dict[str, Any]) -> None:
    defaults = {
        "model": "google-bert/bert-base-chinese",
        "learn.learning_rate": 5e-5,
        "learn.metric_for_best_model": "macro_f1",
        "learn.num_train_epochs": 1.0,
        "data.text": "text",
    }
    given = {name: Choice(value, "recipe") for name, value in (defaults | values).items()}
    folder.write_resolved(given | {"data.max_length": Choice(128, "chosen", "99 % of the rows are shorter")})


def _write_data(folder: RunFolder, labels: list[str], confusion: Any) -> None:
    rows = [int(sum(row)) for row in confusion]
    prepared = Prepared(
        folder="cache", key="k", cached=False, because="nothing was prepared yet",
        splits={name: Split(name, sum(rows), 3000, f"{name}.arrow", "reviews.csv") for name in ("train", "validation")},
        labels=labels, max_length=128, prefix=[1], suffix=[2], pad_id=0,
        lengths={"train": [[5, 40], [20, 90], [150, 3]]}, label_rows={"train": rows, "validation": rows},
    )  # fmt: skip
    finding = Finding("data.duplicates", "warning", "12 rows repeat.", {"count": 12, "lines": [3, 9]}, "Keep one.")
    folder.write_data(Audit([finding], {"train": {"rows": 150, "empty": 2}, "validation": {"rows": 150}}), prepared)


def _write_journal(folder: RunFolder, steps: int, losses: Any, curve: Any, padding: float, took: float) -> None:
    journal = Journal(folder.journal, "0")
    journal.write("start", pid=1, phase="train")
    journal.write("phase", phase="train")
    for step in range(1, steps + 1):
        journal.write(
            "log", step=step, epoch=step / steps, loss=losses(step), grad_norm=1.0 + 1 / step,
            learning_rate=5e-5 * (1 - step / steps), steps=1, rows=32, step_seconds=took, waiting_seconds=0.0,
            real_tokens=1000, padded_tokens=round(1000 / (1 - padding)), micro_batches=2, memory=2**30,
            gpu_memory=None, rehearsal=False,
        )  # fmt: skip
        if step % 20 == 0:
            metrics = {"loss": 0.5, "macro_f1": curve(step), "accuracy": curve(step), "mcc": 0.5}
            journal.write("evaluate", step=step, metrics=metrics, took=1.0, rehearsal=False)
            journal.write("save", step=step, took=0.2, bytes=1000, folder=f"checkpoint-{step}", rehearsal=False)
    journal.write("end", state="finished", because="")
    journal.close()


def _write_results(folder: RunFolder, steps: int, labels: list[str], confusion: Any) -> None:
    counts = np.array(confusion)
    folder.write_results(
        {
            "best_step": steps, "steps": steps, "stopped_early": False, "seconds": 3600.0,
            "groups": [{"name": "head", "learning_rate": 5e-5, "weight_decay": 0.01, "parameters": 1234}],
            "rehearsal": {"steps": 4, "seconds": 2.0, "ok": True}, "predicted_seconds": 3000.0,
            "peak_memory": {"resident": 2**31, "gpu": None},
            "validation": scores(counts, 0.4, labels, constant=int(counts.sum(axis=1).argmax())),
        }
    )  # fmt: skip
    folder.predictions.mkdir()
    lines = [
        {
            "row": 0,
            "line": 2,
            "label": labels[0],
            "predicted": labels[1],
            "confidence": 0.97,
            "text": "<script>x</script>",
        },
        {"row": 1, "line": 3, "label": labels[0], "predicted": labels[0], "confidence": 0.99, "text": "right"},
        {"row": 2, "line": 4, "label": labels[1], "predicted": labels[0], "confidence": 0.51, "text": "unsure"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder.predictions / "validation.jsonl").write_text(text)
