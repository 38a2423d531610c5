"""The compiled loops that let a row into the lines of others, and take rows out of them. Imported on first use only."""

from __future__ import annotations

import numpy as np

from nearsay.compiling import compiled
from nearsay.neighbors.order_kernels import insert


@compiled
def let_in(row, far, absent, n_live, known, indices, distances):  # type: ignore[no-untyped-def]
    """Put a row into the lines where it belongs, and the others into its own; gives how many it knows.

    ``far`` are the distances to all rows, ``absent`` the rows that are not there, ``n_live`` how many were there
    before. Where a line knows all others, the new one is known too; otherwise only up to the last that is known.
    """
    width = indices.shape[1]
    for other in range(far.shape[0]):
        if other == row or absent[other]:
            continue
        insert(indices[row], distances[row], other, far[other])
        n = known[other]
        complete = n == n_live - 1
        if not complete:
            if n == 0:
                continue
            last = distances[other, n - 1]
            if far[other] > last or (far[other] == last and row > indices[other, n - 1]):
                continue
        if n < width:
            # What stands behind the known ones is not certain, and gives way.
            indices[other, n] = -1
            distances[other, n] = np.inf
            _insert_among(indices[other], distances[other], n + 1, row, far[other])
            known[other] = n + 1
        else:
            insert(indices[other], distances[other], row, far[other])
    return min(n_live, width)


@compiled
def _insert_among(indices, distances, n, row, distance):  # type: ignore[no-untyped-def]
    """``insert`` into the first ``n`` places; the last of them is free, so that none falls out."""
    place = n - 1
    while place > 0 and (
        distance < distances[place - 1] or (distance == distances[place - 1] and row < indices[place - 1])
    ):
        indices[place] = indices[place - 1]
        distances[place] = distances[place - 1]
        place -= 1
    indices[place] = row
    distances[place] = distance


@compiled
def take_out(gone, needed, known, indices, distances, short):  # type: ignore[no-untyped-def]
    """Take rows out of all lines; ``short`` marks those that no longer know as many as needed."""
    for line in range(known.shape[0]):
        kept = 0
        for place in range(known[line]):
            row = indices[line, place]
            if not gone[row]:
                indices[line, kept] = row
                distances[line, kept] = distances[line, place]
                kept += 1
        for place in range(kept, known[line]):
            indices[line, place] = -1
            distances[line, place] = np.inf
        known[line] = kept
        short[line] = kept < needed
