from dataclasses import fields

import pytest

from trainwright.recipe.names import (
    TRANSLATED,
    answers,
    leaf_names,
    nearest,
    owner_of,
    training_argument_names,
)


def test_the_fields_of_training_arguments_are_read_without_importing_transformers():
    from transformers import TrainingArguments

    assert training_argument_names() == {field.name for field in fields(TrainingArguments) if field.init}


def test_without_transformers_no_name_is_known(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    training_argument_names.cache_clear()
    try:
        assert training_argument_names() == frozenset()
    finally:
        training_argument_names.cache_clear()


def test_every_translation_leads_to_a_key_of_the_recipe():
    assert {target for target, _convert in TRANSLATED.values()} <= set(leaf_names())


def test_no_key_of_ours_is_taken_for_a_foreign_name():
    ours = {name.rpartition(".")[2] for name in leaf_names()}
    assert ours.isdisjoint(TRANSLATED)
    assert ours.isdisjoint(answers())


def test_a_name_is_translated_or_answered_never_both():
    assert set(TRANSLATED).isdisjoint(answers())


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("learning_rate", "learn.learning_rate"),
        ("train", "data.train"),
        ("precision", "run.precision"),
        ("model", "model"),
        ("save_steps", None),
        ("learn", None),
    ],
)
def test_a_bare_name_belongs_to_one_section(name, owner):
    assert owner_of(name) == owner


def test_no_bare_name_stands_in_two_sections():
    bare = [name.rpartition(".")[2] for name in leaf_names()]
    assert len(bare) == len(set(bare))


CONVERTED = {
    "warmup_ratio": [(0.06, "6%"), (0.1, "10%"), ("1e-1", "10%"), (0.125, "12.5%")],
    "fp16": [(True, "fp16"), (False, "auto")],
    "no_cuda": [(True, "cpu"), (False, "auto")],
    "mixed_precision": [("bf16", "bf16"), (False, "fp32"), ("no", "fp32")],
    "lr": [(2e-5, 2e-5)],
}


@pytest.mark.parametrize("name", sorted(CONVERTED))
def test_values_are_converted_with_their_names(name):
    _target, convert = TRANSLATED[name]
    for given, expected in CONVERTED[name]:
        assert convert(given) == expected


def test_the_nearest_names_come_first_and_the_same_ones_each_time():
    assert nearest("batch_sise", {"batch_size", "seed", "learning_rate"}) == ["batch_size"]
    assert nearest("zzz", {"batch_size", "seed"}) == []
