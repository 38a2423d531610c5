"""The rows of one feature space, prepared for exact distances and for fast approximate ones.

``distances`` and ``pairs`` give the same numbers to the last bit. ``rough`` gives float32, and says how far off
they can be: enough to rule rows out. How it measures depends on the distance:

    Euclidean form          a matrix product of centered rows
    manhattan               centered rows in float32, twice as many at once as in float64
    any other               as exactly as ever; manhattan of rows that are mostly 0 by the bins that both fill
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from nearsay.core.arrays import SINGLE_OR_DOUBLE, row_blocks
from nearsay.distances.distance import Distance
from nearsay.distances.vectors import Manhattan, VectorDistance
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds
from nearsay.search.screening.prepared_rows import Geometry, PreparedView
from nearsay.search.screening.products import Float32Products

# With fewer entries than this share other than zero, going through them alone is quicker.
SPARSE = 0.25

# Rows that one pass of a compiled loop compares with a query.
ROWS_IN_CACHE = 128

# For this share of the rows or more all rows are measured together.
MOST_OF_ALL = 0.25

# Queries measured against all rows at once.
QUERIES_AT_ONCE = 16

# Pairs of a query and a row that are measured by themselves; for more all rows are.
MEASURED_ONE_BY_ONE = 256

# Distances of queries to some of the rows held.
Measure = Callable[[np.ndarray, slice], np.ndarray]


class RoughQueries(NamedTuple):
    """Queries prepared to be compared with the rows of one space.

    errors : (n_queries,) how far a rough distance may be off, beyond a few roundings of float32.
    add : function of (factor, rows, total), adds ``factor`` times the distances to these rows to ``total`` (queries ×
        rows, float32).
    """

    errors: np.ndarray
    add: Callable[[float, slice, np.ndarray], None]


class Rough(Protocol):
    """Rows prepared to be compared roughly with any query; ``reach`` is how far apart they lie at most, or about."""

    reach: float

    def prepare(self, Q: np.ndarray) -> RoughQueries: ...


class HeldSpace:
    """Some columns of the rows of a collection, and the distance that compares them.

    X : (n_rows, n_columns) of this space. Not copied: do not write to them.

    >>> from nearsay.distances.named import as_distance
    >>> space = HeldSpace(np.array([[0.0], [2.0], [5.0]]), as_distance("euclidean"))
    >>> space.distances(np.array([[4.0]]), slice(0, 3))
    array([[4., 2., 1.]])
    >>> space.pairs(np.array([[4.0]]), np.array([[2, 0]]))
    array([[1., 4.]])
    """

    def __init__(self, X: np.ndarray, distance: Distance) -> None:
        self.rows = distance.check(X)
        self.distance = distance
        self.mostly_empty = isinstance(distance, Manhattan) and np.count_nonzero(X) < SPARSE * X.size

    def __len__(self) -> int:
        return len(self.rows)

    def distances(self, Q: np.ndarray, rows: slice) -> np.ndarray:
        """Distances of queries to these rows: (n_queries, n_rows)."""
        return self._exact(Q, rows)

    def pairs(self, Q: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Distances of each query to its own candidates, row numbers of any shape (n_queries, n); anything at −1."""
        out = np.zeros(candidates.shape)
        if candidates.shape[1] >= MOST_OF_ALL * len(self):
            for part in row_blocks(len(Q), size=QUERIES_AT_ONCE):
                measured = self.distances(Q[part], slice(0, len(self)))
                out[part] = np.take_along_axis(measured, np.maximum(candidates[part], 0), axis=1)
        elif self.mostly_empty:
            from nearsay.distances.sparse_kernels import manhattan_of_pairs

            manhattan_of_pairs(*self._entries_by_row, self.entries[-1], self.signed(Q), candidates, out)
        else:
            self.distance.measure(self.distance.check(Q, name="Q", like=self.rows), self.rows, candidates, 0, out)
        return out

    def rough(self) -> Rough:
        """Approximate distances with an error bound. Every call prepares the rows again: reuse the result."""
        if self.distance.has_euclidean_form:
            return _RoughByProducts(self.rows, self.distance)
        if isinstance(self.distance, Manhattan) and not self.mostly_empty:
            return _RoughManhattan(self.rows)
        return _AsExact(self)

    def largest(self, Q: np.ndarray, rough: Rough) -> float:
        """The largest distance of any of these queries to any row: what ``rough`` does not rule out is measured."""
        everywhere = slice(0, len(self))
        if not isinstance(rough, _AsExact):
            queries, unit = rough.prepare(Q), rough.reach or 1.0
            far = np.zeros((len(Q), len(self)), np.float32)
            queries.add(1 / unit, everywhere, far)
            off = (queries.errors / unit + bounds.FAINTEST)[:, None]
            few = bounds.FEW_ROUNDINGS
            lines, numbers = np.nonzero(far * (1 + few) + off >= (far * (1 - few) - off).max())
            if 0 < len(lines) <= MEASURED_ONE_BY_ONE:
                return float(self.pairs(Q[lines], numbers[:, None]).max())
        return float(self.distances(Q, everywhere).max())

    @cached_property
    def _exact(self) -> Measure:
        if self.mostly_empty:
            return self._shared_bins
        if isinstance(self.distance, VectorDistance) and not self.distance.why_infinite:
            return _held_on_its_side(self.rows, self.distance)
        distance, X = self.distance, np.ascontiguousarray(self.rows)
        return lambda Q, rows: distance.block(distance.check(Q, name="Q", like=X), X[rows], rows.start)

    @cached_property
    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The entries other than zero, column by column, and the sums of the rows.

        Every column becomes two, what is above zero and what is below, as |3 − (−2)| = |3 − 0| + |0 − 2|.
        """
        from nearsay.distances import sparse_kernels

        starts, rows, counts = sparse_kernels.by_column(self._single_or_double)
        sums = np.zeros(len(self))
        sparse_kernels.sums_in_order(starts, rows, counts, sums)
        return starts, rows, counts, sums

    @cached_property
    def _entries_by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from nearsay.distances.sparse_kernels import by_row

        starts, columns, counts = by_row(self._single_or_double)
        return starts, columns, counts

    @property
    def _single_or_double(self) -> np.ndarray:
        # Halves what is held where single numbers came; they are added as float64 all the same.
        dtype = self.rows.dtype if self.rows.dtype.char in SINGLE_OR_DOUBLE else np.float64
        return np.ascontiguousarray(self.rows, dtype=dtype)

    def signed(self, Q: np.ndarray) -> np.ndarray:
        """Queries with two columns for each, what is above zero and what is below."""
        queries = np.asarray(self.distance.check(Q, name="Q", like=self.rows), dtype=np.float64)
        return np.hstack([np.maximum(queries, 0.0), np.maximum(-queries, 0.0)])

    def _shared_bins(self, Q: np.ndarray, some: slice) -> np.ndarray:
        from nearsay.distances.sparse_kernels import manhattan_of_counts

        queries = self.signed(Q)
        out = np.empty((len(queries), some.stop - some.start))
        manhattan_of_counts(*self.entries, queries, some.start, out)
        return out


def _held_on_its_side(X: np.ndarray, distance: VectorDistance) -> Measure:
    """``distance.block`` with rows transposed once, not for every query; as many as fit into the cache."""
    from nearsay.distances import vector_kernels as kernels

    kernel = getattr(kernels, distance.kernel)
    parts = list(row_blocks(len(X), size=ROWS_IN_CACHE))
    held = [np.ascontiguousarray(distance.form(X[part]).T) for part in parts]
    like = np.empty((0, X.shape[1]))

    def measure(Q: np.ndarray, some: slice) -> np.ndarray:
        queries = np.ascontiguousarray(distance.form(distance.check(Q, name="Q", like=like)))
        touched = slice(some.start // ROWS_IN_CACHE, -(-some.stop // ROWS_IN_CACHE))
        before = touched.start * ROWS_IN_CACHE
        out = np.empty((len(queries), parts[touched][-1].stop - before))
        for part, columns in zip(parts[touched], held[touched], strict=True):
            measured = np.empty((len(queries), columns.shape[1]))
            kernel(queries, columns, *distance.kernel_arguments(), measured)
            out[:, part.start - before : part.stop - before] = measured
        return out[:, some.start - before : some.stop - before]

    return measure


# ------------------------------------------------------------ rough ways


def power_of_two_below(size: float) -> float:
    """What brings ``size`` below 1. A power of two: scaling by it rounds nothing."""
    return float(np.ldexp(1.0, min(-int(np.frexp(size)[1]), 1000))) if size > 0 else 1.0


class _RoughByProducts:
    """|q − x|² = |q|² + |x|² − 2 q·x in float32, in the distance's Euclidean form, centered and scaled."""

    def __init__(self, X: np.ndarray, distance: Distance) -> None:
        self.geometry = Geometry(distance, HeldRows(X))
        self.view = PreparedView(self.geometry, Float32Products())
        self.rows = np.empty((len(X), len(self.geometry.center)), np.float32)
        self.half_norms = np.empty(len(X), np.float32)
        for part in row_blocks(len(X), row_bytes=8 * self.rows.shape[1]):
            self.view.center(X[part], self.rows[part], self.half_norms[part])
        self.radius = self.geometry.radius * self.geometry.scale
        self.reach = float(self.in_units(np.float64((2 * self.radius) ** 2)))

    def in_units(self, squared: Any) -> Any:
        """The distance of a squared length between prepared rows."""
        distance, scale = self.geometry.distance, self.geometry.scale
        if distance.form_squared:
            return distance.form_share * squared / scale / scale
        return np.sqrt(distance.form_share * squared) / scale

    def prepare(self, Q: np.ndarray) -> RoughQueries:
        from nearsay.neighbors.joint.held_space_kernels import add_distances

        queries, lengths = self.view.prepare(Q)
        slack = self.view.slack(lengths, np.zeros(len(lengths)), Q)
        # The slack is twice the error of a score |x|²/2 − q·x, of which a squared length has two; and |q|² is added.
        off = slack + bounds.expanding(lengths, self.radius)
        squares = (np.where(np.isfinite(slack), lengths, 0.0) ** 2).astype(np.float32)
        squared = self.geometry.distance.form_squared

        def add(factor: float, rows: slice, total: np.ndarray) -> None:
            products = np.matmul(queries, self.rows[rows].T)
            unit = np.float32(factor * self.in_units(np.float64(1.0)))
            add_distances(products, self.half_norms[rows], squares, unit, squared, total)

        # A root is off most where it is taken of least: √t ≤ √(t + off) ≤ √t + √off.
        return RoughQueries(np.asarray(self.in_units(off)), add)


class _RoughManhattan:
    """Σ|q − x| in float32, of rows centered and scaled, turned on their side."""

    def __init__(self, X: np.ndarray) -> None:
        self.center = X.mean(axis=0, dtype=np.float64)
        self._n_columns = X.shape[1]
        self.plain_reach = self.radius = 0.0  # the largest sum of a row's entries, as they are and centered
        for part in row_blocks(len(X), row_bytes=8 * X.shape[1]):
            block = X[part].astype(np.float64)
            self.plain_reach = max(self.plain_reach, float(abs(block).sum(axis=1).max()))
            self.radius = max(self.radius, float(abs(block - self.center).sum(axis=1).max()))
        self.scale = power_of_two_below(self.radius)
        self.parts = list(row_blocks(len(X), size=2 * ROWS_IN_CACHE))
        self.held = [np.ascontiguousarray(self.prepared(X[part]).T, dtype=np.float32) for part in self.parts]
        self.reach = 2 * self.radius

    def prepared(self, X: np.ndarray) -> np.ndarray:
        return np.asarray((X.astype(np.float64) - self.center) * self.scale)

    def prepare(self, Q: np.ndarray) -> RoughQueries:
        from nearsay.distances.vector_kernels import manhattan

        exact = self.prepared(Q)
        lengths = abs(exact).sum(axis=1)
        reached = lengths <= bounds.farthest(self.radius * self.scale)
        queries = np.ascontiguousarray(np.where(reached[:, None], exact, 0.0), dtype=np.float32)

        def add(factor: float, rows: slice, total: np.ndarray) -> None:
            unit = np.float32(factor / self.scale)
            measured = np.empty((len(queries), 2 * ROWS_IN_CACHE), np.float32)
            for part, columns in zip(self.parts, self.held, strict=True):
                start, stop = max(part.start, rows.start), min(part.stop, rows.stop)
                if start < stop:
                    few = measured[:, : part.stop - part.start]
                    manhattan(queries, columns, few)
                    few = few[:, start - part.start : stop - part.start]
                    total[:, start - rows.start : stop - rows.start] += unit * few

        return RoughQueries(np.where(reached, self.errors(Q, lengths), np.inf), add)

    def errors(self, Q: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Error bounds of the sums of ``prepared`` queries of these 1-norms."""
        plain = abs(Q.astype(np.float64)).sum(axis=1) + self.plain_reach + 2 * abs(self.center).sum()
        return bounds.summing_differences(self._n_columns, lengths, self.radius * self.scale, plain, self.scale)


class _AsExact:
    """Exact distances, for those without a faster form."""

    def __init__(self, space: HeldSpace) -> None:
        self._space = space
        self.reach = float(space.distances(space.rows[:1], slice(0, len(space))).max()) * 2

    def prepare(self, Q: np.ndarray) -> RoughQueries:
        def add(factor: float, rows: slice, total: np.ndarray) -> None:
            with np.errstate(over="ignore"):  # infinitely far away, in float32
                total += (factor * self._space.distances(Q, rows)).astype(np.float32)

        return RoughQueries(np.zeros(len(Q)), add)
