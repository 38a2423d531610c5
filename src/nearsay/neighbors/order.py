"""The compiled loop that puts measured candidates in order. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np

from nearsay.compiling import compiled

# Inserting one by one beats sorting up to about this many.
INSERT_UP_TO = 64


@compiled
def _insert(indices, distances, row, distance):  # type: ignore[no-untyped-def]
    """Put one row where it belongs in a list that is in order; the last one falls out."""
    place = indices.shape[0]
    while place > 0 and (
        distance < distances[place - 1] or (distance == distances[place - 1] and row < indices[place - 1])
    ):
        place -= 1
    for later in range(indices.shape[0] - 1, place, -1):
        indices[later] = indices[later - 1]
        distances[later] = distances[later - 1]
    if place < indices.shape[0]:
        indices[place] = row
        distances[place] = distance


@compiled
def nearest_first(candidates, measured, left_out, indices, distances):  # type: ignore[no-untyped-def]
    """Fill each query's neighbors, nearest first, ties by row number, without the row left out (if any are)."""
    k = indices.shape[1]
    indices[:] = -1
    distances[:] = np.inf
    for q in range(candidates.shape[0]):
        itself = left_out[q] if left_out.shape[0] else -1
        if k <= INSERT_UP_TO:
            for c in range(candidates.shape[1]):
                row = candidates[q, c]
                if row >= 0 and row != itself:
                    _insert(indices[q], distances[q], row, measured[q, c])
            continue
        # What was not measured is left out before sorting: its distance can be anything.
        here = (candidates[q] >= 0) & (candidates[q] != itself)
        rows, far = candidates[q][here], measured[q][here]
        if np.any(rows[1:] < rows[:-1]):
            by_row = np.argsort(rows, kind="mergesort")
            rows, far = rows[by_row], far[by_row]
        nearest = np.argsort(far, kind="mergesort")[:k]  # keeps the order of rows among equals
        indices[q, : len(nearest)] = rows[nearest]
        distances[q, : len(nearest)] = far[nearest]


@compiled
def nearest_of_each_class(candidates, measured, labels, indices, distances):  # type: ignore[no-untyped-def]
    """Fill each query's nearest members of each class, nearest first, ties by row number."""
    indices[:] = -1
    distances[:] = np.inf
    for q in range(candidates.shape[0]):
        for c in range(candidates.shape[1]):
            row = candidates[q, c]
            if row >= 0:
                _insert(indices[q, labels[row]], distances[q, labels[row]], row, measured[q, c])
