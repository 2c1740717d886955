import pytest
import yaml

from trainwright.data.init import make_recipe


def test_a_recipe_is_filled_in_with_what_the_file_shows(write_table, many_reviews):
    file = write_table("film reviews.csv", [(f"it was {text}", label) for text, label in many_reviews])
    made = make_recipe(file, None)
    recipe = yaml.safe_load(made.text)
    assert recipe["name"] == "film-reviews"
    assert recipe["task"] == "text-classification"
    assert recipe["model"] == "google-bert/bert-base-uncased"
    assert recipe["data"] == {
        "train": str(file),
        "validation": "10%",
        "text": "text",
        "label": "label",
        "max_length": "auto",
    }
    assert recipe["learn"]["warmup_steps"] == "6%"
    assert float(recipe["learn"]["learning_rate"]) == 5e-5
    assert "about 7 of 115 steps" in made.text  # 360 rows in steps of 16, five times: 23 x 5; 6% of 115 is 6.9
    assert "400 rows, 2 classes." in made.guesses


@pytest.mark.parametrize(
    ("text", "model"),
    [("这家酒店的服务很好", "google-bert/bert-base-chinese"), ("Das Zimmer war gut", "FacebookAI/xlm-roberta-base")],
)
def test_the_model_fits_the_language(write_table, text, model):
    made = make_recipe(write_table("a.csv", [(text, "ab"[n % 2]) for n in range(10)]), None)
    assert yaml.safe_load(made.text)["model"] == model
    assert any(guess.startswith(f"Model: {model}, since") for guess in made.guesses)


def test_a_model_that_was_named_is_kept(write_table):
    made = make_recipe(write_table("a.csv", [("good", "a"), ("bad", "b")]), "my/model")
    assert yaml.safe_load(made.text)["model"] == "my/model"


def test_files_beside_the_training_file_are_used(write_table, tmp_path):
    rows = [("good film", "a"), ("bad film", "b")]
    train, dev = write_table("Reviews-Train.csv", rows), write_table("Reviews-dev.csv", rows)
    write_table("Reviews-test.csv", rows, header=("other", "columns"))
    data = yaml.safe_load(make_recipe(train, None).text)["data"]
    assert data["validation"] == str(dev)
    assert "test" not in data


def test_names_that_yaml_would_take_for_something_else_are_quoted(write_table):
    made = make_recipe(write_table("a.csv", [("good", "a"), ("bad", "b")], header=("on", "1")), None, "on", "1")
    data = yaml.safe_load(made.text)["data"]
    assert (data["text"], data["label"]) == ("on", "1")


def test_the_recipe_loads(write_table, tmp_path, many_reviews):
    from trainwright.recipe.load import load_recipe

    (tmp_path / "recipe.yaml").write_text(make_recipe(write_table("评论 #1.csv", many_reviews), None).text, "utf-8")
    loaded = load_recipe(tmp_path / "recipe.yaml")
    assert loaded.recipe.data.train == str(tmp_path / "评论 #1.csv")
    assert loaded.recipe.learn.warmup_steps == "6%"
    assert loaded.notes == []


def test_scores_lists_and_pairs_are_seen_and_the_task_follows(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "good", "label": 0.25}\n{"text": "bad", "label": 1}\n')
    recipe = yaml.safe_load(make_recipe(tmp_path / "a.jsonl", None).text)
    assert (recipe["task"], "text_pair" in recipe["data"]) == ("regression", False)
    (tmp_path / "b.jsonl").write_text('{"premise": "a", "hypothesis": "b", "labels": ["x", "y"]}\n' * 2)
    made = make_recipe(tmp_path / "b.jsonl", None)
    recipe = yaml.safe_load(made.text)
    assert (recipe["task"], recipe["data"]["label"]) == ("multi-label", "labels")
    assert (recipe["data"]["text"], recipe["data"]["text_pair"]) == ("premise", "hypothesis")
    assert "Task: multi-label, since the labels are lists." in made.guesses
