"""User-defined distances: a Python function, a compiled function, or a matrix of distances."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from nearsay.core.arrays import as_rows
from nearsay.distances.distance import Distance
from nearsay.errors import InputError

# Advice for negative distances.
SIMILARITIES = (
    "Similarities look like this: they are largest where a distance is 0. Turn a similarity s into a distance first:"
    " max(s) - s, for example, or 1 - s for cosines and correlations, cut off at 0 (np.maximum(1 - s, 0))."
)


class FunctionDistance(Distance):
    """Any Python function of two items: of strings, images, sets or anything it accepts.

    The items are passed to the function as they were given: the entries of a list, or the rows of an array. It is
    called with the query first, once for every pair, possibly from several threads (``nearsay.threads(1)`` if it is not
    thread-safe), and must give a finite number of at least 0. It need not be symmetric, nor a metric.

    >>> FunctionDistance(lambda a, b: abs(len(a) - len(b)))("pear", "banana")
    2.0
    """

    name = "function"

    def __init__(self, function: Callable[[Any, Any], float]) -> None:
        self.function = function

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise InputError(
                f"{name} must be a list or an array of items; got {reprlib.repr(items)}. For one item pass [item]."
            )
        if hasattr(items, "to_numpy"):  # a data frame: its rows are meant, but looping over it gives column names
            items = items.to_numpy()
        if isinstance(items, np.ndarray) and items.ndim == 0:
            raise InputError(f"{name} must be a list or an array of items; got an array without dimensions.")
        # Arrays of strings would cut off longer ones that are added later.
        is_numbers = isinstance(items, np.ndarray) and items.dtype.kind in "fiubc"
        return items if is_numbers or isinstance(items, list) else list(items)

    def check_added(self, items: Any, like: Any) -> Any:
        added = self.check(items)
        if isinstance(like, list):
            return list(added)
        try:
            array = np.asarray(added)
        except ValueError:  # ragged
            array = np.empty((0, 0, 0, 0))
        if array.shape[1:] != like.shape[1:] or array.dtype.kind not in "fiubc":
            raise InputError(
                f"The added items must be numbers of shape {like.shape[1:]}, like those in the collection;"
                f" got {reprlib.repr(added)}. For items of any shape fit the collection with a list."
            )
        return array

    def block(self, Q: Any, X: Any, first: int = 0) -> np.ndarray:
        out = np.empty((len(Q), len(X)))
        for i, query in enumerate(Q):
            for j, item in enumerate(X):
                out[i, j] = self._number(self.function(query, item), query, item)
        return out

    def _number(self, given: Any, query: Any, item: Any) -> float:
        try:
            number = float(given)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(
                f"The distance function {_name_of(self.function)} gave {reprlib.repr(given)} for the items"
                f" {reprlib.repr(query)} and {reprlib.repr(item)}; a finite number is expected for every two items."
            )
        if number < 0:
            raise InputError(
                f"The distance function {_name_of(self.function)} gave {number:g}, below 0, for the items"
                f" {reprlib.repr(query)} and {reprlib.repr(item)}. {SIMILARITIES}"
            )
        return number

    def __repr__(self) -> str:
        return f"<distance {self.name} {_name_of(self.function)}>"


class CompiledDistance(Distance):
    """A function of two vectors compiled by numba (``@numba.njit``): fast, and in threads.

    It gets two float64 vectors, the query first, and must give a finite number of at least 0.

    >>> from numba import njit
    >>> @njit
    ... def largest_difference(a, b):
    ...     return np.abs(a - b).max()
    >>> CompiledDistance(largest_difference)([0.0, 0.0], [3.0, 4.0])
    4.0
    """

    name = "compiled function"

    def __init__(self, function: Any) -> None:
        self.function = function

    def block(self, Q: np.ndarray, X: np.ndarray, first: int = 0) -> np.ndarray:
        from numba.core.errors import NumbaError

        out = np.empty((len(Q), len(X)))
        fill = _compiled_loop(self.function)
        try:
            fill(np.ascontiguousarray(Q, np.float64), np.ascontiguousarray(X, np.float64), out)
        except NumbaError as error:
            raise InputError(
                f"The function {_name_of(self.function)} does not compile as a distance, that is, to give a number for"
                f" two float64 vectors. numba says: {error}"
            ) from error
        if not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            raise InputError(
                f"The distance function {_name_of(self.function)} gave {out[i, j]} for the rows {reprlib.repr(Q[i])}"
                f" and {reprlib.repr(X[j])}; a finite number is expected for every two rows."
            )
        if out.min(initial=0) < 0:
            i, j = np.argwhere(out < 0)[0]
            raise InputError(
                f"The distance function {_name_of(self.function)} gave {out[i, j]:g}, below 0, for the rows"
                f" {reprlib.repr(Q[i])} and {reprlib.repr(X[j])}. {SIMILARITIES}"
            )
        return out

    def __repr__(self) -> str:
        return f"<distance {self.name} {_name_of(self.function)}>"


@lru_cache(maxsize=64)
def _compiled_loop(function: Any) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """One loop around each function, so that it is compiled once."""
    from numba import njit

    @njit(nogil=True, error_model="numpy")
    def fill(Q, X, out):  # type: ignore[no-untyped-def]
        for i in range(Q.shape[0]):
            for r in range(X.shape[0]):
                out[i, r] = function(Q[i], X[r])

    return fill


class PrecomputedDistance(Distance):
    """Distances computed elsewhere: the collection *is* its square matrix of distances.

    ``X[i, j]`` is the distance from row i to row j, at least 0. A query is a row of its distances to every row of the
    collection, removed ones included, so queries come as (queries × rows). The matrix need not be symmetric. Leaving
    one out uses the matrix's own rows; a row is left out by its number, so the diagonal does not matter.

    >>> from nearsay import leave_one_out, nearest
    >>> matrix = [[0.0, 2.0, 9.0], [2.0, 0.0, 4.0], [9.0, 4.0, 0.0]]
    >>> nearest(matrix, [[5.0, 1.0, 3.0]], k=2, metric="precomputed").indices
    array([[1, 2]])
    >>> leave_one_out(matrix, k=1, metric="precomputed").indices.ravel()
    array([1, 0, 1])
    """

    name = "precomputed"

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        rows = as_rows(items, name=name)
        if like is None and len(rows) != rows.shape[1]:
            raise InputError(
                f"{name} must be a square matrix, with the distance from row i to row j at [i, j], for a precomputed"
                f" distance; got shape {rows.shape}."
            )
        if like is not None and rows.shape[1] != len(like):
            raise InputError(
                f"{name} has {rows.shape[1]} columns, but a query needs its distance to each of the {len(like)} rows"
                " that were fitted."
            )
        if rows.min(initial=0) < 0:
            below = rows < 0
            if like is None:
                np.fill_diagonal(below, val=False)  # the distance of a row to itself is never used
            places = np.argwhere(below)
            if not len(places):
                return rows
            i, j = places[0]
            raise InputError(
                f"{name} must hold precomputed distances, at least 0, but {name}[{i}, {j}] is {rows[i, j]:g}."
                f" {SIMILARITIES}"
            )
        return rows

    def check_added(self, items: Any, like: Any) -> Any:
        raise InputError(
            "Rows cannot be added to a precomputed distance: the distances from the fitted rows to the new"
            f" ones are missing. Fit again with the square matrix of all, or fit the {len(like)} items themselves"
            " with a function as the distance."
        )

    def block(self, Q: np.ndarray, X: np.ndarray, first: int = 0) -> np.ndarray:
        return np.array(Q[:, first : first + len(X)], dtype=np.float64)  # a copy: the caller may write to it

    def measure(self, Q: np.ndarray, X: np.ndarray, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        i, place = np.nonzero((candidates >= first) & (candidates < first + len(X)))
        out[i, place] = Q[i, candidates[i, place]]


def is_compiled(function: Any) -> bool:
    """Whether numba compiled this function; checked without importing numba."""
    return hasattr(function, "py_func") and type(function).__module__.partition(".")[0] == "numba"


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
