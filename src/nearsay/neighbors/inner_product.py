"""Largest inner products, found by a Euclidean search: one more column makes all rows equally long.

    rows     (x, √(R² − |x|²))    R the longest        |row − query|² = |q|² + R² − 2 q·x
    queries  (q, 0)                                    so near rows are those with large products

The column is rounded, so the order by distance may be wrong where products are nearly equal. So more rows than wanted
are searched for, and their products computed one multiplication and one addition at a time in float64. All other rows
are no nearer than the last of them, which bounds their products, rounding included. If the bound does not decide,
twice as many are searched for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearsay.core.arrays import check_n_neighbors, row_blocks
from nearsay.core.parallel import in_jobs
from nearsay.distances.vectors import Euclidean, sums_in_order
from nearsay.errors import InputError, NotFitted
from nearsay.neighbors.index import NeighborIndex
from nearsay.search.choose import SearchBackend

BLOCK_BYTES = 64 << 20  # of rows that are multiplied at a time
# Units in the last place that a squared distance may be off, for each column and besides.
UNITS_A_COLUMN, UNITS = 4, 32


class LargestProducts(NamedTuple):
    """Row numbers (n_queries, k) with the largest inner products, largest first, and the products."""

    indices: np.ndarray
    products: np.ndarray


class InnerProductIndex:
    """Search for the rows with the largest inner products with a query.

    For embeddings whose lengths mean something; where they do not, ``NeighborIndex("cosine")`` compares directions.
    Answers are exact: those of a double loop in float64, equal products by row number.

    Parameters
    ----------
    search : str or search backend, default="auto"
        "exact", "gpu" or "auto", as in ``NeighborIndex``.
    n_jobs : int, optional
        Threads, as in scikit-learn.

    Attributes
    ----------
    index_ : NeighborIndex over the rows with one more column.

    Examples
    --------
    >>> index = InnerProductIndex().fit([[1.0, 0.0], [0.0, 3.0], [2.0, 2.0]])
    >>> index.query([[1.0, 1.0], [0.0, 1.0]], k=2)
    LargestProducts(indices=array([[2, 1],
           [1, 2]]), products=array([[4., 3.],
           [3., 2.]]))
    """

    more_rows = 8  # searched for besides those wanted

    def __init__(self, search: SearchBackend = "auto", *, n_jobs: int | None = None) -> None:
        self.search = search
        self.n_jobs = n_jobs

    @in_jobs
    def fit(self, X: Any, y: Any = None) -> InnerProductIndex:
        """Hold the rows of ``X``, numbered from 0. ``y`` is ignored, as in scikit-learn."""
        if self.search == "approximate":
            raise InputError(
                'The largest products are found exactly; got search="approximate". Use "auto", "exact" or "gpu".'
            )
        X = np.asarray(Euclidean().check(X), np.float64)
        if not len(X):
            raise InputError("An index needs at least one row; X is empty.")
        squares = np.einsum("ij,ij->i", X, X)
        self._longest = float(squares.max())
        self._rows = X
        lack = np.sqrt(np.maximum(self._longest - squares, 0.0))
        self.index_ = NeighborIndex(search=self.search).fit(np.column_stack([X, lack]))
        return self

    @in_jobs
    def query(self, Q: Any, k: int) -> LargestProducts:
        """The ``k`` rows with the largest inner product with every query, largest first; equal ones by row number."""
        if not hasattr(self, "index_"):
            raise NotFitted("This index holds no rows yet. Call fit(X) first.")
        Q = np.asarray(Euclidean().check(Q, name="Q", like=self._rows), np.float64)
        k = check_n_neighbors(k, len(self._rows))
        largest = LargestProducts(np.empty((len(Q), k), np.int64), np.empty((len(Q), k)))
        queries, undecided, width = np.column_stack([Q, np.zeros(len(Q))]), np.arange(len(Q)), k + self.more_rows
        while len(undecided):
            width = min(width, len(self._rows))
            table = self.index_.query(queries[undecided], width)
            products = self._products(Q[undecided], table.indices)
            order = np.lexsort((table.indices, -products))[:, :k]
            largest.indices[undecided] = np.take_along_axis(table.indices, order, axis=1)
            largest.products[undecided] = np.take_along_axis(products, order, axis=1)
            if width == len(self._rows):
                break
            others = self._most(Q[undecided], table.distances[:, -1])
            undecided = undecided[~(largest.products[undecided, -1] > others)]
            width *= 2
        return largest

    def _products(self, Q: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Inner products of each query with the rows of these numbers, summed from the first column to the last."""
        products = np.empty(numbers.shape)
        for part in row_blocks(len(Q), size=max(1, BLOCK_BYTES // (8 * numbers.shape[1] * Q.shape[1]))):
            terms = Q[part, None, :] * self._rows[numbers[part]]
            products[part] = sums_in_order(terms.reshape(-1, Q.shape[1])).reshape(numbers[part].shape)
        return products

    def _most(self, Q: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """No row that is at least so far away has a product of more than this, as it is summed."""
        lengths = np.einsum("ij,ij->i", Q, Q) + self._longest
        rounding = (UNITS_A_COLUMN * Q.shape[1] + UNITS) * np.finfo(np.float64).eps * lengths
        return (lengths - distances * distances) / 2 + rounding + Q.shape[1] * np.finfo(np.float64).tiny
