"""Depths of parameters, written down by hand from the structure that each family's paper describes."""

import math

import pytest
import torch
import transformers

from trainwright.train import optimizer
from trainwright.train.optimizer import layer_depths, layer_groups

SMALL = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
DISTIL = {"vocab_size": 30, "dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 16}
# family -> (config, layers, {a parameter -> its depth})
FAMILIES = {
    "Bert": (
        SMALL,
        3,
        {
            "bert.embeddings.word_embeddings.weight": 0,
            "bert.embeddings.LayerNorm.bias": 0,
            "bert.encoder.layer.0.attention.self.query.weight": 1,
            "bert.encoder.layer.2.output.dense.weight": 3,
            "bert.pooler.dense.weight": 4,
            "classifier.weight": 4,
        },
    ),
    "Roberta": (
        SMALL,
        3,
        {
            "roberta.embeddings.word_embeddings.weight": 0,
            "roberta.encoder.layer.1.output.dense.bias": 2,
            "classifier.dense.weight": 4,
        },
    ),
    "DistilBert": (
        DISTIL,
        3,
        {
            "distilbert.embeddings.word_embeddings.weight": 0,
            "distilbert.transformer.layer.0.ffn.lin1.weight": 1,
            "distilbert.transformer.layer.2.ffn.lin1.weight": 3,
            "pre_classifier.weight": 4,
        },
    ),
    "Electra": (
        SMALL | {"embedding_size": 4},
        3,
        {
            "electra.embeddings.word_embeddings.weight": 0,
            "electra.embeddings_project.weight": 0,
            "electra.encoder.layer.2.attention.self.key.weight": 3,
            "classifier.dense.weight": 4,
        },
    ),
    "Albert": (
        SMALL | {"embedding_size": 4},
        1,  # all layers share one set of parameters
        {
            "albert.embeddings.word_embeddings.weight": 0,
            "albert.encoder.embedding_hidden_mapping_in.weight": 0,
            "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight": 1,
            "albert.pooler.weight": 2,
            "classifier.weight": 2,
        },
    ),
    "DebertaV2": (
        SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"},
        3,
        {
            "deberta.embeddings.word_embeddings.weight": 0,
            "deberta.encoder.rel_embeddings.weight": 0,
            "deberta.encoder.LayerNorm.weight": 0,
            "deberta.encoder.layer.0.attention.self.query_proj.weight": 1,
            "deberta.encoder.layer.2.output.dense.weight": 3,
            "pooler.dense.weight": 4,
            "classifier.weight": 4,
        },
    ),
    "ModernBert": (
        SMALL | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        3,
        {
            "model.embeddings.tok_embeddings.weight": 0,
            "model.layers.0.mlp.Wi.weight": 1,
            "model.layers.2.mlp.Wi.weight": 3,
            "model.final_norm.weight": 4,
            "head.dense.weight": 4,
            "classifier.weight": 4,
        },
    ),
}


@pytest.fixture(params=sorted(FAMILIES))
def family(request):
    config, layers, expected = FAMILIES[request.param]
    config = getattr(transformers, f"{request.param}Config")(**config)
    model = getattr(transformers, f"{request.param}ForSequenceClassification")(config)
    return model, layers, expected


def test_depths_are_those_of_the_family(family):
    model, layers, expected = family
    depths = layer_depths(model)
    assert set(depths) == {name for name, _parameter in model.named_parameters()}
    assert {name: depths[name] for name in expected} == expected
    assert set(depths.values()) == set(range(layers + 2))


def test_rates_fall_by_the_decay_from_the_head_to_the_embeddings_and_every_parameter_is_in_one_group(family):
    model, layers, _expected = family
    names = {name for name, _parameter in model.named_parameters() if name.endswith("weight") and "orm" not in name}
    groups = layer_groups(model, learning_rate=1.0, decay=0.5, weight_decay=0.01, decayed=names)
    rates = {group["name"]: group["lr"] for group in groups}
    expected = {"head": 1.0, "embeddings": 0.5 ** (layers + 1)}
    expected |= {f"layer {number}": 0.5 ** (layers + 1 - number) for number in range(1, layers + 1)}
    assert rates == expected
    placed = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(placed) == sorted(id(parameter) for parameter in model.parameters())
    by_name = dict(model.named_parameters())
    decayed = {id(p) for group in groups if group["weight_decay"] == 0.01 for p in group["params"]}
    assert decayed == {id(by_name[name]) for name in names}


def test_frozen_parameters_are_left_out():
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))
    model.bert.embeddings.requires_grad_(False)
    groups = layer_groups(model, 1.0, 0.5, 0.0, set())
    assert "embeddings" not in {group["name"] for group in groups}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("linear", 3e-3 * (20 - 10) / (20 - 4)),
        ("cosine", 3e-3 * 0.5 * (1 + math.cos(math.pi * (10 - 4) / (20 - 4)))),
        ("constant", 3e-3),
        ("reduce_lr_on_plateau", None),
    ],
)
def test_the_rate_after_ten_of_twenty_steps_with_four_of_warm_up(kind, expected):
    assert optimizer.rate_at(10, 20, 4, 3e-3, kind) == pytest.approx(expected)


def test_what_is_asked_takes_the_place_of_what_a_checkpoint_brought_along():
    def made(rate, decay, steps):
        inner = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=rate, weight_decay=decay)
        asked = optimizer.asked_options(inner)
        return inner, transformers.get_linear_schedule_with_warmup(inner, 0, steps), asked

    old, schedule, _asked = made(1.0, 0.1, 10)
    for _step in range(5):
        old.step()
        schedule.step()
    new, longer, asked = made(4.0, 0.3, 20)
    new.load_state_dict(old.state_dict())
    longer.load_state_dict(schedule.state_dict())
    assert new.param_groups[0]["lr"] == 0.5  # 1.0 x 5/10: the old recipe's
    optimizer.restate(new, longer, asked)
    assert (new.param_groups[0]["lr"], new.param_groups[0]["weight_decay"]) == (3.0, 0.3)  # 4.0 x 15/20
    new.step()
    longer.step()
    assert new.param_groups[0]["lr"] == pytest.approx(4.0 * 14 / 20)
