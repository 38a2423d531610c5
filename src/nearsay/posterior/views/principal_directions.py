"""Scales of columns, the directions in which rows spread most, and rows along them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearsay.core.parallel import one_blas_thread
from nearsay.learn.linear_map import distinct_columns, in_units

# Rows that are mapped together: always so many, filled up, so that no digit of one depends on how many there are.
ROWS_AT_ONCE = 64
# Directions of a subspace beyond those wanted, and powers that turn it toward them; up to so many times as many are
# found exactly in less time.
MORE_DIRECTIONS, POWERS, FEW_TIMES = 10, 4, 4


def principal_directions(X: np.ndarray, most: int) -> np.ndarray:
    """The directions in which centered rows spread most, at most so many: (n_columns, n_directions).

    Those of the columns themselves where they are no more.
    """
    n_rows, n_columns = X.shape
    if n_columns <= most:
        return np.eye(n_columns)
    n_directions = min(most, n_rows)
    if n_columns <= n_rows:
        return leading_vectors(X.T @ X, n_directions)
    # Of fewer rows than columns the products with each other say as much.
    directions = X.T @ leading_vectors(X @ X.T, n_directions)
    squares = np.einsum("ij,ij->j", directions, directions)
    spread = squares > n_rows * np.finfo(np.float64).eps * squares.max(initial=0.0)
    spread[:1] = True
    return np.linalg.qr(directions[:, spread])[0]


class DirectionsWithout:
    """The principal directions of all rows but some: their products are those of all, less those of the few.

    X : (n_rows, n_columns), held.
    """

    def __init__(self, X: np.ndarray) -> None:
        self._X = X

    @cached_property
    def _products(self) -> np.ndarray:
        return self._X.T @ self._X

    def without(self, left_out: np.ndarray, most: int) -> np.ndarray:
        """As ``principal_directions`` of the other rows, centered; ``left_out`` (n_rows,) says which are left out."""
        n_rows, n_columns = int(np.count_nonzero(~left_out)), self._X.shape[1]
        if n_columns <= most:
            return np.eye(n_columns)
        center = self._X[~left_out].mean(axis=0)
        if n_columns > n_rows:
            return principal_directions(self._X[~left_out] - center, most)
        few = self._X[left_out]
        return leading_vectors(self._products - few.T @ few - n_rows * np.outer(center, center), min(most, n_rows))


def leading_vectors(S: np.ndarray, n_vectors: int) -> np.ndarray:
    """Orthonormal eigenvectors of the largest eigenvalues of a symmetric matrix, largest first: (n, n_vectors).

    Where few are wanted they are approximate, as by a randomized singular value decomposition: those of a subspace
    that powers of the matrix turn toward them.

    >>> np.abs(leading_vectors(np.diag([1.0, 9.0, 4.0]), 2)).round(6)
    array([[0., 0.],
           [1., 0.],
           [0., 1.]])
    """
    n, width = len(S), n_vectors + MORE_DIRECTIONS
    if n <= FEW_TIMES * width:
        vectors = np.linalg.eigh(S)[1]
    else:
        subspace = np.random.default_rng(0).normal(size=(n, width))
        for _ in range(POWERS):
            subspace = np.linalg.qr(S @ subspace)[0]
        vectors = subspace @ np.linalg.eigh(subspace.T @ S @ subspace)[1]
    leading: np.ndarray = vectors[:, : -n_vectors - 1 : -1]
    return np.ascontiguousarray(leading)


def along(X: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Rows in principal directions; those of the columns themselves (a square matrix) take no product."""
    return X if len(directions) == directions.shape[1] else X @ directions


def in_equal_blocks(X: np.ndarray, n_columns: int, of_block: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(n_rows, n_columns) of a function of rows, always as many together: the same digits for a row in any batch."""
    mapped, block = np.empty((len(X), n_columns)), np.zeros((ROWS_AT_ONCE, X.shape[1]))
    with one_blas_thread():
        for first in range(0, len(X), ROWS_AT_ONCE):
            some = X[first : first + ROWS_AT_ONCE]
            block[: len(some)] = some
            mapped[first : first + len(some)] = of_block(block)[: len(some)]
    return mapped


def along_in_blocks(X: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """``along``, with the same digits for a row in any batch."""
    if len(directions) == directions.shape[1]:
        return X
    return in_equal_blocks(X, directions.shape[1], lambda block: block @ directions)


@dataclass(frozen=True)
class ColumnDirections:
    """Scales of columns, and directions in which rows spread: what maps learn without labels.

    columns : (n_taken,) numbers of the columns that are taken; None for all.
    center, scale : (n_taken,)
    basis : (n_taken, n_directions) or None
    """

    columns: np.ndarray | None
    center: np.ndarray
    scale: np.ndarray
    basis: np.ndarray | None

    @classmethod
    def of(cls, X: np.ndarray, most: int | None) -> ColumnDirections:
        """Learn them from some rows: at most so many directions, or none."""
        columns = distinct_columns(X)
        taken = None if len(columns) == X.shape[1] else columns
        X, unit = in_units(X if taken is None else X[:, taken])
        center, spread = X.mean(axis=0), X.std(axis=0)
        # What is left of rows that are all equal, but for rounding errors, says nothing.
        rounding = np.finfo(X.dtype).eps * np.maximum(np.abs(X).max(axis=0), np.finfo(np.float64).tiny)
        scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 8 * rounding)
        basis = None
        if most is not None:
            with one_blas_thread():
                basis = principal_directions((X - center) * scale, most)
        return cls(taken, center * unit, scale / unit, basis)

    def standardized(self, X: np.ndarray) -> np.ndarray:
        """Rows in these columns, of one scale."""
        scaled: np.ndarray = (X if self.columns is None else X[:, self.columns]) - self.center
        scaled *= self.scale
        return scaled
