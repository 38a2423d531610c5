"""Plot of the accuracy-specificity trade-off of hedged answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearsay.decision.envelope import AccuracyCurve, accuracy_curve, operating_points
from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.metrics.specificity import as_shares
from nearsay.taxonomy.taxonomy import Taxonomy

# (accuracy, normalized gain), both (n_points,)
Points = tuple[np.ndarray, np.ndarray]
# Up to so many points are drawn as dots.
FEW_POINTS = 25
MARK = 8.0


class AccuracySpecificityDisplay(drawing.Display):
    """Normalized gain against accuracy, a line for each method: further up and to the right is better.

    Build it with :meth:`from_estimator`, :meth:`from_predictions` or :meth:`from_curves`.

    Attributes
    ----------
    curves, published : dict of method: (accuracy, normalized gain)
        Pairs of (n_points,).
    target : the required accuracy.
    at_target : dict of method: (accuracy, normalized gain)
        The most specific point with an accuracy of at least ``target``, for methods that have one.

    >>> curves = {"hedged": ([0.5, 0.75, 1.0], [0.5, 0.5, 0.25]), "flat": ([0.5], [0.5])}
    >>> AccuracySpecificityDisplay.from_curves(curves, target=0.7).at_target
    {'hedged': (0.75, 0.5)}
    """

    def __init__(self, *, curves: dict[str, Points], published: dict[str, Points], target: float | None) -> None:
        self.curves = curves
        self.published = published
        self.target = target
        best = {} if target is None else {method: most_specific(points, target) for method, points in curves.items()}
        self.at_target = {method: point for method, point in best.items() if point is not None}

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        published: Mapping[str, Any] | None = None,
        target: float | None = None,
        ax: Any = None,
    ) -> AccuracySpecificityDisplay:
        """Draw every operating point of one or several fitted HedgedClassifiers, measured on these rows.

        Parameters
        ----------
        estimator : fitted HedgedClassifier, or {method: fitted HedgedClassifier}
        X, y : rows that they were not fitted on, and their labels, names of nodes.
        published, target, ax
            As in ``from_curves``.
        """
        curves = {}
        for method, one in drawing.by_method(estimator, type(estimator).__name__).items():
            hedged = drawing.check_hedged(one)
            p_leaf = drawing.leaf_probabilities(hedged, X)
            curves[method] = measured_curve(y, p_leaf, hedged.taxonomy_, hedged.rule_)
        return cls.from_curves(curves, published=published, target=target, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        taxonomy: Taxonomy,
        rule: str = "darts",
        published: Mapping[str, Any] | None = None,
        target: float | None = None,
        ax: Any = None,
    ) -> AccuracySpecificityDisplay:
        """Draw every operating point of a rule on probabilities of the leaves.

        Parameters
        ----------
        y_true : (n,) names of nodes
        y_prob : (n, n_leaves) probabilities in the order of ``taxonomy.leaves``, or {method: such probabilities}
            Those of one method are named by the rule.
        taxonomy : Taxonomy
        rule : {"darts", "fixed-threshold", "flat-reject", "climbing"}, default="darts"
        published, target, ax
            As in ``from_curves``.
        """
        methods = drawing.by_method(y_prob, rule)
        curves = {method: measured_curve(y_true, p_leaf, taxonomy, rule) for method, p_leaf in methods.items()}
        return cls.from_curves(curves, published=published, target=target, ax=ax)

    @classmethod
    def from_curves(
        cls,
        curves: Mapping[str, Any],
        *,
        published: Mapping[str, Any] | None = None,
        target: float | None = None,
        ax: Any = None,
    ) -> AccuracySpecificityDisplay:
        """Draw several methods on one axis.

        Parameters
        ----------
        curves : {method: AccuracyCurve or (accuracy, normalized gain)}
            All operating points of a rule, as ``HedgedClassifier.curve()`` gives them, or any points, drawn in
            the order in which they come. One point is a mark without a line.
        published : {name: (accuracy, normalized gain)}, optional; points from elsewhere, drawn as hollow marks.
        target : float, optional
            A required accuracy: drawn as a line, with a mark at each method's most specific point that reaches it.
        ax : matplotlib axes, optional
        """
        methods = drawing.by_method(curves)
        if target is not None and not 0 <= target <= 1:
            raise InputError(f"target is an accuracy from 0 to 1; got {target!r}.")
        return cls(
            curves={method: _points(method, curve) for method, curve in methods.items()},
            published={str(name): _points(name, points) for name, points in (published or {}).items()},
            target=target,
        ).plot(ax=ax)

    def _drawn(self, ax: Any) -> Any:
        ax = drawing.fresh_axes(7.0, 4.4) if ax is None else ax
        if self.target is not None:
            ax.axhline(self.target, color=drawing.PALE_INK, linewidth=1.0, linestyle="--", zorder=0)
        for number, (method, (accuracy, gain)) in enumerate(self.curves.items()):
            style = drawing.method_style(number, len(self.curves), method)
            mark = {"color": style["color"], "marker": style["marker"], "markersize": MARK, "markeredgecolor": "white"}
            if len(gain) == 1:
                ax.plot(gain, accuracy, **mark, linestyle="", label=style["label"])
            else:
                ax.plot(gain, accuracy, **style | {"marker": style["marker"] if len(gain) <= FEW_POINTS else ""})
            if method in self.at_target:
                ax.plot(*self.at_target[method][::-1], **mark, zorder=4)
        for number, (name, (accuracy, gain)) in enumerate(self.published.items()):
            ax.plot(gain, accuracy, **_hollow(number, name))
        ax.set(xlabel="normalized information gain (how specific)", ylabel="accuracy (how often right)")
        ax.set_xlim(left=0.0)
        ax.set_ylim(top=1.01)  # all curves end at 1, where a line on the border would be cut in half
        ax.grid(color="#e6e6e6", linewidth=0.8)
        ax.set_axisbelow(True)
        drawing.quiet(ax)
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, handlelength=3.0)
        return ax


def measured_curve(y: Any, p_leaf: Any, taxonomy: Taxonomy, rule: str) -> AccuracyCurve:
    """Accuracy and gain of a rule at every setting, from (n, n_leaves) probabilities."""
    return accuracy_curve(operating_points(p_leaf, taxonomy, rule), y, taxonomy)


def _hollow(number: int, name: str) -> dict[str, Any]:
    return {
        "linestyle": "",
        "marker": drawing.marker(number),
        "markersize": 6,
        "markerfacecolor": "none",
        "markeredgecolor": drawing.INK,
        "zorder": 5,
        "label": drawing.as_written(name),
    }


def most_specific(points: Points, target: float) -> tuple[float, float] | None:
    """The point of most gain with an accuracy of at least ``target``; None without one."""
    accuracy, gain = points
    keeps = np.flatnonzero(accuracy >= target)
    if not len(keeps):
        return None
    best = keeps[gain[keeps].argmax()]
    return float(accuracy[best]), float(gain[best])


def _points(method: Any, curve: Any) -> Points:
    """A curve, or a pair of arrays, as accuracy and normalized gain of each point."""
    pair = (curve.accuracy, curve.normalized_gain) if hasattr(curve, "normalized_gain") else tuple(curve)
    if len(pair) != 2:
        raise InputError(f"{method!r} must be a pair of accuracy and normalized gain; got {len(pair)} arrays.")
    accuracy = np.atleast_1d(as_shares(f"The accuracy of {method!r}", pair[0]))
    gain = np.atleast_1d(as_shares(f"The normalized gain of {method!r}", pair[1]))
    if accuracy.ndim != 1 or accuracy.shape != gain.shape or not len(gain):
        raise InputError(
            f"{method!r} needs an accuracy and a gain for every point, and at least one point; got accuracies of shape"
            f" {accuracy.shape} and gains of shape {gain.shape}."
        )
    return accuracy, gain
