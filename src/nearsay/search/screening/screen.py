"""Rule rows out by a matrix product, with a bound on what its rounding can do.

    rows ──► block ──► product with the queries ──► shortlist ──► candidates
              │       (8-bit, float32, …)               ▲
              └─ centered, scaled, rounded              └─ slack: how wrong two scores can be

Fast looks come first. A query for which a look leaves too many rows undecided
gets a finer or a wider one; ``bounds.py`` derives the slack that makes it certain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearsay.arrays import SINGLE_OR_DOUBLE, row_blocks, rows_within
from nearsay.parallel import in_parallel, shares
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds
from nearsay.search.screening.compact_view import CompactView
from nearsay.search.screening.prepared_rows import ROWS_AT_ONCE, Geometry, PlainView, PreparedView, View
from nearsay.search.screening.products import Float32Products, Int8Products, Products, fastest_products
from nearsay.search.screening.rough_scores import RoughScores

QUERIES_AT_ONCE = 512  # in one product
QUERIES_A_TASK = 1024  # a block of rows is prepared once for all of them
QUERY_BYTES = 32 << 20  # of them in all the forms that are made on the way, four times as float64
LISTED_AT_ONCE = 1 << 21  # places on the lists of a task: 16 MB
# Below this many queries the rows are taken as they are: preparing them would cost more than the product.
FEW_QUERIES = 32
# Up to this many products are computed and looked at in one go.
FEW_PRODUCTS = 1 << 18
# From this many on the fastest kind of product is worth finding out.
MANY_PRODUCTS = 1 << 22
# How many near ties a second look can hold before all rows are measured instead.
WIDE_LIST = 1024

COARSE_LIST = 2048
# Rows in eight bits are prepared in the time of some 20 passes over them, when so many have been asked for; and so
# often it is looked whether they are enough.
LOOK_EVERY = 4

NONE = np.empty(0, np.int64)


class Screen:
    """Proposes candidates by Euclidean form, and says which queries it cannot decide.

    ``products`` is how rows are multiplied; None takes the fastest there is
    when a search is large enough to notice.
    """

    def __init__(self, geometry: Geometry, products: Products | None = None) -> None:
        self._geometry = geometry
        self._plain = PlainView(geometry)
        self._fine = PreparedView(geometry, Float32Products())
        self._coarse = None if products is None else self._view_of(products)
        self._choose_coarse = products is None
        self._compact: CompactView | None = None
        # How often rough scores were asked for; −1 where eight bits are too few, or other products were asked for.
        self._n_rough = 0 if products is None or isinstance(products, Int8Products) else -1

    def with_rows(self, rows: HeldRows) -> Screen:
        """A screen for these rows, of which the first are those known already."""
        screen = self._at(self._geometry.with_rows(rows))
        screen._compact = None if self._compact is None else self._compact.with_rows(screen._geometry)
        return screen

    def without(self, rows: HeldRows, numbers: np.ndarray) -> Screen:
        """A screen for these rows, of which those of some numbers have been removed."""
        screen = self._at(self._geometry.without(rows, numbers))
        screen._compact = None if self._compact is None else self._compact.without(screen._geometry, numbers)
        return screen

    def restored(self, rows: HeldRows, numbers: np.ndarray) -> Screen:
        """A screen for these rows, of which those of some numbers are there again."""
        screen = self._at(self._geometry.restored(rows, numbers))
        screen._compact = None if self._compact is None else self._compact.restored(screen._geometry, numbers)
        return screen

    def _at(self, geometry: Geometry) -> Screen:
        screen = Screen(geometry, None if self._coarse is None else self._coarse.products)
        screen._choose_coarse, screen._n_rough = self._choose_coarse, self._n_rough
        return screen

    def candidates(self, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Candidates of every query, and the numbers of the queries that stay undecided."""
        rows = self._geometry.rows
        if self._geometry.plain and len(Q) * len(rows) <= FEW_PRODUCTS and len(rows.chunks()) == 1:
            found, any_undecided = self._glance(Q, k)
            if not any_undecided:
                return found, NONE
        found, undecided = np.full((len(Q), 1), -1, np.int64), np.arange(len(Q))
        for view, length in self._looks(len(Q), k):
            again = look(view, Q[undecided], k, length)
            found = again if len(undecided) == len(Q) else join_looks(found, undecided, again)
            before, undecided = len(undecided), np.flatnonzero(found[:, 0] < 0)
            if view is self._coarse and len(undecided) > before / 4:  # other threads may come to the same conclusion
                self._coarse = None  # these rows lie too close for so few digits
            if not len(undecided):
                break
        return found, undecided

    def rough_scores(self, Q: np.ndarray) -> RoughScores:
        """Scores of all rows for a few queries, and how far they can be off."""
        geometry, n_rows = self._geometry, len(self._geometry.rows)
        if self._n_rough >= 0:
            self._n_rough += 1
            if self._compact is None and self._n_rough % LOOK_EVERY == 0 and CompactView.serves(geometry):
                self._compact = CompactView(geometry)
        compact = self._compact
        if compact is not None:
            found = RoughScores.of(compact, Q, n_rows, geometry.scale)
            if self._n_rough % LOOK_EVERY or found.tell_apart:
                return found
            self._compact, self._n_rough = None, -1
        if geometry.plain:
            return RoughScores.of(self._plain, Q, n_rows, 1.0)
        return RoughScores.of(self._fine, Q, n_rows, geometry.scale)

    def _looks(self, n_queries: int, k: int) -> Iterator[tuple[View, int]]:
        """What to look at for these queries, and how long a list to keep, until all are decided."""
        from nearsay.search.screening.shortlist_kernels import list_length

        length = list_length(k)
        if n_queries * len(self._geometry.rows) >= MANY_PRODUCTS and self._choose_coarse:
            self._coarse = self._view_of(fastest_products(len(self._geometry.center)))
            self._choose_coarse = False
        coarse = self._coarse
        if n_queries < FEW_QUERIES and self._geometry.plain:
            yield self._plain, length
        elif coarse is not None:
            # Fewer digits leave more rows undecided, and measuring them is still the smaller part.
            yield coarse, 4 * length + COARSE_LIST
        elif self._plain.serves:
            yield self._plain, length
        yield self._fine, length
        yield self._fine, length + WIDE_LIST

    def _glance(self, Q: np.ndarray, k: int) -> tuple[np.ndarray, bool]:
        """``look`` for a handful of queries and rows, where setting up would take longer than the product."""
        from nearsay.search.screening.shortlist_kernels import any_longer, list_length, shortlist

        geometry, bound = self._geometry, self._plain.bound
        if Q.dtype.char in SINGLE_OR_DOUBLE and any_longer(Q, bounds.farthest(geometry.plain_radius)):
            return Q[:0], True
        rows = geometry.rows.items
        queries = Q.astype(rows.dtype, copy=False)
        products = np.dot(queries, rows.T)  # sooner called than @
        found: tuple[np.ndarray, bool] = shortlist(
            queries,
            products,
            geometry.half_norms.values,
            (bound.constant, bound.linear, bound.quadratic),
            k,
            list_length(k),
        )
        return found

    def _view_of(self, products: Products) -> PreparedView | None:
        """A coarse view for these products; None where they are float32, which the fine view has, or rows too wide."""
        if not products.kept_bytes or len(self._geometry.center) > products.most_columns:
            return None
        return PreparedView(self._geometry, products)


def look(view: View, Q: np.ndarray, k: int, length: int) -> np.ndarray:
    """One pass over all rows for these queries, in threads: candidates; a query that stays undecided has none."""
    from nearsay.search.screening.shortlist_kernels import Shortlists

    products = view.products

    def task(queries: slice) -> np.ndarray:
        exact, lengths = view.prepare(Q[queries])
        parts = [(part, *products.prepare(exact[part])) for part in row_blocks(len(exact), size=QUERIES_AT_ONCE)]
        slack = view.slack(lengths, np.concatenate([errors for _, _, errors in parts]), Q[queries])
        rows_at_once = max(ROWS_AT_ONCE, (1 << 18) // len(exact))
        space = np.empty(min(QUERIES_AT_ONCE, len(exact)) * rows_at_once, exact.dtype)
        lists = Shortlists(slack, k, length, exact.dtype)
        with products.on_one_thread():
            for first, rows, half_norms in view.blocks(rows_at_once):
                for part, several, _ in parts:
                    out = space[: len(several) * len(rows)].reshape(len(several), len(rows))
                    products.into(several, rows, out)
                    lists.see_products(part, out, half_norms, first)
        return lists.finish()

    if len(Q) < FEW_QUERIES:
        return task(slice(0, len(Q)))
    most = rows_within(QUERY_BYTES, 32 * Q.shape[1], most=min(QUERIES_A_TASK, LISTED_AT_ONCE // length))
    return stack_looks(in_parallel(task, shares(len(Q), most=most)))


def stack_looks(looks: list[np.ndarray]) -> np.ndarray:
    """Candidate tables of different queries, filled up with −1 to one width."""
    width = max(look.shape[1] for look in looks)
    out = np.full((sum(len(look) for look in looks), width), -1, np.int64)
    start = 0
    for look in looks:
        out[start : start + len(look), : look.shape[1]] = look
        start += len(look)
    return out


def join_looks(found: np.ndarray, queries: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Put a second look at some of the queries in place of the first."""
    if again.shape[1] > found.shape[1]:
        found = np.pad(found, ((0, 0), (0, again.shape[1] - found.shape[1])), constant_values=-1)
    found[queries] = -1
    found[queries, : again.shape[1]] = again
    return found
