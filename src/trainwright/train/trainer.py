"""The drop-in Trainer: transformers' own loop around an optimizer step that is exact however it is cut.

One item of the loader is this rank's share of one optimizer step. ``training_step`` sorts it by length, cuts it into
micro-batches by a token budget and adds each one's share of the loss, so the gradient is that of the uncut batch.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from torch import nn
from transformers.trainer_utils import EvalLoopOutput, has_length

from trainwright.errors import CheckFailed, UserError
from trainwright.model.unpad import CannotUnpad, Unpadded
from trainwright.runs.folder import RunFolder
from trainwright.train import checkpoint, compat, evaluation, loss, optimizer
from trainwright.train.batches import PackedBatches, PaddedBatches, can_be_packed
from trainwright.train.collate import PadRows
from trainwright.train.recorder import Recorder, StepCounter
from trainwright.train.rows import (
    ChunkSampler,
    IndexedRows,
    RowLoader,
    StepRows,
    StepSampler,
    StreamedRows,
    gather_rows,
    order_of_sampler,
)
from trainwright.train.seeds import seed_for, shuffled

logger = logging.getLogger(__name__)

# Padded tokens of a micro-batch where nothing else is known. On a CPU small micro-batches of like length waste least;
# a GPU wants more work per kernel launch.
CPU_TOKENS = 2048
GPU_TOKENS = 16384
EVALUATION_CHUNK = 32  # evaluation reads this many batches' worth of rows at once and sorts them by length


class Trainer(transformers.Trainer):
    """``transformers.Trainer`` with an exact optimizer step, exact resume and checkpoints that are whole or absent.

    Takes everything that ``transformers.Trainer`` takes. The batch of one optimizer step is
    ``per_device_train_batch_size x gradient_accumulation_steps x processes``, as there. ``args`` is copied and left
    as it is.

    Args:
        tokens_per_micro_batch: Padded tokens that one micro-batch may hold; by default what the script's own
            micro-batch would have held, and no more than suits the device.
        padding: ``auto`` runs rows packed, without padding, where the model is exact that way; ``padded`` never does.
        layerwise_lr_decay: Factor of the learning rate from one layer to the one below it; 1.0 is the same for all.
        class_weights: Weight of each class in the loss, shape (classes,); for single-label classification.
        meter: Streaming metrics (see ``metrics.Meter``) in place of ``compute_metrics``.
        run_folder: Where journal and status go; ``output_dir`` by default.

    Raises:
        UserError: ``args`` asks for something that would change the step (DeepSpeed).
        CheckFailed: This version of transformers has other methods than the ones that are overridden here.
    """

    # transformers declares these as possibly absent; here they are looked at only when they are there
    model: Any
    optimizer: Any
    train_dataset: Any
    eval_dataset: Any

    def __init__(
        self,
        model: Any = None,
        args: transformers.TrainingArguments | None = None,
        *positional: Any,
        tokens_per_micro_batch: int | None = None,
        padding: Literal["auto", "padded"] = "auto",
        layerwise_lr_decay: float = 1.0,
        class_weights: list[float] | None = None,
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
        self.meter = meter
        self.counter = StepCounter()
        self._divisor: loss.Divisor | None = None
        self._whole_steps = False  # True where the loss couples examples, so that a step must not be cut
        self._staging: str | None = None  # the folder that a checkpoint is being written into
        super().__init__(model, _own_arguments(self.given_args), *positional, **named)
        self.args._n_gpu = min(1, self.args.n_gpu)  # one process, one device: never torch's DataParallel
        self.step_size = self.args.per_device_train_batch_size * self.args.world_size
        self._train_batch_size = self.args.per_device_train_batch_size
        if named.get("data_collator") is None and not (positional and positional[0] is not None):
            self.data_collator = self._padding_collator()
        self.batches: PaddedBatches | PackedBatches = PaddedBatches(self.data_collator)
        self._batches_chosen = False
        self.recorder = Recorder(run_folder or RunFolder(Path(str(self.args.output_dir))), self)
        self.add_callback(self.recorder)

    # -- data ------------------------------------------------------------------------------------------------

    def get_train_dataloader(self) -> RowLoader:
        """The loader of optimizer steps; each item is this rank's :class:`StepRows`."""
        if self.train_dataset is None:
            raise ValueError("Trainer: training requires a train_dataset.")
        rank, world = self.args.process_index, self.args.world_size
        share = self.args.per_device_train_batch_size
        if not has_length(self.train_dataset):
            stream = StreamedRows(self.train_dataset, self._kept_fields(), rank, world)
            return RowLoader(stream, batch_size=share, collate_fn=gather_rows, **self._loader_options())
        sampler = StepSampler(
            len(self.train_dataset),
            self.step_size,
            self._order_of_epochs(),
            lambda: self.state.global_step,
            rank,
            world,
            self.args.dataloader_drop_last,
        )
        rows = IndexedRows(self.train_dataset, self._kept_fields())
        return RowLoader(rows, batch_sampler=sampler, collate_fn=gather_rows, **self._loader_options())

    def get_eval_dataloader(self, eval_dataset: Any = None) -> RowLoader:
        """The loader of evaluation rows, in chunks that are sorted and cut when they are used."""
        if isinstance(eval_dataset, str):
            eval_dataset = self.eval_dataset[eval_dataset]
        rows = eval_dataset if eval_dataset is not None else self.eval_dataset
        if rows is None:
            raise ValueError("Trainer: evaluation requires an eval_dataset.")
        return self._rows_in_order(rows)

    def get_test_dataloader(self, test_dataset: Any) -> RowLoader:
        """As :meth:`get_eval_dataloader`, for ``predict``."""
        return self._rows_in_order(test_dataset)

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> tuple[list, None]:
        """Fetch the rows of the next step. Their divisor is counted in ``training_step``, after cutting."""
        steps = []
        for _number in range(num_batches):
            with self.counter.waiting():
                try:
                    steps.append(next(epoch_iterator))
                except StopIteration:
                    break
        return steps, None

    def _rows_in_order(self, rows: Any) -> RowLoader:
        rank, world = self.args.process_index, self.args.world_size
        chunk = self.args.per_device_eval_batch_size * EVALUATION_CHUNK
        if not has_length(rows):
            stream = StreamedRows(rows, self._kept_fields(), rank, world)
            return RowLoader(stream, batch_size=chunk, collate_fn=gather_rows, **self._loader_options())
        sampler = ChunkSampler(len(rows), chunk, rank, world)
        indexed = IndexedRows(rows, self._kept_fields())
        return RowLoader(indexed, batch_sampler=sampler, collate_fn=gather_rows, **self._loader_options())

    def _loader_options(self) -> dict[str, Any]:
        args = self.args
        return {
            "num_workers": args.dataloader_num_workers,
            "persistent_workers": args.dataloader_persistent_workers and args.dataloader_num_workers > 0,
            "prefetch_factor": args.dataloader_prefetch_factor if args.dataloader_num_workers > 0 else None,
            # a generator of its own: making an iterator must not draw from the model's random numbers
            "generator": torch.Generator().manual_seed(seed_for("loader", args.seed)),
        }

    def _order_of_epochs(self) -> Any:
        seed = self.args.data_seed if self.args.data_seed is not None else self.args.seed
        strategy = getattr(self.args, "train_sampling_strategy", "random")
        overridden = type(self)._get_train_sampler is not transformers.Trainer._get_train_sampler
        if overridden or strategy in ("group_by_length", "sequential"):
            return order_of_sampler(self._get_train_sampler(self.train_dataset), seed)
        rows = len(self.train_dataset)
        return lambda epoch: shuffled(rows, seed, epoch)

    def _kept_fields(self) -> list[str] | None:
        if not self.args.remove_unused_columns:
            return None
        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        return [*inspect.signature(model.forward).parameters, "label", "label_ids", *self.label_names]

    def _padding_collator(self) -> Any:
        if self.processing_class is not None:
            return self.data_collator  # transformers made one that pads with the tokenizer
        pad_id = getattr(getattr(self.model, "config", None), "pad_token_id", None)
        return PadRows(pad_id if pad_id is not None else 0)

    # -- the step --------------------------------------------------------------------------------------------

    def training_step(  # type: ignore[override]  # one item of our loader is StepRows
        self, model: nn.Module, inputs: StepRows, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Forward and backward of one whole optimizer step, cut into micro-batches.

        Returns:
            The loss of the whole step over all ranks' rows, as torch's mean over the uncut batch gives it; scalar.
        """
        model.train()
        if hasattr(self.optimizer, "train") and callable(self.optimizer.train):
            self.optimizer.train()  # schedule-free optimizers want to be told
        self.choose_batches(inputs.rows[0])
        divisor = self._divisor = self._divisor or self._choose_divisor(inputs)
        lengths = inputs.lengths()
        pieces = self.cut(lengths)
        batches = [self.batches.make([inputs.rows[place] for place in piece]) for piece in pieces]
        amounts = [divisor(batch) for batch in batches]
        whole = self._over_ranks(sum(amounts))
        world = self.args.world_size
        total = torch.zeros((), device=self.args.device)
        with self._weights_cast_once():
            for number, (batch, amount) in enumerate(zip(batches, amounts, strict=True)):
                if amount == 0:
                    continue  # no label in it: its mean would be 0/0, its share of the step is nothing
                self._seed_dropout(number)
                last = number == len(batches) - 1
                with self._reduce_gradients_when(last, model):
                    share = self._micro_loss(model, batch) * (amount / whole)
                    self.accelerator.backward(share * world)  # DDP averages over ranks
                total += share.detach()
        self.counter.count(sum(lengths), self.batches.tokens(lengths, pieces), len(pieces), len(lengths))
        return total * world if world > 1 else total

    def cut(self, lengths: list[int]) -> list[list[int]]:
        """Micro-batches of a step's rows, as lists of positions in ``lengths``."""
        if self._whole_steps:
            return [list(range(len(lengths)))]
        budget = self.token_budget(max(lengths), self.given_args.per_device_train_batch_size)
        return self.batches.cut(lengths, budget)

    def token_budget(self, longest: int, rows: int) -> int:
        """Padded tokens that a micro-batch may hold, where the script's own would hold ``rows`` of ``longest``."""
        if self.tokens_per_micro_batch is not None:
            return self.tokens_per_micro_batch
        suits = CPU_TOKENS if self.args.device.type == "cpu" else GPU_TOKENS
        return min(suits, longest * rows)

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean loss of a batch: the model's own, or cross-entropy with class weights and label smoothing."""
        if (self.class_weights is None and self.label_smoother is None) or self.compute_loss_func is not None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        value = loss.cross_entropy(
            outputs["logits"] if isinstance(outputs, Mapping) else outputs[0],
            inputs["labels"],
            self.class_weights,
            self.args.label_smoothing_factor,
            next_token=self._predicts_next_token(),
        )
        return (value, outputs) if return_outputs else value

    def _micro_loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        # A caller's loss may divide by the number of items: it is given the micro-batch's own, so that it stays a mean.
        items = None if self._loss_is_known() else torch.tensor(loss.count_labels(batch), device=self.args.device)
        batch = self._prepare_inputs(batch)
        with self.batches.running(batch), self.compute_loss_context_manager():
            return self.compute_loss(model, batch, num_items_in_batch=items)

    def _choose_divisor(self, step: StepRows) -> loss.Divisor:
        """Decide once how this model's loss falls apart, by its kind or, for an unknown one, by trying."""
        coupled = loss.couples_examples(self.model)
        if coupled:
            self._refuse_cutting(f"layer {coupled} mixes the examples of a batch")
            return loss.count_examples
        if self.class_weights is not None:
            return loss.sum_class_weights(self.class_weights)
        if self._loss_is_known():
            return loss.count_shifted_labels if self._predicts_next_token() else loss.count_labels
        return self._try_divisors(step)

    def choose_batches(self, row: Mapping[str, Any]) -> None:
        """Decide once: packed where the model is exact that way and nobody else's code sees the batch; else padded."""
        if self._batches_chosen:
            return
        self._batches_chosen = True
        self.batches = PaddedBatches(self.data_collator)
        own_padding = isinstance(self.data_collator, (PadRows, transformers.DataCollatorWithPadding))
        own_steps = self._loss_is_known() and type(self).prediction_step is transformers.Trainer.prediction_step
        if self.padding == "padded" or not (own_padding and own_steps and can_be_packed(row)):
            return
        try:
            self.batches = PackedBatches(Unpadded(self.model))
        except CannotUnpad as reason:
            logger.info("batches are padded: %s", reason)

    def _loss_is_known(self) -> bool:
        """Whether the loss is the model's own and the model one of transformers' heads (or an adapter on one)."""
        own = type(self).compute_loss is Trainer.compute_loss and self.compute_loss_func is None
        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        return own and type(model).__module__.startswith("transformers.models.")

    def _predicts_next_token(self) -> bool:
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        return type(model).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()

    def _try_divisors(self, step: StepRows) -> loss.Divisor:
        known: dict[str, loss.Divisor] = {"examples": loss.count_examples, "labels": loss.count_labels}
        telling = [row for row in step.rows if loss.count_labels(self.batches.make([row])) > 0]
        by_length = sorted(telling, key=lambda row: len(row.get("input_ids", ())))
        rows = by_length[:2] + by_length[-2:] if len(by_length) > 4 else by_length
        if len(rows) < 2:
            return loss.count_examples
        was_training = self.model.training
        self.model.eval()
        exact = self.args.mixed_precision == "no" if hasattr(self.args, "mixed_precision") else True
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            name = loss.find_divisor(
                lambda batch: float(self._micro_loss(self.model, dict(batch))),
                self.batches.make,
                rows,
                known,
                tolerance=1e-4 if exact else 3e-2,
            )
        self.model.train(was_training)
        if name is None:
            self._refuse_cutting("the losses of single examples do not add up to the loss of the batch")
        return known[name or "examples"]

    def _refuse_cutting(self, why: str) -> None:
        self._whole_steps = True
        message = (
            f"Each optimizer step runs uncut, as one batch of {self.args.per_device_train_batch_size} rows: {why}, so "
            "cutting it would train something else. If memory runs out, lower the batch size."
        )
        warnings.warn(message, stacklevel=2)

    def _over_ranks(self, amount: float) -> float:
        if self.args.world_size == 1:
            return amount
        device_amount = torch.tensor(amount, dtype=torch.float64, device=self.args.device)
        return float(self.accelerator.reduce(device_amount, reduction="sum"))

    def _reduce_gradients_when(self, last: bool, model: nn.Module) -> Any:
        return contextlib.nullcontext() if last or self.args.world_size == 1 else self.accelerator.no_sync(model)

    def _weights_cast_once(self) -> Any:
        """An autocast around the whole step: the inner ones then share its copies of the weights in half precision."""
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        kind = kinds.get(getattr(self.args, "mixed_precision", "no"))
        return torch.autocast(self.args.device.type, dtype=kind) if kind else contextlib.nullcontext()

    def _seed_dropout(self, micro_batch: int) -> None:
        torch.manual_seed(
            seed_for("dropout", self.args.seed, self.state.global_step, micro_batch, self.args.process_index)
        )

    def floating_point_ops(self, inputs: Any) -> int:
        """FLOPs of one step by the usual estimate of 6 per parameter (without embeddings) and real token."""
        if not isinstance(inputs, StepRows):
            return super().floating_point_ops(inputs)
        if not hasattr(self.model, "num_parameters"):
            return 0
        return 6 * sum(inputs.lengths()) * self.model.num_parameters(exclude_embeddings=True)

    def _track_num_input_tokens(self, inputs: Any) -> None:
        if self.args.include_num_input_tokens_seen != "no":
            self.state.num_input_tokens_seen += sum(inputs.lengths())

    # -- optimizer, evaluation, checkpoints --------------------------------------------------------------------

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW (or what ``args.optim`` names), with a learning rate per layer if a decay is asked for."""
        if self.optimizer is not None or self.layerwise_lr_decay == 1.0:
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
        return super().train(resume_from_checkpoint or None, trial, ignore_keys_for_eval)

    def _get_output_dir(self, trial: Any) -> str:
        return self._staging or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Let transformers write the checkpoint into a staging folder, then publish it whole."""
        root = Path(str(super()._get_output_dir(trial)))
        with self.counter.saving():
            staged = checkpoint.Staged(root, self.state.global_step, self.args.should_save)
            self._staging = str(staged.folder)
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self._staging = None
            best = self.state.best_global_step
            self.state.best_model_checkpoint = str(root / f"checkpoint-{best}") if best else None
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                self.state.save_to_json(str(staged.checkpoint / "trainer_state.json"))
                staged.publish()
                checkpoint.rotate(root, self.given_args.save_total_limit, best)


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
