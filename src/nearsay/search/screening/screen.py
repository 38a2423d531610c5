"""Rule rows out by a matrix product, with a bound on its rounding errors.

    rows ──► block ──► product with the queries ──► shortlist ──► candidates
              │       (8-bit, float32, …)               ▲
              └─ centered, scaled, rounded              └─ slack: how wrong two scores can be

Fast passes come first. A query for which a pass leaves too many rows undecided gets a finer or a longer one;
``bounds.py`` derives the slack that makes it certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from nearsay.core.arrays import LARGEST_VALUE, as_compiled_for, row_blocks, rows_within
from nearsay.core.parallel import in_parallel, shares
from nearsay.search.row_store import HeldRows
from nearsay.search.screening import bounds
from nearsay.search.screening.candidate_tables import replace_lines, stack_tables
from nearsay.search.screening.packed_rows import PackedRows
from nearsay.search.screening.prepared_rows import ROWS_AT_ONCE, Geometry, PlainView, PreparedView, RowsForProducts
from nearsay.search.screening.products import Float32Products, fastest_products
from nearsay.search.screening.rough_scores import RoughScores
from nearsay.search.screening.tiles import tile_families

QUERIES_AT_ONCE = 512  # in one product
QUERIES_A_TASK = 1024  # a block of rows is prepared once for all of them
QUERY_BYTES = 32 << 20  # of them in all the forms that are made on the way, four times as float64
LISTED_AT_ONCE = 1 << 21  # places on the lists of a task: 16 MB
# Up to so many queries, and numbers in all rows, a loop multiplies them sooner than BLAS.
BY_LOOP, NUMBERS_BY_LOOP = 2, 1 << 18
# How many near ties a second pass can list before all rows are measured instead.
WIDE_LIST = 1024

COARSE_LIST = 2048
NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class ScreenLimits:
    """Thresholds between kinds of passes; tests pass others to force a pass.

    Attributes
    ----------
    few_products : up to so many are computed and read in one call.
    few_queries : below so many, rows are multiplied as they are: preparing them would cost more than the product.
    many_products : from so many on, which kind of product is fastest is measured.
    fewest_numbers : rows of fewer numbers are not packed for queries that come one by one.
    check_every : packing rows takes the time of some 20 passes over them, so it is done when rough scores are computed
        this often; and this often it is checked whether eight bits are enough.
    """

    few_products: int = 1 << 18
    few_queries: int = 32
    many_products: int = 1 << 22
    fewest_numbers: int = 1 << 20
    check_every: int = 4


LIMITS = ScreenLimits()


class Screen:
    """Proposes candidates by Euclidean form, and which queries it cannot decide.

    ``products`` is how rows are multiplied: "float32", "int8", or "auto" for the
    faster of them when a search is large enough to notice.
    """

    def __init__(self, geometry: Geometry, products: str = "auto", limits: ScreenLimits = LIMITS) -> None:
        self._geometry, self._limits = geometry, limits
        self._plain = PlainView(geometry)
        self._fine = PreparedView(geometry, Float32Products())
        # Rows in eight bits, once there are many queries; and whether they may be used (None: not decided).
        self._packed: PackedRows | None = None
        self._in_eight_bits = {"int8": True, "float32": False}.get(products)
        self._n_rough = 0  # how often rough scores were computed

    def with_rows(self, rows: HeldRows) -> Screen:
        """A screen for these rows, of which the first are those known already."""
        screen = self._at(self._geometry.with_rows(rows))
        screen._packed = None if self._packed is None else self._packed.with_rows(screen._geometry)
        return screen

    def with_removals(self, rows: HeldRows, numbers: np.ndarray) -> Screen:
        """A screen for these rows, of which those of some numbers were removed or restored."""
        screen = self._at(self._geometry.with_removals(rows, numbers))
        screen._packed = None if self._packed is None else self._packed.with_removals(screen._geometry, numbers)
        return screen

    def _at(self, geometry: Geometry) -> Screen:
        screen = Screen(geometry, limits=self._limits)
        screen._in_eight_bits, screen._n_rough = self._in_eight_bits, self._n_rough
        return screen

    def candidates(self, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Candidates of every query, and the numbers of the queries that stay undecided."""
        few = self._candidates_of_few(Q, k)
        if few is not None:
            return few, NONE
        listed, undecided = np.full((len(Q), 1), -1, np.int64), np.arange(len(Q))
        for run in self._passes(len(Q), k):
            again = run(Q[undecided])
            listed = again if len(undecided) == len(Q) else replace_lines(listed, undecided, again)
            before, undecided = len(undecided), np.flatnonzero(listed[:, 0] < 0)
            if run.func is PackedRows.candidates:
                listed = self._narrowed(Q, listed, k)
                if len(undecided) > before / 4:
                    self._too_close()
            if not len(undecided):
                break
        return listed, undecided

    def _narrowed(self, Q: np.ndarray, listed: np.ndarray, k: int) -> np.ndarray:
        """The candidates less those that a quick sum of squares rules out."""
        from nearsay.search.screening.narrowing_kernels import keep_nearest, squares

        rows = self._geometry.rows
        if not self._geometry.as_is or Q.dtype != rows.items.dtype or listed.shape[1] <= k:
            return listed
        roughly = np.empty(listed.shape, Q.dtype)
        for first, chunk in rows.chunks():
            squares(Q, chunk, listed, first, roughly)
        return listed[:, : keep_nearest(listed, roughly, k, *bounds.squaring(Q.shape[1], Q.dtype))]

    @property
    def products(self) -> str | None:
        """The kind of product that serves many queries, in words; None if that is not decided yet."""
        if self._in_eight_bits is None:
            return None
        eight_bits = self._in_eight_bits and PackedRows.serve(self._geometry)
        return f"8 bits ({tile_families.tile().name})" if eight_bits else "float32"

    def prepare(self, n_queries: int) -> None:
        """Pack the rows, if so many queries will be searched."""
        packed = self._packed_for(n_queries)
        if packed is not None:
            packed.pack()

    def rough_scores(self, Q: np.ndarray) -> RoughScores:
        """Scores of all rows for a few queries, and their error bounds."""
        geometry = self._geometry
        self._n_rough += 1
        checked = self._n_rough % self._limits.check_every == 0
        packed = self._packed
        if packed is None and checked and self._in_eight_bits is not False and self._pack_for_single_queries():
            packed = self._packed = PackedRows(geometry)
        if packed is not None and packed.fit:
            listed = packed.rough_scores(Q)
            if not checked or listed.tell_apart:
                return listed
            self._too_close()
        if geometry.plain:
            return RoughScores.of(self._plain, Q, len(geometry.rows), 1.0)
        return RoughScores.of(self._fine, Q, len(geometry.rows), geometry.scale)

    def _pack_for_single_queries(self) -> bool:
        """Whether rows in eight bits serve queries that come one by one."""
        n_numbers = len(self._geometry.rows) * len(self._geometry.center)
        return n_numbers >= self._limits.fewest_numbers and tile_families.pays() and PackedRows.serve(self._geometry)

    def _too_close(self) -> None:
        """Record that eight bits do not separate these rows; other threads may do the same."""
        self._packed, self._in_eight_bits = None, False

    def _passes(self, n_queries: int, k: int) -> Iterator[partial[np.ndarray]]:
        """The passes for these queries, until all are decided."""
        from nearsay.search.screening.shortlist_kernels import list_length

        length = list_length(k)
        packed = self._packed_for(n_queries)
        if packed is not None:
            # Fewer digits leave more rows undecided, and measuring them is still the smaller part.
            yield partial(PackedRows.candidates, packed, k=k, length=4 * length + COARSE_LIST)
        elif self._plain.serves or (n_queries < self._limits.few_queries and self._geometry.plain):
            yield partial(candidates_from, self._plain, k=k, length=length)
        yield partial(candidates_from, self._fine, k=k, length=length)
        yield partial(candidates_from, self._fine, k=k, length=length + WIDE_LIST)

    def _packed_for(self, n_queries: int) -> PackedRows | None:
        """The rows in eight bits, where they serve so many queries best."""
        geometry, packed = self._geometry, self._packed
        if packed is None and self._in_eight_bits is not False and PackedRows.serve(geometry):
            many = n_queries * len(geometry.rows) >= self._limits.many_products
            if self._in_eight_bits is None and many:
                self._in_eight_bits = fastest_products(len(geometry.center)).kept_bytes > 0
            if self._in_eight_bits:
                packed = self._packed = PackedRows(geometry)
        if packed is None:
            return None
        few = n_queries < self._limits.few_queries and geometry.plain and not packed.are_packed
        return None if few else packed

    @cached_property
    def _one_chunk(self) -> tuple[np.ndarray, ...] | None:
        """The arguments of ``shortlist`` for rows in one chunk that can be multiplied as they are; otherwise None."""
        geometry = self._geometry
        if not geometry.plain or len(geometry.rows.chunks()) > 1:
            return None
        rows, bound = geometry.rows.items, self._plain.bound
        # Whatever is no longer than this is finite, and can be squared.
        farthest = min(bounds.farthest(geometry.plain_radius), math.sqrt(LARGEST_VALUE))
        terms = np.array([bound.constant, bound.linear, bound.quadratic, farthest])
        return np.empty((0, 0), rows.dtype), as_compiled_for(rows), as_compiled_for(geometry.half_norms.values), terms

    def _plain_rows(self, n_queries: int) -> tuple[np.ndarray, ...] | None:
        """The same, if there are few enough products with so many queries; otherwise None."""
        plain, packed = self._one_chunk, self._packed
        if plain is None or n_queries * len(plain[1]) > self._limits.few_products:
            return None
        return plain if packed is None or plain[1].size < self._limits.fewest_numbers or not packed.are_packed else None

    def products_of_few(self, Q: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """The arguments of ``shortlist`` for few queries, which have the type of the rows; None with more.

        These are their products with all rows (empty if the loop computes them itself), the rows, half their squared
        norms, and the bound.
        """
        plain = self._plain_rows(len(Q))
        if plain is None:
            return None
        _, rows, half_norms, bound = plain
        if len(Q) <= BY_LOOP and rows.size <= NUMBERS_BY_LOOP:
            return plain
        with np.errstate(all="ignore"):  # of queries that are too far away
            products = np.dot(Q, rows.T)  # sooner called than @
        return products, rows, half_norms, bound

    def _candidates_of_few(self, Q: np.ndarray, k: int) -> np.ndarray | None:
        """``candidates_from`` for few queries and rows, in one call."""
        from nearsay.search.screening.shortlist_kernels import list_length, shortlist

        if self._plain_rows(len(Q)) is None:
            return None
        with np.errstate(all="ignore"):
            queries = np.ascontiguousarray(Q, self._geometry.rows.items.dtype)
        listed, undecided = shortlist(queries, *(self.products_of_few(queries) or ()), k, list_length(k))
        return None if undecided else listed


def candidates_from(view: RowsForProducts, Q: np.ndarray, k: int, length: int) -> np.ndarray:
    """Candidates from one pass over all rows, in threads; a query that stays undecided has none."""
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

    if len(Q) < LIMITS.few_queries:
        return task(slice(0, len(Q)))
    most = rows_within(QUERY_BYTES, 32 * Q.shape[1], most=min(QUERIES_A_TASK, LISTED_AT_ONCE // length))
    return stack_tables(in_parallel(task, shares(len(Q), most=most)))
