"""Measure candidates and put them in order: the one place where neighbors become neighbors.

Whatever a backend proposes, distances come from the Distance itself, in
float64, and equal distances go by row number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, TypeGuard, cast

import numpy as np

from nearsay.core.arrays import SINGLE_OR_DOUBLE, check_n_neighbors, check_row_numbers, row_blocks, row_width
from nearsay.core.parallel import in_parallel, shares, thread_count, threads
from nearsay.distances.vectors import Euclidean
from nearsay.neighbors import brute_force
from nearsay.neighbors.table import NeighborTable, table_of
from nearsay.search.by_class.grouped import GroupedRows
from nearsay.search.by_class.small import OwnBlock, SmallRows, is_small
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.protocol import NeighborSearch
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds
from nearsay.search.screening.screen import BY_LOOP

NOBODY = brute_force.NOBODY
# From so many rows, or numbers in all rows, the neighbors of all are found by multiplying all of them at once.
MANY_ROWS, MANY_NUMBERS = 1000, 100_000
QUERIES_A_THREAD = 1024
CANDIDATES_A_THREAD = 1 << 20  # over all queries of a batch: 16 MB with their distances
# From so many for each thread, every thread finds and measures the neighbors of its own queries.
QUERIES_TOGETHER = 32
# Up to so many neighbors of a handful of queries are ruled out, measured and ordered in one call.
AT_A_GLANCE = 64
FEW_CANDIDATES = 1 << 13  # are measured sooner than threads start


def nearest(search: NeighborSearch, Q: Any, k: int, *, input_name: str = "Q") -> NeighborTable:
    """The ``k`` nearest rows of every query; errors call the queries ``input_name``.

    >>> from nearsay.search.exact import ExactSearch
    >>> nearest(ExactSearch().fit([[0.0], [1.0], [5.0]]), [[4.0]], k=2).indices
    array([[2, 1]])
    """
    search = search.snapshot()
    k = check_n_neighbors(k, search.rows_.n_live)
    if type(search) is ExactSearch and type(Q) is np.ndarray and Q.ndim == 2 and len(Q) <= BY_LOOP:
        # What has an answer has been checked; what is wrong with the others is said below.
        table = at_a_glance(search, Q, k)
        return _asked_at_length(search, checked_queries(search, Q, input_name), k) if table is None else table
    return nearest_of_checked(search, checked_queries(search, Q, input_name), k)


def checked_queries(search: NeighborSearch, Q: Any, input_name: str = "Q") -> Any:
    """The queries as the distance needs them, or an error that says what is wrong: the one look at every number."""
    if getattr(Q, "is_cuda", False):
        Q = Q.cpu()  # the rest is numpy's
    return search.distance_.check(Q, name=input_name, like=search.rows_.items)


def nearest_of_checked(search: NeighborSearch, Q: Any, k: int) -> NeighborTable:
    """``nearest`` for queries that were checked, and a ``k`` of at most the rows that can be found."""
    if isinstance(search, GpuSearch) and search.serves(len(Q), k):
        return _measured_there(search, Q, NOBODY, k)
    search = _asked_here(search, len(Q), k)
    table = at_a_glance(search, Q, k)
    return _asked_at_length(search, Q, k) if table is None else table


def _asked_at_length(search: NeighborSearch, Q: Any, k: int) -> NeighborTable:
    """The same for queries that are too many for a glance, or that it did not decide."""
    size = _batch(k)
    if 0 < len(Q) <= size:
        return _answer(search, Q, NOBODY, k)
    return _stacked((_answer(search, Q[part], NOBODY, k) for part in row_blocks(len(Q), size=size)), len(Q), k)


def leave_one_out(search: NeighborSearch, k: int, rows: Any = None) -> NeighborTable:
    """The ``k`` nearest *other* rows of every row (or of ``rows``: numbers, or a mask).

    A row is left out by its number, so its duplicates stay. A removed row has
    no neighbors: −1 and +inf.

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
    if rows is None and takes_all_at_once(search) and not brute_force.serves(search, len(held)):
        return _all_at_once(search, k)
    n_queries = len(held) if rows is None else len(rows)

    if isinstance(search, GpuSearch) and search.serves(n_queries, k + 1):
        numbers = np.arange(n_queries) if rows is None else rows
        return _without_removed(_measured_there(search, None, numbers, k), held, rows)
    search = _asked_here(search, n_queries, k + 1)

    def answers() -> Iterator[NeighborTable]:
        for part in row_blocks(n_queries, size=_batch(k)):
            if rows is None:
                yield _answer(search, held.between(part.start, part.stop), np.arange(part.start, part.stop), k)
            else:
                yield _answer(search, held.take(rows[part]), rows[part], k)

    return _without_removed(_stacked(answers(), n_queries, k), held, rows)


def _asked_here(search: NeighborSearch, n_queries: int, k: int) -> NeighborSearch:
    """The search, without the card where that is not worth the trip: there are shorter ways for few queries."""
    return search.on_cpu() if isinstance(search, GpuSearch) and not search.pays(n_queries, k) else search


def _without_removed(table: NeighborTable, held: HeldRows, rows: np.ndarray | None) -> NeighborTable:
    """Rows that are removed have no neighbors."""
    if held.removed is not None:
        gone = held.removed if rows is None else held.removed[rows]
        table.indices[gone] = -1
        table.distances[gone] = np.inf
    return table


def _measured_there(search: GpuSearch, Q: Any, left_out: np.ndarray, k: int) -> NeighborTable:
    """Neighbors that a graphics card finds and measures, as the distance itself would; the CPU answers the rest.

    Without ``Q`` the rows that are left out are the queries.
    """
    indices, distances, undecided = search.nearest(Q, left_out, k)
    for part in row_blocks(len(undecided), size=_batch(k)):
        lines = undecided[part]
        few = search.rows_.take(left_out[lines]) if Q is None else Q[lines]
        again = _answer(search.on_cpu(), few, left_out[lines] if len(left_out) else left_out, k)
        indices[lines], distances[lines] = again.indices, again.distances
    return NeighborTable(indices, distances)


def takes_all_at_once(search: NeighborSearch) -> bool:
    """Whether the products of all rows with each other are the fastest way to find the neighbors of all.

    Each pair is multiplied once. From 1,200 rows on, that takes 0.4 to 1 times as long as a search for every row, and
    of wide rows (256 columns) from 400 rows on; with fewer it takes up to 1.8 times as long.
    """
    held = search.rows_
    if not isinstance(search, ExactSearch) or search.products != "auto" or not is_small(search.distance_, held):
        return False
    return len(held) >= MANY_ROWS or len(held) * row_width(held.items) >= MANY_NUMBERS


def _all_at_once(search: NeighborSearch, k: int) -> NeighborTable:
    held = search.rows_
    small = SmallRows(GroupedRows(search.distance_, held, np.zeros(len(held), np.int64)), n_classes=1)
    table = no_neighbors(len(held), k)

    def fill(block: Callable[[], OwnBlock]) -> None:
        numbers, queries = block()
        Q = held.take(numbers)
        candidates, crowded = small.nearest(queries, k)
        few = no_neighbors(len(Q), k)
        measure_and_order(search, Q, candidates, NOBODY, few)
        table.indices[numbers], table.distances[numbers] = few.indices, few.distances
        if crowded.any():
            again = _answer(search, Q[crowded], numbers[crowded], k)
            table.indices[numbers[crowded]], table.distances[numbers[crowded]] = again.indices, again.distances

    in_parallel(fill, small.times_others())
    return table


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
    Q = as_compiled_for(Q)
    table = NeighborTable(np.empty((len(Q), k), np.int64), np.empty((len(Q), k)))
    if brute_force.serves(search, len(Q)):
        brute_force.fill_nearest(search, Q, left_out, (table.indices, table.distances))
        return table
    wanted = k + 1 if len(left_out) else k
    ask, narrowed_to = search.candidates, None
    if _narrows(search, Q):
        ask, narrowed_to = search.wide_candidates, wanted
    if type(search) is ExactSearch and len(Q) >= QUERIES_TOGETHER * thread_count() > QUERIES_TOGETHER:

        def find(part: slice) -> None:
            with threads(1):
                measure_and_order(search, Q[part], ask(Q[part], wanted), left_out[part], table[part], narrowed_to)

        search.prepare(len(Q))
        in_parallel(find, shares(len(Q), most=_batch(k) // thread_count()))
        return table
    candidates = ask(Q, wanted)
    if candidates.size < FEW_CANDIDATES:
        measure_and_order(search, Q, candidates, left_out, table, narrowed_to)
        return table

    def order(part: slice) -> None:
        measure_and_order(search, Q[part], candidates[part], left_out[part], table[part], narrowed_to)

    in_parallel(order, shares(len(candidates), most=len(candidates)))
    return table


def as_compiled_for(Q: Any) -> Any:
    """Queries row by row, in memory that could be written to: loops are compiled once for each kind of memory."""
    if isinstance(Q, np.ndarray) and not (Q.flags.c_contiguous and Q.flags.writeable):
        return Q.copy()
    return Q


def at_a_glance(search: NeighborSearch, Q: Any, k: int) -> NeighborTable | None:
    """The neighbors of a handful of queries among few rows, by Euclidean distance; None where that is not enough.

    Queries in a matrix need not have been checked: there is no answer to those with which anything is wrong.
    """
    if type(search) is not ExactSearch or k > AT_A_GLANCE or not isinstance(search.distance_, Euclidean):
        return None
    n, items = len(Q), search.rows_.items
    if not n or Q.dtype != items.dtype or Q.shape[1] != items.shape[1] or brute_force.serves(search, n):
        return None
    seen = search.glance(Q)
    if seen is None:
        return None
    fill, queries = _glance_kernels().nearest_at_a_glance, as_compiled_for(Q)
    indices, distances = np.empty((n, k), np.int64), np.empty((n, k))
    found = fill(queries, *seen, k, search.distance_.squared, indices, distances)
    return table_of(indices, distances) if found else None


@cache
def _glance_kernels() -> ModuleType:
    """Imported once: looking it up for each query would take as long as the loop."""
    from nearsay.neighbors import glance_kernels

    return glance_kernels


def _narrows(search: NeighborSearch, Q: Any) -> TypeGuard[ExactSearch]:
    """Whether candidates are narrowed down where they are measured: by quick sums of squares."""
    if type(search) is not ExactSearch or not isinstance(search.distance_, Euclidean):
        return False
    items = search.rows_.items
    return items.dtype.char in SINGLE_OR_DOUBLE and Q.dtype == items.dtype and len(search.rows_.chunks()) == 1


def measure_and_order(
    search: NeighborSearch,
    Q: Any,
    candidates: np.ndarray,
    left_out: np.ndarray,
    table: NeighborTable,
    narrowed_to: int | None = None,
) -> None:
    """Fill the table with the nearest of each query's candidates, without the row left out (if any are).

    Candidates that cannot be among the ``narrowed_to`` nearest, if that is given, are not measured.
    """
    candidates = np.ascontiguousarray(candidates)  # as loops are compiled for
    if narrowed_to is None or candidates.shape[1] <= narrowed_to:
        order_measured(candidates, measured(search, Q, candidates), left_out, table)
        return
    from nearsay.neighbors.narrowed_kernels import narrow_and_measure

    distances, items = np.empty(candidates.shape), search.rows_.items
    bound, squared = bounds.squaring(Q.shape[1], Q.dtype), cast(Euclidean, search.distance_).squared
    narrow_and_measure(np.ascontiguousarray(Q), items, candidates, narrowed_to, bound, squared, distances)
    order_measured(candidates, distances, left_out, table)


def order_measured(candidates: np.ndarray, distances: np.ndarray, left_out: np.ndarray, table: NeighborTable) -> None:
    """The same for candidates that have been measured."""
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
    """A table to be filled in: −1 and +inf everywhere."""
    return NeighborTable(np.full((n_queries, k), -1, np.int64), np.full((n_queries, k), np.inf))
