import numpy as np

from trainwright.data.audit import row_facts
from trainwright.data.labels import Labels

NAMES = ["neg", "pos"]
LABELS = Labels("class", NAMES, NAMES)


def test_duplicates_are_counted_and_the_most_frequent_shown_with_their_lines(part_of):
    train = part_of("train", [("a", "pos"), ("b", "pos"), ("a", "pos"), ("c", "neg"), ("b", "pos"), ("a", "pos")])
    found = row_facts(train, train, LABELS)["duplicates"]
    assert (found["rows"], found["texts"]) == (3, 2)
    assert found["examples"] == [
        {"text": "a", "count": 3, "lines": [2, 4, 7]},
        {"text": "b", "count": 2, "lines": [3, 6]},
    ]


def test_contradicting_labels_are_shown_with_the_lines_of_each(part_of):
    train = part_of("train", [("a", "pos"), ("b", "pos"), ("a", "neg"), ("b", "pos"), ("a", "pos")])
    found = row_facts(train, train, LABELS)["conflicts"]
    assert found == {"texts": 1, "rows": 3, "examples": [{"text": "a", "lines": {"pos": [2, 6], "neg": [4]}}]}


def test_overlap_counts_exact_copies_and_those_with_another_label(part_of):
    train = part_of("train", [(f"text {n}", "pos" if n % 2 else "neg") for n in range(20)])
    # ten rows, three of them in train, one of these with the other label; a copy in capitals is no exact one
    rows = [("text 4", "neg"), ("text 7", "neg"), ("text 9", "pos"), ("TEXT 9", "pos")]
    test = part_of("test", rows + [(f"new {n}", "pos") for n in range(6)])
    found = row_facts(test, train, LABELS)["overlap"]
    assert (found["rows"], found["share"], found["other_label"]) == (3, 0.3, 1)
    assert found["examples"][1] == {
        "text": "text 7",
        "line": 3,
        "label": "neg",
        "train_line": 9,
        "train_label": "pos",
    }
    assert "overlap" not in row_facts(train, train, LABELS)


def test_blank_texts_are_listed_and_not_called_copies_of_each_other(part_of):
    train = part_of("train", [("", "pos"), ("a", "neg"), ("  ", "neg"), ("", "neg")])
    facts = row_facts(train, train, LABELS)
    assert facts["empty"] == {"count": 3, "lines": [2, 4, 5]}
    assert facts["duplicates"]["rows"] == 0
    assert facts["conflicts"]["texts"] == 0


def test_labels_and_characters_are_counted(part_of):
    train = part_of("train", [("x" * n, "pos") for n in range(1, 101)] + [("y" * 500, "neg")])
    facts = row_facts(train, train, LABELS)
    assert facts["rows"] == 101
    assert facts["labels"] == {"neg": 1, "pos": 100}
    assert facts["characters"] == {"p50": 51, "p90": 91, "p95": 96, "p99": 100, "max": 500, "max_line": 102}


def test_counts_agree_with_plain_python_on_many_rows(part_of):
    numbers = np.random.default_rng(0).integers(0, 300, 1000)
    rows = [(f"text {n}", NAMES[int(n * 7 + place // 900) % 2]) for place, n in enumerate(numbers)]
    train = part_of("train", rows)
    facts = row_facts(train, train, LABELS)
    labels_of = {}
    for text, label in rows:
        labels_of.setdefault(text, []).append(label)
    torn = {text for text, labels in labels_of.items() if len(set(labels)) > 1}
    assert facts["duplicates"]["rows"] == 1000 - len(labels_of)
    assert facts["conflicts"]["texts"] == len(torn) > 0
    assert facts["conflicts"]["rows"] == sum(len(labels_of[text]) for text in torn)
