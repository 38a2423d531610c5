"""Validation of rows and labels in estimators: scikit-learn's checks, with more precise error messages."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from nearsay.core.arrays import as_labels, as_rows, refuse_words
from nearsay.errors import InputError

# From here on, float64 cannot represent every integer.
WHOLE_IN_FLOAT = 2**53


def check_names(X: Any) -> None:
    """Refuse what has no column names, or one name twice: dicts, and data frames in which a name is no single column.

    >>> check_names([{"age": 38}])
    Traceback (most recent call last):
    nearsay.errors.InputError: X is a list of dicts; a data frame or an array is expected. Pass pandas.DataFrame(X).
    """
    if isinstance(X, list | tuple) and X and isinstance(X[0], dict):
        raise InputError("X is a list of dicts; a data frame or an array is expected. Pass pandas.DataFrame(X).")
    if not hasattr(X, "columns"):
        return
    first: dict[Any, int] = {}
    for column, name in enumerate(X.columns):
        if not isinstance(name, Hashable):
            return  # columns of Arrow tables are arrays, and may not share a name either
        if first.setdefault(name, column) != column:
            raise InputError(f"X has two columns called {name!r}: {first[name]} and {column}. Rename or drop one.")


def checked_rows(estimator: Any, X: Any, *, finite: bool = True, **options: Any) -> np.ndarray:
    """Validate rows with scikit-learn's ``validate_data``.

    Errors name the row and column of a word, a date or a missing number. ``finite=False`` skips the check for NaN and
    infinity, for rows that go to an index, where the distance checks them.
    """
    check_names(X)
    refuse_words(X)
    rows: np.ndarray = validate_data(estimator, X, ensure_all_finite=False, **options)
    return as_rows(rows) if finite else rows


def checked_rows_and_labels(
    estimator: Any, X: Any, y: Any, *, finite: bool = True, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Validate rows and labels, without merging different labels by conversion."""
    check_names(X)
    refuse_words(X)
    y = None if y is None else checked_labels(y)
    rows, labels = validate_data(estimator, X, y, ensure_all_finite=False, **options)
    return (as_rows(rows) if finite else rows), labels


def checked_labels(y: Any) -> Any:
    """Labels as an array; an error where one is missing, or where a conversion may have merged different ones.

    >>> checked_labels(["cat", None])
    Traceback (most recent call last):
    nearsay.errors.InputError: y has no label for 1 of 2 rows; the first is row 1 (None). Leave such rows out, ...
    >>> checked_labels([-1, 2**63])
    Traceback (most recent call last):
    nearsay.errors.InputError: y holds -1 and 9223372036854775808, which no integer type holds together. Pass ...
    """
    _refuse_missing(y)
    y = _without_masks(y)
    if not isinstance(y, np.ndarray | list | tuple):
        return y  # a Series or the like: scikit-learn knows their types
    labels = as_labels(y)
    if labels.dtype.kind == "O" and labels.ndim == 1 and all(isinstance(label, int) for label in labels):
        raise InputError(
            f"y holds {min(labels)} and {max(labels)}, which no integer type holds together. Pass the labels as texts:"
            " [str(label) for label in y]."
        )
    if labels.dtype.kind == "f":
        large = labels[np.isfinite(labels) & (np.abs(labels) >= WHOLE_IN_FLOAT)]
        if len(large):
            raise InputError(
                f"y holds {large[0]:.0f} as {labels.dtype}, which cannot represent all integers of this size. Pass"
                " integers, for example np.array(labels, dtype=np.uint64), or texts."
            )
    return labels


def _refuse_missing(y: Any) -> None:
    """None, NaN and pandas' NA are no class: numpy would make the text "nan" of some, and sorting fails on others."""
    if isinstance(y, np.ndarray) and y.dtype.kind != "O":
        return  # a number that is NaN is refused by scikit-learn
    if hasattr(y, "isna"):
        missing = np.asarray(y.isna()).ravel()
    elif hasattr(y, "is_null"):  # polars, Arrow
        missing = np.asarray(y.is_null())
    elif isinstance(y, np.ndarray | list | tuple):
        missing = np.array([one is None or (isinstance(one, float) and one != one) for one in y], np.bool_)
    else:
        return
    places = np.flatnonzero(missing)
    if len(places):
        first = np.asarray(y, object).ravel()[places[0]]
        raise InputError(
            f"y has no label for {len(places):,} of {len(missing):,} rows; the first is row {places[0]} ({first})."
            " Leave such rows out, or label them."
        )


def _without_masks(y: Any) -> Any:
    """Nullable integers and booleans of pandas as numpy's: scikit-learn would make floats, which merge large ones."""
    columns = [y.dtype] if hasattr(y, "dtype") else list(getattr(y, "dtypes", ()))
    types = {getattr(column, "numpy_dtype", None) for column in columns}
    kept = types.pop() if len(types) == 1 else None
    if kept is None or np.dtype(kept).kind not in "iub":
        return y
    return y.to_numpy(dtype=kept)
