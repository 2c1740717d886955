"""Packed rows against padded ones, in float64, for every family that claims to be exact."""

import random

import pytest
import torch
import transformers

from trainwright.model.unpad import LAST_LAYER_OUTPUT, CannotUnpad, Unpadded

SMALL = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 64, "num_labels": 3, "pad_token_id": 0,
}  # fmt: skip
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
FAMILIES = {
    "Bert": SMALL | NO_DROPOUT,
    "Roberta": SMALL | NO_DROPOUT | {"pad_token_id": 1},
    "XLMRoberta": SMALL | NO_DROPOUT | {"pad_token_id": 1},
    "Camembert": SMALL | NO_DROPOUT | {"pad_token_id": 1},
    "Electra": SMALL | NO_DROPOUT | {"embedding_size": 8},
    "Albert": SMALL | {"embedding_size": 8, "classifier_dropout_prob": 0.0} | NO_DROPOUT,
    "DistilBert": {
        **{"vocab_size": 50, "dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32},
        **{"max_position_embeddings": 64, "num_labels": 3, "pad_token_id": 0},
        **{"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
    },
    "ModernBert": SMALL
    | {"attention_dropout": 0.0, "local_attention": 8, "global_attn_every_n_layers": 3}
    | {"cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
}


def rows_of(count=9, seed=0):
    rng = random.Random(seed)
    lengths = sorted((rng.randrange(2, 40) for _ in range(count - 2)), reverse=True)
    return [
        {"input_ids": [rng.randrange(5, 50) for _ in range(length)], "labels": rng.randrange(3)}
        for length in [*lengths, 2, 2]
    ]


def padded(rows, pad):
    width = max(len(row["input_ids"]) for row in rows)
    return {
        "input_ids": torch.tensor([row["input_ids"] + [pad] * (width - len(row["input_ids"])) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(r["input_ids"]) + [0] * (width - len(r["input_ids"])) for r in rows]),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


def packed_outputs(model, rows):
    unpadded = Unpadded(model)
    batch = unpadded.batch(rows)
    starts = batch.pop("row_starts")
    with unpadded.running(starts):
        return model(**batch)


@pytest.fixture(params=sorted(FAMILIES))
def model(request):
    torch.manual_seed(0)
    config = getattr(transformers, f"{request.param}Config")(**FAMILIES[request.param])
    return getattr(transformers, f"{request.param}ForSequenceClassification")(config).double().train()


def test_every_family_that_claims_to_be_exact_is_tested(model):
    kinds = {getattr(transformers, f"{name}Config")().model_type for name in FAMILIES}
    assert kinds == set(LAST_LAYER_OUTPUT)


def test_logits_loss_and_gradients_of_packed_rows_are_those_of_padded_ones(model):
    rows = rows_of()
    expected = model(**padded(rows, model.config.pad_token_id))
    expected.loss.backward()
    gradients = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    model.zero_grad()
    found = packed_outputs(model, rows)
    found.loss.backward()
    assert torch.allclose(found.logits, expected.logits, rtol=0, atol=1e-13)
    size = sum(float((gradient**2).sum()) for gradient in gradients.values()) ** 0.5
    for name, parameter in model.named_parameters():
        if name in gradients:
            assert float((parameter.grad - gradients[name]).norm()) <= 1e-12 * size, name


def test_a_changed_row_moves_no_other_row_by_a_bit(model):
    model.eval()
    rows = rows_of()
    changed = [dict(row) for row in rows]
    changed[4] = changed[4] | {"input_ids": [(token + 7) % 45 + 5 for token in changed[4]["input_ids"]]}
    before, after = packed_outputs(model, rows).logits, packed_outputs(model, changed).logits
    same = (before == after).all(dim=-1)
    assert same.tolist() == [row != 4 for row in range(len(rows))]


def test_outside_a_packed_batch_the_model_is_as_it_was(model):
    rows = rows_of()
    batch = padded(rows, model.config.pad_token_id)
    before = model(**batch).logits
    packed_outputs(model, rows)
    assert torch.equal(model(**batch).logits, before)
    assert model.config._attn_implementation == "sdpa"


def test_deberta_and_mean_pooling_are_refused_with_the_reason():
    deberta = transformers.DebertaV2ForSequenceClassification(transformers.DebertaV2Config(**SMALL))
    with pytest.raises(CannotUnpad, match="deberta-v2"):
        Unpadded(deberta)
    config = transformers.ModernBertConfig(**FAMILIES["ModernBert"], classifier_pooling="mean")
    with pytest.raises(CannotUnpad, match="mean"):
        Unpadded(transformers.ModernBertForSequenceClassification(config))


def test_attention_dropout_is_kept(model):
    model.train()
    for module in model.modules():  # whatever the family calls it
        for name in ("attention_dropout", "dropout"):
            value = getattr(module, name, None)
            if isinstance(value, float):
                setattr(module, name, 0.5)
            elif isinstance(value, torch.nn.Dropout) and "ttention" in type(module).__name__:
                value.p = 0.5
    torch.manual_seed(1)
    one = packed_outputs(model, rows_of()).logits
    torch.manual_seed(2)
    assert not torch.equal(one, packed_outputs(model, rows_of()).logits)
