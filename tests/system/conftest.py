"""Real runs by the command line, a browser and a terminal. Skipped where the Debian packages are absent."""

from __future__ import annotations

import csv
import html
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

RECIPE = """name: reviews
task: text-classification
model: {model}
data: {{train: reviews.csv, validation: 20%, text: text, label: label, max_length: 32}}
learn: {{num_train_epochs: {epochs}, batch_size: 16, learning_rate: 1.0e-3, seed: 1}}
trainer: {{logging_steps: 5}}
"""


@pytest.fixture(scope="session")
def write_project(tiny_bert: Path, review_rows: list[tuple[str, str]]) -> Callable[[Path, int], Path]:
    """Writes data and recipe into a folder, for a number of epochs of 10 steps; returns the folder."""

    def write(folder: Path, epochs: int) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "reviews.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *review_rows])
        (folder / "recipe.yaml").write_text(RECIPE.format(model=tiny_bert, epochs=epochs), encoding="utf-8")
        return folder

    return write


@pytest.fixture(scope="session")
def trainwright(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command of Trainwright in a folder, in a process of its own, with an environment of its own."""
    home = tmp_path_factory.mktemp("home")
    variables = os.environ | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "LC_ALL": "C.UTF-8"}

    def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "trainwright", *arguments]
        return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)

    return run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, write_project: Any, trainwright: Any) -> Path:
    """The folder of a small run that has finished."""
    folder = write_project(tmp_path_factory.mktemp("finished"), 2)
    done = trainwright(folder, "train", "recipe.yaml", "--runs", "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (folder / "runs").iterdir()
    return run


# -- a browser -------------------------------------------------------------------------------------------------------


class Browser:
    """Headless Chromium: one process for each look."""

    def __init__(self, program: str, folder: Path) -> None:
        self._folder = folder
        self._command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        self._command += [f"--user-data-dir={folder / 'profile'}"]  # (root in a container has no sandbox)

    def measure(self, page: Path, width: int, dark: bool) -> dict[str, Any]:
        """Lay a page out at a width in CSS pixels; see measure.html for what is measured.

        The page is put into a frame, since a browser window cannot be as narrow as a phone.
        """
        frame = (Path(__file__).parent / "measure.html").read_text(encoding="utf-8")
        text = frame.replace("WIDTH", str(width)).replace("PAGE", html.escape(page.read_text(encoding="utf-8")))
        (self._folder / "measured.html").write_text(text, encoding="utf-8")
        shown = self._run("--dump-dom", f"--blink-settings=preferredColorScheme={0 if dark else 1}")
        return json.loads(html.unescape(shown.split("<pre>")[1].split("</pre>")[0]))

    def _run(self, *options: str) -> str:
        command = [*self._command, *options, (self._folder / "measured.html").as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("chromium is not installed")
    return Browser(program, tmp_path)


# -- a terminal ------------------------------------------------------------------------------------------------------


class Terminal:
    """A terminal of 100 columns and 40 lines with a shell, driven through tmux."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-u", "-f", "/dev/null", "-S", str(folder / "tmux.socket")]
        start = ["new-session", "-d", "-x", "100", "-y", "40", "-c", str(folder), "bash --norc --noprofile"]
        subprocess.run([*self._tmux, *start], check=True)

    def type(self, line: str) -> None:
        subprocess.run([*self._tmux, "send-keys", "-l", line], check=True)
        subprocess.run([*self._tmux, "send-keys", "Enter"], check=True)

    def press(self, key: str) -> None:
        subprocess.run([*self._tmux, "send-keys", key], check=True)

    def screen(self) -> str:
        """What stands on the screen."""
        return subprocess.run([*self._tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True).stdout

    def close(self) -> None:
        """Close the window, as a lost connection does."""
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def wait_for() -> Callable[..., Any]:
    """Waits until a question has a true answer, and returns it; fails after some seconds, showing why."""

    def wait(question: Callable[[], Any], why: Callable[[], str], seconds: float = 60) -> Any:
        until = time.monotonic() + seconds
        while not (answer := question()):
            if time.monotonic() > until:
                pytest.fail(f"waited {seconds:.0f} s in vain; last seen:\n{why()}")
            time.sleep(0.1)
        return answer

    return wait
