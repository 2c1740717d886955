"""Memory runs out in every part of a training: the same steps are made, with a finer cut."""

import importlib

import pytest
import torch
from faulty import (
    SmallMemory,
    bert,
    failing_update,
    largest_difference,
    losses_of,
    out_of_memory,
    recomputes,
    rows_of,
    trainer_in,
)

from trainwright.errors import GaveUp
from trainwright.model.memory import is_out_of_memory
from trainwright.runs.folder import RunFolder
from trainwright.runs.journal import Journal, read_events
from trainwright.train.recovery import Cut, cuts_of

SAME = 1e-10  # in float64


def cuts_in(folder):
    return [event for event in read_events(folder / "journal") if event["event"] == "cut" and event.get("finer")]


def with_the_same_cuts(folder, cuts, **changed):
    """A run that nothing happens to, whose journal asks for the cuts from the start."""
    journal = Journal(folder / "journal", "0")
    for cut in cuts:
        named = {"tokens_per_micro_batch": cut.tokens, "recompute": cut.recompute, "finer": True}
        journal.write("cut", step=cut.step, **named)
    journal.close()
    trainer = trainer_in(folder, **changed)
    trainer.recovery.one_run = True
    trainer.train()
    return trainer


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("padding", ["auto", "padded"])
@pytest.mark.parametrize(("begins", "tokens"), [(0, 60), (3, 35)])
def test_a_step_that_does_not_fit_is_cut_finer_and_is_the_same_step(tmp_path, where, padding, begins, tokens):
    trainer = trainer_in(tmp_path / "small", padding=padding)
    memory = SmallMemory(trainer, tokens, begins, where)
    trainer.train()
    assert memory.raised > 0
    assert trainer.state.global_step == 6
    cuts = trainer.recovery.cuts
    assert {cut.step for cut in cuts} >= {begins}
    undisturbed = with_the_same_cuts(tmp_path / "whole", cuts, padding=padding)
    assert dict(losses_of(trainer)) == pytest.approx(dict(losses_of(undisturbed)), abs=SAME)
    assert largest_difference(trainer.model, undisturbed.model) <= SAME


def test_without_dropout_it_is_the_step_of_the_uncut_batch(tmp_path):
    trainer = trainer_in(tmp_path / "small", bert(0.0).double())
    SmallMemory(trainer, 40)
    trainer.train()
    uncut = trainer_in(tmp_path / "whole", bert(0.0).double())
    uncut.train()
    assert largest_difference(trainer.model, uncut.model) <= SAME


def test_the_cut_is_in_the_journal_before_its_step_and_a_resumed_run_uses_it_again(tmp_path):
    trainer = trainer_in(tmp_path / "run", max_steps=8)
    SmallMemory(trainer, 60, begins=5)
    trainer.train()
    events = read_events(tmp_path / "run" / "journal")
    kinds = [(event["event"], event.get("step")) for event in events if event["event"] in ("cut", "log")]
    assert kinds.index(("cut", 5)) < kinds.index(("log", 6))
    assert {event["step"] for event in cuts_in(tmp_path / "run")} == {5}
    resumed = trainer_in(tmp_path / "run", max_steps=8)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-4"))
    assert resumed.recovery.cuts == trainer.recovery.cuts
    assert largest_difference(resumed.model, trainer.model) == 0.0


def test_a_new_training_in_the_same_folder_begins_without_the_cuts_of_the_old_one(tmp_path):
    trainer = trainer_in(tmp_path / "run")
    SmallMemory(trainer, 60)
    trainer.train()
    again = trainer_in(tmp_path / "run")
    again.train()
    assert again.recovery.cuts == []
    resumed = trainer_in(tmp_path / "run")
    resumed.train(resume_from_checkpoint=True)
    assert resumed.recovery.cuts == []


def test_what_the_rehearsal_found_holds_from_the_first_step():
    events = [
        {"event": "cut", "step": 3, "tokens_per_micro_batch": 64, "finer": True, "rehearsal": True},
        {"event": "cut", "step": 0, "tokens_per_micro_batch": 128, "rehearsal": False, "fresh": False},
        {"event": "cut", "step": 9, "tokens_per_micro_batch": 32, "finer": True, "recompute": True},
    ]
    assert cuts_of(events) == [Cut(0, 64), Cut(9, 32, recompute=True)]


@pytest.mark.parametrize("padding", ["auto", "padded"])
def test_a_row_that_does_not_fit_alone_runs_with_its_activations_computed_anew(tmp_path, padding):
    trainer = trainer_in(tmp_path / "small", bert(0.0).double(), padding=padding)
    SmallMemory(trainer, 20, recomputed=100)  # rows have up to 29 tokens
    trainer.train()
    assert recomputes(trainer.model)
    assert any(event["recompute"] for event in cuts_in(tmp_path / "small"))
    whole = trainer_in(tmp_path / "whole", bert(0.0).double())
    whole.train()
    assert largest_difference(trainer.model, whole.model) <= SAME


def test_a_row_that_fits_in_no_way_ends_the_run_and_says_what_would_fit(tmp_path):
    rows = [row for row in rows_of(60) if len(row["input_ids"]) <= 20]
    rows[0] = {"input_ids": [7] * 29, "labels": 0}
    trainer = trainer_in(tmp_path / "run", rows=rows, max_steps=10)
    SmallMemory(trainer, 25)
    with pytest.raises(GaveUp, match="1 rows and 29 tokens"):
        trainer.train()
    finding = [e["finding"] for e in read_events(tmp_path / "run" / "journal") if e["event"] == "finding"][-1]
    assert finding["id"] == "memory.row-too-long"
    assert finding["evidence"]["rows"] == [0]
    assert finding["evidence"]["tokens"] == 29


def test_the_real_allocator_of_the_processor_says_so_in_words_that_are_known():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    assert not is_out_of_memory(KeyError("labels"))


# -- the update, and saving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [7, 8, 9, 10, 12])  # two parameter groups an update, one of them for the allocation
def test_an_update_that_broke_off_goes_back_to_the_last_checkpoint_and_ends_the_same(tmp_path, monkeypatch, call):
    trainer = trainer_in(tmp_path / "small")
    with failing_update(monkeypatch, call) as calls:
        trainer.train()
    assert len(calls) > 2 * 6 + 2
    cut = trainer.recovery.cuts[0]
    assert cut.step in (2, 4)
    undisturbed = with_the_same_cuts(tmp_path / "whole", trainer.recovery.cuts)
    assert [step for step, _loss in losses_of(trainer)] == [1, 2, 3, 4, 5, 6]
    assert largest_difference(trainer.model, undisturbed.model) == 0.0


def test_an_update_that_never_fits_gives_up_after_a_few_times(tmp_path, monkeypatch):
    trainer = trainer_in(tmp_path / "run")

    def never(*words, **named):
        if trainer.state.global_step >= 3:
            raise out_of_memory()
        return real(*words, **named)

    functions = importlib.import_module("torch.optim.adam")
    real = functions.adam
    monkeypatch.setattr(functions, "adam", never)
    with pytest.raises(GaveUp, match="4 times"):
        trainer.train()


def test_without_a_checkpoint_a_broken_update_is_said_not_redone(tmp_path, monkeypatch):
    trainer = trainer_in(tmp_path / "run", save_strategy="no")
    with failing_update(monkeypatch, 6), pytest.raises(GaveUp, match="before there was a checkpoint"):
        trainer.train()


def test_the_optimizers_state_is_allocated_before_the_first_step_and_changes_nothing(tmp_path, monkeypatch):
    trainer, seen = trainer_in(tmp_path / "run", max_steps=2), []
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    real = trainer.recovery.survive

    def survive(compute):
        if not seen:
            states = trainer.optimizer.state_dict()["state"].values()
            seen.append([float(state["step"]) for state in states])
            assert all(float(state["exp_avg_sq"].abs().max()) == 0.0 for state in states)
            assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
        return real(compute)

    monkeypatch.setattr(trainer.recovery, "survive", survive)
    trainer.train()
    assert seen == [[0.0] * sum(1 for _ in trainer.model.parameters())]
    monkeypatch.undo()
    stock = trainer_in(tmp_path / "stock", max_steps=2)
    stock.recovery.prepare_optimizer = lambda: None
    stock.train()
    assert largest_difference(trainer.model, stock.model) == 0.0


def test_an_optimizer_state_that_does_not_fit_is_found_before_the_first_step(tmp_path, monkeypatch):
    trainer = trainer_in(tmp_path / "run")
    with failing_update(monkeypatch, 1), pytest.raises(GaveUp, match="optimizer's state"):
        trainer.train()
    assert trainer.state.global_step == 0


@pytest.mark.parametrize("error", [out_of_memory, lambda: OSError(28, "No space left on device")])
def test_a_save_that_fails_leaves_the_old_checkpoints_and_training_goes_on(tmp_path, monkeypatch, error, caplog):
    trainer = trainer_in(tmp_path / "run")
    real = torch.save

    def save(value, place, *words, **named):
        if trainer.state.global_step == 4 and str(place).endswith("optimizer.pt"):
            raise error()
        return real(value, place, *words, **named)

    monkeypatch.setattr(torch, "save", save)
    trainer.train()
    names = {path.name for path in (tmp_path / "run").glob("*checkpoint*")}
    assert names == {"checkpoint-2", "checkpoint-6"}
    assert "step 4 failed" in caplog.text
    findings = [e["finding"] for e in read_events(tmp_path / "run" / "journal") if e["event"] == "finding"]
    assert [finding["id"] for finding in findings] == ["checkpoint.failed"]
    assert not (tmp_path / "run" / ".staging").exists()
    assert RunFolder(tmp_path / "run").status().state == "finished"


# -- evaluation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["auto", "padded"])
def test_evaluation_and_prediction_are_cut_finer_and_give_the_same(tmp_path, padding):
    rows = rows_of(50, seed=3)
    whole = trainer_in(tmp_path / "whole", padding=padding).predict(rows)
    trainer = trainer_in(tmp_path / "small", padding=padding)
    memory = SmallMemory(trainer, 40)
    found = trainer.predict(rows)
    assert memory.raised > 0
    assert abs(found.predictions - whole.predictions).max() <= SAME
    assert found.label_ids.tolist() == whole.label_ids.tolist()
    assert found.metrics["test_loss"] == pytest.approx(whole.metrics["test_loss"], abs=SAME)
    failed = memory.raised
    trainer.predict(rows)
    assert memory.raised == failed  # it has learned what fits


def test_an_evaluation_row_that_does_not_fit_alone_ends_with_its_number(tmp_path):
    trainer = trainer_in(tmp_path / "run")
    SmallMemory(trainer, 20)
    rows = [{"input_ids": [6] * 10, "labels": 0}, {"input_ids": [6] * 25, "labels": 0}]
    with pytest.raises(GaveUp, match="25 tokens"):
        trainer.predict(rows)
