"""Charts of the page and the report as SVG text; colors are set by CSS classes.

Names in it are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from nearsay.displays.drawing import shortened
from nearsay.posterior.evidence.records import likely_range

SIDE = 300
# Space for axis labels.
LEFT, BELOW, ABOVE, RIGHT = 56, 46, 10, 24
LONGEST_WORD = 18
CELL = 34
# Up to so many cells along an axis, values are written into them.
WRITTEN = 14
# Opacity of the darkest cell: text on it must be legible in light and dark mode.
DARKEST = 0.5


def reliability_svg(bins: Sequence[dict[str, Any]]) -> str:
    """Reliability diagram: accuracy against confidence, with confidence intervals.

    Parameters
    ----------
    bins : as ``evaluation_summary`` gives them in ``reliability``

    >>> drawn = reliability_svg([{"confidence": 0.75, "accuracy": 0.8, "n_items": 10}])
    >>> drawn.startswith("<svg"), drawn.count("<circle"), "style" in drawn
    (True, 1, False)
    """
    confidence = np.array([each["confidence"] for each in bins])
    right = np.array([each["accuracy"] for each in bins])
    low, high = likely_range(right, np.array([each["n_items"] for each in bins], np.float64))
    start = float(np.floor(10 * min([1.0, *confidence.tolist(), *low.tolist()])) / 10) if len(bins) else 0.0
    start = min(max(start, 0.0), 0.9)
    ranges = "".join(
        f'<line class="range" {_line(x, a, x, b, start, start)}/>'
        for x, a, b in zip(confidence, low, high, strict=True)
    )
    points = "".join(_dot(x, y, start, start, "point") for x, y in zip(confidence, right, strict=True))
    line = f'<polyline class="curve" points="{_points(confidence, right, start, start)}"/>'
    diagonal = f'<line class="even" {_line(start, start, 1, 1, start, start)}/>'
    caption = "How sure the answers were against how often they were right; on the dashed line both are the same"
    return _frame(
        caption, "how sure the answer was", "share that was right", start, start, diagonal + ranges + line + points
    )


def curve_svg(
    curve: Sequence[dict[str, float]],
    target: float,
    best: dict[str, float] | None,
    reached: dict[str, float] | None = None,
) -> str:
    """The accuracy-specificity curve of hedged answers, with the ``target`` accuracy as a line.

    Marked are the ``best`` point of the curve that reaches it, and the point ``reached``, which may lie off the curve.

    >>> curve_svg([{"accuracy": 0.7, "gain": 0.9}, {"accuracy": 1.0, "gain": 0.2}], 0.9, None).count("<circle")
    0
    """
    accuracy, gain = (np.array([each[name] for each in curve]) for name in ("accuracy", "gain"))
    marks = [target, *accuracy.tolist(), *([reached["accuracy"]] if reached else [])]
    start = min(max(float(np.floor(10 * min(marks)) / 10), 0.0), 0.9)
    line = f'<line class="even" {_line(0, target, 1, target, 0, start)}/>'
    line += f'<polyline class="curve" points="{_points(gain, accuracy, 0, start)}"/>'
    for at, kind in ((best, "point"), (reached, "point now")):
        line += _dot(at["gain"], at["accuracy"], 0, start, kind) if at else ""
    caption = f"How often hedged answers are right against how specific they are; the required accuracy is {target:.0%}"
    return _frame(caption, "how specific (share of a full answer)", "share that was right", 0, start, line)


def heat_map_svg(
    down: Sequence[Any], across: Sequence[Any], shares: Any, words: Sequence[Sequence[str]], caption: str
) -> str:
    """A heat map, darker for larger shares, with values where they fit.

    Parameters
    ----------
    down, across : names of the lines and the columns
    shares : (n_down, n_across) from 0 to 1
    words : (n_down, n_across) the text of each cell
    caption : a description for screen readers.

    >>> heat_map_svg(["a"], ["b", "<c>"], [[0.5, 0.25]], [["1", "2"]], "two cells").count("<rect")
    2
    """
    names = [_word(name) for name in down], [_word(name) for name in across]
    left = 12 + 7 * max(map(len, names[0]))
    above = 14 + 5 * max(map(len, names[1]))
    write = len(across) <= WRITTEN
    cell = CELL if write else CELL // 2
    slant = above - 8
    width, height = left + cell * len(across) + above, above + cell * len(down) + 4
    parts = [_svg(width, height, caption, "map")]
    for column, name in enumerate(names[1]):
        if column % 2 and not write:  # small cells have room for every other name
            continue
        x = left + cell * column + cell / 2
        parts.append(f'<text class="tick" transform="translate({x:.1f} {slant}) rotate(-40)">{escape(name)}</text>')
    for line, name in enumerate(names[0]):
        y = above + cell * line + cell / 2
        parts.append(f'<text class="tick end" x="{left - 6}" y="{y + 4:.1f}">{escape(name)}</text>')
        for column in range(len(across)):
            # The square root makes small shares visible, which are the most frequent.
            shade, x = DARKEST * float(np.sqrt(shares[line][column])), left + cell * column
            box = f'x="{x}" y="{above + cell * line}" width="{cell - 1}" height="{cell - 1}"'
            parts.append(f'<rect class="cell" {box} fill-opacity="{shade:.3f}"/>')
            if write and words[line][column]:
                parts.append(
                    f'<text class="held" x="{x + cell / 2 - 0.5:.1f}" y="{y + 4:.1f}">'
                    f"{escape(words[line][column])}</text>"
                )
    return "".join(parts) + "</svg>"


def confusion_svg(level: dict[str, Any]) -> str:
    """The confusion matrix of a level of ``confusion_by_level``: true nodes downward, predicted ones across."""
    counts = np.array(level["counts"], np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    words = [[f"{n:,}" if n else "" for n in line] for line in level["counts"]]
    return heat_map_svg(level["nodes"], level["nodes"], shares, words, "True and predicted nodes")


def case_table_svg(table: dict[str, Any]) -> str:
    """A table of past cases of ``plain_tables`` as a heat map; one of a single axis is a row of cells."""
    p = np.atleast_2d(np.array(table["probability"], np.float64))
    down, across = ([""], table["ticks"][0]) if len(table["ticks"]) == 1 else table["ticks"]
    words = [[f"{100 * each:.0f}" for each in line] for line in p.tolist()]
    return heat_map_svg(down, across, p, words, f"{table['name']}: {' by '.join(table['axes'])}; probabilities")


# ------------------------------------------------------------------ parts


def _frame(caption: str, x_name: str, y_name: str, x_start: float, y_start: float, inside: str) -> str:
    """Axes from their starts up to 1, with a tick at each tenth, or fifth where they are long."""
    width, height = LEFT + SIDE + RIGHT, ABOVE + SIDE + BELOW
    parts = [_svg(width, height, caption, "chart")]
    for tick in _ticks(x_start):
        x, _ = _place(tick, 0, x_start, y_start)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{ABOVE}" y2="{ABOVE + SIDE}"/>')
        parts.append(f'<text class="tick middle" x="{x:.1f}" y="{ABOVE + SIDE + 18}">{100 * tick:.0f} %</text>')
    for tick in _ticks(y_start):
        _, y = _place(0, tick, x_start, y_start)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + SIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{y + 4:.1f}">{100 * tick:.0f} %</text>')
    middle = ABOVE + SIDE / 2
    parts.append(f'<text class="name middle" x="{LEFT + SIDE / 2:.0f}" y="{height - 8}">{escape(x_name)}</text>')
    parts.append(
        f'<text class="name middle" transform="translate(10 {middle:.0f}) rotate(-90)">{escape(y_name)}</text>'
    )
    return "".join(parts) + inside + "</svg>"


def _svg(width: float, height: float, caption: str, kind: str) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return f'<svg class="{kind}" {size} role="img" aria-label="{escape(caption)}">'


def _ticks(start: float) -> list[float]:
    step = 0.2 if start < 0.5 else 0.1 if start < 0.85 else 0.02
    first = int(np.ceil(round(start / step, 6)))
    return [round(step * number, 6) for number in range(first, round(1 / step) + 1)]


def _place(x: float, y: float, x_start: float, y_start: float) -> tuple[float, float]:
    across, up = (x - x_start) / (1 - x_start), (y - y_start) / (1 - y_start)
    return LEFT + SIDE * across, ABOVE + SIDE * (1 - up)


def _line(x1: float, y1: float, x2: float, y2: float, x_start: float, y_start: float) -> str:
    (a, b), (c, d) = _place(x1, y1, x_start, y_start), _place(x2, y2, x_start, y_start)
    return f'x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"'


def _dot(x: float, y: float, x_start: float, y_start: float, kind: str) -> str:
    across, down = _place(x, y, x_start, y_start)
    return f'<circle class="{kind}" cx="{across:.1f}" cy="{down:.1f}" r="{6 if "now" in kind else 4}"/>'


def _points(x: np.ndarray, y: np.ndarray, x_start: float, y_start: float) -> str:
    places = (_place(a, b, x_start, y_start) for a, b in zip(x, y, strict=True))
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in places)


def _word(name: Any) -> str:
    return shortened(f"{name:.3g}" if isinstance(name, float) else str(name), LONGEST_WORD)
