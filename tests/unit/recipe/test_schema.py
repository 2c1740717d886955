from typing import get_args

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from trainwright.recipe.schema import Data, Learn, Logger, Recipe, Run, Scheduler, json_schema


@pytest.mark.parametrize(("written", "value"), [("5e-5", 5e-5), ("5.0e-5", 5e-5), ("0.00005", 5e-5), ("1E-3", 1e-3)])
def test_numbers_are_numbers_however_yaml_reads_them(written, value):
    assert Learn(learning_rate=yaml.safe_load(written)).learning_rate == value


@pytest.mark.parametrize("written", ["1e2", "100", "'100'", "100.0"])
def test_whole_numbers_too(written):
    assert Learn(batch_size=yaml.safe_load(written)).batch_size == 100
    assert Recipe(name="n", model="m", data={"train": "t"}, trainer={"save_steps": "1e2"}).trainer == {
        "save_steps": 100
    }


REFUSED = [
    (Learn, "batch_size", True),  # Python counts True as 1
    (Learn, "batch_size", 0),
    (Learn, "batch_size", 1.5),
    (Learn, "learning_rate", True),
    (Learn, "learning_rate", float("inf")),
    (Learn, "learning_rate", float("nan")),
    (Learn, "learning_rate", 0),
    (Learn, "layerwise_lr_decay", 0),
    (Learn, "layerwise_lr_decay", 1.1),
    (Learn, "dropout", 1),
    (Learn, "weight_decay", -0.1),
    (Learn, "warmup_steps", "600%"),
    (Learn, "warmup_steps", True),
    (Learn, "warmup_steps", 0.06),
    (Learn, "eval_steps", 0),
    (Learn, "eval_steps", "0%"),
    (Learn, "lr_scheduler_type", "liner"),
    (Learn, "metric_for_best_model", "f1"),
    (Learn, "class_weights", {"good": 0}),
    (Learn, "class_weights", "balance"),
    (Learn, "early_stopping_patience", 0),
    (Learn, "seed", -1),
    (Run, "precision", "fp8"),
    (Run, "rehearse", "sometimes"),
    (Run, "report_to", ["tensorbord"]),
    (Run, "price_per_hour", "3.5"),
    (Run, "keep_checkpoints", 0),
    (Data, "max_length", 7),
    (Data, "text", ""),
    (Data, "validation", "100%"),
    (Data, "validation", "0%"),
    (Data, "validation", 0.1),
    (Data, "validation", 0),
    (Data, "labels", ["good"]),
    (Data, "labels", ["good", "good"]),
    (Data, "labels", ["good", None]),
    (Data, "train", ""),
    (Data, "validation", ""),
    (Data, "validation", True),
    (Run, "price_per_hour", 3.5),
]


@pytest.mark.parametrize(("kind", "name", "value"), REFUSED, ids=[f"{name}={value}" for _kind, name, value in REFUSED])
def test_a_value_that_makes_no_sense_is_refused(kind, name, value):
    given = ({"train": "a.csv"} if kind is Data else {}) | {name: value}
    with pytest.raises(ValidationError):
        kind(**given)


@pytest.mark.parametrize(
    ("written", "value"),
    [("off", "off"), ("no", "off"), ("false", "off"), ("'off'", "off"), ("on", "auto"), ("10%", "10%"), ("20", 20)],
)
def test_a_rehearsal_is_set_in_yamls_words(written, value):
    assert Run(rehearse=yaml.safe_load(written)).rehearse == value


@pytest.mark.parametrize("written", ["none", "no", "~", "null"])
def test_validation_can_be_none(written):
    assert Data(train="a.csv", validation=yaml.safe_load(written)).validation is None


@pytest.mark.parametrize(
    ("written", "value"), [("none", []), ("wandb", ["wandb"]), ("[wandb, swanlab]", ["wandb", "swanlab"])]
)
def test_report_to_takes_one_several_or_none(written, value):
    assert Run(report_to=yaml.safe_load(written)).report_to == value


def test_labels_that_yaml_read_as_truth_values_are_refused_with_the_advice_to_quote():
    for given in ({"labels": yaml.safe_load("[yes, no]")}, {"labels": yaml.safe_load("['yes', no]")}):
        with pytest.raises(ValidationError, match="quotes"):
            Data(train="a.csv", **given)
    with pytest.raises(ValidationError, match="quotes"):
        Learn(class_weights=yaml.safe_load("{yes: 2, no: 1}"))
    assert Data(train="a.csv", labels=["yes", "no"]).labels == ["yes", "no"]


def test_labels_and_columns_that_are_numbers_are_words():
    assert Data(train="a.csv", labels=[1, 0], text=0).labels == ["1", "0"]
    assert Data(train="a.csv", text=0).text == "0"
    assert Learn(class_weights={1: 2, 0: 1}).class_weights == {"1": 2.0, "0": 1.0}


def test_a_recipe_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError, match="frozen"):
        Learn().seed = 3


def test_transformers_knows_every_scheduler_and_every_logger():
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
    from transformers.trainer_utils import SchedulerType

    assert set(get_args(Scheduler)) <= {kind.value for kind in SchedulerType}
    assert set(get_args(Logger)) <= set(INTEGRATION_TO_CALLBACK)


def test_every_key_is_described():
    for kind in (Recipe, Data, Learn, Run):
        undescribed = [name for name, field in kind.model_fields.items() if not field.description]
        assert undescribed == ([] if kind is not Recipe else ["data", "learn", "run"])
        assert kind.__doc__


GOOD = """
model: x
data: {train: a.csv, validation: 10%, labels: [good, bad], max_length: auto}
learn: {batch_size: 8, warmup_steps: 6%, class_weights: {good: 2}, lr_scheduler_type: cosine, dropout: 0.1}
run: {rehearse: 10%, report_to: [wandb], price_per_hour: 3.5 CNY}
trainer: {save_steps: 500}
"""
BAD = [
    {"lern": {}},
    {"learn": {"batch_sise": 8}},
    {"learn": {"warmup_steps": "six"}},
    {"learn": {"batch_size": 0}},
    {"learn": {"dropout": 1}},
    {"learn": {"class_weights": {"good": -1}}},
    {"data": {"train": "a.csv", "max_length": 7}},
    {"run": {"precision": "fp8"}},
    {"data": {"text": "t"}},
]


def test_an_editor_can_check_a_recipe_by_the_json_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema())
    good = yaml.safe_load(GOOD)
    jsonschema.validate(good, json_schema())
    for bad in BAD:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(good | bad, json_schema())
