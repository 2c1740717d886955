import typing

import pytest

from trainwright.errors import RecipeError
from trainwright.recipe.load import load_recipe
from trainwright.recipe.schema import Metric, Recipe
from trainwright.recipe.tasks import TASKS, all_metrics, greater_is_better


def test_every_task_and_score_of_the_table_is_one_of_the_schema():
    assert set(typing.get_args(Recipe.model_fields["task"].annotation)) == set(TASKS)
    assert set(typing.get_args(Metric)) == {"auto", *all_metrics()}
    assert all(set(kind.shown) <= set(kind.metrics) for kind in TASKS.values())


def test_errors_are_better_when_small_and_everything_else_when_great():
    assert [name for name in all_metrics() if not greater_is_better(name)] == ["loss", "rmse", "mae"]


@pytest.mark.parametrize(
    ("task", "setting", "named"),
    [
        ("regression", "learn.metric_for_best_model=accuracy", "rmse, pearson, spearman, mae, loss"),
        ("regression", "learn.class_weights=balanced", "learn.class_weights has no meaning"),
        ("ordinal", "learn.focal_gamma=2", "learn.focal_gamma has no meaning"),
        ("multi-label", "learn.label_smoothing_factor=0.1", "learn.label_smoothing_factor has no meaning"),
        ("text-classification", "data.label=[a, b]", "data.label has no meaning"),
        ("text-classification", "data.label_separator=;", "data.label_separator has no meaning"),
        ("regression", "data.labels=[a, b]", "data.labels has no meaning"),
    ],
)
def test_what_a_task_has_no_use_for_is_refused_by_name(tmp_path, task, setting, named):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: x\ndata: {train: a.csv}\n")
    with pytest.raises(RecipeError, match=named):
        load_recipe(path, [f"task={task}", setting])


def test_focal_loss_and_smoothing_exclude_each_other(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: x\ndata: {train: a.csv}\nlearn: {focal_gamma: 2, label_smoothing_factor: 0.1}\n")
    with pytest.raises(RecipeError, match="use one of them"):
        load_recipe(path)
