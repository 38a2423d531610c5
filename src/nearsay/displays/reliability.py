"""Calibration plots: the accuracy of answers against their confidence, or against that of similar past cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nearsay.displays import drawing
from nearsay.errors import InputError
from nearsay.metrics.probability import ReliabilityBins, bins_of, expected_calibration_error, reliability_bins
from nearsay.posterior.evidence.records import likely_range

CURVE = "reliability curve"


class BinsDisplay(drawing.Display):
    """Base of calibration plots: accuracy against confidence, in bins, in the next color of the axes."""

    bins: ReliabilityBins
    x_label: str
    # The method of an estimator that is asked, and what is missing without it.
    method: str
    without: str
    from_predictions: Callable[..., Any]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 10, name: str | None = None, ax: Any = None
    ) -> Self:
        """Draw the answers of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
        X, y : rows that it was not fitted on, and their labels.
        n_bins, name, ax
            As in ``from_predictions``; the name is by default that of the class.
        """
        kind = type(estimator).__name__
        if not hasattr(estimator, cls.method):
            raise InputError(f"{kind} has no {cls.method}, so {cls.without}")
        classes = {"classes": estimator.classes_} if cls.method == "predict_proba" else {}
        name, given = kind if name is None else name, getattr(estimator, cls.method)(X)
        drawn: Self = cls.from_predictions(y, given, **classes, n_bins=n_bins, name=name, ax=ax)
        return drawn

    @property
    def _legend(self) -> str:
        """The name of the curve in the legend."""
        raise NotImplementedError

    def _drawn(self, ax: Any) -> Any:
        ax = drawing.fresh_axes(5.2, 5.0) if ax is None else ax
        before = sum(line.get_gid() == CURVE for line in ax.lines)
        if before == 0:
            ax.axline((1, 1), slope=1, color=drawing.PALE_INK, linewidth=1.0, linestyle="--", zorder=0)
        color = drawing.FEW_COLORS[before % len(drawing.FEW_COLORS)]
        confidence, accuracy, n_rows = self.bins
        low, high = likely_range(accuracy, n_rows)
        ax.vlines(confidence, low, high, color=color, linewidth=1.2, alpha=0.45, zorder=1)
        style = {"marker": drawing.marker(before), "markersize": 6, "markeredgecolor": "white", "linewidth": 1.4}
        ax.plot(confidence, accuracy, **style, color=color, label=drawing.as_written(self._legend), gid=CURVE, zorder=3)
        # One range on both axes: from the tenth below all points up to 1, with room for markers there.
        start = np.floor(10 * min(ax.dataLim.x0, ax.dataLim.y0)) / 10
        limits = start, 1 + 0.02 * (1 - start)
        ax.set(xlim=limits, ylim=limits, aspect="equal", xlabel=self.x_label, ylabel="share of answers that are right")
        ax.legend(loc="best", frameon=False)
        drawing.quiet(ax)
        return ax


@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay(BinsDisplay):
    """Reliability diagram: accuracy against confidence, in bins; on the diagonal probabilities are calibrated.

    Build it with :meth:`from_estimator` or :meth:`from_predictions`; with ``ax=first.ax_`` several methods share the
    axes. Points are bins of equal size, bars are 95 % intervals of the true share, the legend the expected calibration
    error.

    Attributes
    ----------
    bins : ReliabilityBins
        ``confidence``, ``accuracy`` and ``n_rows`` of each bin.
    calibration_error : float
    name : str

    >>> from nearsay.displays import ReliabilityDisplay
    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> display = ReliabilityDisplay.from_predictions([0, 0, 0, 1], p, name="votes")
    >>> display.ax_.get_legend().get_texts()[0].get_text()
    'votes (ECE 0.100)'
    """

    x_label = "confidence in the answer"
    method = "predict_proba"
    without = "there are no probabilities to judge."

    bins: ReliabilityBins
    calibration_error: float
    name: str

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_prob: Any, *, classes: Any = None, n_bins: int = 10, name: str = "answers", ax: Any = None
    ) -> ReliabilityDisplay:
        """Draw probabilities that were computed before.

        Parameters
        ----------
        y_true : (n,) true classes
            Column numbers of ``y_prob``, or labels where ``classes`` names the columns.
        y_prob : (n, n_classes) probabilities.
        classes : (n_classes,) labels of the columns, sorted as in ``classifier.classes_``.
        n_bins : how many bins of equal size, at most.
        name : what the legend calls it.
        ax : matplotlib axes, optional; a new figure by default.
        """
        error = expected_calibration_error(y_prob, y_true, classes=classes, n_bins=n_bins)
        bins = reliability_bins(y_prob, y_true, classes=classes, n_bins=n_bins)
        return cls(bins=bins, calibration_error=error, name=name).plot(ax=ax)

    @property
    def _legend(self) -> str:
        return f"{self.name} (ECE {self.calibration_error:.3f})"


@dataclass(kw_only=True, eq=False, repr=False)
class RecordDisplay(BinsDisplay):
    """The accuracy of past cases like an answer against that of the answers; on the diagonal records are accurate.

    Build it with :meth:`from_estimator` or :meth:`from_predictions`; with ``ax=first.ax_`` several methods share the
    axes. Points are bins of equal size, bars are 95 % intervals of the true share, the legend the mean gap between the
    two. Records of few cases are noisy. An answer unlike every past case has none, and is left out.

    Attributes
    ----------
    bins : ReliabilityBins
        ``confidence`` (the share right in the records), ``accuracy`` and ``n_rows`` of each bin.
    gap : the mean of \\|accuracy − confidence\\| over the answers.
    name : str

    >>> import nearsay as ns
    >>> clf = ns.NeighborClassifier(1, posterior="proportional").fit([[0.0], [1.0], [5.0], [6.0]], list("aabb"))
    >>> display = ns.displays.RecordDisplay.from_estimator(clf, [[0.2], [5.5], [3.1]], ["a", "b", "a"], name="nearest")
    >>> display.bins.confidence, display.bins.accuracy.round(2)
    (array([1.]), array([0.67]))
    """

    x_label = "share right among past cases like the answer"
    method = "explain"
    without = "its answers have no records. Pass a NeighborClassifier or a FusedClassifier."

    bins: ReliabilityBins
    gap: float
    name: str

    @classmethod
    def from_predictions(
        cls, y_true: Any, evidence: Sequence[Any], *, n_bins: int = 10, name: str = "answers", ax: Any = None
    ) -> RecordDisplay:
        """Draw the records in evidence that ``explain`` gave before.

        Parameters
        ----------
        y_true : (n,) true labels.
        evidence : (n,) Evidence or FusedEvidence.
        n_bins : how many bins of equal size, at most.
        name : what the legend calls it.
        ax : matplotlib axes, optional; a new figure by default.
        """
        truth = np.asarray(y_true).tolist()
        if len(truth) != len(evidence):
            raise InputError(f"Evidence of {len(evidence)} answers and {len(truth)} true labels do not fit together.")
        recorded = [(one, label) for one, label in zip(evidence, truth, strict=True) if one.record["cases"]]
        if not recorded:
            raise InputError(f"None of the {len(evidence)} answers has a record of past cases; at least one must have.")
        share = np.array([one.record["right"] / one.record["cases"] for one, _ in recorded])
        bins = bins_of(share, np.array([one.label == label for one, label in recorded]), n_bins)
        gap = float(bins.n_rows @ np.abs(bins.accuracy - bins.confidence)) / len(recorded)
        return cls(bins=bins, gap=gap, name=name).plot(ax=ax)

    @property
    def _legend(self) -> str:
        return f"{self.name} (gap {self.gap:.3f})"
