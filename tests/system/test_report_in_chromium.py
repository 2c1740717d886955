"""The report as a browser lays it out: phone and desktop, light and dark, English and Chinese, without a network."""

from __future__ import annotations

import re
import shutil

import pytest

PHONE, DESKTOP = 390, 1280  # CSS pixels
WHITE_HALF = 128  # a channel's middle, between a light and a dark ground


@pytest.fixture(scope="module")
def reports(finished_run, trainwright, tmp_path_factory):
    """The report of one run in both languages."""
    folder = tmp_path_factory.mktemp("reports")
    for language in ("zh", "en"):
        done = trainwright(finished_run, "--lang", language, "show", str(finished_run), "--report")
        assert done.returncode == 0, done.stderr
        shutil.copy(finished_run / "report.html", folder / f"{language}.html")
    return folder


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read(browser, reports, language, width, dark):
    seen = browser.measure(reports / f"{language}.html", width, dark)
    assert seen["overflow"] <= 0
    assert seen["pale"] == []
    assert all((channel < WHITE_HALF) is dark for channel in seen["background"])
    assert seen["drawings"] >= 3
    assert seen["requests"] == []
    assert seen["language"].startswith(language)


def test_its_words_are_in_the_language_asked_for(browser, reports):
    chinese = browser.measure(reports / "zh.html", DESKTOP, False)["text"]
    english = browser.measure(reports / "en.html", DESKTOP, False)["text"]
    assert len(re.findall(r"[\u4e00-\u9fff]", chinese)) > 200
    assert not re.search(r"[\u4e00-\u9fff]", english)


def test_both_languages_show_the_same_numbers(browser, reports):
    texts = [browser.measure(reports / f"{language}.html", DESKTOP, False)["text"] for language in ("en", "zh")]
    shares = [sorted(re.findall(r"\d+\.\d+%", text)) for text in texts]
    assert shares[0] == shares[1]
    assert shares[0]


def test_it_is_one_small_file(reports):
    for report in reports.glob("*.html"):
        assert report.stat().st_size < 1_000_000
        assert not re.search(r"""(src|href)=["'](?!data:|#|https?://)""", report.read_text(encoding="utf-8"))


# -- the measure itself ------------------------------------------------------------------------------------------------

PAGE = """<!doctype html><html lang="zh-CN"><head><meta charset="utf-8"><style>
body {{ background: {ground}; color: {ink}; margin: 0 }} @media (max-width: 600px) {{ .only-wide {{ display: none }} }}
</style></head><body><p>Can this be read?</p><p class="only-wide">wide</p>{more}</body></html>"""


def test_the_measure_sees_what_is_wrong(browser, tmp_path):
    page = tmp_path / "page.html"
    wide = '<div style="width:900px">wide</div><svg width="100" height="9"><text fill="#fefefe">pale</text></svg>'
    page.write_text(PAGE.format(ground="#ffffff", ink="#eeeeee", more=wide + '<img src="https://example.invalid/a">'))
    seen = browser.measure(page, PHONE, False)
    assert seen["overflow"] == 900 - PHONE
    assert [line.split(":")[0] for line in seen["pale"]] == ["Can this be read?", "wide", "pale"]
    assert seen["requests"] == ["https://example.invalid/a"]
    assert seen["drawings"] == 1


def test_the_measure_knows_what_a_text_in_a_drawing_stands_on(browser, tmp_path):
    page = tmp_path / "page.html"
    cell = '<svg width="100" height="50"><rect width="100" height="50" fill="{}" fill-opacity="{}"/>{}</svg>'
    word = '<text x="10" y="30" fill="#ffffff">{}</text>'
    cells = [("#000000", 1, "on black"), ("#000000", 0.1, "on light grey"), ("#ffff00", 1, "on yellow")]
    drawings = "".join(cell.format(colour, opacity, word.format(said)) for colour, opacity, said in cells)
    page.write_text(PAGE.format(ground="#ffffff", ink="#000000", more=f'<div style="height:3000px"></div>{drawings}'))
    seen = browser.measure(page, PHONE, False)
    assert [line.split(":")[0] for line in seen["pale"]] == ["on light grey", "on yellow"]


def test_the_measure_lets_a_good_page_pass(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(ground="#101010", ink="#f0f0f0", more="<p>中文</p>"), encoding="utf-8")
    narrow, wide = (browser.measure(page, width, True) for width in (PHONE, DESKTOP))
    assert (narrow["overflow"], narrow["pale"], narrow["requests"], narrow["language"]) == (0, [], [], "zh-CN")
    assert narrow["background"] == [16, 16, 16]
    assert "wide" not in narrow["text"]
    assert "wide" in wide["text"]
    assert "中文" in wide["text"]
