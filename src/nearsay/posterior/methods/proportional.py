"""Proportional votes: the share of the votes as a probability, smoothed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from nearsay.core.settings import check_choice
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior
from nearsay.posterior.votes import count_votes, neighbor_labels


def keep_for_failure(votes: np.ndarray, cast: np.ndarray, n_classes: int, model_failure: float) -> np.ndarray:
    """(1−Δ)·votes/K + Δ/C: the share Δ of the probability is spread evenly over all C classes.

    Where no vote was cast, all classes are equally likely.

    >>> keep_for_failure(np.array([3, 1]), np.array([4, 4]), n_classes=2, model_failure=0.1)
    array([0.725, 0.275])
    """
    p: np.ndarray = votes / np.where(cast > 0, cast, 1)
    p *= 1 - model_failure  # in place: with thousands of classes each new array costs as much as the arithmetic
    p += np.where(cast > 0, model_failure, 1.0) / n_classes
    return p


def add_one(votes: np.ndarray, cast: np.ndarray, n_classes: int, model_failure: float) -> np.ndarray:
    """(votes+1)/(K+C): as if every class had one more vote.

    >>> add_one(np.array([3, 1]), np.array([4, 4]), n_classes=2, model_failure=0.1).round(3)
    array([0.667, 0.333])
    """
    return (votes + 1) / (cast + n_classes)


SMOOTHINGS: dict[str, Callable[[np.ndarray, np.ndarray, int, float], np.ndarray]] = {
    "model_failure": keep_for_failure,
    "add-one": add_one,
}


class Proportional(Posterior):
    """The probability of a class is its share of the votes, smoothed so that none is 0.

    Parameters
    ----------
    model_failure : float, default=0.01
        Share of the probability spread evenly over all classes, from 0 up to
        but not including 1. Above zero, no class ever gets probability 0, so
        the log posterior stays finite.
    smoothing : {"model_failure", "add-one"}, default="model_failure"
        (1−Δ)·votes/K + Δ/C with Δ = ``model_failure``, or (votes+1)/(K+C),
        which does not use ``model_failure``. C is the number of classes, K
        the number of neighbors; a missing neighbor does not count. Where rows
        have weights, votes and K are sums of them (1 in the mean of all rows).

    >>> table = NeighborTable(np.array([[0, 1, 2]]), np.array([[0.0, 0.0, 0.0]]))
    >>> labels = np.array([0, 0, 1])
    >>> Proportional(model_failure=0.0).fit(None, labels, n_classes=2).proba(table).round(3)
    array([[0.667, 0.333]])
    >>> Proportional(smoothing="add-one").fit(None, labels, n_classes=2).proba(table)
    array([[0.6, 0.4]])
    """

    name = "proportional"
    needs_past_cases = False
    takes_weights = True

    def __init__(self, *, model_failure: float = 0.01, smoothing: str = "model_failure") -> None:
        self.model_failure = model_failure
        self.smoothing = smoothing

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("smoothing", self.smoothing, SMOOTHINGS)

    def fit(
        self, table: NeighborTable | None, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None
    ) -> Self:
        """Remember the labels; nothing is learned from past cases."""
        self.check_parameters()
        self.labels_ = labels
        self.n_classes_ = n_classes
        return self

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes); every row sums to 1."""
        labels, is_neighbor = neighbor_labels(table, self.labels_), table.indices >= 0
        if self.weights is None:
            votes, cast = count_votes(labels, self.n_classes_), np.count_nonzero(is_neighbor, axis=1, keepdims=True)
        else:
            weights = np.where(is_neighbor, self.weights.values[table.indices], 0.0)
            votes = self.weights.in_rows(count_votes(labels, self.n_classes_, weights))
            cast = self.weights.in_rows(weights.sum(axis=1, keepdims=True))
        return SMOOTHINGS[self.smoothing](votes, cast, self.n_classes_, self.model_failure)
