import pytest

from trainwright.machine.madeup import NAMES, made_up
from trainwright.records import Machine, from_plain, to_plain

PROMISED = {
    "laptop-cpu",
    "cpu-bf16",
    "v100-16g",
    "a100-80g",
    "4090-24g",
    "gtx1070",
    "autodl-a100",
    "autodl-no-card",
}


def test_every_promised_machine_is_there():
    assert set(NAMES) >= PROMISED


@pytest.mark.parametrize("name", NAMES)
def test_a_made_up_machine_survives_its_way_through_a_file(name):
    assert from_plain(Machine, to_plain(made_up(name))) == made_up(name)


def test_a_name_tells_the_cards_memory():
    assert made_up("a100-80g").gpus[0].memory == 80 * 2**30
    assert made_up("v100-16g").gpus[0].memory == 16 * 2**30
    assert made_up("autodl-no-card").gpus == []


def test_an_unknown_machine_is_an_error():
    with pytest.raises(KeyError):
        made_up("a-dream")
