"""A model on its way from a hub to this machine, over real sockets that break, lie and refuse."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from fakehub import COMMIT, MODEL, FakeHub, files_of
from trainwright.errors import ModelError
from trainwright.model.check import check_folder
from trainwright.model.hub_fetch import fetch, fetch_again, source_finding, still_whole
from trainwright.model.hub_files import RemoteFile, fetch_file, needed, verified


@pytest.fixture
def hub(fake_hub, tiny_bert, monkeypatch) -> FakeHub:
    """A hub with the tiny BERT, in reach and online."""
    fake_hub.files = files_of(tiny_bert) | {"README.md": b"# tiny", "training_args.bin": b"pickle"}
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.endpoint)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("trainwright.model.hub_files.time.sleep", lambda seconds: None)
    return fake_hub


class Told:
    """Remembers progress."""

    def __init__(self) -> None:
        self.all: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int, _unit: str) -> None:
        self.all.append((done, total))


def test_a_model_is_fetched_verified_and_pinned(hub, tiny_bert):
    told = Told()
    source = fetch(MODEL, "hf", told)
    assert (source.hub, source.endpoint, source.revision) == ("hf", hub.endpoint, COMMIT)
    folder = Path(source.folder)
    assert {path.name for path in folder.iterdir()} == set(files_of(tiny_bert))  # no README, no pickle
    assert all((folder / name).read_bytes() == content for name, content in files_of(tiny_bert).items())
    digest = hashlib.sha256((tiny_bert / "model.safetensors").read_bytes()).hexdigest()
    assert {file.name: file.sha256 for file in source.files}["model.safetensors"] == digest
    total = sum(path.stat().st_size for path in tiny_bert.iterdir())
    assert told.all[-1] == (total, total)
    assert check_folder(folder, "").max_length == 128
    assert still_whole(source)


def test_the_cache_is_the_one_that_the_hubs_own_library_reads(hub):
    source = fetch(MODEL, "hf", Told())
    from huggingface_hub import snapshot_download

    cache = Path(source.folder).parents[2]
    assert snapshot_download(MODEL, cache_dir=cache, local_files_only=True) == source.folder


def test_a_second_run_asks_no_hub_and_one_that_is_offline_neither(hub, monkeypatch):
    first = fetch(MODEL, "hf", Told())
    hub.requests.clear()
    assert fetch(MODEL, "auto", Told()).folder == first.folder
    assert fetch(f"{MODEL}@{COMMIT}", "local", Told()).revision == COMMIT
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert fetch(MODEL, "auto", Told()).folder == first.folder
    assert hub.requests == []


def test_a_damaged_cache_is_seen_and_what_was_pinned_from_it_is_fetched_again_when_it_is_gone(
    hub, monkeypatch, tmp_path
):
    fetched = fetch(MODEL, "hf", Told())
    cached = fetch(MODEL, "auto", Told())
    assert [file for file in cached.files if file.sha256] == [file for file in fetched.files if file.sha256]
    weights = (Path(cached.folder) / "model.safetensors").resolve()
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ModelError, match=rf"{weights.name} in the cache is damaged.*Remove that file"):
        fetch(MODEL, "auto", Told())
    weights.unlink()
    assert not still_whole(cached)
    assert still_whole(fetch_again(cached, Told()))


def test_a_cut_connection_is_gone_on_with_where_it_broke(hub):
    size = len(hub.files["model.safetensors"])
    hub.cuts = [1000, 5000]
    told = Told()
    fetch(MODEL, "hf", told)
    assert hub.ranges_asked() == [None, "bytes=1000-", "bytes=6000-"]
    assert told.all[-1][0] == told.all[-1][1] >= size


def test_a_hub_that_knows_no_ranges_is_read_from_the_start_again(hub):
    hub.ranges = False
    hub.cuts = [1000]
    told = Told()
    fetch(MODEL, "hf", told)
    assert told.all[-1][0] == told.all[-1][1]


def test_a_hub_that_always_breaks_off_ends_the_fetch_and_what_came_is_kept(hub):
    hub.cuts = [1000] + [0] * 50
    with pytest.raises(ModelError, match=r"stopped at 1000 B of .*hub: hf-mirror"):
        fetch(MODEL, "hf", Told())
    hub.cuts, hub.requests = [], []
    fetch(MODEL, "hf", Told())
    assert hub.ranges_asked() == ["bytes=1000-"]


def test_a_damaged_file_is_fetched_again_and_refused_if_it_stays_damaged(hub):
    hub.damaged = 2  # the probe's answer is too short to be damaged
    with pytest.raises(ModelError, match="damaged twice"):
        fetch(MODEL, "hf", Told())
    hub.damaged = 1
    source = fetch(MODEL, "hf", Told())
    assert (Path(source.folder) / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_a_busy_hub_is_waited_for(hub):
    hub.busy = 3
    fetch(MODEL, "hf", Told())


def test_a_part_of_another_file_does_not_stay_in_the_way(hub, tmp_path):
    content = hub.files["model.safetensors"]
    file = RemoteFile("model.safetensors", len(content), sha256=hashlib.sha256(content).hexdigest())
    (tmp_path / "x.incomplete").write_bytes(b"?" * 500)
    with httpx2.Client(follow_redirects=True) as client:
        fetch_file(
            client, f"{hub.storage}/model.safetensors", file, tmp_path / "x", tmp_path / "lock", lambda piece: None
        )
    assert (tmp_path / "x").read_bytes() == content


def test_hashes_are_those_of_their_makers(tmp_path):
    """What `git hash-object` and `sha256sum` say of the five letters and a line end."""
    (tmp_path / "x").write_bytes(b"hello\n")
    git, sha = (
        "ce013625030ba8dba906f756967f9e9ca394464a",
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
    )
    assert verified(tmp_path / "x", RemoteFile("x", 6, git_sha1=git))
    assert verified(tmp_path / "x", RemoteFile("x", 6, sha256=sha))
    assert not verified(tmp_path / "x", RemoteFile("x", 6, git_sha1=git[::-1]))
    assert not verified(tmp_path / "x", RemoteFile("x", 6, sha256=sha[::-1]))
    assert not verified(tmp_path / "x", RemoteFile("x", 7))


def test_offline_and_not_here_says_where_it_looked(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=r"HF_HUB_OFFLINE is set.*huggingface/hub"):
        fetch(MODEL, "auto", Told())
    with pytest.raises(ModelError, match="hub: local asks nobody"):
        fetch(MODEL, "local", Told())
    assert hub.requests == []


def test_a_model_that_does_not_fit_on_the_disk_is_refused_before_it_is_fetched(hub, monkeypatch):
    monkeypatch.setattr("trainwright.model.hub_fetch.free_bytes", lambda path: 1000)
    with pytest.raises(ModelError, match=r"only 1000 B are free.*HF_HOME"):
        fetch(MODEL, "hf", Told())
    assert hub.ranges_asked() == []


def test_what_a_run_had_is_missed_when_it_is_gone_or_changed(hub):
    source = fetch(MODEL, "hf", Told())
    weights = (Path(source.folder) / "model.safetensors").resolve()
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert not still_whole(source)
    weights.unlink()
    assert not still_whole(source)


def test_what_is_gone_is_brought_again_from_the_same_revision(hub, monkeypatch, tmp_path):
    source = fetch(MODEL, "hf", Told())
    monkeypatch.setenv("HF_HOME", str(tmp_path / "emptied"))
    again = fetch_again(source, Told())
    assert (again.model, again.revision, again.files) == (MODEL, COMMIT, source.files)
    assert again.folder != source.folder


def test_a_run_does_not_go_on_with_a_model_that_has_changed_under_its_name(hub, monkeypatch, tmp_path):
    source = fetch(MODEL, "hf", Told())
    monkeypatch.setenv("HF_HOME", str(tmp_path / "emptied"))
    weights = hub.files["model.safetensors"]
    hub.files["model.safetensors"] = weights[:-1] + bytes([weights[-1] ^ 1])
    with pytest.raises(ModelError, match=r"has changed on hf since the run began: model\.safetensors"):
        fetch_again(source, Told())


def test_modelscope_through_its_own_library(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "scope"))
    told = Told()
    source = fetch(MODEL, "modelscope", told)
    assert (source.hub, source.revision) == ("modelscope", "master")
    assert "README.md" not in {path.name for path in Path(source.folder).iterdir()}
    assert check_folder(Path(source.folder), "").max_length == 128
    digest = hashlib.sha256(hub.files["model.safetensors"]).hexdigest()
    assert {file.name: file.sha256 for file in source.files}["model.safetensors"] == digest
    assert told.all[-1][0] == told.all[-1][1]


def test_where_no_other_hub_answers_the_model_comes_from_modelscope(hub, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("TRAINWRIGHT_HF_MIRROR", "http://127.0.0.1:1")
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "scope"))
    source = fetch(MODEL, "auto", Told())
    assert (source.hub, source.endpoint) == ("modelscope", hub.endpoint)
    said = source_finding(source).message
    assert said.startswith(f"The model {MODEL} is taken from modelscope: 127.0.0.1")
    assert said.count("127.0.0.1:1 does not answer") == 2


def test_modelscope_without_its_library_names_the_install_line(hub, monkeypatch):
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", hub.endpoint)
    monkeypatch.setattr("trainwright.model.hub_modelscope.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'trainwright\[modelscope\]'"):
        fetch(MODEL, "modelscope", Told())


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["model.safetensors", "pytorch_model.bin", "vocab.txt"], {"model.safetensors", "vocab.txt"}),
        (["pytorch_model.bin", "config.json", "tf_model.h5"], {"pytorch_model.bin", "config.json"}),
        (
            ["model.safetensors.index.json", "model-00001-of-00001.safetensors", "pytorch_model.bin"],
            {"model.safetensors.index.json", "model-00001-of-00001.safetensors"},
        ),
        (["model.safetensors", "model.fp16.safetensors", "onnx/config.json"], {"model.safetensors"}),
    ],
)
def test_one_form_of_the_weights_and_what_is_small(names, taken):
    assert {file.name for file in needed([RemoteFile(name, 1) for name in names], MODEL)} == taken


def test_a_repository_without_weights_says_what_it_has():
    with pytest.raises(ModelError, match=r"model\.gguf"):
        needed([RemoteFile("model.gguf", 1)], MODEL)


def test_a_fetch_that_was_killed_goes_on_in_a_later_process(hub, tmp_path):
    """A real process, killed while bytes come in; the address is in its environment before anything is imported."""
    hub.files["model.safetensors"] = b"\x02\0\0\0\0\0\0\0{}" + os.urandom(3_000_000)
    hub.cuts = [1_000_000] + [0] * 1000  # after a part no more comes, until we say so
    code = (
        "import json, sys; from trainwright.model.hub_fetch import fetch;"
        f"source = fetch({MODEL!r}, 'hf-mirror', lambda *a: None);"
        "from huggingface_hub import constants; print(json.dumps([constants.ENDPOINT, constants.HF_HUB_DISABLE_XET]))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"PYTHONPATH": ":".join(sys.path), "TRAINWRIGHT_HF_MIRROR": hub.endpoint}
    first = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(hub.ranges_asked()) < 2 and first.poll() is None and time.monotonic() < deadline:
        os.sched_yield()
    first.send_signal(signal.SIGKILL)
    first.wait()
    hub.cuts, hub.requests = [], []
    second = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert hub.ranges_asked() == ["bytes=1000000-"]
    assert json.loads(second.stdout) == [hub.endpoint, True]
