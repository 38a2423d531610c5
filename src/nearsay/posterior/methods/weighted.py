"""Weighted votes: weights learned for the rank of the neighbor, or for each row."""

from __future__ import annotations

from typing import Self

import numpy as np

from nearsay.core.parallel import one_blas_thread
from nearsay.errors import unknown_name
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior
from nearsay.posterior.methods.past_case_table import CaseTable, past_cases, warn_of_no_past_cases
from nearsay.posterior.methods.rank_weights import decreasing_weights
from nearsay.posterior.past_cases import MAX_PAST_CASES
from nearsay.posterior.row_weights import RowWeights, relative_weights
from nearsay.posterior.votes import neighbor_labels

# Rows that always or never were right would have scores that run to infinity, so a score is pulled to 0 (weight
# ½, like all others) as if it had been seen there once with this spread: at 2, weights may still differ sevenfold.
# Where one half of past cases is judged by weights learned from the other (leaves), 1 and 2 do best; 3 is worse than
# equal weights.
SPREAD_OF_SCORES = 2.0


def weights_by_rank(
    table: NeighborTable, labels: np.ndarray, rows: np.ndarray, given: RowWeights | None = None
) -> np.ndarray:
    """Weights of the neighbors 1 … k, summing to 1, never larger than that of a nearer one.

    Line i is about row ``rows[i]``, and counts as much as that row does; its neighbors are taken as equals.
    """
    right = neighbor_labels(table, labels) == labels[rows][:, None]
    with one_blas_thread():
        return decreasing_weights(right, relative_weights(given, rows))


def weights_by_row(
    table: NeighborTable, labels: np.ndarray, rows: np.ndarray, given: RowWeights | None = None
) -> np.ndarray:
    """Weights from 0 to 1 of every row of the collection, as the neighbor of other rows.

    A row that is nobody's neighbor keeps ½. Line i is about row ``rows[i]``; where rows have weights ``given``, it
    counts as much as that row does, and the neighbors have both weights, multiplied.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    from nearsay.posterior.methods.weighted_kernels import surprise_of_weights

    # No weights could help a case without a right neighbor.
    helped = (neighbor_labels(table, labels) == labels[rows][:, None]).any(axis=1)
    indices, truth = table.indices[helped], labels[rows[helped]]
    as_neighbor = np.ones(len(labels)) if given is None else given.relative
    as_case = as_neighbor[rows[helped]]

    def surprise(scores: np.ndarray) -> tuple[float, np.ndarray]:
        slope = scores / SPREAD_OF_SCORES**2
        pull = float(scores @ slope) / 2
        learned = expit(scores)
        return pull + surprise_of_weights(
            learned * as_neighbor, 1.0 - learned, indices, labels, truth, as_case, slope
        ), slope

    with one_blas_thread():  # the vectors are short: threads would wait for each other longer than they work
        solution = minimize(surprise, np.zeros(len(labels)), jac=True, method="L-BFGS-B")
    return expit(solution.x)


LEARNERS = {"rank": weights_by_rank, "row": weights_by_row}


class Weighted(Posterior):
    """A class is as likely as the weight of its neighbors, with the weights that made past cases likeliest.

    Parameters
    ----------
    model_failure : float, default=0.01
        Share of the probability spread evenly over all classes.
    by : {"rank", "row"}, default="rank"
        One weight for each rank of a neighbor, never larger than that of a
        nearer one; or one for each row of the collection, from 0 to 1, shared
        out among the neighbors of a query.
    max_past_cases : int or None, default=10_000
        How many rows of a larger collection are asked about the others to learn from, at most; None for all.

    Attributes
    ----------
    weights_ : (n_neighbors,) summing to 1, or (n_rows,) from 0 to 1
        By rank or by row. Where rows were given weights, each neighbor has both, multiplied.
    right_ : (n_neighbors,) whole numbers
        Past cases whose neighbor at each rank had their label; where rows have weights, how many these count for.

    Of three neighbors with weights ½, ⅓ and ⅙ the first and the last say 0:

    >>> weighted = Weighted(model_failure=0.0)
    >>> weighted.labels_, weighted.n_classes_, weighted.weights_ = np.array([0, 1, 0]), 2, np.array([3, 2, 1]) / 6
    >>> weighted.proba(NeighborTable(np.array([[0, 1, 2]]), np.zeros((1, 3)))).round(3)
    array([[0.667, 0.333]])
    """

    name = "weighted"
    takes_weights = True

    def __init__(
        self, *, model_failure: float = 0.01, by: str = "rank", max_past_cases: int | None = MAX_PAST_CASES
    ) -> None:
        self.model_failure = model_failure
        self.by = by
        self.max_past_cases = max_past_cases

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.by not in LEARNERS:
            raise unknown_name("kind of weights", self.by, LEARNERS)

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> Self:
        """Learn the weights from the past cases of a leave-one-out table; line i is about row ``rows[i]``, or row i.

        Without a past case that had a neighbor of its own label all weights are equal.
        """
        self.check_parameters()
        warn_of_no_past_cases(labels)
        self.labels_ = labels
        self.n_classes_ = n_classes
        table, rows = past_cases(table, labels, rows)
        right, worth = neighbor_labels(table, labels) == labels[rows][:, None], relative_weights(self.weights, rows)
        self.right_ = right.sum(axis=0) if worth is None else worth @ right
        self.weights_ = LEARNERS[self.by](table, labels, rows, self.weights)
        return self

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes); every row sums to 1.

        Missing neighbors leave their weight to the others; without any neighbor all classes are alike.
        """
        from nearsay.posterior.methods.weighted_kernels import give_by_weight

        p = np.empty((len(table), self.n_classes_))
        weights = (
            self.weights_[table.indices]
            if self.by == "row"
            else np.broadcast_to(self.weights_[: table.n_neighbors], table.indices.shape)
        )
        if self.weights is not None:
            weights = weights * self.weights.values[table.indices]
        give_by_weight(table.indices, self.labels_, np.ascontiguousarray(weights), self.model_failure, p)
        return p

    def tables(self) -> list[CaseTable]:
        """The weights by rank as they can be shown; weights by row are no table."""
        if self.by == "row":
            return []
        ranks = list(range(1, len(self.weights_) + 1))
        return [CaseTable("weighted", ("rank of the neighbor",), (ranks,), self.right_, self.weights_)]
