"""Runs that are stopped, killed, orphaned or lose their terminal: nothing is lost, the end is the same to the bit."""

import os
import signal
import time

import pytest
from running import only_run, start, wait_for, wait_for_step

from trainwright.launch.local import is_alive
from trainwright.runs.journal import read_events, steps_of

EPOCHS = 30  # long enough that a signal comes in time: 300 steps of some milliseconds


def ends(folder):
    """What a run came to: the bytes of its weights, and the loss of every step."""
    losses = [(event["step"], event["loss"]) for event in steps_of(read_events(folder.journal), "log")]
    return (folder.model / "model.safetensors").read_bytes(), losses


@pytest.fixture
def expected(tmp_path, recipe, trainwright):
    trainwright("train", recipe(EPOCHS, dropout=0.1), "--runs", tmp_path / "undisturbed", "--no-rehearse")
    return ends(only_run(tmp_path / "undisturbed"))


def test_ctrl_c_leaves_a_resumable_run_that_ends_the_same(tmp_path, recipe, trainwright, expected):
    root = tmp_path / "runs"
    process = start(tmp_path, "train", recipe(EPOCHS, dropout=0.1), "--runs", root, "--no-rehearse")
    folder = wait_for_step(root, 15)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 4, output
    assert "Traceback" not in output
    assert folder.status().state == "stopped"
    assert 15 <= folder.status().step < 10 * EPOCHS
    assert folder.report.exists()
    trainwright("resume", folder.path)
    assert ends(folder) == expected


def test_stop_does_the_same_from_another_terminal(tmp_path, recipe, trainwright):
    root = tmp_path / "runs"
    process = start(tmp_path, "train", recipe(EPOCHS, dropout=0.1), "--runs", root, "--no-rehearse")
    folder = wait_for_step(root, 3)
    trainwright("stop", "last", "--runs", root)
    assert process.wait(timeout=60) == 4
    assert folder.status().state == "stopped"
    assert "not going on" in trainwright("stop", "last", "--runs", root, expect=3).stderr


def test_a_killed_worker_is_started_again_by_its_watcher_and_ends_the_same(tmp_path, recipe, trainwright, expected):
    root = tmp_path / "runs"
    process = start(tmp_path, "train", recipe(EPOCHS, dropout=0.1), "--runs", root, "--no-rehearse")
    folder = wait_for_step(root, 45)  # beyond the first evaluation, which saves
    os.kill(folder.status().worker_pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert [event["number"] for event in read_events(folder.journal) if event["event"] == "restart"] == [1]
    assert ends(folder) == expected


def test_a_worker_killed_again_and_again_leaves_a_status_a_report_and_a_run_that_ends_the_same(
    tmp_path, recipe, trainwright, expected
):
    root = tmp_path / "runs"
    process = start(tmp_path, "train", recipe(EPOCHS, dropout=0.1), "--runs", root, "--no-rehearse")
    folder = wait_for_step(root, 45)
    killed = set()
    while process.poll() is None:
        worker = folder.status().worker_pid
        if worker and worker not in killed:
            killed.add(worker)
            os.kill(worker, signal.SIGKILL)
        time.sleep(0.05)
    assert process.returncode == 70, process.stdout.read()
    assert len(killed) == 4
    assert folder.status().state == "failed"
    assert "SIGKILL" in folder.status().because
    assert folder.report.exists()
    trainwright("resume", folder.path)
    assert ends(folder) == expected


def test_a_worker_whose_watcher_died_saves_and_ends_and_resume_waits_for_it(tmp_path, recipe, trainwright, expected):
    root = tmp_path / "runs"
    process = start(tmp_path, "train", recipe(EPOCHS, dropout=0.1), "--runs", root, "--no-rehearse")
    folder = wait_for_step(root, 5)
    worker = folder.status().worker_pid
    process.kill()
    process.wait()
    trainwright("resume", folder.path)
    assert not is_alive(worker)
    assert folder.status().state == "finished"
    assert ends(folder) == expected


def test_losing_the_terminal_changes_nothing(tmp_path, recipe, trainwright):
    root = tmp_path / "runs"
    process = start(tmp_path, "train", recipe(10, dropout=0.1), "--runs", root, "--no-rehearse", start_new_session=True)
    wait_for_step(root, 3)
    os.killpg(process.pid, signal.SIGHUP)
    process.stdout.close()  # nobody reads what it prints any more
    assert process.wait(timeout=120) == 0
    assert only_run(root).status().state == "finished"


def test_a_run_that_is_going_on_is_not_resumed_a_second_time(tmp_path, recipe, trainwright):
    root = tmp_path / "runs"
    process = start(tmp_path, "train", recipe(EPOCHS, dropout=0.1), "--runs", root, "--no-rehearse")
    wait_for_step(root, 3)
    refused = trainwright("resume", "last", "--runs", root, expect=2)
    assert "going on" in refused.stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 4


def test_a_failing_rehearsal_stops_the_run_with_the_reason(tmp_path, recipe, trainwright):
    root = tmp_path / "runs"
    sitecustomize = tmp_path / "broken"
    sitecustomize.mkdir()
    # evaluation fails, as a metric that does not fit its data does: training alone would find out at its first one
    (sitecustomize / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'trainwright.train.worker':\n"
        "            import trainwright.train.evaluation as evaluation\n"
        "            def run(*words): raise RuntimeError('the evaluation is broken')\n"
        "            evaluation.run = run\n"
        "        return None\n"
        "if 'trainwright.child' in ' '.join(sys.orig_argv): sys.meta_path.insert(0, Finder())\n"
    )
    done = trainwright("train", recipe(1), "--runs", root, expect=70, PYTHONPATH=str(sitecustomize))
    folder = only_run(root)
    assert "the evaluation is broken" in folder.status().because
    assert folder.status().state == "failed"
    assert not steps_of(read_events(folder.journal), "log")  # training did not begin
    assert steps_of(read_events(folder.journal), "log", rehearsal=True)
    assert any("rehearsal" in finding.id or "failed" in finding.id for finding in folder.findings())
    assert "the evaluation is broken" in done.stdout + done.stderr


def test_nothing_is_left_behind_by_a_finished_run(tmp_path, recipe, trainwright):
    trainwright("train", recipe(1), "--runs", tmp_path / "runs")
    folder = only_run(tmp_path / "runs")
    wait_for(lambda: not is_alive(folder.status().worker_pid))
    names = {path.name for path in folder.path.iterdir()}
    assert not {"rehearsal", ".model"} & names
    assert not [name for name in names if name.endswith(".tmp")]
