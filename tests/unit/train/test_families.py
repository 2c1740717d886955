"""Every family of the table in docs/models.md, measured again here and held to its claims."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from trainwright.model.build import Head, build_model
from trainwright.model.check import EMBEDDINGS, HEADS, weight_shapes

BENCH = Path(__file__).resolve().parents[3] / "bench"
spec = importlib.util.spec_from_file_location("families", BENCH / "families.py")
families = sys.modules["families"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(families)


@pytest.fixture(scope="module", params=sorted(families.FAMILIES))
def measured(request):
    return families.measure(request.param)


def test_the_gradient_of_a_cut_step_is_that_of_a_plain_loop(measured):
    assert measured["cut"] <= families.TOLERANCE
    assert measured["whole"] <= families.TOLERANCE


def test_the_longest_row_that_runs_is_the_one_that_is_allowed(measured):
    """Rows as long as the limit run in every family; one token more fails where there is a table of positions."""
    if measured["longest"] is None:
        assert measured["limit"] == families.PLACES
    else:
        assert measured["longest"] == measured["limit"]


def test_a_wrong_gradient_would_be_seen():
    hand = families.by_hand("Bert")
    wrong = [[gradient * (1 + 1e-9) for gradient in step] for step in hand]
    assert families.difference(hand, hand) == 0.0
    assert families.difference(wrong, hand) == pytest.approx(1e-9, rel=1e-3)


@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_head_and_embedding_are_found_by_their_names_in_the_weights(family, tmp_path, tiny_bert):
    model = families.make(family)
    model.save_pretrained(tmp_path)
    shapes = weight_shapes(tmp_path)
    assert next(shape for name, shape in shapes.items() if name.endswith(EMBEDDINGS))[0] == families.WORDS
    assert [shape[0] for name, shape in shapes.items() if name in HEADS] == [families.CLASSES]
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((tiny_bert / file).read_bytes())
    built = build_model(tmp_path, Head.of_classes(["a", "b"]), 0.0, 0)  # as a recipe's run builds it, with another head
    assert built.config.num_labels == 2
    assert built.config.pad_token_id is not None


def test_the_table_names_the_families_that_are_tested():
    results = json.loads((BENCH / "results" / "families.json").read_text())
    assert [one["family"] for one in results["families"]] == list(families.FAMILIES)
    assert all(max(one["cut"], one["whole"]) <= families.TOLERANCE for one in results["families"])
