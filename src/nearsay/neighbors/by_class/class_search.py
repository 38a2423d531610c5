"""The search for the nearest rows *and* the nearest members of each class, whichever way that takes least.

    queries ──► few rows: all products at once (``small_collections.py``) ───┐
            ──► a distance with products: block by block of rows ────────────┼─► rows, classes in order ──► means
            ──► any other distance: every row is measured ───────────────────┘                  (``class_means.py``)

All ways find the same rows in the same order; ``labeled.py`` checks what is asked, and asks here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.core.parallel import in_parallel, shares
from nearsay.neighbors import brute_force, neighbor_search
from nearsay.neighbors.by_class.class_means import Items, RowsByClass, fill_means
from nearsay.neighbors.by_class.class_table import ClassTable, no_members
from nearsay.neighbors.by_class.classes_from_gpu import ClassesOnCard
from nearsay.neighbors.by_class.small_collections import QUERIES_SCANNED, AllAtOnce
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.search.by_class.grouped import GroupedRows
from nearsay.search.by_class.small import MOST_CLASSES, SmallRows, is_small
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.protocol import NeighborSearch

# The nearest of each class, and how far they are, take so much memory at once while the classes are put in order.
MEMBER_BYTES = 64 << 20

# So many members of each class are found together with the rows, where members times rows of a class, or members times
# queries, are no more than this: twice as fast with 160 rows a class as a second look at the nearest classes, as fast
# with 1,000 rows and 4 members, and two to five times as fast for one query.
MEMBERS_WITH_ROWS, MEMBERS_TIMES_ROWS, MEMBERS_TIMES_QUERIES = 16, 5000, 128
# Up to so many queries, and queries times classes, all candidates go on one list, and are not measured block by block
# of rows: that takes 0.75 to 0.8 times as long for one query, and as long for 16 queries in 100 classes, 4 in 1,000.
FEW_QUERIES, QUERIES_TIMES_CLASSES = 16, 4096
# With more rows a class, the nearest of each of a few classes takes less time with all products at once: 0.8 times as
# long with 1,000, but 1.3 times as long with 250.
ROWS_OF_CLASS_AT_ONCE = 512

NONE_REMOVED = np.empty(0, np.bool_)
ROWS_SCANNED = 1024

Queries = Callable[[slice], Any]


class ClassSearch:
    """The rows of a search, of which each has a class; all classes are listed."""

    def __init__(self, search: NeighborSearch, labels: np.ndarray, n_classes: int) -> None:
        self.search = search
        self.labels = labels
        self.n_classes = n_classes

    # ------------------------------------------------------------ the nearest rows, and all classes in order

    def of_queries(self, Q: Any, k: int, members: tuple[int, ...]) -> NeighborTable:
        """The ``k`` nearest rows of checked queries (no more than there are), and all classes."""
        if self._on_card(len(Q), k):
            there = self._card.table(
                Q,
                neighbor_search.NOBODY,
                k,
                members,
                lambda lines, told: self._on_processor.of_queries(Q[lines], k, told),
            )
            if there is not None:
                return there
        found = self._found_with_rows(members, len(Q))
        if self._goes_all_at_once(found, len(Q)):
            table = self._at_once.nearest(Q, k, found)
        else:
            table = self._all_classes(Q.__getitem__, len(Q), neighbor_search.NOBODY, k, found)
        return self._with_means(table, members, lambda lines: _items(Q, lines), neighbor_search.NOBODY)

    def of_rows(self, rows: np.ndarray | None, k: int, members: tuple[int, ...]) -> NeighborTable:
        """The same for all rows, or those of these numbers, and the other rows."""
        held = self.search.rows_
        numbers = np.arange(len(held)) if rows is None else rows
        if self._on_card(len(numbers), k):
            there = self._card.table(
                None, numbers, k, members, lambda lines, told: self._on_processor.of_rows(numbers[lines], k, told)
            )
            if there is not None:
                return there
        found = self._found_with_rows(members, len(numbers))
        if self._goes_all_at_once(found, len(numbers)):
            table = self._at_once.others(k, found) if rows is None else self._some_others(rows, k, found)
        else:
            table = self._all_classes(self._rows_in(rows), len(numbers), numbers, k, found)
        return self._with_means(table, members, lambda lines: held.take(numbers[lines]), numbers)

    def _all_classes(
        self, queries: Queries, n_queries: int, left_out: np.ndarray, k: int, members: tuple[int, ...]
    ) -> NeighborTable:
        """The nearest rows, and all classes in order; their nearest members are held for some queries at a time."""
        n_members = max(members, default=1)
        table = neighbor_search.no_neighbors(n_queries, k)
        classes = NearestClasses.to_fill(n_queries, self.n_classes, members)
        size = rows_within(MEMBER_BYTES, 16 * (n_members + 1) * self.n_classes, most=max(1, n_queries))
        for part in row_blocks(n_queries, size=size):
            some, found = self._find(
                _counted_from(part.start, queries), part.stop - part.start, left_out[part], k, n_members
            )
            table.indices[part], table.distances[part] = some.indices, some.distances
            found.put_in_order(classes[part])
        return NeighborTable(table.indices, table.distances, classes)

    def _found_with_rows(self, members: tuple[int, ...], n_queries: int) -> tuple[int, ...]:
        """The members that are found together with the rows: those asked for, or one where a second look costs less."""
        most = max(members, default=1)
        if most == 1:
            return members
        few = most * n_queries <= MEMBERS_TIMES_QUERIES or (
            most <= MEMBERS_WITH_ROWS and most * len(self.labels) <= MEMBERS_TIMES_ROWS * self.n_classes
        )
        one_pass = self.n_classes <= MEMBERS_OF_NEAREST or self._goes_all_at_once(members, n_queries)
        return members if few and one_pass and not brute_force.serves(self.search, n_queries) else (1,)

    def _with_means(
        self, table: NeighborTable, members: tuple[int, ...], items: Items, left_out: np.ndarray
    ) -> NeighborTable:
        """The table, with the mean distances of so many nearest members."""
        known = table.classes
        assert known is not None
        if known.members == members:
            return table
        means = np.full((*known.means.shape[:2], len(members)), np.inf)
        classes = NearestClasses(known.numbers, known.nearest, means, known.beyond, members)
        fill_means(self.search, self._rows_by_class, items, left_out, classes)
        return NeighborTable(table.indices, table.distances, classes)

    # ------------------------------------------------------------ the nearest members of each class

    def members_of_queries(self, Q: Any, n_members: int) -> ClassTable:
        """The nearest members of each class for checked queries."""
        return self._find(Q.__getitem__, len(Q), neighbor_search.NOBODY, 0, n_members)[1]

    def members_of_rows(self, n_members: int) -> ClassTable:
        """The same for all rows, and the other rows."""
        numbers = np.arange(len(self.search.rows_))
        return self._find(self._rows_in(None), len(numbers), numbers, 0, n_members)[1]

    # ------------------------------------------------------------ one pass for both

    def rows_and_members(self, Q: Any, left_out: np.ndarray, k: int) -> tuple[NeighborTable, ClassTable]:
        """The ``k`` nearest rows of checked queries, and the nearest of each class.

        ``left_out`` numbers the row that each query is itself, or is empty.
        """
        return self._find(Q.__getitem__, len(Q), left_out, k, 1)

    def _find(
        self, queries: Queries, n_queries: int, left_out: np.ndarray, k: int, n_members: int
    ) -> tuple[NeighborTable, ClassTable]:
        """The ``k`` nearest rows, and the nearest members of each class."""
        table, members = neighbor_search.no_neighbors(n_queries, k), no_members(n_queries, self.n_classes, n_members)

        few = n_queries <= FEW_QUERIES and n_queries * self.n_classes <= QUERIES_TIMES_CLASSES
        by_block = n_members == 1 and not few

        def fill(part: slice) -> None:
            asked = queries(part), left_out[part], table[part], members[part]
            if not self._by_product:
                self._scan(*asked)
            elif by_block:
                self._nearest_by_product(*asked)
            else:
                self._members_by_product(*asked)

        held = self.search.rows_
        undecided = None
        if n_members == 1 and not len(left_out) and self._on_card(n_queries, k):
            Q = queries(slice(0, n_queries))
            undecided = self._card.fill_nearest(Q, table, members)
        if undecided is not None:
            self._scan_undecided(Q, neighbor_search.NOBODY, undecided, table, members)
        elif brute_force.serves(self.search, n_queries):
            found = (table.indices, table.distances), (members.indices, members.distances)
            brute_force.fill_classes(self.search, self.labels, queries(slice(0, n_queries)), left_out, *found)
        else:
            at_once = held.block_size(QUERIES_SCANNED)
            if self._by_product:
                rows = self._grouped
                at_once = rows.queries_by_class if by_block else rows.queries_at_once(k, n_members)
            in_parallel(fill, shares(n_queries, most=at_once))
        if held.removed is not None and len(left_out):
            gone = held.removed[left_out]
            table.indices[gone], table.distances[gone] = -1, np.inf
            members.indices[gone], members.distances[gone] = -1, np.inf
        return table, members

    def _on_card(self, n_queries: int, k: int) -> bool:
        """Whether a graphics card finds the nearest of each class."""
        return isinstance(self.search, GpuSearch) and self._card.serves(n_queries, k)

    @cached_property
    def _card(self) -> ClassesOnCard:
        assert isinstance(self.search, GpuSearch)
        return ClassesOnCard(self.search, self.labels, self.n_classes)

    @cached_property
    def _on_processor(self) -> ClassSearch:
        """The same rows, for what a card leaves open."""
        assert isinstance(self.search, GpuSearch)
        return ClassSearch(self.search.on_cpu(), self.labels, self.n_classes)

    def _nearest_by_product(
        self, Q: np.ndarray, left_out: np.ndarray, table: NeighborTable, members: ClassTable
    ) -> None:
        """Measure what may be the nearest of all or of a class, and every row for the queries that are undecided."""
        from nearsay.neighbors.order_kernels import nearest_of_classes

        shape = members.indices.shape[:2]
        indices, distances = members.indices.reshape(shape), members.distances.reshape(shape)

        grouped = self._grouped

        def see(lines: np.ndarray, places: slice, candidates: np.ndarray) -> None:
            far = np.empty(candidates.shape)
            asked = Q if len(lines) == len(Q) else Q[lines]
            self.search.distance_.measure(asked, grouped.rows_at(places), candidates, 0, far)
            rows = grouped.order[places], grouped.labels[places]
            nearest_of_classes(lines, candidates, far, *rows, indices, distances)

        nearest, undecided = grouped.nearest_of_classes(Q, left_out, table.n_neighbors, see)
        if table.n_neighbors:
            neighbor_search.measure_and_order(self.search, Q, nearest, neighbor_search.NOBODY, table)
        self._scan_undecided(Q, left_out, undecided, table, members)

    def _members_by_product(
        self, Q: np.ndarray, left_out: np.ndarray, table: NeighborTable, members: ClassTable
    ) -> None:
        """The same with all candidates on one list, and for several members of each class."""
        from nearsay.neighbors.order_kernels import nearest_of_each_class

        found = self._grouped.candidates(Q, left_out, table.n_neighbors, members.indices.shape[2])
        if table.n_neighbors:
            neighbor_search.measure_and_order(self.search, Q, found.nearest, neighbor_search.NOBODY, table)
        measured = neighbor_search.measured(self.search, Q, found.members)
        nearest_of_each_class(found.members, measured, self.labels, members.indices, members.distances)
        self._scan_undecided(Q, left_out, found.undecided, table, members)

    def _scan_undecided(
        self, Q: np.ndarray, left_out: np.ndarray, undecided: np.ndarray, table: NeighborTable, members: ClassTable
    ) -> None:
        for part in row_blocks(len(undecided), size=QUERIES_SCANNED):
            again = undecided[part]
            few = (
                neighbor_search.no_neighbors(len(again), table.n_neighbors),
                no_members(len(again), *members.indices.shape[1:]),
            )
            self._scan(Q[again], left_out[again] if len(left_out) else neighbor_search.NOBODY, *few)
            table.indices[again], table.distances[again] = few[0].indices, few[0].distances
            members.indices[again], members.distances[again] = few[1].indices, few[1].distances

    def _rows_in(self, rows: np.ndarray | None) -> Queries:
        """Gives the rows of the collection, or those of these numbers, some at a time."""
        held = self.search.rows_
        if rows is not None:
            return lambda part: held.take(rows[part])
        return lambda part: held.between(part.start, part.stop)

    @property
    def _by_product(self) -> bool:
        return self.search.distance_.has_euclidean_form and self.search.rows_.n_live > 0

    @cached_property
    def _grouped(self) -> GroupedRows:
        return GroupedRows(self.search.distance_, self.search.rows_, self.labels)

    @cached_property
    def _rows_by_class(self) -> RowsByClass:
        if self._by_product:
            return RowsByClass(self._grouped.order, self.labels, self.n_classes, self._grouped)
        live = self.search.rows_.live_numbers
        return RowsByClass(live[np.argsort(self.labels[live], kind="stable")], self.labels, self.n_classes, None)

    def _some_others(self, rows: np.ndarray, k: int, members: tuple[int, ...]) -> NeighborTable:
        table = self._at_once.nearest(self.search.rows_.take(rows), k, members, rows)
        removed = self.search.rows_.removed
        if removed is not None:
            gone = removed[rows]
            table.indices[gone], table.distances[gone] = -1, np.inf
            assert table.classes is not None
            table.classes.forget(gone)
        return table

    def _goes_all_at_once(self, members: tuple[int, ...], n_queries: int) -> bool:
        """Whether all products of a small collection are looked at together."""
        if not self._at_once_pays(members, n_queries) or self.n_classes > MOST_CLASSES or not self.search.exact:
            return False
        return is_small(self.search.distance_, self.search.rows_) and not brute_force.serves(self.search, n_queries)

    def _at_once_pays(self, members: tuple[int, ...], n_queries: int) -> bool:
        if not members or self.n_classes > MEMBERS_OF_NEAREST:
            return True
        # The nearest of each of a few classes has to be measured in any case, and all at once that takes longer for
        # several members, or in small classes.
        large = len(self.labels) > ROWS_OF_CLASS_AT_ONCE * self.n_classes
        return members == (1,) and (large or n_queries <= FEW_QUERIES)

    @cached_property
    def _at_once(self) -> AllAtOnce:
        return AllAtOnce(self.search, SmallRows(self._grouped, self.n_classes), self.labels, self._scanned)

    def _scanned(self, Q: Any, left_out: np.ndarray, k: int, members: tuple[int, ...]) -> NeighborTable:
        table, found = (
            neighbor_search.no_neighbors(len(Q), k),
            no_members(len(Q), self.n_classes, max(members, default=1)),
        )
        self._scan(Q, left_out, table, found)
        return NeighborTable(table.indices, table.distances, found.in_order(members))

    def _scan(self, Q: Any, left_out: np.ndarray, table: NeighborTable, members: ClassTable) -> None:
        """Measure every row."""
        from nearsay.neighbors.order_kernels import insert_block

        rows = self.search.rows_
        removed = NONE_REMOVED if rows.removed is None else rows.removed
        for first, block in rows.blocks(rows.block_size(ROWS_SCANNED)):
            insert_block(
                self.search.distance_.block(Q, block, first),
                first,
                self.labels,
                removed,
                left_out,
                (table.indices, table.distances),
                (members.indices, members.distances),
            )


def _counted_from(start: int, queries: Queries) -> Queries:
    return lambda part: queries(slice(start + part.start, start + part.stop))


def _items(Q: Any, lines: np.ndarray) -> Any:
    return Q[lines] if isinstance(Q, np.ndarray) else [Q[line] for line in lines]
