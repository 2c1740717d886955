import re

import numpy as np

from trainwright.report import charts


def test_a_thinned_curve_keeps_its_ends_and_every_extreme():
    x = np.arange(100_000.0)
    y = np.sin(x / 3000)
    y[54_321], y[77_777] = 9.0, -9.0
    xs, ys = charts.thinned(x, y)
    assert len(xs) <= charts.POINTS
    assert (xs[0], xs[-1]) == (0, 99_999)
    assert (ys.max(), ys.min()) == (9.0, -9.0)
    assert (np.diff(xs) > 0).all()


def test_a_short_curve_is_left_as_it_is():
    x = np.arange(5.0)
    assert charts.thinned(x, x)[0] is x


def test_charts_follow_the_pages_colours_and_font():
    svg = charts.curves([("a", [1, 2, 3], [1.0, float("nan"), 2.0])], "step", band=0.1)
    assert svg.startswith("<svg")
    assert "var(--c1)" in svg
    assert "font-family" not in svg
    assert not [colour for colour in charts.VARIABLES if colour in svg]
    assert not re.search(r"<svg[^>]* width=", svg)


def test_two_charts_share_no_id():
    one = charts.curves([("a", [1, 2], [1.0, 2.0])], "step")
    two = charts.curves([("a", [1, 2], [2.0, 1.0])], "step")
    ids = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_a_confusion_matrix_shows_each_count_that_is_not_zero():
    svg = charts.confusion(np.array([[30, 2], [0, 17]]), ["是", "否"], "true", "predicted")
    shown = re.findall(r">(\d+)</text>", svg)
    assert sorted(map(int, shown)) == [2, 17, 30]
    assert "是" in svg


def test_a_histogram_of_one_length_can_be_drawn():
    assert "<svg" in charts.histogram([[7, 100]], 128, "tokens", "cut at")


def test_bars_shorten_long_names():
    svg = charts.bars(["a" * 80], [("train", [1])])
    assert "a" * 80 not in svg
    assert "…" in svg
