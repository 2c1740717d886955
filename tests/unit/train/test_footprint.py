"""The hand count of memory beside what torch keeps when the real model runs on tensors without storage."""

import pytest
import torch
from transformers import AlbertConfig, BertConfig, DebertaV2Config, DistilBertConfig, ElectraConfig, RobertaConfig

from trainwright.plan.memory import Setting, memory_of
from trainwright.plan.shape import shape_of
from trainwright.train.footprint import trace

SIZES = {"vocab_size": 500, "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 1024}  # fmt: skip
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "bert without dropout": BertConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    "roberta": RobertaConfig(**SIZES),
    "electra": ElectraConfig(**SIZES, embedding_size=128),
    "albert": AlbertConfig(**SIZES, embedding_size=128),
    "distilbert": DistilBertConfig(vocab_size=500, dim=256, n_layers=3, n_heads=4, hidden_dim=1024),
}
ROWS = {"even": [128] * 8, "short": [32] * 32, "long": [400, 400, 380], "mixed": [100, 97, 95, 80, 78, 60, 33, 30]}


def counted(name, lengths, precision, **how):
    shape = shape_of(CONFIGS[name].to_dict(), 2)
    return memory_of(shape, lengths, Setting("cpu", precision, **how))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", CONFIGS)
def test_the_hand_count_is_what_torch_keeps(name, rows, precision):
    traced = trace(CONFIGS[name], ROWS[rows], precision)
    memory = counted(name, ROWS[rows], precision)
    assert memory.weights == memory.gradients == 4 * traced.parameters
    assert memory.activations + memory.copies == pytest.approx(traced.saved, rel=0.02)
    assert memory.activations + memory.copies + memory.workspace == pytest.approx(traced.peak, rel=0.05)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("recompute", [False, True])
def test_padded_rows_and_recomputation_are_counted_too(rows, precision, recompute):
    traced = trace(CONFIGS["bert"], ROWS[rows], precision, packed=False, recompute=recompute)
    memory = counted("bert", ROWS[rows], precision, packed=False, recompute=recompute)
    assert memory.activations + memory.copies + memory.workspace == pytest.approx(traced.peak, rel=0.06)


def test_the_gradient_of_a_large_vocabulary_is_the_highest_moment_of_a_small_step():
    """The embedding's gradient is as large as the embedding, though the step has 16 tokens."""
    config = BertConfig(**SIZES | {"vocab_size": 50_000})
    memory = memory_of(shape_of(config.to_dict(), 2), [16], Setting("cpu", "fp32"))
    traced = trace(config, [16], "fp32")
    assert traced.peak == pytest.approx(50_000 * 256 * 4, rel=0.02)
    assert memory.activations + memory.workspace == pytest.approx(traced.peak, rel=0.02)


def test_a_trace_takes_no_memory_and_sees_a_family_that_nobody_counted():
    """An input of 4000 tokens into a DeBERTa of the usual size: 12 squares of 4000 x 4000 in each layer."""
    config = DebertaV2Config(hidden_size=768, num_hidden_layers=2, num_attention_heads=12, intermediate_size=3072,
                             max_position_embeddings=4096)  # fmt: skip
    traced = trace(config, [4000], "fp32", packed=False)
    assert traced.saved > 2 * 12 * 4000 * 4000 * 4
    assert traced.parameters == sum(p.numel() for p in _on_meta(config).parameters())


def _on_meta(config):
    from transformers import AutoModelForSequenceClassification

    with torch.device("meta"):
        return AutoModelForSequenceClassification.from_config(config)
