"""Accuracy and log posterior against the number of neighbors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.metrics.probability import accuracy, mean_log_posterior
from nearsay.posterior.choice.k_curve import KCurve, curves_of, largest_k
from nearsay.posterior.neighbor_estimator import NeighborEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class KCurveDisplay(drawing.Display):
    """Accuracy and mean log posterior against k, with the chosen k marked.

    Build it with :meth:`from_estimator` or :meth:`from_predictions`.

    Attributes
    ----------
    k, accuracy, log_posterior : (n_k,) the curve.
    chosen : the k that the classifier uses, or the best one.
    figure_, ax_
        The matplotlib figure and axes, set by ``plot``; ``ax_`` is a pair, accuracy above log posterior.

    >>> import nearsay as ns
    >>> from nearsay.displays import KCurveDisplay
    >>> X, y = [[0], [1], [2], [10], [11], [12]], [0, 0, 0, 1, 1, 1]
    >>> clf = ns.NeighborClassifier(n_neighbors="auto", posterior="proportional").fit(X, y)
    >>> KCurveDisplay.from_estimator(clf).chosen == clf.n_neighbors_
    True
    """

    k: np.ndarray
    accuracy: np.ndarray
    log_posterior: np.ndarray
    chosen: int

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None) -> KCurveDisplay:
        """Draw the curve of a fitted NeighborClassifier.

        Parameters
        ----------
        estimator : fitted NeighborClassifier
        X, y : rows and their labels, optional
            Held-out rows on which every k is tried. Without them, the leave-one-out curve by which a classifier with
            ``n_neighbors="auto"`` chose its k.
        ax : a pair of matplotlib axes, optional; one for accuracy, one for the log posterior.
        """
        if X is not None:
            curve = _curve_of_rows(estimator, X, y)
        elif hasattr(estimator, "k_curve_"):
            curve = estimator.k_curve_
        else:
            raise InputError(
                f'{type(estimator).__name__} has no k_curve_. Fit it with n_neighbors="auto", which tries every k, or'
                " pass rows X and their labels y to try every k on."
            )
        return cls(**curve._asdict(), chosen=int(estimator.n_neighbors_)).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_prob: Mapping[int, Any], *, classes: Any = None, ax: Any = None
    ) -> KCurveDisplay:
        """Draw probabilities that were computed before with several k; the k of the best log posterior is marked.

        Parameters
        ----------
        y_true : (n,) true classes
            Column numbers of the probabilities, or labels where ``classes`` names the columns.
        y_prob : {k: (n, n_classes) probabilities}
        classes : (n_classes,) labels of the columns, sorted as in ``classifier.classes_``.
        ax : a pair of matplotlib axes, optional
        """
        if not isinstance(y_prob, Mapping) or not y_prob:
            raise InputError(f"y_prob must map numbers of neighbors to probabilities, {{5: …, 10: …}}; got {y_prob!r}.")
        ks = sorted(y_prob)
        curve = KCurve(
            np.array(ks),
            np.array([accuracy(_most_probable(y_prob[k], classes), y_true) for k in ks]),
            np.array([mean_log_posterior(y_prob[k], y_true, classes=classes) for k in ks]),
        )
        return cls(**curve._asdict(), chosen=curve.best).plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        pair = drawing.panels(ax, 2, 1, "accuracy and log posterior", sharex=True, figsize=(6.4, 4.6))[:, 0]
        panels = [(self.accuracy, "accuracy"), (self.log_posterior, "mean log posterior")]
        for panel, (values, name) in zip(pair, panels, strict=True):
            self._draw(panel, values, name)
        pair[0].set_title(f"chosen: k = {self.chosen}", loc="left", fontsize="medium")
        pair[1].set_xlabel("number of neighbors k")
        return pair

    def _draw(self, panel: Any, values: np.ndarray, name: str) -> None:
        from matplotlib.ticker import MaxNLocator

        at = values[self.k == self.chosen]
        # A few k are drawn as dots.
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


def _most_probable(y_prob: Any, classes: Any) -> np.ndarray:
    columns = np.asarray(y_prob).argmax(axis=1)
    return columns if classes is None else np.asarray(classes)[columns]


def _curve_of_rows(estimator: Any, X: Any, y: Any) -> KCurve:
    """The curve of the votes of the nearest 1, 2, … training rows, on other rows."""
    if not isinstance(estimator, NeighborEstimator):
        raise InputError(f"A k curve is that of a NeighborClassifier; got {type(estimator).__name__}.")
    if y is None:
        raise InputError("X needs the labels y of its rows; got None.")
    model = estimator.model_
    known, weights = model.labels, model.weights
    most = max(largest_k(len(known)), model.n_neighbors)
    table = estimator.nearest(X, most)
    truth = drawing.label_numbers(y, model.classes, count=len(table))
    # These rows are numbered after the training rows; none of them is a neighbor, and each has weight 1.
    rows = np.arange(len(known), len(known) + len(truth))
    curve, _ = curves_of(
        [(rows, table)],
        np.concatenate([known, truth]),
        len(model.classes),
        most,
        np.zeros(len(known) + len(rows), np.int64),
        weights=None if weights is None else weights.with_more(len(rows)),
        model_failure=model.posterior.model_failure,
        smoothing=model.posterior.smoothing,
        tie_break=model.tie_break,
        seed=model.seed,
    )
    return curve
