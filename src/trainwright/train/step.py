"""The exact optimizer step: one loader item, cut into micro-batches whose gradients add up to that of the whole."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import torch
import transformers
from torch import nn

from trainwright.model.dropout import quick_dropout
from trainwright.model.unpad import CannotUnpad, Unpadded
from trainwright.train import loss
from trainwright.train.batches import PackedBatches, PaddedBatches, can_be_packed
from trainwright.train.collate import PadRows
from trainwright.train.recorder import StepCounter
from trainwright.train.recovery import Recovery
from trainwright.train.rows import StepRows
from trainwright.train.seeds import seed_for

logger = logging.getLogger(__name__)

# Tokens of a micro-batch where nothing else is known. On a CPU more than these bring no speed; a GPU wants more work
# per kernel launch.
CPU_TOKENS = 2048
GPU_TOKENS = 16384
# Collators that do nothing but pad, so that packing may take their place
_PADDING_COLLATORS = (
    PadRows,
    transformers.DataCollatorWithPadding,
    transformers.DataCollatorForTokenClassification,
)


class ExactStep(transformers.Trainer):
    """The part of the Trainer that computes loss and gradient of one optimizer step."""

    model: Any
    optimizer: Any
    given_args: transformers.TrainingArguments
    tokens_per_micro_batch: int | None
    padding: Literal["auto", "padded"]
    class_weights: torch.Tensor | None
    focal_gamma: float
    counter: StepCounter
    recovery: Recovery
    batches: PaddedBatches | PackedBatches
    _batches_chosen: bool = False
    _divisor: loss.Divisor | None = None
    _whole_steps: bool = False  # True where the loss couples examples, so that a step must not be cut

    def training_step(  # type: ignore[override]  # one item of our loader is StepRows
        self, model: nn.Module, inputs: StepRows, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Forward and backward of one whole optimizer step, cut into micro-batches.

        Returns:
            The loss of the whole step over all ranks' rows, as torch's mean over the uncut batch gives it; scalar.

        Raises:
            GaveUp: It does not fit into memory however it is cut, or loss or gradient are not a number.
        """
        model.train()
        if hasattr(self.optimizer, "train") and callable(self.optimizer.train):
            self.optimizer.train()  # schedule-free optimizers want to be told
        self.choose_batches(inputs.rows[0])
        self.recovery.begin_step([(inputs.indices, sum(inputs.lengths()))])
        return self.recovery.survive(lambda: self._cut_step(model, inputs))

    def timed_step(self, inputs: StepRows) -> None:
        """Forward and backward of a step for the probe: no recovery, nothing logged."""
        self.model.train()
        self.choose_batches(inputs.rows[0])
        self._cut_step(self.model, inputs)

    @property
    def steps_are_whole(self) -> bool:
        """Whether the loss couples examples, so that a step is never cut."""
        return self._whole_steps

    def _cut_step(self, model: nn.Module, inputs: StepRows) -> torch.Tensor:
        """One attempt at forward and backward of a step, with the cut that is in force."""
        divisor = self._divisor = self._divisor or self._choose_divisor(inputs)
        lengths = inputs.lengths()
        pieces = self.cut(lengths)
        self.recovery.begin_step(
            [
                ([inputs.indices[place] for place in piece], self._tokens_of([lengths[place] for place in piece]))
                for piece in pieces
            ]
        )
        batches = [self.batches.make([inputs.rows[place] for place in piece]) for piece in pieces]
        amounts = [divisor(batch) for batch in batches]
        whole = self._over_ranks(sum(amounts))
        world = self.args.world_size
        total = torch.zeros((), device=self.args.device)
        with self._weights_cast_once(), quick_dropout(self.model):
            for number, (batch, amount) in enumerate(zip(batches, amounts, strict=True)):
                if amount == 0:
                    self.recovery.pieces[number].share = total.detach()
                    continue  # no label in it: its mean would be 0/0, its share of the step is nothing
                self._seed_dropout(number)
                last = number == len(batches) - 1
                with self._reduce_gradients_when(last, model):
                    share = self._micro_loss(model, batch) * (amount / whole)
                    self.accelerator.backward(share * world)  # DDP averages over ranks
                self.recovery.pieces[number].share = share.detach()
                total += share.detach()
        self.counter.count(sum(lengths), self.batches.tokens(lengths, pieces), len(pieces), len(lengths))
        return total * world if world > 1 else total

    def _tokens_of(self, lengths: list[int]) -> int:
        return self.batches.tokens(lengths, [list(range(len(lengths)))])

    def cut(self, lengths: list[int]) -> list[list[int]]:
        """Micro-batches of a step's rows, as lists of positions in ``lengths``."""
        if self._whole_steps:
            return [list(range(len(lengths)))]
        budget = self.token_budget(max(lengths), self.given_args.per_device_train_batch_size)
        return self.batches.cut(lengths, budget)

    def token_budget(self, longest: int, rows: int) -> int:
        """Tokens that a micro-batch may hold, where the script's own would hold ``rows`` of ``longest``.

        It holds no more than the script's own, which is known to fit, but for a few that fit everywhere.
        """
        if self.tokens_per_micro_batch is not None:
            return self.recovery.budget(self.tokens_per_micro_batch)
        suits = CPU_TOKENS if self.args.device.type == "cpu" else GPU_TOKENS
        return self.recovery.budget(min(suits, max(longest * rows, CPU_TOKENS)))

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean loss of a batch: the model's own, or cross-entropy with weights, smoothing or focus."""
        own = self.class_weights is None and self.label_smoother is None and not self.focal_gamma
        if own or self.compute_loss_func is not None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        logits = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
        if self._labels_are_sets():
            value = loss.binary_cross_entropy(logits, inputs["labels"], self.class_weights, self.focal_gamma)
        else:
            value = loss.cross_entropy(
                logits,
                inputs["labels"],
                self.class_weights,
                self.args.label_smoothing_factor,
                next_token=self._predicts_next_token(),
                focal_gamma=self.focal_gamma,
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
        if self.class_weights is not None and not self._labels_are_sets():
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
        own_padding = isinstance(self.data_collator, _PADDING_COLLATORS)
        own_steps = self._loss_is_known() and type(self).prediction_step is transformers.Trainer.prediction_step
        if self.padding == "padded" or not (own_padding and own_steps and can_be_packed(row)):
            return
        try:
            self.batches = PackedBatches(Unpadded(self.model))
        except CannotUnpad as reason:
            logger.info("batches are padded: %s", reason)

    def batches_for_predictions(self) -> PaddedBatches | PackedBatches:
        """Batches whose predictions come row by row; packed ones give one a row only where a label is a row's."""
        one_a_row = isinstance(self.batches, PackedBatches) and self.batches.unpadded.labels == "row"
        return self.batches if one_a_row else PaddedBatches(self.data_collator)

    def _loss_is_known(self) -> bool:
        """Whether the loss is the model's own and the model one of transformers' heads (or an adapter on one)."""
        own = type(self).compute_loss is ExactStep.compute_loss and self.compute_loss_func is None
        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        return own and type(model).__module__.startswith("transformers.models.")

    def _labels_are_sets(self) -> bool:
        """Whether each output stands for a label of its own that a row has or has not."""
        return getattr(self.model.config, "problem_type", None) == "multi_label_classification"

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
