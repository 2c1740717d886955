import os
import resource
import shutil
from dataclasses import replace

import pytest

from trainwright.doctor.host import memory_needed, see_host
from trainwright.doctor.records import Asked, HostSeen
from trainwright.recipe.schema import Recipe

GIB = 2**30


def test_the_limit_of_open_files_is_the_real_one(facts_of, found):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        seen = see_host()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert seen.files == (200, before[1])
    check = found(replace(facts_of(), host=seen))["hardware.files"]
    assert (check.verdict, "200" in check.message) == ("warning", True)
    assert check.fix.command == f"ulimit -n {min(before[1], 65536)}"


def test_shared_memory_is_the_size_of_its_disk(tmp_path):
    seen = see_host(tmp_path)
    assert seen.shared_memory is None
    (tmp_path / "dev" / "shm").mkdir(parents=True)
    assert see_host(tmp_path).shared_memory == shutil.disk_usage(tmp_path).total
    assert see_host().memory > 2**20
    assert see_host().cores == os.cpu_count()


@pytest.mark.parametrize(("size", "verdict"), [(64 * 2**20, "warning"), (8 * GIB, None), (None, "not available")])
def test_the_shared_memory_of_a_plain_container_is_too_small(facts_of, found, size, verdict):
    check = found(replace(facts_of(), host=HostSeen(shared_memory=size))).get("hardware.shared-memory")
    assert (check.verdict if check else None) == verdict


def recipe(**run):
    return Recipe.model_validate({"name": "a", "model": "m", "data": {"train": "a.csv"}, "run": run})


def test_memory_for_a_bert_base_on_the_processor_is_counted_by_hand(tmp_path):
    """110 million parameters of 16 bytes are 1.76 GB, beside 2 GiB for the process itself."""
    bert = Asked(recipe(), tmp_path, parameters=110_000_000)
    assert memory_needed(bert, on_card=False) == 2 * GIB + 1_760_000_000
    assert memory_needed(bert, on_card=True) == 2 * GIB + 440_000_000
    on_processor = Asked(recipe(device="cpu"), tmp_path, parameters=110_000_000)
    assert memory_needed(on_processor, on_card=True) == 2 * GIB + 1_760_000_000
    assert memory_needed(None, on_card=True) == 2 * GIB


def test_too_little_memory_is_said_with_limit_and_need(facts_of, found):
    check = found(replace(facts_of("autodl-no-card"), host=HostSeen(memory=GIB)))["hardware.memory"]
    assert check.verdict == "warning"
    assert "1.0 GiB of 2.0 GiB" in check.message
    assert "hardware.memory" not in found(replace(facts_of(), host=HostSeen(memory=3 * GIB)))


def test_half_a_core_is_a_warning_and_a_share_of_a_big_machine_is_not(facts_of, found):
    assert found(facts_of("autodl-no-card"))["hardware.cores"].verdict == "warning"
    assert "hardware.cores" not in found(replace(facts_of("a100-80g"), host=HostSeen(cores=128)))
