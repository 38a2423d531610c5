"""Checks on what a user passes in, rows cut into blocks, and work shared among threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from nearsay.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Squares and sums of squares of anything smaller stay finite in float64.
LARGEST_VALUE = 1e140

# Type characters of float32 and float64, the types that products and compiled loops take as they are.
SINGLE_OR_DOUBLE = "fd"


def as_rows(X: Any, *, name: str = "X", width: int | None = None) -> np.ndarray:
    """Give a two-dimensional array of finite numbers, without copying where that can be helped.

    Any numeric type is kept as it is (a folder of uint8 images stays small);
    whoever computes converts one block of rows at a time.

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
    if array.dtype.kind == "c":
        raise InputError(
            f"{name} holds complex numbers; real ones are expected. Pass {name}.real, or both parts as columns."
        )
    if array.dtype.kind not in "fiub":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} must hold numbers; it came as {array.dtype} and does not convert ({error})."
                " For rows that are not vectors pass a function of two items as the distance."
            ) from error
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    if width is not None and array.shape[1] != width:
        raise InputError(f"{name} has {array.shape[1]} columns, but {width} are expected, as in the rows given to fit.")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no columns (shape {array.shape}); at least one is needed.")
    if array.dtype.kind == "f":
        _check_finite(array, name)
    return array


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
        value = block[row, column]
        kind = "too large to square" if np.isfinite(value) else "not a finite number"
        raise InputError(
            f"{name} holds {value} at row {rows.start + row}, column {column}, which is {kind}."
            " Fill in or drop such rows first (sklearn.impute.SimpleImputer fills them)."
        )


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


def check_row_numbers(rows: Any, n_rows: int, *, removed: np.ndarray | None = None) -> np.ndarray:
    """Give the rows that a user named as an array of row numbers (int64), in the order named.

    Parameters
    ----------
    rows : whole numbers from 0 to ``n_rows`` − 1, repeats allowed; or a mask, True or False for every row.
    n_rows : how many row numbers there are.
    removed : (n_rows,) bool, optional
        Rows that may not be named.

    >>> check_row_numbers([2, 0], 3), check_row_numbers([True, False, True], 3)
    (array([2, 0]), array([0, 2]))
    >>> check_row_numbers([-1], 3)
    Traceback (most recent call last):
    nearsay.errors.InputError: No row has the number -1: rows are numbered 0 to 2.
    """
    try:
        numbers = np.asarray(rows)
    except ValueError as error:  # lists of different lengths
        raise InputError(f"Rows are named by a list of row numbers, or by a mask; got {rows!r}.") from error
    if numbers.ndim != 1:
        hint = f" For one row pass [{rows!r}]." if isinstance(rows, int | np.integer) else ""
        raise InputError(
            f"Rows are named by a list of row numbers, or by a mask; got an array of shape {numbers.shape}.{hint}"
        )
    if numbers.dtype.kind == "b":
        if len(numbers) != n_rows:
            raise InputError(f"A mask needs one value for each of the {n_rows} rows; got {len(numbers)}.")
        numbers = np.flatnonzero(numbers)
    elif not numbers.size:
        return np.empty(0, np.int64)
    elif numbers.dtype.kind not in "iu":
        raise InputError(
            "Row numbers are whole numbers (or a mask of True and False);"
            f" got {numbers.dtype}, such as {numbers.tolist()[0]!r}."
        )
    known = (numbers >= 0) & (numbers < n_rows)
    if removed is not None:
        known[known] = ~removed[numbers[known]]
    if not known.all():
        gone = 0 if removed is None else int(np.count_nonzero(removed))
        raise InputError(
            f"No row has the number {numbers[~known][0]}: "
            + (f"rows are numbered 0 to {n_rows - 1}" if n_rows else "there are no rows")
            + (f", and {gone} of them are removed." if gone else ".")
        )
    return numbers.astype(np.int64, copy=False)


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
