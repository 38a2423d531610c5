"""Scores of classes, and thresholds that the true class meets as often as asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

# Of "raps": ranks up to this one cost nothing, each further one so much.
RANKS_FREE = 5
RANK_PENALTY = 0.02


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
    order, falling, opens = _in_order(p)
    above = np.zeros(p.shape)
    np.cumsum(falling[:, :-1], axis=1, out=above[:, 1:])
    # What stands above the first of equals stands above all of them; sums only grow, so the largest so far is its.
    above = np.maximum.accumulate(np.where(opens, above, 0.0), axis=1)
    scores = np.empty_like(above)
    np.put_along_axis(scores, order, above, axis=1)
    return scores


def raps_scores(p: np.ndarray) -> np.ndarray:
    """As ``aps_scores``, plus a penalty for every rank beyond the fifth: fewer improbable classes (Angelopoulos 2021).

    >>> raps_scores(np.array([[0.25, 0.2, 0.15, 0.125, 0.1, 0.1, 0.075]])).round(3)
    array([[0.   , 0.25 , 0.45 , 0.6  , 0.725, 0.725, 0.965]])
    """
    order, _, opens = _in_order(p)
    rank = np.maximum.accumulate(np.where(opens, np.arange(p.shape[1]), 0), axis=1)  # how many are more probable
    penalty = np.empty(p.shape)
    np.put_along_axis(penalty, order, RANK_PENALTY * np.maximum(rank + 1 - RANKS_FREE, 0), axis=1)
    return aps_scores(p) + penalty


def _in_order(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The classes, the most probable first, their probabilities, and whether each is the first of equals."""
    order = np.argsort(-p, axis=1, kind="stable")
    falling = np.take_along_axis(p, order, axis=1)
    return order, falling, np.diff(falling, axis=1, prepend=np.inf) < 0


SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "lac": lac_scores,
    "aps": aps_scores,
    "raps": raps_scores,
}


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
