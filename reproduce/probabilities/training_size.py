"""Accuracy and log posterior against the number of training rows, a picture of the paper on probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError

MEASURES = ("accuracy", "mean log posterior")


class TrainingSizeDisplay:
    """Accuracy and mean log posterior against the number of training rows of a class, a line for each method.

    Attributes
    ----------
    panels : dict of title: dict of method: (n_sizes, 3)
        Size, accuracy and log posterior, sizes ascending.
    figure_, ax_
        Where it was drawn: ``ax_`` is (2, n_panels), accuracy above log posterior. There after ``plot``.

    >>> results = {"votes": [(2, 0.84, -0.82), (4, 0.91, -0.53)], "rank": [(2, 0.89, -0.40), (4, 0.95, -0.18)]}
    >>> TrainingSizeDisplay.from_panels({"K = 3": results}).ax_.shape
    (2, 1)
    """

    def __init__(self, *, panels: dict[str, dict[str, np.ndarray]]) -> None:
        self.panels = panels

    @classmethod
    def from_panels(cls, panels: Mapping[str, Mapping[str, Any]], *, ax: Any = None) -> TrainingSizeDisplay:
        """Draw several settings side by side: {title: {method: [(size, accuracy, log posterior), …]}}.

        A method has the same color in all of them. ``ax``, if given, holds (2, n_panels) axes.
        """
        checked = {
            title: {method: _curve(method, rows) for method, rows in results.items()}
            for title, results in panels.items()
        }
        if not any(checked.values()):
            raise InputError("There is nothing to draw: pass at least one method with its rows.")
        return cls(panels=checked).plot(ax=ax)

    def plot(self, ax: Any = None) -> TrainingSizeDisplay:
        """Draw on (2, n_panels) axes ``ax``, or on a new figure."""
        size = (2.3 + 3.9 * len(self.panels), 5.6)
        axes = drawing.panels(
            ax, len(MEASURES), len(self.panels), " and ".join(MEASURES), figsize=size, sharex="col", sharey="row"
        )
        methods = list(dict.fromkeys(method for results in self.panels.values() for method in results))
        for column, (title, results) in enumerate(self.panels.items()):
            for row, measure in enumerate(MEASURES):
                self._draw(axes[row, column], methods, results, row + 1)
                axes[row, 0].set_ylabel(measure)
            axes[0, column].set_title(drawing.as_written(title), loc="left", fontsize="medium")
            axes[1, column].set_xlabel("training rows of each class")
        _name_methods(axes[0, -1], methods)
        self.ax_, self.figure_ = axes, axes[0, 0].figure
        return self

    def _draw(self, panel: Any, methods: list[str], results: dict[str, np.ndarray], measure: int) -> None:
        from matplotlib.ticker import MaxNLocator

        for method, curve in results.items():
            values = np.where(np.isfinite(curve[:, measure]), curve[:, measure], np.nan)
            panel.plot(curve[:, 0], values, **_style(methods, method))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        panel.set_axisbelow(True)
        drawing.quiet(panel)


def _style(methods: list[str], method: str) -> dict[str, Any]:
    number = methods.index(method)
    return {
        "color": drawing.class_colors(len(methods))[number],
        "marker": drawing.marker(number),
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "linewidth": 1.5,
        "label": drawing.as_written(method),
    }


def _name_methods(ax: Any, methods: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **_style(methods, method)) for method in methods]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)


def _curve(method: str, rows: Any) -> np.ndarray:
    """Rows of (size, accuracy, log posterior), the smallest size first."""
    curve = np.asarray(rows, dtype=np.float64)
    if curve.ndim != 2 or curve.shape[1] != 3 or not len(curve):
        raise InputError(f"{method!r} must hold rows of (size, accuracy, log posterior); got shape {curve.shape}.")
    return curve[np.argsort(curve[:, 0], kind="stable")]
