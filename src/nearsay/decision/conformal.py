"""Prediction sets: just enough classes to contain the true one as often as asked for.

A score says how badly a class fits a row, read from the row's probabilities. Rows whose labels are known, and which the
classifier was not fitted to, show how badly the true class usually fits: a threshold that nine in ten of them meet,
nine in ten new rows meet as well. The set of a new row is all classes within the threshold. Nothing is assumed about
the probabilities; good ones make small sets, bad ones large sets, and both cover.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearsay.core.settings import check_choice, check_flag
from nearsay.decision.calibration import AroundClassifier
from nearsay.decision.fold_models import columns
from nearsay.decision.guarantee import check_share
from nearsay.decision.set_evidence import SetEvidence, set_evidence
from nearsay.posterior.evidence.evidence import EvidenceList

MOST_NAMES = 5


def lac_scores(p: np.ndarray) -> np.ndarray:
    """One minus the probability: the smallest sets on average, but a set may be empty (Sadinle et al. 2019).

    >>> lac_scores(np.array([[0.5, 0.25, 0.25]]))
    array([[0.5 , 0.75, 0.75]])
    """
    return 1.0 - p


def aps_scores(p: np.ndarray) -> np.ndarray:
    """The probability of all classes that are more probable: larger sets where it is hard (Romano et al. 2020).

    The most probable class scores 0, so no set is empty. Equally probable
    classes score the same and enter a set together; nothing is randomized.

    >>> aps_scores(np.array([[0.125, 0.5, 0.25, 0.125]]))
    array([[0.75, 0.  , 0.5 , 0.75]])
    """
    order = np.argsort(-p, axis=1, kind="stable")
    falling = np.take_along_axis(p, order, axis=1)
    above = np.zeros(p.shape)
    np.cumsum(falling[:, :-1], axis=1, out=above[:, 1:])
    # What stands above the first of equals stands above all of them; sums only grow, so the largest so far is its.
    opens = np.ones(p.shape, bool)
    opens[:, 1:] = falling[:, 1:] < falling[:, :-1]
    above = np.maximum.accumulate(np.where(opens, above, 0.0), axis=1)
    scores = np.empty_like(above)
    np.put_along_axis(scores, order, above, axis=1)
    return scores


SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"lac": lac_scores, "aps": aps_scores}


def threshold(scores: np.ndarray, coverage: float) -> float:
    """The ⌈(n+1)·coverage⌉-th smallest of n scores: a new score keeps to it as often as ``coverage`` says.

    The new score is as likely to come at any of the n+1 places among the
    others, hence n+1. Infinite where there are too few scores to say.

    >>> scores = np.array([0.4, 0.1, 0.3, 0.2])
    >>> threshold(scores, 0.6), threshold(scores, 0.61), threshold(scores, 0.9)
    (0.3, 0.4, inf)
    """
    place = math.ceil((len(scores) + 1) * _as_typed(coverage))
    return float(np.partition(scores, place - 1)[place - 1]) if place <= len(scores) else math.inf


def class_thresholds(scores: np.ndarray, labels: np.ndarray, n_classes: int, coverage: float) -> np.ndarray:
    """A threshold for each class from the scores of its own rows: (n_classes,), infinite where they are too few.

    >>> class_thresholds(np.array([0.1, 0.2, 0.9]), np.array([0, 0, 1]), 2, coverage=0.6)
    array([0.2, inf])
    """
    by_class = np.split(scores[np.argsort(labels, kind="stable")], np.cumsum(np.bincount(labels, minlength=n_classes)))
    return np.array([threshold(of_class, coverage) for of_class in by_class[:n_classes]])


def rows_needed(coverage: float) -> int:
    """The fewest calibration rows with which a threshold is finite.

    >>> rows_needed(0.9), rows_needed(0.95), rows_needed(0.5)
    (9, 19, 1)
    """
    share = _as_typed(coverage)
    return math.ceil(share / (1 - share))


def _as_typed(coverage: float) -> Fraction:
    """0.55 as 55/100: the nearest binary number would ask for one row more of 99."""
    return Fraction(repr(float(coverage)))


class ConformalClassifier(AroundClassifier):
    """Sets of classes that hold the true one as often as asked for, around any classifier with ``predict_proba``.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        It is cloned before it is fitted, except with ``cv="prefit"``.
    coverage : float, default=0.9
        How often, at least, a set must contain the true class; between 0 and 1.
        Over all new rows, those of classes never seen included.
    per_class : bool, default=False
        False: over all rows. True: for the rows of each class by itself,
        which takes ``rows_needed(coverage)`` calibration rows of each.
    conformity_score : {"lac", "aps"}, default="lac"
        "lac" gives the smallest sets on average; a set may be empty. "aps"
        gives larger sets where rows are hard and never an empty one.
    cv : None, "split", "prefit", int or splitter, default=None
        Where the calibration probabilities come from.

        None: the estimator's own leave-one-out probabilities where it has ``leave_one_out_proba``, so that every row
        trains and calibrates; otherwise as "split". "split": a fifth of every class is held out, with a fixed seed; a
        class of one row stays with the estimator, but a fifth of such rows counts as not covered. "prefit": the
        estimator is fitted already, on other rows, and ``fit`` only calibrates. An int or splitter: the estimator is
        fitted without each fold and asked about it; these models answer together, by the mean of their probabilities.

        "split" and "prefit" carry the finite-sample guarantee, whatever the estimator. The others come close where
        leaving a row or a fold out changes answers little, as it does with neighbors.

    Attributes
    ----------
    estimator_ : the fitted classifier.
    classes_ : (n_classes,) its labels.
    thresholds_ : (n_classes,)
        The largest score with which each class is in a set; +inf: in every set.
    n_calibration_ : int
        How many rows the thresholds were read from.
    unseen_class_rate_ : float
        The share of these rows that are alone in their class, and so of a class that is unseen without them: about how
        many new rows are of a class that no row here has (Good and Turing's estimate). No set holds such a class; the
        others compensate, so that ``coverage`` is kept over all new rows. Above 1 − ``coverage`` it cannot be: a
        warning says so, and every set holds every class. 0 with "prefit", whose rows must be of known classes: the
        promise is then about such rows.
    n_features_in_, feature_names_in_ : as the estimator has them.

    Examples
    --------
    >>> from nearsay.posterior.classifier import NeighborClassifier
    >>> from nearsay.posterior.methods.proportional import Proportional
    >>> known = NeighborClassifier(3, posterior=Proportional(model_failure=0.0))
    >>> known = known.fit([[0], [1], [2], [10], [11], [12]], list("aaabbb"))
    >>> sets = ConformalClassifier(known, coverage=0.75, cv="prefit").fit([[3], [5], [7], [9]], ["a", "a", "a", "b"])
    >>> sets.thresholds_.round(3)                    # 7 is an 'a' that got 1/3: the fourth of four scores
    array([0.667, 0.667])
    >>> sets.predict_set_labels([[1], [7]])
    [['a'], ['b', 'a']]
    """

    def __init__(
        self,
        estimator: Any,
        coverage: float = 0.9,
        *,
        per_class: bool = False,
        conformity_score: str = "lac",
        cv: Any = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.per_class = per_class
        self.conformity_score = conformity_score
        self.cv = cv

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
    ) -> ConformalClassifier:
        """Fit the estimator (not with ``cv="prefit"``) and read the thresholds from rows it was not fitted to.

        Parameters
        ----------
        X : rows, as the estimator takes them.
        y : (n_rows,) labels.
        sample_weight, groups, validation : optional
            As in ``HedgedClassifier.fit``: weights serve where the estimator is fitted, no row is judged by rows of its
            group, and the thresholds are read from validation rows where there are any.
        """
        check_choice("conformity_score", self.conformity_score, SCORES)
        check_flag("per_class", self.per_class)
        check_share("coverage", self.coverage, ends=False)
        calibration = self._fit_estimator(X, y, sample_weight, groups, validation)
        self._labels = columns(calibration.labels, self.classes_)
        self._scores = np.empty(len(self._labels))
        for rows, p in calibration.blocks():
            scores = SCORES[self.conformity_score](p)
            self._scores[rows] = scores[np.arange(len(rows)), self._labels[rows]]
        self._unseen = calibration.unseen
        self._n_unseen = int(calibration.unseen.sum()) + calibration.n_unasked
        self.n_calibration_ = len(self._labels) + calibration.n_unasked
        self.unseen_class_rate_ = self._n_unseen / self.n_calibration_
        self._read_thresholds()
        return self

    def set_coverage(self, coverage: float) -> ConformalClassifier:
        """Ask for another coverage; nothing is fitted again. Sets of a larger coverage hold those of a smaller one."""
        check_is_fitted(self, "estimator_")
        check_share("coverage", coverage, ends=False)
        self.coverage = coverage
        self._read_thresholds()
        return self

    def predict_set(self, X: Any) -> np.ndarray:
        """Which classes are in the set of each row: (n_rows, n_classes) bool, columns as in ``classes_``."""
        return self._sets(self.predict_proba(X))

    def predict_set_labels(self, X: Any) -> list[list[Any]]:
        """The labels in the set of each row, the most probable first (equally probable ones as in ``classes_``)."""
        p = self.predict_proba(X)
        order = np.argsort(-p, axis=1, kind="stable")
        inside = np.take_along_axis(self._sets(p), order, axis=1)
        return [self.classes_[row[keep]].tolist() for row, keep in zip(order, inside, strict=True)]

    def explain(self, X: Any) -> EvidenceList[SetEvidence]:
        """Why each row got its set: a ``SetEvidence`` each.

        Each member with its probability, the level promised, and where the estimator explains itself, its evidence,
        such as the neighbors. The list carries ``sets`` and ``probabilities``, equal to what ``predict_set`` and
        ``predict_proba`` give.
        """
        p, evidence = self._explained(X)
        sets = self._sets(p)
        items = set_evidence(
            sets,
            p,
            self.classes_,
            evidence,
            coverage=self.coverage,
            per_class=self.per_class,
            n_calibration=self.n_calibration_,
        )
        return EvidenceList(items, sets=sets, probabilities=p)

    def predict(self, X: Any) -> np.ndarray:
        """The one label that the estimator predicts."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X)

    def _read_thresholds(self) -> None:
        n_classes = len(self.classes_)
        if self.per_class:
            self.thresholds_ = class_thresholds(self._scores, self._labels, n_classes, self.coverage)
        else:
            # A class that was never seen fits worse than any that a set can hold.
            scores = np.append(self._scores[~self._unseen], np.full(self._n_unseen, math.inf))
            self.thresholds_ = np.full(n_classes, threshold(scores, self.coverage))
        if np.isinf(self.thresholds_).any():
            warnings.warn(self._too_few(), UserWarning, stacklevel=3)

    def _sets(self, p: np.ndarray) -> np.ndarray:
        return SCORES[self.conformity_score](p) <= self.thresholds_

    def _too_few(self) -> str:
        need = rows_needed(self.coverage)
        if not self.per_class and self.n_calibration_ >= need:
            return (
                f"A coverage of {self.coverage:g} cannot be reached: about {self.unseen_class_rate_:.0%} of new rows"
                " are of a class that no row here has, for as many rows here are alone in their class, and no set can"
                " hold it. Every set holds every class. Pass more rows, or ask for less."
            )
        if not self.per_class:
            return (
                f"A coverage of {self.coverage:g} takes at least {need} calibration rows, but there are"
                f" {self.n_calibration_}: every set holds every class. Calibrate on more rows, or ask for less."
            )
        short = np.flatnonzero(np.isinf(self.thresholds_))
        counts = np.bincount(self._labels, minlength=len(self.classes_))
        named = [f"{self.classes_[number]} ({counts[number]})" for number in short[:MOST_NAMES]]
        more = [f"… {len(short) - MOST_NAMES} more"] if len(short) > MOST_NAMES else []
        return (
            f"A coverage of {self.coverage:g} for each class takes at least {need} calibration rows of it;"
            f" {len(short)} of {len(self.classes_)} classes have fewer and are in every set: {', '.join(named + more)}."
            " Calibrate on more of their rows, or ask for less."
        )
