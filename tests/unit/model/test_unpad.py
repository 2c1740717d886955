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


DECODERS = {
    "GPT2LMHeadModel": {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    **{
        f"{name}ForCausalLM": SMALL | {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": window}
        for name, window in (("Llama", None), ("Mistral", 6), ("Qwen2", None), ("Qwen3", None))
    },
}


def rows_of(count=9, seed=0):
    rng = random.Random(seed)
    lengths = sorted((rng.randrange(2, 40) for _ in range(count - 2)), reverse=True)
    return [
        {"input_ids": [rng.randrange(5, 50) for _ in range(length)], "labels": rng.randrange(3)}
        for length in [*lengths, 2, 2]
    ]


def with_token_labels(rows, share=0.3, classes=3):
    rng = random.Random(1)
    return [
        row | {"labels": [rng.randrange(classes) if rng.random() < share else -100 for _ in row["input_ids"]]}
        for row in rows
    ]


def padded(rows, pad):
    width = max(len(row["input_ids"]) for row in rows)
    if isinstance(rows[0]["labels"], list):
        rows = [row | {"labels": row["labels"] + [-100] * (width - len(row["labels"]))} for row in rows]
    return {
        "input_ids": torch.tensor([row["input_ids"] + [pad] * (width - len(row["input_ids"])) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(r["input_ids"]) + [0] * (width - len(r["input_ids"])) for r in rows]),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


def build(name, options):
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind(kind.config_class(**options)).double().train()


def assert_same_gradients(model, rows, atol=0.0):
    """Packed against padded: the loss, and every gradient beside the size of all of them."""
    expected = model(**padded(rows, model.config.pad_token_id or 0))
    expected.loss.backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    found = packed_outputs(model, rows)
    found.loss.backward()
    size = sum(float((gradient**2).sum()) for gradient in gradients.values()) ** 0.5
    assert abs(found.loss.item() - expected.loss.item()) <= max(1e-12, atol)
    for name, parameter in model.named_parameters():
        if name in gradients:
            assert float((parameter.grad - gradients[name]).norm()) <= max(1e-12, atol) * size, name


def packed_outputs(model, rows):
    unpadded = Unpadded(model)
    batch = unpadded.batch(rows)
    kept = batch.pop("kept")
    with unpadded.running(kept):
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


@pytest.mark.parametrize("head", ["ForTokenClassification", "ForMaskedLM"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_heads_for_tokens_see_the_labelled_ones_only_and_learn_the_same(family, head):
    model = build(f"{family}{head}", FAMILIES[family])
    classes = 3 if head == "ForTokenClassification" else 50
    assert_same_gradients(model, with_token_labels(rows_of(), classes=classes))
    rows = with_token_labels(rows_of(), classes=classes)
    labelled = sum(label != -100 for row in rows for label in row["labels"])
    assert packed_outputs(model, rows).logits.shape[:2] == (1, labelled)


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_decoders_predict_the_next_token_of_their_own_row_only(name):
    model = build(name, DECODERS[name])
    # transformers computes the loss of the next token in single precision, and the gradient with it
    assert_same_gradients(model, with_token_labels(rows_of(), share=0.8, classes=50), atol=1e-6)
    model.eval()
    rows = with_token_labels(rows_of())
    changed = [dict(row) for row in rows]
    changed[4] = changed[4] | {"input_ids": [(token + 7) % 45 + 5 for token in changed[4]["input_ids"]]}
    same = (packed_outputs(model, rows).logits == packed_outputs(model, changed).logits).all(dim=-1).squeeze(0)
    expected = [number != 4 for number, row in enumerate(rows) for _token in row["input_ids"]]
    assert same.tolist() == expected
    attended = padded(rows, 0)
    attended.pop("labels")
    logits = model(**attended).logits
    flat = torch.cat([logits[number, : len(row["input_ids"])] for number, row in enumerate(rows)])
    assert torch.allclose(packed_outputs(model, rows).logits[0], flat, rtol=0, atol=1e-12)


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
