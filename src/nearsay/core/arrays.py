"""Validation of arrays, and blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, time, timedelta
from threading import Lock
from typing import Any

import numpy as np

from nearsay.core.cancellation import go_on
from nearsay.errors import InputError

# Sums of squares of smaller numbers stay finite in float64.
LARGEST_VALUE = 1e140

# Advice for rows with missing numbers.
HINT_FOR_MISSING = (
    " Where a row may lack whole groups of columns, FusedClassifier answers from the groups it has: put NaN in the"
    " columns of the others. Where any cell may be missing, nearsay.TableEncoder makes rows that can be compared, as"
    " NeighborClassifier does of a data frame."
)

# Type characters of float32 and float64, the types that products and compiled loops take as they are.
SINGLE_OR_DOUBLE = "fd"

CACHE_LINE = 64  # bytes

# Held while numpy reads the header of a file: it does so with Python's parser, which in Python 3.11 can fail with a
# SystemError where two threads are at it (python/cpython#106905).
READING_A_HEADER = Lock()


def as_rows(X: Any, *, name: str = "X", width: int | None = None) -> np.ndarray:
    """Validate rows: a two-dimensional array of finite numbers, copied only if necessary.

    Any numeric type is kept (uint8 images stay small); computations convert one
    block of rows at a time. Only the byte order becomes the machine's own.

    >>> as_rows([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> as_rows([1.0, 2.0])
    Traceback (most recent call last):
    nearsay.errors.InputError: X must have two dimensions (rows × columns); got shape (2,). For one row ...
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InputError(f"{name} is a sparse matrix; dense rows are expected. Pass {name}.toarray().")
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(
            f"{name} must have two dimensions (rows × columns); got shape {array.shape}."
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
    """Other types as numbers, in the machine's byte order."""
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
                f"{name} must hold numbers; got {array.dtype} and does not convert ({error})."
                " For rows that are not vectors pass a function of two items as the distance."
            ) from error
    if array.dtype == np.longdouble:
        return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def within_range(values: np.ndarray, dtype: np.dtype[Any] | type[np.floating[Any]]) -> np.ndarray:
    """Numbers in a float type, clipped to the range in which squares are finite.

    >>> within_range(np.array([1.0, -1e60]), np.float32)
    array([ 1.0000000e+00, -3.4028235e+38], dtype=float32)
    """
    end = min(float(np.finfo(dtype).max), LARGEST_VALUE / 2)
    with np.errstate(over="ignore"):  # infinite values are clipped below
        cast: np.ndarray = np.asarray(values, dtype)
    return cast if not cast.size or max(cast.max(), -cast.min()) <= end else np.clip(cast, -end, end)


def refuse_words(X: Any, *, name: str = "X") -> None:
    """Raise an error that names the first cell with a text that is no number, or with a date.

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
                "Leave that column out, or code it as numbers (nearsay.TableEncoder does)."
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
        # Fastest check: NaN and infinity survive a sum of squares. An overflow is checked again below.
        flat = array.reshape(-1)
        if float(np.vdot(flat, flat)) < LARGEST_VALUE:
            return
    for rows in row_blocks(len(array), row_bytes=array.shape[1] * array.itemsize):
        block = array[rows]
        low, high = (float(block.min()), float(block.max())) if block.size else (0.0, 0.0)
        if low > -LARGEST_VALUE and high < LARGEST_VALUE:
            continue
        with np.errstate(invalid="ignore"):  # signaling NaN
            row, column = np.argwhere(~(np.abs(block.astype(np.float64)) < LARGEST_VALUE))[0]
        value = float(block[row, column])
        kind = "too large to square" if np.isfinite(value) else "not a finite number"
        raise InputError(
            f"{name} holds {value} at row {rows.start + row}, column {column}, which is {kind}."
            f" Fill in or drop such rows first.{HINT_FOR_MISSING if np.isnan(value) and name in 'XQ' else ''}"
        )


def as_compiled_for(array: np.ndarray) -> np.ndarray:
    """The same numbers in C order, and not marked read-only: loops are compiled for that, seconds for each kind.

    A loop writes to no array that it is given to read, so that protected memory is shared, too.

    >>> protected = np.arange(4.0)
    >>> protected.flags.writeable = False
    >>> as_compiled_for(protected).flags.writeable, np.shares_memory(as_compiled_for(protected), protected)
    (True, True)
    """
    flags = array.flags
    if flags.c_contiguous and flags.writeable:  # nearly always, in searches of microseconds
        return array
    ordered = np.ascontiguousarray(array)
    return ordered if ordered.flags.writeable else np.asarray(_Unprotected(ordered))


class _Unprotected:
    """The memory of an array, as if it could be written to."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        described = array.__array_interface__
        self.__array_interface__ = {**described, "data": (described["data"][0], False)}


def as_labels(values: Any) -> np.ndarray:
    """Labels as an array, without merging different ones by conversion.

    numpy converts [1, 2**63] to float64, in which integers from 2**53 on merge.
    Integers without a common numpy type stay Python objects.

    >>> as_labels([1, 2**63, 2**63 + 1])
    array([                  1, 9223372036854775808, 9223372036854775809], dtype=uint64)
    >>> as_labels([-1, 2**63, 2**63 + 1])
    array([-1, 9223372036854775808, 9223372036854775809], dtype=object)
    """
    array = np.asarray(values)
    # Only a float array may come from integers that merged; integers in an object array have kept their values.
    may_hide_integers = array.dtype.kind == "O" or (array.dtype.kind == "f" and not hasattr(values, "dtype"))
    if array.ndim != 1 or not len(array) or not may_hide_integers or not all(map(_is_integer, values)):
        return array
    low, high = int(min(values)), int(max(values))
    exact = (type for type in (np.int64, np.uint64) if np.iinfo(type).min <= low and high <= np.iinfo(type).max)
    return np.array([int(value) for value in values], dtype=next(exact, object))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def places_among(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The index of each label in the classes, −1 for other labels: an array of the shape of ``labels``.

    Labels are compared in Python, so that int64 and uint64 do not merge.

    >>> places_among(np.array(["elm", "oak"]), np.array(["oak", "elm", "ash"]))
    array([ 1,  0, -1])
    """
    place = {label: number for number, label in enumerate(classes.tolist())}
    places = [place.get(label, -1) for label in labels.ravel().tolist()]
    return np.array(places, dtype=np.int64).reshape(labels.shape)


def check_n_neighbors(k: Any, n_rows: int, *, left_out: int = 0) -> int:
    """Validate the number of neighbors ``k``.

    >>> check_n_neighbors(7, 5)
    Traceback (most recent call last):
    nearsay.errors.InputError: Asked for k=7 neighbors, but the collection has 5 rows. Ask for at most 5.
    """
    if type(k) is not int and (isinstance(k, bool | np.bool_) or not isinstance(k, int | np.integer)):
        raise InputError(f"The number of neighbors must be a whole number; got {k!r}.")
    if k < 1:
        raise InputError(f"The number of neighbors must be at least 1; got {k}.")
    if k > n_rows - left_out:
        rows = f"{n_rows} row{'s' if n_rows != 1 else ''}"
        besides = f", so {n_rows - left_out} besides the row itself" if left_out else ""
        raise InputError(
            f"Asked for k={k} neighbors, but the collection has {rows}{besides}. Ask for at most {n_rows - left_out}."
        )
    return int(k)


def check_sample_weight(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Validate sample weights: (n_rows,) float64, none negative and some above 0.

    >>> check_sample_weight([1, -2], 2)
    Traceback (most recent call last):
    nearsay.errors.InputError: sample_weight must not be negative; got -2.0 for row 1.
    """
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must hold a number for every row; got {sample_weight!r}.") from error
    if weights.shape != (n_rows,):
        raise InputError(f"sample_weight must have shape ({n_rows},), one number per row; got shape {weights.shape}.")
    for wrong, what in ((~np.isfinite(weights), "be finite"), (weights < 0, "not be negative")):
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(f"sample_weight must {what}; got {weights[row]} for row {row}.")
    if not weights.any():
        raise InputError(f"sample_weight is zero for all {n_rows} rows. At least one row must count.")
    # Only proportions matter, and sums of these do not overflow. A power of two rounds nothing.
    return np.asarray(np.ldexp(weights, -np.frexp(weights.max())[1]))


def check_row_numbers(rows: Any, n_rows: int, *, removed: np.ndarray | None = None) -> np.ndarray:
    """Row numbers (int64) from a list of numbers or a mask, in the given order.

    Parameters
    ----------
    rows : whole numbers from 0 to ``n_rows`` − 1, repeats allowed; or a mask, True or False for every row.
    n_rows : how many row numbers there are.
    removed : (n_rows,) bool, optional; rows that may not be named.

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


def in_cache_lines(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of zeros aligned to cache lines.

    >>> in_cache_lines((3, 5), np.float32).ctypes.data % CACHE_LINE
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + CACHE_LINE, np.int8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def mapped(path: str) -> np.ndarray:
    """A read-only memory map of an ``.npy`` file; thread-safe."""
    with READING_A_HEADER:
        return np.load(path, mmap_mode="r")


def row_blocks(n_rows: int, *, row_bytes: int = 0, size: int | None = None) -> Iterator[slice]:
    """Cut ``range(n_rows)`` into slices of ``size`` rows, or of about 4 MB at ``row_bytes`` a row.

    >>> [(b.start, b.stop) for b in row_blocks(5, size=2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = size or max(1, (4 << 20) // max(1, row_bytes))
    for start in range(0, n_rows, step):
        go_on()
        yield slice(start, min(start + step, n_rows))


def rows_within(n_bytes: int, row_bytes: int, most: int) -> int:
    """How many rows of ``row_bytes`` fit into ``n_bytes``: at least one, and no more than ``most``.

    >>> rows_within(1000, 10, most=960), rows_within(1000, 1, most=960), rows_within(1000, 5000, most=960)
    (100, 960, 1)
    """
    return max(1, min(most, n_bytes // max(1, row_bytes)))


def row_width(items: Any) -> int:
    """Numbers per row; 1 for items that are no vectors."""
    return int(items.shape[1]) if isinstance(items, np.ndarray) and items.ndim == 2 else 1


def evenly(n: int, most: int) -> np.ndarray:
    """At most ``most`` of the numbers below ``n``, evenly spaced from 0.

    >>> evenly(10, 4), evenly(3, 4)
    (array([0, 2, 5, 7]), array([0, 1, 2]))
    """
    chosen = min(n, most)
    return np.arange(chosen) * n // max(chosen, 1)


def mix(x: np.ndarray) -> np.ndarray:
    """Hash 64 bits (the finalizer of splitmix64). Also used in compiled loops."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def largest_norm(X: np.ndarray) -> float:
    """Length of the longest row; 0 without rows."""
    blocks = (X[part].astype(np.float64) for part in row_blocks(len(X), row_bytes=8 * X.shape[1]))
    return max((float(np.sqrt(np.einsum("ij,ij->i", block, block).max())) for block in blocks), default=0.0)
