"""The nearest rows of other groups: a longer list of neighbors, without those of the query's own group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable


def nearest_of_other_groups(
    nearest: Callable[[int, np.ndarray], NeighborTable], of_queries: np.ndarray, groups: np.ndarray, k: int
) -> NeighborTable:
    """The ``k`` nearest rows that are not of the query's own group; −1 and +inf where there are fewer.

    nearest : function of (how many, numbers of queries), gives their nearest rows, as many as that or all there are.
    of_queries : (n_queries,) the group of each query.
    groups : (n_rows,) the group of each row that can be a neighbor, as numbers from 0.

    >>> from nearsay.neighbors.index import NeighborIndex
    >>> index = NeighborIndex().fit([[0.0], [1.0], [5.0]])
    >>> groups = np.array([0, 0, 1])
    >>> nearest_of_other_groups(lambda k, rows: index.leave_one_out(min(k, 2), rows=rows), groups, groups, 2).indices
    array([[ 2, -1],
           [ 2, -1],
           [ 1,  0]])
    """
    sizes = np.bincount(groups, minlength=int(of_queries.max(initial=-1)) + 1)[of_queries]
    indices, distances = np.full((len(of_queries), k), -1), np.full((len(of_queries), k), np.inf)
    # Large groups take longer lists; those of small ones stay short.
    by_size = np.argsort(sizes, kind="stable")
    for part in row_blocks(len(of_queries), row_bytes=32 * (k + int(sizes.max(initial=0)))):
        queries = by_size[part]
        table = nearest(k + int(sizes[queries].max()), queries)
        left = table.without((table.indices < 0) | (groups[table.indices] == of_queries[queries, None]), k)
        indices[queries, : left.n_neighbors], distances[queries, : left.n_neighbors] = left.indices, left.distances
    return NeighborTable(indices, distances)


def left_out(search: Any, k: int, rows: np.ndarray, groups: np.ndarray | None = None) -> NeighborTable:
    """The ``k`` nearest other rows of these rows, none of their groups.

    ``search`` is anything with ``leave_one_out(k, rows=…)``; without groups it is asked as it is.
    """
    if groups is None:
        return search.leave_one_out(k, rows=rows)
    most = len(groups) - 1
    return nearest_of_other_groups(
        lambda n, some: search.leave_one_out(min(n, most), rows=rows[some]), groups[rows], groups, k
    )


def others(X: np.ndarray, k: int, groups: np.ndarray | None = None) -> np.ndarray:
    """Numbers of the ``k`` nearest other rows of every row, none of its own group; −1 where there are fewer."""
    return left_out(NeighborIndex().fit(X), min(k, len(X) - 1), np.arange(len(X)), groups).indices


def nearest_among(
    X: np.ndarray, Q: np.ndarray, k: int, of_queries: np.ndarray | None = None, groups: np.ndarray | None = None
) -> np.ndarray:
    """Numbers of the ``k`` nearest rows of X for every query, none of its group; −1 where there are fewer."""
    index, k = NeighborIndex().fit(X), min(k, len(X))
    if of_queries is None or groups is None:
        return index.query(Q, k).indices
    return nearest_of_other_groups(
        lambda n, queries: index.query(Q[queries], min(n, len(X))), of_queries, groups, k
    ).indices
