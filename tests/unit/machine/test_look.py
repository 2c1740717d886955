import os
import types

import pytest

from trainwright.machine.look import (
    cpu_quota,
    gpus,
    has_bf16,
    look,
    memory_available,
    memory_limit,
    rental_platform,
    usable_cores,
    versions,
)
from trainwright.records import Gpu


def put(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_quota_of_cgroup_v2_counts_not_the_hosts_cores(tmp_path):
    put(tmp_path, **{"sys__fs__cgroup__cpu.max": "150000 100000\n"})
    assert cpu_quota(tmp_path) == 1.5
    assert usable_cores(tmp_path, affinity=64) == 1.5
    assert usable_cores(tmp_path, affinity=1) == 1.0


def test_the_quota_of_cgroup_v1_counts(tmp_path):
    put(
        tmp_path,
        **{"sys__fs__cgroup__cpu__cpu.cfs_quota_us": "400000", "sys__fs__cgroup__cpu__cpu.cfs_period_us": "100000"},
    )
    assert usable_cores(tmp_path, affinity=64) == 4.0


@pytest.mark.parametrize(
    "files", [{"sys__fs__cgroup__cpu.max": "max 100000"}, {"sys__fs__cgroup__cpu__cpu.cfs_quota_us": "-1"}]
)
def test_without_a_quota_the_affinity_counts(tmp_path, files):
    put(tmp_path, **files)
    assert usable_cores(tmp_path, affinity=3) == 3.0


def test_the_memory_limit_is_the_smaller_of_machine_and_container(tmp_path):
    assert memory_limit(tmp_path, total=100) == 100
    put(tmp_path, **{"sys__fs__cgroup__memory.max": "40\n"})
    assert memory_limit(tmp_path, total=100) == 40
    put(tmp_path, **{"sys__fs__cgroup__memory.max": "max"})
    assert memory_limit(tmp_path, total=100) == 100
    put(tmp_path, **{"sys__fs__cgroup__memory__memory.limit_in_bytes": "9223372036854771712"})  # v1's way to say none
    assert memory_limit(tmp_path, total=100) == 100


def test_on_a_cluster_the_limits_of_the_jobs_own_group_count_and_of_those_above_it(tmp_path):
    put(
        tmp_path,
        **{
            "proc__self__cgroup": "0::/slurm/job_7/step_0\n",
            "sys__fs__cgroup__slurm__memory.max": "70",
            "sys__fs__cgroup__slurm__job_7__memory.max": "30",
            "sys__fs__cgroup__slurm__job_7__step_0__memory.max": "max",
            "sys__fs__cgroup__slurm__job_7__step_0__cpu.max": "400000 100000",
            "sys__fs__cgroup__slurm__cpu.max": "1600000 100000",
            "sys__fs__cgroup__slurm__job_8__memory.max": "1",  # another job
        },
    )
    assert memory_limit(tmp_path, total=100) == 30
    assert cpu_quota(tmp_path) == 4.0


def test_with_cgroup_v1_each_controller_has_a_tree_of_its_own(tmp_path):
    put(
        tmp_path,
        **{
            "proc__self__cgroup": "4:memory:/jobs/a\n3:cpu,cpuacct:/jobs/b\n1:name=systemd:/\n0::/\n",
            "sys__fs__cgroup__memory__jobs__a__memory.limit_in_bytes": "30",
            "sys__fs__cgroup__memory__jobs__b__memory.limit_in_bytes": "20",  # not ours
            "sys__fs__cgroup__cpu__jobs__b__cpu.cfs_quota_us": "50000",
            "sys__fs__cgroup__cpu__jobs__b__cpu.cfs_period_us": "100000",
        },
    )
    assert memory_limit(tmp_path, total=100) == 30
    assert cpu_quota(tmp_path) == 0.5


def test_a_group_of_the_host_that_is_not_mounted_here_leaves_the_mount(tmp_path):
    put(tmp_path, **{"proc__self__cgroup": "0::/../../docker/abc\n", "sys__fs__cgroup__memory.max": "40"})
    assert memory_limit(tmp_path, total=100) == 40


def test_bf16_of_a_processor_is_read_from_its_own_flags(tmp_path):
    assert not has_bf16(tmp_path)
    put(tmp_path, proc__cpuinfo="processor : 0\nflags\t\t: fpu avx512f avx512_bf16\n")
    assert has_bf16(tmp_path)
    put(tmp_path, proc__cpuinfo="flags : fpu amx_bf16 amx_tile\n")
    assert has_bf16(tmp_path)
    put(tmp_path, proc__cpuinfo="flags : fpu avx512f\n")
    assert not has_bf16(tmp_path)


def test_autodl_is_known_by_variable_or_file_or_folder_and_its_data_disk_is_found(tmp_path, monkeypatch):
    assert rental_platform(tmp_path) == ("generic", None)
    monkeypatch.setenv("AutoDLContainerUUID", "x")
    assert rental_platform(tmp_path) == ("autodl", None)
    monkeypatch.delenv("AutoDLContainerUUID")
    put(tmp_path, init__others__help="export AutoDL...")
    assert rental_platform(tmp_path) == ("autodl", None)
    (tmp_path / "root" / "autodl-tmp").mkdir(parents=True)
    assert rental_platform(tmp_path) == ("autodl", str(tmp_path / "root" / "autodl-tmp"))


def test_a_user_who_may_not_look_into_the_home_of_root_is_on_no_rental_platform(tmp_path, monkeypatch):
    """/root is closed on every ordinary machine; a closed folder must not end the run."""

    def closed(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "stat", closed)
    assert rental_platform(tmp_path) == ("generic", None)


class FakeNvml(types.SimpleNamespace):
    class NVMLError(Exception):
        pass

    def __init__(self, cards, driver=True):
        super().__init__(cards=cards, driver=driver, shut=False)

    def nvmlInit(self):  # noqa: N802
        if not self.driver:
            raise self.NVMLError("driver not loaded")

    def nvmlShutdown(self):  # noqa: N802
        self.shut = True

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.65"

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if "lost" in self.cards[index]:
            raise self.NVMLError("GPU is lost")
        return self.cards[index]

    def nvmlDeviceGetUUID(self, card):  # noqa: N802
        return card["uuid"]

    def nvmlDeviceGetName(self, card):  # noqa: N802
        return card["name"]

    def nvmlDeviceGetMemoryInfo(self, card):  # noqa: N802
        return types.SimpleNamespace(total=card["memory"])

    def nvmlDeviceGetCudaComputeCapability(self, card):  # noqa: N802
        if card["capability"] is None:
            raise self.NVMLError("not supported")
        return list(card["capability"])


CARD = {"name": b"NVIDIA A100", "memory": 85899345920, "capability": (8, 0), "uuid": "GPU-aa11"}


def test_cards_are_what_the_driver_shows_and_a_missing_reading_is_none():
    nvml = FakeNvml([CARD, CARD | {"capability": None}])
    assert gpus(nvml) == [
        Gpu(0, "NVIDIA A100", 85899345920, (8, 0), "580.65"),
        Gpu(1, "NVIDIA A100", 85899345920, None, "580.65"),
    ]
    assert nvml.shut


def test_a_card_that_the_driver_has_lost_does_not_hide_the_others():
    assert [card.index for card in gpus(FakeNvml([CARD | {"lost": True}, CARD]))] == [1]


@pytest.mark.parametrize(
    ("visible", "indexes"),
    [
        ("1", [1]),
        ("2,0", [2, 0]),
        ("0, 1", [0, 1]),
        ("", []),  # none, as one writes it to compute on the processor
        ("-1", []),
        ("0,-1,1", [0]),  # what stands after a card that is not there is not seen
        ("7", []),
        ("GPU-bb22", [1]),
        ("GPU-c", [2]),
        ("MIG-1234", [0, 1, 2]),
    ],
)
def test_only_the_cards_that_the_process_may_use_are_seen(monkeypatch, visible, indexes):
    cards = [CARD | {"uuid": uuid} for uuid in ("GPU-aa11", "GPU-bb22", "GPU-cc33")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [card.index for card in gpus(FakeNvml(cards))] == indexes
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert [card.index for card in gpus(FakeNvml(cards))] == [0, 1, 2]


def test_without_a_driver_there_are_no_cards():
    assert gpus(FakeNvml([], driver=False)) == []


def test_versions_are_those_installed_and_unknown_packages_are_left_out():
    found = versions()
    assert found["torch"].startswith("2.")
    assert "trainwright" in found


def test_what_is_recorded_holds_no_credential(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hf_secret@proxy")
    assert "hf_secret" not in repr(look())


def test_this_machine_can_be_looked_at():
    machine = look()
    assert machine.cores > 0
    assert machine.memory > 2**28


V2 = {"memory.max": "1000", "memory.current": "700", "memory.stat": "anon 400\ninactive_file 300"}
V1 = {
    "memory/memory.limit_in_bytes": "1000",
    "memory/memory.usage_in_bytes": "700",
    "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 300",  # the group's own, and with those below it
}


@pytest.mark.parametrize("files", [V2, V1], ids=["v2", "v1"])
def test_memory_that_can_be_had_is_what_the_limit_leaves_and_file_pages_come_back(tmp_path, files):
    """Limit 1000, in use 700, of which 300 are file pages: 600 are left."""
    put(tmp_path, **{f"sys__fs__cgroup__{name}": text for name, text in files.items()})
    assert memory_available(tmp_path, available=5000) == 600
    assert memory_available(tmp_path, available=500) == 500


def test_without_a_limit_the_machines_own_memory_can_be_had(tmp_path):
    assert memory_available(tmp_path, available=5000) == 5000
    put(tmp_path, **{"sys__fs__cgroup__memory.max": "max", "sys__fs__cgroup__memory.current": "700"})
    assert memory_available(tmp_path, available=5000) == 5000
