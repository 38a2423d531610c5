"""Compiled loops that insert a row into the lines of others, and take rows out of them. Imported on first use only."""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import compiled
from nearsay.neighbors.order_kernels import insert


@compiled
def may_be_within(scores, slack, as_score, reach, numbers):  # type: ignore[no-untyped-def]
    """Fill in the numbers of the rows that may be no farther than they ``reach`` (−1 for none); gives how many.

    Scores are certain to ``slack``. ``as_score`` makes one of a distance: with t the squared distance in Euclidean
    form, of which the distance is ``share`` times, or its root, the score is (scale² · t − square) / 2.
    """
    square, scale, share, squared = as_score
    factor, limit = scale * scale / share / 2, slack - square / 2
    count = 0
    for row in range(scores.shape[0]):
        far = reach[row]
        if far >= 0 and scores[row] <= factor * (far if squared else far * far) + limit:
            numbers[count] = row
            count += 1
    return count


@compiled
def let_in(row, others, far, absent, n_live, indices, distances, known, edges):  # type: ignore[no-untyped-def]
    """Insert a row into the lines it belongs in.

    ``far`` are the distances to ``others``, ``absent`` the rows without lines, ``n_live`` the number of rows before.
    A line that holds all others takes any row; another only one that is nearer than its last known.
    """
    width = indices.shape[1]
    for place in range(others.shape[0]):
        other, distance = others[place], far[place]
        if absent[other]:
            continue
        n = known[other]
        if n < n_live - 1:
            if n == 0:
                continue
            last = distances[other, n - 1]
            if distance > last or (distance == last and row > indices[other, n - 1]):
                continue
        if n < width:
            # What stands behind the known ones is not certain, and gives way.
            indices[other, n] = -1
            distances[other, n] = np.inf
            _insert_among(indices[other], distances[other], n + 1, row, distance)
            known[other] = n + 1
        else:
            insert(indices[other], distances[other], row, distance)
        edges[other] = distances[other, known[other] - 1]


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
def take_out(gone, lines, needed, short, indices, distances, known, edges):  # type: ignore[no-untyped-def]
    """Remove rows from some lines; ``short`` marks lines that then have fewer neighbors than needed."""
    for number in range(lines.shape[0]):
        line = lines[number]
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
        if kept < known[line]:
            edges[line] = distances[line, kept - 1] if kept else -1.0
        known[line] = kept
        short[number] = kept < needed
