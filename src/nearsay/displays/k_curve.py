"""How good each number of neighbors was when every row was left out once."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError


class KCurveDisplay:
    """Leave-one-out accuracy and mean log posterior against k, with the chosen k marked.

    Build it with :meth:`from_estimator`.

    Attributes
    ----------
    k, accuracy, log_posterior : (n_k,)
        The curve.
    chosen : int
        The k that the classifier uses.
    figure_, ax_
        Where it was drawn: ``ax_`` is a pair, accuracy above log posterior. There after ``plot``.

    >>> import nearsay as ns
    >>> from nearsay.displays import KCurveDisplay
    >>> X, y = [[0], [1], [2], [10], [11], [12]], [0, 0, 0, 1, 1, 1]
    >>> clf = ns.NeighborClassifier(n_neighbors="auto").fit(X, y)
    >>> KCurveDisplay.from_estimator(clf).chosen == clf.n_neighbors_
    True
    """

    def __init__(self, *, k: np.ndarray, accuracy: np.ndarray, log_posterior: np.ndarray, chosen: int) -> None:
        self.k = k
        self.accuracy = accuracy
        self.log_posterior = log_posterior
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> KCurveDisplay:
        """Draw the curve of a classifier fitted with ``n_neighbors="auto"``.

        ``ax``, if given, is a pair of axes: one for accuracy, one for the log posterior.
        """
        curve = getattr(estimator, "k_curve_", None)
        if curve is None:
            raise InputError(
                f'{type(estimator).__name__} has no k_curve_. Fit it with n_neighbors="auto", which tries every k.'
            )
        display = cls(
            k=np.asarray(curve.k),
            accuracy=np.asarray(curve.accuracy),
            log_posterior=np.asarray(curve.log_posterior),
            chosen=int(estimator.n_neighbors_),
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> KCurveDisplay:
        """Draw on the pair of axes ``ax``, or on a new figure."""
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(2, 1, sharex=True, figsize=(6.4, 4.6), layout="constrained")
        pair = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(pair) != 2:
            raise InputError(
                f"The k curve needs two axes, for accuracy and log posterior; got {len(pair)}."
                " Pass plt.subplots(2, 1, sharex=True)[1], or nothing."
            )
        panels = [(self.accuracy, "accuracy"), (self.log_posterior, "mean log posterior")]
        for panel, (values, name) in zip(pair, panels, strict=True):
            self._draw(panel, values, name)
        pair[0].set_title(f"chosen by leave-one-out: k = {self.chosen}", loc="left", fontsize="medium")
        pair[1].set_xlabel("number of neighbors k")
        self.ax_, self.figure_ = pair, pair[0].figure
        return self

    def _draw(self, panel: Any, values: np.ndarray, name: str) -> None:
        from matplotlib.ticker import MaxNLocator

        at = values[self.k == self.chosen]
        # A few k are dots on a line; many are a line.
        panel.plot(
            self.k, values, color=drawing.AGREES, linewidth=1.6, marker="o" if len(self.k) <= 30 else "", markersize=3.5
        )
        panel.axvline(self.chosen, color=drawing.DISAGREES, linewidth=1.0, linestyle="--", zorder=0)
        panel.plot([self.chosen] * len(at), at, "D", color=drawing.DISAGREES, markersize=7, zorder=4)
        panel.set_ylabel(name)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        panel.set_axisbelow(True)
        drawing.quiet(panel)
