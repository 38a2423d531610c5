"""The vector distances in numpy, for few rows: nothing is compiled, and the bits are the same.

The functions have the names and arguments of the loops in ``vector_kernels.py``. Columns are added one after the other,
each for all queries and rows, so that a distance is summed in the order of its columns here too. Distances that need a
power or a logarithm run the loops in Python: numpy's vectorized functions round differently.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Term = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _add_up(term: Term, Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Σ term(q, x) over the columns, from the first to the last."""
    out[:] = 0.0
    for j in range(len(columns)):
        out += term(Q[:, j, None], columns[j])


def _ratio(above: np.ndarray, below: np.ndarray, where: np.ndarray) -> np.ndarray:
    """above / below, and 0 where below is 0."""
    return np.asarray(np.divide(above, below, out=np.zeros(where.shape), where=where))


# ---------------------------------------------------------------- sums of differences


def _squared_difference(q: np.ndarray, x: np.ndarray) -> np.ndarray:
    difference = q - x
    return np.asarray(np.multiply(difference, difference, out=difference))


def squared_euclidean(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    _add_up(_squared_difference, Q, columns, out)


def euclidean(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    squared_euclidean(Q, columns, out)
    np.sqrt(out, out=out)


def root_of_half_squares(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    squared_euclidean(Q, columns, out)
    np.sqrt(out / 2, out=out)


def manhattan(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    _add_up(lambda q, x: np.abs(q - x), Q, columns, out)


def chebyshev(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    out[:] = 0.0
    for j in range(len(columns)):
        np.maximum(out, np.abs(Q[:, j, None] - columns[j]), out=out)


def mahalanobis(Q: np.ndarray, columns: np.ndarray, L: np.ndarray, out: np.ndarray) -> None:
    component = np.empty(out.shape)
    out[:] = 0.0
    for weights in L:
        component[:] = 0.0
        for j in range(len(columns)):
            component += weights[j] * (Q[:, j, None] - columns[j])
        out += component * component
    np.sqrt(out, out=out)


# ---------------------------------------------------------------- ratios


def cosine(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    _add_up(np.multiply, Q, columns, out)
    ratio = out / (_lengths(Q.T)[:, None] * _lengths(columns))
    np.minimum(np.maximum(1.0 - ratio, 0.0), 2.0, out=out)


def _lengths(columns: np.ndarray) -> np.ndarray:
    squares = np.zeros(columns.shape[1])
    for column in columns:
        squares += column * column
    return np.sqrt(squares)


def canberra(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    def term(q: np.ndarray, x: np.ndarray) -> np.ndarray:
        size = np.abs(q) + np.abs(x)
        return _ratio(np.abs(q - x), size, size > 0.0)

    _add_up(term, Q, columns, out)


def braycurtis(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    total, sizes = np.empty(out.shape), np.empty(out.shape)
    _add_up(lambda q, x: np.abs(q - x), Q, columns, total)
    _add_up(lambda q, x: np.abs(q + x), Q, columns, sizes)
    out[:] = _ratio(total, sizes, total > 0.0)


def hamming(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    _add_up(np.not_equal, Q, columns, out)
    out /= len(columns)


def jaccard(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    different, present = np.empty(out.shape), np.empty(out.shape)
    _add_up(np.not_equal, Q != 0.0, columns != 0.0, different)
    _add_up(np.logical_or, Q != 0.0, columns != 0.0, present)
    out[:] = _ratio(different, present, present > 0.0)


# ---------------------------------------------------------------- histograms


def chi2(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    def term(q: np.ndarray, x: np.ndarray) -> np.ndarray:
        amount = q + x
        return _ratio(_squared_difference(q, x), amount, amount > 0.0)

    _add_up(term, Q, columns, out)
    out /= 2


def intersection(Q: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    shared = np.empty(out.shape)
    _add_up(np.minimum, Q, columns, shared)
    amounts, amount = np.zeros(columns.shape[1]), np.zeros(len(Q))
    for j in range(len(columns)):
        amounts += columns[j]
        amount += Q[:, j]
    out[:] = 1.0 - shared / np.maximum(amount[:, None], amounts)
