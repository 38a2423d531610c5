"""Distances between vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from nearsay.core.arrays import LARGEST_VALUE, SINGLE_OR_DOUBLE, as_compiled_for, row_blocks
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
    # The compiled loop for chosen pairs of rows as they are held, if there is one.
    pair_kernel: ClassVar[str] = ""
    # Whether chosen pairs of rows in form can be measured by a compiled loop, too.
    measures_formed: ClassVar[bool] = False

    def form(self, X: np.ndarray) -> np.ndarray:
        """The vectors that the compiled loop compares; each depends on one row only."""
        return np.asarray(X, dtype=np.float64)

    def kernel_arguments(self) -> tuple[Any, ...]:
        """Further arguments of the compiled loop."""
        return ()

    def pair_arguments(self) -> tuple[Any, ...]:
        """Further arguments of that loop for pairs."""
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
        from nearsay.distances import vector_kernels as kernels

        if self.pair_kernel and X.dtype.char in SINGLE_OR_DOUBLE:  # one compiled form for each of two types is enough
            pairs = getattr(kernels, self.pair_kernel)
            pairs(*map(as_compiled_for, (self.form(Q), X, candidates)), first, *self.pair_arguments(), out)
            return
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
    symmetric = True
    kernel = "euclidean"
    has_euclidean_form = True
    pairs_are_quick = True
    pair_kernel = "measure_euclidean"
    squared: ClassVar[bool] = False

    def pair_arguments(self) -> tuple[Any, ...]:
        return self.squared, 1.0

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
    symmetric = True
    kernel = "manhattan"
    pair_kernel = "measure_manhattan"


class Chebyshev(VectorDistance):
    """max |a−b|: the largest difference in any one coordinate.

    >>> Chebyshev()([0.0, 0.0], [3.0, 4.0])
    4.0
    """

    name = "chebyshev"
    symmetric = True
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


# ---------------------------------------------------------------- angles


class Cosine(VectorDistance):
    """1 − a·b / (|a||b|), from 0 (same direction) to 2 (opposite); the lengths of the rows do not matter.

    A row of zeros has no direction and is refused.

    >>> Cosine()([1.0, 0.0], [0.0, 5.0])
    1.0
    """

    name = "cosine"
    symmetric = True
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
    symmetric = True
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
    symmetric = True
    kernel = "hamming"


class Jaccard(VectorDistance):
    """Of the coordinates that are nonzero in a or b, the share that is zero in the other; 0 if both are all zeros.

    >>> Jaccard()([1, 1, 1, 0], [1, 1, 0, 0])
    0.3333333333333333
    """

    name = "jaccard"
    symmetric = True
    kernel = "jaccard"
