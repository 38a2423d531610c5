"""The compiled loop that puts measured candidates in order. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np
from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")

# Inserting one by one beats sorting up to about this many.
INSERT_UP_TO = 64


@compiled
def nearest_first(candidates, measured, left_out, indices, distances):  # type: ignore[no-untyped-def]
    """Fill each query's neighbors, nearest first, ties by row number, without the row left out."""
    k = indices.shape[1]
    for q in range(candidates.shape[0]):
        if k > INSERT_UP_TO:
            by_row = np.argsort(candidates[q], kind="mergesort")
            by_distance = by_row[np.argsort(measured[q][by_row], kind="mergesort")]
            found = 0
            for c in by_distance:
                row = candidates[q, c]
                if found < k and row >= 0 and row != left_out[q]:
                    indices[q, found] = row
                    distances[q, found] = measured[q, c]
                    found += 1
            continue
        found = 0
        for c in range(candidates.shape[1]):
            row, distance = candidates[q, c], measured[q, c]
            if row < 0 or row == left_out[q]:
                continue
            place = found
            while place > 0 and (
                distance < distances[q, place - 1]
                or (distance == distances[q, place - 1] and row < indices[q, place - 1])
            ):
                place -= 1
            if place >= k:
                continue
            found = min(found + 1, k)
            for later in range(found - 1, place, -1):
                indices[q, later] = indices[q, later - 1]
                distances[q, later] = distances[q, later - 1]
            indices[q, place] = row
            distances[q, place] = distance
