"""Quantiles of columns, and the normal scores that numbers have among them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from nearsay.core.arrays import evenly

# Normal scores are read between so many values of a column, and are those of no more than 99 rows in 100.
KNOTS = 1000
OUTERMOST = 0.005


@dataclass(frozen=True)
class ColumnQuantiles:
    """The values of every column, some of many, and the share of rows below each, half of its equals among them.

    Columns lie one after the other: a few arrays hold them, however many there are.

    values, shares : (n_values,) of all columns.
    starts : (n_columns + 1,) where each column begins, and where the last ends.

    >>> quantiles = ColumnQuantiles.of(np.array([[3.0], [1.0], [3.0], [8.0]]))
    >>> quantiles.values, quantiles.shares
    (array([1., 3., 8.]), array([0.125, 0.5  , 0.875]))
    """

    values: np.ndarray
    shares: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray, knots: int = KNOTS) -> ColumnQuantiles:
        """The quantiles of each column of some rows, at no more than so many values."""
        n_rows, n_columns = columns.shape
        in_order = np.sort(columns.T, axis=1)
        is_first = np.ones((n_columns, n_rows), np.bool_)
        np.not_equal(in_order[:, 1:], in_order[:, :-1], out=is_first[:, 1:])
        places = np.flatnonzero(is_first)
        counts = np.diff(places, append=n_columns * n_rows)
        shares = (places % n_rows + counts / 2) / n_rows
        n_values = is_first.sum(axis=1)
        starts = np.append(0, np.cumsum(n_values))
        values = in_order.ravel()[places]
        if n_values.max() > knots:
            some = np.concatenate([start + evenly(n, knots) for start, n in zip(starts, n_values, strict=False)])
            values, shares = values[some], shares[some]
            starts = np.append(0, np.cumsum(np.minimum(n_values, knots)))
        return cls(values, shares, starts)

    def normal_scores(self, columns: np.ndarray) -> np.ndarray:
        """Where a standard normal has as large a share below as lies below each number: (n_rows, n_columns).

        >>> quantiles = ColumnQuantiles(np.array([0.0, 2.0, 4.0]), np.array([0.16, 0.5, 0.84]), np.array([0, 3]))
        >>> quantiles.normal_scores(np.array([[1.0], [2.0], [9.0]])).ravel().round(2)
        array([-0.44,  0.  ,  0.99])
        """
        shares = np.empty(columns.shape)
        for number, (start, stop) in enumerate(pairwise(self.starts)):
            shares[:, number] = np.interp(columns[:, number], self.values[start:stop], self.shares[start:stop])
        return ndtri(np.clip(shares, OUTERMOST, 1 - OUTERMOST))
