"""Nearest rows and classes of a few queries by looking at every row: for a collection that has just changed.

    rough scores (queries × rows) ──► what may be nearest, of all or of a class ──► measured ──► classes in order
                                  └─► what may be among more members of the nearest classes ──► measured

``LabeledNeighbors`` groups the rows by class before it answers, which pays for many
queries. Where labels change between two of them, this asks for nothing to be
prepared. Where a distance has no rough scores, every row is measured. The answers
are the same, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.class_means import means_of_nearest
from nearsay.neighbors.by_class.class_table import no_members
from nearsay.neighbors.by_class.labeled import LIST_ALL_UP_TO
from nearsay.neighbors.class_order import NearestClasses, classes_in_order
from nearsay.neighbors.living.query_scan import QueryScan, screens
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.search.protocol import NeighborSearch

# Queries that are answered so, at most. Of 100,000×128 rows in 100 classes, 64 take as long as with rows that are
# grouped already (148 and 151 ms of a processor), 16 half as long (39 and 78); grouping them takes 900 ms.
FEW_QUERIES = 64
# Scores of so many queries are held at once: more do not make the products quicker.
QUERIES_AT_ONCE = 8


def serves(search: NeighborSearch, n_queries: int, n_classes: int) -> bool:
    """Whether few queries are asked, of classes that can all be listed."""
    exact = search.exact and len(search.rows_) > 0
    most = FEW_QUERIES if screens(search) else QUERIES_AT_ONCE
    return exact and 0 < n_queries <= most and n_classes <= LIST_ALL_UP_TO


def scanned(
    search: NeighborSearch, labels: np.ndarray, n_classes: int, Q: Any, k: int, members: tuple[int, ...] | None
) -> NeighborTable:
    """What ``LabeledNeighbors.query`` gives, for checked queries.

    >>> from nearsay.neighbors.index import NeighborIndex
    >>> index = NeighborIndex().fit([[0.0], [1.0], [5.0]])
    >>> table = scanned(index.search_, np.array([0, 0, 1]), 2, np.array([[4.0]]), k=2, members=(1, 2))
    >>> table.indices, table.classes.means[0]
    (array([[2, 1]]), array([[1. , 1. ],
           [3. , 3.5]]))
    """
    return _by_parts(lambda part: _seen(QueryScan.each(search, Q[part]), labels, n_classes, k, members), len(Q))


def scanned_others(
    search: NeighborSearch,
    labels: np.ndarray,
    n_classes: int,
    rows: np.ndarray,
    k: int,
    members: tuple[int, ...] | None,
) -> NeighborTable:
    """What ``LabeledNeighbors.leave_one_out`` gives, for rows that are there.

    >>> from nearsay.neighbors.index import NeighborIndex
    >>> search = NeighborIndex().fit([[0.0], [0.0], [5.0]]).search_
    >>> scanned_others(search, np.zeros(3, np.int64), 1, np.array([2, 0]), 1, None).indices.ravel()
    array([0, 1])
    """

    def some(part: slice) -> NeighborTable:
        looks = QueryScan.each(search, search.rows_.take(rows[part]))
        for look, row in zip(looks, rows[part], strict=True):
            look.leave_out(row)
        return _seen(looks, labels, n_classes, k, members)

    return _by_parts(some, len(rows))


def _seen(
    looks: list[QueryScan], labels: np.ndarray, n_classes: int, k: int, members: tuple[int, ...] | None
) -> NeighborTable:
    """The nearest rows of each look, and classes where they are asked for."""
    if members is None:
        return joined([look.nearest(k) for look in looks])
    n = len(looks)
    table, nearest = neighbor_search.no_neighbors(n, k), no_members(n, n_classes, 1)
    for q, look in enumerate(looks):
        line = slice(q, q + 1)
        look.nearest_of_classes(labels, table[line], nearest.indices[line], nearest.distances[line])
    classes = NearestClasses.to_fill(n, n_classes, members)
    far = classes.nearest if members else np.empty((n, n_classes))
    classes_in_order(nearest.indices[:, :, 0], nearest.distances[:, :, 0], classes.numbers, far)
    if members:
        near = classes.numbers[:, : classes.means.shape[1]]
        for q, look in enumerate(looks):
            there = near[q] >= 0
            of_members = look.members(labels, near[q, there], members[-1], n_classes)
            classes.means[q, there] = means_of_nearest(of_members, np.array(members))
    return NeighborTable(table.indices, table.distances, classes)


def _by_parts(some: Callable[[slice], NeighborTable], n_queries: int) -> NeighborTable:
    if n_queries <= QUERIES_AT_ONCE:
        return some(slice(0, n_queries))
    return joined(in_parallel(some, row_blocks(n_queries, size=QUERIES_AT_ONCE)))
