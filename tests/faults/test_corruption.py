"""Checkpoints that are damaged in every way: each damage is found and named, and the run goes on from an older one."""

import shutil

import pytest
import torch
from corrupting import KINDS, STEPS, make_run, trial
from faulty import bert, largest_difference, rows_of, trainer_in

from trainwright.train import checkpoint

TRIALS = 5 * len(KINDS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("corruption") / "run")


def test_the_undamaged_run_offers_its_newest_checkpoint(run):
    assert checkpoint.newest_whole(run) == (run / f"checkpoint-{STEPS[-1]}", [])


def test_every_damage_is_found_named_and_survived(run, tmp_path):
    trials = [trial(run, tmp_path / "copy", number) for number in range(TRIALS)]
    assert [one for one in trials if not (one["found"] and one["named"] and one["survived"])] == []
    assert {one["kind"] for one in trials} == {kind.__name__ for kind in KINDS}


def test_training_goes_on_from_the_older_one_and_ends_as_if_nothing_had_happened(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "checkpoint-4" / "optimizer.pt").write_bytes(b"")
    torch.manual_seed(0)
    again = trainer_in(tmp_path / "copy", bert(), rows_of(20), max_steps=STEPS[-1])
    again.train(resume_from_checkpoint=True)
    torch.manual_seed(0)
    undisturbed = trainer_in(tmp_path / "whole", bert(), rows_of(20), max_steps=STEPS[-1])
    undisturbed.train()
    assert largest_difference(again.model, undisturbed.model) == 0.0
    assert checkpoint.newest_whole(tmp_path / "copy") == (tmp_path / "copy" / "checkpoint-4", [])
