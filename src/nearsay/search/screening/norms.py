"""Norms of rows, from which error bounds are computed; for few rows in numpy, without compiling."""

from __future__ import annotations

import math

import numpy as np

from nearsay.core.compiling import done_without, worth_compiling

PLAIN_STEP = 5  # nanoseconds that numpy takes for each number of the rows


def norms(X: np.ndarray, center: np.ndarray, half_norms: np.ndarray) -> tuple[float, float]:
    """Fill in half the squared norm of every row; gives the largest norm, as the rows are and after centering.

    The two ways add in different orders, which the bounds allow for.
    """
    cost = PLAIN_STEP * X.size
    if worth_compiling(cost):
        from nearsay.search.screening.shortlist_kernels import norms as compiled_norms

        largest, largest_centered = compiled_norms(X, center, half_norms)
        return largest, largest_centered
    done_without(cost)
    rows = np.asarray(X, np.float64)
    centered = rows - center
    squares, from_center = np.einsum("ij,ij->i", rows, rows), np.einsum("ij,ij->i", centered, centered)
    with np.errstate(over="ignore"):  # in float32, where the loop says nothing either
        half_norms[:] = squares / 2
    return math.sqrt(squares.max(initial=0.0)), math.sqrt(from_center.max(initial=0.0))
