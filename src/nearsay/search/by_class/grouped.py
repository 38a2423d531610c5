"""Rows in order of their class: one pass finds the nearest of all and the nearest of each class.

    rows by class ──► block ──► product with the queries ─┬─► best of all ────────┬─► narrowed ──► candidates
                             (8-bit, float32)             └─► best of each class ─┘   (float32)

``screening/bounds.py`` says which rows must be kept; the compiled passes are in ``stretch_kernels.py``.
8-bit products leave many more rows undecided than are wanted, so these are scored
once more in float32 before anything is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.arrays import row_blocks
from nearsay.distances.distance import Distance
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import screen
from nearsay.search.screening.prepared_rows import KEEP_UP_TO, ROWS_AT_ONCE, Geometry, PreparedView
from nearsay.search.screening.products import Float32Products, fastest_products
from nearsay.search.screening.screen import join_looks

# Not a power of two, as ROWS_AT_ONCE.
QUERIES_AT_ONCE = 240
# Times the members wanted are listed at most: 8-bit products can tell fewer rows apart.
ROOM, COARSE_ROOM = 2, 16
LISTED_AT_ONCE = 1 << 20  # places on the lists of a task: 8 MB
EVERY_CLASS = 1 << 62


@dataclass(frozen=True)
class Wanted:
    """What is searched for: the ``k`` nearest of all rows (0: none), and members of each class.

    ``members`` are the numbers whose means are told, so the last of them nearest
    members are needed; none where the order of the classes is enough. With
    ``n_near`` it is enough to find them for that many nearest classes, and the
    nearest member of every other.
    """

    k: int
    members: tuple[int, ...]
    n_near: int = EVERY_CLASS

    @property
    def n_members(self) -> int:
        return self.members[-1] if self.members else 0


@dataclass(frozen=True)
class Found:
    """Row numbers that hold what is wanted (−1 fills up), but not those of an undecided query.

    Attributes
    ----------
    nearest : (n_queries, at least k) int64
    members : (n_queries, n_listed) int64
    undecided : (n_undecided,) int64
        Numbers of those queries.
    """

    nearest: np.ndarray
    members: np.ndarray
    undecided: np.ndarray


class GroupedRows:
    """The rows that a collection holds now, by class, ready to be multiplied.

    ``labels`` gives the class number of every row number.
    """

    def __init__(self, distance: Distance, rows: HeldRows, labels: np.ndarray) -> None:
        live = rows.live_numbers
        self.order = live[np.argsort(labels[live], kind="stable")]
        self.labels = labels[self.order]
        self._label_of, self._no_labels = labels, np.zeros_like(labels)
        self.place = np.full(len(rows), -1, np.int64)  # of every row number in that order
        self.place[self.order] = np.arange(len(live))
        self._sizes = np.bincount(self.labels)
        self.rows = rows
        self._geometry = Geometry(distance, rows)
        self._fine = PreparedView(self._geometry, Float32Products(), self.order)
        self._coarse = self._coarse_view()
        self._rows: tuple[np.ndarray, np.ndarray] | None = None

    def _coarse_view(self) -> PreparedView | None:
        """A view with faster products than float32, if they pay: its candidates are scored once more in float32."""
        n_rows, n_columns = len(self.order), len(self._geometry.center)
        if n_rows**2 < screen.MANY_PRODUCTS or 4 * n_rows * n_columns > KEEP_UP_TO:
            return None
        fastest = fastest_products(n_columns)
        return PreparedView(self._geometry, fastest, self.order) if fastest.kept_bytes else None

    def room(self, wanted: Wanted, times: int) -> int:
        """Places for the members on a list: more than those wanted, for rows that cannot be told from them."""
        return int(times * np.minimum(self._sizes, max(1, wanted.n_members)).sum()) + 64

    def queries_at_once(self, wanted: Wanted) -> int:
        """How many queries to search together."""
        times = ROOM if self._coarse is None else COARSE_ROOM
        listed = LISTED_AT_ONCE // (self.room(wanted, times) + 4 * wanted.k)
        return max(1, min(self.rows.block_size(QUERIES_AT_ONCE), listed))

    def candidates(self, Q: np.ndarray, left_out: np.ndarray, wanted: Wanted) -> Found:
        """Find what is wanted; ``left_out`` gives the row number of each query in the collection, or is empty."""
        coarse = self._coarse
        if coarse is None:
            return self._look(self._fine, Q, left_out, wanted)
        found = self._narrowed(Q, self._look(coarse, Q, left_out, wanted), wanted)
        again = found.undecided
        if not len(again):
            return found
        if len(again) > len(Q) / 4:
            self._coarse = None  # these rows lie too close for so few digits, as other threads may find too
        second = self._look(self._fine, Q[again], left_out[again] if len(left_out) else left_out, wanted)
        return Found(
            join_looks(found.nearest, again, second.nearest) if wanted.k else found.nearest,
            join_looks(found.members, again, second.members),
            again[second.undecided],
        )

    def _narrowed(self, Q: np.ndarray, found: Found, wanted: Wanted) -> Found:
        """Drop the candidates that float32 scores rule out."""
        from nearsay.search.by_class.stretch_kernels import narrow

        queries, slack = self.prepared(Q)
        finer = queries, *self.prepared_rows(), self.place
        n_nearest = narrow(found.nearest, *finer, self._no_labels, wanted.k, slack) if wanted.k else 0
        n_members = narrow(found.members, *finer, self._label_of, wanted.n_members, slack)
        return Found(found.nearest[:, :n_nearest], found.members[:, :n_members], found.undecided)

    def prepared_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows in order, in float32, and half their squared norms."""
        if self._rows is None:
            rows = np.empty((len(self.order), len(self._geometry.center)), np.float32)
            half_norms = np.empty(len(rows), np.float32)
            for part in row_blocks(len(rows), size=self.rows.block_size(len(rows))):
                self._fine.center(self.rows.take(self.order[part]), rows[part], half_norms[part])
            self._rows = rows, half_norms
        return self._rows

    def prepared(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Queries as they are multiplied in float32, and how far apart two scores must be to be certain."""
        queries, lengths = self._fine.prepare(Q)
        return queries, self._fine.slack(lengths, np.zeros(len(Q)), Q)

    def _look(self, view: PreparedView, Q: np.ndarray, left_out: np.ndarray, wanted: Wanted) -> Found:
        exact, lengths = view.prepare(Q)
        queries, errors = view.products.prepare(exact)
        lists = _Lists(self, view.slack(lengths, errors, Q), left_out, wanted, coarse=view is self._coarse)
        space = np.empty(ROWS_AT_ONCE * len(Q), np.float32)  # blocks are as large, or smaller
        with view.products.on_one_thread():
            for first, rows, half_norms in view.blocks(ROWS_AT_ONCE):
                products = space[: len(rows) * len(Q)].reshape(len(rows), len(Q))
                view.products.into(rows, queries, products)
                lists.see(products, half_norms, first)
        return lists.finish()


class _Lists:
    """The candidates of some queries so far."""

    def __init__(
        self, rows: GroupedRows, slack: np.ndarray, left_out: np.ndarray, wanted: Wanted, *, coarse: bool
    ) -> None:
        from nearsay.search.screening.shortlist_kernels import Shortlists, list_length

        n = len(slack)
        self._rows = rows
        self._slack = slack
        self._own_places = rows.place[left_out]
        length = list_length(wanted.k)
        if coarse:
            length = 4 * length + screen.COARSE_LIST
        self._nearest = Shortlists(slack, wanted.k, length, np.float32) if wanted.k else None
        self._members = np.empty((n, rows.room(wanted, COARSE_ROOM if coarse else ROOM) + 1), np.int64)
        self._counts = np.zeros(n, np.int64)
        self._bounds = np.full(n, np.inf, np.float32)
        self._best = np.empty((wanted.n_members + 1, n), np.float32)
        self._places = np.empty((wanted.n_members + 1, n), np.int32)

    def see(self, products: np.ndarray, half_norms: np.ndarray, first: int) -> None:
        """Look at the products (rows × queries) of the rows at places ``first …``."""
        from nearsay.search.by_class.stretch_kernels import best_of_all, best_of_classes

        places = slice(first, first + len(products))
        here = np.flatnonzero((self._own_places >= places.start) & (self._own_places < places.stop))
        products[self._own_places[here] - first, here] = -np.inf  # each query's own row is out of reach
        numbers, labels = self._rows.order[places], self._rows.labels[places]
        if self._nearest is not None:
            best_of_all(products, half_norms, numbers, self._nearest.k, *self._nearest.state(slice(None)))
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

    def finish(self) -> Found:
        width = max(1, int(self._counts.max(initial=0)))
        members = self._members[:, :width]
        members[np.arange(width) >= self._counts[:, None]] = -1
        undecided = self._counts == self._members.shape[1] - 1
        if self._nearest is None:
            return Found(members[:, :0], members, np.flatnonzero(undecided))
        nearest = self._nearest.finish()
        return Found(nearest, members, np.flatnonzero(undecided | self._nearest.crowded))
