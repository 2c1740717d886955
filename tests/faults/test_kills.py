"""Runs that are killed with SIGKILL, at random moments and inside saves, and resumed: every bit is the same."""

import shutil
import signal
from functools import partial

import pytest
import torch
from killing import InSave, Killing, ended, forked, train

from trainwright.train import checkpoint

KILLS = 50  # of each task; at least half of them inside a save


@pytest.fixture(autouse=True)
def one_thread():
    """A fork copies one thread only: torch must not have others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("task", ["classification", "masked-lm"])
def test_every_killed_run_resumes_and_ends_as_the_undisturbed_one(tmp_path, task):
    killing = Killing(task, tmp_path)
    trials = [killing.trial(number, in_save=number % 3 != 0) for number in range(KILLS)]
    assert [trial for trial in trials if not (trial["resumed"] and trial["same"])] == []
    assert sum(trial["in"] == "save" and trial["killed"] for trial in trials) >= KILLS / 2
    assert len({trial["from"] for trial in trials}) >= 3  # from the start and from several checkpoints


def test_a_kill_at_every_file_operation_of_a_save_leaves_the_old_or_the_new_checkpoint(tmp_path):
    """Also where a checkpoint of the same step is replaced, and with room for one checkpoint only."""
    folder = tmp_path / "run"

    def limited(trainer, at):
        trainer.given_args.save_total_limit = 1
        return InSave(trainer, at, only_step=4)

    codes = []
    while not codes or codes[-1] == -signal.SIGKILL:
        if len(codes) % 2 == 0:
            shutil.rmtree(folder, ignore_errors=True)  # every second time what the last kill left lies there
        kill = partial(limited, at=len(codes) + 1)
        codes.append(ended(forked(lambda: train("classification", folder, tmp_path / "end", kill))))  # noqa: B023
        found, skipped = checkpoint.newest_whole(folder)
        assert skipped == []
        assert found is not None
        assert found.name in ("checkpoint-2", "checkpoint-4", "checkpoint-6")
    assert codes[-1] == 0
    assert len(codes) > 20
