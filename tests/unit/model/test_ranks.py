import torch

from trainwright.model.ranks import rank_of, rank_probabilities


def test_a_rank_is_the_number_of_ranks_that_a_row_is_above():
    logits = torch.tensor([[-1.0, -2.0], [1.0, -1.0], [3.0, 2.0]])
    assert rank_of(logits).tolist() == [0, 1, 2]


def test_probabilities_are_the_differences_of_those_of_being_above_and_add_up_to_one():
    above = torch.tensor([[0.9, 0.6, 0.1]])
    found = rank_probabilities(torch.logit(above))
    assert torch.allclose(found, torch.tensor([[0.1, 0.3, 0.5, 0.1]]), atol=1e-6)
    crossing = rank_probabilities(torch.tensor([[-2.0, 2.0]]))  # above the second, but not above the first
    assert (crossing >= 0).all()
    assert torch.allclose(crossing.sum(), torch.tensor(1.0))
