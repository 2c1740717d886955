import csv
import random
from collections import Counter

import pytest

from trainwright.data import docstrings
from trainwright.errors import DataError


def test_names_and_give_aways_are_masked_as_whole_words_in_any_case():
    masked = docstrings.masked("Calls torch.nn of PyTorch and np.array; the Hugging Face hub, rich text, enrichment")
    assert masked == ("Calls thislib.nn of thislib and thislib.array; the thislib thislib, thislib text, enrichment")


def test_shares_are_equal_and_what_a_small_library_lacks_goes_to_the_others():
    found = {"a": [f"a{n}" for n in range(10)], "b": [f"b{n}" for n in range(100)], "c": [f"c{n}" for n in range(100)]}
    rows = docstrings.balanced(found, 90, random.Random(0))
    assert Counter(label for _text, label in rows) == {"a": 10, "b": 40, "c": 40}


def test_a_text_that_two_libraries_share_is_left_out():
    rows = docstrings.balanced({"a": ["same", "one"], "b": ["same", "two"]}, 10, random.Random(0))
    assert sorted(rows) == [("one", "a"), ("two", "b")]


def test_docstrings_of_modules_classes_and_functions_are_taken(tmp_path):
    path = tmp_path / "x.py"
    path.write_text('"""Module."""\nclass A:\n    """Class."""\n    def f(self):\n        """Function."""\n')
    assert list(docstrings._docstrings_in(path)) == ["Module.", "Class.", "Function."]


def test_a_file_that_is_not_python_is_passed_over(tmp_path):
    (tmp_path / "x.py").write_text("def (:")
    assert list(docstrings._docstrings_in(tmp_path / "x.py")) == []


def test_the_same_file_comes_out_every_time_and_no_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(docstrings, "LIBRARIES", ("rich", "accelerate", "datasets", "torchmetrics"))
    monkeypatch.setattr(docstrings, "MOST_FILES", 20)
    one = docstrings.write_docstrings(tmp_path / "one.csv", rows=100)
    two = docstrings.write_docstrings(tmp_path / "two.csv", rows=100)
    assert one.read_bytes() == two.read_bytes()
    with open(one, newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["label"] for row in rows) == dict.fromkeys(docstrings.LIBRARIES, 25)
    assert all(row["label"] not in row["text"].lower().replace("-", " ").split() for row in rows)
    assert min(len(row["text"]) for row in rows) >= docstrings.SHORTEST


def test_too_few_libraries_say_what_to_do_instead(tmp_path, monkeypatch):
    monkeypatch.setattr(docstrings, "LIBRARIES", ("not_there", "rich"))
    with pytest.raises(DataError, match="trainwright init"):
        docstrings.write_docstrings(tmp_path / "x.csv")
