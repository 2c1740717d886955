"""BERT-base on 10,000 rows of 128 tokens in steps of 32: every figure is worked out by hand beside it."""

import dataclasses
import math

import pytest

from trainwright.machine.madeup import made_up
from trainwright.plan.cards import card_named, machine_with
from trainwright.plan.choose import make_plan
from trainwright.plan.cost import Prices
from trainwright.plan.forecast import Place, forecast
from trainwright.plan.padding import padding_of
from trainwright.plan.shape import shape_of
from trainwright.plan.speed import Speed
from trainwright.recipe.load import load_recipe, recipe_from_values
from trainwright.records import Choice, Prepared, Split
from trainwright.units import parse_money

GIB = 2**30
BERT_BASE = {"model_type": "bert", "vocab_size": 21128, "hidden_size": 768, "num_hidden_layers": 12,
             "num_attention_heads": 12, "intermediate_size": 3072}  # fmt: skip
ROW = 2 * 128 * 12 * (12 * 768**2 + 2 * 128 * 768)  # operations of a forward pass through the layers
PACKED = Choice("packed", "chosen", "exact")


def prepared(length=128, rows=10_000):
    return Prepared(
        folder="c", key="k", cached=True, because="", labels=["a", "b"], max_length=length, prefix=[1], suffix=[2],
        splits={"train": Split("train", rows, rows * length, "a", "a"), "validation": Split("validation", 1000,
                1000 * length, "b", "b")},
        pad_id=0, lengths={"train": [[length, rows]], "validation": [[length, 1000]]}, label_rows={},
    )  # fmt: skip


@pytest.fixture
def planned(tmp_path):
    """Makes a plan with its forecast."""

    def make(*sets, machine="a100-80g", past=(), place=None, length=128, config=BERT_BASE):
        path = tmp_path / "recipe.yaml"
        path.write_text("model: x\ndata: {train: a.csv}\nlearn: {num_train_epochs: 2, eval_steps: 100}\n")
        machine = made_up(machine) if isinstance(machine, str) else machine
        shape, data = shape_of(config, 2), prepared(length)
        plan, values = make_plan(load_recipe(path, sets).values, data, machine, PACKED, shape)
        recipe = recipe_from_values(values)
        return plan, forecast(recipe, plan, data, machine, shape, recipe.run.batches == "packed", past, place)

    return make


def ran(rate, **changed):
    plain = {"device": "A100 80GB", "cards": 1, "precision": "bf16", "model": "bert 12x768", "flops_per_second": rate}
    return Speed(**(plain | changed))


def test_training_takes_its_operations_over_the_rate(planned):
    plan, taken = planned(past=[ran(100e12)])
    assert plan.steps == 626  # 313 an epoch, the last of them short
    assert taken.flops == pytest.approx(626 * 32 * 3 * ROW, rel=0.001)
    assert taken.seconds["training"] == pytest.approx(626 * 32 * 3 * ROW / 100e12, rel=0.001)
    assert taken.seconds["evaluation"] == pytest.approx(7 * 1000 * ROW / 100e12, rel=0.001)  # at 100, ... 600, the end
    assert taken.seconds_total == pytest.approx(math.fsum(taken.seconds.values()))


def test_saving_writes_weights_and_two_moments_each_time_and_the_model_at_the_end(planned):
    plan, taken = planned(past=[ran(1e12, save_bytes_per_second=1e8, startup_seconds=7.0)])
    weights = 4 * taken.parameters
    assert plan.save_steps == 100
    assert taken.seconds["saving"] == pytest.approx((7 * 3 + 1) * weights / 1e8)
    assert taken.seconds["start"] == 7.0


def test_cost_is_the_price_times_the_hours(planned):
    place = Place(price="36 CNY/h")
    taken = planned(past=[ran(100e12)], place=place)[1]
    assert taken.cost == f"{taken.seconds_total / 100:.2f} CNY"  # 36 CNY an hour is 1 CNY in 100 s
    assert taken.cost_per_epoch == f"{taken.seconds['training'] / 2 / 100:.2f} CNY"
    assert planned()[1].cost is None
    assert planned("run.price_per_hour=3 CNY")[1].price == "3.00 CNY"


def test_eight_cards_are_quicker_and_each_is_paid_for(planned):
    machine = machine_with(made_up("laptop-cpu"), card_named("a100-80g"), 8)
    place = Place(elsewhere=True, prices=Prices({"A100 80GB": parse_money("5 CNY")}, {}))
    one, eight = planned(past=[ran(1e12)])[1], planned(machine=machine, past=[ran(1e12)], place=place)[1]
    assert one.seconds["training"] / eight.seconds["training"] == pytest.approx(8 * 0.95)
    assert eight.price == "40.00 CNY"
    assert (one.cards, eight.cards) == (1, 8)


def test_elsewhere_the_data_is_prepared_and_the_model_fetched_anew(planned):
    there = planned(machine=machine_with(made_up("laptop-cpu"), card_named("4090"), 1), place=Place(True))[1]
    assert there.seconds["preparing"] == pytest.approx(11_000 * 128 / (4 * 0.3e6))
    assert there.seconds["download"] == pytest.approx(4 * there.parameters / 10e6)
    assert planned()[1].seconds["preparing"] == planned()[1].seconds["download"] == 0


def test_a_card_that_is_too_small_is_cut_finer_until_it_fits(planned):
    roomy, tight = planned("learn.batch_size=512")[0], planned("learn.batch_size=512", machine="gtx1070")
    assert roomy.tokens_per_micro_batch == 16_384
    assert tight[0].tokens_per_micro_batch < 16_384
    assert tight[1].fits
    assert tight[1].memory_total <= 0.95 * 8 * GIB


def test_what_the_user_asked_for_stays_and_the_forecast_says_that_it_does_not_fit_and_what_would(planned):
    plan, taken = planned("run.tokens_per_micro_batch=65536", "learn.batch_size=512", machine="gtx1070")
    assert plan.tokens_per_micro_batch == 65_536
    assert taken.fits is False
    assert len(taken.ways) == 1  # the finest cut is enough
    assert "128" in taken.ways[0]
    assert "fits" in taken.ways[0]


def test_where_no_cut_helps_the_other_ways_come_in_order_of_cost(planned):
    huge = BERT_BASE | {"num_hidden_layers": 96, "hidden_size": 1536, "intermediate_size": 6144}
    taken = planned(machine="gtx1070", config=huge)[1]
    words = ["finest cut", "recomputation", "8 bits", "LoRA", "sharded", "larger card"]
    assert taken.fits is False
    assert [word for word, way in zip(words, taken.ways, strict=True) if word in way] == words


def test_what_past_runs_took_corrects_the_memory(planned):
    plain, corrected = planned()[1], planned(past=[ran(1e12, memory_ratio=1.1)])[1]
    assert corrected.memory_total == pytest.approx(1.1 * plain.memory_total, rel=1e-6)
    assert sum(corrected.memory.values()) == corrected.memory_total


def test_a_family_that_is_not_counted_has_no_numbers_made_up(planned):
    taken = planned(config={"model_type": "deberta-v2"})[1]
    assert (taken.memory, taken.memory_total, taken.fits, taken.flops) == (None, None, None, None)
    assert taken.seconds["training"] is taken.seconds_total is taken.cost is None
    assert "rehearsal" in taken.because["memory"]


def test_recomputation_costs_a_third_more_and_is_padded(planned):
    plan, taken = planned("trainer.gradient_checkpointing=true", past=[ran(1e12)])
    plain = planned(past=[ran(1e12)])[1]
    assert taken.flops == pytest.approx(4 / 3 * plain.flops)
    assert taken.memory["activations"] < plain.memory["activations"] / 5
    assert plan.forecast is None


def test_padding_is_that_of_random_steps_cut_as_training_cuts_them():
    assert padding_of([(64, 100)], 32, 2048) == 1.0
    # one micro-batch of all rows, padded to 100, half of them having 50: 100 / 75, but for the draw
    assert padding_of([(50, 1), (100, 1)], 64, 10**6) == pytest.approx(100 / 75, rel=0.03)
    assert padding_of([(50, 1), (100, 1)], 64, 100) == 1.0  # single rows


def test_a_plan_with_its_forecast_is_read_back(planned, tmp_path):
    from trainwright.runs.folder import RunFolder

    plan, taken = planned()
    RunFolder(tmp_path).write_plan(dataclasses.replace(plan, forecast=taken))
    assert RunFolder(tmp_path).plan().forecast == taken
