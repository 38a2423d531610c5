"""Plots of the tables of past cases from which a posterior gets its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.posterior.base import Posterior
from nearsay.posterior.methods.custom_posterior import as_one
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.past_case_table import CaseTable

# An axis of up to this many cells shows every value and tick; a longer one only a few ticks.
FEW_CELLS = 12
FEW_TICKS = 8
LONGEST_WORD = 16
# Light to dark in one hue, so that any color vision, and gray print, keeps the order.
SHADES = ("#ffffff", "#9fd0ee", "#0072B2", "#00283f")
DARK = 0.45
LEGEND_TICKS = (0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1)


@dataclass(kw_only=True, eq=False, repr=False)
class CaseTableDisplay(drawing.Display):
    """The tables of past cases of a posterior: a bar chart of each simple table, a heat map of each joint one.

    Heights and shades are the probabilities of the cells. Small tables show them as numbers, with the number of past
    cases below; in a larger map a dot marks a cell without a case (not between classes, where most have none). Build it
    with :meth:`from_estimator` or :meth:`from_tables`; there is no ``from_predictions``, because the tables are learned
    in ``fit`` and predictions do not change them.

    Attributes
    ----------
    tables : list of CaseTable
    figure_, ax_
        The matplotlib figure and axes, set by ``plot``; ``ax_`` is (n_tables,).

    >>> import numpy as np
    >>> from nearsay.displays import CaseTableDisplay
    >>> from nearsay.posterior.methods.past_case_table import CaseTable
    >>> rank = CaseTable("rank", ("rank of the true label",), ([1, 2],), np.array([9, 1]), np.array([0.9, 0.1]))
    >>> [float(bar.get_height()) for bar in CaseTableDisplay.from_tables([rank]).ax_[0].patches]
    [0.9, 0.1]
    """

    tables: list[CaseTable]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> CaseTableDisplay:
        """Draw the tables of a fitted NeighborClassifier; classes have their names."""
        posterior, tables = getattr(estimator, "posterior_", None), tables_of(estimator)
        if not tables:
            kept = ", ".join(name for name, make in POSTERIORS.items() if _keeps_tables(make))
            why = f"{type(estimator).__name__} is not fitted" if posterior is None else "This posterior keeps none"
            raise InputError(f"There are no tables of past cases to draw: {why}. Posteriors with tables: {kept}.")
        return cls.from_tables(tables, ax=ax)

    @classmethod
    def from_tables(cls, tables: Sequence[CaseTable], *, ax: Any = None) -> CaseTableDisplay:
        """Draw tables of one or two axes; ``ax``, if given, holds axes for each."""
        if not tables:
            raise InputError("There is nothing to draw: pass at least one table.")
        for table in tables:
            shape = tuple(len(ticks) for ticks in table.ticks)
            if len(shape) not in (1, 2) or not table.cases.shape == table.probability.shape == shape:
                raise InputError(
                    f"The table {table.name!r} has ticks for {shape} cells, cases of shape {table.cases.shape} and"
                    f" probabilities of shape {table.probability.shape}; one shape of one or two axes is expected."
                )
        return cls(tables=list(tables)).plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        shown = [without_empty_end(table) for table in self.tables]
        widths, heights = zip(*map(_panel_size, shown), strict=True)
        size = (sum(widths), max(heights))
        axes = drawing.panels(ax, 1, len(shown), "one table each", figsize=size, width_ratios=widths)[0]
        for panel, table, whole in zip(axes, shown, self.tables, strict=True):
            draw = _draw_bars if table.cases.ndim == 1 else _draw_map
            draw(panel, table)
            _name_last_axis(panel, table, left_out=whole.cases.shape[-1] - table.cases.shape[-1])
            panel.set_title(drawing.as_written(table.name), loc="left", fontsize="medium")
        return axes


def tables_of(estimator: Any) -> list[CaseTable]:
    """The tables of a fitted NeighborClassifier, with names of classes; none if its posterior has none."""
    posterior: Any = getattr(estimator, "posterior_", None)
    if posterior is None:
        return []
    names = np.asarray(estimator.classes_).tolist()
    return [_with_names(table, names) for table in as_one(posterior).tables()]


def _keeps_tables(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Posterior) and kind.tables is not Posterior.tables


def _is_of_classes(axis: str) -> bool:
    return axis.endswith("class")


def _with_names(table: CaseTable, names: list[Any]) -> CaseTable:
    ticks = tuple(
        [names[number] for number in numbers] if _is_of_classes(axis) else numbers
        for axis, numbers in zip(table.axes, table.ticks, strict=True)
    )
    return replace(table, ticks=ticks)


def without_empty_end(table: CaseTable) -> CaseTable:
    """The table up to the last cell with a case."""
    if _is_of_classes(table.axes[-1]):
        return table
    nonempty = np.flatnonzero(np.atleast_2d(table.cases).any(axis=0))
    end = int(nonempty[-1]) + 1 if len(nonempty) else len(table.ticks[-1])
    ticks = (*table.ticks[:-1], table.ticks[-1][:end])
    return replace(table, ticks=ticks, cases=table.cases[..., :end], probability=table.probability[..., :end])


def _panel_size(table: CaseTable) -> tuple[float, float]:
    """Width and height in inches: room for the numbers in each cell, or a square for many."""
    across = len(table.ticks[-1])
    width = 1.6 + 0.55 * max(across, 4) if across <= FEW_CELLS else 6.2
    if table.cases.ndim == 1:
        return width, 3.6
    down = len(table.ticks[0])
    return width, 1.4 + 0.42 * max(down, 4) if down <= FEW_CELLS else 5.4


def _draw_bars(ax: Any, table: CaseTable) -> None:
    places = np.arange(len(table.probability))
    bars = ax.bar(places, table.probability, width=0.8, color=drawing.AGREES)
    if len(places) <= FEW_CELLS:
        ax.bar_label(bars, _written(table).tolist(), padding=2, fontsize="x-small", color=drawing.INK)
    ax.set(ylim=(0, 1.12 if table.probability.max() > 0.9 else None), ylabel="probability")
    ax.set_yticks(ax.get_yticks()[ax.get_yticks() <= 1])
    drawing.quiet(ax)


def _draw_map(ax: Any, table: CaseTable) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    down, across = table.probability.shape
    square = all(map(_is_of_classes, table.axes))
    # The square root makes small probabilities visible, which are the most frequent.
    largest = float(table.probability.max())
    top = 1.0 if largest > 0.5 else largest or 1.0
    shades, norm = LinearSegmentedColormap.from_list("shades", SHADES), PowerNorm(0.5, vmin=0, vmax=top)
    image = ax.imshow(
        table.probability, cmap=shades, norm=norm, interpolation="nearest", aspect="equal" if square else "auto"
    )
    meaning = "probability"
    if max(down, across) <= FEW_CELLS:
        written = _written(table)
        for cell in np.ndindex(down, across):
            color = "white" if table.probability[cell] > DARK * top else drawing.INK
            ax.text(*cell[::-1], written[cell], ha="center", va="center", fontsize="x-small", color=color)
        ax.set_xticks(np.arange(across + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(down + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="#e6e6e6", linewidth=0.8)
        ax.tick_params(which="minor", length=0)
    elif not square:  # most pairs of classes are never confused
        empty = np.argwhere(table.cases == 0)
        ax.scatter(empty[:, 1], empty[:, 0], s=5, color=drawing.PALE_INK, linewidths=0)
        meaning += " (dot: no past case)" if len(empty) else ""
    ticks = [tick for tick in LEGEND_TICKS if tick == 0 or 0.006 * top < tick <= top]
    bar = ax.figure.colorbar(image, ax=ax, ticks=ticks, format="%g", shrink=0.9, pad=0.02)
    bar.ax.tick_params(labelsize="small", colors=drawing.PALE_INK, labelcolor=drawing.INK)
    bar.set_label(meaning, fontsize="small")
    bar.outline.set_visible(False)
    places, words = _few_ticks(table.ticks[0])
    ax.set_yticks(places, words)
    ax.set_ylabel(table.axes[0])
    ax.spines[:].set_visible(False)
    ax.tick_params(colors=drawing.PALE_INK, labelcolor=drawing.INK)


def _name_last_axis(ax: Any, table: CaseTable, *, left_out: int) -> None:
    places, words = _few_ticks(table.ticks[-1])
    slanted = max(map(len, words)) > 4
    ax.set_xticks(places, words, **({"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}))
    ax.set_xlabel(table.axes[-1] + (f" ({left_out} more without a case)" if left_out else ""))


def _written(table: CaseTable) -> np.ndarray:
    """The text of each cell: the probability, and below it the number of cases."""
    pairs = zip(table.probability.ravel(), table.cases.ravel(), strict=True)
    return np.array([f"{p:.3f}\nn={count:,.0f}" for p, count in pairs]).reshape(table.cases.shape)


def _few_ticks(ticks: Sequence[Any]) -> tuple[list[int], list[str]]:
    """Positions and labels of ticks: all of a few, evenly spaced ones of many.

    >>> _few_ticks(["oak", 0.123456, "a name that goes on and on"])
    ([0, 1, 2], ['oak', '0.123', 'a name that goe…'])
    >>> _few_ticks(range(1, 101))[0]
    [0, 13, 26, 39, 52, 65, 78, 91]
    """
    step = 1 if len(ticks) <= FEW_CELLS else -(-len(ticks) // FEW_TICKS)
    places = list(range(0, len(ticks), step))
    words = [f"{ticks[at]:.3g}" if isinstance(ticks[at], float) else str(ticks[at]) for at in places]
    return places, [drawing.as_written(drawing.shortened(word, LONGEST_WORD)) for word in words]
