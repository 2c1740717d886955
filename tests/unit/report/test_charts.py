import re
import warnings

import numpy as np
import pytest

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


def test_drawing_chinese_says_nothing_about_fonts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        charts.bars(["好评", "差评"], [("训练", [1, 2])])


@pytest.mark.parametrize("label", ["$5 to $10", "$\\frac{$", "a_b^c"])
def test_a_label_with_the_signs_of_a_formula_is_shown_as_it_is(label):
    svg = charts.confusion(np.eye(2, dtype=int), [label, "other"], "true", "predicted")
    assert svg.count(f">{label}</text>") == 2


def test_a_matrix_of_two_classes_is_not_blown_up_to_the_width_of_the_page():
    assert matrix_width(["a", "b"]) < 400 < matrix_width("abcdefghij") < matrix_width("abcdefghijklmnopqrst")


def test_a_matrix_makes_room_for_long_names():
    cells = matrix_width(["a", "b"])
    assert matrix_width(["a" * 20, "b"]) > cells + 100
    assert matrix_width(["好" * 20, "b"]) > cells + 200


def matrix_width(labels):
    """The natural width in CSS pixels of a matrix of these labels."""
    svg = charts.confusion(np.eye(len(labels), dtype=int), list(labels), "true", "predicted")
    return float(re.search(r"--natural: (\d+)px", svg)[1])


def test_a_histogram_of_one_length_can_be_drawn():
    assert "<svg" in charts.histogram([[7, 100]], 128, "tokens", "cut at")


def test_bars_shorten_long_names():
    svg = charts.bars(["a" * 80], [("train", [1])])
    assert "a" * 80 not in svg
    assert "…" in svg
