"""Differences between ways of making the same steps, counted by hand, and the bounds that they are held to."""

import pytest
import torch

from trainwright.train.proof import Trial, compare, gradient_differences


def trial(gradient, weights=(1.0, 2.0), logits=(3.0, 4.0)):
    return Trial(
        gradients=[{"a": torch.tensor(gradient, dtype=torch.float64), "b": torch.ones(3, dtype=torch.float64)}],
        weights={"a": torch.tensor(weights, dtype=torch.float64)},
        logits=torch.tensor(logits, dtype=torch.float64),
        micro_batches=[4],
    )


def test_each_tensor_is_compared_with_its_own_size():
    expected = {"large": torch.tensor([3.0, 4.0]), "other": torch.tensor([1.0])}
    found = {"large": torch.tensor([3.0, 4.5]), "other": torch.tensor([1.0])}
    assert gradient_differences(expected, found) == [pytest.approx(0.1), 0.0]


def test_a_tensor_whose_gradient_is_nothing_but_rounding_is_compared_with_a_millionth_of_the_whole():
    expected = {"large": torch.tensor([1.0]), "zero": torch.tensor([1e-17], dtype=torch.float64)}
    found = {"large": torch.tensor([1.0]), "zero": torch.tensor([-1e-17], dtype=torch.float64)}
    assert gradient_differences(expected, found)[1] == pytest.approx(2e-17 / 1e-6)


@pytest.mark.parametrize(("change", "holds"), [(1e-12, True), (1e-9, False)])
def test_float64_is_held_to_one_in_ten_thousand_million(change, holds):
    found = compare(trial([3.0, 4.0]), trial([3.0, 4.0 + change]), torch.float64)
    assert found["holds"] is holds
    assert found["gradient_largest"] == pytest.approx(change / 5, rel=1e-3)
    assert compare(trial([3.0, 4.0]), trial([3.0, 4.0], weights=(1.0, 2.0 + change)), torch.float64)["holds"] is holds


def test_float32_is_held_by_its_median_tensor_and_its_predictions():
    moved = compare(trial([3.0, 4.0]), trial([3.0, 4.1], weights=(1.5, 2.0)), torch.float32)
    assert moved["gradient_median"] == pytest.approx(0.01)  # of 0.02 and 0
    assert not moved["holds"]
    assert moved["weights"] is None
    assert compare(trial([3.0, 4.0]), trial([3.0, 4.0], weights=(9.0, 2.0)), torch.float32)["holds"]
    assert not compare(trial([3.0, 4.0]), trial([3.0, 4.0], logits=(3.0, 4.01)), torch.float32)["holds"]
