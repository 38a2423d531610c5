"""Distances between vectors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearsay.distances.distance import Distance


class VectorDistance(Distance):
    """A distance measured by one compiled loop over float64 vectors."""

    kernel: ClassVar[str]

    def form(self, X: np.ndarray) -> np.ndarray:
        """The vectors that the compiled loop compares."""
        return np.asarray(X, dtype=np.float64)

    def kernel_arguments(self) -> tuple[Any, ...]:
        """What the compiled loop needs besides the vectors."""
        return ()

    def block(self, Q: np.ndarray, X: np.ndarray, first: int = 0) -> np.ndarray:
        from nearsay.distances import kernels

        out = np.empty((len(Q), len(X)))
        columns = np.ascontiguousarray(self.form(X).T)
        getattr(kernels, self.kernel)(np.ascontiguousarray(self.form(Q)), columns, *self.kernel_arguments(), out)
        return out


class Euclidean(VectorDistance):
    """sqrt(Σ (a−b)²)

    >>> Euclidean()([0.0, 0.0], [3.0, 4.0])
    5.0
    """

    name = "euclidean"
    kernel = "euclidean"
    has_euclidean_form = True
    squared: ClassVar[bool] = False

    def measure(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        from nearsay.distances import kernels

        if X.dtype not in (np.float32, np.float64):  # one compiled form for each type is enough with two types
            super().measure(Q, X, candidates, first, out)
        else:
            kernels.measure_euclidean(self.form(Q), X, candidates, first, self.squared, out)

    def euclidean_form(self, X: np.ndarray) -> np.ndarray:
        return X


class SquaredEuclidean(Euclidean):
    """Σ (a−b)²: the order of euclidean, without the root.

    >>> SquaredEuclidean()([0.0, 0.0], [3.0, 4.0])
    25.0
    """

    name = "sqeuclidean"
    kernel = "squared_euclidean"
    squared = True


class Manhattan(VectorDistance):
    """Σ |a−b|

    >>> Manhattan()([0.0, 0.0], [3.0, 4.0])
    7.0
    """

    name = "manhattan"
    kernel = "manhattan"
