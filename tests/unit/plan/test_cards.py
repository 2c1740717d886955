import pytest

from trainwright.errors import MachineError
from trainwright.machine.madeup import made_up
from trainwright.machine.precision import choose_precision
from trainwright.plan.cards import all_cards, card_named, card_of, machine_with
from trainwright.records import Gpu

GIB = 2**30


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("a100-80g", "A100 80GB"),
        ("A100 80GB", "A100 80GB"),
        ("a100", "A100 80GB"),
        ("4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("rtx-4090d", "RTX 4090 D"),
        ("v100", "V100 SXM2 32GB"),
        ("v100-16g", "V100 SXM2 16GB"),
        ("h20", "H20"),
        ("gtx1070", "GTX 1070"),
        ("A6000", "RTX A6000"),
    ],
)
def test_a_card_is_found_however_it_is_spelled(spelled, name):
    assert card_named(spelled).name == name


@pytest.mark.parametrize(
    ("driver", "memory", "name"),
    [
        ("NVIDIA GeForce RTX 4090", 24, "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 D", 24, "RTX 4090 D"),
        ("NVIDIA A100-SXM4-80GB", 80, "A100 80GB"),
        ("NVIDIA A100-PCIE-40GB", 40, "A100 40GB"),
        ("Tesla V100-PCIE-16GB", 16, "V100 PCIe 16GB"),
        ("Tesla V100-SXM2-32GB", 32, "V100 SXM2 32GB"),
        ("NVIDIA H100 80GB HBM3", 80, "H100 SXM"),
        ("NVIDIA H100 PCIe", 80, "H100 PCIe"),
        ("NVIDIA GeForce GTX 1070", 8, "GTX 1070"),
        ("NVIDIA A10", 24, "A10"),
        ("NVIDIA L40S", 48, "L40S"),
        ("Tesla T4", 15, "T4"),
    ],
)
def test_a_card_that_is_here_is_known_by_the_name_of_its_driver(driver, memory, name):
    found = card_of(Gpu(0, driver, memory * GIB, None, None))
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("driver", ["NVIDIA A100X", "NVIDIA GeForce GTX 1070 Ti", "NVIDIA Something", "NVIDIA A16"])
def test_a_card_that_is_not_in_the_catalogue_is_not_taken_for_another(driver):
    assert card_of(Gpu(0, driver, 16 * GIB, None, None)) is None


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(MachineError, match=r"a100-90g.*a100"):
        card_named("a100-90g")


def test_no_two_cards_share_a_name_and_every_figure_is_of_the_right_size():
    names = [name for card in all_cards() for name in {card.name.lower(), *card.aliases}]
    assert len(names) == len(set(names))
    for card in all_cards():
        assert 8 * GIB <= card.memory <= 141 * GIB
        assert 6e12 < card.rates["fp32"] < 110e12
        assert 2e11 < card.bandwidth < 5e12
        assert card.rate("fp16") >= card.rates["fp32"]
        assert ("bf16" in card.rates) == (card.capability >= (8, 0))  # NVIDIA brought it with Ampere
        # what is read from memory once should be used a few times at least: no rate is a thousand times off
        assert 10 < card.rate("fp16") / card.bandwidth < 500
        assert card.source
        assert card_of(Gpu(0, card.name, card.memory, None, None)) == card
        assert card.confidence in ("read", "derived", "from memory")


def test_precision_follows_from_the_card_that_is_planned_for():
    here = made_up("laptop-cpu")
    for name, precision in (("4090", "bf16"), ("v100", "fp16"), ("t4", "fp16"), ("h20", "bf16")):
        machine = machine_with(here, card_named(name), 2)
        assert choose_precision(machine, "cuda", "auto").value == precision
        assert len(machine.gpus) == 2
    assert here.gpus == []


def test_a_precision_without_units_of_its_own_runs_at_the_rate_of_fp32():
    assert card_named("gtx1070").rate("fp16") == card_named("gtx1070").rate("fp32") == 6.5e12
    assert card_named("a100").rate("bf16") == 312e12
