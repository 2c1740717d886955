"""Readings of cards that are not here, through a stand-in for the driver's library."""

import os
import types
from dataclasses import replace

import pytest

from trainwright.doctor.cards import see_cards
from trainwright.doctor.records import Asked, CardSeen, CardsSeen, Holder
from trainwright.machine.madeup import made_up
from trainwright.recipe.schema import Recipe
from trainwright.records import Gpu

GIB = 2**30
GPUS = [Gpu(0, "NVIDIA A100", 80 * GIB, (8, 0), "550.54"), Gpu(2, "NVIDIA A100", 80 * GIB, (8, 0), "550.54")]


class FakeNvml:
    """Card 0 is hot, half connected and used by this process; card 2 tells next to nothing."""

    class NVMLError(Exception):
        pass

    def __init__(self, joined=None):
        self.joined = joined

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlShutdown(self):  # noqa: N802
        pass

    def __getattr__(self, name):
        answers = {
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 12040,
            "nvmlSystemGetDriverVersion": lambda: b"550.54",
            "nvmlDeviceGetMemoryInfo": lambda card: types.SimpleNamespace(total=80 * GIB, used=30 * GIB),
            "nvmlDeviceGetComputeRunningProcesses": lambda card: [
                types.SimpleNamespace(pid=os.getpid(), usedGpuMemory=29 * GIB),
                types.SimpleNamespace(pid=2**22 + 1, usedGpuMemory=None),
            ],
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda card: 0x01 | 0x20 | 0x40,
            "nvmlDeviceGetTemperature": lambda card, sensor: 91,
            "nvmlDeviceGetCurrPcieLinkWidth": lambda card: 8,
            "nvmlDeviceGetMaxPcieLinkWidth": lambda card: 16,
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda card: 4,
            "nvmlDeviceGetNvLinkState": lambda card, number: self.refuse() if number > 11 else int(number < 4),
            "nvmlDeviceGetP2PStatus": lambda one, other, what: 0 if self.joined == "NV" else 5,
            "nvmlDeviceGetTopologyCommonAncestor": lambda one, other: self.joined,
        }

        def answer(*arguments):
            silent = arguments[:1] == (2,) and name not in ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetP2PStatus")
            if silent or name not in answers:
                raise self.NVMLError("not supported")
            return answers[name](*arguments)

        return answer

    def refuse(self):
        raise self.NVMLError("no such link")


def test_readings_are_what_the_driver_tells_and_none_where_it_does_not():
    seen = see_cards(GPUS, FakeNvml())
    assert (seen.cuda, seen.driver) == ((12, 4), "550.54")
    first, second = seen.cards
    assert (first.used, first.temperature, first.width, first.generation) == (30 * GIB, 91, (8, 16), 4)
    assert first.slowed_by == ["heat"]  # idle (1) slows nothing, two bits say heat
    assert first.nvlinks == 4
    assert [(one.pid, one.memory) for one in first.holders] == [(os.getpid(), 29 * GIB), (2**22 + 1, None)]
    assert first.holders[0].name
    assert first.holders[1].name is None
    assert second == CardSeen(2, "NVIDIA A100")


@pytest.mark.parametrize(("joined", "said"), [("NV", "NV"), (10, "PIX"), (50, "SYS"), (None, "n/a")])
def test_how_two_cards_are_joined_is_said_in_the_words_of_nvidia_smi(joined, said):
    assert see_cards(GPUS, FakeNvml(joined)).links == [(0, 2, said)]


def test_without_a_driver_nothing_is_known():
    class Without(FakeNvml):
        def nvmlInit(self):  # noqa: N802
            raise self.NVMLError("driver not loaded")

    assert see_cards([], Without()) == CardsSeen()


# -- checks --------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_card(facts_of):
    def make(machine="a100-80g", links=(), **readings):
        facts = facts_of(machine)
        card = CardSeen(0, facts.machine.gpus[0].name, **readings)
        return replace(facts, cards=CardsSeen(cards=[card], driver="580.65", links=list(links)))

    return make


def test_memory_that_others_hold_is_told_with_the_process_and_nothing_is_ended(with_card, found):
    holders = [Holder(4711, "python", 29 * GIB), Holder(99, None, None)]
    check = found(with_card(memory=80 * GIB, used=30 * GIB, holders=holders))["hardware.card-memory"]
    assert check.verdict == "warning"
    assert "30.0 GiB of 80.0 GiB" in check.message
    assert "python 4711 (29.0 GiB)" in check.message
    assert check.fix.command == "kill 4711"  # 99 is of another container: its number means something else here
    assert not check.fix.safe


def test_what_a_driver_keeps_for_itself_is_nobodys(with_card, found):
    assert "hardware.card-memory" not in found(with_card(memory=80 * GIB, used=GIB // 2))


@pytest.mark.parametrize(("reasons", "verdict"), [(["heat"], "warning"), (["power-cap"], "note"), ([], None)])
def test_heat_is_a_warning_and_a_power_limit_worth_knowing(with_card, found, reasons, verdict):
    check = found(with_card(slowed_by=reasons, temperature=91)).get("hardware.slowed")
    assert (check.verdict if check else None) == verdict


def test_missing_lanes_are_told(with_card, found):
    assert "8 of its 16" in found(with_card(width=(8, 16)))["hardware.lanes"].message
    assert "hardware.lanes" not in found(with_card(width=(16, 16)))


@pytest.mark.parametrize(
    ("kind", "verdict"), [("NV", None), ("SYS", "note"), ("PIX", "note"), ("n/a", "not available")]
)
def test_links_between_cards(with_card, found, kind, verdict):
    check = found(with_card(links=[(0, 1, kind)])).get("hardware.links")
    assert (check.verdict if check else None) == verdict


def test_a_modified_card_shows_its_real_memory(facts_of, found):
    check = found(facts_of("4090-48g"))["hardware.cards"]
    assert (check.verdict, "48.0 GiB" in check.message, "24 GiB" in check.message) == ("note", True, True)
    assert "hardware.cards" not in found(facts_of("4090-24g"))


def test_readings_that_are_missing_are_said_to_be(with_card, found, facts_of):
    checks = found(with_card())
    assert {checks[name].verdict for name in ("hardware.card-memory", "hardware.slowed")} == {"not available"}
    assert found(facts_of("unknown-card"))["hardware.cards"].verdict == "not available"


def asked(tmp_path, **run):
    recipe = Recipe.model_validate({"name": "a", "model": "m", "data": {"train": "a.csv"}, "run": run})
    return Asked(recipe, tmp_path)


def test_a_missing_card_blocks_only_a_recipe_that_asks_for_it(facts_of, found, tmp_path):
    facts = facts_of("autodl-no-card")
    assert found(facts)["hardware.cards"].verdict == "note"
    assert "cardless" in found(facts)["hardware.cards"].message
    checks = found(replace(facts, asked=asked(tmp_path, device="cuda")))
    assert checks["hardware.cards"].verdict == checks["hardware.precision"].verdict == "blocker"


def test_half_precision_without_a_card_blocks_and_says_why_none_is_seen(facts_of, found, tmp_path):
    check = found(replace(facts_of("autodl-no-card"), asked=asked(tmp_path, precision="fp16")))["hardware.precision"]
    assert (check.verdict, "fp16" in check.message, "cardless" in check.message) == ("blocker", True, True)


def test_bf16_on_a_card_that_emulates_it_blocks(facts_of, found, tmp_path):
    facts = facts_of("v100-16g", seen={"cuda": "12.6", "architectures": ["sm_70"]})
    assert found(replace(facts, asked=asked(tmp_path, precision="bf16")))["hardware.precision"].verdict == "blocker"


def test_a_card_that_torch_cannot_use_only_warns_a_recipe_for_the_processor(facts_of, found, tmp_path):
    facts = facts_of("v100-16g")
    assert found(facts)["versions.torch-build"].verdict == "blocker"
    assert found(replace(facts, asked=asked(tmp_path, device="cpu")))["versions.torch-build"].verdict == "warning"


def test_made_up_machines_without_a_fault_have_no_blocker(facts_of, found):
    for name in ("laptop-cpu", "cpu-bf16", "4090-24g", "4090-48g", "5090-32g", "a100-80g", "autodl-a100"):
        assert [check for check in found(facts_of(name)).values() if check.verdict == "blocker"] == []
        assert made_up(name)
