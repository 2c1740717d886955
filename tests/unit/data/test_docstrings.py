import csv
import random
from collections import Counter

import pytest

from trainwright.data import docstrings
from trainwright.errors import DataError


def test_names_and_give_aways_are_masked_as_whole_words_in_any_case():
    masked = docstrings.masked("Calls torch.nn of PyTorch and np.array; the Hugging Face hub, rich text, enrichment")
    assert masked == ("Calls thislib.nn of thislib and thislib.array; the thislib thislib, thislib text, enrichment")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raises HfHubHTTPError, see HfApi", "raises thislibHubHTTPError, see thislibApi"),
        ("a RichHandler of TorchScript", "a thislibHandler of thislibScript"),
        ("pa.table of pyarrow; DataFrames", "thislib.table of thislib; thislib"),
        ("NumPy-like, hf_hub_download", "thislib-like, thislib_thislib_download"),
        ("a spare path, Richard, richly, Torches, half", "a spare path, Richard, richly, Torches, half"),
    ],
)
def test_joined_names_are_masked_and_words_that_only_look_alike_are_not(text, expected):
    assert docstrings.masked(text) == expected


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A package that is only a folder on the path, and that fails when it is imported."""
    folder = tmp_path / "tiny_library"
    for name in ("tests", "deep"):
        (folder / name).mkdir(parents=True)
    text = "A sentence about a thing that is long enough to be kept, "
    (folder / "__init__.py").write_text(f'"""{text}at the top."""\nraise RuntimeError("imported")\n')
    stray = "A text that is long enough to be kept, but no docstring."
    (folder / "deep" / "one.py").write_text(f'"""{text}\n\n    deep   down."""\n"""{stray}"""\n')
    (folder / "deep" / "two.py").write_text(f'"""{text}deep down."""\nclass A:\n    """Short."""\n')
    (folder / "tests" / "test_one.py").write_text(f'"""{text}in a test."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_library_is_read_from_its_files_without_tests_repeats_and_short_texts(library):
    text = "A sentence about a thing that is long enough to be kept, "
    assert docstrings.docstrings_of("tiny_library") == [f"{text}at the top.", f"{text}deep down."]


def test_of_a_huge_library_a_sample_is_read_that_depends_on_the_seed_only(library, monkeypatch):
    monkeypatch.setattr(docstrings, "MOST_FILES", 1)
    seen = [docstrings._sampled_files("tiny_library", seed) for seed in (*range(9), *range(9))]
    assert {len(files) for files in seen} == {1}
    assert seen[:9] == seen[9:]
    assert len({files[0].name for files in seen}) > 1


def test_a_library_that_is_not_here_is_left_out_and_noted(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(docstrings, "LIBRARIES", ("rich", "accelerate", "datasets", "torchmetrics", "not_there"))
    monkeypatch.setattr(docstrings, "MOST_FILES", 10)
    docstrings.write_docstrings(tmp_path / "x.csv", rows=20)
    with open(tmp_path / "x.csv", newline="") as file:
        assert {row["label"] for row in csv.DictReader(file)} == {"rich", "accelerate", "datasets", "torchmetrics"}
    assert "not_there" in caplog.text


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
