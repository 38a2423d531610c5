"""Mahalanobis distance: Euclidean distance after a linear map, given by a matrix, its factor or a covariance."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nearsay.core.arrays import as_rows
from nearsay.distances.vectors import UNIT_ROUNDOFF, VectorDistance
from nearsay.errors import InputError


class Mahalanobis(VectorDistance):
    """sqrt((a−b)ᵀ M (a−b)) = |L(a−b)| where M = LᵀL: euclidean after the linear map L.

    Parameters
    ----------
    M : (d, d) array, optional
        Symmetric, with no negative eigenvalue. For the classical distance, the inverse of the covariance.
        A positive definite M is used unchanged, whatever the scales of its columns. Otherwise
        directions with eigenvalues within rounding errors of 0 are left out.
    L : (r, d) array, optional
        The linear map itself; r < d leaves directions out, and rows that differ only there are at distance 0.
    VI : (d, d) array, optional
        M, by the name that scipy and scikit-learn give it.
    V : (d, d) array, optional
        The covariance, whose inverse is M.

    Exactly one of them is given. The difference is taken first, so a large common offset costs no precision.

    >>> Mahalanobis(L=[[2.0, 0.0], [0.0, 1.0]])([0.0, 0.0], [1.5, 4.0])
    5.0
    >>> Mahalanobis(M=[[4.0, 0.0], [0.0, 1.0]])([0.0, 0.0], [1.5, 4.0])
    5.0
    """

    name = "mahalanobis"
    kernel = "mahalanobis"
    has_euclidean_form = True
    why_infinite = "the rows times L exceed the largest number. Scale the rows or L down."

    def __init__(self, M: Any = None, L: Any = None, *, VI: Any = None, V: Any = None) -> None:
        given = [name for name, matrix in {"M": M, "L": L, "VI": VI, "V": V}.items() if matrix is not None]
        if len(given) != 1:
            raise InputError(
                "mahalanobis needs one of M, L (M = LᵀL), VI (the same as M) and V (the covariance);"
                f' got {" and ".join(given) or "none"}. For example metric="mahalanobis", metric_params={{"V":'
                " np.cov(X.T)}."
            )
        if V is not None:
            M = _inverse(V)
        M = VI if M is None else M
        self.L = _factor(M) if L is None else np.array(as_rows(L, name="L"), dtype=np.float64, order="C")

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        rows = super().check(items, name=name, like=like)
        if rows.shape[1] != self.L.shape[1]:
            raise InputError(
                f"{name} has {rows.shape[1]} columns, but this mahalanobis distance was given for {self.L.shape[1]}."
            )
        return rows

    def kernel_arguments(self) -> tuple[np.ndarray]:
        return (self.L,)

    def uncompiled_ns(self, n_columns: int) -> float:
        return len(self.L) * super().uncompiled_ns(n_columns)

    def euclidean_form(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.form(X) @ self.L.T)

    def form_rounding(self, largest_norm: float, n_columns: int) -> float:
        # A component of L·x is off by (d + 1) u |l||x|, and so is, once more, that of the measured L·(x − y).
        return 4 * (n_columns + 4) * UNIT_ROUNDOFF * float(np.linalg.norm(self.L)) * largest_norm

    def parameters(self) -> dict[str, Any]:
        return {"L": self.L}


def _inverse(V: Any) -> np.ndarray:
    given = np.asarray(as_rows(V, name="V"), dtype=np.float64)
    if given.shape[0] != given.shape[1]:
        raise InputError(f"V must be a square matrix, the covariance of the columns; got shape {given.shape}.")
    try:
        inverse = np.linalg.inv(given)
    except np.linalg.LinAlgError:
        raise InputError(
            "V has no inverse: some direction does not vary at all. Pass VI=np.linalg.pinv(V) to leave those out."
        ) from None
    return np.asarray((inverse + inverse.T) / 2)


def _factor(M: Any) -> np.ndarray:
    """A matrix L with LᵀL = M, with as many rows as M has rank.

    Columns are scaled so that M has ones on its diagonal first: how small an eigenvalue must be to count as zero
    then does not depend on the units that the columns are measured in.
    """
    given = np.asarray(as_rows(M, name="M"), dtype=np.float64)
    if given.shape[0] != given.shape[1]:
        raise InputError(f"M must be square; got shape {given.shape}. A linear map is passed as L.")
    largest = float(np.abs(given).max())
    row, column = np.unravel_index(np.abs(given - given.T).argmax(), given.shape)
    if abs(given[row, column] - given[column, row]) > 1e-10 * largest:
        raise InputError(
            f"M must be symmetric, but M[{row}, {column}] = {given[row, column]} and M[{column}, {row}] ="
            f" {given[column, row]}. Pass (M + M.T) / 2."
        )
    M = (given + given.T) / 2
    units = np.sqrt(np.maximum(np.diag(M), 0.0))
    units[units == 0] = 1.0
    scaled = M / units / units[:, None]
    try:
        return np.ascontiguousarray(np.linalg.cholesky(scaled).T * units)
    except np.linalg.LinAlgError:  # not positive definite: some eigenvalues are 0, or negative
        factor = _semidefinite_factor(scaled)
    if factor is not None:
        return np.ascontiguousarray(factor * units)
    # Negative by more than rounding in scaled units. A direction of eigenvalue 0 can also come out so, if its scale is
    # a rounding error itself.
    factor = _semidefinite_factor(M)
    if factor is None:
        raise InputError(
            "M must have no negative eigenvalue, or some distances would not be real numbers; its smallest is"
            f" {np.linalg.eigvalsh(M)[0]:.3g}."
        )
    warnings.warn(
        f"M has an eigenvalue of {np.linalg.eigvalsh(M)[0]:.3g}, beside a largest of {largest:.3g}. It is taken for 0,"
        f" and so are {len(M) - len(factor)} of {len(M)} eigenvalues. Pass L if M has directions that small.",
        stacklevel=3,
    )
    return np.ascontiguousarray(factor)


def _semidefinite_factor(M: np.ndarray) -> np.ndarray | None:
    """L with LᵀL = M, without directions of eigenvalue 0 up to rounding; None if some eigenvalue is negative."""
    values, vectors = np.linalg.eigh(M)
    nothing = 8 * len(M) * np.finfo(np.float64).eps * float(np.abs(values).max())
    if values[0] < -nothing:
        return None
    kept = values > nothing
    return np.asarray(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)
