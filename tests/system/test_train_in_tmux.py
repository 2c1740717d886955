"""A run in a real terminal: what is shown, Ctrl-C, and a terminal that goes away."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys

import pytest

EPOCHS = 2000  # 20,000 steps: far more than any of these tests waits for


@pytest.fixture
def training(terminal, tmp_path, write_project, wait_for):
    """A run that trains in the terminal; returns a function that reads its status."""
    write_project(tmp_path, EPOCHS)
    command = f"{sys.executable} -m trainwright train recipe.yaml --no-rehearse --runs runs"
    terminal.type(f"{command}; echo ended with $?")

    def status():
        files = list((tmp_path / "runs").glob("*/status.json"))
        return json.loads(files[0].read_text(encoding="utf-8")) if files else {"state": "none"}

    wait_for(lambda: (status().get("step") or 0) > 20 or has_ended(terminal), terminal.screen, 90)
    assert not has_ended(terminal), terminal.screen()
    yield status
    end(status())


def end(status):
    """End the processes of a run at once: a closed terminal does not, so a failed test would leave them behind."""
    for pid in (status.get("pid"), status.get("worker_pid")):
        if pid and status.get("exit_code") is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def has_ended(terminal):
    return re.search(r"ended with \d", terminal.screen())


def test_the_screen_shows_how_far_it_is_and_ctrl_c_leaves_a_run_that_can_be_resumed(
    training, terminal, tmp_path, wait_for
):
    def shows_progress():
        screen = terminal.screen()
        return re.search(r"\b20,?000\b", screen) and re.search(r"(?i)loss", screen)

    wait_for(shows_progress, terminal.screen)
    terminal.press("C-c")
    wait_for(lambda: has_ended(terminal), terminal.screen)
    (run,) = (tmp_path / "runs").iterdir()
    assert "ended with 4" in terminal.screen()
    assert re.search(rf"trainwright resume \S*{run.name}", " ".join(terminal.screen().split()))
    assert training()["state"] == "stopped"
    newest = max(int(path.name.split("-")[1]) for path in (run / "checkpoints").glob("checkpoint-*"))
    assert newest == training()["step"]


def test_closing_the_terminal_does_not_stop_a_run(training, terminal, tmp_path, trainwright, wait_for):
    terminal.close()
    step = training()["step"]
    wait_for(lambda: training()["step"] > step + 100, lambda: str(training()))
    done = trainwright(tmp_path, "stop", "last", "--runs", "runs")
    assert done.returncode == 0, done.stderr
    assert training()["state"] == "stopped"
