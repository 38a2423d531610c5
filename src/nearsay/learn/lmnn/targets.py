"""Target neighbors: the rows of the same class that a row should stay close to."""

from __future__ import annotations

import numpy as np

from nearsay.learn.linear_map import rows_by_class
from nearsay.neighbors.other_groups import others


def target_neighbors(
    X: np.ndarray, labels: np.ndarray, n_neighbors: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """The ``n_neighbors`` nearest other rows of each row's own class: (n_rows, n_neighbors) row numbers.

    Nearest by Euclidean distance, ties by row number; padded with −1 in smaller classes. No row is a target of
    rows of its group.

    >>> X = np.array([[0.0], [1.0], [5.0], [9.0]])
    >>> target_neighbors(X, np.array([0, 0, 0, 1]), 2)
    array([[ 1,  2],
           [ 0,  2],
           [ 1,  0],
           [-1, -1]])
    """
    targets = np.full((len(X), n_neighbors), -1, np.int64)
    for members in rows_by_class(labels):
        k = min(n_neighbors, len(members) - 1)
        if k > 0:
            # Rows of a class keep their order, so ties are broken the same way.
            near = others(X[members], k, None if groups is None else groups[members])
            targets[members, :k] = np.where(near >= 0, members[near], -1)
    return targets
