"""Rows in order of their class: one pass finds the nearest of all and the nearest of each class.

    rows by class ──► block ──► product with the queries ─┬─► best of all ────────┬─► narrowed ──► candidates
                             (8-bit, float32)             └─► best of each class ─┘   (float32)

``screening/bounds.py`` proves which rows must be kept; the compiled passes are in ``class_score_kernels.py``. 8-bit
products leave many more rows undecided than are wanted, so these are scored once more in float32 before any is
measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.distances.distance import Distance
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import screen
from nearsay.search.screening.candidate_tables import replace_lines
from nearsay.search.screening.prepared_rows import KEEP_UP_TO, ROWS_AT_ONCE, Geometry, PreparedView
from nearsay.search.screening.products import Float32Products, Int8Products, fastest_products

if TYPE_CHECKING:
    from nearsay.search.screening.shortlist_kernels import Shortlists

# Not a power of two, as ROWS_AT_ONCE.
QUERIES_AT_ONCE = 240
# Room of a list, in times the members wanted: 8-bit products can tell fewer rows apart.
ROOM, COARSE_ROOM = 2, 16
LISTED_AT_ONCE = 1 << 20  # places on the lists of a task: 8 MB
# Queries searched together for the nearest of each class: more share the work of fetching rows.
QUERIES_BY_CLASS = 480

# 8-bit products leave more rows to score again, some in each class, so they pay where rows hold so many numbers: times
# as fast as float32, on a Xeon with VNNI, for the order of the classes and means of 1 and 4 members:
#     60,000×784 in 10 classes 1.6    100,000×128 in 10 1.2    20,000×256 in 10 1.0     20,000×128 in 100 .85
#     50,000×512 in 100        1.5                  in 100 1.0     5,000×16 in 10 .65   10,000×784 in 500 .71
WORTH_8_BITS, WORTH_8_BITS_A_CLASS = 10_000_000, 50_000

# Takes queries (by number), a block of places in the order of classes, and candidates in it for each, padded with −1.
Measure = Callable[[np.ndarray, slice, np.ndarray], None]


@dataclass(frozen=True)
class RowCandidates:
    """Row numbers that include the nearest, padded with −1; meaningless for an undecided query.

    nearest : (n_queries, at least k) int64, the nearest of all rows.
    members : (n_queries, n_listed) int64, the nearest members of each class.
    undecided : (n_undecided,) int64, numbers of those queries.
    """

    nearest: np.ndarray
    members: np.ndarray
    undecided: np.ndarray


class GroupedRows:
    """The live rows of a collection, by class, ready to be multiplied.

    ``labels`` are the class numbers of all rows; ``products`` as in ``ExactSearch``.
    """

    def __init__(self, distance: Distance, rows: HeldRows, labels: np.ndarray, products: str = "auto") -> None:
        live = rows.live_numbers
        self.order = live[np.argsort(labels[live], kind="stable")]
        self.labels = labels[self.order]
        self.label_of, self._no_labels = labels, np.zeros_like(labels)
        self.place = np.full(len(rows), -1, np.int64)  # of every row number in that order
        self.place[self.order] = np.arange(len(live))
        self._sizes = np.bincount(self.labels)
        self._n_held: dict[int, int] = {}  # how many members there are, if so many of each class are wanted
        self.rows = rows
        self.geometry = Geometry(distance, rows)
        self._fine = PreparedView(self.geometry, Float32Products(), self.order)
        self._coarse = self._coarse_view(products)
        self._rows: tuple[np.ndarray, np.ndarray] | None = None
        self._views: dict[int, PreparedView] = {}  # of single classes, by the place where they start

    def _coarse_view(self, products: str) -> PreparedView | None:
        """A view with 8-bit products, if they pay ("auto"); its candidates are scored once more in float32."""
        n_columns = len(self.geometry.center)
        numbers = len(self.order) * n_columns
        pays = numbers >= WORTH_8_BITS + WORTH_8_BITS_A_CLASS * np.count_nonzero(self._sizes)
        if products == "auto" and pays and 4 * numbers <= KEEP_UP_TO and fastest_products(n_columns).kept_bytes:
            products = "int8"
        eight_bits = Int8Products()
        if products != "int8" or n_columns > eight_bits.most_columns:
            return None
        return PreparedView(self.geometry, eight_bits, self.order)

    def room(self, n_members: int, times: int) -> int:
        """Places for the members on a list: more than those wanted, for rows that cannot be told from them."""
        if n_members not in self._n_held:
            self._n_held[n_members] = int(np.minimum(self._sizes, n_members).sum())
        return times * self._n_held[n_members] + 64

    # ------------------------------------------------------------ the nearest of all, and the nearest of each class

    @property
    def queries_by_class(self) -> int:
        """How many queries to search together for the nearest of each class."""
        return self.rows.block_size(QUERIES_BY_CLASS)

    def nearest_of_classes(
        self, Q: np.ndarray, left_out: np.ndarray, k: int, measure: Measure
    ) -> tuple[np.ndarray, np.ndarray]:
        """Call ``measure`` with all rows that may be the nearest of their class, block by block.

        Block by block, so that rows, queries and scores are in the cache. ``left_out`` is the row that each query is,
        or empty. Gives row numbers that include the ``k`` nearest of all, padded with −1, and the numbers of the
        undecided queries, for which ``measure`` may have missed some.
        """
        everyone = np.arange(len(Q))
        coarse = self._coarse
        if coarse is None:
            return self._pass_by_class(self._fine, Q, left_out, k, everyone, measure)
        listed, again = self._pass_by_class(coarse, Q, left_out, k, everyone, measure)
        if len(again) > len(Q) / 4:
            self._coarse = None  # these rows lie too close for eight bits; other threads may find the same
        if k:
            from nearsay.neighbors.by_class.class_score_kernels import narrow

            queries, slack = self.prepared(Q)
            listed = listed[:, : narrow(listed, queries, *self.prepared_rows(), self.place, self._no_labels, k, slack)]
        if len(again):
            itself = left_out[again] if len(left_out) else left_out
            second, undecided = self._pass_by_class(self._fine, Q[again], itself, k, again, measure)
            return replace_lines(listed, again, second) if k else listed, again[undecided]
        return listed, again

    def _pass_by_class(
        self, view: PreparedView, Q: np.ndarray, left_out: np.ndarray, k: int, lines: np.ndarray, measure: Measure
    ) -> tuple[np.ndarray, np.ndarray]:
        from nearsay.neighbors.by_class.class_score_kernels import (
            as_listed,
            best_of_all,
            nearest_by_finer_scores,
            nearest_of_stretches,
        )
        from nearsay.search.screening.shortlist_kernels import Shortlists, list_length

        exact, lengths = view.prepare(Q)
        queries, errors = view.products.prepare(exact)
        slack = view.slack(lengths, errors, Q)
        coarse = view is not self._fine
        length = list_length(k)
        lists = Shortlists(slack, k, 4 * length + screen.COARSE_LIST if coarse else length, np.float32)
        slacks = [_rounded_up(slack)]
        if coarse:
            finer_queries, finer_slack = self.prepared(Q)
            slacks += [_rounded_up((slack + finer_slack) / 2), _rounded_up(finer_slack)]
        query_rows, full = _QueryRows(self.place[left_out]), np.zeros(len(Q), np.bool_)
        space = np.empty(ROWS_AT_ONCE * len(Q), np.float32)  # blocks are as large, or smaller
        lowest_space = np.empty((max(len(stops) for stops, _ in self._groups), len(Q)), np.float32)
        most = max(len(firsts) for _, firsts in self._groups)
        listed = np.empty((len(Q), COARSE_ROOM * most + 65), np.int64)
        for (first, rows, half_norms), (stops, firsts) in zip(view.blocks(ROWS_AT_ONCE), self._groups, strict=True):
            products = space[: len(rows) * len(Q)].reshape(len(rows), len(Q))
            view.products.into(rows, queries, products)
            query_rows.take_out(products, first)
            lowest, scored = lowest_space[: len(stops)], (products, half_norms, stops)
            here = slice(first, first + len(rows))
            room, counts = COARSE_ROOM * (len(firsts) - 1) + 64, np.zeros(len(Q), np.int64)
            lists_here = listed[:, : room + 1], counts
            if coarse:
                finer = finer_queries, *(part[here] for part in self.prepared_rows())
                nearest_by_finer_scores(*scored, firsts, lowest, tuple(slacks), *finer, *lists_here)
            else:
                nearest_of_stretches(*scored, firsts, lowest, slacks[0], *lists_here)
            full |= counts == room
            if k:
                best_of_all(*scored, lowest, self.order[here], k, *lists.state(slice(None)))
            measure(lines, here, as_listed(*lists_here))
        return lists.finish(), np.flatnonzero(full | lists.crowded)

    @cached_property
    def _groups(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every block, where groups of lines of one class end, and which group is the first of each class."""
        from nearsay.neighbors.by_class.class_score_kernels import LINES_BY_CLASS

        return [
            _cut(self.labels[part], LINES_BY_CLASS)
            for part in row_blocks(len(self.order), size=self.rows.block_size(ROWS_AT_ONCE))
        ]

    # ------------------------------------------------------------ several members of each class, on one list

    def queries_at_once(self, k: int, n_members: int) -> int:
        """How many queries to search together."""
        times = ROOM if self._coarse is None else COARSE_ROOM
        listed = LISTED_AT_ONCE // (self.room(n_members, times) + 4 * k)
        return max(1, min(self.rows.block_size(QUERIES_AT_ONCE), listed))

    def candidates(self, Q: np.ndarray, left_out: np.ndarray, k: int, n_members: int) -> RowCandidates:
        """Rows that include the ``k`` nearest of all, and the nearest ``n_members`` of each class."""
        coarse = self._coarse
        if coarse is None:
            return self._pass(self._fine, Q, left_out, k, n_members)
        listed = self._narrowed(Q, self._pass(coarse, Q, left_out, k, n_members), k, n_members)
        again = listed.undecided
        if not len(again):
            return listed
        if len(again) > len(Q) / 4:
            self._coarse = None  # these rows lie too close for eight bits; other threads may find the same
        second = self._pass(self._fine, Q[again], left_out[again] if len(left_out) else left_out, k, n_members)
        return RowCandidates(
            replace_lines(listed.nearest, again, second.nearest) if k else listed.nearest,
            replace_lines(listed.members, again, second.members),
            again[second.undecided],
        )

    def _narrowed(self, Q: np.ndarray, listed: RowCandidates, k: int, n_members: int) -> RowCandidates:
        """Drop the candidates that float32 scores rule out."""
        from nearsay.neighbors.by_class.class_score_kernels import narrow

        queries, slack = self.prepared(Q)
        finer = queries, *self.prepared_rows(), self.place
        n_nearest = narrow(listed.nearest, *finer, self._no_labels, k, slack) if k else 0
        width = narrow(listed.members, *finer, self.label_of, n_members, slack)
        return RowCandidates(listed.nearest[:, :n_nearest], listed.members[:, :width], listed.undecided)

    # ------------------------------------------------------------ one class

    def nearest_among(self, Q: np.ndarray, places: slice, k: int) -> np.ndarray:
        """Row numbers that include the ``k`` nearest of the rows at these places, padded with −1; all −1 if undecided.

        There must be at least ``k`` such rows. What is prepared for them is kept.
        """
        from nearsay.search.screening.shortlist_kernels import list_length

        order, coarse, length = self.order[places], self._coarse, list_length(k)
        fine = PreparedView(self.geometry, self._fine.products, order)
        if coarse is None:
            listed = screen.candidates_from(self._views.setdefault(places.start, fine), Q, k, length)
        else:
            view = self._views.setdefault(places.start, PreparedView(self.geometry, coarse.products, order))
            listed = screen.candidates_from(view, Q, k, 4 * length + screen.COARSE_LIST)
            again = np.flatnonzero(listed[:, 0] < 0)
            if len(again):
                listed = replace_lines(listed, again, screen.candidates_from(fine, Q[again], k, length))
        return np.where(listed >= 0, order[listed], -1)

    def rows_at(self, places: slice) -> np.ndarray:
        """The rows at these places in the order of classes, as the collection holds them."""
        if self._in_order is not None:
            return self._in_order[places]
        return self.rows.take(self.order[places])

    @cached_property
    def _in_order(self) -> np.ndarray | None:
        """A copy of all rows in order, where that takes little memory: they are fetched for every block of queries."""
        if self.rows.items.nbytes > KEEP_UP_TO:
            return None
        return self.rows.take(self.order)

    def prepared_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows in order, in float32, and half their squared norms."""
        if self._rows is None:
            rows = np.empty((len(self.order), len(self.geometry.center)), np.float32)
            half_norms = np.empty(len(rows), np.float32)
            for part in row_blocks(len(rows), size=self.rows.block_size(len(rows))):
                self._fine.center(self.rows.take(self.order[part]), rows[part], half_norms[part])
            self._rows = rows, half_norms
        return self._rows

    def prepared(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Queries as they are multiplied in float32, and their slack."""
        queries, lengths = self._fine.prepare(Q)
        return queries, self._fine.slack(lengths, np.zeros(len(Q)), Q)

    def _pass(self, view: PreparedView, Q: np.ndarray, left_out: np.ndarray, k: int, n_members: int) -> RowCandidates:
        exact, lengths = view.prepare(Q)
        queries, errors = view.products.prepare(exact)
        lists = _Lists(self, view.slack(lengths, errors, Q), left_out, k, n_members, coarse=view is not self._fine)
        space = np.empty(ROWS_AT_ONCE * len(Q), np.float32)  # blocks are as large, or smaller
        for first, rows, half_norms in view.blocks(ROWS_AT_ONCE):
            products = space[: len(rows) * len(Q)].reshape(len(rows), len(Q))
            view.products.into(rows, queries, products)
            lists.add(products, half_norms, first)
        return lists.finish()


def list_best_of_all(products: np.ndarray, half_norms: np.ndarray, numbers: np.ndarray, lists: Shortlists) -> None:
    """Add to the lists what can be among the nearest of all; ``numbers`` are the row numbers of the products' lines."""
    from nearsay.neighbors.by_class.class_score_kernels import best_of_all_lines

    best_of_all_lines(products, half_norms, numbers, lists.k, *lists.state(slice(None)))


def _rounded_up(slack: np.ndarray) -> np.ndarray:
    """In float32, so that adding it there keeps what float64 would."""
    return np.nextafter(slack.astype(np.float32), np.float32(np.inf))


class _QueryRows:
    """The place of each query in the order of rows, −1 for none; empty where no query is a row."""

    def __init__(self, places: np.ndarray) -> None:
        self._queries = np.argsort(places, kind="stable")
        self._places = places[self._queries]

    def take_out(self, products: np.ndarray, first: int) -> None:
        """Set the product of each query with its own row to −inf, in these products of rows ``first …``."""
        if not len(self._places):
            return
        here = slice(*np.searchsorted(self._places, [first, first + len(products)]))
        products[self._places[here] - first, self._queries[here]] = -np.inf


def _cut(labels: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Where groups of at most so many lines of one class end, and which group is the first of each class.

    >>> _cut(np.array([0, 0, 0, 2]), most=2)
    (array([2, 3, 4]), array([0, 2, 3]))
    """
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    sizes = np.diff(starts, append=len(labels))
    n_groups = -(-sizes // most)
    firsts = np.concatenate([[0], n_groups.cumsum()])
    within = np.arange(firsts[-1]) - np.repeat(firsts[:-1], n_groups) + 1
    stops = np.repeat(starts, n_groups) + np.minimum(within * most, np.repeat(sizes, n_groups))
    return stops, firsts


class _Lists:
    """The candidates of some queries so far."""

    def __init__(
        self, rows: GroupedRows, slack: np.ndarray, left_out: np.ndarray, k: int, n_members: int, *, coarse: bool
    ) -> None:
        from nearsay.search.screening.shortlist_kernels import Shortlists, list_length

        n = len(slack)
        length = list_length(k)
        self._nearest = Shortlists(slack, k, 4 * length + screen.COARSE_LIST if coarse else length, np.float32)
        self._rows = rows
        self._slack = slack
        self._query_rows = _QueryRows(rows.place[left_out])
        self._members = np.empty((n, rows.room(n_members, COARSE_ROOM if coarse else ROOM) + 1), np.int64)
        self._counts = np.zeros(n, np.int64)
        self._bounds = np.full(n, np.inf, np.float32)
        self._best = np.empty((n_members + 1, n), np.float32)
        self._places = np.empty((n_members + 1, n), np.int32)

    def add(self, products: np.ndarray, half_norms: np.ndarray, first: int) -> None:
        """Add candidates from the products (rows × queries) of the rows at places ``first …``."""
        from nearsay.neighbors.by_class.class_score_kernels import best_of_classes

        self._query_rows.take_out(products, first)
        places = slice(first, first + len(products))
        numbers, labels = self._rows.order[places], self._rows.labels[places]
        if self._nearest.k:
            list_best_of_all(products, half_norms, numbers, self._nearest)
        if first == 0 or self._rows.labels[first - 1] != labels[0]:
            self._bounds[:] = np.inf
        best_of_classes(
            products,
            half_norms,
            numbers,
            labels,
            self._bounds,
            self._slack,
            self._best,
            self._places,
            self._members,
            self._counts,
        )

    def finish(self) -> RowCandidates:
        width = max(1, int(self._counts.max(initial=0)))
        members = self._members[:, :width]
        members[np.arange(width) >= self._counts[:, None]] = -1
        full = self._counts == self._members.shape[1] - 1
        return RowCandidates(self._nearest.finish(), members, np.flatnonzero(full | self._nearest.crowded))
