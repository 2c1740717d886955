"""What a step does when memory runs out or a number is lost: cut finer and redo it, or end with the last good model.

A finer cut makes the same step, so effective batch, step count and schedule stay as they are. Each new cut is in the
journal, synced, before the step that uses it; a resumed run reads them there and changes at the same steps.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError

from trainwright.errors import GaveUp
from trainwright.messages.text import _
from trainwright.model.memory import free_unused, is_out_of_memory
from trainwright.records import Finding
from trainwright.runs.journal import read_events
from trainwright.train import checkpoint
from trainwright.train.allocator import give_back_memory
from trainwright.train.batches import PaddedBatches

if TYPE_CHECKING:
    from trainwright.train.trainer import Trainer

logger = logging.getLogger(__name__)

NAMED_ROWS = 32  # rows that a finding names at most
SMALLEST_SCALE = 2.0**-14  # a loss scale below fp16's smallest normal number: the numbers are lost, not too large
RETURNS = 3  # times that a run goes back to its checkpoint for memory before it gives up
_WRITER_MESSAGES = ("PytorchStreamWriter", "inline_container", "file write failed")  # torch.save on a full disk


def is_failed_write(error: BaseException) -> bool:
    """Whether an error of a save says that the disk or memory did not take it; anything else is a mistake."""
    if isinstance(error, (OSError, SafetensorError)) or is_out_of_memory(error):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _WRITER_MESSAGES)


def release(model: Any = None) -> None:
    """Give back what a failed attempt held: its gradients, its graph, and the allocator's empty blocks."""
    if model is not None:
        model.zero_grad(set_to_none=True)
    free_unused()
    give_back_memory()


@dataclass(frozen=True)
class Cut:
    """A finer cut, in force from a step on.

    Attributes:
        step: Optimizer steps done when it came into force.
        tokens: Tokens that a micro-batch may hold.
        recompute: Whether activations are computed a second time in place of being kept.
    """

    step: int
    tokens: int
    recompute: bool = False


@dataclass
class Piece:
    """A micro-batch of the step that runs: places of its rows in the data set, tokens, share of the loss."""

    rows: list[int]
    tokens: int
    share: torch.Tensor | None = None


@dataclass
class Recovery:
    """The finer cuts of a run, and what is known of the step that runs."""

    trainer: Trainer
    cuts: list[Cut] = field(default_factory=list)
    evaluation_tokens: int | None = None
    pieces: list[Piece] = field(default_factory=list)
    largest_done: int = 0
    saved: set[int] = field(default_factory=set)  # steps of the checkpoints that belong to this training
    one_run: bool = False  # the run folder holds one training only, so its journal's cuts always hold
    fresh: bool = True
    kept_best: tuple[float | None, int | None] = (None, None)  # best metric and its step that are on the disk
    _recomputes: bool = False

    # -- cuts ------------------------------------------------------------------------------------------------------

    def begin(self, resumed: str | None) -> None:
        """Take over the cuts in the journal where a run goes on; a new training begins without any."""
        self.fresh = resumed is None and not self.one_run
        folder = self.trainer.recorder.folder.journal
        self.cuts = cuts_of(read_events(folder)) if not self.fresh and folder.is_dir() else []
        self.saved = {int(Path(resumed).name.rpartition("-")[2])} if resumed else set()

    def train(self, train: Callable[[str | None], Any], resumed: str | None) -> Any:
        """Train; where memory runs out outside of forward and backward, go back to the last whole checkpoint.

        An update that broke off has changed some of the weights, so it is never done again in place.

        Raises:
            GaveUp: It happened too often, or there is no checkpoint of this training yet.
        """
        self.begin(resumed)
        for _attempt in range(RETURNS + 1):
            try:
                return train(resumed)
            except Exception as error:
                if not is_out_of_memory(error) or self.trainer.args.world_size > 1:
                    raise
                why = str(error) or type(error).__name__
            release(self.trainer.model)
            resumed = self._go_back(why)
        raise GaveUp(
            _("Memory ran out {n} times outside of forward and backward.").format(n=RETURNS + 1),
            _("Take a smaller model or a machine with more memory."),
        )

    def _go_back(self, why: str) -> str:
        root = Path(str(self.trainer.args.output_dir))
        folders = [root / f"checkpoint-{step}" for step in sorted(self.saved, reverse=True)]
        found = next((folder for folder in folders if checkpoint.problem_of(folder) is None), None)
        journal = self.trainer.recorder.journal
        if journal is not None:
            step = self.trainer.state.global_step
            journal.write("back", sync=True, step=step, to=found.name if found else None, because=why)
        if found is None:
            raise GaveUp(
                _("Memory ran out in an update before there was a checkpoint to go back to."),
                _("Start again with smaller micro-batches, a smaller model or more memory."),
            )
        seam = int(found.name.rpartition("-")[2])
        largest = max(self.pieces, key=lambda piece: piece.tokens)
        if len(largest.rows) > 1 and not self.trainer.steps_are_whole:
            self.cut_finer(f"back to {found.name}: {why}", at=seam, piece=largest)
        return str(found)

    def budget(self, planned: int) -> int:
        """The token budget in force at this step: the planned one, or the finest cut that came since."""
        if not self.trainer.model.training:
            return min(planned, self.evaluation_tokens or planned)
        return min([planned, *(cut.tokens for cut in self._in_force())])

    def begin_step(self, pieces: Sequence[tuple[list[int], int]]) -> None:
        """Told by the step before it runs: the rows and tokens of each micro-batch."""
        self.pieces = [Piece(rows, tokens) for rows, tokens in pieces]

    def _in_force(self) -> list[Cut]:
        return [cut for cut in self.cuts if cut.step <= self.trainer.state.global_step]

    def cut_finer(self, why: str, at: int | None = None, piece: Piece | None = None) -> None:
        """Halve the micro-batch that did not fit; for a single row, compute activations anew instead.

        Raises:
            GaveUp: A single row does not fit even so.
        """
        piece = piece or self._failed_piece()
        single = len(piece.rows) == 1 or self.trainer.steps_are_whole
        if single and (self._recomputes or not self._can_recompute()):
            self._give_up_on(piece, why)
        before = min([cut.tokens for cut in self._in_force()], default=piece.tokens)
        tokens = before if single else max(1, min(before - 1, piece.tokens // 2))
        step = self.trainer.state.global_step if at is None else at
        cut = Cut(step, tokens, recompute=single or self._recomputes)
        self.cuts.append(cut)
        self._write_cut(cut, why)

    def cut_evaluation(self, rows: list[int], lengths: list[int], why: str) -> None:
        """Halve the batches of evaluation from the one that did not fit on.

        Raises:
            GaveUp: It was a single row.
        """
        piece = Piece(rows, max(lengths) * len(rows))
        if len(rows) == 1:
            self._give_up_on(piece, why)
        self.evaluation_tokens = max(1, min(piece.tokens // 2, (self.evaluation_tokens or piece.tokens) - 1))
        logger.warning("out of memory in evaluation: batches of %d tokens from now on", self.evaluation_tokens)

    def known_not_to_fit(self, lengths: list[int]) -> bool:
        """Whether evaluation has learned that so many padded tokens are too many; single rows are always tried."""
        limit = self.evaluation_tokens
        return limit is not None and len(lengths) > 1 and max(lengths) * len(lengths) > 2 * limit

    def _failed_piece(self) -> Piece:
        """The first micro-batch without a result: the one that was running."""
        return next((piece for piece in self.pieces if piece.share is None), self.pieces[-1])

    def _write_cut(self, cut: Cut, why: str) -> None:
        logger.warning("out of memory at step %d: micro-batches of %d tokens from now on", cut.step, cut.tokens)
        journal = self.trainer.recorder.journal
        if journal is not None:
            fields = {"tokens_per_micro_batch": cut.tokens, "recompute": cut.recompute, "because": why, "finer": True}
            journal.write("cut", sync=True, step=cut.step, rehearsal=self.trainer.recorder.rehearsal, **fields)

    # -- recomputation ---------------------------------------------------------------------------------------------

    def _can_recompute(self) -> bool:
        return bool(getattr(self.trainer.model, "supports_gradient_checkpointing", False))

    def _switch_recomputation(self) -> None:
        if self._recomputes or not any(cut.recompute for cut in self._in_force()):
            return
        model = self.trainer.model
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
        # The second forward runs inside the backward, where a packed batch's attention is not in force any more.
        self.trainer.batches = PaddedBatches(self.trainer.data_collator)
        self._recomputes = True

    # -- the step --------------------------------------------------------------------------------------------------

    def survive(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Forward and backward of one step, redone with a finer cut or a smaller loss scale until they are sound.

        Raises:
            GaveUp: One row alone does not fit, or loss or gradient are not a number; the step was not applied.
        """
        drawn = random_state()
        while True:
            self._switch_recomputation()
            why = ""
            try:
                loss = compute()
            except Exception as error:
                if not is_out_of_memory(error) or self.trainer.args.world_size > 1:
                    raise  # one rank alone must not repeat what the others wait for
                why = f"out of memory: {str(error).splitlines()[0][:200] if str(error) else type(error).__name__}"
            if not why and self._is_sound(loss):
                self.largest_done = max([self.largest_done, *(piece.tokens for piece in self.pieces)])
                return loss
            # outside the except clause: its traceback held the tensors of the failed attempt
            if why:
                release(self.trainer.model)
                self.cut_finer(why)
            else:
                self._halve_scale_or_give_up(loss)
                self.trainer.model.zero_grad(set_to_none=True)
            restore_random_state(drawn)

    def _is_sound(self, loss: torch.Tensor) -> bool:
        """Whether loss and gradient norm are finite. One wait for the device."""
        gradients = [p.grad for p in self.trainer.model.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        self.gradient_norm = norm
        return bool(torch.isfinite(loss).to(norm.device) & torch.isfinite(norm))

    def _halve_scale_or_give_up(self, loss: torch.Tensor) -> None:
        scaler = getattr(self.trainer.accelerator, "scaler", None)
        lost = not bool(torch.isfinite(loss))
        if scaler is None or not scaler.is_enabled() or lost or scaler.get_scale() <= SMALLEST_SCALE:
            self._give_up_on_numbers(float(loss))
        else:
            scaler.update(new_scale=scaler.get_scale() / 2)
            logger.info("fp16 overflow: loss scale %g, same step again", scaler.get_scale())

    # -- going back ------------------------------------------------------------------------------------------------

    def training_begins(self) -> None:
        """Told by the recorder when weights, optimizer and state are as training finds them."""
        self.kept_best = (self.trainer.state.best_metric, self.trainer.state.best_global_step)
        self.trainer.restate()
        self.prepare_optimizer()

    def prepare_optimizer(self) -> None:
        """Allocate the optimizer's state before step 1, so that what does not fit is found before any time is spent.

        An update with zero gradients and a rate of zero leaves weights as they are and makes the state; its count of
        steps is set back. For torch's Adam and AdamW, whose state is then as a first step finds it.
        """
        inner: Any = getattr(self.trainer.optimizer, "optimizer", self.trainer.optimizer)
        if type(inner) not in (torch.optim.Adam, torch.optim.AdamW) or inner.state:
            return
        rates = [group["lr"] for group in inner.param_groups]
        parameters = [p for group in inner.param_groups for p in group["params"] if p.requires_grad]
        try:
            for group in inner.param_groups:
                group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], torch.Tensor) else 0.0
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)
            inner.step()
        except Exception as error:
            if is_out_of_memory(error):
                raise GaveUp(
                    _("The optimizer's state for {n} parameters does not fit into memory.").format(
                        n=sum(p.numel() for p in parameters)
                    ),
                    _("Take a smaller model or a machine with more memory."),
                ) from None
            raise
        finally:
            for group, rate in zip(inner.param_groups, rates, strict=True):
                group["lr"] = rate
            inner.zero_grad(set_to_none=True)
        for state in inner.state.values():
            state["step"].zero_()

    # -- giving up -------------------------------------------------------------------------------------------------

    def report(self, finding: Finding) -> None:
        """Write a finding into the journal, synced."""
        journal = self.trainer.recorder.journal
        if journal is not None:
            journal.write("finding", sync=True, finding=finding)

    def _give_up_on(self, piece: Piece, why: str) -> None:
        ran = self.largest_done or None
        message = _("A micro-batch of {rows} rows and {tokens} tokens does not fit into memory.").format(
            rows=len(piece.rows), tokens=piece.tokens
        )
        way_out = (
            _("Rows of {tokens} tokens did fit: set data.max_length to that, or take more memory.").format(tokens=ran)
            if ran
            else _("Lower data.max_length, take a smaller model, or a machine with more memory.")
        )
        evidence = {"step": self.trainer.state.global_step, "rows": piece.rows[:NAMED_ROWS], "tokens": piece.tokens}
        change = {"data.max_length": ran} if ran and ran < piece.tokens else {}
        self.report(
            Finding("memory.row-too-long", "error", message, evidence | {"fits": ran, "error": why}, way_out, change)
        )
        raise GaveUp(message, way_out)

    def _give_up_on_numbers(self, loss: float) -> None:
        step = self.trainer.state.global_step + 1
        bad = [piece for piece in self.pieces if piece.share is not None and not bool(torch.isfinite(piece.share))]
        rows = [row for piece in bad or self.pieces for row in piece.rows]
        weights = [name for name, p in self.trainer.model.named_parameters() if not bool(torch.isfinite(p).all())]
        what = _("loss") if bad else _("gradient")
        message = _("The {what} is not a number at step {step}; the step was not applied.").format(what=what, step=step)
        rate = self.trainer.args.learning_rate
        evidence = {
            "step": step, "loss": loss, "grad_norm": float(self.gradient_norm), "learning_rate": rate,
            "rows": rows[:NAMED_ROWS], "rows_in_all": len(rows), "weights": weights[:NAMED_ROWS],
        }  # fmt: skip
        way_out = _("Lower the learning rate, and look at the rows that are named; the checkpoints are whole.")
        change = {"learn.learning_rate": float(f"{rate / 5:.1e}")}
        self.report(Finding("learning.loss-lost", "error", message, evidence, way_out, change))
        raise GaveUp(message, way_out)


def cuts_of(events: Sequence[dict[str, Any]]) -> list[Cut]:
    """The finer cuts of a run by its journal; those before the last new beginning of training do not count."""
    cuts: list[Cut] = []
    for event in events:
        if event["event"] != "cut":
            continue
        if event.get("fresh") and not event.get("rehearsal"):
            cuts = []
        if event.get("finer"):
            step = 0 if event.get("rehearsal") else event["step"]  # what the rehearsal found holds from the first step
            cuts.append(Cut(step, event["tokens_per_micro_batch"], bool(event.get("recompute"))))
    return cuts


def random_state() -> tuple[Any, ...]:
    """The state of every generator that a collator may draw from."""
    return torch.get_rng_state(), np.random.get_state(), random.getstate()


def restore_random_state(state: tuple[Any, ...]) -> None:
    """Set the generators back, so that a step redone draws the same masks."""
    torch.set_rng_state(state[0])
    np.random.set_state(state[1])
    random.setstate(state[2])
