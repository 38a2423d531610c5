"""The nearest members of *each class*, and with them the nearest rows of all, in one search.

    rows, grouped by class      products with the queries
    ┌──────┬────┬─────────┐     ┌──────┬────┬─────────┐     nearest rows
    │ ant  │ bee│  cicada │ ──► │ best │best│  best   │ ──► nearest members of each class ──► classes, nearest first
    └──────┴────┴─────────┘     └──────┴────┴─────────┘

With few classes every row is looked at once (``search/by_class/grouped.py``), and what
may be among the nearest is measured by the distance itself, as everywhere.
With many classes only those met among the nearest rows are listed, so the
search is that of the nearest rows, for a few more of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.arrays import check_n_neighbors, check_row_numbers, row_blocks, rows_within
from nearsay.errors import InputError
from nearsay.neighbors import find
from nearsay.neighbors.at_once import QUERIES_SCANNED, AllAtOnce
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.parallel import in_parallel, shares
from nearsay.search.by_class.grouped import Found, GroupedRows, Wanted
from nearsay.search.by_class.small import SmallRows, is_small
from nearsay.search.protocol import NeighborSearch
from nearsay.search.row_store import MOST_ROWS

# Up to so many classes all of them are listed; with more, those met among the nearest rows.
LIST_ALL_UP_TO = 128
# So many nearest rows are asked which classes they are of. Sixteen take 1.08 times as long to find as ten among
# 100,000 rows of 128 columns of noise, the hardest case; 24 take 1.16 times as long, and 32 take 1.25 times.
ROWS_ASKED = 16

# Of so many nearest classes all members that were asked for are listed, of the others only the nearest: classes so
# far down the list have next to no chance, and measuring four members of each of 100 would take twice as long.
MEMBERS_OF_NEAREST = 16

# Members of each class, and how far they are, take so much memory at once while the classes are put in order.
MEMBER_BYTES = 16 << 20

NONE_REMOVED = np.empty(0, np.bool_)
ROWS_SCANNED = 1024

Queries = Callable[[slice], Any]


@dataclass(frozen=True)
class ClassTable:
    """For every query the nearest members of each class, nearest first.

    Attributes
    ----------
    indices : (n_queries, n_classes, n_members) int64
        Row numbers; −1 where a class has fewer members.
    distances : (n_queries, n_classes, n_members) float64
        Their distances; +inf where there is none.
    """

    indices: np.ndarray
    distances: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: Any) -> ClassTable:
        """The same table for some of the queries: a slice, their numbers, or a mask."""
        lines = rows if isinstance(rows, slice) else check_row_numbers(rows, len(self))
        return ClassTable(self.indices[lines], self.distances[lines])

    def first(self, n_members: int) -> ClassTable:
        """The nearest ``n_members`` of each class alone."""
        if not 1 <= n_members <= self.indices.shape[2]:
            raise InputError(f"This table holds {self.indices.shape[2]} members a class; {n_members} were asked for.")
        return ClassTable(self.indices[:, :, :n_members], self.distances[:, :, :n_members])

    def in_order(self) -> NearestClasses:
        """The classes by their nearest member; a class without members is not listed.

        >>> table = ClassTable(np.array([[[7], [-1], [4]]]), np.array([[[2.0], [np.inf], [1.0]]]))
        >>> table.in_order().numbers
        array([[ 2,  0, -1]])
        """
        from nearsay.neighbors.order_kernels import classes_in_order

        numbers, distances = np.empty(self.indices.shape[:2], np.int64), np.empty(self.distances.shape)
        classes_in_order(self.indices, self.distances, numbers, distances)
        return NearestClasses(numbers, distances, np.full(len(self), np.inf))


class LabeledSearch:
    """A search, and the class number (0, 1, …) of every row it holds.

    What is prepared from the rows and their labels is kept for the next
    question, as long as both stay what they were (``serves``).

    >>> from nearsay.search.exact import ExactSearch
    >>> ants_and_bees = LabeledSearch(ExactSearch().fit([[0.0], [1.0], [5.0]]), [0, 0, 1])
    >>> table = ants_and_bees.nearest([[4.0]], k=2)
    >>> table.indices, table.classes.numbers, table.classes.distances[:, :, 0]
    (array([[2, 1]]), array([[1, 0]]), array([[1., 3.]]))
    """

    def __init__(self, search: NeighborSearch, labels: Any, n_classes: int | None = None) -> None:
        self.search = search.snapshot()
        self.labels, self.n_classes = _check_labels(labels, len(self.search.rows_), n_classes)
        self.lists_all = self.n_classes <= LIST_ALL_UP_TO
        self._rows_by_class: GroupedRows | None = None
        self._few_rows: AllAtOnce | None = None

    def serves(self, search: NeighborSearch, labels: Any, n_classes: int | None) -> bool:
        """Whether these are the rows, as they are now, and the labels that this was made for."""
        if search.rows_ is not self.search.rows_:
            return False
        labels, n_classes = _check_labels(labels, len(self.search.rows_), n_classes)
        return n_classes == self.n_classes and np.array_equal(labels, self.labels)

    # ------------------------------------------------------------ the nearest rows, and the classes in order

    def nearest(self, Q: Any, k: int, n_members: int = 1) -> NeighborTable:
        """The ``k`` nearest rows of every query, with ``table.classes``; −1 and +inf where there are fewer rows."""
        k, n_members = check_n_neighbors(k, MOST_ROWS), _check_members(n_members, least=0)
        Q = self._checked(Q)
        live = self.search.rows_.n_live
        if not self.lists_all:
            asked = min(max(k, ROWS_ASKED), live)
            table = find.nearest(self.search, Q, asked) if asked else find.no_neighbors(len(Q), 0)
            return self._with_classes_met(table, find.NOBODY, k, n_members, every_row=asked == live)
        if self._goes_all_at_once(n_members):
            return _widened(self._at_once.nearest(Q, Wanted(min(k, live), n_members, MEMBERS_OF_NEAREST)), k)
        if self.search.exact or not live:
            return _widened(self._all_classes(Q.__getitem__, len(Q), find.NOBODY, min(k, live), n_members), k)
        table = find.nearest(self.search, Q, min(k, live))
        classes = self._all_classes(Q.__getitem__, len(Q), find.NOBODY, 0, n_members).classes
        return _widened(NeighborTable(table.indices, table.distances, classes), k)

    def leave_one_out(self, k: int, n_members: int = 1, rows: Any = None) -> NeighborTable:
        """The ``k`` nearest *other* rows of every row (or of ``rows``: numbers, or a mask), with ``table.classes``.

        A removed row has no neighbors and no classes.
        """
        k, n_members = check_n_neighbors(k, MOST_ROWS), _check_members(n_members, least=0)
        held = self.search.rows_
        rows = None if rows is None else check_row_numbers(rows, len(held))
        others = max(held.n_live - 1, 0)
        numbers = np.arange(len(held)) if rows is None else rows
        if not self.lists_all:
            asked = min(max(k, ROWS_ASKED), others)
            table = find.leave_one_out(self.search, asked, rows) if asked else find.no_neighbors(len(numbers), 0)
            return self._with_classes_met(table, numbers, k, n_members, every_row=asked == others)
        if self._goes_all_at_once(n_members):
            wanted = Wanted(min(k, others), n_members, MEMBERS_OF_NEAREST)
            return _widened(self._at_once.others(wanted) if rows is None else self._some_others(rows, wanted), k)
        queries = self._rows_in(rows)
        if self.search.exact or not others:
            return _widened(self._all_classes(queries, len(numbers), numbers, min(k, others), n_members), k)
        table = find.leave_one_out(self.search, min(k, others), rows)
        classes = self._all_classes(queries, len(numbers), numbers, 0, n_members).classes
        return _widened(NeighborTable(table.indices, table.distances, classes), k)

    def _all_classes(
        self, queries: Queries, n_queries: int, left_out: np.ndarray, k: int, n_members: int
    ) -> NeighborTable:
        """The nearest rows, and all classes in order; the members of each are held for some queries at a time."""
        from nearsay.neighbors.order_kernels import classes_in_order

        wanted = Wanted(k, max(1, n_members))
        table = find.no_neighbors(n_queries, k)
        numbers = np.empty((n_queries, self.n_classes), np.int64)
        distances = np.empty((n_queries, self.n_classes, n_members))
        size = rows_within(MEMBER_BYTES, 16 * self.n_classes * wanted.n_members, most=max(1, n_queries))
        for part in row_blocks(n_queries, size=size):
            some, members = self._find(
                _counted_from(part.start, queries), part.stop - part.start, left_out[part], wanted
            )
            table.indices[part], table.distances[part] = some.indices, some.distances
            told = distances[part] if n_members else np.empty(members.distances.shape)
            classes_in_order(members.indices, members.distances, numbers[part], told)
        classes = NearestClasses(numbers, distances, np.full(n_queries, np.inf))
        return _with_classes(table, classes, n_members)

    def _with_classes_met(
        self, table: NeighborTable, left_out: np.ndarray, k: int, n_members: int, *, every_row: bool
    ) -> NeighborTable:
        """The first ``k`` of a longer table, with the classes that the whole of it meets."""
        from nearsay.neighbors.order_kernels import classes_met

        sizes = np.bincount(self.labels[self.search.rows_.live_numbers], minlength=self.n_classes)
        beyond = np.full(len(table), np.inf) if every_row else table.distances[:, -1].copy()
        n_listed = min(max(k, ROWS_ASKED), self.n_classes)
        numbers, distances = np.empty((len(table), n_listed), np.int64), np.empty((len(table), n_listed, n_members))
        classes_met(table.indices, table.distances, self.labels, sizes, left_out, beyond, numbers, distances)
        nearest = NeighborTable(table.indices[:, :k], table.distances[:, :k])
        return _widened(_with_classes(nearest, NearestClasses(numbers, distances, beyond), n_members), k)

    # ------------------------------------------------------------ the nearest members of each class

    def nearest_by_class(self, Q: Any, n_members: int = 1) -> ClassTable:
        """The nearest ``n_members`` rows of each class for every query."""
        n_members = _check_members(n_members, least=1)
        Q = self._checked(Q)
        return self._find(Q.__getitem__, len(Q), find.NOBODY, Wanted(0, n_members))[1]

    def leave_one_out_by_class(self, n_members: int = 1) -> ClassTable:
        """The nearest *other* ``n_members`` rows of each class for every row; a row is left out by its number."""
        n_members = _check_members(n_members, least=1)
        numbers = np.arange(len(self.search.rows_))
        return self._find(self._rows_in(None), len(numbers), numbers, Wanted(0, n_members))[1]

    # ------------------------------------------------------------ one pass for both

    def _checked(self, Q: Any) -> Any:
        return self.search.distance_.check(Q, name="Q", like=self.search.rows_.items)

    def _find(
        self, queries: Queries, n_queries: int, left_out: np.ndarray, wanted: Wanted
    ) -> tuple[NeighborTable, ClassTable]:
        table, members = (
            find.no_neighbors(n_queries, wanted.k),
            _no_members(n_queries, self.n_classes, wanted.n_members),
        )

        def fill(part: slice) -> None:
            Q, itself = queries(part), left_out[part]
            if self._by_product:
                found = self._grouped.candidates(Q, itself, wanted)
                self._settle(Q, itself, wanted, found, table[part], members[part])
            else:
                self._scan(Q, itself, table[part], members[part])

        held = self.search.rows_
        at_once = self._grouped.queries_at_once(wanted) if self._by_product else held.block_size(QUERIES_SCANNED)
        in_parallel(fill, shares(n_queries, most=at_once))
        if held.removed is not None and len(left_out):
            gone = held.removed[left_out]
            table.indices[gone], table.distances[gone] = -1, np.inf
            members.indices[gone], members.distances[gone] = -1, np.inf
        return table, members

    def _rows_in(self, rows: np.ndarray | None) -> Queries:
        """Gives the rows of the collection, or those of these numbers, some at a time."""
        held = self.search.rows_
        if rows is not None:
            return lambda part: held.take(rows[part])
        return lambda part: held.between(part.start, part.stop)

    @property
    def _by_product(self) -> bool:
        return self.search.distance_.has_euclidean_form and self.search.rows_.n_live > 0

    @property
    def _grouped(self) -> GroupedRows:
        if self._rows_by_class is None:
            self._rows_by_class = GroupedRows(self.search.distance_, self.search.rows_, self.labels)
        return self._rows_by_class

    def _some_others(self, rows: np.ndarray, wanted: Wanted) -> NeighborTable:
        table = self._at_once.nearest(self.search.rows_.take(rows), wanted, rows)
        removed = self.search.rows_.removed
        if removed is not None:
            gone = removed[rows]
            table.indices[gone], table.distances[gone] = -1, np.inf
            assert table.classes is not None
            table.classes.numbers[gone], table.classes.distances[gone] = -1, np.inf
        return table

    def _goes_all_at_once(self, n_members: int) -> bool:
        # Several members of each of a few classes have to be measured in any case, and all at once that takes longer.
        pays = n_members <= 1 or self.n_classes > MEMBERS_OF_NEAREST
        return pays and self.search.exact and is_small(self.search.distance_, self.search.rows_)

    @property
    def _at_once(self) -> AllAtOnce:
        if self._few_rows is None:
            rows = SmallRows(self._grouped, self.n_classes)
            self._few_rows = AllAtOnce(self.search, rows, self.labels, self._scanned)
        return self._few_rows

    def _scanned(self, Q: Any, left_out: np.ndarray, wanted: Wanted) -> NeighborTable:
        table = find.no_neighbors(len(Q), wanted.k)
        members = _no_members(len(Q), self.n_classes, max(1, wanted.n_members))
        self._scan(Q, left_out, table, members)
        return _with_classes(table, members.in_order(), wanted.n_members)

    def _settle(
        self,
        Q: np.ndarray,
        left_out: np.ndarray,
        wanted: Wanted,
        found: Found,
        table: NeighborTable,
        members: ClassTable,
    ) -> None:
        """Measure the candidates, and every row for the queries that are undecided; put them in order."""
        from nearsay.neighbors.order_kernels import nearest_of_each_class

        if wanted.k:
            find.measure_and_order(self.search, Q, found.nearest, find.NOBODY, table)
        measured = find.measured(self.search, Q, found.members)
        nearest_of_each_class(found.members, measured, self.labels, members.indices, members.distances)
        for part in row_blocks(len(found.undecided), size=QUERIES_SCANNED):
            again = found.undecided[part]
            few = find.no_neighbors(len(again), wanted.k), _no_members(len(again), *members.indices.shape[1:])
            self._scan(Q[again], left_out[again] if len(left_out) else find.NOBODY, *few)
            table.indices[again], table.distances[again] = few[0].indices, few[0].distances
            members.indices[again], members.distances[again] = few[1].indices, few[1].distances

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


def nearest_by_class(
    search: NeighborSearch, labels: Any, Q: Any, n_members: int = 1, *, n_classes: int | None = None
) -> ClassTable:
    """The nearest ``n_members`` rows of each class for every query.

    ``labels`` gives the class number (0, 1, …) of every row that ``search`` holds.

    >>> from nearsay.search.exact import ExactSearch
    >>> search = ExactSearch().fit([[0.0], [1.0], [5.0]])
    >>> nearest_by_class(search, [0, 0, 1], [[2.0]]).distances
    array([[[1.],
            [3.]]])
    """
    return LabeledSearch(search, labels, n_classes).nearest_by_class(Q, n_members)


def leave_one_out_by_class(
    search: NeighborSearch, labels: Any, n_members: int = 1, *, n_classes: int | None = None
) -> ClassTable:
    """The nearest *other* ``n_members`` rows of each class for every row; a row is left out by its number.

    >>> from nearsay.search.exact import ExactSearch
    >>> search = ExactSearch().fit([[0.0], [1.0], [5.0]])
    >>> leave_one_out_by_class(search, [0, 0, 1]).indices[:, :, 0]
    array([[ 1,  2],
           [ 0,  2],
           [ 1, -1]])
    """
    return LabeledSearch(search, labels, n_classes).leave_one_out_by_class(n_members)


def _check_labels(labels: Any, n_rows: int, n_classes: int | None) -> tuple[np.ndarray, int]:
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or (labels.dtype.kind not in "iu" and n_rows):
        raise InputError(
            f"Labels must be one class number for each of the {n_rows} rows;"
            f" got an array of shape {labels.shape} and type {labels.dtype}."
        )
    highest = int(labels.max()) if n_rows else -1
    n_classes = highest + 1 if n_classes is None else n_classes
    if labels.min(initial=0) < 0 or highest >= n_classes:
        raise InputError(f"Class numbers must lie in 0 … {n_classes - 1}; got {labels.min()} to {highest}.")
    return labels.astype(np.int64), n_classes


def _counted_from(start: int, queries: Queries) -> Queries:
    return lambda part: queries(slice(start + part.start, start + part.stop))


def _check_members(n_members: Any, *, least: int) -> int:
    if isinstance(n_members, bool) or not isinstance(n_members, int | np.integer) or n_members < least:
        order = ", or 0 for the order of the classes alone" if least == 0 else ""
        raise InputError(
            f"Members of each class are asked for by a whole number of at least 1{order}; got n_members={n_members!r}."
        )
    return int(n_members)


def _no_members(n_queries: int, n_classes: int, n_members: int) -> ClassTable:
    shape = (n_queries, n_classes, n_members)
    return ClassTable(np.full(shape, -1, np.int64), np.full(shape, np.inf))


def _with_classes(table: NeighborTable, classes: NearestClasses, n_members: int) -> NeighborTable:
    """The table with these classes; only the nearest of them tell of more than one member."""
    distances = classes.distances[:, :, :n_members]
    distances[:, MEMBERS_OF_NEAREST:, 1:] = np.inf
    return NeighborTable(table.indices, table.distances, NearestClasses(classes.numbers, distances, classes.beyond))


def _widened(table: NeighborTable, k: int) -> NeighborTable:
    """The table with ``k`` columns, where the collection may have had too few rows for them."""
    if table.n_neighbors < k:
        wide = find.no_neighbors(len(table), k)
        wide.indices[:, : table.n_neighbors] = table.indices
        wide.distances[:, : table.n_neighbors] = table.distances
        table = NeighborTable(wide.indices, wide.distances, table.classes)
    return table
