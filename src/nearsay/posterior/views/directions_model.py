"""What Gaussian classes and lines have in common: columns of one scale, and the principal directions of them."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.posterior.views.principal_directions import along_in_blocks
from nearsay.posterior.views.row_transforms import BLOCK_BYTES, LinearMap


class DirectionsModel(ClassifierMixin, BaseEstimator):
    """A model of rows that are ``mapped``: standardized, and turned into principal directions.

    It gives the same digits for a row in any batch.
    """

    classes_: np.ndarray
    _farthest: float  # no standardized number counts as farther out
    _standardized: LinearMap
    _basis: np.ndarray

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Learn from rows and labels; X holds finite numbers, and there are at least two classes."""
        self._fit(X, y)
        return self

    def fit_and_map(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same; gives the rows in their ``columns``, and ``mapped``."""
        columns, mapped = self._fit(X, y)
        if len(columns) < len(X):
            columns = self.columns(X)
            mapped = self.along(columns)
        return columns, mapped

    @property
    def n_columns(self) -> int:
        """How many columns it takes."""
        return len(self._standardized.center)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n_queries, n_classes)."""
        return self.proba_of_mapped(self.mapped(X))

    def mapped(self, X: np.ndarray) -> np.ndarray:
        """Rows in the directions that the model is learned in."""
        size = rows_within(BLOCK_BYTES, 8 * X.shape[1], most=max(1, len(X)))
        parts = [self.along(self.columns(X[part])) for part in row_blocks(len(X), size=size)]
        return np.concatenate(parts) if parts else np.empty((0, self._basis.shape[1]))

    def columns(self, X: np.ndarray) -> np.ndarray:
        """Rows in columns of one scale, in which directions are learned."""
        return np.clip(self._standardized(X).astype(np.float64), -self._farthest, self._farthest)

    def along(self, columns: np.ndarray) -> np.ndarray:
        """Rows in such ``columns``, in the directions that the model is learned in."""
        return along_in_blocks(columns, self._basis)

    def proba_of_mapped(self, mapped: np.ndarray) -> np.ndarray:
        """Probabilities of rows that were ``mapped``."""
        raise NotImplementedError

    def of_other_rows(self, mapped: np.ndarray, y: np.ndarray) -> Self:
        """One with the same scales and directions, learned from these rows, which were ``mapped``."""
        raise NotImplementedError

    def with_directions(self, basis: np.ndarray) -> Self:
        """One with the same scales and other directions, of which nothing is learned yet."""
        other = copy(self)
        other._basis = basis
        return other

    @property
    def n_directions(self) -> int:
        """How many directions it is learned in."""
        return self._basis.shape[1]

    def _fit(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Learn, and give the rows that were learned from, in their ``columns`` and ``mapped``."""
        raise NotImplementedError
