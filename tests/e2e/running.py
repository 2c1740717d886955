"""Tiny real runs: the command line in processes of its own, on a made-up set and a tiny model."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.runs.folder import RunFolder, all_runs
from trainwright.runs.journal import read_events

RECIPE = """
name: reviews
task: text-classification
model: {model}
data: {{train: {train}, validation: 20%, text: text, label: label, max_length: 32}}
learn: {{num_train_epochs: {epochs}, batch_size: 16, learning_rate: 3.0e-3, dropout: {dropout}, seed: 3}}
run: {{precision: fp32, device: cpu, tokens_per_micro_batch: 128}}
trainer: {{logging_steps: 1}}
"""


@pytest.fixture
def recipe(tmp_path: Path, tiny_bert: Path, reviews_csv: Path) -> Callable[..., Path]:
    """Writes a recipe for the made-up reviews: ``recipe(epochs=2)``."""

    def write(epochs: int = 2, dropout: float = 0.0) -> Path:
        path = tmp_path / "recipe.yaml"
        path.write_text(RECIPE.format(model=tiny_bert, train=reviews_csv, epochs=epochs, dropout=dropout))
        return path

    return write


@pytest.fixture
def trainwright(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    """Runs a command to its end: ``trainwright("train", recipe, "--runs", folder)``."""

    def run(*words: object, expect: int | None = 0, **environment: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            command(*words), capture_output=True, text=True, cwd=tmp_path, env=os.environ | environment, timeout=300
        )
        if expect is not None:
            assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "trainwright", *map(str, words)]


def start(tmp_path: Path, *words: object, **options: object) -> subprocess.Popen:
    """Start a command and leave it running."""
    return subprocess.Popen(
        command(*words), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def only_run(root: Path) -> RunFolder:
    (found,) = all_runs(root)
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something is so; fails if it does not come about."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


def wait_for_step(root: Path, step: int) -> RunFolder:
    """The run below ``root``, once its training (not its rehearsal) has made a step."""
    wait_for(lambda: root.is_dir() and any(_trained(folder) >= step for folder in all_runs(root)))
    return only_run(root)


def _trained(folder: RunFolder) -> int:
    steps = [e["step"] for e in read_events(folder.journal) if e["event"] == "log" and not e["rehearsal"]]
    return max(steps, default=0)
