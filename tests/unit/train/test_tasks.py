import pytest

from trainwright.errors import RecipeError
from trainwright.recipe.load import load_recipe
from trainwright.records import Prepared
from trainwright.train.tasks import Task
from trainwright.train.worker import arguments_of


@pytest.fixture
def task(tmp_path):
    def make(*sets):
        path = tmp_path / "recipe.yaml"
        path.write_text("model: x\ndata: {train: a.csv}\n")
        rows = {"train": [60, 30, 10]}
        prepared = Prepared("c", "k", False, "", {}, ["a", "b", "c"], 128, [1], [2], 0, {}, rows)
        return Task(load_recipe(path, sets).recipe, prepared, tmp_path)

    return make


def test_balanced_weights_make_each_class_count_alike_and_have_a_mean_of_one(task):
    weights = task("learn.class_weights=balanced").class_weights()
    assert weights == pytest.approx([100 / 180, 100 / 90, 100 / 30])
    assert sum(weight * rows for weight, rows in zip(weights, [60, 30, 10], strict=True)) == pytest.approx(100)


def test_weights_by_label_leave_the_others_at_one_and_none_means_none(task):
    assert task("learn.class_weights={b: 2.5}").class_weights() == [1.0, 2.5, 1.0]
    assert task().class_weights() is None


def test_a_weight_for_a_label_that_is_not_there_is_refused(task):
    with pytest.raises(RecipeError, match=r"d\.? .*a, b, c"):
        task("learn.class_weights={d: 2}").class_weights()


def test_a_value_that_transformers_refuses_is_the_recipes_mistake(tmp_path):
    with pytest.raises(RecipeError, match="trainer:"):
        arguments_of({"output_dir": str(tmp_path), "optim": "no_such_optimizer", "use_cpu": True})
