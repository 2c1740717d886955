"""Where a run writes, and whether it fits: on made-up disks, and on the real one."""

import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from trainwright.doctor.disks import needs, place_at, see_places
from trainwright.doctor.records import Asked, Place
from trainwright.machine.madeup import made_up
from trainwright.recipe.schema import Recipe

GIB = 2**30


def asked_for(tmp_path, run=None, hub="auto", **more):
    recipe = Recipe.model_validate(
        {"name": "a", "model": "m", "hub": hub, "data": {"train": "a.csv"}, "run": run or {}}
    )
    return Asked(recipe, tmp_path, **more)


def place(purpose, path, disk="/", free=100 * GIB, **more):
    variables = {"hf": "HF_HOME", "pip": "PIP_CACHE_DIR", "tmp": "TMPDIR"}
    values = {"total": 200 * GIB, "files": (10**7, 10**6), "writable": True} | more
    device = sum(disk.encode())
    return Place(purpose, variables.get(purpose, ""), path, disk, device, free=free, **values)


# -- what is seen ----------------------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there_yet_lies_on_the_disk_of_the_nearest_that_is(tmp_path):
    seen = place_at("runs", "", tmp_path / "a" / "b")
    usage = os.statvfs(tmp_path)
    assert (seen.path, seen.device, seen.total) == (
        str(tmp_path / "a" / "b"), os.stat(tmp_path).st_dev, shutil.disk_usage(tmp_path).total,
    )  # fmt: skip
    assert seen.files is None or seen.files[0] == usage.f_files
    assert seen.writable
    assert os.path.ismount(seen.disk)


def test_a_link_to_another_disk_is_followed(tmp_path):
    (tmp_path / "cache").symlink_to("/dev/shm")
    seen = place_at("hf", "HF_HOME", tmp_path / "cache" / "hub")
    assert seen.disk == "/dev/shm"
    assert seen.device == os.stat("/dev/shm").st_dev != os.stat(tmp_path).st_dev


def test_a_disk_that_may_only_be_read_and_a_file_in_the_way_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert not place_at("runs", "", tmp_path / "file").writable
    assert not place_at("runs", "", tmp_path / "file" / "runs").writable
    real = os.statvfs(tmp_path)
    read_only = SimpleNamespace(**{name: getattr(real, name) for name in dir(real) if name.startswith("f_")})
    read_only.f_flag |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    assert not place_at("runs", "", tmp_path).writable


def test_variables_move_places_and_defaults_are_those_of_the_libraries(tmp_path):
    environment = {"HOME": "/home/x", "HF_HOME": str(tmp_path / "hf"), "XDG_CACHE_HOME": "/home/x/c"}
    paths = {one.purpose: one.path for one in see_places(made_up("laptop-cpu"), None, environment)}
    assert paths["hf"] == str(tmp_path / "hf")
    assert paths["pip"] == "/home/x/c/pip"
    environment["HF_HUB_CACHE"] = str(tmp_path / "hub")
    hub = next(one for one in see_places(made_up("laptop-cpu"), None, environment) if one.purpose == "hf")
    assert (hub.path, hub.variable) == (str(tmp_path / "hub"), "HF_HUB_CACHE")
    assert paths["triton"] == "/home/x/.triton"
    assert paths["runs"] == "runs"
    assert set(paths) == {"runs", "prepared", "hf", "modelscope", "tmp", "pip", "uv", "triton"}


def test_what_a_run_writes_is_counted_by_hand(tmp_path):
    """BERT-base: a checkpoint of 110 million parameters is 1.32 GB; 2 that stay, the best, one in the making."""
    asked = asked_for(tmp_path, parameters=110_000_000, data_bytes=5_000_000, from_hub=True)
    assert needs(asked) == {
        "runs": 4 * 1_320_000_000 + 440_000_000, "hf": 440_000_000, "prepared": 10_000_000,
    }  # fmt: skip
    fewer = asked_for(tmp_path, {"keep_checkpoints": 1}, "modelscope", parameters=110_000_000, from_hub=True)
    assert needs(fewer) == {"runs": 3 * 1_320_000_000 + 440_000_000, "modelscope": 440_000_000}
    assert needs(asked_for(tmp_path)) == needs(None) == {}


# -- made-up disks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def with_places(facts_of):
    def make(*places, machine="laptop-cpu"):
        return replace(facts_of(machine), places=list(places))

    return make


def test_places_on_one_disk_share_what_is_free(with_places, found):
    """6 + 6 GiB do not fit into 10, though each would."""
    both = [place("runs", "/a", free=10 * GIB, need=6 * GIB), place("prepared", "/b", free=10 * GIB, need=6 * GIB)]
    check = found(with_places(*both))["disks.room"]
    assert (check.verdict, check.evidence["need"]) == ("blocker", 12 * GIB)
    apart = [both[0], replace(both[1], disk="/data", device=1)]
    assert "disks.room" not in found(with_places(*apart))


def test_a_full_disk_points_to_the_one_with_room(with_places, found):
    full = place("runs", "/home/x/runs", free=GIB, need=5 * GIB)
    check = found(with_places(full, place("hf", "/data/hf", "/data", free=90 * GIB)))["disks.room"]
    assert check.verdict == "blocker"
    assert "/data" in check.fix.text
    assert "90.0 GiB" in check.fix.text


AUTODL = [
    place("runs", "/root/autodl-tmp/trainwright/runs", "/root/autodl-tmp", free=40 * GIB),
    place("hf", "/root/.cache/huggingface", free=1 * GIB, total=30 * GIB),
    place("pip", "/root/.cache/pip", free=1 * GIB, total=30 * GIB),
]


def test_on_autodl_caches_on_the_system_disk_are_moved_by_a_pasted_line(with_places, found):
    check = found(with_places(*AUTODL, machine="autodl-a100"))["disks.caches"]
    assert check.verdict == "warning"
    assert check.evidence == {"HF_HOME": "/root/.cache/huggingface", "PIP_CACHE_DIR": "/root/.cache/pip"}
    assert check.fix.variables == {
        "HF_HOME": "/root/autodl-tmp/cache/hf", "PIP_CACHE_DIR": "/root/autodl-tmp/cache/pip",
    }  # fmt: skip
    assert check.fix.safe
    line = "export HF_HOME=/root/autodl-tmp/cache/hf PIP_CACHE_DIR=/root/autodl-tmp/cache/pip"
    folders = "/root/autodl-tmp/cache/hf /root/autodl-tmp/cache/pip"
    assert check.fix.command == f"mkdir -p {folders} && printf '\\n%s\\n' '{line}' >> ~/.bashrc && {line}"


def test_the_system_disk_of_autodl_is_low_before_others_are(with_places, found):
    low = [AUTODL[0], place("hf", "/root/.cache/huggingface", free=3 * GIB, total=30 * GIB)]
    assert found(with_places(*low, machine="autodl-a100"))["disks.room"].verdict == "warning"
    assert "disks.room" not in found(with_places(*low))  # an ordinary disk with 3 GiB free is none to worry about


def test_what_the_data_disk_of_autodl_does_not_keep_is_said(with_places, found):
    check = found(with_places(AUTODL[0], machine="autodl-a100"))["disks.kept"]
    assert (check.verdict, "image" in check.message) == ("note", True)
    network = place("runs", "/root/autodl-fs/runs", "/root/autodl-fs")
    check = found(with_places(network, machine="autodl-a100"))["disks.kept"]
    assert (check.verdict, "200,000" in check.message) == ("warning", True)
    system = place("runs", "/root/runs")
    assert found(with_places(system, machine="autodl-a100"))["disks.kept"].verdict == "warning"
    assert "disks.kept" not in found(with_places(system))


@pytest.mark.parametrize(
    ("files", "verdict"),
    [((200_000, 100), "blocker"), ((200_000, 5000), "warning"), ((200_000, 50_000), None), (None, "not available")],
)
def test_a_disk_may_be_full_of_files(with_places, found, files, verdict):
    check = found(with_places(place("runs", "/root/autodl-fs/runs", files=files))).get("disks.files")
    assert (check.verdict if check else None) == verdict


def test_a_closed_folder_blocks_where_the_run_needs_it(with_places, found):
    assert found(with_places(place("runs", "/x", writable=False)))["disks.writable"].verdict == "blocker"
    check = found(with_places(place("hf", "/x", writable=False)))["disks.writable"]
    assert (check.verdict, "HF_HOME" in check.fix.text) == ("warning", True)
