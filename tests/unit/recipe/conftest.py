import pytest

from trainwright.errors import RecipeError
from trainwright.recipe.load import load_recipe


@pytest.fixture
def least():
    """The least that a recipe must say."""
    return "model: bert\ndata: {train: reviews.csv}\n"


@pytest.fixture
def load(tmp_path):
    """Loads a recipe from its text."""

    def read(text, *sets):
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return load_recipe(path, sets)

    return read


@pytest.fixture
def refusal(load):
    """The error that a recipe's text ends with, as one reads it."""

    def read(text, *sets):
        with pytest.raises(RecipeError) as caught:
            load(text, *sets)
        assert caught.value.exit_code == 2
        return str(caught.value)

    return read
