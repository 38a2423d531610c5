"""Compiled loops of the vector distances. Imported on first use only: this is where numba comes in.

All have one shape, ``kernel(Q, columns, out)``: ``Q`` is (queries × d), and
``columns`` is (d × rows), the rows turned on their side, so that the innermost
loop runs over neighboring rows and the processor takes several at once. Each
single distance is still summed coordinate by coordinate in order, exactly as
a plain double loop would, whatever is measured beside it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")


@compiled
def squared_euclidean(Q, columns, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    for i in range(Q.shape[0]):
        total = out[i]
        for j in range(Q.shape[1]):
            q = Q[i, j]
            column = columns[j]
            for r in range(column.shape[0]):
                difference = q - column[r]
                total[r] += difference * difference


@compiled
def euclidean(Q, columns, out):  # type: ignore[no-untyped-def]
    squared_euclidean(Q, columns, out)
    for i in range(out.shape[0]):
        for r in range(out.shape[1]):
            out[i, r] = math.sqrt(out[i, r])


@compiled
def manhattan(Q, columns, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    for i in range(Q.shape[0]):
        total = out[i]
        for j in range(Q.shape[1]):
            q = Q[i, j]
            column = columns[j]
            for r in range(column.shape[0]):
                total[r] += abs(q - column[r])


@compiled
def measure_euclidean(Q, X, candidates, first, squared, out):  # type: ignore[no-untyped-def]
    """Measure each query against its own candidates, straight from the held rows."""
    d = Q.shape[1]
    for i in range(candidates.shape[0]):
        for c in range(candidates.shape[1]):
            row = candidates[i, c] - first
            if 0 <= row < X.shape[0]:
                total = 0.0
                for j in range(d):
                    difference = np.float64(Q[i, j]) - np.float64(X[row, j])
                    total += difference * difference
                out[i, c] = total if squared else math.sqrt(total)
