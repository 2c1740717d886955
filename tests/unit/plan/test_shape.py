import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trainwright.plan.shape import shape_of

from .conftest import FAMILIES, LABELS, config_of, model_of


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_is_counted(family):
    config = config_of(family)
    with torch.device("meta"):
        model = model_of(config)
    shape = shape_of(config.to_dict(), LABELS)
    assert shape.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert shape.largest == max(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_operations_are_those_that_torch_counts(family):
    """Forward and backward of four rows of 24 tokens, every product counted by torch as it runs."""
    config = config_of(family)
    model = model_of(config)
    ids = torch.randint(3, 97, (4, 24))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=torch.zeros(4, dtype=torch.int64)).loss.backward()
    shape = shape_of(config.to_dict(), LABELS)
    # rotary angles are a product of one row and column, 0.1 % of these tiny layers
    assert shape.training_flops([(24, 4)]) == pytest.approx(counter.get_total_flops(), rel=2e-3)


# What model cards say, counted from the configurations that the hubs hold
PUBLISHED = {
    "bert-base-uncased": ({"model_type": "bert", "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512}, 109_483_778),
    "roberta-base": ({"model_type": "roberta", "vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 514,
        "type_vocab_size": 1}, 124_647_170),
    "distilbert-base-uncased": ({"model_type": "distilbert", "vocab_size": 30522, "dim": 768, "n_layers": 6,
        "n_heads": 12, "hidden_dim": 3072, "max_position_embeddings": 512}, 66_955_010),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_well_known_models_have_the_size_that_everybody_quotes(name):
    config, parameters = PUBLISHED[name]
    assert shape_of(config, 2).parameters == parameters


def test_a_training_token_of_bert_base_costs_half_a_gigaflop():
    """6 x 85 M + 12 x 12 layers x 768 x 128 tokens: the usual estimate, without embeddings and head."""
    shape = shape_of(PUBLISHED["bert-base-uncased"][0], 2)
    per_token = shape.training_flops([(128, 1)]) / 128
    assert per_token == pytest.approx(6 * 84.9e6 + 12 * 12 * 768 * 128, rel=0.01)
    assert shape.training_flops([(128, 1)], recompute=True) == pytest.approx(4 / 3 * shape.training_flops([(128, 1)]))


def test_attention_grows_with_the_square_of_a_rows_length():
    shape = shape_of(PUBLISHED["bert-base-uncased"][0], 2)
    one, two = shape.forward_flops([(512, 1)]), shape.forward_flops([(256, 2)])
    attention_of_512 = 12 * 2 * 2 * 512 * 512 * 768
    assert one - two == pytest.approx(attention_of_512 / 2 - 2 * (768 * 768 + 768 * 2))


def test_a_family_that_is_not_counted_here_says_so():
    assert shape_of({"model_type": "deberta-v2", "hidden_size": 768}, 2) is None


def test_an_old_config_without_later_keys_is_read(tmp_path):
    old = json.loads('{"model_type": "albert", "vocab_size": 30000, "hidden_size": 768, "embedding_size": 128,'
                     ' "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}')  # fmt: skip
    assert shape_of(old, 2).parameters == pytest.approx(11.7e6, rel=0.01)  # "12M" (Lan et al. 2020)
