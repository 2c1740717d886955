import pytest

from trainwright.errors import MachineError
from trainwright.machine.madeup import NAMES, made_up
from trainwright.machine.precision import choose_device, choose_precision

# machine -> (device, precision) by compute capability and processor flags
AUTO = {
    "laptop-cpu": ("cpu", "fp32"),
    "cpu-bf16": ("cpu", "bf16"),
    "gtx1070": ("cuda", "fp16"),
    "v100-16g": ("cuda", "fp16"),  # torch says that it has bf16; it emulates it
    "4090-24g": ("cuda", "bf16"),
    "4090-48g": ("cuda", "bf16"),
    "5090-32g": ("cuda", "bf16"),
    "a100-80g": ("cuda", "bf16"),
    "unknown-card": ("cuda", "fp32"),
    "autodl-a100": ("cuda", "bf16"),
    "autodl-no-card": ("cpu", "fp32"),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_automatic_choice_fits_the_hardware_and_says_why(name):
    machine = made_up(name)
    device = choose_device(machine, "auto")
    precision = choose_precision(machine, device.value, "auto")
    assert (device.value, precision.value) == AUTO[name]
    assert device.origin == precision.origin == "chosen"
    assert device.because
    assert precision.because


def test_fp16_without_a_card_is_refused_and_says_why_none_is_seen():
    with pytest.raises(MachineError, match=r"fp16.*cardless"):
        choose_precision(made_up("autodl-no-card"), "cpu", "fp16")


def test_a_reason_names_the_card_or_the_processor_and_its_capability():
    assert "V100" in choose_precision(made_up("v100-16g"), "cuda", "auto").because
    assert "8.9" in choose_precision(made_up("4090-24g"), "cuda", "auto").because
    assert made_up("cpu-bf16").processor in choose_precision(made_up("cpu-bf16"), "cpu", "auto").because


def test_bf16_on_a_v100_is_refused_since_it_is_emulated():
    with pytest.raises(MachineError, match=r"V100.*7\.0.*emulates"):
        choose_precision(made_up("v100-16g"), "cuda", "bf16")


def test_what_was_asked_for_is_kept_where_it_can_be():
    assert choose_precision(made_up("v100-16g"), "cuda", "fp32").value == "fp32"
    assert choose_device(made_up("a100-80g"), "cpu").value == "cpu"
    assert choose_precision(made_up("a100-80g"), "cpu", "bf16").value == "bf16"


def test_a_card_that_is_not_there_is_refused():
    with pytest.raises(MachineError, match="none is seen"):
        choose_device(made_up("laptop-cpu"), "cuda")
