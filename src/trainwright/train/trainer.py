"""The drop-in Trainer: transformers' own loop around an optimizer step that is exact however it is cut.

One item of the loader is this rank's share of one optimizer step. ``training_step`` sorts it by length, cuts it into
micro-batches by a token budget and adds each one's share of the loss, so the gradient is that of the uncut batch.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from torch import nn
from transformers.trainer_utils import EvalLoopOutput

from trainwright.errors import CheckFailed, UserError
from trainwright.messages.text import _
from trainwright.model.memory import is_out_of_memory
from trainwright.records import Finding
from trainwright.runs.folder import RunFolder
from trainwright.runs.lock import owned
from trainwright.train import checkpoint, compat, evaluation, optimizer
from trainwright.train.allocator import keep_freed_memory
from trainwright.train.batches import PaddedBatches
from trainwright.train.loaders import StepLoaders
from trainwright.train.manifest import sha256_of_text
from trainwright.train.recorder import Recorder, StepCounter
from trainwright.train.recovery import Recovery, is_failed_write, release
from trainwright.train.rows import RowLoader
from trainwright.train.step import ExactStep

logger = logging.getLogger(__name__)


class Trainer(ExactStep, StepLoaders):
    """``transformers.Trainer`` with an exact optimizer step, exact resume and checkpoints that are whole or absent.

    Takes everything that ``transformers.Trainer`` takes. The batch of one optimizer step is
    ``per_device_train_batch_size x gradient_accumulation_steps x processes``, as there. ``args`` is copied and left
    as it is.

    Args:
        tokens_per_micro_batch: Padded tokens that one micro-batch may hold; by default what the script's own
            micro-batch would have held, and no more than suits the device.
        padding: ``auto`` runs rows packed, without padding, where the model is exact that way; ``padded`` never does.
        layerwise_lr_decay: Factor of the learning rate from one layer to the one below it; 1.0 is the same for all.
        class_weights: Weight of each class in the loss, shape (classes,); for sets of labels, of each label where a row
            has it.
        focal_gamma: Power of the focal loss (Lin et al. 2017); 0 is plain cross-entropy.
        meter: The scores of a task (see ``meters.Meter``) in place of ``compute_metrics``.
        run_folder: Where journal and status go; ``output_dir`` by default.

    Raises:
        UserError: ``args`` asks for something that would change the step (DeepSpeed).
        CheckFailed: This version of transformers has other methods than the ones that are overridden here.
    """

    def __init__(
        self,
        model: Any = None,
        args: transformers.TrainingArguments | None = None,
        *positional: Any,
        tokens_per_micro_batch: int | None = None,
        padding: Literal["auto", "padded"] = "auto",
        layerwise_lr_decay: float = 1.0,
        class_weights: list[float] | None = None,
        focal_gamma: float = 0.0,
        meter: Any = None,
        run_folder: RunFolder | None = None,
        **named: Any,
    ) -> None:
        compat.check()
        self.given_args = args if args is not None else transformers.TrainingArguments(output_dir="tmp_trainer")
        self.step_size = 0  # set below, from the copied arguments
        self.tokens_per_micro_batch = tokens_per_micro_batch
        self.padding = padding
        self.layerwise_lr_decay = layerwise_lr_decay
        self.class_weights = torch.tensor(class_weights, dtype=torch.float64) if class_weights is not None else None
        self.focal_gamma = focal_gamma
        self.meter = meter
        self.counter = StepCounter()
        self.recovery = Recovery(self)
        self.context: dict[str, Any] = {}  # what each checkpoint says of the run; see runs.resume
        self.restates = False  # a resumed run takes its rates from the recipe, not from the checkpoint
        self._asked: list[dict[str, Any]] = []  # options of the parameter groups, as the recipe has them
        self._staging: str | None = None  # the folder that a checkpoint is being written into
        super().__init__(model, _own_arguments(self.given_args), *positional, **named)
        self.args._n_gpu = min(1, self.args.n_gpu)  # one process, one device: never torch's DataParallel
        self.step_size = self.args.per_device_train_batch_size * self.args.world_size
        self._train_batch_size = self.args.per_device_train_batch_size
        if named.get("data_collator") is None and not (positional and positional[0] is not None):
            self.data_collator = self._padding_collator()
        self.batches = PaddedBatches(self.data_collator)
        self.recorder = Recorder(run_folder or RunFolder(Path(str(self.args.output_dir))), self)
        self.add_callback(self.recorder)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW (or what ``args.optim`` names), with a learning rate per layer if a decay is asked for."""
        if self.optimizer is None:
            self._asked = optimizer.asked_options(self._new_optimizer(model))
        return self.optimizer

    def restate(self) -> None:
        """Where the recipe has changed, put its rates in the place of those that the checkpoint brought along."""
        if self.restates and self._asked:
            scheduler = getattr(self.lr_scheduler, "scheduler", self.lr_scheduler)
            optimizer.restate(self.optimizer, scheduler, self._asked)

    def _new_optimizer(self, model: nn.Module | None) -> torch.optim.Optimizer:
        if self.layerwise_lr_decay == 1.0:
            return super().create_optimizer() if model is None else super().create_optimizer(model)
        trained: Any = model if model is not None else self.model
        groups = optimizer.layer_groups(
            trained,
            self.args.learning_rate,
            self.layerwise_lr_decay,
            self.args.weight_decay,
            set(self.get_decay_parameter_names(trained)),
        )
        kind, options = self.get_optimizer_cls_and_kwargs(self.args, trained)
        self.optimizer = kind(groups, **options)
        return self.optimizer

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate in a stream: rows sorted by length, loss weighted by rows, results in the caller's order."""
        special = self.args.batch_eval_metrics or self.args.include_for_metrics
        if not isinstance(dataloader, RowLoader) or special:
            loader = self._stock_loader(dataloader) if isinstance(dataloader, RowLoader) else dataloader
            return super().evaluation_loop(loader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        only_loss = prediction_loss_only if prediction_loss_only is not None else self.args.prediction_loss_only
        return evaluation.run(self, dataloader, only_loss and self.meter is None, ignore_keys, metric_key_prefix)

    def _stock_loader(self, loader: RowLoader) -> Any:
        """For rarely used evaluation options: batches as transformers' own loop wants them."""
        rows = [row for step in loader for row in step.rows]
        plain: Any = torch.utils.data.DataLoader(
            rows,  # type: ignore[arg-type]
            batch_size=self.args.per_device_eval_batch_size,
            collate_fn=self.data_collator,
        )
        return self.accelerator.prepare(plain)

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: Any = None,
    ) -> Any:
        """Train; ``resume_from_checkpoint=True`` takes the newest checkpoint that is whole, and says what it skipped.

        Raises:
            CheckFailed: The checkpoint that was named is damaged.
            UserError: Another living process trains in the same folder.
            GaveUp: Memory does not suffice however a step is cut, or loss or gradient are not a number.
        """
        if resume_from_checkpoint is True:
            found, skipped = checkpoint.newest_whole(Path(str(self.args.output_dir)))
            for folder, reason in skipped:
                logger.warning("skipping %s: %s", folder.name, reason)
            if found is None:
                raise ValueError(f"No valid checkpoint found in output directory ({self.args.output_dir})")
            resume_from_checkpoint = str(found)
        elif resume_from_checkpoint:
            problem = checkpoint.problem_of(Path(resume_from_checkpoint))
            if problem:
                raise CheckFailed(f"Cannot resume from {resume_from_checkpoint}: {problem}.")
        if self.args.device.type == "cpu":
            keep_freed_memory()
        stock = super().train
        alone = self.recorder.writes_status and self.args.process_index == 0  # else the watcher owns the folder
        with owned(self.recorder.folder.path) if alone else contextlib.nullcontext():
            return self.recovery.train(
                lambda resumed: stock(resumed, trial, ignore_keys_for_eval), resume_from_checkpoint or None
            )

    def _get_output_dir(self, trial: Any) -> str:
        return self._staging or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Let transformers write the checkpoint into a staging folder, then publish it whole.

        Where that fails (a full disk, memory), the older checkpoints stay and training goes on, aloud.
        """
        root = Path(str(super()._get_output_dir(trial)))
        failure: Exception | None = None
        with self.counter.saving():
            try:
                self._stage_and_publish(root, lambda: super(Trainer, self)._save_checkpoint(model, trial))
            except Exception as error:
                if not is_failed_write(error) or self.args.world_size > 1:
                    raise
                failure = error
            finally:
                self._staging = None
            if failure is None:
                self.recovery.saved.add(self.state.global_step)
                self.recovery.kept_best = (self.state.best_metric, self.state.best_global_step)
                if self.args.should_save:
                    best, step = self.state.best_global_step, self.state.global_step
                    checkpoint.rotate(root, self.given_args.save_total_limit, best, saved_step=step)
            else:
                checkpoint.clear_staging(root)
                self._say_that_saving_failed(failure)

    def _stage_and_publish(self, root: Path, write: Callable[[], None]) -> None:
        if self.args.should_save:
            checkpoint.check_space(root, self._checkpoint_bytes())
        staged = checkpoint.Staged(root, self.state.global_step, self.args.should_save)
        self._staging = str(staged.folder)
        write()
        best = self.state.best_global_step
        self.state.best_model_checkpoint = str(root / f"checkpoint-{best}") if best else None
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            self.state.save_to_json(str(staged.checkpoint / "trainer_state.json"))
            staged.publish(self.context | self._own_context())

    def _own_context(self) -> dict[str, Any]:
        """Cuts, trained parameters, callbacks' state and place in the data, as they are at this step."""
        trained = [f"{name} {tuple(p.shape)}" for name, p in self.model.named_parameters() if p.requires_grad]
        return {
            "cuts": [dataclasses.asdict(cut) for cut in self.recovery.cuts],
            "evaluation_tokens": self.recovery.evaluation_tokens,
            "parameters": {"tensors": len(trained), "sha256": sha256_of_text("\n".join(trained))},
            "callbacks": sorted(self.state.stateful_callbacks or {}),
            "data_position": {"epoch": self.state.epoch, "step": self.state.global_step, "seed": self.args.seed},
        }

    def _checkpoint_bytes(self) -> int:
        """Bytes that a checkpoint will take: the weights, and what the optimizer keeps for them."""
        weights = sum(tensor.numel() * tensor.element_size() for tensor in self.model.state_dict().values())
        states = self.optimizer.state_dict()["state"].values() if self.optimizer is not None else []
        kept = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
        return weights + sum(tensor.numel() * tensor.element_size() for tensor in kept)

    def _say_that_saving_failed(self, failure: Exception) -> None:
        step = self.state.global_step
        # the best model is one that was saved: what was not saved cannot be kept as the best
        self.state.best_metric, self.state.best_global_step = self.recovery.kept_best
        if is_out_of_memory(failure):
            release()
        message = _("Saving at step {step} failed: {reason}").format(step=step, reason=failure)
        way_out = _("Training goes on and the older checkpoints are whole; make room before the next save.")
        logger.warning("%s", message)
        self.recovery.report(Finding("checkpoint.failed", "error", message, {"step": step}, way_out))


def _own_arguments(given: transformers.TrainingArguments) -> transformers.TrainingArguments:
    """A copy of the caller's arguments in which one loader item is one optimizer step."""
    if given.deepspeed:
        raise UserError(
            "DeepSpeed decides itself when gradients are added up, so the exact step cannot run under it.",
            "Remove `deepspeed` from the arguments; use FSDP for models that do not fit one card.",
        )
    args = copy.copy(given)
    args.per_device_train_batch_size = given.per_device_train_batch_size * given.gradient_accumulation_steps
    args.gradient_accumulation_steps = 1
    args.auto_find_batch_size = False  # it would shrink the effective batch
    args.average_tokens_across_devices = False  # the divisor of the whole step is counted here, not there
    args.logging_nan_inf_filter = False  # it writes 0.0 where the loss is not a number
    args.save_total_limit = None  # rotation is ours: by step number, best and last always kept
    if given.fp16 and not torch.cuda.is_available():
        args.fp16, args.mixed_precision = False, "no"
        warnings.warn("fp16 needs a GPU and none is seen here: training runs in fp32.", stacklevel=3)
    return args
