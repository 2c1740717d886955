import pytest

from trainwright.machine.madeup import made_up
from trainwright.plan.speed import Speed, rate_of, remember, remembered, speeds_file, timed_product


def ran(rate, **changed):
    plain = {"device": "A100 80GB", "cards": 1, "precision": "bf16", "model": "bert 12x768", "flops_per_second": rate}
    return Speed(**(plain | changed))


def rate(past, model="bert 12x768", precision="bf16", machine="a100-80g", device="cuda"):
    return rate_of(made_up(machine), device, precision, model, past)


def test_without_a_past_a_card_reaches_a_share_of_its_rate_on_paper():
    choice = rate([])
    assert choice.value == pytest.approx(0.26 * 312e12)
    assert "26%" in choice.because
    assert "312" in choice.because
    # no tensor cores: fp16 runs at the rate of fp32, of which more is reached
    assert rate([], machine="gtx1070", precision="fp16").value == pytest.approx(0.55 * 6.5e12)


def test_what_past_runs_reached_counts_more_than_paper_and_the_same_model_most():
    past = [ran(50e12, model="other"), ran(90e12), ran(100e12), ran(140e12), ran(1e12, precision="fp32")]
    assert rate(past).value == 100e12
    assert "3" in rate(past).because
    assert rate(past, model="new").value == pytest.approx(95e12)  # the median of four
    assert rate([ran(800e12, cards=8)]).value == 100e12


def test_only_the_last_runs_count():
    past = [ran(1e12)] * 20 + [ran(70e12)] * 5
    assert rate(past).value == 70e12


def test_a_card_that_nobody_knows_has_no_rate():
    choice = rate([], machine="unknown-card")
    assert choice.value is None
    assert "NVIDIA Something" in choice.because
    assert rate([ran(5e12, device="NVIDIA Something")], machine="unknown-card").value == 5e12


def test_a_processor_is_timed():
    """Between a hundredth and a thousand times what a core does without vectors."""
    assert 1e9 < timed_product() < 1e13
    choice = rate([], machine="laptop-cpu", device="cpu", precision="fp32")
    assert choice.value > 0
    assert "GFLOP/s" in choice.because


def test_runs_are_remembered_in_the_users_state_folder_and_a_torn_line_is_skipped():
    assert remembered() == []
    remember(ran(1e12, memory_ratio=1.02))
    with open(speeds_file(), "a") as file:
        file.write('{"device": "A100\n{"device": 3, "later": 4}\n')
    remember(ran(2e12))
    assert remembered() == [ran(1e12, memory_ratio=1.02), ran(2e12)]
    assert ".local/state/trainwright" in str(speeds_file())
