"""A loss or gradient that is not a number: seen on its step, never applied, its rows named."""

import math

import pytest
import torch
from faulty import bert, largest_difference, losses_of, rows_of, trainer_in

from trainwright.errors import GaveUp
from trainwright.runs.journal import read_events
from trainwright.train import checkpoint
from trainwright.train.callbacks import KeepBest

BAD = 39  # a word that one row alone has


def findings_in(folder):
    return [event["finding"] for event in read_events(folder / "journal") if event["event"] == "finding"]


class Poisoned:
    """The word BAD makes the loss or the gradient of its micro-batch into something that is no number."""

    def __init__(self, model, value, where):
        self.value, self.where, self.bad = value, where, False
        embeddings = model.base_model.embeddings
        embeddings.register_forward_hook(self._embedded, with_kwargs=True)

    def _embedded(self, module, words, named, output):
        ids = named.get("input_ids") if named.get("input_ids") is not None else words[0]
        if not bool((ids == BAD).any()):
            return None
        if self.where == "loss":
            return output * self.value
        output.register_hook(lambda gradient: gradient * self.value)
        return None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("place", [3, 17, 22])
def test_the_step_is_not_applied_its_rows_are_named_and_the_checkpoints_are_good(tmp_path, value, where, place):
    rows = rows_of(24)
    rows = [{**row, "input_ids": [min(word, BAD - 1) for word in row["input_ids"]]} for row in rows]
    trainer = trainer_in(tmp_path / "run", rows=[dict(row) for row in rows], tokens_per_micro_batch=30, save_steps=1)
    order = [int(row) for step in iter(trainer.get_train_dataloader()) for row in step.indices]
    step = 1 + order.index(place) // 8
    trainer.train_dataset[place]["input_ids"][0] = BAD
    Poisoned(trainer.model, value, where)
    with pytest.raises(GaveUp, match=f"at step {step}; the step was not applied") as caught:
        trainer.train()
    assert caught.value.exit_code == 5
    assert trainer.state.global_step == step - 1
    finding = findings_in(tmp_path / "run")[-1]
    assert finding["id"] == "learning.loss-lost"
    assert place in finding["evidence"]["rows"]
    if where == "loss":
        assert finding["evidence"]["rows_in_all"] < 8  # its micro-batch alone
    assert finding["change"] == {"learn.learning_rate": 2e-4}
    assert all(bool(torch.isfinite(weight).all()) for weight in trainer.model.parameters())
    assert [loss for _step, loss in losses_of(trainer) if loss == 0.0 or not math.isfinite(loss)] == []
    good = trainer_in(tmp_path / "good", rows=rows, tokens_per_micro_batch=30, save_steps=1)
    good.train()
    found, skipped = checkpoint.newest_whole(tmp_path / "run")
    assert skipped == []
    if step == 1:
        assert found is None
        return
    assert found.name == f"checkpoint-{step - 1}"
    ours, theirs = (torch.load(f / "optimizer.pt", weights_only=True) for f in (found, tmp_path / "good" / found.name))
    for key, state in theirs["state"].items():
        assert torch.equal(ours["state"][key]["exp_avg"], state["exp_avg"])


def test_weights_that_are_lost_are_named(tmp_path):
    model = bert().double()
    with torch.no_grad():
        model.classifier.bias[1] = math.nan
    with pytest.raises(GaveUp):
        trainer_in(tmp_path / "run", model).train()
    assert findings_in(tmp_path / "run")[-1]["evidence"]["weights"] == ["classifier.bias"]


def test_an_overflow_of_the_loss_scale_halves_it_and_redoes_the_same_step(tmp_path):
    """A scale of 2^127 times a loss near 1.1 is beyond fp32, as 65536 times one is beyond fp16 on a card."""
    trainer = trainer_in(tmp_path / "run", bert(), save_strategy="no", max_grad_norm=0.0, optim="sgd")
    trainer.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)
    trainer.accelerator.native_amp = True
    trainer.train()
    assert trainer.state.global_step == 6
    scale = trainer.accelerator.scaler.get_scale()
    assert scale < 2.0**127
    assert math.log2(scale) == int(math.log2(scale))
    whole = trainer_in(tmp_path / "whole", bert(), save_strategy="no", max_grad_norm=0.0, optim="sgd")
    whole.train()
    # a power of two changes no bit of a gradient that it does not bring out of range
    assert [step for step, _loss in losses_of(trainer)] == [1, 2, 3, 4, 5, 6]
    assert dict(losses_of(trainer)) == pytest.approx(dict(losses_of(whole)), rel=1e-5)
    assert largest_difference(trainer.model, whole.model) < 1e-4


def test_a_score_that_is_not_a_number_is_never_the_best():
    class State:
        best_metric = None

    class Control:
        should_save = False

    keep, control = KeepBest("loss"), Control()
    keep.on_evaluate(None, State(), control, {"eval_loss": math.nan})
    assert not control.should_save
    keep.on_evaluate(None, State(), control, {"eval_loss": 0.5})
    assert control.should_save
