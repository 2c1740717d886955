import pytest

from trainwright.recipe.names import leaf_names
from trainwright.recipe.words import what_fits


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("learn.batch_size", "a whole number (> 0)"),
        ("learn.layerwise_lr_decay", "a number (> 0, <= 1)"),
        ("learn.dropout", "a number (>= 0, < 1)"),
        ("learn.warmup_steps", "a whole number (>= 0), a share such as 10%, auto"),
        ("learn.class_weights", "balanced, keys, each with its value: a number (> 0)"),
        ("data.labels", "a list of text"),
        ("data.max_length", "a whole number (>= 8), auto"),
        ("run.precision", "auto, fp32, bf16, fp16"),
        ("run.rehearse", "a whole number (>= 0), a share such as 10%, auto, off"),
        ("model", "text"),
        ("format", "1"),
    ],
)
def test_what_a_key_takes_is_said_in_words(name, words):
    assert what_fits(name) == words


def test_every_key_can_be_described():
    assert all(what_fits(name) for name in leaf_names())
