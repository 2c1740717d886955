import pytest

from trainwright.plan.hindsight import compare, in_words, learned
from trainwright.records import Forecast, Plan

GIB = 2**30


def plan(**changed):
    plain = {
        "device": "A100 80GB", "cards": 1, "precision": "bf16", "tokens_per_micro_batch": 2048, "parameters": 100,
        "flops": 5e15, "memory": {"weights": GIB, "learned": GIB // 2}, "memory_total": 3 * GIB // 2,
        "memory_available": 80 * GIB, "fits": True, "ways": [], "seconds_total": 999.0, "cost": "9 CNY",
        "seconds": {"start": 9.0, "rehearsal": 99.0, "training": 70.0, "evaluation": 20.0, "saving": 10.0},
        "cost_per_epoch": None, "price": "36.00 CNY", "because": {},
    }  # fmt: skip
    return Plan(50, 50, 3, 10, 10, 1, "bf16", 2048, 4, "cuda", None, Forecast(**(plain | changed)))


RESULTS = {"steps": 50, "seconds": 80.0, "peak_memory": {"gpu": 2 * GIB, "resident": GIB}}
LOGS = [{"steps": 10, "step_seconds": 2.0}] * 5
SAVES = [{"bytes": 10**9, "took": 4.0}, {"bytes": 10**9, "took": 1.0}]


def test_predicted_and_measured_stand_side_by_side():
    memory, time, cost = compare(plan(), RESULTS)
    assert (memory.predicted, memory.measured, memory.error) == (3 * GIB // 2, 2 * GIB, -0.25)
    assert (time.predicted, time.measured, time.error) == (100.0, 80.0, 0.25)  # training, evaluation and saving
    assert (cost.predicted, cost.measured) == pytest.approx((1.0, 0.8))  # 36 CNY an hour is 1 CNY in 100 s
    words = in_words([memory, time, cost])
    assert words[0][1:] == ("1.5 GiB", "2.0 GiB", "-25%")
    assert words[2][1:] == ("1.00 CNY", "0.80 CNY", "+25%")


def test_half_a_run_is_compared_with_half_of_the_prediction():
    assert compare(plan(), RESULTS | {"steps": 25})[1].predicted == 50.0


def test_what_is_not_known_is_compared_with_nothing():
    for taken, results, resumed in (
        (plan(price=None, memory_total=None), {"steps": 50}, False),
        (plan(price=None, memory_total=None), RESULTS, True),
    ):
        rows = compare(taken, results, resumed)
        assert [one.error for one in rows] == [None, None, None]
    old = Plan(50, 50, 3, 10, 10, 1, "bf16", 2048, 4, "cuda", None)
    assert compare(old, RESULTS) == []


def test_a_run_teaches_its_speed_its_memory_and_how_fast_it_saves():
    """5e15 operations in 100 s of steps; 2 GiB over the 1 GiB that was counted without what was learned before."""
    speed = learned(plan(), "bert 12x768", RESULTS, LOGS, SAVES)
    assert speed.flops_per_second == pytest.approx(5e13)
    assert speed.memory_ratio == pytest.approx(2.0)
    assert speed.save_bytes_per_second == pytest.approx(4e8)
    half = learned(plan(), "bert 12x768", RESULTS, LOGS[:2], SAVES)
    assert half.flops_per_second == pytest.approx(5e13)


def test_a_run_of_a_few_steps_or_without_a_count_teaches_nothing():
    assert learned(plan(), "m", RESULTS, [{"steps": 2, "step_seconds": 1.0}], []) is None
    assert learned(plan(flops=None), "m", RESULTS, LOGS, []) is None
