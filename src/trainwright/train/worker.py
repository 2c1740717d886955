"""The training process of a run: rehearse, train, evaluate the best model, save it.

It reads what the run folder says and writes what happens there; the watcher in the parent process reads along.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from transformers import EarlyStoppingCallback, TrainerCallback, TrainingArguments
from transformers.utils import logging as transformers_logging

from trainwright.errors import GaveUp, NothingToDo, RecipeError
from trainwright.messages.text import _
from trainwright.model.locate import model_of
from trainwright.recipe.load import recipe_from_values
from trainwright.recipe.schema import Recipe
from trainwright.recipe.tasks import greater_is_better
from trainwright.records import Finding, Plan
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal
from trainwright.runs.resume import facts_of, unlike
from trainwright.train import checkpoint
from trainwright.train.callbacks import (
    KeepBest,
    StopRequests,
    StopWhenOrphaned,
)
from trainwright.train.manifest import MANIFEST, write_manifest
from trainwright.train.probe import probe
from trainwright.train.recorder import gpu_bytes, peak_resident_bytes
from trainwright.train.rehearsal import rehearse
from trainwright.train.tasks import Task
from trainwright.train.trainer import Trainer


def run(folder: RunFolder, journal: Journal) -> None:
    """Train what the run folder describes, from the newest whole checkpoint if there is one.

    Raises:
        NothingToDo: The run has ended its training already.
        GaveUp: Loss or gradient are not a number, or memory does not suffice.
        TrainwrightError: The rehearsal failed.
    """
    _quiet_libraries()
    recipe, plan, task = open_task(folder)
    torch.set_num_threads(_threads(folder))
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder.tensorboard)  # the only way to tell transformers 5
    stop = StopRequests()
    found, skipped = checkpoint.newest_whole(folder.checkpoints)
    for damaged, reason in skipped:
        journal.write("finding", finding=_skipped(damaged, reason))
    if found is not None and not (found / MANIFEST).is_file():
        journal.write("finding", finding=_unverified(found))
    rehearsed = None
    if found is None and plan.rehearsal_steps:
        rehearsed = rehearse(folder, recipe, plan, task, journal, make_trainer, stop)
    if stop.because:
        _end(folder, journal, "stopped", stop.because)
        return
    if found is None:
        plan = _probed(folder, recipe, plan, task, journal)
    trainer = make_trainer(folder, recipe, plan, task, journal)
    stop.passes_to(trainer.recorder.ask_to_stop)
    trainer.add_callback(StopWhenOrphaned(stop))
    trainer.context = facts_of(folder.resolved(), task.prepared, folder.machine())
    trainer.restates = found is not None and any(one.learns for one in unlike(found, trainer.context))
    done = found is not None and _steps_done(found) >= plan.steps
    if done and folder.results() is not None and folder.model.is_dir():  # else it was killed behind its last step
        raise NothingToDo(_("The run has made all of its {steps} steps.").format(steps=plan.steps))
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=str(found) if found else None)
    if trainer.recorder.stop_because:
        folder.set_status(step=trainer.state.global_step, epoch=trainer.state.epoch)
        _end(folder, journal, "stopped", trainer.recorder.stop_because)
        return
    finish(folder, recipe, plan, task, trainer, journal, time.monotonic() - began, rehearsed)


def _probed(folder: RunFolder, recipe: Recipe, plan: Plan, task: Task, journal: Journal) -> Plan:
    """The plan with the micro-batches that timed steps chose; see :mod:`trainwright.train.probe`."""
    ours = folder.resolved()["run.tokens_per_micro_batch"].origin == "chosen"

    def make() -> Trainer:
        return make_trainer(folder, recipe, plan, task, journal, folder.path / "probe", report_to=[])

    return probe(folder, plan, journal, make, ours)


def open_task(folder: RunFolder) -> tuple[Recipe, Plan, Task]:
    """What a prepared and planned run folder asks for."""
    recipe = recipe_from_values(folder.resolved())
    plan, prepared = folder.plan(), folder.prepared()
    if plan is None or prepared is None:
        raise GaveUp(f"{folder.path} has no plan and no prepared data")
    return recipe, plan, Task(recipe, prepared, model_of(folder).folder)


def make_trainer(
    folder: RunFolder,
    recipe: Recipe,
    plan: Plan,
    task: Task,
    journal: Journal,
    output: Path | None = None,
    **changed: Any,
) -> Trainer:
    """A trainer for the run.

    Args:
        output: Where checkpoints go; the run's own place by default.
        changed: TrainingArguments that differ from the run's, for the rehearsal.
    """
    learn = recipe.learn
    options = {
        "output_dir": str(output or folder.checkpoints),
        "per_device_train_batch_size": learn.batch_size,
        "per_device_eval_batch_size": learn.batch_size,
        "max_steps": plan.steps,
        "learning_rate": learn.learning_rate,
        "lr_scheduler_type": learn.lr_scheduler_type,
        "warmup_steps": plan.warmup_steps,
        "weight_decay": learn.weight_decay,
        "max_grad_norm": learn.max_grad_norm or 0.0,
        "label_smoothing_factor": learn.label_smoothing_factor,
        "adam_beta1": learn.adam_beta1,
        "adam_beta2": learn.adam_beta2,
        "adam_epsilon": learn.adam_epsilon,
        "seed": learn.seed,
        "bf16": plan.precision == "bf16",
        "fp16": plan.precision == "fp16",
        "use_cpu": plan.device == "cpu",
        "logging_steps": plan.logging_steps,
        "save_steps": plan.save_steps,
        "save_total_limit": recipe.run.keep_checkpoints,
        "eval_strategy": "steps" if task.rows("validation") else "no",
        "eval_steps": plan.eval_steps,
        "metric_for_best_model": learn.metric_for_best_model if task.rows("validation") else None,
        "greater_is_better": greater_is_better(learn.metric_for_best_model),
        "dataloader_num_workers": int(recipe.run.dataloader_num_workers),
        "report_to": recipe.run.report_to,
        "restore_callback_states_from_checkpoint": True,
        "disable_tqdm": True,
    }
    callbacks: list[TrainerCallback] = [KeepBest(learn.metric_for_best_model)]
    if learn.early_stopping_patience and task.rows("validation"):
        callbacks.append(EarlyStoppingCallback(learn.early_stopping_patience))
    meter = task.meter(folder if output is None else None)
    validation = task.rows("validation")
    if validation:
        meter.watch("validation", validation)
    trainer = Trainer(
        task.model(),
        arguments_of(recipe.trainer | options | changed),
        train_dataset=task.rows("train"),
        eval_dataset=validation,
        processing_class=task.tokenizer(),
        callbacks=callbacks,
        tokens_per_micro_batch=plan.tokens_per_micro_batch,
        padding="padded" if recipe.run.batches == "padded" else "auto",
        layerwise_lr_decay=learn.layerwise_lr_decay,
        class_weights=task.class_weights(),
        focal_gamma=learn.focal_gamma,
        meter=meter,
        run_folder=folder,
    )
    trainer.recorder.journal = journal
    trainer.recorder.writes_status = False
    trainer.recovery.one_run = True
    trainer.remove_callback(_printer())
    return trainer


def arguments_of(options: dict[str, Any]) -> TrainingArguments:
    """TrainingArguments from a recipe.

    Raises:
        RecipeError: transformers refuses a value, as it can for a field of ``trainer:``.
    """
    try:
        return TrainingArguments(**options)
    except (TypeError, ValueError, ImportError) as error:
        raise RecipeError(
            _("transformers refuses a value of the recipe: {reason}").format(reason=str(error).splitlines()[0]),
            _("Look at the fields of trainer:."),
        ) from None


def finish(
    folder: RunFolder,
    recipe: Recipe,
    plan: Plan,
    task: Task,
    trainer: Trainer,
    journal: Journal,
    seconds: float,
    rehearsed: dict[str, Any] | None,
) -> None:
    """Take the best model, score it on validation and test, and save it as a standard folder."""
    journal.write("phase", phase="evaluate")
    folder.set_status(state="evaluating")
    best = trainer.state.best_global_step
    best_folder = folder.checkpoints / f"checkpoint-{best}"
    if best and best_folder.is_dir() and best != trainer.state.global_step:
        load_weights(trainer.model, best_folder)
    results: dict[str, Any] = {
        "best_step": best or trainer.state.global_step,
        "steps": trainer.state.global_step,
        "stopped_early": trainer.state.global_step < plan.steps,
        "seconds": seconds,
        "groups": _groups(trainer),
        "rehearsal": rehearsed,
        "predicted_seconds": rehearsed.get("predicted_seconds") if rehearsed else None,
        "peak_memory": {"resident": peak_resident_bytes(), "gpu": gpu_bytes()},
    }
    for split in ("validation", "test"):
        rows = task.rows(split)
        if rows is not None:
            trainer.meter.watch(split, rows)
            metrics = trainer.evaluate(rows, metric_key_prefix=split)  # type: ignore[arg-type]
            results[split] = trainer.meter.scores(metrics.get(f"{split}_loss"))
    trainer.model.config.trainwright |= trainer.meter.learnt()
    save_model(folder, trainer)
    folder.write_results(results)
    folder.set_status(step=trainer.state.global_step, epoch=trainer.state.epoch)
    _end(folder, journal, "finished", "")


def save_model(folder: RunFolder, trainer: Trainer) -> None:
    """Write model and tokenizer as a standard Hugging Face folder, whole or not at all."""
    staging = folder.path / ".model"
    shutil.rmtree(staging, ignore_errors=True)
    trainer.model.save_pretrained(staging)
    trainer.processing_class.save_pretrained(staging)  # type: ignore[union-attr]
    write_manifest(staging)
    shutil.rmtree(folder.model, ignore_errors=True)
    os.rename(staging, folder.model)


def load_weights(model: Any, folder: Path) -> None:
    """Load a checkpoint's weights into a model of the same shape."""
    from safetensors.torch import load_model

    load_model(model, folder / "model.safetensors", device="cpu")


def _groups(trainer: Trainer) -> list[dict[str, Any]]:
    """Parameter groups with their full learning rates, for the report."""
    found = []
    for group in trainer.optimizer.param_groups:
        found.append(
            {
                "name": group.get("name", "all layers"),
                "learning_rate": group.get("initial_lr", group["lr"]),
                "weight_decay": group["weight_decay"],
                "parameters": sum(parameter.numel() for parameter in group["params"]),
            }
        )
    return found


def _steps_done(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _end(folder: RunFolder, journal: Journal, state: str, because: str) -> None:
    journal.write("end", sync=True, state=state, because=because)
    folder.set_status(state=state, because=because)


def _skipped(folder: Path, reason: str) -> Finding:
    return Finding(
        "checkpoint.damaged",
        "warning",
        _("{name} was skipped: {reason}.").format(name=folder.name, reason=reason),
        {"checkpoint": folder.name, "reason": reason},
    )


def _unverified(folder: Path) -> Finding:
    message = _("{name} has no manifest, so its content could not be verified; it was taken as it is.")
    return Finding("checkpoint.unverified", "note", message.format(name=folder.name), {"checkpoint": folder.name})


def _threads(folder: RunFolder) -> int:
    machine = folder.machine()
    return max(1, int(machine.cores)) if machine else torch.get_num_threads()


def _printer() -> type:
    from transformers.trainer_callback import PrinterCallback

    return PrinterCallback


def _quiet_libraries() -> None:
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
