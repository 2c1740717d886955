import os
from collections import namedtuple

from trainwright.machine.madeup import made_up
from trainwright.machine.places import cache_root, default_runs_root, free_bytes


def test_on_autodl_runs_and_caches_go_to_the_data_disk():
    assert str(default_runs_root(made_up("autodl-a100"))) == "/root/autodl-tmp/trainwright/runs"
    assert str(cache_root(made_up("autodl-a100"))) == "/root/autodl-tmp/trainwright/cache"


def test_elsewhere_runs_go_here_and_caches_to_the_users_cache(monkeypatch, tmp_path):
    assert str(default_runs_root(made_up("laptop-cpu"))) == "runs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root(made_up("laptop-cpu")) == tmp_path / "trainwright"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root(made_up("laptop-cpu")) == tmp_path / "home" / ".cache" / "trainwright"


def test_free_space_is_that_of_the_disk_of_a_path_that_need_not_exist(tmp_path, monkeypatch):
    asked = []

    def usage(path):
        asked.append(path)
        os.stat(path)
        return namedtuple("Usage", "free")(7)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert free_bytes(tmp_path / "a" / "b") == 7
    assert asked == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]


def test_free_space_that_cannot_be_told_is_none(tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.disk_usage", refused)
    assert free_bytes(tmp_path) is None
