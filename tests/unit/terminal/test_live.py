import io
import subprocess
import sys

import pytest
from rich.console import Console

from trainwright.records import Finding
from trainwright.runs.journal import Journal
from trainwright.terminal.live import LiveView, sparkline
from trainwright.terminal.tables import findings_list, run_summary, runs_table


@pytest.fixture
def shown():
    """A console that writes into memory, and what it wrote."""

    def make(terminal, width=80):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)
        return console, lambda: console.file.getvalue()

    return make


def test_plain_lines_tell_the_course_of_a_run_without_escape_codes(made_up_run, shown):
    console, text = shown(terminal=False)
    with LiveView(made_up_run(), console) as view:
        view.update()
    lines = text().splitlines()
    assert lines[1:3] == ["Training", "  step 1/100: loss 1.151, 2,000 real tokens/s, 50s left"]
    assert sum("validation" in line for line in lines) == 5
    assert "\x1b" not in text()
    assert sum("loss" in line and "step" in line for line in lines if "validation" not in line) == 1  # one in 10 s


def test_the_panel_shows_every_number_at_80_columns(made_up_run, shown):
    console, text = shown(terminal=True)
    view = LiveView(made_up_run(price="3.5 CNY", padding=0.2), console, plain=False)
    view.update()
    console.print(view.panel())
    for words in (
        "100/100",
        "real tokens/s",
        "2,000",
        "20.0%",
        "1.0 GiB",
        "0.8000",
        "CNY",
        "gradient norm",
        "time left",
    ):
        assert words in text(), words
    assert max(map(len, text().splitlines())) <= 80


def test_what_is_unknown_is_not_available(made_up_run, shown):
    console, text = shown(terminal=True)
    folder = made_up_run()
    for file in folder.journal.iterdir():
        file.unlink()
    view = LiveView(folder, console, plain=False)
    console.print(view.panel())
    assert "Starting" in text()


def test_a_closed_output_makes_the_view_silent_and_never_raises(made_up_run, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    discarded = []
    monkeypatch.setattr("trainwright.terminal.live.discard_output", lambda: discarded.append(True))
    with LiveView(made_up_run(), Console(file=Closed(), force_terminal=False)) as view:
        view.update()
        view.update()
    assert discarded == [True]


def test_a_loss_that_is_not_a_number_is_shown_as_such(made_up_run, shown):
    console, text = shown(terminal=False)
    folder = made_up_run(losses=lambda step: float("nan"))
    with LiveView(folder, console) as view:
        view.update()
    assert "loss nan" in text()


def test_a_validation_score_that_is_not_a_number_is_shown_as_such(made_up_run, shown):
    folder = made_up_run()
    metrics = {"loss": float("nan"), "macro_f1": 0.3, "mcc": 0.0}
    Journal(folder.journal, "1").write("evaluate", step=100, metrics=metrics, took=1.0, rehearsal=False)
    console, text = shown(terminal=False)
    with LiveView(folder, console) as view:
        view.update()
    assert "step 100: validation loss nan, macro_f1 0.3000, mcc 0.0000" in text()


@pytest.mark.parametrize("plain", [True, False])
def test_a_standard_output_that_is_closed_meanwhile_makes_the_view_silent(made_up_run, plain):
    code = f"""
import sys
from pathlib import Path
from rich.console import Console
from trainwright.runs.folder import RunFolder
from trainwright.terminal.live import LiveView
with LiveView(RunFolder(Path(sys.argv[1])), Console(force_terminal={not plain}), plain={plain}) as view:
    sys.stdout.close()
    view.update()
    view.update()
"""
    done = subprocess.run([sys.executable, "-c", code, str(made_up_run().path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_progress_of_preparing_is_shown(made_up_run, shown):
    console, text = shown(terminal=True)
    folder = made_up_run()
    journal = Journal(folder.journal, "prepare")
    journal.write("phase", phase="prepare")
    journal.write("progress", phase="prepare", done=1500, total=3000, unit="rows")
    view = LiveView(folder, console, plain=False)
    view.update()
    console.print(view.panel())
    assert "1,500/3,000 rows" in text()


def test_a_sparkline_rises_from_the_lowest_to_the_highest_value():
    assert sparkline([0.0, 1.0, 2.0, 7.0], 4) == "▁▂▃█"
    assert sparkline([5.0] * 3, 4) == "▁▁▁"
    assert sparkline([1.0], 4) == ""


def test_a_summary_names_scores_with_error_and_baseline_and_what_to_do_next(made_up_run, shown):
    console, text = shown(terminal=False, width=200)
    console.print(run_summary(made_up_run()))
    for words in ("finished", "0.8400 ± 0.0587", "baseline 0.4667", "100 steps in 1h 00m", "trainwright predict"):
        assert words in text(), words


def test_a_stopped_run_says_how_to_go_on(made_up_run, shown):
    console, text = shown(terminal=False, width=200)
    console.print(run_summary(made_up_run(state="stopped", because="asked")))
    assert "trainwright resume" in text()
    assert "stopped, resumable" in text()


def test_runs_are_listed_with_state_score_and_model(made_up_run, shown):
    console, text = shown(terminal=False, width=160)
    console.print(runs_table([made_up_run()]))
    for words in ("reviews-20260101-120000", "finished", "macro_f1", "bert-base-chinese"):
        assert words in text()


def test_a_finding_shows_its_remedy_as_a_line_to_paste(shown):
    console, text = shown(terminal=False, width=120)
    finding = Finding("x.y", "warning", "Too much.", {}, "Take less.", {"learn.batch_size": 8})
    for line in findings_list([finding]):
        console.print(line)
    assert "! Too much." in text()
    assert "Take less. --set learn.batch_size=8" in text()


def test_a_model_on_its_way_is_shown_in_bytes(made_up_run, shown):
    console, text = shown(terminal=False)
    run = made_up_run(state="preparing", began=False)
    journal = Journal(run.journal, "fetch")
    journal.write("phase", phase="fetch")
    journal.write("progress", phase="fetch", done=2**20, total=2**22, unit="bytes")
    with LiveView(run, console) as view:
        view.update()
    assert text().splitlines()[1:] == ["Finding the model", "  Fetching the model: 1.0 MiB of 4.0 MiB"]
