import json
from dataclasses import fields

import jsonschema
import pytest
import yaml

from trainwright.errors import RecipeError
from trainwright.recipe.load import choose, load_recipe, recipe_from_values
from trainwright.recipe.names import training_argument_names
from trainwright.recipe.schema import json_schema

LEAST = "model: bert\ndata: {train: reviews.csv}\n"


@pytest.fixture
def load(tmp_path):
    def read(text, *sets):
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return load_recipe(path, sets)

    return read


def refusal(load, text, *sets):
    with pytest.raises(RecipeError) as caught:
        load(text, *sets)
    return str(caught.value)


def test_the_least_recipe_takes_every_other_value_from_the_defaults(load, tmp_path):
    loaded = load(LEAST)
    assert loaded.recipe.name == "reviews"
    assert loaded.recipe.data.train == str(tmp_path / "reviews.csv")
    assert loaded.recipe.learn.batch_size == 32
    assert loaded.values["learn.batch_size"].origin == "default"
    assert loaded.values["model"].origin == "recipe"
    assert loaded.notes == []


def test_set_goes_before_recipe_goes_before_default_and_the_environment_sets_nothing(load, monkeypatch):
    monkeypatch.setenv("BATCH_SIZE", "7")
    loaded = load(LEAST + "learn: {batch_size: 16, seed: 3}\n", "learn.batch_size=64", "run.rehearse=off")
    assert (loaded.recipe.learn.batch_size, loaded.values["learn.batch_size"].origin) == (64, "--set")
    assert (loaded.recipe.learn.seed, loaded.values["learn.seed"].origin) == (3, "recipe")
    assert loaded.recipe.run.rehearse == "off"


def test_every_value_has_a_name_and_the_recipe_can_be_built_from_them(load):
    loaded = load(LEAST + "learn: {class_weights: {pos: 2}}\ntrainer: {save_steps: 5}\n")
    assert loaded.values["trainer.save_steps"].value == 5
    assert recipe_from_values(loaded.values) == loaded.recipe
    plain = json.loads(json.dumps({name: choice.value for name, choice in loaded.values.items()}))
    assert plain["learn.class_weights"] == {"pos": 2.0}


def test_a_chosen_value_carries_its_reason(load):
    values = choose(load(LEAST).values, "data.max_length", 128, "rows are shorter")
    assert (values["data.max_length"].origin, values["data.max_length"].because) == ("chosen", "rows are shorter")
    assert recipe_from_values(values).data.max_length == 128


@pytest.mark.parametrize(("text", "value"), [("5e-5", 5e-5), ("5.0e-5", 5e-5), ("0.00005", 5e-5), ("1E-3", 1e-3)])
def test_numbers_are_numbers_however_yaml_reads_them(load, text, value):
    assert load(LEAST + f"learn: {{learning_rate: {text}}}\n").recipe.learn.learning_rate == value


@pytest.mark.parametrize("word", ["off", "no", "false", "'off'"])
def test_a_rehearsal_can_be_switched_off_in_yamls_words(load, word):
    assert load(LEAST + f"run: {{rehearse: {word}}}\n").recipe.run.rehearse == "off"


def test_labels_that_yaml_reads_as_truth_values_are_refused_with_the_advice_to_quote(load):
    text = LEAST.replace("reviews.csv", "reviews.csv, labels: [yes, no]")
    assert "quotes" in refusal(load, text)
    assert load(LEAST.replace("reviews.csv", "reviews.csv, labels: ['yes', 'no']")).recipe.data.labels == ["yes", "no"]


def test_a_misspelt_key_names_the_nearest_and_its_line(load):
    message = refusal(load, LEAST + "learn:\n  batch_size: 8\n  learning_rte: 1.0e-5\n")
    assert "line 5" in message
    assert "learn.learning_rte" in message
    assert "learn.learning_rate" in message


def test_a_key_of_another_section_names_the_section(load):
    assert "learn.batch_size" in refusal(load, LEAST + "batch_size: 8\n")
    assert "run.precision" in refusal(load, LEAST + "learn: {precision: bf16}\n")
    assert "learn.learning_rate" in refusal(load, LEAST + "trainer: {learning_rate: 1.0e-5}\n")
    assert "trainer:" in refusal(load, LEAST + "logging_steps: 5\n")


def test_trainer_takes_any_field_of_training_arguments_and_no_other(load):
    assert load(LEAST + "trainer: {save_steps: 500}\n").recipe.trainer == {"save_steps": 500}
    message = refusal(load, LEAST + "trainer: {save_stepz: 500}\n")
    assert "save_steps" in message


def test_the_fields_of_training_arguments_are_read_without_importing_transformers():
    from transformers import TrainingArguments

    assert training_argument_names() == {field.name for field in fields(TrainingArguments) if field.init}


OLD = {
    "learn: {warmup_ratio: 0.1}": ("learn.warmup_steps", "10%"),
    "trainer: {warmup_ratio: 0.06}": ("learn.warmup_steps", "6%"),
    "learn: {epochs: 2}": ("learn.num_train_epochs", 2.0),
    "learn: {lr: 2.0e-5}": ("learn.learning_rate", 2e-5),
    "trainer: {fp16: true}": ("run.precision", "fp16"),
    "trainer: {bf16: false}": ("run.precision", "auto"),
    "trainer: {no_cuda: true}": ("run.device", "cpu"),
    "max_seq_length: 128": ("data.max_length", 128),
    "trainer: {save_total_limit: 3}": ("run.keep_checkpoints", 3),
    "trainer: {per_device_train_batch_size: 16, gradient_accumulation_steps: 4}": ("learn.batch_size", 64),
    "learn: {per_device_train_batch_size: 8, gradient_accumulation_steps: 2}": ("learn.batch_size", 16),
}


@pytest.mark.parametrize("text", sorted(OLD))
def test_old_and_foreign_names_are_understood_and_said_once(load, text):
    loaded = load(LEAST + text + "\n")
    name, value = OLD[text]
    assert loaded.values[name].value == value
    assert len(loaded.notes) == 1
    assert name in loaded.notes[0]


@pytest.mark.parametrize(
    "name",
    [
        "evaluation_strategy",
        "overwrite_output_dir",
        "logging_dir",
        "group_by_length",
        "tokenizer",
        "auto_find_batch_size",
        "load_best_model_at_end",
        "output_dir",
    ],
)
def test_names_without_a_key_here_are_answered_by_name(load, name):
    message = refusal(load, LEAST + f"trainer: {{{name}: true}}\n")
    assert name in message
    assert "no such field" not in message


def test_all_problems_are_named_at_once(load):
    message = refusal(load, "model: x\nlearn: {batch_size: 0, seed: -1}\nrun: {precision: fp8}\n")
    for name in ("data", "learn.batch_size", "learn.seed", "run.precision"):
        assert name in message
    assert "fp8" in message


def test_both_names_of_one_thing_are_a_contradiction(load):
    assert "mean the same" in refusal(load, LEAST + "learn: {lr: 1.0e-5, learning_rate: 2.0e-5}\n")


BROKEN = {
    "not yaml": ("model: [x\n", "line"),
    "a list": ("- model\n", "no keys"),
    "empty": ("", "no keys"),
    "given twice": ("model: a\nmodel: b\ndata: {train: x}\n", "line 2"),
    "a section that holds no keys": ("model: a\ndata: reviews.csv\n", "data must hold keys"),
    "share out of range": (LEAST.replace("reviews.csv", "reviews.csv, validation: 100%"), "100%"),
    "price without a currency": (LEAST + "run: {price_per_hour: '3.5'}\n", "currency"),
    "python in yaml": ("model: !!python/object/apply:os.system ['true']\n", "not YAML"),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_a_broken_recipe_says_what_is_wrong(load, case):
    text, expected = BROKEN[case]
    assert expected in refusal(load, text)


def test_a_missing_recipe_names_one_that_looks_like_it(tmp_path):
    (tmp_path / "recipe.yaml").write_text(LEAST)
    with pytest.raises(RecipeError, match=r"recipe\.yaml"):
        load_recipe(tmp_path / "recepi.yaml")


def test_a_byte_order_mark_does_no_harm(tmp_path):
    (tmp_path / "recipe.yaml").write_text("\ufeff" + LEAST, encoding="utf-8")
    assert load_recipe(tmp_path / "recipe.yaml").recipe.model == "bert"


def test_a_relative_model_folder_starts_at_the_recipe_and_a_hub_id_stays(load, tmp_path):
    (tmp_path / "mine").mkdir()
    assert load(LEAST.replace("bert", "mine")).recipe.model == str(tmp_path / "mine")
    assert load(LEAST.replace("bert", "google-bert/bert-base-chinese")).recipe.model == "google-bert/bert-base-chinese"


def test_an_editor_can_check_a_recipe_by_the_json_schema():
    good = yaml.safe_load(
        "model: x\ndata: {train: a.csv, validation: 10%}\n"
        "learn: {batch_size: 8, warmup_steps: 6%}\nrun: {rehearse: 10%}\n"
    )
    jsonschema.validate(good, json_schema())
    for bad in ({"lern": {}}, {"learn": {"batch_sise": 8}}, {"run": {"precision": "fp8"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(good | bad, json_schema())
