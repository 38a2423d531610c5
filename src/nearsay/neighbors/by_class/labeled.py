"""Search over rows with labels: the nearest rows, and the nearest members of *each class*.

    rows, grouped by class      products with the queries
    ┌──────┬────┬─────────┐     ┌──────┬────┬─────────┐     nearest rows
    │ ant  │ bee│  cicada │ ──► │ best │best│  best   │ ──► nearest members of each class ──► classes, nearest first
    └──────┴────┴─────────┘     └──────┴────┴─────────┘

``class_search.py`` chooses the way. With more than 10,000 classes only those of the nearest rows are listed, so the
search is that of the nearest rows, for a few more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from nearsay.core.arrays import check_n_neighbors, check_row_numbers, row_blocks
from nearsay.core.parallel import in_jobs
from nearsay.core.settings import check_whole
from nearsay.errors import InputError
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.class_search import ClassSearch
from nearsay.neighbors.by_class.class_table import ClassTable
from nearsay.neighbors.by_class.left_out_groups import MOST_IN_GROUP, RowGroups, SmallGroups
from nearsay.neighbors.by_class.plan import MakePlan, plan
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.protocol import NeighborSearch
from nearsay.search.row_store import MOST_ROWS

# Up to so many classes are all listed (16 bytes a class and query); with more, those of the nearest rows are.
LIST_ALL_UP_TO = 10_000
# The classes of so many nearest rows are listed then. Sixteen take 1.08 times as long to find as ten among 100,000 rows
# of 128 columns of noise, the hardest case; 24 take 1.16 times as long, and 32 take 1.25 times.
ROWS_WITH_CLASSES = 16
# Rows of groups whose tables are held at once, with the neighbors that are taken out again.
GROUPED_AT_ONCE = 4096


class LabeledNeighbors:
    """Search for neighbors and classes: what ``NeighborIndex.with_labels`` gives.

    It keeps the rows and labels that it was made with: later changes of the index, or of the label array, do not reach
    it. After a change call ``with_labels`` again. What is prepared for one search is kept for the next.

    Parameters
    ----------
    search : a fitted search.
    labels : (n_rows,) the class number (0, 1, …) of every row, removed ones too.
    n_classes : int, optional
        How many classes there are; by default, as many as the labels name.
    n_jobs : int, optional
        Threads, as in ``NeighborIndex``.
    make_plan : chooses the way of a search by class, for tests.
    groups : (n_rows,) whole numbers, optional
        Rows of one group are never asked about each other: ``leave_one_out`` leaves out all of them.

    Attributes
    ----------
    labels : (n_rows,) int64
    n_classes : int
    lists_all : bool
        Whether all classes are listed, or those of the nearest rows.

    Examples
    --------
    >>> from nearsay.neighbors.index import NeighborIndex
    >>> index = NeighborIndex().fit([[0.0], [1.0], [5.0]])
    >>> ants_and_bees = index.with_labels([0, 0, 1])
    >>> table = ants_and_bees.query([[4.0]], k=2, members=(1, 2))
    >>> table.indices, table.classes.numbers
    (array([[2, 1]]), array([[1, 0]]))
    >>> table.classes.means  # of one and of two members; there is one bee only
    array([[[1. , 1. ],
            [3. , 3.5]]])
    """

    most_in_group = MOST_IN_GROUP

    def __init__(
        self,
        search: NeighborSearch,
        labels: Any,
        n_classes: int | None = None,
        *,
        n_jobs: int | None = None,
        make_plan: MakePlan = plan,
        groups: np.ndarray | None = None,
    ) -> None:
        self.search = search.snapshot()
        self.labels, self.n_classes = check_labels(labels, len(self.search.rows_), n_classes)
        self.n_jobs = n_jobs
        self._make_plan = make_plan
        self.groups = groups
        self.lists_all = self.n_classes <= LIST_ALL_UP_TO

    def _to_saved(self) -> dict[str, Any]:
        return {
            "search": self.search,
            "labels": self.labels,
            "n_classes": self.n_classes,
            "n_jobs": self.n_jobs,
            "groups": self.groups,
        }

    @classmethod
    def _from_saved(cls, state: dict[str, Any]) -> LabeledNeighbors:
        return cls(**state)

    @property
    def live_numbers(self) -> np.ndarray:
        """Numbers of the live rows."""
        return self.search.rows_.live_numbers

    def __len__(self) -> int:
        """How many live rows there are."""
        return self.search.rows_.n_live

    def __repr__(self) -> str:
        return f"<LabeledNeighbors: {len(self)} rows in {self.n_classes} classes>"

    # ------------------------------------------------------------ the nearest rows, and the classes in order

    @in_jobs
    def query(self, Q: Any, k: int, members: Sequence[int] | None = None, *, input_name: str = "Q") -> NeighborTable:
        """The ``k`` nearest rows of every query; −1 and +inf where there are fewer rows.

        With ``members``, ``table.classes`` lists the classes by their nearest member. Up to 10,000 classes are all
        listed; of more, those of the nearest rows, and others lie ``beyond``. Every class has the distance of its
        nearest member, and the 16 nearest classes the mean distance of their m nearest members, for each m of
        ``members``, such as (1, 4, 16); () gives the order alone, which takes less time. Errors call the queries
        ``input_name``.
        """
        k = check_n_neighbors(k, MOST_ROWS)
        members = None if members is None else check_members(members)
        Q = neighbor_search.checked_queries(self.search, Q, input_name)
        if members is None:
            return self._nearest_rows(Q, k).widened(k)
        live = len(self)
        if not self.lists_all:
            table = self._nearest_rows(Q, max(k, ROWS_WITH_CLASSES))
            return self._with_classes_met(
                table, neighbor_search.NOBODY, k, members, every_row=table.n_neighbors == live
            )
        exact = self.search.exact or not live
        table = self._by_class.of_queries(Q, min(k, live) if exact else 0, members)
        if not exact:
            nearest = self._nearest_rows(Q, k)
            table = NeighborTable(nearest.indices, nearest.distances, table.classes)
        return table.widened(k)

    @in_jobs
    def leave_one_out(self, k: int, members: Sequence[int] | None = None, rows: Any = None) -> NeighborTable:
        """The same for every row (or for ``rows``: numbers, or a mask) and the *other* rows.

        A removed row has no neighbors and no classes.

        >>> from nearsay.neighbors.index import NeighborIndex
        >>> index = NeighborIndex().fit([[0.0], [1.0], [5.0]])
        >>> index.with_labels([0, 0, 1]).leave_one_out(k=1, members=()).classes.numbers
        array([[ 0,  1],
               [ 0,  1],
               [ 0, -1]])
        """
        k = check_n_neighbors(k, MOST_ROWS)
        members = None if members is None else check_members(members)
        held = self.search.rows_
        rows = None if rows is None else check_row_numbers(rows, len(held))
        if self.groups is not None:
            return self._leave_groups_out(k, members, np.arange(len(held)) if rows is None else rows)
        if members is None:
            return self._other_rows(k, rows).widened(k)
        others = max(held.n_live - 1, 0)
        if not self.lists_all:
            numbers = np.arange(len(held)) if rows is None else rows
            table = self._other_rows(max(k, ROWS_WITH_CLASSES), rows)
            return self._with_classes_met(table, numbers, k, members, every_row=table.n_neighbors == others)
        exact = self.search.exact or not others
        table = self._by_class.of_rows(rows, min(k, others) if exact else 0, members)
        if not exact:
            nearest = self._other_rows(k, rows)
            table = NeighborTable(nearest.indices, nearest.distances, table.classes)
        return table.widened(k)

    def _leave_groups_out(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray) -> NeighborTable:
        """The same where a row is asked about the rows of other groups."""
        assert self.groups is not None
        groups = RowGroups(self.groups, self.search.rows_.live_numbers)
        size = groups.size_of(rows)
        small = (size > 1) & (size <= self.most_in_group) & self._takes_groups_out(members)
        alone, few, left = np.flatnonzero(size == 1), np.flatnonzero(small), np.flatnonzero((size > 1) & ~small)
        parts, places = [self.ungrouped.leave_one_out(k, members, rows[alone])], [alone]
        for lines in row_blocks(len(few), size=GROUPED_AT_ONCE):
            table, undecided = self._without_small_groups(groups, k, members, rows[few[lines]])
            parts.append(table[~undecided])
            places.append(few[lines][~undecided])
            left = np.append(left, few[lines][undecided])
        left = left[np.argsort(groups.number[rows[left]], kind="stable")]
        for part in np.split(left, np.flatnonzero(np.diff(groups.number[rows[left]])) + 1) if len(left) else ():
            search = self.search.snapshot()
            search.remove(groups.of(int(groups.number[rows[part[0]]])))
            parts.append(self._without_groups(search).query(self.search.rows_.take(rows[part]), k, members))
            places.append(part)
        return joined(parts)[np.argsort(np.concatenate(places))]

    def _takes_groups_out(self, members: tuple[int, ...] | None) -> bool:
        """Whether a group can be taken out of a table of all rows: where that is complete, and has what it takes."""
        complete = self.search.exact and not isinstance(self.search, GpuSearch)
        return complete and (members is None or (len(members) > 0 and self.lists_all))

    def _without_small_groups(
        self, groups: RowGroups, k: int, members: tuple[int, ...] | None, rows: np.ndarray
    ) -> tuple[NeighborTable, np.ndarray]:
        """The same for rows of small groups, and which of them are undecided."""
        more = int(groups.size_of(rows).max()) - 1
        table = self.ungrouped.leave_one_out(k + more, members, rows)
        by_class = self.ungrouped._by_class.rows_by_class
        return SmallGroups(self.search, self.labels, by_class, groups).without(table, k, rows)

    @cached_property
    def ungrouped(self) -> LabeledNeighbors:
        """The same rows, each a group of its own."""
        return self._without_groups(self.search)

    def _without_groups(self, search: NeighborSearch) -> LabeledNeighbors:
        return LabeledNeighbors(search, self.labels, self.n_classes, n_jobs=self.n_jobs, make_plan=self._make_plan)

    def _nearest_rows(self, Q: Any, k: int) -> NeighborTable:
        """The ``k`` nearest rows of checked queries, or all."""
        k = min(k, len(self))
        return neighbor_search.nearest_of_checked(self.search, Q, k) if k else neighbor_search.no_neighbors(len(Q), 0)

    def _other_rows(self, k: int, rows: np.ndarray | None) -> NeighborTable:
        """The ``k`` nearest others of every row, or of some; or all others."""
        k = min(k, max(len(self) - 1, 0))
        if k:
            return neighbor_search.leave_one_out(self.search, k, rows)
        return neighbor_search.no_neighbors(len(self.search.rows_) if rows is None else len(rows), 0)

    def _with_classes_met(
        self, table: NeighborTable, left_out: np.ndarray, k: int, members: tuple[int, ...], *, every_row: bool
    ) -> NeighborTable:
        """The first ``k`` of a longer table, with the classes of all its rows."""
        table = with_classes_met(table, self.labels, self._class_sizes, left_out, k, members, every_row=every_row)
        return table.widened(k)

    # ------------------------------------------------------------ the nearest members of each class

    @in_jobs
    def query_by_class(self, Q: Any, n_members: int = 1) -> ClassTable:
        """The nearest ``n_members`` rows of each class for every query.

        >>> from nearsay.neighbors.index import NeighborIndex
        >>> NeighborIndex().fit([[0.0], [1.0], [5.0]]).with_labels([0, 0, 1]).query_by_class([[2.0]]).distances
        array([[[1.],
                [3.]]])
        """
        n_members = check_whole("n_members", n_members, least=1)
        Q = neighbor_search.checked_queries(self.search, Q)
        return self._by_class.rows_and_members(Queries.of_items(Q), 0, n_members)[1]

    @in_jobs
    def leave_one_out_by_class(self, n_members: int = 1) -> ClassTable:
        """The nearest *other* ``n_members`` rows of each class for every row; a row is left out by its number.

        >>> from nearsay.neighbors.index import NeighborIndex
        >>> index = NeighborIndex().fit([[0.0], [1.0], [5.0]])
        >>> index.with_labels([0, 0, 1]).leave_one_out_by_class().indices[:, :, 0]
        array([[ 1,  2],
               [ 0,  2],
               [ 1, -1]])
        """
        n_members = check_whole("n_members", n_members, least=1)
        return self._by_class.rows_and_members(Queries.of_rows(self.search.rows_, None), 0, n_members)[1]

    @cached_property
    def _by_class(self) -> ClassSearch:
        return ClassSearch(self.search, self.labels, self.n_classes, make_plan=self._make_plan)

    @cached_property
    def _class_sizes(self) -> np.ndarray:
        return np.bincount(self.labels[self.search.rows_.live_numbers], minlength=self.n_classes)


def with_classes_met(
    table: NeighborTable,
    labels: np.ndarray,
    class_sizes: np.ndarray,
    left_out: np.ndarray,
    k: int,
    members: tuple[int, ...],
    *,
    every_row: bool,
) -> NeighborTable:
    """The first ``k`` of a longer table, with the classes of all its rows.

    ``every_row``: the table holds all rows, so that no class lies beyond.
    """
    from nearsay.neighbors.order_kernels import classes_met

    classes = NearestClasses.to_fill(len(table), min(max(k, ROWS_WITH_CLASSES), len(class_sizes)), members)
    if not every_row:
        classes.beyond[:] = table.distances[:, -1]
    known = labels, class_sizes, left_out, np.array(members, np.int64)
    classes_met(table.indices, table.distances, *known, *classes.arrays)
    return NeighborTable(table.indices[:, :k], table.distances[:, :k], classes)


def check_labels(labels: Any, n_rows: int, n_classes: int | None) -> tuple[np.ndarray, int]:
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


def check_members(members: Any) -> tuple[int, ...]:
    numbers: list[Any] = list(members) if isinstance(members, tuple | list | np.ndarray) else [None]
    if not all(_is_count(number) for number in numbers) or any(b <= a for a, b in pairwise(numbers)):
        raise InputError(
            "members must be increasing whole numbers of at least 1, such as (1, 4): how many nearest members of"
            f" each class to average; () asks for the order of the classes alone. Got members={members!r}."
        )
    return tuple(int(number) for number in numbers)


def _is_count(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number >= 1)
