"""Made-up machines: the verdicts follow NVIDIA's rules for binaries and PTX, worked out by hand."""

import pytest
from torch_choice import Build, Card, Decision, covers, decide, version_numbers

CU128 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
V100 = Card("Tesla V100-SXM2-32GB", (7, 0))
GTX_1070 = Card("NVIDIA GeForce GTX 1070", (6, 1))
RTX_4090 = Card("NVIDIA GeForce RTX 4090", (8, 9))
RTX_5090 = Card("NVIDIA GeForce RTX 5090", (12, 0))
K80 = Card("Tesla K80", (3, 7))


@pytest.mark.parametrize(
    ("architectures", "capability", "verdict"),
    [
        (["sm_86"], (8, 6), True),
        (["sm_86"], (8, 9), True),  # a binary runs on later minor versions of its major version
        (["sm_89"], (8, 6), False),
        (["sm_90"], (10, 0), False),
        (["sm_100"], (12, 0), False),
        (["sm_120"], (12, 1), True),
        (["compute_90"], (12, 0), True),  # PTX is compiled for any later card
        (["compute_90"], (8, 9), False),
        (["sm_90a"], (9, 0), True),
        (["sm_100a"], (10, 3), False),  # "a" is for that one capability
        (["gfx942"], (9, 4), False),
        ([], (8, 0), False),
    ],
)
def test_a_build_covers_a_card_by_the_rules_for_binaries_and_ptx(architectures, capability, verdict):
    assert covers(architectures, capability) is verdict


def test_a_torch_that_covers_the_card_is_reused():
    decision = decide(Build("2.8.0+cu128", "CUDA 12.8", CU128), [RTX_4090, RTX_5090])
    assert decision.reuse
    assert "2.8.0+cu128" in decision.because


def test_a_torch_is_reused_where_there_is_no_card():
    assert decide(Build("2.9.1+cpu", "the processor"), []).reuse


def test_without_a_torch_the_pinned_one_is_installed():
    assert decide(None, [RTX_4090]) == Decision(False, "This Python has no torch")
    assert not decide(None, []).refusal


def test_a_torch_below_the_floor_is_left_alone_and_the_pinned_one_installed():
    decision = decide(Build("2.5.1+cu124", "CUDA 12.4", ("sm_86",)), [RTX_4090])
    assert not decision.reuse
    assert not decision.refusal
    assert "2.5.1+cu124" in decision.because
    assert "2.6" in decision.because


def test_a_card_newer_than_the_build_is_refused_with_card_capability_coverage_and_choice():
    text = decide(Build("2.6.0+cu124", "CUDA 12.4", ("sm_80", "sm_86", "sm_90")), [RTX_4090, RTX_5090]).refusal
    for part in (
        "NVIDIA GeForce RTX 5090",
        "12.0",
        "2.6.0+cu124",
        "sm_80, sm_86, sm_90",
        "CUDA 12.8 or newer",
        "--fresh-torch",
    ):
        assert part in text
    assert "4090" not in text


@pytest.mark.parametrize("card", [V100, GTX_1070])
def test_a_card_older_than_the_build_is_sent_to_the_cu126_build(card):
    text = decide(Build("2.13.0+cu130", "CUDA 13.0", CU128), [card]).refusal
    assert card.name in text
    assert "cu126" in text
    assert "sm_75" in text
    assert decide(Build("2.13.0+cu126", "CUDA 12.6", CU126), [card]).reuse


def test_an_old_card_is_refused_before_the_pinned_build_is_downloaded_in_vain():
    text = decide(None, [V100]).refusal
    assert "7.0" in text
    assert "7.5" in text
    assert "cu126" in text


def test_a_card_that_no_build_covers_is_sent_to_the_processor():
    text = decide(None, [K80]).refusal
    assert "3.7" in text
    assert "CUDA_VISIBLE_DEVICES" in text
    assert "cu126" not in text


def test_a_build_for_the_processor_beside_a_card_is_refused():
    text = decide(Build("2.13.0+cpu", "the processor"), [RTX_4090]).refusal
    assert "the processor" in text
    assert "--fresh-torch" in text


def test_versions_are_compared_as_numbers():
    assert version_numbers("2.13.0+cu126") == (2, 13)
    assert version_numbers("2.13.0a0+git123") > version_numbers("2.6.0")
