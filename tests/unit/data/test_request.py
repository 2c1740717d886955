from types import SimpleNamespace

import pytest

from trainwright.data.request import request_for, share_of


@pytest.mark.parametrize(
    ("value", "share"), [("10%", 0.1), (" 12.5 %", 0.125), (None, None), ("/data/10%.csv", None), ("/data/a.csv", None)]
)
def test_a_share_is_told_from_a_file(value, share):
    assert share_of(value) == share


def test_a_request_takes_what_the_recipe_says_of_data_and_seed(tmp_path):
    data = SimpleNamespace(
        train="/a.csv",
        validation="10%",
        test=None,
        text="review",
        text_pair=None,
        label_separator=None,
        label="stars",
        labels=["bad", "good"],
        max_length="auto",
        empty_rows="drop",
        encoding="gb18030",
    )
    request = request_for(SimpleNamespace(task="regression", data=data, learn=SimpleNamespace(seed=7)), tmp_path, 512)
    assert (request.train, request.validation, request.test) == ("/a.csv", "10%", None)
    assert (request.text, request.label, request.labels) == ("review", "stars", ("bad", "good"))
    assert request.task == "regression"
    assert request.encoding == "gb18030"
    assert (request.seed, request.model_folder, request.model_max_length) == (7, str(tmp_path), 512)
