"""The k curve: how well every k does, from one leave-one-out table.

A smaller k is the first columns of the table, so one pass along each row
counts the votes for all of them. What is kept are whole numbers: for each k,
in how many past cases v neighbors had the true label, and in how many it
won. They add up over blocks of rows in any order, and every smoothing reads
its log posterior from the same counts. Where rows have weights, votes are no
whole numbers, and the log posteriors themselves are added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.proportional import SMOOTHINGS
from nearsay.posterior.row_weights import RowWeights
from nearsay.posterior.votes import check_tie_break, neighbor_labels, neighborhood_numbers, winners

# Votes for all classes are held at once for so many pairs of a case and a class.
PAIRS_AT_ONCE = 1 << 20

# Means that differ in later digits are equal: sums in another order do.
DIGITS = 9

FEW_NEIGHBORS = 30
MANY_NEIGHBORS = 200


def largest_k(n_rows: int) -> int:
    """The largest k worth trying: √n, but at least 30 and at most 200, and never more than the other rows.

    A k that grows slower than n is what consistency asks for; √n is the usual such rule.

    >>> [largest_k(n) for n in (2, 20, 150, 10_000, 1_000_000)]
    [1, 19, 30, 100, 200]
    """
    return min(n_rows - 1, max(FEW_NEIGHBORS, min(MANY_NEIGHBORS, math.isqrt(n_rows))))


class KCurve(NamedTuple):
    """How well each k does when every row is left out once.

    ``k`` runs from 1; ``accuracy`` is the share of rows whose own label won;
    ``log_posterior`` the mean natural log of the probability given to it.
    """

    k: np.ndarray
    accuracy: np.ndarray
    log_posterior: np.ndarray

    @property
    def best(self) -> int:
        """The k with the largest mean log posterior; where equal, the more accurate, then the smaller.

        1 where the curve is empty: a collection of one row has nothing to try.

        >>> KCurve(np.array([1, 2, 3]), np.array([0.8, 0.9, 0.9]), np.array([-0.7, -0.2, -0.2])).best
        2
        """
        if len(self.k) == 0:
            return 1
        log_posterior, accuracy = self.log_posterior.round(DIGITS), self.accuracy.round(DIGITS)
        likeliest = np.flatnonzero(log_posterior == log_posterior.max())
        return int(self.k[likeliest[accuracy[likeliest].argmax()]])


class PastVotes:
    """Counts of how often the neighbors were right, for k = 1 … ``k`` at once.

    ``true_votes[k−1, v]`` past cases had v of their k nearest neighbors say
    the true label; in ``right[k−1]`` it won the vote. A missing neighbor
    casts no vote.

    >>> table = NeighborTable(np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]]))
    >>> past = PastVotes(k=2, n_classes=2).add(table, labels=np.array([0, 0, 1]), rows=np.array([0, 1, 2]))
    >>> past.right, past.curve().accuracy.round(3)
    (array([2, 2]), array([0.667, 0.667]))
    """

    summed: tuple[str, ...] = ("n_cases", "true_votes", "right")

    def __init__(
        self,
        k: int,
        n_classes: int,
        *,
        model_failure: float = 0.01,
        smoothing: str = "model_failure",
        tie_break: str = "nearest",
        seed: int = 0,
    ) -> None:
        check_tie_break(tie_break)
        self.n_classes = n_classes
        self.model_failure = model_failure
        self.smoothing = smoothing
        self.tie_break = tie_break
        self.seed = seed
        self.n_cases = 0
        self.true_votes = np.zeros((k, k + 1), np.int64)
        self.right: np.ndarray = np.zeros(k, np.int64)

    def add(self, table: NeighborTable, labels: np.ndarray, rows: np.ndarray) -> Self:
        """Count the cases of a leave-one-out table: line i is about row ``rows[i]``."""
        from nearsay.posterior.choice.k_curve_kernels import count_past_votes

        lots = neighborhood_numbers(table, self.seed) if self.tie_break == "random" else np.empty((0, 0), np.uint64)
        work = np.zeros((2, self.n_classes), np.int64)
        classes, truth = neighbor_labels(table, labels), labels[rows]
        count_past_votes(classes, truth, self.tie_break == "first", lots, *work, self.true_votes, self.right)
        self.n_cases += len(rows)
        return self

    def with_those(self, others: Sequence[Self]) -> Self:
        """The counts of these cases and of others."""
        total = copy(self)
        for name in self.summed:
            vars(total)[name] = sum(vars(each)[name] for each in (self, *others))
        return total

    def curve(self) -> KCurve:
        """Accuracy and mean log posterior for every k. A probability of 0 for a true label gives −inf."""
        k = np.arange(1, len(self.right) + 1)
        votes = np.arange(len(self.right) + 1)
        shares = np.minimum(votes, k[:, None]), k[:, None]
        p = SMOOTHINGS[self.smoothing](*shares, self.n_classes, self.model_failure)
        with np.errstate(divide="ignore"):
            log_p = np.log(p)
        counted = np.where(self.true_votes > 0, log_p, 0.0)  # 0 cases of probability 0 count as nothing, not as NaN
        return KCurve(k, self.right / self.n_cases, (self.true_votes * counted).sum(axis=1) / self.n_cases)


class WeightedPastVotes(PastVotes):
    """How well the weighted votes of k = 1 … ``k`` neighbors did; each case counts as much as its row.

    weights : of all rows of the collection.
    model_failure, smoothing, tie_break, seed : as in ``NeighborClassifier``.

    >>> table = NeighborTable(np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]]))
    >>> past = WeightedPastVotes(2, n_classes=2, weights=RowWeights.of(np.array([1.0, 1.0, 2.0])))
    >>> past.add(table, labels=np.array([0, 0, 1]), rows=np.array([0, 1, 2])).curve().accuracy
    array([0.5, 0. ])
    """

    summed = ("worth", "log_posterior", "right")

    def __init__(self, k: int, n_classes: int, weights: RowWeights, **options: Any) -> None:
        super().__init__(k, n_classes, **options)
        self.weights = weights
        self.worth = 0.0
        self.log_posterior, self.right = np.zeros(k), np.zeros(k)

    def add(self, table: NeighborTable, labels: np.ndarray, rows: np.ndarray) -> Self:
        """Count the cases of a leave-one-out table: line i is about row ``rows[i]``."""
        for part in row_blocks(len(table), size=max(1, PAIRS_AT_ONCE // self.n_classes)):
            self._add(table[part], labels, rows[part])
        return self

    def _add(self, table: NeighborTable, labels: np.ndarray, rows: np.ndarray) -> None:
        classes, truth = neighbor_labels(table, labels), labels[rows]
        worth = self.weights.values[rows]
        case = np.arange(len(rows))
        votes, cast = np.zeros((len(rows), self.n_classes)), np.zeros(len(rows))
        for j in range(table.n_neighbors):
            present = np.flatnonzero(classes[:, j] >= 0)
            weight = self.weights.values[table.indices[present, j]]
            votes[present, classes[present, j]] += weight
            cast[present] += weight
            true_votes, all_votes = self.weights.in_rows(votes[case, truth]), self.weights.in_rows(cast)
            p = SMOOTHINGS[self.smoothing](true_votes, all_votes, self.n_classes, self.model_failure)
            with np.errstate(divide="ignore"):
                self.log_posterior[j] += worth @ np.log(p)
            best = winners(votes, table.first(j + 1), labels, self.tie_break, self.seed)
            self.right[j] += worth @ (best == truth)
        self.worth += worth.sum()

    def curve(self) -> KCurve:
        """Accuracy and mean log posterior for every k. A probability of 0 for a true label gives −inf."""
        k = np.arange(1, len(self.right) + 1)
        return KCurve(k, self.right / self.worth, self.log_posterior / self.worth)


def curves_of(
    cases: Iterable[tuple[np.ndarray, NeighborTable]],
    labels: np.ndarray,
    n_classes: int,
    k: int,
    fold: np.ndarray,
    *,
    weights: RowWeights | None = None,
    model_failure: float = 0.01,
    smoothing: str = "model_failure",
    tie_break: str = "nearest",
    seed: int = 0,
) -> tuple[KCurve, np.ndarray]:
    """The curve of some cases, as (row numbers, their neighbors), and the best k without each fold: (n_folds,).

    ``labels``, ``weights`` and ``fold`` are those of all rows.
    """
    options: dict[str, Any] = {
        "model_failure": model_failure, "smoothing": smoothing, "tie_break": tie_break, "seed": seed
    }  # fmt: skip
    n_folds = int(fold.max(initial=-1)) + 1
    votes: list[Any] = [
        PastVotes(k, n_classes, **options) if weights is None else WeightedPastVotes(k, n_classes, weights, **options)
        for _ in range(n_folds)
    ]
    for rows, table in cases:
        of = fold[rows]
        for number in np.unique(of):
            lines = np.flatnonzero(of == number)
            votes[number].add(table[lines], labels, rows[lines])
    whole = votes[0].with_those(votes[1:]).curve()
    if n_folds == 1:  # it has no others to choose by
        return whole, np.array([whole.best])
    turned = [[*votes[number + 1 :], *votes[:number]] for number in range(n_folds)]
    return whole, np.array([first.with_those(others).curve().best for first, *others in turned])
