"""Past cases: the rows of a collection, each asked about the others, left out by its number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.errors import InputError
from nearsay.neighbors.by_class.labeled import LIST_ALL_UP_TO, ROWS_WITH_CLASSES
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.neighbors.table import NeighborTable, joined

ROWS_AT_ONCE = 4096
# A table of past cases takes no more memory than this. Where one of all rows would, as many as fit are drawn.
TABLE_BYTES = 256 << 20
# Up to this much of it, one of rows that were asked for by number is kept: the same are often asked for again.
KEPT_BYTES = 32 << 20
# So many rows of a larger collection are asked as past cases. A share of them is then known to half a hundredth
# (one standard error is at most √(¼ / 10,000)), and a few weights far better; asking a million rows would take a
# hundred times as long, for a digit that answers do not need.
MAX_PAST_CASES = 10_000
# Where several views of the rows are judged, fewer rows are, so that all of them together take no longer than so
# many searches of that many.
SEARCHES = 4
# Listing all classes with the means of their members, and learning from them, takes about so many times as long as
# finding the nearest rows. So of a collection larger than that fewer rows are judged where classes are listed: as many
# as take no longer than all rows of one of ``max_past_cases``, down to that many times fewer. A few dozen weights need
# no more: with 2,000 cases instead of 10,000 the log loss of held-out training rows moved by less than half a percent
# (tin200, and made-up clusters in 10 and in 1,000 classes; with 2,000 of the 5,148 of satimage it rose by 2 percent).
LISTING = 5
FEWEST = 2000
# And a class that is listed, and learned from, takes about as long as looking at so many rows. So with many classes
# fewer rows are judged in any collection: as many as are listed in one view in the time of one and a half searches.
ROWS_A_CLASS = 200
# Of more classes than so many, a past case keeps the likely ones, and a few that stand for all others.
MANY_CLASSES = 512
SAMPLE_ABOVE = 5000
SAMPLE_SIZE = 2000


def left_out_blocks(
    search: LeaveOneOutSearch, k: int, rows: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, NeighborTable]]:
    """The leave-one-out table of all or some rows, as (row numbers, their neighbors) that need not be held together."""
    rows = search.live_numbers if rows is None else rows
    for block in row_blocks(len(rows), size=ROWS_AT_ONCE):
        yield rows[block], search.leave_one_out(k, rows=rows[block])


def possible_members(members: Sequence[int] | None, labels: np.ndarray) -> tuple[int, ...] | None:
    """The numbers of members to ask for, where a posterior asks for these; None where it asks for no classes.

    Left out, a row leaves one fewer in its class, and a mean over most of a class would show that it lacks a row:
    weights would learn to know the true class by that. So no number is more than a quarter of the
    usual class, or four where it has as many others.

    >>> possible_members((1, 4, 16, 64), np.repeat([0, 1], 40)), possible_members((1, 4), np.repeat([0, 1], 3))
    ((1, 4, 10), (1, 2))
    """
    if members is None:
        return None
    numbers = np.unique(np.asarray(members, None if len(members) else np.int64))
    if numbers.dtype.kind not in "iu" or numbers.min(initial=1) < 1:
        raise InputError(f"members must be whole numbers of at least 1, such as (1, 4); got {members!r}.")
    usual = int(np.median(np.bincount(labels)[labels])) if len(labels) else 1
    return tuple(np.unique(np.minimum(numbers, max(1, min(4, usual - 1), usual // 4))).tolist())


def rows_judged(
    n_rows: int,
    k: int,
    members: tuple[int, ...] | None,
    n_classes: int,
    n_groups: int = 1,
    max_past_cases: int | None = MAX_PAST_CASES,
    table_bytes: int = TABLE_BYTES,
) -> np.ndarray | None:
    """Places, in the order of past cases, of the rows that are asked as such; None for all of them.

    At most ``max_past_cases`` (None: all), fewer where more than that many rows are asked for their classes or in
    several views, or where classes are many, and no more than a table has room for. Drawn with a fixed seed: a choice
    in even steps could meet the same class again and again.

    >>> rows_judged(9_000, 5, (1, 4), n_classes=10) is None, len(rows_judged(60_000, 5, None, n_classes=10))
    (True, 10000)
    >>> [len(rows_judged(n, 5, (1, 4), n_classes=10)) for n in (10_001, 20_000, 60_000)]
    [9999, 5000, 2000]
    >>> [len(rows_judged(n, 5, (1, 4), n_classes=10, n_groups=10)) for n in (10_001, 20_000, 60_000)]    # ten views
    [4000, 4000, 2000]
    >>> [len(rows_judged(20_000, 5, (1, 4), n_classes=n)) for n in (100, 200, 300, 1_000)]
    [5000, 5000, 3750, 2000]
    >>> rows_judged(60_000, 5, (1, 4), n_classes=10, max_past_cases=None) is None
    True
    """
    line = 16 * k
    if members is not None:
        n_listed = n_classes if n_classes <= LIST_ALL_UP_TO else max(k, ROWS_WITH_CLASSES)
        line += 8 * (n_listed * (2 if members else 1) + min(n_listed, MEMBERS_OF_NEAREST) * len(members) + 1)
    lists_all = bool(members) and n_classes <= LIST_ALL_UP_TO
    n_listed = n_classes if lists_all else 0
    limit = n_rows if max_past_cases is None else _affordable(n_rows, max_past_cases, n_groups, n_listed)
    most = rows_within(table_bytes, line * n_groups, most=max(1, min(n_rows, limit)))
    if most == n_rows:
        return None
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def _affordable(n_rows: int, max_past_cases: int, n_views: int, n_listed: int) -> int:
    """How many rows can be judged in the time of ``SEARCHES`` searches for ``max_past_cases`` rows."""
    most = max_past_cases
    if n_listed and n_rows > most:
        most = min(most, max(FEWEST, most // LISTING, most**2 // n_rows))
    if n_listed:
        in_time = 3 * max_past_cases * n_rows // (2 * (n_rows + ROWS_A_CLASS * n_listed))
        most = min(most, max(FEWEST, in_time))
    # Several views have more weights to learn, and are halved only where the collection is twice as large.
    few = max(FEWEST, 2 * SEARCHES * most // n_views)
    return min(most, few, SEARCHES * max_past_cases // n_views)


def rows_not_judged(rows: np.ndarray | None, n_rows: int, at_once: int | None = None) -> Iterator[np.ndarray]:
    """Numbers of the other rows, some at a time."""
    others = np.setdiff1d(np.arange(n_rows), np.arange(n_rows) if rows is None else rows)
    for part in row_blocks(len(others), size=at_once or ROWS_AT_ONCE):
        yield others[part]


def sample_of(rows: np.ndarray, seed: int) -> np.ndarray:
    """All of these rows, or of more than 5,000 a seeded sample of 2,000, in the order of their numbers."""
    if len(rows) <= SAMPLE_ABOVE:
        return np.sort(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, SAMPLE_SIZE, replace=False))


class LeaveOneOutSearch(Protocol):
    """Rows that can be asked about each other: a ``LabeledNeighbors``, or several views of one."""

    @property
    def labels(self) -> np.ndarray: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def live_numbers(self) -> np.ndarray: ...
    def __len__(self) -> int: ...
    def leave_one_out(
        self, k: int, members: tuple[int, ...] | None = None, rows: np.ndarray | None = None
    ) -> NeighborTable: ...


class PastCases:
    """The rows of a collection, each asked about the others; what is asked for again is kept.

    A pass over all rows also remembers the neighbors of a few, for novelty:
    of every row in a collection of up to 5,000, otherwise of a seeded sample
    of 2,000. Without such a pass those rows are searched when first asked for.
    ``max_past_cases`` is how many rows of a larger collection are judged; None for all. They come, and are drawn, in
    the ``order`` of these row numbers; None is the order of the rows. Rows that are not in ``order`` only vote.
    """

    _sampled_table: NeighborTable | None = None
    _by_number: tuple[NeighborTable, np.ndarray] | None = None
    order: np.ndarray | None = None

    def __init__(
        self,
        search: LeaveOneOutSearch,
        seed: int = 0,
        *,
        n_views: int = 1,
        max_past_cases: int | None = MAX_PAST_CASES,
        order: np.ndarray | None = None,
    ) -> None:
        self.search = search
        self.seed = seed
        self.n_views = n_views
        self.max_past_cases = max_past_cases
        self.order = order
        self._kept: tuple[NeighborTable, np.ndarray | None] | None = None

    @property
    def n_others(self) -> int:
        """How many rows a row has beside itself."""
        return len(self.search) - 1

    def rows(self, k: int, members: tuple[int, ...] | None) -> np.ndarray | None:
        """Numbers of the rows that are judged; None for all, in the order of their numbers."""
        places = rows_judged(
            self._n_cases, k, members, self.search.n_classes, self.n_views, max_past_cases=self.max_past_cases
        )
        return places if self.order is None else self.order if places is None else self.order[places]

    def keep(self, table: NeighborTable, rows: np.ndarray | None) -> None:
        """Remember the table of the rows that are judged: it serves every smaller k."""
        self._kept = table, rows
        if not self._leaves_some_out(rows):
            self._remember(table[lines_of(self.sample(), rows)])

    def judged(
        self, k: int, members: tuple[int, ...] | None, *, every_row: bool = False
    ) -> tuple[NeighborTable, np.ndarray | None]:
        """The leave-one-out table of the rows that are judged, and their numbers; None for all rows.

        ``every_row`` asks for all of them, however large the table.
        """
        if (
            self._kept is not None
            and _holds(self._kept[0], k, members)
            and not (every_row and self._leaves_some_out(self._kept[1]))
        ):
            table, rows = self._kept
            return table.first(k), rows
        rows = self.rows(k, members)
        if every_row and self._leaves_some_out(rows):
            rows = self.order if self._n_cases < len(self.search.labels) else None
            return self.search.leave_one_out(k, members, rows), rows  # too large to be kept
        self.keep(self.search.leave_one_out(k, members, rows), rows)
        assert self._kept is not None
        return self._kept

    def _leaves_some_out(self, rows: np.ndarray | None) -> bool:
        return rows is not None and len(rows) < self._n_cases

    @property
    def _n_cases(self) -> int:
        """How many rows can be asked as past cases."""
        return len(self.search.labels if self.order is None else self.order)

    def of_rows(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray) -> NeighborTable:
        """The leave-one-out table of these rows, looked up where the one kept has all of them."""
        if (np.diff(rows) < 0).any():  # rows that lie together are searched together
            by_number = np.argsort(rows, kind="stable")
            return self.of_rows(k, members, rows[by_number])[np.argsort(by_number, kind="stable")]
        kept = self._by_number
        if kept is not None and kept[0].n_neighbors >= k and _members_of(kept[0]) == members:
            places = np.minimum(np.searchsorted(kept[1], rows), len(kept[1]) - 1)
            if np.array_equal(kept[1][places], rows):
                return kept[0].first(k)[places]
            if len(rows) < len(kept[1]):
                return self.search.leave_one_out(k, members, rows)
        table = self.search.leave_one_out(k, members, rows)
        few = self.search.n_classes <= MANY_CLASSES  # of more, blocks are asked for once each
        if few and len(rows) and (np.diff(rows) > 0).all() and _bytes_of(table) <= KEPT_BYTES:
            self._by_number = table, rows
        return table

    def __getstate__(self) -> dict[str, Any]:
        """Without tables that are searched again, and without a sample that is in the table that is kept."""
        kept, sampled = self._kept, self._sampled_table
        again = {"_by_number"}
        if kept and sampled and kept[0].n_neighbors >= sampled.n_neighbors and not self._leaves_some_out(kept[1]):
            again.add("_sampled_table")
        return {name: value for name, value in vars(self).items() if name not in again}

    def sample(self) -> np.ndarray:
        """Numbers of the rows whose neighbors are remembered, in order."""
        return sample_of(self.search.live_numbers if self.order is None else self.order, self.seed)

    def sampled(self, k: int, members: tuple[int, ...] | None = None) -> NeighborTable:
        """The ``k`` nearest others of the sampled rows, or more of them; ``members`` asks for their classes too."""
        known = self._sampled_table
        if members is None and known is not None and known.n_neighbors >= k:
            return known
        if self._kept is not None and _holds(self._kept[0], k, members):
            table = self._with_the_rest(*self._kept, members)
        else:
            table = self.search.leave_one_out(k, members, self.sample())
        self._remember(table)
        return table

    def _with_the_rest(
        self, table: NeighborTable, rows: np.ndarray | None, members: tuple[int, ...] | None
    ) -> NeighborTable:
        """The sampled rows of the table that is kept; only those that are not among its rows are asked."""
        sample = self.sample()
        if not self._leaves_some_out(rows):
            return table[lines_of(sample, rows)]
        assert rows is not None
        if members is None or table.classes is None:
            table = NeighborTable(table.indices, table.distances)
        members_known = None if table.classes is None else table.classes.members
        judged = np.isin(sample, rows)
        rest = self.search.leave_one_out(table.n_neighbors, members_known, sample[~judged])
        both = joined([table[lines_of(sample[judged], rows)], rest])
        return both[np.argsort(np.concatenate([sample[judged], sample[~judged]]))]

    def others_of(self, rows: np.ndarray, k: int) -> NeighborTable:
        """The ``k`` nearest others of these rows, or more of them: looked up where all rows are sampled."""
        some_only_vote = self.order is not None and len(self.order) < len(self.search)
        if len(self.search) > SAMPLE_ABOVE or some_only_vote:
            return self.search.leave_one_out(k, rows=rows)
        return self.sampled(k)[np.searchsorted(self.sample(), rows)]

    def blocks(self, k: int) -> Iterator[tuple[np.ndarray, NeighborTable]]:
        """The neighbors of the rows asked, ``k`` ≤ ``n_others``, block by block, never held together."""
        sample, kept = self.sample(), []
        for rows, table in left_out_blocks(self.search, k, None if self.order is None else np.sort(self.order)):
            kept.append(table[np.isin(rows, sample)])
            yield rows, table
        self._remember(
            NeighborTable(
                np.concatenate([table.indices for table in kept]), np.concatenate([table.distances for table in kept])
            )
        )

    def _remember(self, table: NeighborTable) -> None:
        """Keep the neighbors of the sampled rows, without their classes."""
        if self._sampled_table is None or self._sampled_table.n_neighbors < table.n_neighbors:
            self._sampled_table = NeighborTable(table.indices, table.distances)


def put_in(p: np.ndarray, rows: np.ndarray | None, others: np.ndarray, of_others: np.ndarray) -> None:
    """Replace, in place, the lines about some of the other rows; line i of ``p`` is about ``rows[i]``, or row i."""
    places = np.arange(len(others)) if rows is None else np.flatnonzero(np.isin(others, rows))
    p[lines_of(others[places], rows)] = of_others[places]


def lines_of(wanted: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """The lines of a table that are about these rows, where line i is about ``rows[i]``, or row i."""
    if rows is None:
        return wanted
    by_number = np.argsort(rows)
    return by_number[np.searchsorted(rows, wanted, sorter=by_number)]


def _bytes_of(table: NeighborTable) -> float:
    """How much memory a table takes; infinitely much of what lies on a GPU."""
    if table.classes is None:
        return table.indices.nbytes + table.distances.nbytes
    if type(table.classes) is not NearestClasses:
        return math.inf
    return sum(array.nbytes for array in (table.indices, table.distances, *table.classes.arrays))


def _members_of(table: NeighborTable) -> tuple[int, ...] | None:
    return None if table.classes is None else table.classes.members


def _holds(table: NeighborTable, k: int, members: tuple[int, ...] | None) -> bool:
    """Whether a table has so many neighbors, and the means of these members of the classes."""
    known = _members_of(table)
    return table.n_neighbors >= k and (members is None or (known is not None and set(members) <= set(known)))
