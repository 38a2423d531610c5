"""How much each row counts: as a neighbor that votes, and as a past case that teaches.

sample_weight ──► rows of weight 0: left aside, as if they had not been given
             └──► all others: weights whose sums are exact, and their mean
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.core.arrays import check_sample_weight
from nearsay.neighbors.table import NeighborTable

# Weights are kept to so many binary digits behind the point, with a mean from 1 to 2. So their sums are exact for up to
# a quarter of a billion rows: a case can be taken out of a count again, and the order of adding does not matter.
DIGITS = 24


@dataclass(frozen=True)
class RowWeights:
    """How much each row of a collection counts, not all the same.

    Attributes
    ----------
    values : (n_rows,) above 0
        Proportional to what was given, to about seven digits of the mean. Sums of them are exact.
    n_rows, total : int and float
        What they are measured by: all of them together count for as many as there are rows.

    >>> weights = RowWeights.of(np.array([1.0, 1.0, 4.0]))
    >>> weights.relative
    array([0.5, 0.5, 2. ])
    >>> RowWeights.of(np.array([3.0, 3.0])) is None               # all count the same: as without weights
    True
    """

    values: np.ndarray
    n_rows: int
    total: float

    @classmethod
    def of(cls, given: np.ndarray) -> RowWeights | None:
        """Weights above 0; None where all are equal, which is the same as no weights."""
        exponent = np.frexp(given.mean())[1] - 1
        values = np.ldexp(np.maximum(np.rint(np.ldexp(given, DIGITS - exponent)), 1.0), -DIGITS)
        return None if (values == values[0]).all() else cls(values, len(values), float(values.sum()))

    @property
    def relative(self) -> np.ndarray:
        """The weights with a mean of 1."""
        relative: np.ndarray = self.in_rows(self.values)
        return relative

    def in_rows(self, sums: Any) -> Any:
        """How many rows of the usual weight some sums of weights stand for.

        >>> RowWeights(np.array([1.0, 1.0, 4.0]), n_rows=3, total=6.0).in_rows(np.array([2.0, 6.0]))
        array([1., 3.])
        """
        return sums * self.n_rows / self.total  # in this order whole numbers stay whole

    def __getitem__(self, rows: np.ndarray) -> RowWeights:
        """Those of some rows, measured as before."""
        return replace(self, values=self.values[rows])

    def with_more(self, n_rows: int) -> RowWeights:
        """The same with more rows behind, which count once each."""
        return replace(self, values=np.concatenate([self.values, np.full(n_rows, self.total / self.n_rows)]))


def relative_weights(weights: RowWeights | None, rows: np.ndarray) -> np.ndarray | None:
    """How many cases each of these rows counts for; None where each is one.

    >>> relative_weights(RowWeights.of(np.array([1.0, 3.0])), np.array([1, 0]))
    array([1.5, 0.5])
    """
    return None if weights is None else weights[rows].relative


def rows_that_count(sample_weight: Any, n_rows: int) -> tuple[np.ndarray | None, RowWeights | None]:
    """Numbers of the rows with a weight above 0, None for all of them; and their weights, None for the same weight.

    >>> rows_that_count([2, 0, 2], 3)
    (array([0, 2]), None)
    """
    if sample_weight is None:
        return None, None
    given = check_sample_weight(sample_weight, n_rows)
    counts = np.flatnonzero(given)
    return (None if len(counts) == n_rows else counts), RowWeights.of(given[counts])


class HoldsRowsThatCount:
    """A classifier that holds the rows with a weight above 0, and tells of them by their numbers in the X it was given.

    Inside, rows are numbered as they are held; ``labels_`` and ``ids_``, and
    every table that is handed out, go by the numbers in X.
    """

    labels_: np.ndarray
    # Without any of these every row counts, and all the same.
    _held: np.ndarray | None = None
    _weights: RowWeights | None = None
    _aside: Any = None  # the rows of weight 0

    @property
    def _labels(self) -> np.ndarray:
        """The class number of every row that is held."""
        return self.labels_ if self._held is None else self.labels_[self._held]

    def _as_given(self, table: NeighborTable) -> NeighborTable:
        """A table with row numbers as in X."""
        return table if self._held is None else replace(table, indices=self._numbers_given(table.indices))

    def _lines_given(self, table: NeighborTable) -> NeighborTable:
        """A table with a line for every row in X, those left aside empty, from one with a line for every row held."""
        if self._held is None:
            return table
        shape = len(self.labels_), table.n_neighbors
        indices, distances = np.full(shape, -1), np.full(shape, np.inf)
        indices[self._held], distances[self._held] = table.indices, table.distances
        return NeighborTable(indices, distances)

    def _for_every_row(self, of_held: np.ndarray, of_aside: Callable[[], np.ndarray]) -> np.ndarray:
        """A line for every row in X, from what is known of the rows held, and of those left aside if there are any."""
        if self._held is None:
            return of_held
        aside = np.ones(len(self.labels_), np.bool_)
        aside[self._held] = False
        lines = np.empty((len(aside), *of_held.shape[1:]))
        lines[self._held], lines[aside] = of_held, of_aside()
        return lines

    def _numbers_given(self, rows: np.ndarray) -> np.ndarray:
        """Numbers in X of rows by their numbers here; −1 stays."""
        return rows if self._held is None else np.where(rows >= 0, self._held[rows], -1)
