"""How unusual a query is: its distance to the k-th neighbor against what is usual in the collection."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.past_cases import PastCases


class Novelty:
    """The share of the collection's rows that are nearer to their own k-th neighbor than the query is to its.

    From 0 (nearer than any row) to 1 (farther than every row); a row exactly
    as far counts half. The rows' own distances are leave-one-out ones, of the
    rows that ``PastCases`` samples; they are computed once, when first needed.

    With k = n rows the k-th *other* row does not exist; the (n−1)-th is
    compared instead. A collection of one row has nothing to compare: NaN.

    >>> from nearsay.neighbors.index import NeighborIndex
    >>> index = NeighborIndex().fit([[0.0], [1.0], [3.0], [7.0]])
    >>> novelty = Novelty(PastCases(index.with_labels([0, 0, 1, 1])), k=1)
    >>> novelty.usual                       # 0→1, 1→0, 3→1, 7→3
    array([1., 1., 2., 4.])
    >>> novelty.of(index.query([[1.5], [9.0], [-3.0]], 1))      # 0.5, 2 and 3 away
    array([0.   , 0.625, 0.75 ])
    """

    def __init__(self, past: PastCases, k: int) -> None:
        self.past = past
        self.k = min(k, past.n_others)

    @cached_property
    def usual(self) -> np.ndarray:
        """Distances of the collection's rows to their own k-th neighbor, smallest first."""
        return self.past.usual_distances(self.k)

    def of(self, table: NeighborTable) -> np.ndarray:
        """Novelty of every query from its neighbors: (n_queries,)."""
        if self.k == 0:
            return np.full(len(table), np.nan)
        distance = table.distances[:, self.k - 1]
        nearer, not_farther = (np.searchsorted(self.usual, distance, side) for side in ("left", "right"))
        share: np.ndarray = (nearer + not_farther) / (2 * len(self.usual))
        return share
