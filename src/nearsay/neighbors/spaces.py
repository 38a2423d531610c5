"""Several feature spaces of the same rows, each with its own distance: how far every row is in each of them.

Learned rankings and weighted distances look at *all* rows of a collection in every space, not at the nearest
alone. One query needs rows × spaces numbers; they are made for a few queries at a time and never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.arrays import as_rows, evenly, in_parallel, row_blocks
from nearsay.distances.distance import Distance
from nearsay.distances.named import as_distance
from nearsay.distances.vectors import VectorDistance
from nearsay.errors import InputError

# With fewer entries than this share other than zero, going through them alone is quicker.
SPARSE = 0.25

# Rows from which the largest distance of a space is looked for, and how many are measured at once.
SEEN_FROM, AT_ONCE = 512, 16

# Rows that one pass of a compiled loop compares with a query.
ROWS_IN_CACHE = 512


@dataclass(frozen=True)
class FeatureSpace:
    """Some columns of the rows, and how they are compared."""

    name: str
    columns: slice
    distance: Distance


def as_spaces(features: Any, n_columns: int, distance: Any = "euclidean") -> list[FeatureSpace]:
    """Give the spaces that a user named.

    Parameters
    ----------
    features : None, {name: columns} or {name: (columns, distance)}
        None is one space of all columns. Columns are a slice.
    n_columns : of the rows.
    distance : for spaces that name none.

    >>> [(space.name, space.distance) for space in as_spaces({"hue": (slice(0, 3), "l1"), "size": slice(3, 5)}, 5)]
    [('hue', <distance manhattan>), ('size', <distance euclidean>)]
    """
    if features is None:
        return [FeatureSpace("all", slice(0, n_columns), as_distance(distance))]
    if not isinstance(features, Mapping) or not features:
        raise InputError(
            "features must map names to columns, {'color': slice(0, 64)}, or to columns and a distance,"
            f" {{'color': (slice(0, 64), 'manhattan')}}; {features!r} came."
        )
    return [_as_space(name, given, n_columns, distance) for name, given in features.items()]


def _as_space(name: str, given: Any, n_columns: int, distance: Any) -> FeatureSpace:
    columns, named = given if isinstance(given, tuple) and len(given) == 2 else (given, distance)
    if not isinstance(columns, slice):
        raise InputError(f"The columns of {name!r} must be a slice, such as slice(0, 64); {columns!r} came.")
    if not len(range(*columns.indices(n_columns))):
        raise InputError(f"The feature space {name!r} is empty: {columns} takes none of {n_columns} columns.")
    return FeatureSpace(str(name), columns, as_distance(named))


class HeldSpaces:
    """The rows of a collection, ready to be measured from any query in every space.

    Parameters
    ----------
    X : (n_rows, n_columns)
    spaces : from ``as_spaces``.

    >>> held = HeldSpaces([[0, 0], [3, 4]], as_spaces({"a": slice(0, 1), "b": (slice(1, 2), "sqeuclidean")}, 2))
    >>> [held.distances(m, np.array([[0, 0]])).tolist() for m in range(2)]
    [[[0.0, 3.0]], [[0.0, 16.0]]]
    """

    def __init__(self, X: Any, spaces: list[FeatureSpace]) -> None:
        self.rows = as_rows(X)
        self.spaces = spaces
        self._measures = [_measure(self.rows[:, space.columns], space.distance) for space in spaces]

    def __len__(self) -> int:
        return len(self.spaces)

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @cached_property
    def scales(self) -> np.ndarray:
        """The largest distance in each space, seen from some hundred rows; 1 where all rows are alike: (n_spaces,)."""
        seen_from = self.rows[evenly(self.n_rows, SEEN_FROM)]
        parts = [(space, part) for space in range(len(self)) for part in row_blocks(len(seen_from), size=AT_ONCE)]
        largest = in_parallel(lambda at: float(self.distances(at[0], seen_from[at[1]]).max()), parts)
        scales = np.zeros(len(self))
        np.maximum.at(scales, [space for space, _ in parts], largest)
        return np.where(scales > 0, scales, 1.0)

    def distances(self, space: int, Q: np.ndarray) -> np.ndarray:
        """Distances of whole query rows to every row in one space: (n_queries, n_rows)."""
        return self._measures[space](Q[:, self.spaces[space].columns])


def _measure(X: np.ndarray, distance: Distance) -> Callable[[np.ndarray], np.ndarray]:
    X = distance.check(np.ascontiguousarray(X))
    if distance.name == "manhattan" and np.count_nonzero(X) < SPARSE * X.size:
        return _sparse_manhattan(X)
    if isinstance(distance, VectorDistance) and not distance.why_infinite:
        return _held_on_its_side(X, distance)
    return lambda Q: distance.block(distance.check(Q, name="Q", like=X), X)


def _sparse_manhattan(X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Every column becomes two, what is above zero and what is below, as |3 − (−2)| = |3 − 0| + |0 − 2|."""
    from scipy.sparse import csc_array, hstack

    from nearsay.distances import sparse_loops

    values = csc_array(X).astype(np.float64)
    held = hstack([values.maximum(0), (-values).maximum(0)], format="csc")
    # Numbers that cannot be negative are not checked for counting from the end: more than twice as fast.
    rows = held.indices.astype(np.uint32)
    sums = np.zeros(len(X))
    sparse_loops.sums_in_order(held.indptr, rows, held.data, sums)
    manhattan = as_distance("manhattan")

    def measure(Q: np.ndarray) -> np.ndarray:
        queries = np.asarray(manhattan.check(Q, name="Q", like=X), dtype=np.float64)
        queries = np.hstack([np.maximum(queries, 0.0), np.maximum(-queries, 0.0)])
        out = np.empty((len(queries), len(X)))
        sparse_loops.manhattan_of_counts(held.indptr, rows, held.data, sums, queries, out)
        return out

    return measure


def _held_on_its_side(X: np.ndarray, distance: VectorDistance) -> Callable[[np.ndarray], np.ndarray]:
    """``distance.block`` with rows turned on their side once, and not for every query; as many as stay in cache."""
    from nearsay.distances import kernels

    kernel = getattr(kernels, distance.kernel)
    parts = list(row_blocks(len(X), size=ROWS_IN_CACHE))
    held = [np.ascontiguousarray(distance.form(X[part]).T) for part in parts]

    def measure(Q: np.ndarray) -> np.ndarray:
        queries = np.ascontiguousarray(distance.form(distance.check(Q, name="Q", like=X)))
        out = np.empty((len(queries), len(X)))
        for part, columns in zip(parts, held, strict=True):
            measured = np.empty((len(queries), columns.shape[1]))
            kernel(queries, columns, *distance.kernel_arguments(), measured)
            out[:, part] = measured
        return out

    return measure
