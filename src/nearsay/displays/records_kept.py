"""Calibration plot of records: the accuracy of answers against that of similar past cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.displays.reliability import BinsDisplay
from nearsay.errors import InputError
from nearsay.metrics.probability import ReliabilityBins, bins_of


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

    bins: ReliabilityBins
    gap: float
    name: str

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 10, name: str | None = None, ax: Any = None
    ) -> RecordDisplay:
        """Draw the records of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier with ``explain``
        X, y : rows that it was not fitted on, and their labels.
        n_bins, name, ax
            As in ``from_predictions``; the name is by default that of the class.
        """
        if not hasattr(estimator, "explain"):
            raise InputError(
                f"{type(estimator).__name__} has no explain, so its answers have no records. Pass a NeighborClassifier"
                " or a FusedClassifier."
            )
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, estimator.explain(X), n_bins=n_bins, name=name, ax=ax)

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
