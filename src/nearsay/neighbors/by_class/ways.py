"""The ways of a search by class on the CPU: each fills in the nearest rows, and the nearest members of each class.

``plan.py`` chooses among them; all give the same rows and distances, to the last bit.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.core.parallel import in_parallel, shares
from nearsay.neighbors import brute_force, neighbor_search
from nearsay.neighbors.by_class.class_means import means_of_nearest
from nearsay.neighbors.by_class.class_table import ClassTable, no_members
from nearsay.neighbors.by_class.grouped_rows import GroupedRows
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.by_class.small_rows import SmallRows
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses, classes_in_order
from nearsay.neighbors.living.query_scan import QueryScan
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.search.protocol import NeighborSearch

QUERIES_MEASURED, ROWS_MEASURED = 64, 1024
# Scores of so many queries are held at once: more do not make the products faster.
QUERIES_SCANNED = 8
NONE_REMOVED = np.empty(0, np.bool_)


class SearchWay(Protocol):
    """One way to search by class."""

    def search(self, queries: Queries, k: int, members: tuple[int, ...]) -> NeighborTable:
        """The ``k`` nearest rows, all classes in order, and the means of so many members."""
        ...


class MemberWay:
    """A way that finds the nearest members of each class, and puts the classes in order by them."""

    member_bytes = 64 << 20  # for the nearest of each class, and their distances, before the classes are put in order

    def __init__(self, search: NeighborSearch, labels: np.ndarray, n_classes: int) -> None:
        self.rows, self.labels, self.n_classes = search, labels, n_classes

    def fill(self, queries: Queries, table: NeighborTable, members: ClassTable) -> None:
        """Fill in the nearest rows, and the nearest members of each class; the tables come empty."""
        raise NotImplementedError

    def search(self, queries: Queries, k: int, members: tuple[int, ...]) -> NeighborTable:
        n_members = max(members, default=1)
        table = neighbor_search.no_neighbors(queries.n, k)
        classes = NearestClasses.to_fill(queries.n, self.n_classes, members)
        size = rows_within(self.member_bytes, 16 * (n_members + 1) * self.n_classes, most=max(1, queries.n))
        for part in row_blocks(queries.n, size=size):
            of_each = no_members(part.stop - part.start, self.n_classes, n_members)
            self.fill(queries[part], table[part], of_each)
            of_each.put_in_order(classes[part])
        return NeighborTable(table.indices, table.distances, classes)


class NumpyWay(MemberWay):
    """Measures every row in numpy, for little work in a process that has compiled nothing."""

    def fill(self, queries: Queries, table: NeighborTable, members: ClassTable) -> None:
        to_fill = (table.indices, table.distances), (members.indices, members.distances)
        brute_force.fill_classes(self.rows, self.labels, queries.items, queries.left_out, *to_fill)


class BruteForce(MemberWay):
    """Measures every row."""

    def fill(self, queries: Queries, table: NeighborTable, members: ClassTable) -> None:
        def fill_part(part: slice) -> None:
            self._measure(queries.take(part), queries[part].left_out, table[part], members[part])

        in_parallel(fill_part, shares(queries.n, most=self.rows.rows_.block_size(QUERIES_MEASURED)))

    def fill_lines(self, queries: Queries, lines: np.ndarray, table: NeighborTable, members: ClassTable) -> None:
        """The same for some lines of the tables: those of queries that scores could not decide."""
        for part in row_blocks(len(lines), size=QUERIES_MEASURED):
            few = queries[lines[part]]
            rows = neighbor_search.no_neighbors(few.n, table.n_neighbors)
            of_each = no_members(few.n, *members.indices.shape[1:])
            self._measure(few.items, few.left_out, rows, of_each)
            table.indices[lines[part]], table.distances[lines[part]] = rows.indices, rows.distances
            members.indices[lines[part]], members.distances[lines[part]] = of_each.indices, of_each.distances

    def _measure(self, Q: Any, left_out: np.ndarray, table: NeighborTable, members: ClassTable) -> None:
        from nearsay.neighbors.order_kernels import insert_block

        held = self.rows.rows_
        removed = NONE_REMOVED if held.removed is None else held.removed
        nearest, of_each = (table.indices, table.distances), (members.indices, members.distances)
        for first, block in held.blocks(held.block_size(ROWS_MEASURED)):
            distances = self.rows.distance_.block(Q, block, first)
            insert_block(distances, first, self.labels, removed, left_out, nearest, of_each)


class BlockProducts(MemberWay):
    """Products with blocks of rows, in order of their classes, rule most rows out; the others are measured."""

    def __init__(self, search: NeighborSearch, labels: np.ndarray, n_classes: int, grouped: GroupedRows) -> None:
        super().__init__(search, labels, n_classes)
        self._grouped, self._brute_force = grouped, BruteForce(search, labels, n_classes)

    def fill(self, queries: Queries, table: NeighborTable, members: ClassTable) -> None:
        n_members = members.indices.shape[2]
        fill_part, at_once = self._fill_nearest, self._grouped.queries_by_class
        if n_members > 1:
            fill_part, at_once = self._fill_members, self._grouped.queries_at_once(table.n_neighbors, n_members)
        in_parallel(lambda part: fill_part(queries[part], table[part], members[part]), shares(queries.n, most=at_once))

    def _fill_nearest(self, queries: Queries, table: NeighborTable, members: ClassTable) -> None:
        """One member of each class: candidates are measured block by block, while their rows are in the cache."""
        from nearsay.neighbors.order_kernels import nearest_of_classes

        shape, Q, grouped = members.indices.shape[:2], queries.items, self._grouped
        indices, distances = members.indices.reshape(shape), members.distances.reshape(shape)

        def measure(lines: np.ndarray, places: slice, candidates: np.ndarray) -> None:
            far = np.empty(candidates.shape)
            some = Q if len(lines) == len(Q) else Q[lines]
            self.rows.distance_.measure(some, grouped.rows_at(places), candidates, 0, far)
            rows = grouped.order[places], grouped.labels[places]
            nearest_of_classes(lines, candidates, far, *rows, indices, distances)

        nearest, undecided = grouped.nearest_of_classes(Q, queries.left_out, table.n_neighbors, measure)
        if table.n_neighbors:
            neighbor_search.measure_and_order(self.rows, Q, nearest, neighbor_search.NOBODY, table)
        self._brute_force.fill_lines(queries, undecided, table, members)

    def _fill_members(self, queries: Queries, table: NeighborTable, members: ClassTable) -> None:
        """Several members of each class: all candidates on one list."""
        from nearsay.neighbors.order_kernels import nearest_of_each_class

        Q = queries.items
        candidates = self._grouped.candidates(Q, queries.left_out, table.n_neighbors, members.indices.shape[2])
        if table.n_neighbors:
            neighbor_search.measure_and_order(self.rows, Q, candidates.nearest, neighbor_search.NOBODY, table)
        measured = neighbor_search.measured(self.rows, Q, candidates.members)
        nearest_of_each_class(candidates.members, measured, self.labels, members.indices, members.distances)
        self._brute_force.fill_lines(queries, candidates.undecided, table, members)


class SmallProducts:
    """All products of a small collection at hand: of classes whose order scores decide, no row is measured."""

    def __init__(self, search: NeighborSearch, labels: np.ndarray, n_classes: int, grouped: GroupedRows) -> None:
        self._search, self._labels = search, labels
        self._rows, self._brute_force = SmallRows(grouped, n_classes), BruteForce(search, labels, n_classes)

    def search(self, queries: Queries, k: int, members: tuple[int, ...]) -> NeighborTable:
        nearest = neighbor_search.no_neighbors(queries.n, k)
        classes = NearestClasses.to_fill(queries.n, self._rows.n_classes, members)
        table = NeighborTable(nearest.indices, nearest.distances, classes)
        in_parallel(lambda part: self._fill(queries[part], table[part]), shares(queries.n, most=self._rows.block_size))
        return table

    def _fill(self, queries: Queries, table: NeighborTable) -> None:
        from nearsay.neighbors.order_kernels import settle_classes

        Q, k, classes = queries.items, table.n_neighbors, table.classes
        assert classes is not None
        products = self._rows.times(Q, queries.left_out)
        undecided = np.zeros(queries.n, np.bool_)
        if k:
            candidates, undecided = self._rows.nearest(products, k)
            neighbor_search.measure_and_order(self._search, Q, candidates, neighbor_search.NOBODY, table)
        by_score = self._rows.classes(products, max(classes.members, default=0), MEMBERS_OF_NEAREST)
        measured = neighbor_search.measured(self._search, Q, by_score.members)
        members = np.array(classes.members, np.int64)
        arrays = classes.arrays[:3]
        settle_classes(by_score.numbers, by_score.members, measured, self._labels, members, *arrays)
        lines = np.flatnonzero(undecided | by_score.full)
        for part in row_blocks(len(lines), size=QUERIES_MEASURED):
            again = self._brute_force.search(queries[lines[part]], k, classes.members)
            assert again.classes is not None
            table.indices[lines[part]], table.distances[lines[part]] = again.indices, again.distances
            classes[lines[part]] = again.classes


class Scan:
    """Rough scores of all rows, query by query, say which rows to measure: nothing has to be prepared."""

    def __init__(self, search: NeighborSearch, labels: np.ndarray, n_classes: int) -> None:
        self._search, self._labels, self._n_classes = search, labels, n_classes

    def search(self, queries: Queries, k: int, members: tuple[int, ...]) -> NeighborTable:
        def some(part: slice) -> NeighborTable:
            few = queries[part]
            scans = QueryScan.each(self._search, few.items)
            for scan, row in zip(scans, few.left_out, strict=False):
                scan.leave_out(int(row))
            return self._table(scans, k, members)

        if queries.n <= QUERIES_SCANNED:
            return some(slice(0, queries.n))
        return joined(in_parallel(some, row_blocks(queries.n, size=QUERIES_SCANNED)))

    def _table(self, scans: list[QueryScan], k: int, members: tuple[int, ...]) -> NeighborTable:
        n = len(scans)
        table, nearest = neighbor_search.no_neighbors(n, k), no_members(n, self._n_classes, 1)
        for q, scan in enumerate(scans):
            line = slice(q, q + 1)
            scan.nearest_of_classes(self._labels, table[line], nearest.indices[line], nearest.distances[line])
        classes = NearestClasses.to_fill(n, self._n_classes, members)
        far = classes.nearest if members else np.empty((n, self._n_classes))
        classes_in_order(nearest.indices[:, :, 0], nearest.distances[:, :, 0], classes.numbers, far)
        if members == (1,):
            classes.means[:, :, 0] = classes.nearest[:, : classes.means.shape[1]]
        elif members:
            near = classes.numbers[:, : classes.means.shape[1]]
            for q, scan in enumerate(scans):
                listed = near[q] >= 0
                of_members = scan.members(self._labels, near[q, listed], members[-1], self._n_classes)
                classes.means[q, listed] = means_of_nearest(of_members, np.array(members))
        return NeighborTable(table.indices, table.distances, classes)
