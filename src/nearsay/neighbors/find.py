"""Measure candidates and put them in order: the one place where neighbors become neighbors.

Whatever a backend proposes, distances come from the Distance itself, in
float64, and equal distances go by row number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nearsay.arrays import check_n_neighbors, in_parallel, row_blocks, thread_count
from nearsay.neighbors.table import NeighborTable
from nearsay.search.protocol import NeighborSearch

Batches = Iterable[tuple[Any, np.ndarray | None]]  # queries, and the row numbers they are themselves

NOBODY = np.empty(0, np.int64)
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


def leave_one_out(search: NeighborSearch, k: int, rows: np.ndarray | None = None) -> NeighborTable:
    """The ``k`` nearest *other* rows of every row (or of the ``rows`` of these numbers).

    A row is left out by its number, so its duplicates stay. A removed row has
    no neighbors: −1 and +inf.

    >>> from nearsay.search.exact import ExactSearch
    >>> search = ExactSearch().fit([[0.0], [0.0], [5.0]])
    >>> leave_one_out(search, k=1).indices.ravel()
    array([1, 0, 0])
    >>> leave_one_out(search, k=1, rows=np.array([2])).indices.ravel()
    array([0])
    """
    held = search.rows_
    k = check_n_neighbors(k, held.n_live, left_out=1)
    n_queries = len(held) if rows is None else len(rows)

    def batches() -> Batches:
        for part in row_blocks(n_queries, size=_batch(k)):
            if rows is None:
                yield held.between(part.start, part.stop), np.arange(part.start, part.stop)
            else:
                yield held.take(rows[part]), rows[part]

    table = _find(search, batches(), n_queries, k)
    if held.removed is not None:
        gone = held.removed if rows is None else held.removed[rows]
        table.indices[gone] = -1
        table.distances[gone] = np.inf
    return table


def _batch(k: int) -> int:
    """Queries searched together: enough for every thread, few enough that their candidates stay small."""
    return max(64, min(QUERIES_A_THREAD * thread_count(), (64 << 20) // (32 * (2 * k + 64))))


def _find(search: NeighborSearch, batches: Batches, n_queries: int, k: int) -> NeighborTable:
    table = NeighborTable(np.empty((n_queries, k), np.int64), np.empty((n_queries, k)))
    size = _batch(k)
    start = 0
    for Q, own in batches:
        for part in row_blocks(len(Q), size=size):
            candidates = search.candidates(Q[part], k if own is None else k + 1)
            here = slice(start, start + len(candidates))
            _order(search, Q[part], candidates, NOBODY if own is None else own[part], table[here])
            start = here.stop
    return table


def _order(search: NeighborSearch, Q: Any, candidates: np.ndarray, left_out: np.ndarray, table: NeighborTable) -> None:
    """Fill the table with the best of the candidates, in threads where there is enough to do."""
    if len(candidates) < FEW_QUERIES:
        _measure_and_order(search, Q, candidates, left_out, table)
        return

    def order(part: slice) -> None:
        _measure_and_order(search, Q[part], candidates[part], left_out[part], table[part])

    in_parallel(order, row_blocks(len(candidates), size=-(-len(candidates) // thread_count())))


def _measure_and_order(
    search: NeighborSearch, Q: Any, candidates: np.ndarray, left_out: np.ndarray, table: NeighborTable
) -> None:
    from nearsay.neighbors.order import nearest_first

    measured = np.empty(candidates.shape)
    for first, chunk in search.rows_.chunks():
        search.distance_.measure(Q, chunk, candidates, first, measured)
    nearest_first(candidates, measured, left_out, table.indices, table.distances)
