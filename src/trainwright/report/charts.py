"""Charts as inline SVG that follow the page: its font, and its colours in light and dark."""

from __future__ import annotations

import hashlib
import io
import re
import unicodedata
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

# Colours that stand for variables of the page's style sheet; matplotlib writes them as they are here.
INK, FAINT, ONE, TWO, THREE, ON_DARK = "#010101", "#020202", "#030303", "#040404", "#050505", "#060606"
VARIABLES = {INK: "--ink-2", FAINT: "--line", ONE: "--c1", TWO: "--c2", THREE: "--c3", ON_DARK: "--card"}
PIXELS_PER_INCH = 100  # at the natural size, where letters are about as large as those of the page's small print
POINTS = 400  # of a curve: more than a screen shows
SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text, in the page's font
    "svg.hashsalt": "trainwright",  # the same chart gives the same bytes
    "text.parse_math": False,  # a label may hold dollar signs
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}

Series = tuple[str, Sequence[float], Sequence[float]]  # name, x, y


def curves(series: Sequence[Series], x_name: str, log_scale: bool = False, band: float | None = None) -> str:
    """One or more curves over steps.

    Args:
        series: Name, steps and values of each curve; values that are not finite leave a gap.
        x_name: Label of the x axis.
        log_scale: Logarithmic y axis.
        band: Half-width of a band around the first curve (a sampling error), or None.
    """
    with rc_context(SETTINGS):
        figure, axes = _figure(4.6, 2.5)
        for (name, x, y), colour in zip(series, (ONE, TWO, THREE), strict=False):
            xs, ys = thinned(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
            axes.plot(xs, ys, color=colour, label=name, marker="o" if len(xs) <= 12 else None, markersize=3.5)
            if band and colour == ONE:
                axes.fill_between(xs, ys - band, ys + band, color=colour, alpha=0.15, linewidth=0)
        if log_scale:
            axes.set_yscale("log")
        if len(series) > 1:
            axes.legend(loc="best", fontsize=9)
        axes.set_xlabel(x_name)
        axes.margins(x=0.02)
        return _svg(figure)


def bars(names: Sequence[str], groups: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Horizontal bars: one row a name, one bar a group."""
    with rc_context(SETTINGS | {"axes.grid.axis": "x"}):
        figure, axes = _figure(4.6, max(1.4, 0.32 * len(names) * max(1, len(groups) * 0.6) + 0.6))
        height = 0.8 / max(1, len(groups))
        places = np.arange(len(names))[::-1]
        for number, (name, values) in enumerate(groups):
            offset = (len(groups) - 1) / 2 - number
            axes.barh(places + offset * height, values, height * 0.9, color=(ONE, TWO, THREE)[number], label=name)
        axes.set_yticks(places, [shortened(name, 28) for name in names])
        if len(groups) > 1:
            figure.legend(loc="outside upper left", ncols=len(groups), fontsize=9)
        return _svg(figure)


def histogram(lengths: Sequence[Sequence[int]], limit: int | None, x_name: str, limit_name: str) -> str:
    """Rows by length in tokens, with the line at which rows are cut.

    Args:
        lengths: ``[tokens, rows]`` pairs.
        limit: The longest row in tokens that is kept whole.
    """
    values = np.array([pair[0] for pair in lengths], dtype=float)
    weights = np.array([pair[1] for pair in lengths], dtype=float)
    with rc_context(SETTINGS):
        figure, axes = _figure(4.6, 2.5)
        count = int(min(40, max(1, values.max() - values.min() + 1)))
        axes.hist(values, bins=count, weights=weights, color=ONE, alpha=0.85)
        if limit is not None and limit <= values.max() * 1.3:
            axes.axvline(limit, color=TWO, linestyle="--", linewidth=1.4)
            left = limit < values.max() * 0.7
            place = {"xytext": (4 if left else -4, 0), "textcoords": "offset points", "ha": "left" if left else "right"}
            axes.annotate(f"{limit_name} {limit}", (limit, axes.get_ylim()[1] * 0.94), fontsize=9, **place)
        axes.set_xlabel(x_name)
        return _svg(figure)


def confusion(counts: np.ndarray, labels: Sequence[str], true_name: str, predicted_name: str) -> str:
    """A confusion matrix as a heat map of shares of each true class.

    Args:
        counts: Shape (classes, classes); rows are the true classes.
    """
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    across, down = [shortened(name, 18) for name in labels], [shortened(name, 22) for name in labels]
    cell = max(0.3, min(0.8, 4.5 / len(labels)))  # inches; a count of three digits fits into the least of them
    with rc_context(SETTINGS | {"axes.grid": False, "axes.spines.left": False, "axes.spines.bottom": False}):
        leaning = 0.65 * max(map(_inches, across))  # names below lean by 40 degrees
        figure, axes = _figure(cell * len(labels) + max(map(_inches, down)) + 0.4, cell * len(labels) + leaning + 0.4)
        for row in range(len(labels)):
            for column in range(len(labels)):
                if counts[row, column]:
                    colour = ONE if row == column else TWO
                    strength = 0.12 + 0.88 * float(shares[row, column])
                    axes.add_patch(_square(column, row, colour, strength))
                    if len(labels) <= 15:
                        ink = ON_DARK if strength > 0.6 else INK
                        count = str(int(counts[row, column]))
                        axes.text(column, row, count, ha="center", va="center", fontsize=8.5, color=ink)
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xticks(range(len(labels)), across, rotation=40, ha="right")
        axes.set_yticks(range(len(labels)), down)
        axes.set_xlabel(predicted_name)
        axes.set_ylabel(true_name)
        return _svg(figure)


def scatter(pairs: Sequence[Sequence[float]], true_name: str, predicted_name: str) -> str:
    """True values against predicted ones, with the line where both are equal. pairs: [true, predicted]."""
    true, predicted = np.array(pairs, dtype=float).T
    with rc_context(SETTINGS):
        figure, axes = _figure(4.6, 3.6)
        ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
        axes.plot(ends, ends, color=FAINT)
        axes.plot(true, predicted, ".", color=ONE, alpha=0.5, markersize=4)
        axes.set_xlabel(true_name)
        axes.set_ylabel(predicted_name)
        return _svg(figure)


def thinned(x: np.ndarray, y: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """At most ``points`` of a curve, keeping the least and the greatest value of each stretch, and the ends."""
    if len(x) <= points:
        return x, y
    kept = {0, len(x) - 1}
    for stretch in np.array_split(np.arange(len(x)), points // 2 - 1):
        finite = stretch[np.isfinite(y[stretch])]
        if len(finite):
            kept |= {int(finite[np.argmin(y[finite])]), int(finite[np.argmax(y[finite])])}
    places = np.array(sorted(kept))
    return x[places], y[places]


def shortened(text: str, letters: int) -> str:
    """A text of at most so many letters, cut with an ellipsis."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _inches(text: str) -> float:
    """About how wide a text is at 10 points; a Chinese letter is twice as wide as a Latin one."""
    return 0.085 * sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _square(column: int, row: int, colour: str, strength: float) -> Any:
    from matplotlib.patches import FancyBboxPatch

    corner = (column - 0.46, row - 0.46)
    return FancyBboxPatch(
        corner, 0.92, 0.92, boxstyle="round,pad=0,rounding_size=0.08", color=colour, alpha=strength, lw=0
    )


def _svg(figure: Figure) -> str:
    """The figure as an SVG element: the page's colours, font and width; ids that no other chart has."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # Only the width of a letter is taken from matplotlib's font; the page's fonts have those that it lacks.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    natural = round(float(figure.get_figwidth()) * PIXELS_PER_INCH)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', rf'\1 style="--natural: {natural}px"', svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"font: ([\d.]+px) '[^']*'[^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"font-family: [^;\"]*;?", "", svg)
    salt = "c" + hashlib.blake2b(svg.encode(), digest_size=4).hexdigest()
    svg = re.sub(r'id="([^"]+)"', rf'id="{salt}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{salt}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{salt}-\1"', svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg
