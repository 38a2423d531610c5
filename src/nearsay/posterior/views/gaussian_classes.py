"""Gaussian classes: how likely a row is in the cloud of each class, pooled with how far its members are.

    rows ──► columns of one scale ──► directions, whitened ──► how far from the mean of a class, as it spreads
             (or normal scores)

Neighbors show what is near; the mean and the spread of all members show what a class is like where few of them are
near. The covariance of a class is mixed with that within all classes, the more the fewer rows it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, ClassifierMixin

from nearsay.core.arrays import evenly
from nearsay.core.parallel import one_blas_thread
from nearsay.posterior.views.row_transforms import (
    ROWS_AT_ONCE,
    STANDARDIZED,
    ClassSpread,
    along,
    learn_maps,
    principal_directions,
)

# A spread of d columns takes d² numbers a class, and d² products a row and class. More principal directions than so
# many say little more; where rows and classes are many, fewer are taken, so that no more products than these are.
MOST_DIRECTIONS = 64
MOST_PRODUCTS = 4e9
# Probabilities of rows × classes are held; with more than these none are computed.
MOST_ANSWERS = 1 << 24

# Normal scores are read between so many values of a column, and are those of no more than 99 rows in 100.
KNOTS = 1000
OUTERMOST = 0.005
# No number is farther out, so that squares stay finite.
FARTHEST = 1e100


class GaussianClasses(ClassifierMixin, BaseEstimator):
    """Probabilities from one Gaussian a class, all classes taken as equally frequent.

    The covariance of a class is that of its rows, mixed with the one within all
    classes, which counts as many rows as there are columns.

    Parameters
    ----------
    scores : bool, default=False
        Whether columns are first replaced by their normal scores: the quantile
        of each number among the training rows, as a standard normal has it.
        Skewed columns, and those with values far out, then look like a Gaussian's.
    """

    def __init__(self, *, scores: bool = False) -> None:
        self.scores = scores

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Learn means and covariances; X holds finite numbers, and there are at least two classes."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        n, n_classes = len(labels), len(self.classes_)
        [self._standardized] = learn_maps([STANDARDIZED], X, labels)
        columns = self._columns(X)
        if self.scores:
            self._quantiles = ColumnQuantiles.of(columns)
        columns = self._scored(columns)
        with one_blas_thread():
            n_directions = min(MOST_DIRECTIONS, max(1, int(np.sqrt(MOST_PRODUCTS / (n * n_classes)))))
            basis = principal_directions(columns - columns.mean(axis=0), n_directions)
            # Around the means of samples rows spread less than around the true ones: n − n_classes degrees of freedom.
            unbiased = np.sqrt(max(n - n_classes, 1) / n)
            self._whitening = unbiased * basis @ ClassSpread(along(columns, basis), labels).factor(power=1.0, pull=0.0)
            whitened = columns @ self._whitening
            of_classes = [_factor(whitened[labels == c]) for c in range(n_classes)]
        self._factors = np.hstack([factor for factor, _, _ in of_classes])
        self._offsets = np.concatenate([mean @ factor for factor, mean, _ in of_classes])
        self._half_log_det = np.array([half for _, _, half in of_classes])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n_queries, n_classes); the same digits for a row in any batch."""
        far = np.empty((len(X), len(self.classes_)))
        block = np.zeros((ROWS_AT_ONCE, len(self._whitening)))
        with one_blas_thread():
            for first in range(0, len(X), ROWS_AT_ONCE):
                some = self._scored(self._columns(X[first : first + ROWS_AT_ONCE]))
                block[: len(some)] = some
                far[first : first + len(some)] = self._far(block)[: len(some)]
        p: np.ndarray = np.exp(far.min(axis=1, keepdims=True) - far)
        p /= p.sum(axis=1, keepdims=True)
        return p

    def _far(self, columns: np.ndarray) -> np.ndarray:
        """Minus the log densities, up to what all classes have in common."""
        apart = columns @ self._whitening @ self._factors - self._offsets
        squares = (apart * apart).reshape(len(columns), len(self.classes_), -1)
        far: np.ndarray = squares.sum(axis=2) / 2 + self._half_log_det
        return far

    def _columns(self, X: np.ndarray) -> np.ndarray:
        return np.clip(self._standardized(X).astype(np.float64), -FARTHEST, FARTHEST)

    def _scored(self, columns: np.ndarray) -> np.ndarray:
        return self._quantiles.normal_scores(columns) if self.scores else columns


@dataclass(frozen=True)
class ColumnQuantiles:
    """The values of every column, some of many, and the share of rows below each, half of its equals among them.

    Columns lie one after the other: a few arrays hold them, however many there are.

    Attributes
    ----------
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
    def of(cls, columns: np.ndarray) -> ColumnQuantiles:
        """The quantiles of each column of some rows."""
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
        if n_values.max() > KNOTS:
            some = np.concatenate([start + evenly(n, KNOTS) for start, n in zip(starts, n_values, strict=False)])
            values, shares = values[some], shares[some]
            starts = np.append(0, np.cumsum(np.minimum(n_values, KNOTS)))
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
        scores: np.ndarray = ndtri(np.clip(shares, OUTERMOST, 1 - OUTERMOST))
        return scores


def _factor(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """F with F Fᵀ the inverse covariance of a class, its mean, and half the log of the determinant of its covariance.

    Rows are whitened, so that the covariance within all classes is the identity.
    """
    mean = rows.mean(axis=0)
    centered = rows - mean
    worth = rows.shape[1]
    values, vectors = np.linalg.eigh((centered.T @ centered + worth * np.eye(worth)) / (len(rows) - 1 + worth))
    return vectors / np.sqrt(values), mean, float(np.log(values).sum() / 2)
