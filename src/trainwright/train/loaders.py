"""Loaders whose items are optimizer steps, or chunks of evaluation rows, in place of padded batches."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import transformers
from transformers.trainer_utils import has_length

from trainwright.train.collate import PadRows
from trainwright.train.recorder import StepCounter
from trainwright.train.rows import (
    ChunkSampler,
    IndexedRows,
    RowLoader,
    StepSampler,
    StreamedRows,
    gather_rows,
    order_of_sampler,
)
from trainwright.train.seeds import seed_for, shuffled

EVALUATION_CHUNK = 32  # evaluation reads this many batches' worth of rows at once and sorts them by length


class StepLoaders(transformers.Trainer):
    """The part of the Trainer that reads rows. Nothing is padded or cut here."""

    # transformers declares these as possibly absent; here they are looked at only when they are there
    model: Any
    train_dataset: Any
    eval_dataset: Any
    counter: StepCounter
    step_size: int

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
        """Fetch the rows of the next step. Their divisor is counted in ``training_step``, after cutting.

        transformers looks for the end behind a step only: a run that was killed behind its last one would make another.
        """
        steps: list[Any] = []
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return steps, None
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
