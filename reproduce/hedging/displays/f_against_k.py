"""The best F score of accuracy and specificity against the number of neighbors (Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.displays.hedging.specificity_curve import FEW_POINTS
from nearsay.errors import InputError
from nearsay.metrics.specificity import as_shares

# Ticks of the logarithmic axis.
ROUND_NUMBERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


class FScoreDisplay:
    """The best F score against k, a line for each method, with k on a logarithmic axis.

    Attributes
    ----------
    scores : dict of method: (k, F), both (n_k,), k rising
    figure_, ax_
        Where it was drawn. There after ``plot``.

    >>> FScoreDisplay.from_scores({"darts": {10: 0.28, 5: 0.26}, "flat": {5: 0.16, 10: 0.15}}).scores["darts"]
    (array([ 5., 10.]), array([0.26, 0.28]))
    """

    def __init__(self, *, scores: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        self.scores = scores

    @classmethod
    def from_scores(cls, scores: Mapping[str, Mapping[Any, float]], *, ax: Any = None) -> FScoreDisplay:
        """Draw the scores of several methods.

        Parameters
        ----------
        scores : {method: {k: F}}
            As ``best_f_score`` gives them; k in any order.
        ax : matplotlib axes, optional
        """
        methods = drawing.by_method(scores)
        return cls(scores={method: _by_k(method, by_k) for method, by_k in methods.items()}).plot(ax=ax)

    def plot(self, ax: Any = None) -> FScoreDisplay:
        """Draw on ``ax``, or on a new figure."""
        from matplotlib.ticker import NullLocator

        ax = drawing.fresh_axes(7.0, 4.0) if ax is None else ax
        for number, (method, (k, score)) in enumerate(self.scores.items()):
            style = drawing.method_style(number, len(self.scores), method)
            ax.plot(k, score, **style | {"marker": style["marker"] if len(k) <= FEW_POINTS else ""})
        all_k = np.concatenate([k for k, _ in self.scores.values()])
        ax.set_xscale("log")
        ticks = [number for number in ROUND_NUMBERS if all_k.min() <= number <= all_k.max()] or [all_k.min()]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set(xlabel="number of neighbors k", ylabel="best F score")
        ax.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        ax.set_axisbelow(True)
        drawing.quiet(ax)
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, handlelength=3.0)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _by_k(method: Any, by_k: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(by_k, Mapping) or not by_k:
        raise InputError(f"{method!r} needs a score for each k, as {{5: 0.26, 10: 0.28}}; got {by_k!r}.")
    k = np.array(sorted(by_k), dtype=np.float64)
    if not (k >= 1).all():
        raise InputError(f"{method!r}: a number of neighbors is at least 1; got k={k[0]:g}.")
    return k, as_shares(f"The scores of {method!r}", [by_k[number] for number in sorted(by_k)])
