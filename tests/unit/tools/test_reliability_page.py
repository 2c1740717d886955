import json

import pytest
from reliability_page import reliability_page


def trial(**changed):
    plain = {"task": "masked-lm", "killed": True, "in": "save", "from": "checkpoint-2", "resumed": True, "same": True}
    return plain | changed


@pytest.fixture
def page(tmp_path):
    def make(trials):
        names = ("commit", "date", "processor", "python", "torch", "transformers")
        about = {name: name for name in names} | {"cores": 2.0}
        (tmp_path / "kill.json").write_text(json.dumps({"about": about, "trials": trials}))
        return reliability_page(tmp_path)

    return make


def test_kills_are_counted_by_task_and_the_bound_is_that_of_no_failure(page):
    trials = [trial()] * 55 + [trial(task="classification", **{"in": "step"})] * 3 + [trial(killed=False)]
    text = page(trials)
    assert "| masked-lm | 56 | 55 | 55 | 0 | 0 |" in text
    assert "| classification | 3 | 3 | 0 | 0 | 0 |" in text
    # 58 successes: 1 - 0.05^(1/58) = 5.03 %, from the table of the exact binomial bound
    assert "fewer than 5.03%" in text


def test_failures_are_said(page):
    text = page([trial(), trial(same=False), trial(resumed=False, same=False)])
    assert "| all | 3 | 3 | 3 | 1 | 1 |" in text
    assert "2 of 3 killed runs failed" in text


def test_corruptions_are_counted_by_kind(tmp_path):
    names = ("commit", "date", "processor", "python", "torch", "transformers")
    good = {"kind": "flip", "found": True, "named": True, "survived": True}
    trials = [good] * 4 + [good | {"kind": "older_file", "named": False}]
    measured = {"about": {name: name for name in names} | {"cores": 2.0}, "trials": trials}
    (tmp_path / "corrupt.json").write_text(json.dumps(measured))
    text = reliability_page(tmp_path)
    assert "| flip | 4 | 4 | 4 | 4 |" in text
    assert "| older file | 1 | 1 | 0 | 1 |" in text
    assert "| all | 5 | 5 | 4 | 5 |" in text
    assert "no results yet" in text  # of kills
