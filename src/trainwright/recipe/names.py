"""Old and foreign names: understood and translated where the meaning is the same, answered by name where it is not."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trainwright.messages.text import _
from trainwright.recipe.schema import SECTIONS, Recipe


def _same(value: Any) -> Any:
    return value


def _as_share(value: Any) -> str:
    return f"{float(value) * 100:g}%"


def _if_true(word: str) -> Callable[[Any], Any]:
    return lambda value: word if value else "auto"


def _precision(value: Any) -> Any:
    """accelerate writes ``no`` for full precision, which YAML reads as false."""
    return "fp32" if value in (False, "no") else value


# another name -> (our dotted key, how its value becomes ours); "trainer." keeps a name of TrainingArguments there
TRANSLATED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "epoch": ("learn.num_train_epochs", _same),
    "epochs": ("learn.num_train_epochs", _same),
    "num_epochs": ("learn.num_train_epochs", _same),
    "lr": ("learn.learning_rate", _same),
    "lr_scheduler": ("learn.lr_scheduler_type", _same),
    "scheduler": ("learn.lr_scheduler_type", _same),
    "train_batch_size": ("learn.batch_size", _same),
    "warmup_ratio": ("learn.warmup_steps", _as_share),
    "warmup_proportion": ("learn.warmup_steps", _as_share),
    "warmup": ("learn.warmup_steps", _same),
    "max_seq_length": ("data.max_length", _same),
    "max_seq_len": ("data.max_length", _same),
    "max_len": ("data.max_length", _same),
    "cutoff_len": ("data.max_length", _same),
    "train_file": ("data.train", _same),
    "validation_file": ("data.validation", _same),
    "valid_file": ("data.validation", _same),
    "test_file": ("data.test", _same),
    "text_column": ("data.text", _same),
    "text_column_name": ("data.text", _same),
    "label_column": ("data.label", _same),
    "label_column_name": ("data.label", _same),
    "model_name_or_path": ("model", _same),
    "pretrained_model_name_or_path": ("model", _same),
    "fp16": ("run.precision", _if_true("fp16")),
    "bf16": ("run.precision", _if_true("bf16")),
    "use_cpu": ("run.device", _if_true("cpu")),
    "no_cuda": ("run.device", _if_true("cpu")),
    "save_total_limit": ("run.keep_checkpoints", _same),
    "layerwise_learning_rate_decay": ("learn.layerwise_lr_decay", _same),
    "llrd": ("learn.layerwise_lr_decay", _same),
    "label_smoothing": ("learn.label_smoothing_factor", _same),
    "grad_clip": ("learn.max_grad_norm", _same),
    "gradient_clipping": ("learn.max_grad_norm", _same),
    "early_stopping_rounds": ("learn.early_stopping_patience", _same),
    "patience": ("learn.early_stopping_patience", _same),
    "num_workers": ("run.dataloader_num_workers", _same),
    "mixed_precision": ("run.precision", _precision),
    "random_seed": ("learn.seed", _same),
    "hidden_dropout_prob": ("learn.dropout", _same),
}


def answers() -> dict[str, str]:
    """Names that have no key here, each with the sentence that answers it."""
    steps = _("Evaluations come every learn.eval_steps; an epoch has rows / batch_size steps.")
    own = _("Trainwright does this itself.")
    cut = _("A step is cut to fit by itself; run.tokens_per_micro_batch sets by how much.")
    return {
        "evaluation_strategy": steps,
        "eval_strategy": steps,
        "save_strategy": _("Checkpoints come every trainer.save_steps, and at each new best evaluation."),
        "logging_strategy": _("Log lines come every trainer.logging_steps."),
        "overwrite_output_dir": _("Every run has a folder of its own; nothing is overwritten."),
        "output_dir": _("Every run has a folder of its own; choose where with --runs."),
        "logging_dir": _("TensorBoard files go into the run folder; the report prints the command."),
        "group_by_length": cut,
        "train_sampling_strategy": cut,
        "auto_find_batch_size": cut,
        "tokenizer": _("The tokenizer comes from the model's folder."),
        "load_best_model_at_end": own,
        "greater_is_better": own,
        "restore_callback_states_from_checkpoint": own,
        "remove_unused_columns": own,
        "per_device_eval_batch_size": cut,
        "disable_tqdm": own,
        "do_train": own,
        "do_eval": own,
        "resume_from_checkpoint": _("Go on with a run by: trainwright resume RUN"),
        "gradient_accumulation_steps": _(
            "learn.batch_size is the whole batch; give both numbers to have them multiplied."
        ),
        "per_device_train_batch_size": _("learn.batch_size is the whole batch, over all devices."),
        "deepspeed": _("DeepSpeed decides itself when gradients are added up, so the exact step cannot run under it."),
    }


def owner_of(name: str) -> str | None:
    """The dotted key of the section that owns a bare name ("learning_rate" is learn.learning_rate), or None."""
    return next((leaf for leaf in leaf_names() if leaf.rpartition(".")[2] == name), None)


@functools.cache
def leaf_names() -> tuple[str, ...]:
    """Every key by its dotted name, in the order of the schema; fields of ``trainer:`` are not among them."""
    top = [name for name in Recipe.model_fields if name not in (*SECTIONS, "trainer")]
    below = [f"{section}.{name}" for section, kind in SECTIONS.items() for name in kind.model_fields]
    return (*top, *below)


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that look like this one."""
    known = sorted(known)  # the same answer every time, also from a set
    return difflib.get_close_matches(name, known, n=3, cutoff=0.6)


@functools.cache
def training_argument_names() -> frozenset[str]:
    """Field names of the installed transformers' TrainingArguments, read from its source without importing it.

    Empty if transformers is not installed; then any name is taken and checked when training begins.
    """
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.origin:
        return frozenset()
    source = Path(spec.origin).with_name("training_args.py")
    if not source.is_file():
        return frozenset()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "TrainingArguments":
            fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            return frozenset(target.id for target in fields if isinstance(target, ast.Name))
    return frozenset()
