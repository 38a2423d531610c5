"""Bars of wrong answers, and of right ones by how specific they are (Figure 7)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.metrics.specificity import Breakdown

# Shades of one color that can be told apart; more levels are grouped into bands of whole bits.
MOST_LEVELS = 8
MOST_BANDS = 4
# A part lower than this has no room for its number.
ROOM_FOR_A_NUMBER = 0.045
ROOT_COLOR = "#d4d4d4"
BAR_WIDTH = 0.72
LONGEST_LINE = 9


class BreakdownDisplay:
    """A bar for each method: right answers from the most specific at the bottom up to the root, wrong ones on top.


    Attributes
    ----------
    shares : dict of method: dict of level of information: share of answers
        In the order of the bar from the bottom up, "wrong" last. A share of each bar that is drawn; they sum to 1.
    figure_, ax_
        Where it was drawn. There after ``plot``.

    >>> from nearsay.metrics.specificity import breakdown
    >>> from nearsay.taxonomy.taxonomy import Taxonomy
    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": ["tabby", "Siamese"]}})
    >>> y_true, y_pred = ["corgi", "corgi", "tabby", "tabby"], ["corgi", "dog", "pet", "dog"]
    >>> BreakdownDisplay.from_breakdowns({"answers": breakdown(y_true, y_pred, pets)}).shares["answers"]
    {'leaf, 2 bits': 0.25, 'dog or cat, 1 bit': 0.25, 'root, 0 bits': 0.25, 'wrong': 0.25}
    """

    def __init__(self, *, shares: dict[str, dict[str, float]]) -> None:
        self.shares = shares

    @classmethod
    def from_breakdowns(cls, breakdowns: Mapping[str, Breakdown], *, ax: Any = None) -> BreakdownDisplay:
        """Draw breakdowns of several methods side by side.

        Up to eight levels of information are drawn separately. More are grouped:
        the root, the leaves, and bands of bits between them.

        Parameters
        ----------
        breakdowns : {method: Breakdown}
            From ``breakdown``, all with the same taxonomy.
        ax : matplotlib axes, optional
        """
        methods = drawing.by_method(breakdowns)
        first = next(iter(methods.values()))
        for method, bars in methods.items():
            if not np.array_equal(bars.information, first.information):
                raise InputError(
                    f"{method!r} has other levels of information than the first method. Bars in one picture need the"
                    " same taxonomy; draw the others on axes of their own."
                )
        labels = part_labels(first)
        return cls(shares={method: _by_label(bars, labels) for method, bars in methods.items()}).plot(ax=ax)

    def plot(self, ax: Any = None) -> BreakdownDisplay:
        """Draw on ``ax``, or on a new figure."""
        ax = drawing.fresh_axes(3.3 + 0.8 * len(self.shares), 4.2) if ax is None else ax
        names = list(next(iter(self.shares.values())))
        bottom = np.zeros(len(self.shares))
        for name, style in zip(names, _styles(len(names)), strict=True):
            heights = np.array([by_name[name] for by_name in self.shares.values()])
            ax.bar(range(len(heights)), heights, BAR_WIDTH, bottom, label=drawing.as_written(name), **style)
            numbers = [f"{height:.0%}" if height >= ROOM_FOR_A_NUMBER else "" for height in heights]
            # On a patch of the bar's color, so that no hatch runs through a number.
            patch = {"facecolor": style["color"], "edgecolor": "none", "pad": 1.5}
            middle = {"ha": "center", "va": "center", "fontsize": 8, "color": _ink_on(style["color"])}
            for place, number in enumerate(numbers):  # ax.bar_label in the middle makes a figure that is not pickled
                ax.text(place, bottom[place] + heights[place] / 2, number, **middle, bbox=patch, zorder=3)
            bottom += heights
        methods = [
            drawing.as_written(textwrap.fill(method, LONGEST_LINE, break_long_words=False)) for method in self.shares
        ]
        ax.set_xticks(range(len(methods)), methods)
        ax.set(ylabel="share of answers", ylim=(0.0, 1.0))
        drawing.quiet(ax)
        ax.spines["bottom"].set_visible(False)
        ax.tick_params(axis="x", length=0)
        handles, words = ax.get_legend_handles_labels()
        # From the top down, as the bar stands.
        ax.legend(handles[::-1], words[::-1], loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def part_labels(bars: Breakdown) -> list[str]:
    """For each level of information, rising, the part of the bar it belongs to: itself, or a band of bits.

    >>> many = Breakdown(0.0, np.arange(10.0), np.full(10, 0.1), ("root", *map(str, range(1, 9)), "leaf"))
    >>> part_labels(many)[:3], part_labels(many)[-2:]
    (['root, 0 bits', 'up to 3 bits', 'up to 3 bits'], ['6 to 9 bits', 'leaf, 9 bits'])
    """
    top = float(bars.information[-1])
    if len(bars.information) <= MOST_LEVELS:
        return [f"{name}, {_bits(bits)}" for name, bits in zip(bars.names, bars.information, strict=True)]
    step = math.ceil(top / MOST_BANDS)
    labels = ["root, 0 bits"]
    for bits in bars.information[1:]:
        # A level on the border belongs above it, except the very top, which begins no band.
        low = min(int(bits // step), math.ceil(top / step) - 1) * step
        labels.append(f"{low} to {_bits(min(low + step, top))}" if low else f"up to {_bits(step)}")
    if bars.names[-1] == "leaf":
        labels[-1] = f"leaf, {_bits(top)}"
    return labels


def _bits(bits: float) -> str:
    written = f"{bits:.1f}" if bits >= 0.95 else f"{bits:.2f}"
    written = written.rstrip("0").rstrip(".")
    return f"{written} bit{'' if written == '1' else 's'}"


def _by_label(bars: Breakdown, labels: list[str]) -> dict[str, float]:
    """The share of each part from the bottom up: the most specific first, wrong answers last."""
    shares = dict.fromkeys(reversed(labels), 0.0)
    for label, share in zip(labels, bars.shares.tolist(), strict=True):
        shares[label] += share
    return {**shares, "wrong": bars.wrong}


def _styles(n_parts: int) -> list[dict[str, Any]]:
    """Blue that pales towards the root; wrong answers are hatched, to show in gray print too."""
    n_blue = n_parts - 2
    blue = [drawing.tinted(drawing.AGREES, 1.0 - 0.8 * number / max(n_blue - 1, 1)) for number in range(n_blue)]
    wrong = {"color": drawing.DISAGREES, "hatch": "////", "edgecolor": "white", "linewidth": 0.0}
    return [{"color": color} for color in (*blue, ROOT_COLOR)] + [wrong]


def _ink_on(color: Any) -> str:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    return "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.6 else drawing.INK
