"""Measure candidates and put them in order: the one place where neighbors become neighbors.

Whatever a backend proposes, distances come from the Distance itself, in
float64, and equal distances go by row number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.arrays import check_n_neighbors, in_parallel, row_blocks, thread_count
from nearsay.neighbors.table import NeighborTable
from nearsay.search.protocol import NeighborSearch

QUERIES_A_THREAD = 1024
FEW_QUERIES = 32


def nearest(search: NeighborSearch, Q: Any, k: int) -> NeighborTable:
    """The ``k`` nearest rows of every query.

    >>> from nearsay.search.exact import ExactSearch
    >>> nearest(ExactSearch().fit([[0.0], [1.0], [5.0]]), [[4.0]], k=2).indices
    array([[2, 1]])
    """
    k = check_n_neighbors(k, search.rows_.n_live)
    Q = search.distance_.check(Q, name="Q", like=search.rows_.items)
    return _find(search, [(Q, None)], len(Q), k)


def leave_one_out(search: NeighborSearch, k: int) -> NeighborTable:
    """The ``k`` nearest *other* rows of every row; a row is left out by its number.

    A removed row has no neighbors: −1 and +inf.

    >>> from nearsay.search.exact import ExactSearch
    >>> leave_one_out(ExactSearch().fit([[0.0], [0.0], [5.0]]), k=1).indices
    array([[1],
           [0],
           [0]])
    """
    rows = search.rows_
    k = check_n_neighbors(k, rows.n_live, left_out=1)
    batches = (
        (rows.between(b.start, b.stop), np.arange(b.start, b.stop)) for b in row_blocks(len(rows), size=_batch(k))
    )
    table = _find(search, batches, len(rows), k)
    if rows.removed is not None:
        table.indices[rows.removed] = -1
        table.distances[rows.removed] = np.inf
    return table


def _batch(k: int) -> int:
    """Queries searched together: enough for every thread, few enough that their candidates stay small."""
    return max(64, min(QUERIES_A_THREAD * thread_count(), (64 << 20) // (32 * (2 * k + 64))))


def _find(search: NeighborSearch, batches: Any, n_queries: int, k: int) -> NeighborTable:
    indices = np.full((n_queries, k), -1, np.int64)
    distances = np.full((n_queries, k), np.inf)
    start = 0
    for Q, own in batches:
        for part in row_blocks(len(Q), size=_batch(k)):
            here = slice(start + part.start, start + part.stop)
            few = Q[part]
            candidates = search.candidates(few, k if own is None else k + 1)
            left_out = None if own is None else own[part]
            _order(search, few, candidates, left_out, indices[here], distances[here])
        start += len(Q)
    return NeighborTable(indices, distances)


def _order(
    search: NeighborSearch,
    Q: Any,
    candidates: np.ndarray,
    left_out: np.ndarray | None,
    indices: np.ndarray,
    distances: np.ndarray,
) -> None:
    from nearsay.neighbors.order import nearest_first

    def order(part: slice) -> None:
        proposed = candidates[part]
        measured = np.full(proposed.shape, np.inf)
        for first, chunk in search.rows_.chunks():
            search.distance_.measure(Q[part], chunk, proposed, first, measured)
        own = np.full(len(proposed), -1) if left_out is None else left_out[part]
        nearest_first(proposed, measured, own, indices[part], distances[part])

    if len(candidates) < FEW_QUERIES:
        order(slice(0, len(candidates)))
    else:
        in_parallel(order, row_blocks(len(candidates), size=-(-len(candidates) // thread_count())))
