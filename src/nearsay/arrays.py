"""Checks on what a user passes in, rows cut into blocks, and work shared among threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import date, time, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from nearsay.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Squares and sums of squares of anything smaller stay finite in float64.
LARGEST_VALUE = 1e140

# What helps where rows, as opposed to other matrices, have gaps.
HINT_FOR_MISSING = (
    " Where a row may lack whole groups of columns, FusedClassifier answers from the groups it has: put NaN in the"
    " columns of the others."
)

# Type characters of float32 and float64, the types that products and compiled loops take as they are.
SINGLE_OR_DOUBLE = "fd"


def as_rows(X: Any, *, name: str = "X", width: int | None = None) -> np.ndarray:
    """Give a two-dimensional array of finite numbers, without copying where that can be helped.

    Any numeric type is kept as it is (a folder of uint8 images stays small);
    whoever computes converts one block of rows at a time. Only the order of
    bytes becomes the machine's own, which is what products and compiled loops take.

    >>> as_rows([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> as_rows([1.0, 2.0])
    Traceback (most recent call last):
    nearsay.errors.InputError: X must have two dimensions (rows × columns); it came with shape (2,). For one row ...
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InputError(f"{name} is a sparse matrix; dense rows are expected. Pass {name}.toarray().")
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(
            f"{name} must have two dimensions (rows × columns); it came with shape {array.shape}."
            + (f" For one row pass {name}.reshape(1, -1)." if array.ndim == 1 else "")
        )
    if array.dtype.char not in SINGLE_OR_DOUBLE or not array.dtype.isnative:
        array = _as_numbers(array, X, name)
    if width is not None and array.shape[1] != width:
        raise InputError(f"{name} has {array.shape[1]} columns, but {width} are expected, as in the rows given to fit.")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no columns (shape {array.shape}); at least one is needed.")
    if array.dtype.kind == "f":
        _check_finite(array, name)
    return array


def _as_numbers(array: np.ndarray, X: Any, name: str) -> np.ndarray:
    """The less usual types as numbers, in the machine's order of bytes."""
    if array.dtype.kind == "c":
        raise InputError(
            f"{name} holds complex numbers; real ones are expected. Pass {name}.real, or both parts as columns."
        )
    if array.dtype.kind not in "fiub":
        refuse_words(X, name=name)
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} must hold numbers; it came as {array.dtype} and does not convert ({error})."
                " For rows that are not vectors pass a function of two items as the distance."
            ) from error
    if array.dtype == np.longdouble:
        return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def refuse_words(X: Any, *, name: str = "X") -> None:
    """Say which column of a table holds a text that is no number, or a date; anything else passes.

    >>> refuse_words([["1.5", "2"], ["3", "red"]])
    Traceback (most recent call last):
    nearsay.errors.InputError: X must hold numbers, but holds the text 'red' at row 1, column 1. Leave that column ...
    """
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        return
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "OUSTMm":
        return
    for column, cells in enumerate(array.T):
        row = next((row for row, cell in enumerate(cells) if _is_word(cell)), None)
        if row is not None:
            called = f" ({X.columns[column]!r})" if hasattr(X, "columns") else ""
            is_text = isinstance(cells[row], str | bytes)
            what = f"the text {str(cells[row])!r}" if is_text else f"the date or time {cells[row]}"
            remedy = (
                "Leave that column out, or code it as numbers (sklearn.preprocessing.OneHotEncoder does)."
                if is_text
                else "Pass numbers, such as the days since a first day: (dates - first) / np.timedelta64(1, 'D')."
            )
            raise InputError(
                f"{name} must hold numbers, but holds {what} at row {row}, column {column}{called}. {remedy}"
            )


def _is_word(cell: Any) -> bool:
    # numpy would make a number of any of its dates, and −9.2e18 of a missing one.
    if isinstance(cell, date | time | timedelta | np.datetime64 | np.timedelta64):
        return True
    if not isinstance(cell, str | bytes):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def _check_finite(array: np.ndarray, name: str) -> None:
    if array.dtype.char in SINGLE_OR_DOUBLE and array.flags.c_contiguous:
        # The fastest pass there is: NaN and infinity survive a sum of squares. An overflow is looked at again below.
        flat = array.reshape(-1)
        if float(np.vdot(flat, flat)) < LARGEST_VALUE:
            return
    for rows in row_blocks(len(array), row_bytes=array.shape[1] * array.itemsize):
        block = array[rows]
        low, high = (float(block.min()), float(block.max())) if block.size else (0.0, 0.0)
        if low > -LARGEST_VALUE and high < LARGEST_VALUE:
            continue
        row, column = np.argwhere(~(np.abs(block.astype(np.float64)) < LARGEST_VALUE))[0]
        value = float(block[row, column])
        kind = "too large to square" if np.isfinite(value) else "not a finite number"
        raise InputError(
            f"{name} holds {value} at row {rows.start + row}, column {column}, which is {kind}."
            f" Fill in or drop such rows first.{HINT_FOR_MISSING if np.isnan(value) and name in 'XQ' else ''}"
        )


def as_labels(values: Any) -> np.ndarray:
    """Labels as an array in which no two of them become the same.

    numpy makes float64 of [1, 2**63], where whole numbers merge from 2**53 on.
    Integers that no type of numpy holds together stay Python's own, as objects.

    >>> as_labels([1, 2**63, 2**63 + 1])
    array([                  1, 9223372036854775808, 9223372036854775809], dtype=uint64)
    >>> as_labels([-1, 2**63, 2**63 + 1])
    array([-1, 9223372036854775808, 9223372036854775809], dtype=object)
    """
    array = np.asarray(values)
    # Floats are what a list of integers may have become; integers among objects have kept their values.
    may_hide_integers = array.dtype.kind == "O" or (array.dtype.kind == "f" and not hasattr(values, "dtype"))
    if array.ndim != 1 or not len(array) or not may_hide_integers or not all(map(_is_integer, values)):
        return array
    low, high = int(min(values)), int(max(values))
    exact = (type for type in (np.int64, np.uint64) if np.iinfo(type).min <= low and high <= np.iinfo(type).max)
    return np.array([int(value) for value in values], dtype=next(exact, object))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def places_among(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The place of each label among the classes, −1 for those that are none: an array of the shape of ``labels``.

    Labels are compared as Python compares them, so that those of two types of numpy (int64 and uint64) keep apart.

    >>> places_among(np.array(["elm", "oak"]), np.array(["oak", "elm", "ash"]))
    array([ 1,  0, -1])
    """
    place = {label: number for number, label in enumerate(classes.tolist())}
    found = [place.get(label, -1) for label in labels.ravel().tolist()]
    return np.array(found, dtype=np.int64).reshape(labels.shape)


def check_n_neighbors(k: Any, n_rows: int, *, left_out: int = 0) -> int:
    """Give ``k`` as an int that the collection can serve.

    >>> check_n_neighbors(7, 5)
    Traceback (most recent call last):
    nearsay.errors.InputError: Asked for k=7 neighbors, but the collection has 5 rows. Ask for at most 5.
    """
    if type(k) is not int and (isinstance(k, bool | np.bool_) or not isinstance(k, int | np.integer)):
        raise InputError(f"The number of neighbors must be a whole number; {k!r} came.")
    if k < 1:
        raise InputError(f"The number of neighbors must be at least 1; {k} came.")
    if k > n_rows - left_out:
        rows = f"{n_rows} row{'s' if n_rows != 1 else ''}"
        besides = f", so {n_rows - left_out} besides the row itself" if left_out else ""
        raise InputError(
            f"Asked for k={k} neighbors, but the collection has {rows}{besides}. Ask for at most {n_rows - left_out}."
        )
    return int(k)


def row_blocks(n_rows: int, *, row_bytes: int = 0, size: int | None = None) -> Iterator[slice]:
    """Cut ``range(n_rows)`` into slices of ``size`` rows, or of about 4 MB at ``row_bytes`` a row.

    >>> [(b.start, b.stop) for b in row_blocks(5, size=2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = size or max(1, (4 << 20) // max(1, row_bytes))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def evenly(n: int, most: int) -> np.ndarray:
    """At most ``most`` of the numbers below ``n``, in even steps from 0; all of them where there are no more.

    >>> evenly(10, 4), evenly(3, 4)
    (array([0, 2, 5, 7]), array([0, 1, 2]))
    """
    chosen = min(n, most)
    return np.arange(chosen) * n // max(chosen, 1)


def largest_norm(X: np.ndarray) -> float:
    """Length of the longest row; 0 without rows."""
    blocks = (X[part].astype(np.float64) for part in row_blocks(len(X), row_bytes=8 * X.shape[1]))
    return max((float(np.sqrt(np.einsum("ij,ij->i", block, block).max())) for block in blocks), default=0.0)


def shares(n: int, most: int) -> Iterator[slice]:
    """Cut ``range(n)`` into even slices of at most ``most``, as many for every thread as for the others.

    >>> with threads(2):
    ...     [(part.start, part.stop) for part in shares(10, most=4)]
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    rounds = -(-n // max(1, most * thread_count()))
    return row_blocks(n, size=max(1, -(-n // max(1, rounds * thread_count()))))


class GrowingArray:
    """Rows that can be appended to without copying all of them each time (capacity doubles)."""

    def __init__(self, first: np.ndarray) -> None:
        self._store = first
        self._used = len(first)

    def __len__(self) -> int:
        return self._used

    @property
    def values(self) -> np.ndarray:
        return self._store[: self._used]

    def append(self, more: np.ndarray) -> None:
        needed = self._used + len(more)
        if needed > len(self._store):
            grown = np.empty((max(needed, 2 * len(self._store)), *self._store.shape[1:]), self._store.dtype)
            grown[: self._used] = self.values
            self._store = grown
        self._store[self._used : needed] = more
        self._used = needed


_chosen_threads: int | None = None


def thread_count() -> int:
    """How many threads nearsay uses: set by ``threads``, ``NEARSAY_THREADS`` or ``OMP_NUM_THREADS``, or every core."""
    return _default_threads() if _chosen_threads is None else _chosen_threads


@lru_cache(maxsize=1)
def _default_threads() -> int:
    for variable in ("NEARSAY_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use ``count`` threads inside the block. Results never depend on it, only time does.

    >>> with threads(1):
    ...     thread_count()
    1
    """
    global _chosen_threads
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"The number of threads must be a whole number of at least 1; {count!r} came.")
    before, _chosen_threads = _chosen_threads, int(count)
    try:
        yield
    finally:
        _chosen_threads = before


@lru_cache(maxsize=1)
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep matrix products on the calling thread: nearsay shares out whole blocks of rows instead."""
    limited: AbstractContextManager[Any] = _blas().limit(limits=1)
    return limited


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do ``work`` on every item, in order, on as many threads as nearsay may use.

    ``work`` should spend its time where Python's lock is released (matrix
    products, compiled loops).
    """
    items = list(items)
    workers = min(thread_count(), len(items))
    with one_blas_thread():
        if workers <= 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, items))
