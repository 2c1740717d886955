import json

import pytest

from trainwright.errors import RecipeError
from trainwright.recipe.load import choose, load_recipe, recipe_from_values
from trainwright.recipe.names import leaf_names


def test_the_least_recipe_takes_every_other_value_from_the_defaults(load, least, tmp_path):
    loaded = load(least)
    assert loaded.recipe.name == "reviews"
    assert loaded.recipe.data.train == str(tmp_path / "reviews.csv")
    assert loaded.recipe.learn.batch_size == 32
    assert loaded.values["learn.batch_size"].origin == "default"
    assert loaded.values["name"].origin == "default"
    assert loaded.values["model"].origin == "recipe"
    assert loaded.notes == []


def test_every_key_has_a_value_with_its_origin(load, least):
    loaded = load(least + "learn: {class_weights: {pos: 2}}\ntrainer: {save_steps: 5}\n", "trainer.logging_steps=2")
    assert set(loaded.values) == {*leaf_names(), "trainer.save_steps", "trainer.logging_steps"}
    assert loaded.values["trainer.save_steps"].origin == "recipe"
    assert loaded.values["trainer.logging_steps"].origin == "--set"


def test_set_goes_before_recipe_goes_before_default_and_the_environment_sets_nothing(load, least, monkeypatch):
    monkeypatch.setenv("BATCH_SIZE", "7")
    monkeypatch.setenv("TRAINWRIGHT_LEARN_BATCH_SIZE", "7")
    loaded = load(least + "learn: {batch_size: 16, seed: 3}\n", "learn.batch_size=64", "run.rehearse=off")
    assert (loaded.recipe.learn.batch_size, loaded.values["learn.batch_size"].origin) == (64, "--set")
    assert (loaded.recipe.learn.seed, loaded.values["learn.seed"].origin) == (3, "recipe")
    assert loaded.recipe.run.rehearse == "off"


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("learn: {learning_rate: 1.0e-5}\n", "lr=1e-4"),
        ("learn: {lr: 1.0e-5}\n", "learn.learning_rate=1e-4"),
        ("lr: 1.0e-5\n", "lr=1e-4"),
        ("learn: {lr: 1.0e-5}\n", "learn={learning_rate: 1.0e-4}"),
    ],
)
def test_set_goes_before_the_recipe_under_any_name(load, least, text, change):
    loaded = load(least + text, change)
    assert (loaded.recipe.learn.learning_rate, loaded.values["learn.learning_rate"].origin) == (1e-4, "--set")


def test_a_later_set_replaces_an_earlier_one(load, least):
    assert load(least, "learn.seed=1", "learn.seed=2").recipe.learn.seed == 2


@pytest.mark.parametrize("change", ["learn.seed", "=3", ""])
def test_a_set_without_key_or_value_shows_how_it_is_written(refusal, least, change):
    assert "--set learn.batch_size=64" in refusal(least, change)


def test_the_recipe_can_be_built_from_its_values_also_after_json(load, least):
    loaded = load(least + "learn: {class_weights: {pos: 2}}\ntrainer: {save_steps: 5}\n")
    assert recipe_from_values(loaded.values) == loaded.recipe
    plain = json.loads(json.dumps({name: choice.value for name, choice in loaded.values.items()}))
    assert plain["learn.class_weights"] == {"pos": 2.0}


def test_a_chosen_value_carries_its_reason_and_the_old_values_stay(load, least):
    before = load(least).values
    values = choose(before, "data.max_length", 128, "rows are shorter")
    assert (values["data.max_length"].origin, values["data.max_length"].because) == ("chosen", "rows are shorter")
    assert recipe_from_values(values).data.max_length == 128
    assert before["data.max_length"].value == "auto"


# -- old and foreign names -----------------------------------------------------------------------------------------

OLD = {
    "learn: {warmup_ratio: 0.1}": ("learn.warmup_steps", "10%"),
    "trainer: {warmup_ratio: 0.06}": ("learn.warmup_steps", "6%"),
    "learn: {epochs: 2}": ("learn.num_train_epochs", 2.0),
    "learn: {lr: 2e-5}": ("learn.learning_rate", 2e-5),
    "trainer: {fp16: true}": ("run.precision", "fp16"),
    "trainer: {bf16: false}": ("run.precision", "auto"),
    "trainer: {fp16: false, bf16: true}": ("run.precision", "bf16"),
    "trainer: {no_cuda: true}": ("run.device", "cpu"),
    "max_seq_length: 128": ("data.max_length", 128),
    "trainer: {save_total_limit: 3}": ("run.keep_checkpoints", 3),
    "early_stopping_rounds: 3": ("learn.early_stopping_patience", 3),
    "trainer: {per_device_train_batch_size: 16, gradient_accumulation_steps: 4}": ("learn.batch_size", 64),
    "learn: {per_device_train_batch_size: 8, gradient_accumulation_steps: 2}": ("learn.batch_size", 16),
}


@pytest.mark.parametrize("text", sorted(OLD))
def test_old_and_foreign_names_are_understood_and_said_once(load, least, text):
    loaded = load(least + text + "\n")
    name, value = OLD[text]
    assert loaded.values[name].value == value
    assert loaded.values[name].origin == "recipe"
    assert len(loaded.notes) == 1
    assert name in loaded.notes[0]


def test_a_training_file_by_its_old_name_gives_the_run_its_name(load, tmp_path):
    loaded = load("model: bert\ntrain_file: tweets.csv\n")
    assert (loaded.recipe.name, loaded.recipe.data.train) == ("tweets", str(tmp_path / "tweets.csv"))


@pytest.mark.parametrize(
    "text",
    [
        "learn: {lr: 1.0e-5, learning_rate: 2.0e-5}\n",
        "trainer: {fp16: true, bf16: true}\n",
        "learn: {batch_size: 8, per_device_train_batch_size: 4, gradient_accumulation_steps: 4}\n",
    ],
)
def test_both_names_of_one_thing_are_a_contradiction(refusal, least, text):
    assert "mean the same" in refusal(least + text)


def test_a_wrong_value_of_an_old_name_is_found_in_its_line(refusal, least):
    assert "line 4: learn.learning_rate: 'fast'" in refusal(least + "learn:\n  lr: fast\n")
    assert "line 3: trainer.warmup_ratio: 'lots' is not a number" in refusal(least + "trainer: {warmup_ratio: lots}\n")


# -- paths ---------------------------------------------------------------------------------------------------------


def test_relative_paths_start_at_the_recipe_not_at_the_command(tmp_path, least, monkeypatch):
    recipe = tmp_path / "recipes" / "r.yaml"
    recipe.parent.mkdir()
    recipe.write_text(least.replace("reviews.csv", "../reviews.csv, validation: v.csv, test: 10%"))
    monkeypatch.chdir("/")
    data = load_recipe(recipe).recipe.data
    assert (data.train, data.validation, data.test) == (
        str(tmp_path / "reviews.csv"),
        str(tmp_path / "recipes" / "v.csv"),
        "10%",
    )


def test_a_relative_recipe_gives_absolute_paths(tmp_path, least, monkeypatch):
    (tmp_path / "r.yaml").write_text(least)
    monkeypatch.chdir(tmp_path)
    assert load_recipe((tmp_path / "r.yaml").relative_to(tmp_path)).recipe.data.train == str(tmp_path / "reviews.csv")


def test_home_is_found(load, least, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert load(least.replace("reviews.csv", "~/reviews.csv")).recipe.data.train == "/home/someone/reviews.csv"


def test_a_model_folder_starts_at_the_recipe_and_a_hub_id_stays(load, least, tmp_path):
    (tmp_path / "mine").mkdir()
    assert load(least.replace("bert", "mine")).recipe.model == str(tmp_path / "mine")
    assert load(least.replace("bert", "./gone")).recipe.model == str(tmp_path / "gone")
    assert load(least.replace("bert", "google-bert/bert-base-chinese")).recipe.model == "google-bert/bert-base-chinese"


def test_an_empty_path_is_not_the_folder_of_the_recipe(refusal, load, least):
    for text in (least.replace("reviews.csv", "''"), least.replace("bert", "''")):
        assert "''" in refusal(text)


def test_a_broken_recipe_is_an_error_of_the_recipe(tmp_path):
    with pytest.raises(RecipeError):
        load_recipe(tmp_path / "none.yaml")


def test_several_files_are_named_from_the_recipe_and_give_the_run_the_name_of_the_first(load, tmp_path):
    loaded = load("model: bert\ndata: {train: [a.csv, more/b.xlsx], validation: dev-*.csv, test: [/t.csv]}\n")
    data = loaded.recipe.data
    assert data.train == [str(tmp_path / "a.csv"), str(tmp_path / "more/b.xlsx")]
    assert (data.validation, data.test) == (str(tmp_path / "dev-*.csv"), ["/t.csv"])
    assert loaded.recipe.name == "a"


@pytest.mark.parametrize(("train", "name"), [("reviews-*.csv", "reviews"), ("reviews/*.csv", "reviews")])
def test_a_pattern_gives_the_run_a_name_without_stars(load, train, name):
    assert load(f"model: bert\ndata: {{train: '{train}'}}\n").recipe.name == name


def test_an_empty_list_of_files_is_refused(refusal):
    assert "data.train: [] does not fit: it takes text, a list of text" in refusal("model: bert\ndata: {train: []}\n")


@pytest.mark.parametrize("name", ["auto", "utf-8", "GB18030", "latin-1", "euc-kr"])
def test_an_encoding_is_any_that_makes_text_of_bytes(load, name):
    assert load(f"model: bert\ndata: {{train: a.csv, encoding: {name}}}\n").recipe.data.encoding == name


@pytest.mark.parametrize("name", ["utf-9", "hex", "rot13", "undefined"])
def test_what_is_no_encoding_is_refused(refusal, name):
    said = refusal(f"model: bert\ndata: {{train: a.csv, encoding: {name}}}\n")
    assert f"'{name}' is no encoding" in said
