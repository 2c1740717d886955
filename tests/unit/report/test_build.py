import re
from html.parser import HTMLParser

import numpy as np
import pytest

from trainwright.report.build import write_report
from trainwright.report.words import confused_pairs, verdict
from trainwright.runs.folder import RunFolder


class Page(HTMLParser):
    """Tags that are open, ids, links within the page, and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.words, self.outside = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        if tag not in ("meta", "br", "img", "link"):
            self.open.append(tag)
        if "id" in names:
            self.ids.append(names["id"])
        for name in ("href", "src", "xlink:href"):
            value = names.get(name) or ""
            (self.links if value.startswith("#") else self.outside).append(value) if value else None

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "br", "img", "link"):
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def report(made_up_run):
    def make(language="en", **options):
        text = write_report(made_up_run(**options), language).read_text(encoding="utf-8")
        return text, Page(text)

    return make


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("state", ["finished", "stopped", "failed", "refused", "training"])
def test_a_report_is_one_whole_page_that_needs_nothing_from_outside(report, state, language):
    text, page = report(language, state=state, because="a reason")
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert page.outside == []
    assert len(text.encode()) < 1_000_000
    assert "<script" not in text
    assert f'lang="{"zh-CN" if language == "zh" else "en"}"' in text


def test_what_users_wrote_is_escaped(report):
    text, _page = report()
    assert "<script>x" not in text
    assert "&lt;script&gt;x" in text
    assert "negative <b>" not in text


@pytest.mark.parametrize(
    "missing", ["journal", "data.json", "plan.json", "machine.json", "results.json", "recipe.yaml"]
)
def test_a_folder_with_a_missing_file_still_has_a_report(made_up_run, missing):
    folder = made_up_run()
    path = folder.path / missing
    for file in path.glob("*") if path.is_dir() else [path]:
        file.unlink()
    Page(write_report(folder, "en").read_text())


def test_a_run_that_only_just_began_has_a_report(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.set_status(state="opened")
    assert "going on" in write_report(folder, "en").read_text()


def test_the_verdict_names_score_error_baseline_weakest_class_and_time(made_up_run):
    sentences = " ".join(verdict(made_up_run()))
    # 126 of 150 are right; 1.96 x sqrt(.84 x .16 / 150) is 5.9 %; 70 of 150 are positive
    for words in ("84.0%", "5.9%", "46.7%", "real", "neutral", "67%", "1h 00m", "step 100"):
        assert words in sentences


def test_a_score_within_its_error_of_the_baseline_is_not_called_real(made_up_run):
    sentences = verdict(made_up_run(labels=["a", "b"], confusion=[[12, 3], [5, 4]]))
    assert "may be chance" in sentences[0]


def test_confused_pairs_are_counted_from_the_matrix(made_up_run):
    pairs = confused_pairs(made_up_run().results()["validation"])
    assert [(pair["rows"], pair["true"], pair["predicted"]) for pair in pairs[:2]] == [
        (8, "negative <b>", "neutral"),
        (6, "neutral", "negative <b>"),
    ]
    assert pairs[0]["share"] == 8 / 50


def test_only_wrong_rows_are_listed_the_surest_first(report):
    _text, page = report()
    words = " ".join(page.words)
    assert words.index("<script>x") < words.index("unsure")
    assert "right\n" not in words


def test_cost_is_worked_out_from_price_and_time_or_not_available(report, made_up_run):
    _text, page = report(price="3.5 CNY")  # one hour
    assert "3.50 CNY" in page.words


def test_without_a_price_the_cost_is_not_available(report):
    _text, page = report()
    assert "n/a" in page.words
    assert "no price was given" in page.words


def test_many_classes_become_a_table_of_confused_pairs(report):
    classes = 77
    confusion = np.eye(classes, dtype=int) * 10
    confusion[3, 5] = 4
    text, page = report(labels=[f"class {number}" for number in range(classes)], confusion=confusion.tolist())
    assert "Confusion matrix" not in text
    assert "class 3" in page.words
    assert len(text.encode()) < 1_000_000


def test_a_hundred_thousand_points_stay_small(report):
    text, _page = report(steps=3000)
    assert len(text.encode()) < 500_000


def test_the_same_run_gives_the_same_page(made_up_run):
    folder = made_up_run()
    first = write_report(folder, "en").read_text()
    assert re.sub(r"\s", "", first) == re.sub(r"\s", "", write_report(folder, "en").read_text())
