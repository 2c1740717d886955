import types

import pytest

from trainwright.machine.look import (
    cpu_quota,
    gpus,
    has_bf16,
    look,
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
        return self.cards[index]

    def nvmlDeviceGetName(self, card):  # noqa: N802
        return card["name"]

    def nvmlDeviceGetMemoryInfo(self, card):  # noqa: N802
        return types.SimpleNamespace(total=card["memory"])

    def nvmlDeviceGetCudaComputeCapability(self, card):  # noqa: N802
        if card["capability"] is None:
            raise self.NVMLError("not supported")
        return list(card["capability"])


def test_cards_are_what_the_driver_shows_and_a_missing_reading_is_none():
    card = {"name": b"NVIDIA A100", "memory": 85899345920, "capability": (8, 0)}
    nvml = FakeNvml([card, card | {"capability": None}])
    assert gpus(nvml) == [
        Gpu(0, "NVIDIA A100", 85899345920, (8, 0), "580.65"),
        Gpu(1, "NVIDIA A100", 85899345920, None, "580.65"),
    ]
    assert nvml.shut


def test_without_a_driver_there_are_no_cards():
    assert gpus(FakeNvml([], driver=False)) == []


def test_versions_are_those_installed_and_unknown_packages_are_left_out():
    found = versions()
    assert found["torch"].startswith("2.")
    assert "trainwright" in found


def test_this_machine_can_be_looked_at():
    machine = look()
    assert machine.cores > 0
    assert machine.memory > 2**28
