"""A whole run whose model comes from a hub: fetched once, pinned, and never asked for again."""

import json
import signal
import time

import pytest
from running import start

from fakehub import COMMIT, MODEL, files_of
from trainwright.runs.folder import all_runs
from trainwright.runs.journal import read_events

pytestmark = pytest.mark.e2e


@pytest.fixture
def hub(fake_hub, tiny_bert, monkeypatch):
    fake_hub.files = files_of(tiny_bert)
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.endpoint)
    monkeypatch.setenv("TRAINWRIGHT_HF_MIRROR", "http://127.0.0.1:1")
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    return fake_hub


def test_a_run_fetches_its_model_says_from_where_and_works_offline_from_then_on(trainwright, recipe, hub, tmp_path):
    done = trainwright("train", recipe(epochs=1), "--set", f"model={MODEL}", "--runs", tmp_path / "runs")
    run = all_runs(tmp_path / "runs")[0]
    source = run.model_source()
    assert (source.hub, source.revision) == ("hf", COMMIT)
    assert run.resolved()["hub"].value == "hf"
    assert "sent the first bytes of its weights" in run.resolved()["hub"].because
    fetched = [event for event in read_events(run.journal) if event.get("phase") == "fetch"]
    assert fetched[-1]["done"] == fetched[-1]["total"] == sum(len(content) for content in hub.files.values())
    assert "Finding the model" in done.stdout
    assert f"The model {MODEL} is taken from hf: 127.0.0.1" in " ".join(done.stdout.split())
    agents = {headers.get("user-agent", "").split("/")[0] for _server, _path, headers in hub.requests}
    assert not any("transformers" in agent for agent in agents)  # no other child asked the hub
    asked = len(hub.requests)
    trainwright("train", recipe(epochs=1), "--set", f"model={MODEL}", "--runs", tmp_path / "runs")
    assert len(hub.requests) == asked


def test_a_name_that_no_hub_knows_refuses_the_run_with_the_way_out(trainwright, recipe, hub, tmp_path):
    done = trainwright("train", recipe(), "--set", "model=someone/tinny", "--runs", tmp_path / "runs", expect=2)
    assert "someone/tinny" in done.stderr
    assert "Check the spelling" in done.stderr
    assert "Traceback" not in done.stderr
    assert all_runs(tmp_path / "runs")[0].status().state == "refused"


def test_ctrl_c_while_the_model_comes_in_is_resumable(trainwright, recipe, hub, tmp_path):
    hub.cuts = [20_000] + [0] * 3  # then it hangs on waits long enough for a signal
    words = ("train", recipe(epochs=1), "--set", f"model={MODEL}", "--runs", tmp_path / "runs")
    running = start(tmp_path, *words)
    deadline = time.monotonic() + 60
    while len(hub.ranges_asked()) < 3 and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 4
    run = all_runs(tmp_path / "runs")[0]
    assert run.status().state == "stopped"
    assert json.loads((run.path / "status.json").read_text())["because"].startswith("Stopped while fetching the model")
    hub.cuts, hub.requests = [], []
    trainwright("resume", run.path)
    assert hub.ranges_asked() == ["bytes=20000-"]
    assert run.status().state == "finished"
