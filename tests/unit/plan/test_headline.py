"""The example in docs/plan.md: its numbers follow from the catalogue and the count."""

import pytest

from trainwright.plan.cards import card_named
from trainwright.plan.shape import shape_of
from trainwright.plan.speed import CARD_SHARE

A100, OLD = card_named("a100-80g"), card_named("gtx1070")
GUIDE = 2 * 3600 * 32e12  # operations of two hours at 32 TFLOP/s


def test_the_guides_figure_is_a_tenth_of_the_cards_rate():
    reached = CARD_SHARE["plain"] * OLD.rate("fp32")
    assert reached == pytest.approx(3.6e12, rel=0.01)
    assert 8 * reached == pytest.approx(29e12, rel=0.02)
    assert 10 * reached == pytest.approx(36e12, rel=0.02)
    assert 0.09 < 8 * reached / A100.rate("bf16") < 10 * reached / A100.rate("bf16") < 0.12


def test_the_times_of_the_table_are_the_same_work_over_the_rates(repo):
    hours = GUIDE / (CARD_SHARE["plain"] * OLD.rate("fp32")) / 3600
    assumed, best = (GUIDE / (share * A100.rate("bf16")) / 60 for share in (CARD_SHARE["tensor"], 0.45))
    assert hours == pytest.approx(18, rel=0.02)
    page = (repo / "docs" / "plan.md").read_text()
    assert f"| 81 | {assumed:.0f} min |" in page
    assert f"| 140 | {best:.0f} min |" in page


def test_a_token_costs_half_a_billion_operations():
    config = {"model_type": "bert", "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
              "num_attention_heads": 12, "intermediate_size": 3072}  # fmt: skip
    assert shape_of(config, 2).training_flops([(128, 1)]) / 128 == pytest.approx(0.52e9, rel=0.02)
