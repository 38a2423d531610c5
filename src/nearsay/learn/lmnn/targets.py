"""Target neighbors: the rows of the same class that a row should stay close to."""

from __future__ import annotations

import numpy as np

from nearsay.neighbors.index import NeighborIndex


def target_neighbors(X: np.ndarray, labels: np.ndarray, n_neighbors: int) -> np.ndarray:
    """The ``n_neighbors`` nearest other rows of each row's own class: (n_rows, n_neighbors) row numbers.

    Nearest by Euclidean distance; equal distances go by row number. A class of
    fewer rows gives what it has, and −1 fills up: a class of one row has none.

    >>> X = np.array([[0.0], [1.0], [5.0], [9.0]])
    >>> target_neighbors(X, np.array([0, 0, 0, 1]), 2)
    array([[ 1,  2],
           [ 0,  2],
           [ 1,  0],
           [-1, -1]])
    """
    targets = np.full((len(X), n_neighbors), -1, np.int64)
    order = np.argsort(labels, kind="stable")
    for members in np.split(order, np.cumsum(np.bincount(labels))[:-1]):
        k = min(n_neighbors, len(members) - 1)
        if k > 0:
            # Row numbers within the class stand in the order of those of the collection, so ties go the same way.
            targets[members, :k] = members[NeighborIndex().fit(X[members]).leave_one_out(k).indices]
    return targets
