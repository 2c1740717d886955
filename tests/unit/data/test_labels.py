import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainwright.data.cells import Boolean, Items, Number
from trainwright.data.labels import LabelColumn, Labels, ScoreColumn, SetColumn, ids_of, in_order, labels_of
from trainwright.errors import DataError

FILE = Path("reviews.csv")


def column_of(*cells):
    column = LabelColumn(FILE, "label")
    codes = column.codes(cells, range(2, 2 + len(cells))).tolist()
    column.check()
    return column, codes


def test_names_are_coded_in_order_of_appearance_with_their_first_lines():
    column, codes = column_of("pos", "neg", "pos", "mixed")
    assert codes == [0, 1, 0, 2]
    assert column.whole_names() == ["pos", "neg", "mixed"]
    assert column.first_lines == [2, 3, 5]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ([Number("1"), Number("0")], ["1", "0"]),
        ([Number("1.0"), Number("0.0"), Number("1")], ["1", "0"]),
        ([Boolean("true"), Boolean("false")], ["true", "false"]),
        (["1.0", "0.0"], ["1", "0"]),
        (["1.0", "1.5"], ["1.0", "1.5"]),
        (["01", "1"], ["01", "1"]),
    ],
)
def test_labels_of_any_one_kind_become_names(cells, names):
    assert column_of(*cells)[0].whole_names() == names


def test_a_score_is_refused_with_its_line():
    with pytest.raises(DataError, match=r"reviews\.csv, line 3: the label 0\.5 is a score, not a class"):
        column_of(Number("1"), Number("0.5"))


def test_a_list_written_as_text_is_refused_with_its_line():
    with pytest.raises(DataError, match=r"line 2: the label '\[0, 1\]' is a list"):
        column_of("[0, 1]")


def test_rows_without_a_label_are_counted_and_the_first_lines_named():
    with pytest.raises(DataError, match=r"rows without a label in 'label': 7 \(lines 3, 4, 5, 6, 7 and 2 more\)"):
        column_of("a", *[None, "", " "] * 2, "")


def test_mixed_kinds_are_refused_in_any_order():
    for cells in (["pos", Number("0"), "neg"], [Number("0"), "pos", "neg"]):
        with pytest.raises(DataError, match="of several kinds") as caught:
            column_of(*cells)
        assert "'pos'" in str(caught.value)
        assert "'0'" in str(caught.value)


def test_words_are_ordered_by_code_point_and_numbers_by_value():
    assert in_order(["b", "a", "B", "好"], None, FILE, [1, 2, 3, 4]) == ["B", "a", "b", "好"]
    assert in_order(["10", "9", "-1"], None, FILE, [1, 2, 3]) == ["-1", "9", "10"]


def test_ids_need_neither_start_at_0_nor_be_dense():
    names = ["5", "1", "3"]
    order = in_order(names, None, FILE, [2, 3, 4])
    assert order == ["1", "3", "5"]
    assert ids_of(names, Labels("class", order, order), FILE, [2, 3, 4]).tolist() == [2, 0, 1]


def test_the_order_asked_for_is_kept():
    assert in_order(["a", "b"], ["b", "a"], FILE, [2, 3]) == ["b", "a"]


def test_a_label_that_was_not_asked_for_is_refused_with_its_line():
    with pytest.raises(DataError, match=r"line 7: the label 'c' is not among data\.labels \(a, b\)"):
        in_order(["a", "b", "c"], ["a", "b"], FILE, [2, 3, 7])


def test_a_label_asked_for_that_no_row_has_is_refused_with_the_nearest():
    with pytest.raises(DataError, match=r"no text of .* has that label\. Did you mean 'positive'"):
        in_order(["positive", "negative"], ["postive", "negative", "positive"], FILE, [2, 3])


def test_a_label_that_training_never_saw_is_refused_with_file_and_line():
    with pytest.raises(DataError, match=r"test\.csv, line 9: the label 'neutral' is not in the training data"):
        ids_of(["pos", "neutral"], Labels("class", ["neg", "pos"], ["neg", "pos"]), Path("test.csv"), [2, 9])


def test_the_map_is_the_same_under_every_hash_seed():
    code = (
        "from pathlib import Path\n"
        "from trainwright.data.labels import LabelColumn\n"
        "from trainwright.data.labels import in_order\n"
        "column = LabelColumn(Path('a'), 'label')\n"
        "column.codes(['pos', 'neg', 'mixed', 'so-so', 'none'], range(5))\n"
        "print(in_order(column.whole_names(), None, Path('a'), column.first_lines))\n"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert seen == {b"['mixed', 'neg', 'none', 'pos', 'so-so']\n"}


def set_column(*cells, **options):
    column = SetColumn(FILE, "tags", **options)
    codes = column.codes(cells, range(2, 2 + len(cells))).tolist()
    column.check()
    return column.whole_names(), codes


def test_sets_are_read_from_lists_their_json_text_pythons_text_and_separators_in_any_order():
    names, codes = set_column(Items('["b", "a"]'), '["a", "b"]', "['b', 'a']", None, "[]", Items("[]"), "a")
    assert (names, codes) == (['["a", "b"]', "[]", '["a"]'], [0, 0, 0, 1, 1, 1, 2])
    names, codes = set_column("b| a|", "a|b", "c", "", separator="|")
    assert (names, codes) == (['["a", "b"]', '["c"]', "[]"], [0, 0, 1, 2])


def test_a_broken_list_is_refused_with_its_line():
    with pytest.raises(DataError, match=r"line 3: '\[a, b\]' looks like a list of labels and is none"):
        set_column("a", "[a, b]")


def test_columns_of_0_and_1_are_the_labels_and_anything_else_is_refused():
    column = SetColumn(FILE, "sad, funny", columns=("sad", "funny"))
    cells = {"sad": [Number("1"), "0", "1.0"], "funny": [Boolean("true"), "0", "0"]}
    assert column.codes_of_columns(cells, [2, 3, 4]).tolist() == [0, 1, 2]
    assert column.whole_names() == ['["funny", "sad"]', "[]", '["sad"]']
    with pytest.raises(DataError, match=r"line 5: the label column 'sad' holds '2', neither 0 nor 1"):
        column.codes_of_columns({"sad": ["2"], "funny": ["0"]}, [5])


def test_scores_that_are_equal_numbers_are_one_value_however_they_are_written():
    column = ScoreColumn(FILE, "score")
    codes = column.codes([Number("0.50"), "0.5", Number("5e-1"), Number("1"), "1.0"], range(2, 7)).tolist()
    column.check()
    assert (codes, column.whole_names()) == ([0, 0, 0, 1, 1], ["0.5", "1.0"])


@pytest.mark.parametrize("cell", ["good", Number("nan"), "inf"])
def test_a_score_that_is_no_number_is_refused_with_its_line(cell):
    with pytest.raises(DataError, match=rf"line 2: the label '{cell}' is no number"):
        ScoreColumn(FILE, "score").codes([cell], [2])


def test_a_list_or_score_for_a_class_names_the_task_that_takes_it():
    with pytest.raises(DataError) as caught:
        column_of(Items('["a"]'))
    assert "task: multi-label" in caught.value.way_out
    with pytest.raises(DataError) as caught:
        column_of(Number("0.5"))
    assert "task: regression" in caught.value.way_out


def test_labels_of_sets_are_the_members_and_other_splits_may_bring_new_sets_of_them():
    labels = labels_of("set", ['["b"]', '["a", "b"]'], None, FILE, [2, 3], others=[['["a"]', "[]"]])
    assert labels.names == ["a", "b"]
    assert labels.values == ['["a", "b"]', '["a"]', '["b"]', "[]"]
    assert labels.sets == [[0, 1], [0], [1], []]
    assert labels.rows_by_name(np.array([0, 0, 1, 3], np.int32)) == [3, 2]
    assert ids_of(['["a"]', "[]"], labels, FILE, [2, 3]).tolist() == [1, 3]
    with pytest.raises(DataError, match="line 9: the label 'c' is not in the training data"):
        ids_of(['["a", "c"]'], labels, FILE, [9])


def test_ranks_are_ordered_by_value_or_as_asked_and_words_without_an_order_are_refused():
    assert labels_of("rank", ["10", "9"], None, FILE, [2, 3]).names == ["9", "10"]
    assert labels_of("rank", ["good", "bad"], ["bad", "good"], FILE, [2, 3]).names == ["bad", "good"]
    with pytest.raises(DataError, match="no order of their own") as caught:
        labels_of("rank", ["good", "bad"], None, FILE, [2, 3])
    assert "data.labels" in caught.value.way_out


def test_sets_are_held_out_by_their_rarest_label_and_scores_by_tenths():
    labels = labels_of("set", ['["a", "b"]', '["a"]', "[]"], None, FILE, [2, 3, 4])
    rows = np.array([labels.values.index(one) for one in ['["a"]', '["a"]', '["a", "b"]', "[]"]], np.int32)
    a, b = labels.names.index("a") + 1, labels.names.index("b") + 1
    assert labels.stratum(rows).tolist() == [a, a, b, 0]
    scores = labels_of("score", [repr(n / 100) for n in range(100)], None, FILE, range(100))
    assert np.bincount(scores.stratum(np.arange(100, dtype=np.int32))).tolist() == [10] * 10
