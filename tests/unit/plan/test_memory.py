import pytest

from trainwright.plan.memory import CONTEXT, Setting, largest_micro_batch, memory_of
from trainwright.plan.shape import shape_of

BERT_BASE = {"model_type": "bert", "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
             "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512}  # fmt: skip
SHAPE = shape_of(BERT_BASE, 2)
PARAMETERS = 109_483_778


def test_weights_gradients_and_adams_two_moments_are_sixteen_bytes_a_parameter():
    memory = memory_of(SHAPE, [128] * 16, Setting("cpu", "fp32"))
    assert memory.weights + memory.gradients + memory.optimizer == 16 * PARAMETERS
    assert memory.total == sum(
        (16 * PARAMETERS, memory.copies, memory.activations, memory.workspace, memory.context, memory.slack)
    )
    assert memory_of(SHAPE, [128] * 16, Setting("cpu", "fp32", optimizer="sgd")).optimizer == 0
    assert memory_of(SHAPE, [128] * 16, Setting("cpu", "fp32", optimizer="adamw_bnb_8bit")).optimizer == 2 * PARAMETERS


def test_a_token_of_bert_base_keeps_what_was_counted_by_hand_in_half_precision_on_a_card():
    """Per layer and unit of h: query, key and value and the cast of their input for each, 12; attention's result, by
    row and side by side, 4; its dense layer's norm, input in fp32 and result cast, 6; the feed-forward part of 4 h
    before and after its function, 16; the last norm's input, 4; two masks, 2: 44 bytes. 48 for sums of heads, 16 for
    means and deviations. Independent of a row's length: fused attention keeps no pairs."""
    per_token = 12 * (44 * 768 + 48 + 16)
    for lengths in ([128] * 32, [512] * 8):
        memory = memory_of(SHAPE, lengths, Setting("cuda", "bf16"))
        assert memory.activations == pytest.approx(4096 * per_token, rel=0.015)
        assert memory.copies == 2 * (12 * 12 * 768**2 + 768**2 + 768 * 2)


def test_pairs_of_positions_are_kept_on_a_processor():
    """Softmax in fp32 and a mask: five bytes for each of 12 x 128 x 128 pairs of a row, in 12 layers."""
    with_pairs = memory_of(SHAPE, [128] * 8, Setting("cpu", "fp32")).activations
    without = memory_of(SHAPE, [8] * 128, Setting("cpu", "fp32")).activations
    pairs = 12 * 12 * (8 * 128**2 - 128 * 8**2)
    assert with_pairs - without == pytest.approx(5 * pairs, rel=0.02)


def test_recomputation_keeps_one_vector_a_token_and_layer():
    kept = memory_of(SHAPE, [128] * 16, Setting("cpu", "fp32", packed=False, recompute=True)).activations
    assert kept == pytest.approx(2048 * 4 * 768 * 13, rel=0.03)  # twelve layers' inputs and the embeddings' norm


def test_what_is_not_counted_is_none():
    assert memory_of(SHAPE, [8], Setting("cpu", "fp32", optimizer="galore_adamw")) is None
    assert memory_of(shape_of(BERT_BASE | {"hidden_act": "silu"}, 2), [8], Setting("cpu", "fp32")) is None
    llama = {"model_type": "llama", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 4, "intermediate_size": 48}  # fmt: skip
    assert memory_of(shape_of(llama, 2), [8], Setting("cpu", "fp32")) is None


def test_context_is_what_is_there_before_a_tensor():
    tiny = shape_of(BERT_BASE | {"vocab_size": 50, "hidden_size": 12, "intermediate_size": 12}, 2)
    assert memory_of(tiny, [4], Setting("cuda", "bf16")).total == pytest.approx(CONTEXT["cuda"], rel=0.01)


def test_the_largest_micro_batch_has_the_longest_rows():
    histogram = [[10, 100], [200, 2], [50, 3]]
    assert largest_micro_batch(histogram, 32, 450, packed=True) == [200, 200, 50]
    assert largest_micro_batch(histogram, 32, 450, packed=False) == [200, 200]  # a third row would be padded to 200
    assert largest_micro_batch(histogram, 2, 10_000, packed=True) == [200, 200]
    assert largest_micro_batch(histogram, 32, 20, packed=True) == [200]  # a row longer than the budget stands alone
