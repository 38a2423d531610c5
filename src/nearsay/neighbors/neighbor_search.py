"""Measures candidates in float64 and orders them, ties by row number: turns candidates into neighbors.

A GPU search measures its candidates itself, with kernels that give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from nearsay.core.arrays import as_compiled_for, check_n_neighbors, check_row_numbers, row_blocks
from nearsay.core.parallel import in_parallel, shares, thread_count, threads
from nearsay.distances.vectors import Euclidean
from nearsay.neighbors import brute_force
from nearsay.neighbors.table import NeighborTable, table_of
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.protocol import NeighborSearch
from nearsay.search.row_store import HeldRows
from nearsay.search.screening.screen import BY_LOOP

NOBODY = brute_force.NOBODY
QUERIES_A_THREAD = 1024
CANDIDATES_A_THREAD = 1 << 20  # over all queries of a batch: 16 MB with their distances
# From so many queries for each thread, every thread searches and measures for its own.
QUERIES_TOGETHER = 32
# Up to so many neighbors of few queries are searched, measured and ordered in one compiled call.
FEW_NEIGHBORS = 64
FEW_CANDIDATES = 1 << 13  # measured faster than threads start


def nearest(search: NeighborSearch, Q: Any, k: int, *, input_name: str = "Q") -> NeighborTable:
    """The ``k`` nearest rows of every query; errors call the queries ``input_name``.

    >>> from nearsay.search.exact import ExactSearch
    >>> nearest(ExactSearch().fit([[0.0], [1.0], [5.0]]), [[4.0]], k=2).indices
    array([[2, 1]])
    """
    search = search.snapshot()
    k = check_n_neighbors(k, search.rows_.n_live)
    if type(search) is ExactSearch and type(Q) is np.ndarray and Q.ndim == 2 and len(Q) <= BY_LOOP:
        # Queries that it answers are valid; for others the check below raises.
        table = nearest_of_few(search, Q, k)
        return _nearest_in_batches(search, checked_queries(search, Q, input_name), k) if table is None else table
    return nearest_of_checked(search, checked_queries(search, Q, input_name), k)


def checked_queries(search: NeighborSearch, Q: Any, input_name: str = "Q") -> Any:
    """The queries as the distance needs them, or an error that says what is wrong with them."""
    if getattr(Q, "is_cuda", False):
        Q = Q.cpu()
    return search.distance_.check(Q, name=input_name, like=search.rows_.items)


def nearest_of_checked(search: NeighborSearch, Q: Any, k: int) -> NeighborTable:
    """``nearest`` for queries that were checked, and a ``k`` of at most the rows that can be found."""
    if isinstance(search, GpuSearch) and search.serves(len(Q), k):
        return _nearest_on_gpu(search, Q, NOBODY, k)
    search = _on_cpu_if_few(search, len(Q), k)
    table = nearest_of_few(search, Q, k)
    return _nearest_in_batches(search, Q, k) if table is None else table


def _nearest_in_batches(search: NeighborSearch, Q: Any, k: int) -> NeighborTable:
    """The same for more queries, or for few that ``nearest_of_few`` did not decide."""
    size = _batch(k)
    if 0 < len(Q) <= size:
        return _answer(search, Q, NOBODY, k)
    return _stacked((_answer(search, Q[part], NOBODY, k) for part in row_blocks(len(Q), size=size)), len(Q), k)


def leave_one_out(search: NeighborSearch, k: int, rows: Any = None) -> NeighborTable:
    """The ``k`` nearest *other* rows of every row (or of ``rows``: numbers, or a mask).

    A row is left out by its number, so its duplicates stay. A removed row has no neighbors: −1 and +inf.

    >>> from nearsay.search.exact import ExactSearch
    >>> search = ExactSearch().fit([[0.0], [0.0], [5.0]])
    >>> leave_one_out(search, k=1).indices.ravel()
    array([1, 0, 0])
    >>> leave_one_out(search, k=1, rows=[2]).indices.ravel()
    array([0])
    """
    search = search.snapshot()
    held = search.rows_
    k = check_n_neighbors(k, held.n_live, left_out=1)
    rows = None if rows is None else check_row_numbers(rows, len(held))
    n_queries = len(held) if rows is None else len(rows)

    if isinstance(search, GpuSearch) and search.serves(n_queries, k + 1):
        numbers = np.arange(n_queries) if rows is None else rows
        return _without_removed(_nearest_on_gpu(search, None, numbers, k), held, rows)
    search = _on_cpu_if_few(search, n_queries, k + 1)

    def answers() -> Iterator[NeighborTable]:
        for part in row_blocks(n_queries, size=_batch(k)):
            if rows is None:
                yield _answer(search, held.between(part.start, part.stop), np.arange(part.start, part.stop), k)
            else:
                yield _answer(search, held.take(rows[part]), rows[part], k)

    return _without_removed(_stacked(answers(), n_queries, k), held, rows)


def _on_cpu_if_few(search: NeighborSearch, n_queries: int, k: int) -> NeighborSearch:
    """The search, on the CPU if that is faster than the GPU: for few queries."""
    return search.on_cpu() if isinstance(search, GpuSearch) and not search.pays(n_queries, k) else search


def _without_removed(table: NeighborTable, held: HeldRows, rows: np.ndarray | None) -> NeighborTable:
    """Rows that are removed have no neighbors."""
    if held.removed is not None:
        gone = held.removed if rows is None else held.removed[rows]
        table.indices[gone] = -1
        table.distances[gone] = np.inf
    return table


def _nearest_on_gpu(search: GpuSearch, Q: Any, left_out: np.ndarray, k: int) -> NeighborTable:
    """Neighbors that a GPU finds and measures; the CPU answers what it leaves undecided.

    Without ``Q`` the rows that are left out are the queries.
    """
    indices, distances, undecided = search.nearest(Q, left_out, k)
    for part in row_blocks(len(undecided), size=_batch(k)):
        lines = undecided[part]
        few = search.rows_.take(left_out[lines]) if Q is None else Q[lines]
        again = _answer(search.on_cpu(), few, left_out[lines] if len(left_out) else left_out, k)
        indices[lines], distances[lines] = again.indices, again.distances
    return NeighborTable(indices, distances)


def _batch(k: int) -> int:
    """Queries searched together: enough for every thread, few enough that their candidates (some k of them) fit."""
    return thread_count() * max(64, min(QUERIES_A_THREAD, CANDIDATES_A_THREAD // (8 * k + 128)))


def _stacked(parts: Iterator[NeighborTable], n_queries: int, k: int) -> NeighborTable:
    table = NeighborTable(np.empty((n_queries, k), np.int64), np.empty((n_queries, k)))
    start = 0
    for part in parts:
        here = slice(start, start + len(part))
        table.indices[here], table.distances[here] = part.indices, part.distances
        start = here.stop
    return table


def _answer(search: NeighborSearch, Q: Any, left_out: np.ndarray, k: int) -> NeighborTable:
    """Search for one batch; ``left_out`` names the row that each query is itself (or is empty)."""
    Q = as_compiled_for(Q) if isinstance(Q, np.ndarray) else Q
    table = NeighborTable(np.empty((len(Q), k), np.int64), np.empty((len(Q), k)))
    if brute_force.serves(search, len(Q)):
        brute_force.fill_nearest(search, Q, left_out, (table.indices, table.distances))
        return table
    wanted = k + 1 if len(left_out) else k
    if type(search) is ExactSearch and len(Q) >= QUERIES_TOGETHER * thread_count() > QUERIES_TOGETHER:

        def find(part: slice) -> None:
            with threads(1):
                measure_and_order(search, Q[part], search.candidates(Q[part], wanted), left_out[part], table[part])

        search.prepare(len(Q))
        in_parallel(find, shares(len(Q), most=_batch(k) // thread_count()))
        return table
    candidates = search.candidates(Q, wanted)
    if candidates.size < FEW_CANDIDATES:
        measure_and_order(search, Q, candidates, left_out, table)
        return table

    def order(part: slice) -> None:
        measure_and_order(search, Q[part], candidates[part], left_out[part], table[part])

    in_parallel(order, shares(len(candidates), most=len(candidates)))
    return table


def nearest_of_few(search: NeighborSearch, Q: Any, k: int) -> NeighborTable | None:
    """The neighbors of few queries among few rows, by Euclidean distance; None if scores do not decide them.

    Queries in a matrix need not have been checked: None if one is invalid.
    """
    if type(search) is not ExactSearch or k > FEW_NEIGHBORS or not isinstance(search.distance_, Euclidean):
        return None
    n, items = len(Q), search.rows_.items
    if not n or Q.dtype != items.dtype or Q.shape[1] != items.shape[1] or brute_force.serves(search, n):
        return None
    arguments = search.products_of_few(Q)
    if arguments is None:
        return None
    fill, queries = _few_queries_kernels().nearest_of_few_queries, as_compiled_for(Q)
    indices, distances = np.empty((n, k), np.int64), np.empty((n, k))
    decided = fill(queries, *arguments, k, search.distance_.squared, indices, distances)
    return table_of(indices, distances) if decided else None


@cache
def _few_queries_kernels() -> ModuleType:
    """Imported once: an import statement per query would take as long as the loop."""
    from nearsay.neighbors import few_queries_kernels

    return few_queries_kernels


def measure_and_order(
    search: NeighborSearch, Q: Any, candidates: np.ndarray, left_out: np.ndarray, table: NeighborTable
) -> None:
    """Fill the table with the nearest of each query's candidates, without the row left out (if any are)."""
    candidates = np.ascontiguousarray(candidates)  # as loops are compiled for
    order_measured(candidates, measured(search, Q, candidates), left_out, table)


def order_measured(candidates: np.ndarray, distances: np.ndarray, left_out: np.ndarray, table: NeighborTable) -> None:
    """The same for measured candidates."""
    from nearsay.neighbors import order_kernels as kernels

    few = table.n_neighbors <= kernels.INSERT_UP_TO
    fill = kernels.nearest_first if few else kernels.many_nearest_first
    fill(candidates, distances, left_out, table.indices, table.distances)


def measured(search: NeighborSearch, Q: Any, candidates: np.ndarray) -> np.ndarray:
    """The distance of every query to its candidates; anything where a candidate is −1."""
    distances = np.empty(candidates.shape)
    for first, chunk in search.rows_.chunks():
        search.distance_.measure(Q, chunk, candidates, first, distances)
    return distances


def nearest_measured(distances: np.ndarray, k: int, then: np.ndarray | None = None) -> NeighborTable:
    """The ``k`` nearest rows of every query where all rows (queries × rows) have been measured or ranked already.

    Equal distances go by ``then``, of the same shape, where that is given, and by row number.

    >>> nearest_measured(np.array([[2.0, 1.0, 2.0, 1.0]]), k=3).indices
    array([[1, 3, 0]])
    >>> nearest_measured(np.array([[2.0, 1.0, 2.0, 1.0]]), k=3, then=np.array([[9.0, 5.0, 8.0, 4.0]])).indices
    array([[3, 1, 2]])
    """
    table = no_neighbors(len(distances), k)
    for i, line in enumerate(distances):
        near = np.flatnonzero(line <= np.partition(line, k - 1)[k - 1])
        keys = (line[near],) if then is None else (then[i, near], line[near])
        table.indices[i] = near[np.lexsort(keys)[:k]]  # keeps the order of rows among equals
        table.distances[i] = line[table.indices[i]]
    return table


def no_neighbors(n_queries: int, k: int) -> NeighborTable:
    """An empty table: −1 and +inf everywhere."""
    return NeighborTable(np.full((n_queries, k), -1, np.int64), np.full((n_queries, k), np.inf))
