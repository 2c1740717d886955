"""Dropout masks drawn from 16 bits each."""

import math

import pytest
import torch

from trainwright.model.dropout import dropout, keep_mask, quick_dropout


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_as_many_elements_are_dropped_as_asked_for(probability):
    torch.manual_seed(0)
    count = 400_000
    keep, factor = keep_mask((count // 4, 4), probability)
    deviation = math.sqrt(probability * (1 - probability) / count)
    assert abs(1 - keep.double().mean() - probability) < 5 * deviation
    # each of the four that share a number, and pairs of them: independent
    by_lane = 1 - keep.double().mean(0)
    assert (by_lane - probability).abs().max() < 5 * 2 * deviation
    both = (~keep[:, 0] & ~keep[:, 1]).double().mean()
    assert abs(both - probability**2) < 5 * math.sqrt(probability**2 / (count // 4))
    assert factor == pytest.approx(1 / (1 - probability), rel=1e-4)


def test_shapes_that_four_does_not_divide_and_the_ends_of_the_scale():
    assert keep_mask((3, 5), 0.1)[0].shape == (3, 5)
    assert keep_mask((7,), 0.0)[0].all()
    assert not keep_mask((7,), 1.0)[0].any()
    assert torch.equal(dropout(torch.ones(9), 1.0), torch.zeros(9))


def test_values_and_gradient_are_those_of_the_mask():
    values = torch.randn(50, 30, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    keep, factor = keep_mask((50, 30), 0.3)
    torch.manual_seed(3)
    found = dropout(values, 0.3)
    assert torch.equal(found, values.detach() * keep * factor)
    upstream = torch.randn(50, 30, dtype=torch.float64)
    found.backward(upstream)
    assert torch.allclose(values.grad, upstream * keep * factor, rtol=1e-15)


def test_layers_of_a_model_use_it_while_training_and_are_as_before_afterwards():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
    inputs = torch.randn(4, 8)
    torch.manual_seed(1)
    before = model(inputs)
    with quick_dropout(model):
        torch.manual_seed(1)
        assert not torch.equal(model(inputs), before)
        model.eval()
        assert torch.equal(model(inputs), model[0](inputs))
        model.train()
    torch.manual_seed(1)
    assert torch.equal(model(inputs), before)
