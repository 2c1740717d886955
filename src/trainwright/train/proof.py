"""Train a few steps of a run whole, cut, packed and cut anew, and compare gradients, weights and predictions.

Dropout is off, since its masks depend on the cut. In float64 nothing but rounding may differ; where float64 does not
fit, float32 is compared with tolerances that fit its rounding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import TrainerCallback

from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal
from trainwright.train.step import CPU_TOKENS
from trainwright.train.trainer import Trainer

WHOLE = 10**12  # tokens: more than any step has
COMPARED_ROWS = 64  # of validation
FLOAT64_TOLERANCE = 1e-10
FLOAT32_GRADIENT = 1e-6  # of the median tensor
FLOAT32_LOGITS = 1e-4
SMALL_TENSOR = (
    1e-6  # of the whole gradient: what is smaller than that (attention's key biases: 0 in theory) is rounding
)


@dataclass
class Trial:
    """What a few steps of training left behind.

    Attributes:
        gradients: Per step, per tensor.
        weights: Per tensor, after the last step.
        logits: Of some validation rows, after the last step.
        micro_batches: Per step.
        packed: Whether rows ran without padding.
    """

    gradients: list[dict[str, torch.Tensor]] = field(default_factory=list)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    logits: torch.Tensor | None = None
    micro_batches: list[int] = field(default_factory=list)
    packed: bool = False


class _Witness(TrainerCallback):
    """Keeps each step's gradient, as the optimizer sees it."""

    def __init__(self, trial: Trial, trainer: Trainer) -> None:
        self.trial, self.trainer = trial, trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_named: Any) -> None:
        named = self.trainer.model.named_parameters()
        self.trial.gradients.append({name: p.grad.detach().clone() for name, p in named if p.grad is not None})
        self.trial.micro_batches.append(len(self.trainer.recovery.pieces))


def prove(folder: RunFolder, journal: Journal, steps: int) -> dict[str, Any]:
    """Compare the ways of running a run's first steps.

    Returns:
        ``format`` (float64 or float32), ``holds``, and per way its micro-batches and differences.
    """
    from trainwright.train.worker import make_trainer, open_task

    recipe, plan, task = open_task(folder)
    kind = torch.float64 if _float64_fits(task.model(), folder, steps) else torch.float32

    def trial(padding: str, tokens: int) -> Trial:
        with tempfile.TemporaryDirectory() as scratch:
            trainer = make_trainer(
                folder, recipe, plan, task, journal, Path(scratch), max_steps=steps, bf16=False, fp16=False,
                save_strategy="no", eval_strategy="no", report_to=[], load_best_model_at_end=False,
            )  # fmt: skip
            trainer.padding, trainer.tokens_per_micro_batch = padding, tokens  # type: ignore[assignment]
            return _run(trainer, task, kind)

    train = task.rows("train")
    assert train is not None
    step_tokens = int(train.lengths.mean() * recipe.learn.batch_size)
    usual = max(1, min(plan.tokens_per_micro_batch, step_tokens // 3))  # three micro-batches or more, to prove anything
    ways: dict[str, Callable[[], Trial]] = {
        "cut": lambda: trial("padded", usual),
        "packed": lambda: trial("auto", usual),
        "cut finer": lambda: trial("auto", max(1, usual // 4)),
    }
    whole = trial("padded", WHOLE)
    compared = {name: compare(whole, way(), kind) for name, way in ways.items()}
    return {
        "format": str(kind).removeprefix("torch."),
        "steps": steps,
        "rows": recipe.learn.batch_size,
        "ways": compared,
        "holds": all(way["holds"] for way in compared.values()),
    }


def compare(whole: Trial, other: Trial, kind: torch.dtype) -> dict[str, Any]:
    """Differences between two ways of making the same steps, each relative to the whole one's size."""
    differences = [
        difference
        for expected, found in zip(whole.gradients, other.gradients, strict=True)
        for difference in gradient_differences(expected, found)
    ]
    weights = _relative(_all_in_one(other.weights), _all_in_one(whole.weights))
    logits = None if whole.logits is None or other.logits is None else _relative(other.logits, whole.logits)
    if kind == torch.float64:
        holds = max(differences) <= FLOAT64_TOLERANCE and weights <= FLOAT64_TOLERANCE
    else:
        holds = median(differences) <= FLOAT32_GRADIENT and (logits is None or logits <= FLOAT32_LOGITS)
    return {
        "micro_batches": sum(other.micro_batches),
        "packed": other.packed,
        "gradient_largest": max(differences),
        "gradient_median": median(differences),
        "weights": weights if kind == torch.float64 else None,
        "logits": logits,
        "holds": bool(holds),
    }


def gradient_differences(expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> list[float]:
    """Per tensor, the norm of the difference beside the tensor's own norm, or a millionth of the whole gradient's."""
    whole = sum(float(gradient.double().norm()) ** 2 for gradient in expected.values()) ** 0.5
    return [
        float((found[name] - gradient).double().norm()) / max(float(gradient.double().norm()), SMALL_TENSOR * whole)
        for name, gradient in expected.items()
    ]


def _run(trainer: Trainer, task: Any, kind: torch.dtype) -> Trial:
    trial = Trial()
    for module in trainer.model.modules():
        _without_dropout(module)
    trainer.model.to(kind)
    trainer.add_callback(_Witness(trial, trainer))
    trainer.train()
    trial.packed = hasattr(trainer.batches, "unpadded")
    trial.weights = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    rows = task.rows("validation") or task.rows("train")
    trial.logits = _logits(trainer, [rows[place] for place in range(min(COMPARED_ROWS, len(rows)))])
    return trial


def _logits(trainer: Trainer, rows: list[Any]) -> torch.Tensor:
    trainer.model.eval()
    batches = trainer.batches_for_predictions()
    lengths = [len(row["input_ids"]) for row in rows]
    found: dict[int, torch.Tensor] = {}
    with torch.no_grad():
        for piece in batches.cut(lengths, trainer.tokens_per_micro_batch or CPU_TOKENS):
            batch = trainer._prepare_inputs(batches.make([rows[place] for place in piece]))
            with batches.running(batch):
                logits = trainer.model(**batch).logits
            found |= {place: one[: lengths[place]].flatten() for place, one in zip(piece, logits, strict=True)}
    return torch.cat([found[place] for place in sorted(found)])


def _without_dropout(module: torch.nn.Module) -> None:
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
    for name, value in vars(module).items():
        if "dropout" in name and isinstance(value, float):
            setattr(module, name, 0.0)


def _all_in_one(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors.values()])


def _relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    size = float(expected.double().norm())
    return float((found - expected).double().norm()) / size if size else float(found.double().norm())


def _float64_fits(model: Any, folder: RunFolder, steps: int) -> bool:
    """Two trainings' weights, the steps' gradients and AdamW's two moments, with as much again for activations."""
    machine = folder.machine()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    needed = 8 * parameters * (2 * (2 + steps) + 3) * 2
    return machine is None or machine.memory is None or needed <= machine.memory
