"""Gaussian classes: how likely a row is in the cloud of each class, pooled with how far its members are.

    rows ──► columns of one scale ──► directions, whitened ──► how far from the mean of a class, as it spreads
             (or normal scores)

Neighbors show what is near; the mean and the spread of all members show what a class is like where few of them are
near. The covariance of a class is mixed with that within all classes, the more the fewer rows it has.
"""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.core.parallel import one_blas_thread
from nearsay.encode.column_quantiles import ColumnQuantiles
from nearsay.posterior.views.principal_directions import ROWS_AT_ONCE, along_in_blocks, principal_directions
from nearsay.posterior.views.row_transforms import BLOCK_BYTES, STANDARDIZED, ClassSpread, learn_maps

# A spread of d columns takes d² numbers a class, and d² products a row and class. More principal directions than so
# many say little more; where rows and classes are many, fewer are taken, so that no more products than these are.
MOST_DIRECTIONS = 64
MOST_PRODUCTS = 4e9
# Probabilities of rows × classes are held; with more than these none are computed.
MOST_ANSWERS = 1 << 24

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
        self.fit_and_map(X, y)
        return self

    @property
    def n_columns(self) -> int:
        """How many columns it takes."""
        return len(self._standardized.center)

    def fit_and_map(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The same; gives the rows ``mapped``."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        n_answers = len(labels) * len(self.classes_)
        [self._standardized] = learn_maps([STANDARDIZED], X, labels)
        columns = self._columns(X)
        if self.scores:
            self._quantiles = ColumnQuantiles.of(columns)
        columns = self._scored(columns)
        with one_blas_thread():
            n_directions = min(MOST_DIRECTIONS, max(1, int(np.sqrt(MOST_PRODUCTS / n_answers))))
            self._basis = principal_directions(columns - columns.mean(axis=0), n_directions)
        mapped = self._along(columns)
        self._learn(mapped, labels)
        return mapped

    def of_other_rows(self, mapped: np.ndarray, y: np.ndarray) -> GaussianClasses:
        """One with the same scales and directions, and the classes of these rows, which were ``mapped``."""
        other = copy(self)
        other.classes_, labels = np.unique(y, return_inverse=True)
        other._learn(mapped, labels)
        return other

    def _learn(self, mapped: np.ndarray, labels: np.ndarray) -> None:
        n, n_classes = len(labels), len(self.classes_)
        with one_blas_thread():
            # Around the means of samples rows spread less than around the true ones: n − n_classes degrees of freedom.
            unbiased = np.sqrt(max(n - n_classes, 1) / n)
            self._whitening = unbiased * ClassSpread(mapped, labels).factor(power=1.0, pull=0.0)
            whitened = mapped @ self._whitening
            of_classes = [_factor(whitened[labels == c]) for c in range(n_classes)]
        self._factors = np.hstack([factor for factor, _, _ in of_classes])
        self._offsets = np.concatenate([mean @ factor for factor, mean, _ in of_classes])
        self._half_log_det = np.array([half for _, _, half in of_classes])

    def mapped(self, X: np.ndarray) -> np.ndarray:
        """Rows in the directions in which classes are Gaussian; the same digits for a row in any batch."""
        size = rows_within(BLOCK_BYTES, 8 * X.shape[1], most=max(1, len(X)))
        parts = [self._along(self._scored(self._columns(X[part]))) for part in row_blocks(len(X), size=size)]
        return np.concatenate(parts) if parts else np.empty((0, self._basis.shape[1]))

    def _along(self, columns: np.ndarray) -> np.ndarray:
        return along_in_blocks(columns, self._basis)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n_queries, n_classes); the same digits for a row in any batch."""
        return self.proba_of_mapped(self.mapped(X))

    def proba_of_mapped(self, mapped: np.ndarray) -> np.ndarray:
        """The same for rows that were ``mapped``."""
        far = np.empty((len(mapped), len(self.classes_)))
        block = np.zeros((ROWS_AT_ONCE, len(self._whitening)))
        with one_blas_thread():
            for first in range(0, len(mapped), ROWS_AT_ONCE):
                some = mapped[first : first + ROWS_AT_ONCE]
                block[: len(some)] = some
                far[first : first + len(some)] = self._far(block)[: len(some)]
        p: np.ndarray = np.exp(far.min(axis=1, keepdims=True) - far)
        p /= p.sum(axis=1, keepdims=True)
        return p

    def _far(self, mapped: np.ndarray) -> np.ndarray:
        """Minus the log densities, up to what all classes have in common."""
        apart = mapped @ self._whitening @ self._factors - self._offsets
        squares = (apart * apart).reshape(len(mapped), len(self.classes_), -1)
        far: np.ndarray = squares.sum(axis=2) / 2 + self._half_log_det
        return far

    def _columns(self, X: np.ndarray) -> np.ndarray:
        return np.clip(self._standardized(X).astype(np.float64), -FARTHEST, FARTHEST)

    def _scored(self, columns: np.ndarray) -> np.ndarray:
        return self._quantiles.normal_scores(columns) if self.scores else columns


def _factor(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """F with F Fᵀ the inverse covariance of a class, its mean, and half the log of the determinant of its covariance.

    Rows are whitened, so that the covariance within all classes is the identity.
    """
    mean = rows.mean(axis=0)
    centered = rows - mean
    worth = rows.shape[1]
    values, vectors = np.linalg.eigh((centered.T @ centered + worth * np.eye(worth)) / (len(rows) - 1 + worth))
    return vectors / np.sqrt(values), mean, float(np.log(values).sum() / 2)
