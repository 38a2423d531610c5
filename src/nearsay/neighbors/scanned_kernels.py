"""The compiled loop that finds more members of the nearest classes. Imported on first use only."""

from __future__ import annotations

from nearsay.compiling import compiled
from nearsay.neighbors.order_kernels import insert


@compiled
def insert_members(distances, labels, removed, near, place_of, indices, far):  # type: ignore[no-untyped-def]
    """Fill in the nearest members of the classes ``near`` (queries × few, −1 for none) of each query, in order.

    ``place_of`` (n_classes) is room to work in; ``removed`` may be empty.
    """
    for q in range(distances.shape[0]):
        place_of[:] = -1
        for t in range(near.shape[1]):
            if near[q, t] >= 0:
                place_of[near[q, t]] = t
        for row in range(distances.shape[1]):
            if removed.shape[0] and removed[row]:
                continue
            t = place_of[labels[row]]
            if t >= 0 and distances[q, row] <= far[q, t, far.shape[2] - 1]:
                insert(indices[q, t], far[q, t], row, distances[q, row])
