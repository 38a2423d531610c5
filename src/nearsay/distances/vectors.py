"""Distances between vectors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from nearsay.core.arrays import LARGEST_VALUE, SINGLE_OR_DOUBLE, as_rows, row_blocks
from nearsay.core.compiling import PYTHON_STEP, Loop, done_without, worth_compiling
from nearsay.distances import vectors_in_numpy
from nearsay.distances.distance import Distance
from nearsay.errors import InputError

# Nanoseconds that numpy takes per coordinate of a pair of rows.
NUMPY_STEP = 3
# The overhead of a call, in pairs of rows.
CALLING_NUMPY = 3000
UNIT_ROUNDOFF = 2.0**-53  # the largest relative error of one float64 operation


class VectorDistance(Distance):
    """A distance measured by one compiled loop over float64 vectors."""

    kernel: ClassVar[str]
    # For errors: why the distance of two finite rows can be infinite; empty if it cannot.
    why_infinite: ClassVar[str] = ""
    # Whether chosen pairs of rows in form can be measured by a compiled loop, too.
    measures_formed: ClassVar[bool] = False

    def form(self, X: np.ndarray) -> np.ndarray:
        """The vectors that the compiled loop compares; each depends on one row only."""
        return np.asarray(X, dtype=np.float64)

    def kernel_arguments(self) -> tuple[Any, ...]:
        """Further arguments of the compiled loop."""
        return ()

    def uncompiled_ns(self, n_columns: int) -> float:
        return float(n_columns * (PYTHON_STEP if self._in_numpy is None else NUMPY_STEP))

    @property
    def _in_numpy(self) -> Callable[..., None] | None:
        """The numpy version of the loop, if it gives the same bits."""
        return getattr(vectors_in_numpy, self.kernel, None)

    def block(self, Q: np.ndarray, X: np.ndarray, first: int = 0) -> np.ndarray:
        out = np.empty((len(Q), len(X)))
        columns = np.ascontiguousarray(self.form(X).T)
        pairs = out.size if self._in_numpy is None else out.size + CALLING_NUMPY
        fill = self._loop(pairs * self.uncompiled_ns(X.shape[1]))
        with np.errstate(all="ignore"):  # as in compiled loops; checked below
            fill(np.ascontiguousarray(self.form(Q)), columns, *self.kernel_arguments(), out)
        if self.why_infinite and not np.isfinite(out).all():
            raise InputError(f"The {self.name} distance between two rows is not finite: {self.why_infinite}")
        return out

    def _loop(self, cost: float) -> Callable[..., None]:
        """The loop that fills in a block: compiled if numpy or Python would take long (``cost`` in nanoseconds)."""
        from nearsay.distances import vector_kernels

        loop: Any = getattr(vector_kernels, self.kernel)
        if worth_compiling(cost):
            return cast("Callable[..., None]", loop)
        done_without(cost)
        # Once compiled, numba's function replaces it.
        return self._in_numpy or (loop.in_python if isinstance(loop, Loop) else loop.py_func)

    def measure_formed(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        """``measure`` for vectors in the form that the compiled loop compares; only where ``measures_formed``."""
        raise NotImplementedError

    def measure(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        if not self.measures_formed or candidates.size < len(X):
            super().measure(Q, X, candidates, first, out)
            return
        # With more candidates than rows, form is computed once per row, some rows at a time, not for every query.
        queries = np.ascontiguousarray(self.form(Q))
        for part in row_blocks(len(X), row_bytes=8 * X.shape[1]):
            rows = np.ascontiguousarray(self.form(X[part]))
            self.measure_formed(queries, rows, candidates, first + part.start, out)


def first_row_where(wrong: Callable[[np.ndarray], Any], X: np.ndarray) -> int | None:
    """The number of the first row for which ``wrong`` (of a block of rows, gives a mask) is True, or None."""
    for rows in row_blocks(len(X), row_bytes=8 * X.shape[1]):
        wrong_rows = np.flatnonzero(wrong(X[rows]))
        if len(wrong_rows):
            return int(rows.start + wrong_rows[0])
    return None


def sums_in_order(X: np.ndarray) -> np.ndarray:
    """Row sums, added from left to right: ``np.sum`` changes the order with the layout in memory."""
    return np.asarray(np.cumsum(X, axis=1)[:, -1])


def lengths(X: np.ndarray) -> np.ndarray:
    """Euclidean lengths of rows of float64."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", X, X)))


# ---------------------------------------------------------------- sums of differences


class Euclidean(VectorDistance):
    """sqrt(Σ (a−b)²)

    >>> Euclidean()([0.0, 0.0], [3.0, 4.0])
    5.0
    """

    name = "euclidean"
    kernel = "euclidean"
    has_euclidean_form = True
    pairs_are_quick = True
    squared: ClassVar[bool] = False

    def measure(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        from nearsay.distances import vector_kernels as kernels

        if X.dtype.char not in SINGLE_OR_DOUBLE:  # one compiled form for each type is enough with two types
            super().measure(Q, X, candidates, first, out)
        else:
            kernels.measure_euclidean(self.form(Q), X, candidates, first, self.squared, 1.0, out)

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
    form_squared = True


class Manhattan(VectorDistance):
    """Σ |a−b|

    >>> Manhattan()([0.0, 0.0], [3.0, 4.0])
    7.0
    """

    name = "manhattan"
    kernel = "manhattan"

    def measure(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        from nearsay.distances import vector_kernels as kernels

        if X.dtype.char not in SINGLE_OR_DOUBLE:  # one compiled form for each type is enough with two types
            super().measure(Q, X, candidates, first, out)
        else:
            kernels.measure_manhattan(self.form(Q), X, candidates, first, out)


class Chebyshev(VectorDistance):
    """max |a−b|: the largest difference in any one coordinate.

    >>> Chebyshev()([0.0, 0.0], [3.0, 4.0])
    4.0
    """

    name = "chebyshev"
    kernel = "chebyshev"


class Minkowski(VectorDistance):
    """(Σ |a−b|ᵖ)^(1/p): manhattan at p = 1, euclidean at p = 2, and toward chebyshev beyond.

    >>> round(Minkowski(p=3)([0.0, 0.0], [3.0, 4.0]), 3)  # the cube root of 27 + 64
    4.498
    """

    name = "minkowski"
    kernel = "minkowski"
    why_infinite = "|a−b|ᵖ exceeds the largest number. Scale the rows down, or choose a smaller p."

    def __init__(self, p: float = 2.0) -> None:
        if isinstance(p, bool) or not isinstance(p, int | float | np.integer | np.floating) or not 1 <= p < math.inf:
            advice = ' For p = ∞ use metric="chebyshev".' if p == math.inf else ""
            raise InputError(f"minkowski needs a finite number p of at least 1; got {p!r}.{advice}")
        self.p = float(p)

    def kernel_arguments(self) -> tuple[float]:
        return (self.p,)

    def parameters(self) -> dict[str, Any]:
        return {"p": self.p}


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


# ---------------------------------------------------------------- angles


class Cosine(VectorDistance):
    """1 − a·b / (|a||b|), from 0 (same direction) to 2 (opposite); the lengths of the rows do not matter.

    A row of zeros has no direction and is refused.

    >>> Cosine()([1.0, 0.0], [0.0, 5.0])
    1.0
    """

    name = "cosine"
    kernel = "cosine"
    has_euclidean_form = True
    form_share = 0.5
    form_squared = True
    measures_formed = True
    _no_direction: ClassVar[str] = "is all zeros (or too short to square), so it has no direction to compare."

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        rows = super().check(items, name=name, like=like)
        row = first_row_where(self._has_no_direction, rows)
        if row is not None:
            raise InputError(f"{name} row {row} {self._no_direction} Drop such rows, or use another distance.")
        return rows

    def _has_no_direction(self, rows: np.ndarray) -> np.ndarray:
        # Squares of shorter rows lose digits, and underflow in the end.
        return np.asarray(lengths(self.form(rows)) < 1 / LARGEST_VALUE)

    def measure_formed(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        from nearsay.distances import vector_kernels as kernels

        kernels.measure_cosine(Q, X, candidates, first, out)

    def euclidean_form(self, X: np.ndarray) -> np.ndarray:
        form = self.form(X)
        return np.asarray(form / lengths(form)[:, None])

    def form_rounding(self, largest_norm: float, n_columns: int) -> float:
        # The measured cosine is off by up to (2d + 8) u at any distance: an absolute error of the *squared* length, so
        # the bound of a length is its root.
        return math.sqrt((n_columns + 8) * UNIT_ROUNDOFF)


class Correlation(Cosine):
    """1 − Pearson's correlation of the coordinates: cosine after subtracting each row's mean.

    A constant row has no correlation with anything and is refused.

    >>> Correlation()([1.0, 3.0, 1.0, 3.0], [10.0, 30.0, 10.0, 30.0])  # a multiple
    0.0
    >>> Correlation()([1.0, 3.0, 1.0, 3.0], [3.0, 1.0, 3.0, 1.0])  # the opposite
    2.0
    """

    name = "correlation"
    _no_direction = "is constant, so it has no correlation with any other row."

    def _has_no_direction(self, rows: np.ndarray) -> np.ndarray:
        # Compares the row itself: its computed mean may differ from a constant in the last digit.
        return np.asarray((rows.min(axis=1) == rows.max(axis=1)) | super()._has_no_direction(rows))

    def form(self, X: np.ndarray) -> np.ndarray:
        rows = super().form(X)
        return np.asarray(rows - (sums_in_order(rows) / rows.shape[1])[:, None])


# ---------------------------------------------------------------- counts and sets


class Canberra(VectorDistance):
    """Σ |a−b| / (|a|+|b|), with 0/0 = 0: the sum of relative differences.

    >>> Canberra()([1.0, 0.0, 0.0], [3.0, 0.0, 9.0])  # 2/4 + 0 + 1
    1.5
    """

    name = "canberra"
    kernel = "canberra"


class BrayCurtis(VectorDistance):
    """Σ |a−b| / Σ |a+b|, and 0 for two rows of zeros.

    For rows without negative entries. Rows that cancel, a = −b, are infinitely far apart and refused.

    >>> BrayCurtis()([1.0, 0.0, 3.0], [3.0, 0.0, 1.0])  # 4 of 8
    0.5
    """

    name = "braycurtis"
    kernel = "braycurtis"
    why_infinite = "the two rows cancel (a = −b). This distance compares amounts: pass rows without negative entries."


class Hamming(VectorDistance):
    """The share of coordinates in which a ≠ b.

    >>> Hamming()([1, 2, 3, 4], [1, 2, 0, 0])
    0.5
    """

    name = "hamming"
    kernel = "hamming"


class Jaccard(VectorDistance):
    """Of the coordinates that are nonzero in a or b, the share that is zero in the other; 0 if both are all zeros.

    >>> Jaccard()([1, 1, 1, 0], [1, 1, 0, 0])
    0.3333333333333333
    """

    name = "jaccard"
    kernel = "jaccard"
