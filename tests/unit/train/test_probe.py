"""The probe chooses by time, leaves alone what is not clearly faster, and touches nothing of the training."""

import dataclasses

import torch
import transformers

from trainwright.runs.journal import Journal, read_events
from trainwright.train import probe
from trainwright.train.probe import fastest, time_steps
from trainwright.train.recovery import release
from trainwright.train.rows import StepRows
from trainwright.train.trainer import Trainer


def trainer_of(tmp_path):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    args = transformers.TrainingArguments(str(tmp_path), per_device_train_batch_size=8, report_to=[], use_cpu=True)
    rows = [{"input_ids": [5 + place % 9] * (4 + place), "labels": place % 2} for place in range(16)]
    return Trainer(transformers.BertForSequenceClassification(config), args, train_dataset=rows)


def test_the_fastest_is_chosen_where_it_is_clearly_faster():
    assert fastest({1024: 1.0, 2048: 0.9, 4096: 0.8}, planned=2048) == 4096
    assert fastest({1024: 1.0, 2048: 0.9, 4096: 0.89}, planned=2048) == 2048
    assert fastest({1024: 1.0}, planned=2048) == 1024  # the planned one did not fit


def test_one_that_does_not_fit_is_left_out_and_no_gradient_stays(tmp_path, monkeypatch):
    trainer = trainer_of(tmp_path)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    step = trainer.timed_step

    def sometimes(rows):
        if trainer.tokens_per_micro_batch == 64:
            raise MemoryError("made up")
        step(rows)

    monkeypatch.setattr(trainer, "timed_step", sometimes)
    released = []
    monkeypatch.setattr(probe, "release", lambda model: released.append(model) or release(model))
    rows = StepRows([trainer.train_dataset[place] for place in range(8)], list(range(8)))
    seconds = time_steps(trainer, rows, [16, 32, 64])
    assert set(seconds) == {16, 32}
    assert len(released) == 1
    assert all(parameter.grad is None for parameter in trainer.model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())


def test_a_run_too_short_to_pay_for_it_and_a_users_own_size_are_left_alone(tmp_path, made_up_run):
    run = made_up_run()
    plan, journal = run.plan(), Journal(tmp_path / "j", "0")

    def never():
        raise AssertionError("no trainer is needed")

    short = dataclasses.replace(plan, steps=600)
    assert probe.probe(run, short, journal, never, chosen_by_us=True) == short
    long = dataclasses.replace(plan, steps=100_000)
    assert probe.probe(run, long, journal, never, chosen_by_us=False) == long


def test_the_choice_is_in_plan_values_and_journal(tmp_path, made_up_run, monkeypatch):
    run = made_up_run()
    plan = dataclasses.replace(run.plan(), steps=100_000, tokens_per_micro_batch=32)
    monkeypatch.setattr(
        probe, "time_steps", lambda _trainer, _rows, sizes: dict.fromkeys(sizes, 1.0) | {16: 0.5, 32: 0.9}
    )
    chosen = probe.probe(run, plan, Journal(tmp_path / "j", "0"), lambda: trainer_of(tmp_path), True)
    assert chosen.tokens_per_micro_batch == 16
    assert run.plan().tokens_per_micro_batch == 16
    value = run.resolved()["run.tokens_per_micro_batch"]
    assert (value.value, value.origin) == (16, "chosen")
    assert "16: 0.5 s" in value.because
    event = read_events(tmp_path / "j")[-1]
    assert (event["event"], event["chosen"], event["seconds"]["32"]) == ("probe", 16, 0.9)
