"""Neighbors by several feature spaces at once: their distances, brought to one scale, weighted and added up.

    distance(q, x) = Σ weight of space m · distance in space m / largest distance in space m

With equal weights this is the joint equal contribution of Makadia, Pavlovic and Kumar (2008), a baseline that is hard
to beat; ``lasso_neighbors.py`` learns the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nearsay.arrays import as_rows, check_n_neighbors, check_row_numbers, row_blocks
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors.spaces import FeatureSpace, HeldSpaces, as_spaces
from nearsay.neighbors.table import NeighborTable
from nearsay.parallel import in_parallel

# Queries measured at once, in every space.
QUERIES_AT_ONCE = 16


class JointNeighbors(BaseEstimator):
    """The nearest rows by the mean distance over several feature spaces, each scaled to one (JEC).

    Parameters
    ----------
    features : None, {name: columns} or {name: (columns, distance)}
        The feature spaces; None is one, all columns by Euclidean distance.
    weights : None or {name: weight}
        How much each space counts; only their proportions matter, and a space
        not named counts nothing. None weighs all the same.

    Attributes
    ----------
    weights_ : {name: weight}
        They sum to 1.

    Examples
    --------
    The largest difference is 4 in size and 100 in price, so a step of 1 in size is one of 25 in price:

    >>> X = [[0, 0], [1, 50], [4, 100]]
    >>> joint = JointNeighbors({"size": slice(0, 1), "price": slice(1, 2)}).fit(X)
    >>> joint.neighbors([[0, 50]], k=3).indices
    array([[1, 0, 2]])
    >>> joint.neighbors([[0, 50]], k=3).distances
    array([[0.125, 0.25 , 0.75 ]])
    """

    learns_from_keywords = False

    def __init__(self, features: Any = None, *, weights: Mapping[str, float] | None = None) -> None:
        self.features = features
        self.weights = weights

    def fit(self, X: Any, Y: Any = None) -> JointNeighbors:
        """Hold the rows of ``X`` (n_rows, n_columns). ``Y`` is not looked at."""
        rows = as_rows(X)
        if not len(rows):
            raise InputError("X has no rows: there is nobody to be a neighbor.")
        held = HeldSpaces(rows, as_spaces(self.features, rows.shape[1]))
        return self._hold(held, _weights_by_space(self.weights, held.spaces))

    def neighbors(self, X: Any, k: int) -> NeighborTable:
        """The ``k`` rows nearest to every query, nearest first; equal distances by row number."""
        check_is_fitted(self, "weights_")
        queries = self._as_held(as_rows(X, width=self.n_features_in_))
        return self._nearest(queries, check_n_neighbors(k, self._held.n_rows), None)

    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The same for the rows themselves (or ``rows``: numbers, or a mask), each left out of its own neighbors."""
        check_is_fitted(self, "weights_")
        n_rows = self._held.n_rows
        k = check_n_neighbors(k, n_rows, left_out=1)
        numbers = None if rows is None else check_row_numbers(rows, n_rows)
        if numbers is not None and len(numbers) < n_rows:
            return self._nearest(self._held.rows[numbers], k, numbers)
        table = _empty_table(n_rows, k)
        for lines in self._held.line_blocks():
            distances = self._between_rows(lines)
            np.fill_diagonal(distances[:, lines], np.inf)
            _fill(table, lines, distances)
        return table if numbers is None else table[numbers]

    def distances(self, X: Any = None) -> np.ndarray:
        """How far every query (None: every row) is from every row, all spaces together: (n_queries, n_rows)."""
        check_is_fitted(self, "weights_")
        if X is None:
            return self._between_rows(slice(0, self._held.n_rows))
        queries = self._as_held(as_rows(X, width=self.n_features_in_))
        out = np.empty((len(queries), self._held.n_rows))

        def fill(part: slice) -> None:
            out[part] = self._distances(queries[part])

        in_parallel(fill, row_blocks(len(queries), size=QUERIES_AT_ONCE))
        return out

    def _as_held(self, Q: np.ndarray) -> np.ndarray:
        """The queries in the form in which rows are held."""
        return Q

    def _hold(self, held: HeldSpaces, weights: np.ndarray) -> JointNeighbors:
        self._held = held
        self._factors = weights / weights.sum() / held.scales
        self.n_features_in_ = held.rows.shape[1]
        names = [space.name for space in held.spaces]
        self.weights_ = dict(zip(names, (weights / weights.sum()).tolist(), strict=True))
        return self

    def _nearest(self, Q: np.ndarray, k: int, left_out: np.ndarray | None) -> NeighborTable:
        table = _empty_table(len(Q), k)

        def fill(part: slice) -> None:
            distances = self._distances(Q[part])
            if left_out is not None:
                distances[np.arange(len(distances)), left_out[part]] = np.inf
            _fill(table, part, distances)

        in_parallel(fill, row_blocks(len(Q), size=QUERIES_AT_ONCE))
        return table

    def _distances(self, Q: np.ndarray) -> np.ndarray:
        """Joint distances of queries to all rows: (n_queries, n_rows). A space that counts nothing is not measured."""
        total = np.zeros((len(Q), self._held.n_rows))
        for space in np.flatnonzero(self._factors):
            total += self._factors[space] * self._held.distances(int(space), Q)
        return total

    def _between_rows(self, lines: slice) -> np.ndarray:
        """The same for these rows as queries, most of it measured from one side only."""
        total = np.zeros((lines.stop - lines.start, self._held.n_rows))
        measured = np.empty_like(total)
        for space in np.flatnonzero(self._factors):
            self._held.between_rows(int(space), lines, measured)
            measured *= self._factors[space]
            total += measured
        return total


def _empty_table(n_queries: int, k: int) -> NeighborTable:
    return NeighborTable(np.empty((n_queries, k), np.int64), np.empty((n_queries, k)))


def _fill(table: NeighborTable, part: slice, distances: np.ndarray) -> None:
    """The nearest of each line into this part of the table."""
    k = table.n_neighbors
    for i, line in enumerate(distances, start=part.start):
        table.indices[i] = nearest_first(line, k)
        table.distances[i] = line[table.indices[i]]


def nearest_first(distances: np.ndarray, k: int) -> np.ndarray:
    """The places of the ``k`` smallest, smallest first, equal ones in order.

    >>> nearest_first(np.array([2.0, 1.0, 2.0, 1.0]), 3)
    array([1, 3, 0])
    """
    within = np.flatnonzero(distances <= np.partition(distances, k - 1)[k - 1])
    return within[np.argsort(distances[within], kind="stable")[:k]]


def _weights_by_space(weights: Any, spaces: list[FeatureSpace]) -> np.ndarray:
    names = [space.name for space in spaces]
    if weights is None:
        return np.ones(len(names))
    if not isinstance(weights, Mapping):
        raise InputError(f"weights must map names of feature spaces to numbers, {{'color': 2.0}}; got {weights!r}.")
    for name in weights:
        if name not in names:
            raise unknown_name("feature space", name, names)
    given = np.array([float(weights.get(name, 0.0)) for name in names])
    if not (np.isfinite(given).all() and (given >= 0).all() and given.sum() > 0):
        raise InputError(f"weights must be at least 0, and one of them above; got {dict(weights)!r}.")
    return given
