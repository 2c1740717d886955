import copy
import re
from pathlib import Path

import pytest

from trainwright.data.findings import audit_of, refusal


def clean(rows=1000):
    """Facts of a split without anything to say."""
    return {
        "file": "train.csv",
        "rows": rows,
        "rows_dropped": 0,
        "empty": {"count": 0, "lines": []},
        "duplicates": {"rows": 0, "texts": 0, "examples": []},
        "conflicts": {"rows": 0, "texts": 0, "examples": []},
        "labels": {"neg": rows // 2, "pos": rows // 2},
        "characters": {"p50": 40, "p99": 90, "max": 100, "max_line": 5},
        "replacement": {"rows": 0, "lines": []},
        "reading": {
            "delimiter": None,
            "plain_quotes": False,
            "blank_lines": 0,
            "spanning": 0,
            "longest_span": None,
            "doubtful": [],
            "unused": [],
        },
        "tokens": {"p50": 10, "p99": 30, "max": 40, "max_line": 5},
        "truncation": {"max_length": 32, "rows": 0, "rows_share": 0.0, "tokens": 0, "tokens_share": 0.0},
        "unknown": {"tokens": 0, "share": 0.0, "lines": []},
    }


def changed(facts, **changes):
    facts = copy.deepcopy(facts)
    for name, value in changes.items():
        facts[name] = facts[name] | value if isinstance(value, dict) and name != "labels" else value
    return facts


@pytest.fixture
def found(request_data):
    """Findings by id for facts of splits: ``found(train, test=...)``."""

    def judge(train, request=None, **others):
        audit = audit_of(request or request_data("train.csv"), {"train": train, **others})
        return {finding.id: finding for finding in audit.findings}

    return judge


def test_clean_data_have_no_findings(found):
    assert found(clean(), test=clean() | {"overlap": {"rows": 0, "share": 0.0, "other_label": 0}}) == {}


@pytest.mark.parametrize(
    ("changes", "finding", "severity"),
    [
        ({"labels": {"pos": 1000}}, "data.one-class", "error"),
        ({"empty": {"count": 2, "lines": [3, 9]}}, "data.empty-text", "warning"),
        ({"rows": 99}, "data.few-rows", "warning"),
        ({"duplicates": {"rows": 1}}, "data.duplicates", "note"),
        ({"duplicates": {"rows": 51}}, "data.duplicates", "warning"),
        ({"conflicts": {"texts": 1, "rows": 2}}, "data.conflicting-labels", "note"),
        ({"conflicts": {"texts": 5, "rows": 11}}, "data.conflicting-labels", "warning"),
        ({"overlap": {"rows": 3, "share": 0.003, "other_label": 0}}, "data.overlap", "note"),
        ({"overlap": {"rows": 30, "share": 0.03, "other_label": 0}}, "data.overlap", "warning"),
        ({"labels": {"pos": 950, "neg": 50}}, "data.imbalance", "warning"),
        ({"labels": {"pos": 9, "neg": 80}}, "data.rare-label", "warning"),
        ({"labels": {"pos": 500, "Pos ": 500}}, "data.similar-labels", "warning"),
        ({"truncation": {"rows_share": 0.06}}, "data.truncation", "warning"),
        ({"truncation": {"tokens_share": 0.03}}, "data.truncation", "warning"),
        ({"characters": {"max": 200_000}}, "data.long-text", "warning"),
        ({"replacement": {"rows": 1, "lines": [4]}}, "data.replacement-characters", "warning"),
        ({"unknown": {"share": 0.02}}, "data.unknown-tokens", "warning"),
        ({"reading": {"spanning": 3, "longest_span": (2, 5)}}, "data.long-record", "note"),
        ({"reading": {"delimiter": ";"}}, "data.delimiter", "note"),
        ({"reading": {"plain_quotes": True}}, "data.plain-quotes", "note"),
        ({"reading": {"blank_lines": 3}}, "data.blank-lines", "note"),
        ({"reading": {"unused": ["id"]}}, "data.unused-columns", "note"),
    ],
)
def test_each_fault_is_found_and_nothing_else(found, changes, finding, severity):
    findings = found(changed(clean() | {"overlap": {"rows": 0}}, **changes))
    assert {name: item.severity for name, item in findings.items()} == {finding: severity}
    assert findings[finding].message
    assert findings[finding].evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {"pos": 900, "neg": 100}},
        {"labels": {"pos": 11, "neg": 90}},
        {"truncation": {"rows_share": 0.05, "tokens_share": 0.02}},
        {"unknown": {"share": 0.01}},
        {"characters": {"max": 9_000}},
    ],
)
def test_what_is_within_bounds_is_not_found(found, changes):
    assert not set(found(changed(clean(), **changes))) - {"data.imbalance"} or changes["labels"]["pos"] == 900


def test_empty_training_rows_refuse_the_run_where_the_recipe_says_so(found, request_data):
    facts = changed(clean(), empty={"count": 2, "lines": [3, 9]}, rows_dropped=2)
    refusing = request_data("train.csv", empty_rows="refuse")
    finding = found(facts, refusing)["data.empty-text"]
    assert finding.severity == "error"
    assert "lines 3, 9" in finding.message
    assert finding.change == {"data.empty_rows": "drop"}
    assert found(clean(), refusing, test=facts)["data.empty-text"].severity == "warning"


def test_truncation_suggests_a_length_that_holds_most_rows(found, request_data):
    facts = changed(clean(), tokens={"p99": 102}, truncation={"max_length": 8, "rows_share": 1.0, "tokens_share": 0.94})
    finding = found(facts)["data.truncation"]
    assert finding.change == {"data.max_length": 104}
    assert "cuts 100.0% of the rows and removes 94.0% of all tokens" in finding.message
    small_model = request_data("train.csv", model_max_length=8)
    assert found(facts, small_model)["data.truncation"].change == {}


def test_the_longest_text_is_named_with_what_truncation_removes_of_it(found):
    facts = changed(clean(), characters={"max": 200_000, "max_line": 7}, tokens={"max": 50_000})
    evidence = found(facts)["data.long-text"].evidence
    assert (evidence["line"], evidence["characters"], evidence["tokens"]) == (7, 200_000, 50_000)
    assert evidence["removed"] == pytest.approx(0.99936)


def test_a_doubtful_record_is_a_warning_that_names_its_lines(found):
    doubtful = [{"first": 2, "last": 4, "values": {}}]
    reading = {"spanning": 1, "longest_span": (2, 4), "doubtful": doubtful}
    finding = found(changed(clean(), reading=reading))["data.long-record"]
    assert finding.severity == "warning"
    assert "(lines 2..4)" in finding.message


def test_classes_without_an_evaluated_row_are_named(found):
    test = changed(clean(), labels={"pos": 1000, "neg": 0})
    assert found(clean(), test=test)["data.unmeasured-label"].evidence["labels"] == ["neg"]


def test_imbalance_says_what_guessing_scores_and_offers_weights(found):
    finding = found(changed(clean(), labels={"a": 900, "b": 90, "c": 10}))["data.imbalance"]
    assert "'a' has 90 times the training rows of 'c'; always guessing it scores 90.0%" in finding.message
    assert finding.change == {"learn.class_weights": "balanced"}


def test_errors_come_first_and_the_refusal_carries_the_audit(request_data):
    facts = changed(clean(), labels={"pos": 1000}, duplicates={"rows": 60}, reading={"unused": ["id"]})
    audit = audit_of(request_data("train.csv"), {"train": facts})
    assert [finding.severity for finding in audit.findings] == ["error", "warning", "note"]
    error = refusal(audit)
    assert error.exit_code == 2
    assert "one class only (pos)" in error.message
    assert error.audit is audit
    assert refusal(audit_of(request_data("train.csv"), {"train": clean()})) is None


def test_every_finding_is_documented():
    root = Path(__file__).parents[3]
    code = "".join((root / "src/trainwright/data" / name).read_text() for name in ("rules_rows.py", "rules_text.py"))
    page = (root / "docs" / "data.md").read_text(encoding="utf-8")
    rows = [line.partition(" | ")[0] for line in page.splitlines() if line.startswith("| `data.")]
    documented = {name for row in rows for name in re.findall(r"`(data\.[a-z-]+)`", row)}
    assert documented == set(re.findall(r'Finding\(\s*"(data\.[a-z-]+)"', code))
