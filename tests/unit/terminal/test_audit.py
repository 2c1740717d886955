import io

from rich.console import Console

from trainwright.records import Audit, Finding
from trainwright.terminal.audit import audit_view


def shown(audit):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(audit_view(audit))
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def split(**changes):
    facts = {"rows": 200, "labels": {"pos": 150, "neg": 50}, "empty": {"count": 4, "lines": [2]}}
    facts |= {"characters": {"p50": 10, "p99": 90, "max": 1234, "max_line": 17}}
    return facts | changes


def test_facts_stand_beside_each_other_and_what_is_not_known_is_not_available():
    test = split(rows=100, empty={"count": 0}, overlap={"rows": 25}, labels={"pos": 40, "neg": 60})
    lines = shown(Audit([], {"train": split(), "test": test}))
    assert "data train test" in lines
    assert "rows 200 100" in lines
    assert "without text 4 (2.0%) 0" in lines
    assert "in training too n/a 25 (25.0%)" in lines
    assert "characters, longest (line) 1,234 (17) 1,234 (17)" in lines
    assert "pos 150 (75.0%) 40 (40.0%)" in lines
    assert not any(line.startswith("tokens") for line in lines)
    assert lines[-1] == "Nothing was found that deserves a look."


def test_of_many_labels_the_most_frequent_are_shown_and_the_rest_is_counted():
    labels = {f"class {n}": n for n in range(1, 51)}
    lines = shown(Audit([], {"train": split(rows=1275, labels=labels)}))
    assert "class 50 50 (3.9%)" in lines
    assert "class 31 31 (2.4%)" in lines
    assert not any(line.startswith("class 30 ") for line in lines)
    assert "and 30 more" in lines


def test_a_finding_is_shown_with_the_change_that_helps():
    finding = Finding("data.empty-text", "error", "4 rows.", {}, "Leave them out:", {"data.empty_rows": "drop"})
    lines = shown(Audit([finding], {"train": split()}))
    assert lines[-2:] == ["✗ 4 rows.", "Leave them out: --set data.empty_rows=drop"]
