import numpy as np
import pytest

from trainwright.data.audit import row_facts
from trainwright.data.labels import Labels
from trainwright.data.near import loosely, together
from trainwright.data.prepare import prepare

NAMES = ["neg", "pos"]
LABELS = Labels("class", NAMES, NAMES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Good  Film", "good film"),
        ("ＧＯＯＤ，１２３！", "good,123!"),
        ("很 好 。", "很好。"),
        ("ｶﾞ", "ガ"),  # half width, the mark apart
        ("Straße", "STRASSE"),
        ("a\u3000b\n", "ab"),
    ],
)
def test_case_spaces_and_width_do_not_matter(one, other):
    assert loosely(one) == loosely(other)


@pytest.mark.parametrize(("one", "other"), [("good film", "good films"), ("很好", "很差"), ("a.b", "a,b"), ("é", "e")])
def test_anything_else_does(one, other):
    assert loosely(one) != loosely(other)


def test_near_copies_inside_a_split_are_counted_beside_exact_ones(part_of):
    rows = [("A b", "pos"), ("a  B", "pos"), ("ab", "neg"), ("ab", "neg"), ("c", "pos"), ("c", "neg"), ("C", "neg")]
    train = part_of("train", [*rows, ("other", "pos"), ("", "pos"), (" ", "neg")])
    facts = row_facts(train, train, LABELS)
    # "A b", "a  B", "ab" are one text, "c" and "C" another: five texts that are two. "c" contradicts itself exactly.
    assert facts["near_duplicates"] == {
        "texts": 3,
        "torn": 1,
        "examples": [
            [{"line": 2, "text": "A b"}, {"line": 3, "text": "a B"}],
            [{"line": 6, "text": "c"}, {"line": 8, "text": "C"}],
        ],
    }
    assert facts["duplicates"]["rows"] == 2
    assert facts["conflicts"]["texts"] == 1


def test_of_ten_test_rows_three_are_exact_copies_and_two_loose_ones(part_of):
    train = part_of("train", [(f"Film {n}", NAMES[n % 2]) for n in range(20)])
    rows = [("Film 3", "pos"), ("Film 4", "neg"), ("Film 5", "pos"), ("FILM  6", "neg"), ("Ｆｉｌｍ７", "neg")]
    test = part_of("test", rows + [(f"new {n}", "pos") for n in range(5)])
    facts = row_facts(test, train, LABELS)
    assert (facts["overlap"]["rows"], facts["near_overlap"]["rows"], facts["near_overlap"]["share"]) == (3, 2, 0.2)
    assert facts["near_overlap"]["examples"] == [
        [{"line": 5, "text": "FILM 6"}, {"line": 8, "text": "Film 6"}],
        [{"line": 6, "text": "Ｆｉｌｍ７"}, {"line": 9, "text": "Film 7"}],
    ]


def test_the_longest_rows_are_named(part_of):
    train = part_of("train", [("a" * n, NAMES[n % 2]) for n in (3, 90, 7, 90, 2, 8, 1)])
    longest = row_facts(train, train, LABELS)["longest"]
    assert [(row["line"], row["characters"]) for row in longest] == [(3, 90), (5, 90), (7, 8), (4, 7), (2, 3)]
    assert longest[0]["text"] == "a" * 80


def test_a_text_without_a_loose_copy_keeps_its_own_hash():
    exact = np.array([5, 9, 3, 9, 7], np.uint64)
    loose = np.array([1, 2, 1, 2, 4], np.uint64)
    assert together(exact, loose).tolist() == [3, 9, 3, 9, 7]


def test_loose_copies_stay_on_one_side_of_a_split(write_table, request_data, tmp_path):
    rows = [(text, NAMES[n % 2]) for n in range(60) for text in (f"good film {n}", f"GOOD film  {n}")]
    asked = request_data(write_table("a.csv", rows), validation="20%", test="20%")
    facts = prepare(asked, tmp_path / "cache", lambda *told: None).audit.facts
    assert [facts[split]["rows"] for split in ("train", "validation", "test")] == [72, 24, 24]
    assert [facts[split]["near_overlap"]["rows"] for split in ("validation", "test")] == [0, 0]


def test_the_audit_says_how_many_more_rows_are_nearly_in_training(write_table, request_data, tmp_path):
    train = write_table("train.csv", [(f"film {n}", NAMES[n % 2]) for n in range(20)])
    test = write_table("test.csv", [("FILM 1", "pos"), ("film 2", "neg"), *[(f"plot {n}", "pos") for n in range(8)]])
    audit = prepare(request_data(train, test=test), tmp_path / "cache", lambda *told: None).audit
    found = {one.id: one for one in audit.findings}
    assert found["data.near-overlap"].severity == "warning"
    assert found["data.near-overlap"].message.startswith("test: 1 more of 10 rows (10.0%) differ from a training row")
    assert found["data.overlap"].message.startswith("test: 1 of 10 rows")


def test_loose_copies_with_other_labels_are_a_warning(write_table, request_data, tmp_path):
    rows = [(f"film {n}", NAMES[n % 2]) for n in range(50)] + [("FILM 1", "neg"), ("FILM 2", "neg")]
    audit = prepare(request_data(write_table("a.csv", rows)), tmp_path / "cache", lambda *told: None).audit
    (found,) = [one for one in audit.findings if one.id == "data.near-duplicates"]
    assert (found.evidence["texts"], found.evidence["torn"], found.severity) == (2, 1, "warning")
