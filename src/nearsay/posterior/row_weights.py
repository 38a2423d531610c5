"""How much each training row counts: as a neighbor that votes, and as a past case to learn from.

sample_weight ──► rows of weight 0: left aside, as if they had not been given
             └──► all others: weights whose sums are exact, and their mean
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

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
        return self.in_rows(self.values)

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


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows that a model is fitted to: all of them count.

    X : rows, or distances between them, or ``ShardedRows``.
    labels : (n_rows,) class numbers.
    classes : (n_classes,) labels by class number.
    beside_proba : for each companion model what it says of these rows, or None for one that is to be fitted.
    groups : (n_rows,) int, or None; rows of one group are never asked about each other.
    """

    X: Any
    labels: np.ndarray
    classes: np.ndarray
    weights: RowWeights | None = None
    beside_proba: Sequence[Any] | None = None
    groups: np.ndarray | None = None

    def some(self, X: Any, rows: np.ndarray) -> TrainingRows:
        """Some of the rows, whose part of X is given."""
        weights = None if self.weights is None else self.weights[rows]
        groups = None if self.groups is None else self.groups[rows]
        held_out = held_out_of_rows(self.beside_proba, rows, len(self.labels))
        return TrainingRows(X, self.labels[rows], self.classes, weights, held_out, groups)


def held_out_of_rows(held_out: Sequence[Any] | None, rows: np.ndarray, n_rows: int) -> list[Any] | None:
    """The same probabilities of some rows; what has another number of rows stays, for ``fit`` to refuse."""
    if held_out is None:
        return None
    return [p if p is None or len(p) != n_rows else _safe_indexing(p, rows) for p in held_out]


@dataclass(frozen=True, eq=False)
class GivenRows:
    """The rows that ``fit`` was given, of which a model holds those with a weight above 0.

    A model numbers the rows it holds; ``labels``, ``ids`` and everything that is handed out go by the numbers in X.

    labels : (n_given,) class numbers; −1 where all rows of the class have weight 0.
    ids : (n_given,) names of the rows, or None.
    held : (n_rows,) numbers in X of the rows held; None for all.
    left_aside : the other rows.
    groups : (n_given,) the number of the group of each row, or None.
    """

    labels: np.ndarray
    ids: np.ndarray | None = None
    held: np.ndarray | None = None
    left_aside: Any = None
    groups: np.ndarray | None = None

    def table(self, table: NeighborTable) -> NeighborTable:
        """A table with row numbers as in X."""
        return table if self.held is None else replace(table, indices=self.numbers(table.indices))

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """Numbers in X of rows by their numbers in the model; −1 stays."""
        return rows if self.held is None else np.where(rows >= 0, self.held[rows], -1)

    def line_for_each(self, table: NeighborTable) -> NeighborTable:
        """A table with a line for every row in X, those left aside empty, from one with a line for every row held."""
        if self.held is None:
            return table
        shape = len(self.labels), table.n_neighbors
        indices, distances = np.full(shape, -1), np.full(shape, np.inf)
        indices[self.held], distances[self.held] = table.indices, table.distances
        return NeighborTable(indices, distances)

    def with_groups(self, of_held: np.ndarray | None) -> GivenRows:
        """The same with the groups of the rows held; each row left aside is in one of its own."""
        if of_held is None or self.held is None:
            return replace(self, groups=of_held)
        groups: np.ndarray = of_held.max(initial=0) + 1 + np.arange(len(self.labels))
        groups[self.held] = of_held
        return replace(self, groups=groups)

    def proba_of_each(self, of_held: np.ndarray, of_others: Callable[[Any], np.ndarray]) -> np.ndarray:
        """Probabilities of every row in X, from those of the rows held and a function of the others."""
        if self.held is None:
            return of_held
        aside = np.ones(len(self.labels), np.bool_)
        aside[self.held] = False
        lines = np.empty((len(aside), *of_held.shape[1:]))
        lines[self.held], lines[aside] = of_held, of_others(self.left_aside)
        return lines
