"""Attention of packed rows against one row at a time, in float64."""

import pytest
import torch

from trainwright.model import row_attention
from trainwright.model.dropout import keep_mask
from trainwright.model.row_attention import RowAttention, layout_of

LENGTHS = (17, 17, 16, 15, 9, 5, 5, 1)
HEADS, SIZE = 3, 4


def states(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (sum(LENGTHS), HEADS, SIZE)
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def one_row_at_a_time(query, key, value, causal, window):
    parts = []
    for q, k, v in zip(*(tensor.split(LENGTHS) for tensor in (query, key, value)), strict=True):
        scores = torch.einsum("qhd,khd->hqk", q, k) * SIZE**-0.5
        for i in range(len(q)):
            for j in range(len(q)):
                if (causal and j > i) or (window is not None and abs(i - j) >= window):
                    scores[:, i, j] = -torch.inf
        parts.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))
    return torch.cat(parts)


@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (False, 4), (True, 3)])
def test_values_and_gradients_are_those_of_single_rows(causal, window):
    inputs, upstream = states(), torch.randn(sum(LENGTHS), HEADS, SIZE, dtype=torch.float64)
    expected = one_row_at_a_time(*inputs, causal, window)
    gradients = torch.autograd.grad(expected, inputs, upstream)
    found = RowAttention.apply(*inputs, layout_of(LENGTHS, HEADS), SIZE**-0.5, 0.0, causal, window)
    assert torch.allclose(found, expected, rtol=0, atol=1e-14)
    for mine, theirs in zip(torch.autograd.grad(found, inputs, upstream), gradients, strict=True):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-13)


def test_rows_of_like_length_share_a_block():
    layout = layout_of(LENGTHS, HEADS)
    assert [(block.rows, block.width) for block in layout.blocks] == [(4, 17), (1, 9), (2, 5), (1, 1)]


def test_the_gradient_of_dropout_is_that_of_its_mask():
    def attention(*inputs):
        torch.manual_seed(5)
        return RowAttention.apply(*inputs, layout_of(LENGTHS, HEADS), SIZE**-0.5, 0.4, False, None)

    assert torch.autograd.gradcheck(attention, states())


def test_dropout_falls_on_the_weights_after_the_softmax(monkeypatch):
    kept = []
    monkeypatch.setattr(row_attention, "keep_mask", lambda *asked: kept.append(keep_mask(*asked)) or kept[-1])
    query, key, value = states()
    found = RowAttention.apply(query, key, value, layout_of(LENGTHS, HEADS), SIZE**-0.5, 0.4, False, None)
    mask, factor = kept[0]
    row = slice(sum(LENGTHS[:4]), sum(LENGTHS[:5]))  # the row of 9 tokens, alone in its block
    first = 4 * HEADS * 17 * 17
    own = mask[first : first + HEADS * 81].view(HEADS, 9, 9)
    weights = (torch.einsum("qhd,khd->hqk", query[row], key[row]) * SIZE**-0.5).softmax(-1) * own * factor
    assert torch.allclose(found[row], torch.einsum("hqk,khd->qhd", weights, value[row]), rtol=0, atol=1e-14)


@pytest.fixture
def flash_attn(monkeypatch):
    """A flash_attn that computes by the definition, in place of the kernel that needs a card."""
    import importlib.machinery
    import sys
    import types

    def varlen(q, k, v, bounds_q, bounds_k, longest_q, longest_k, *, dropout_p, softmax_scale, causal, window_size):
        assert torch.equal(bounds_q, bounds_k)
        assert bounds_q.dtype == torch.int32
        assert longest_q == longest_k == max(LENGTHS)
        assert softmax_scale == SIZE**-0.5
        calls.append(dropout_p)
        assert tuple((bounds_q[1:] - bounds_q[:-1]).tolist()) == LENGTHS
        return one_row_at_a_time(q, k, v, causal, None if window_size == (-1, -1) else window_size[0] + 1)

    calls = []
    module = types.ModuleType("flash_attn")
    module.flash_attn_varlen_func = varlen
    module.__spec__ = importlib.machinery.ModuleSpec("flash_attn", None)
    monkeypatch.setitem(sys.modules, "flash_attn", module)
    return calls


@pytest.mark.parametrize(("causal", "window"), [(False, None), (False, 4), (True, 3)])
def test_flash_attention_is_told_boundaries_dropout_and_window(flash_attn, causal, window):
    from trainwright.model.attention import flash_kernel

    inputs = states()
    packed = [tensor.transpose(0, 1).unsqueeze(0) for tensor in inputs]
    kernel = flash_kernel(torch.bfloat16, 0.1)
    found = kernel(*packed, LENGTHS, 0.1, SIZE**-0.5, causal, window)
    assert torch.equal(found[0], one_row_at_a_time(*inputs, causal, window))
    assert flash_attn == [0.1]


def test_a_kernel_without_dropout_is_never_chosen_where_dropout_is_asked_for(monkeypatch):
    from trainwright.model import attention

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "flash_attn" else object())
    assert attention.flash_kernel(torch.bfloat16, 0.1) is None
    assert attention.flash_kernel(torch.bfloat16, 0.0) is attention._torch_varlen
    assert attention.flash_kernel(torch.float32, 0.0) is None
