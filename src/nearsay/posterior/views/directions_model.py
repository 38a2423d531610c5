"""What Gaussian classes and lines have in common: columns of one scale, and the principal directions of them."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.posterior.views.principal_directions import DirectionsWithout, along_in_blocks
from nearsay.posterior.views.row_transforms import BLOCK_BYTES, LearnedTransforms, LinearMap, shares_directions
from nearsay.search.shards import ShardedRows


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

    def fit_and_map(
        self, X: np.ndarray, y: np.ndarray, basis: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same; gives the rows in their ``columns``, and ``mapped``. ``basis`` is a view's, if known."""
        columns, mapped = self._fit(X, y, basis)
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

    def takes(self, basis: np.ndarray) -> bool:
        """Whether it was learned in these directions."""
        return self._basis is basis

    @property
    def n_directions(self) -> int:
        """How many directions it is learned in."""
        return self._basis.shape[1]

    def _fit(self, X: np.ndarray, y: np.ndarray, basis: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Learn, and give the rows that were learned from, in their ``columns`` and ``mapped``."""
        raise NotImplementedError


class FoldsOfDirections:
    """A Gaussian or a line fitted to rows of a collection, and without each fold of them.

    Scales are those of all rows, and so are directions where rows are many: they know no labels. Where rows are few
    for their columns, a fold would bend the directions toward itself, and each is left out of them too.

    ``maps`` are those of a view of the same rows, columns and folds, whose directions serve a model that takes as many.
    """

    def __init__(
        self,
        model: DirectionsModel,
        X: Any,
        y: np.ndarray,
        rows: np.ndarray,
        fold: np.ndarray,
        maps: LearnedTransforms | None = None,
    ) -> None:
        self._X, self._y, self._fold, self._rows = X, y, fold, rows
        self.model: DirectionsModel = clone(model)
        some = taken(X, self._rows)
        basis = None if maps is None else maps.basis()
        columns, mapped = self.model.fit_and_map(some, y[self._rows], basis)
        self._maps = maps if basis is not None and self.model.takes(basis) else None
        n_columns = self.model.n_columns
        self._mapped: np.ndarray | None = None
        self._directions: DirectionsWithout | None = None
        if self.model.n_directions < n_columns and not shares_directions(len(some), n_columns):
            self._columns = columns
            self._directions = DirectionsWithout(columns)
        elif not isinstance(X, ShardedRows):
            self._mapped = np.empty_like(mapped) if len(some) == len(X) else self.model.mapped(X)
            self._mapped[self._rows] = mapped

    def without(self, number: int, rows: np.ndarray) -> DirectionsModel:
        """The model learned from these rows, which leave out a fold."""
        if self._directions is None:
            mapped = self.model.mapped(taken(self._X, rows)) if self._mapped is None else self._mapped[rows]
            return self.model.of_other_rows(mapped, self._y[rows])
        left_out = self._fold[self._rows] == number
        basis = None if self._maps is None else self._maps.basis(number)
        if basis is None:
            basis = self._directions.without(left_out, self.model.n_directions)
        other = self.model.with_directions(basis)
        return other.of_other_rows(other.along(self._columns[~left_out]), self._y[self._rows[~left_out]])

    def mapped(self, model: DirectionsModel, rows: np.ndarray) -> np.ndarray:
        """Rows in memory, in the directions of a model of ``without``."""
        if self._mapped is not None:
            return self._mapped[rows]
        place = np.full(len(self._fold), -1)
        place[self._rows] = np.arange(len(self._rows))
        known = (place[rows] >= 0).all()
        return model.along(self._columns[place[rows]] if known else model.columns(self._X[rows]))


def taken(X: Any, rows: np.ndarray) -> Any:
    """Some rows, read from shards or taken from memory."""
    return X.take(rows) if isinstance(X, ShardedRows) else X[rows]
