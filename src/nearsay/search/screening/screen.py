"""Rule rows out by a matrix product, with a bound on what its rounding can do.

    rows ──► block ──► product with the queries ──► shortlist ──► candidates
              │       (8-bit, float32, …)               ▲
              └─ centered, scaled, rounded              └─ slack: how wrong two scores can be

Fast looks come first. A query for which a look leaves too many rows undecided
gets a finer or a wider one; ``bounds.py`` derives the slack that makes it certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from nearsay.core.arrays import LARGEST_VALUE, row_blocks, rows_within
from nearsay.core.parallel import in_parallel, shares
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds
from nearsay.search.screening.candidate_tables import join_looks, stack_looks
from nearsay.search.screening.packed_rows import PackedRows
from nearsay.search.screening.prepared_rows import ROWS_AT_ONCE, Geometry, PlainView, PreparedView, RowsForProducts
from nearsay.search.screening.products import Float32Products, fastest_products
from nearsay.search.screening.rough_scores import RoughScores
from nearsay.search.screening.tiles import tile_families

QUERIES_AT_ONCE = 512  # in one product
QUERIES_A_TASK = 1024  # a block of rows is prepared once for all of them
QUERY_BYTES = 32 << 20  # of them in all the forms that are made on the way, four times as float64
LISTED_AT_ONCE = 1 << 21  # places on the lists of a task: 16 MB
# Below this many queries the rows are taken as they are: preparing them would cost more than the product.
FEW_QUERIES = 32
# Up to this many products are computed and looked at in one go.
FEW_PRODUCTS = 1 << 18
# Up to so many queries, and numbers in all rows, a loop multiplies them sooner than BLAS.
BY_LOOP, NUMBERS_BY_LOOP = 2, 1 << 18
# From this many on the fastest kind of product is worth finding out.
MANY_PRODUCTS = 1 << 22
# How many near ties a second look can hold before all rows are measured instead.
WIDE_LIST = 1024

COARSE_LIST = 2048
# Fewer numbers are soon multiplied as they are.
FEWEST_NUMBERS = 1 << 20
# Rows in eight bits are prepared in the time of some 20 passes over them, when so many have been asked for; and so
# often it is looked whether they are enough.
LOOK_EVERY = 4

NONE = np.empty(0, np.int64)


class Screen:
    """Proposes candidates by Euclidean form, and says which queries it cannot decide.

    ``products`` is how rows are multiplied: "float32", "int8", or "auto" for the
    faster of them when a search is large enough to notice.
    """

    def __init__(self, geometry: Geometry, products: str = "auto") -> None:
        self._geometry = geometry
        self._plain = PlainView(geometry)
        self._fine = PreparedView(geometry, Float32Products())
        # Rows in eight bits, once they have been asked for often enough or in great numbers; and whether they may be.
        self._packed: PackedRows | None = None
        self._in_eight_bits = {"int8": True, "float32": False}.get(products)
        self._n_rough = 0  # how often rough scores were asked for

    def with_rows(self, rows: HeldRows) -> Screen:
        """A screen for these rows, of which the first are those known already."""
        screen = self._at(self._geometry.with_rows(rows))
        screen._packed = None if self._packed is None else self._packed.with_rows(screen._geometry)
        return screen

    def without(self, rows: HeldRows, numbers: np.ndarray) -> Screen:
        """A screen for these rows, of which those of some numbers have been removed."""
        screen = self._at(self._geometry.without(rows, numbers))
        screen._packed = None if self._packed is None else self._packed.without(screen._geometry, numbers)
        return screen

    def restored(self, rows: HeldRows, numbers: np.ndarray) -> Screen:
        """A screen for these rows, of which those of some numbers are there again."""
        screen = self._at(self._geometry.restored(rows, numbers))
        screen._packed = None if self._packed is None else self._packed.restored(screen._geometry, numbers)
        return screen

    def _at(self, geometry: Geometry) -> Screen:
        screen = Screen(geometry)
        screen._in_eight_bits, screen._n_rough = self._in_eight_bits, self._n_rough
        return screen

    def candidates(self, Q: np.ndarray, k: int, *, narrow: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Candidates of every query, and the numbers of the queries that stay undecided.

        Where that is quickly done, sums of squares ``narrow`` them down to few more than k.
        """
        seen = self._glance(Q, k)
        if seen is not None:
            return seen, NONE
        found, undecided = np.full((len(Q), 1), -1, np.int64), np.arange(len(Q))
        for looks in self._looks(len(Q), k):
            again = looks(Q[undecided])
            found = again if len(undecided) == len(Q) else join_looks(found, undecided, again)
            before, undecided = len(undecided), np.flatnonzero(found[:, 0] < 0)
            if looks.func is PackedRows.look:
                found = self._narrowed(Q, found, k) if narrow else found
                if len(undecided) > before / 4:
                    self._too_close()
            if not len(undecided):
                break
        return found, undecided

    def _narrowed(self, Q: np.ndarray, found: np.ndarray, k: int) -> np.ndarray:
        """The candidates less those that a quick sum of squares rules out."""
        from nearsay.search.screening.narrowing_kernels import keep_nearest, squares

        rows = self._geometry.rows
        if not self._geometry.as_is or Q.dtype != rows.items.dtype or found.shape[1] <= k:
            return found
        roughly = np.empty(found.shape, Q.dtype)
        for first, chunk in rows.chunks():
            squares(Q, chunk, found, first, roughly)
        return found[:, : keep_nearest(found, roughly, k, *bounds.squaring(Q.shape[1], Q.dtype))]

    @property
    def products(self) -> str | None:
        """The kind of product that serves many queries, in words; None if that is not decided yet."""
        if self._in_eight_bits is None:
            return None
        eight_bits = self._in_eight_bits and PackedRows.serve(self._geometry)
        return f"8 bits ({tile_families.tile().name})" if eight_bits else "float32"

    def prepare(self, n_queries: int) -> None:
        """Pack the rows, where so many queries will be looked up in them."""
        packed = self._packed_for(n_queries)
        if packed is not None:
            packed.pack()

    def rough_scores(self, Q: np.ndarray) -> RoughScores:
        """Scores of all rows for a few queries, and how far they can be off."""
        geometry = self._geometry
        self._n_rough += 1
        looked = self._n_rough % LOOK_EVERY == 0
        packed = self._packed
        if packed is None and looked and self._in_eight_bits is not False and _few_enough(geometry):
            packed = self._packed = PackedRows(geometry)
        if packed is not None and packed.fit:
            found = packed.rough_scores(Q)
            if not looked or found.tell_apart:
                return found
            self._too_close()
        if geometry.plain:
            return RoughScores.of(self._plain, Q, len(geometry.rows), 1.0)
        return RoughScores.of(self._fine, Q, len(geometry.rows), geometry.scale)

    def _too_close(self) -> None:
        """These rows cannot be told apart in eight bits; other threads may come to the same conclusion."""
        self._packed, self._in_eight_bits = None, False

    def _looks(self, n_queries: int, k: int) -> Iterator[partial[np.ndarray]]:
        """How to look for the neighbors of these queries, until all are decided."""
        from nearsay.search.screening.shortlist_kernels import list_length

        length = list_length(k)
        packed = self._packed_for(n_queries)
        if packed is not None:
            # Fewer digits leave more rows undecided, and measuring them is still the smaller part.
            yield partial(PackedRows.look, packed, k=k, length=4 * length + COARSE_LIST)
        elif self._plain.serves or (n_queries < FEW_QUERIES and self._geometry.plain):
            yield partial(look, self._plain, k=k, length=length)
        yield partial(look, self._fine, k=k, length=length)
        yield partial(look, self._fine, k=k, length=length + WIDE_LIST)

    def _packed_for(self, n_queries: int) -> PackedRows | None:
        """The rows in eight bits, where they serve so many queries best."""
        geometry, packed = self._geometry, self._packed
        if packed is None and self._in_eight_bits is not False and PackedRows.serve(geometry):
            many = n_queries * len(geometry.rows) >= MANY_PRODUCTS
            if self._in_eight_bits is None and many:
                self._in_eight_bits = fastest_products(len(geometry.center)).kept_bytes > 0
            if self._in_eight_bits:
                packed = self._packed = PackedRows(geometry)
        if packed is None:
            return None
        few = n_queries < FEW_QUERIES and geometry.plain and not packed.are_packed
        return None if few else packed

    @cached_property
    def _at_hand(self) -> tuple[np.ndarray, ...] | None:
        """What ``glance`` gives of rows that lie together and can be multiplied as they are; None of others."""
        geometry = self._geometry
        if not geometry.plain or len(geometry.rows.chunks()) > 1:
            return None
        rows, bound = geometry.rows.items, self._plain.bound
        # Whatever is no longer than this is a number, and can be squared.
        farthest = min(bounds.farthest(geometry.plain_radius), math.sqrt(LARGEST_VALUE))
        terms = np.array([bound.constant, bound.linear, bound.quadratic, farthest])
        return np.empty((0, 0), rows.dtype), rows, geometry.half_norms.values, terms

    def _in_sight(self, n_queries: int) -> tuple[np.ndarray, ...] | None:
        """What is at hand, where all products of so many queries are soon computed and looked at in one go."""
        at_hand, packed = self._at_hand, self._packed
        if at_hand is None or n_queries * len(at_hand[1]) > FEW_PRODUCTS:
            return None
        return at_hand if packed is None or at_hand[1].size < FEWEST_NUMBERS or not packed.are_packed else None

    def glance(self, Q: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """What ``shortlist`` takes beside a handful of queries, which have the type of the rows; None with more.

        That is their products with all rows (none if they are so few that the loop makes them itself), the rows, half
        their squared norms, and the bound.
        """
        at_hand = self._in_sight(len(Q))
        if at_hand is None:
            return None
        _, rows, half_norms, bound = at_hand
        if len(Q) <= BY_LOOP and rows.size <= NUMBERS_BY_LOOP and rows.flags.c_contiguous:
            return at_hand
        with np.errstate(all="ignore"):  # of queries that are too far away
            products = np.dot(Q, rows.T)  # sooner called than @
        return products, rows, half_norms, bound

    def _glance(self, Q: np.ndarray, k: int) -> np.ndarray | None:
        """``look`` for a handful of queries and rows, where setting up would take longer than the product."""
        from nearsay.search.screening.shortlist_kernels import list_length, shortlist

        if self._in_sight(len(Q)) is None:
            return None
        with np.errstate(all="ignore"):
            queries = np.ascontiguousarray(Q, self._geometry.rows.items.dtype)
        found, undecided = shortlist(queries, *(self.glance(queries) or ()), k, list_length(k))
        return None if undecided else found


def look(view: RowsForProducts, Q: np.ndarray, k: int, length: int) -> np.ndarray:
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


def _few_enough(geometry: Geometry) -> bool:
    """Whether rows in eight bits serve queries that come one by one."""
    n_numbers = len(geometry.rows) * len(geometry.center)
    return n_numbers >= FEWEST_NUMBERS and tile_families.pays() and PackedRows.serve(geometry)
