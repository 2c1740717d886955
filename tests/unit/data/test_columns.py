import json

import pytest

from trainwright.data.columns import guess_columns
from trainwright.errors import DataError


def table(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        ("id,text,label", "text", "label"),
        ("Review,Sentiment,id", "Review", "Sentiment"),
        ("编号,评论,情感", "评论", "情感"),
        ("category,title,text", "text", "category"),
    ],
)
def test_columns_are_known_by_their_names(tmp_path, header, text, label):
    found = guess_columns(table(tmp_path / "a.csv", header, ["1,2,3"]), None, None)
    assert [guess.column for guess in found] == [text, label]


def test_columns_are_known_by_their_content(tmp_path):
    rows = [f"{n},a long line of words that differ {n},{'xyz'[n % 3]},2024-01-{n % 28 + 1:02}" for n in range(60)]
    text, label = guess_columns(table(tmp_path / "a.csv", "c1,c2,c3,c4", rows), None, None)
    assert (text.column, label.column) == ("c2", "c3")
    assert "3 different values" in label.because


def test_two_long_columns_are_not_chosen_between(tmp_path):
    rows = [f"the first long text {n},one more long text {n},{n % 2}" for n in range(20)]
    with pytest.raises(DataError, match=r"which column holds the text\. It may be: 'c1', 'c2'\. Say which one: --text"):
        guess_columns(table(tmp_path / "a.csv", "c1,c2,c3", rows), None, None)


def test_two_columns_of_classes_are_not_chosen_between(tmp_path):
    rows = [f"some text {n},{n % 2},{n % 3}" for n in range(20)]
    path = table(tmp_path / "a.csv", "text,c2,c3", rows)
    with pytest.raises(DataError, match=r"holds the label\. It may be: 'c2', 'c3'\. Say which one: --label NAME"):
        guess_columns(path, None, None)
    assert guess_columns(path, None, "c3")[1].column == "c3"


def test_a_column_asked_for_that_is_missing_names_the_option(tmp_path):
    path = table(tmp_path / "a.csv", "review,stars", ["good,5"])
    with pytest.raises(DataError, match="Did you mean 'stars'"):
        guess_columns(path, None, "star")


def test_columns_of_lists_are_passed_over(tmp_path):
    rows = [{"tags": [1, 2], "words": f"a long line {n}", "kind": "ab"[n % 2]} for n in range(20)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [guess.column for guess in guess_columns(path, None, None)] == ["words", "kind"]
