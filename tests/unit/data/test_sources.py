import json
from pathlib import Path

import pytest

from trainwright.data.rows import read_rows
from trainwright.data.sources import open_source, places_of, source_files
from trainwright.errors import DataError


def read(path, text="text", label="label"):
    return read_rows(path, text, label, keep=lambda texts: None)


def test_a_missing_file_names_the_nearest_one(tmp_path):
    (tmp_path / "reviews.csv").write_text("text,label\n")
    with pytest.raises(DataError, match=r"There is no file .*review\.csv\. Did you mean .*reviews\.csv"):
        open_source(tmp_path / "review.csv")


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(DataError, match="does not exist either"):
        open_source(tmp_path / "data" / "a.csv")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", "", "is empty"),
        ("a.jsonl", "", "is empty"),
        ("a.csv", "text,label\n", "has no rows"),
        ("a.jsonl", "\n\n", "has no rows"),
    ],
)
def test_a_file_without_rows_is_refused(tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=reason):
        read(tmp_path / name)


def test_an_unknown_format_lists_those_known(tmp_path):
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(DataError, match=r"'\.doc' is not known\. Known are \.csv, \.tsv, \.jsonl"):
        open_source(tmp_path / "a.doc")


@pytest.mark.parametrize(
    ("header", "wanted", "hint"),
    [
        ("sentence,target", ("sentence", "targets"), "Did you mean 'target'? Set data.label: target."),
        ("text,Label", ("text", "label"), "Did you mean 'Label'? Set data.label: Label."),
        ("review,stars", ("text", "stars"), "Set data.text to the right one."),
    ],
)
def test_a_missing_column_names_those_found_the_closest_and_the_key(tmp_path, header, wanted, hint):
    (tmp_path / "a.csv").write_text(header + "\na,b\n")
    with pytest.raises(DataError) as caught:
        read(tmp_path / "a.csv", *wanted)
    assert "Columns found: " + ", ".join(map(repr, header.split(","))) in str(caught.value)
    assert str(caught.value).endswith(hint)


def test_a_key_that_no_row_has_is_a_missing_column(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b", "labels": "x"}\n')
    with pytest.raises(DataError, match="Did you mean 'labels'"):
        read(tmp_path / "a.jsonl")


def saved_splits(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "state.json").write_text('{"_data_files": []}')
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(names)}))
    return folder


def test_splits_of_a_saved_folder_come_before_a_share(tmp_path, request_data):
    folder = saved_splits(tmp_path / "set", "train", "validation", "test")
    places = places_of(request_data(folder, validation="10%"))
    assert places == {"train": folder / "train", "validation": folder / "validation", "test": folder / "test"}


def test_no_validation_means_none_even_if_the_folder_has_one(tmp_path, request_data):
    folder = saved_splits(tmp_path / "set", "train", "validation")
    assert places_of(request_data(folder)) == {"train": folder / "train"}


def test_a_share_is_a_number_and_a_file_a_path(request_data):
    places = places_of(request_data("/data/a.csv", validation="12.5%", test="/data/b.csv"))
    assert places == {"train": Path("/data/a.csv"), "validation": 0.125, "test": Path("/data/b.csv")}


@pytest.mark.parametrize(("validation", "test"), [("60%", "40%"), ("0%", None), ("100%", None)])
def test_shares_that_leave_nothing_are_refused(request_data, validation, test):
    with pytest.raises(DataError, match="leave nothing"):
        places_of(request_data("/data/a.csv", validation=validation, test=test))


def test_the_content_of_a_folder_is_all_its_tables_and_descriptions(tmp_path):
    folder = saved_splits(tmp_path / "set", "train")
    (folder / "train" / "data.arrow").write_bytes(b"x")
    (folder / "train" / "cache.lock").write_bytes(b"")
    assert [path.name for path in source_files(folder / "train")] == ["data.arrow", "state.json"]
