"""All rows in eight bits, packed for the instructions of this processor, with their rounding errors.

    rows ──► centered, scaled ──► rounded to 8 bits ──► packed, in large blocks ──► fused tile ──► candidates
                                   └─ error and length of each row: the margin of its scores

Rows come and go while others are searching: a change gives another object, which shares all blocks but those it
touches.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nearsay.core.arrays import SINGLE_OR_DOUBLE, in_cache_lines, row_blocks, rows_within
from nearsay.core.parallel import in_parallel, shares, thread_count
from nearsay.search.screening import bounds
from nearsay.search.screening.candidate_tables import replace_lines, stack_tables
from nearsay.search.screening.prepared_rows import Geometry, PreparedView
from nearsay.search.screening.products import Float32Products, pack_rows, whole_columns
from nearsay.search.screening.rough_scores import RoughScores
from nearsay.search.screening.tiles.tile_families import tile

ROWS_A_BLOCK = 1 << 15
MERGED_UP_TO = 4096  # rows that came one by one
GROUP = 64  # rows whose largest margin is known
# Packed rows are kept up to this many bytes; more are packed anew for every thousand queries.
PACK_UP_TO = 256 << 20
# Queries that go over the rows together lie in the second cache, and their lists in memory.
QUERY_BYTES, LISTED_AT_ONCE = 256 << 10, 1 << 21
# From so many neighbors on, where to begin is guessed from every so many-th group of rows.
GUESSED_FROM, SAMPLED = 48, 8
# Fewer than these for each thread are shared among threads by rows, when each has so many numbers to go over.
FEWEST_QUERIES, NUMBERS_A_THREAD = 32, 1 << 22

# A row on a list; together, so that putting one there touches one place in memory.
LISTED = np.dtype([("score", np.float32), ("margin", np.float32), ("row", np.int32)])

Queries = tuple[np.ndarray, ...]  # bytes and scales, and what a score is off for each unit of a row's error and length


@dataclass(frozen=True)
class Block:
    """Some rows as the tile takes them, filled up to whole groups: such rows have half norms of +inf.

    Attributes
    ----------
    first : number of the first row.
    n_rows : without those that fill up.
    values : bytes, sixteen rows side by side.
    sums : what sums begin with.
    scales, half_norms, errors, lengths : of each row; the lengths after rounding, or more.
    group_errors, group_lengths : the largest of each group.
    """

    first: int
    n_rows: int
    values: np.ndarray
    sums: np.ndarray
    scales: np.ndarray
    half_norms: np.ndarray
    errors: np.ndarray
    lengths: np.ndarray
    group_errors: np.ndarray
    group_lengths: np.ndarray

    def __len__(self) -> int:
        return self.n_rows

    def with_half_norms(self, numbers: np.ndarray, half_norms: np.ndarray) -> Block:
        """The same where the rows of some numbers have other half norms."""
        here = (numbers >= self.first) & (numbers < self.first + self.n_rows)
        if not here.any():
            return self
        changed = self.half_norms.copy()
        changed[numbers[here] - self.first] = half_norms[here]
        return replace(self, half_norms=changed)

    @property
    def n_groups(self) -> int:
        return len(self.group_errors)

    def arrays(self) -> tuple[np.ndarray, ...]:
        return (
            self.values, self.sums, self.scales, self.half_norms,
            self.errors, self.lengths, self.group_errors, self.group_lengths,
        )  # fmt: skip


class Lists:
    """The candidates of some queries so far, filled up to whole tiles of queries.

    ``n_parts`` threads keep lists of their own, each for its share of the rows. A list grows to ``due`` rows before it
    is cut back.
    """

    def __init__(self, thresholds: np.ndarray, k: int, capacity: int, n_parts: int = 1) -> None:
        shape = (n_parts, len(thresholds))
        self.listed = np.empty((*shape, capacity), LISTED)
        self.thresholds = np.repeat(thresholds[None], n_parts, axis=0)
        self.counts = np.zeros(shape, np.int64)
        self.due = np.empty(shape, np.int64)
        self.wait_for(k)

    def wait_for(self, k: int) -> None:
        """Set the length at which lists are next cut back: at least k rows, and twice their current length."""
        from nearsay.search.screening.shortlist_kernels import list_length

        self.due[:] = np.minimum(self.listed.shape[2], np.maximum(list_length(k), 2 * self.counts))

    def lower(self, thresholds: np.ndarray) -> np.ndarray:
        """Lower the thresholds of all threads to these, or to the lowest that one of them has; gives what they are."""
        lowered: np.ndarray = self.thresholds.min(axis=0)
        np.minimum(lowered[: len(thresholds)], thresholds, out=lowered[: len(thresholds)])
        self.thresholds[:] = lowered
        return lowered

    def of_part(self, number: int) -> tuple[np.ndarray, ...]:
        """The lists of one thread, as loops take them, with some room for them to work in."""
        lists = (each[number] for each in (self.listed, self.thresholds, self.counts, self.due))
        return *lists, np.empty(self.listed.shape[2], np.float32)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The lists of all threads as one."""
        from nearsay.search.screening.tiles.fused_tile_kernels import join_parts

        if len(self.counts) == 1:
            return self.of_part(0)
        listed, thresholds, counts = join_parts(self.listed, self.thresholds, self.counts)
        return listed, thresholds, counts, self.due[0], np.empty(listed.shape[1], np.float32)


class PackedRows:
    """The rows of one geometry, packed on first use; otherwise immutable."""

    def __init__(self, geometry: Geometry, packed: list[Block] | None = None) -> None:
        self.geometry = geometry
        self._view = PreparedView(geometry, Float32Products())
        self._packed = packed
        self._packing = threading.Lock()

    @staticmethod
    def serve(geometry: Geometry) -> bool:
        """Whether there is a tile for rows of this width."""
        return len(geometry.center) <= tile().most_columns

    @property
    def fit(self) -> bool:
        """Whether these rows are kept packed."""
        return len(self.geometry.rows) * whole_columns(len(self.geometry.center)) <= PACK_UP_TO

    @property
    def are_packed(self) -> bool:
        return self._packed is not None

    def with_rows(self, geometry: Geometry) -> PackedRows | None:
        """For more rows; None where these are so long that all would have to be packed again."""
        if geometry.scale != self.geometry.scale:
            return None
        following = PackedRows(geometry)
        if self._packed is None or not following.fit:
            return following
        packed = self._packed + following._pack(len(self.geometry.rows))
        while len(packed) > 1 and len(packed[-2]) <= len(packed[-1]) <= MERGED_UP_TO - len(packed[-2]):
            # Never many small blocks, and no row packed more often than a dozen times.
            last, before = packed.pop(), packed.pop()
            packed.append(following._block(before.first, last.first + len(last)))
        following._packed = packed
        return following

    def with_removals(self, geometry: Geometry, numbers: np.ndarray) -> PackedRows:
        """For the same rows, of which those of some numbers were removed or restored."""
        if self._packed is None:
            return PackedRows(geometry)
        live, half_norms = geometry.rows.live_among(numbers), np.full(len(numbers), np.inf, np.float32)
        exact, of_live = np.empty((len(live), len(geometry.center)), np.float32), np.empty(len(live), np.float32)
        self._view.center(geometry.rows.take(live), exact, of_live)
        half_norms[np.searchsorted(numbers, live)] = of_live
        return PackedRows(geometry, [block.with_half_norms(numbers, half_norms) for block in self._packed])

    # ------------------------------------------------------------ search

    def candidates(self, Q: np.ndarray, k: int, length: int) -> np.ndarray:
        """Candidates of every query from lists of this length; a query that stays undecided has none."""
        self.pack()
        in_cache = rows_within(QUERY_BYTES, whole_columns(Q.shape[1]), most=LISTED_AT_ONCE // length)
        at_once = max(in_cache, FEWEST_QUERIES)
        n_threads = min(thread_count(), len(self.geometry.rows) * Q.shape[1] // NUMBERS_A_THREAD)
        if len(Q) < FEWEST_QUERIES * n_threads:
            return self._candidates(Q, k, length, n_threads)
        parts = shares(len(Q), most=at_once)
        return stack_tables(in_parallel(lambda part: self._candidates(Q[part], k, length, 1), parts))

    def _candidates(self, Q: np.ndarray, k: int, length: int, n_threads: int, *, guess: bool = True) -> np.ndarray:
        """The same for one batch of queries, shared among threads by rows."""
        from nearsay.search.screening.tiles.fused_tile_kernels import finish

        queries, slack, _ = self._queries(Q)
        anything = np.full(len(queries[0]), np.inf, np.float32)
        guess = guess and k >= GUESSED_FROM and len(self.geometry.rows) >= 4 * SAMPLED * k and self._packed is not None
        if guess:
            lists = self._no_lists(len(anything), slack, k, length, n_threads, anything)
            least = lists.lower(self._guess(queries, k, slack, lists))
            # A threshold that is about right is left alone: nearly all rows that pass it stay.
            lists.wait_for(2 * k)
            self._see(lists, queries, slack, k, skip=SAMPLED)
        else:
            lists, least = self.lists(queries, slack, k, length, n_threads, anything), anything
        candidates: np.ndarray = finish(lists.arrays(), least, k, slack)
        wrong = np.flatnonzero((candidates[:, 0] < 0) & np.isfinite(slack))
        if guess and len(wrong):
            return replace_lines(candidates, wrong, self._candidates(Q[wrong], k, length, n_threads, guess=False))
        return candidates

    def _guess(self, queries: Queries, k: int, slack: np.ndarray, lists: Lists) -> np.ndarray:
        """Estimated thresholds, from a sample, that should let all candidates pass and few other rows.

        In an eighth of the rows an eighth of the k nearest are found, give or take; three standard deviations more are
        wanted, which is wrong for one query in a thousand, or wherever the order of the rows makes it so. The lists
        will show it. They are left with the rows of the sample that pass.
        """
        from nearsay.search.screening.tiles.fused_tile_kernels import certain_thresholds

        expected = k / SAMPLED
        enough = math.ceil(expected + 3 * math.sqrt(expected) + 1)
        lists.wait_for(enough)
        self._see(lists, queries, slack, enough, step=SAMPLED)
        guesses = np.empty(len(slack), np.float32)
        certain_thresholds(lists.arrays(), enough, slack, guesses)
        return guesses

    def lists(
        self, queries: Queries, slack: np.ndarray, k: int, length: int, n_threads: int, thresholds: np.ndarray
    ) -> Lists:
        """Rows that may be among the k nearest of each query, and below its threshold."""
        lists = self._no_lists(len(queries[0]), slack, k, length, n_threads, thresholds)
        self._see(lists, queries, slack, k)
        return lists

    def _no_lists(
        self, n_lines: int, slack: np.ndarray, k: int, length: int, n_threads: int, thresholds: np.ndarray
    ) -> Lists:
        """Lists without a row, for queries filled up to whole tiles."""
        start_at = np.full(n_lines, -np.inf, np.float32)
        start_at[: len(slack)] = np.where(np.isinf(slack), -np.inf, thresholds[: len(slack)])
        return Lists(start_at, k, length, n_threads if n_threads > 1 and self._packed is not None else 1)

    def _see(self, lists: Lists, queries: Queries, slack: np.ndarray, k: int, *, step: int = 1, skip: int = 0) -> None:
        """Add rows to the lists: of every ``step``-th group, or of all but every ``skip``-th."""
        from nearsay.search.screening.tiles.fused_tile_kernels import see_packed

        packed, n_parts = self._packed, len(lists.counts)

        def see(number: int) -> None:
            arrays = lists.of_part(number)
            for block, start, stop in self._share(packed, number, n_parts):
                see_packed(queries, block.arrays(), (start, stop, step, skip), block.first, k, slack, arrays)

        if n_parts > 1:
            in_parallel(see, range(n_parts))
        else:
            see(0)

    def _share(self, packed: list[Block] | None, number: int, n_parts: int) -> Iterator[tuple[Block, int, int]]:
        """One of even parts of all groups, that follow on each other: blocks, and where to start and stop in each."""
        if packed is None or n_parts == 1:
            yield from ((block, 0, block.n_groups) for block in packed or self._blocks())
            return
        n_groups = sum(block.n_groups for block in packed)
        first, last = (n_groups * end // n_parts for end in (number, number + 1))
        before = 0
        for block in packed:
            start, stop = max(0, first - before), min(block.n_groups, last - before)
            if start < stop:
                yield block, start, stop
            before += block.n_groups

    def rough_scores(self, Q: np.ndarray) -> RoughScores:
        """Scores of all rows for a few queries, and their error bounds."""
        from nearsay.search.screening.tiles.packed_tile_kernels import multiply

        self.pack()
        (values, scales, of_error, of_length), slack, lengths = self._queries(Q)
        scores = np.empty((len(Q), len(self.geometry.rows)), np.float32)
        margins = np.zeros(len(Q))
        for block in self._blocks():
            products = np.empty((len(Q), len(block)), np.float32)
            multiply(values, scales, block.values, block.sums, block.scales, products)
            np.subtract(block.half_norms[: len(block)], products, out=scores[:, block.first : block.first + len(block)])
            error, length = float(block.group_errors.max()), float(block.group_lengths.max())
            np.maximum(margins, (of_error * error + of_length * length)[: len(Q)], out=margins)
        return RoughScores(scores, slack + 2 * margins, np.square(lengths[: len(Q)]), self.geometry.scale)

    def _queries(self, Q: np.ndarray) -> tuple[Queries, np.ndarray, np.ndarray]:
        """Queries as the tile takes them; twice what scores are off beside their margins; and their lengths.

        Queries and lengths are filled up to whole tiles.
        """
        from nearsay.search.screening.rounding_kernels import make_ready

        geometry, of = self.geometry, tile()
        lines, radius = -(-len(Q) // of.n_queries) * of.n_queries, geometry.radius * geometry.scale
        values = in_cache_lines((lines, whole_columns(Q.shape[1])), np.int8)
        scales, reached, errors = np.zeros(lines, np.float32), np.zeros(lines), np.zeros(lines)
        slack = np.empty(len(Q))
        bound = self._bound(geometry.form_error(Q))
        terms = bound.constant, bound.linear, bound.quadratic
        form = geometry.form(Q)
        if form.dtype.char not in SINGLE_OR_DOUBLE:
            form = form.astype(np.float64)
        make_ready(
            np.ascontiguousarray(form), geometry.center, geometry.scale, bounds.farthest(radius), of.largest, terms,
            values, scales, reached, errors, slack,
        )  # fmt: skip
        # What a score is off for each unit of the error of a row, and of its length.
        of_error = bounds.rounding_rows(1.0).at(reached)
        of_length = np.broadcast_to(bounds.rounding_queries(errors * bounds.ROUNDED_UP, 1.0, 0.0), lines)
        margins = (_rounded_up(each * bounds.MARGIN_UP) for each in (of_error, of_length))
        return (of.moved_up(values), scales, *margins), slack, reached

    def _bound(self, form_error: float) -> bounds.Bound:
        """How far scores can be off beside their margins."""
        n_columns, radius = len(self.geometry.center), self.geometry.radius * self.geometry.scale
        return (
            bounds.screenable(self.geometry.radius)
            + bounds.summing(n_columns, radius, bounds.SINGLE_ROUNDOFF)
            + bounds.comparing(radius)
            + bounds.measuring(n_columns, radius)
            + bounds.taking_form(self.geometry.scale * form_error, radius)
        )

    # ------------------------------------------------------------ packing

    def pack(self) -> None:
        """Pack all rows, once, where they are worth their memory."""
        if self._packed is None and self.fit:
            with self._packing:
                if self._packed is None:
                    self._packed = self._pack(0)

    def _pack(self, first: int) -> list[Block]:
        parts = list(row_blocks(len(self.geometry.rows) - first, size=ROWS_A_BLOCK))
        return in_parallel(lambda part: self._block(first + part.start, first + part.stop), parts)

    def _blocks(self) -> Iterator[Block]:
        if self._packed is not None:
            yield from self._packed
        else:
            for part in row_blocks(len(self.geometry.rows), size=ROWS_A_BLOCK):
                yield self._block(part.start, part.stop)

    def _block(self, start: int, stop: int) -> Block:
        from nearsay.search.screening.rounding_kernels import quantize

        rows, n = self.geometry.rows, stop - start
        lines, width = -(-n // GROUP) * GROUP, whole_columns(len(self.geometry.center))
        exact, half_norms = np.empty((n, len(self.geometry.center)), np.float32), np.full(lines, np.inf, np.float32)
        self._view.center(rows.between(start, stop), exact, half_norms)
        values, scales, errors = np.zeros((n, width), np.int8), np.zeros(lines, np.float32), np.zeros(lines)
        quantize(exact, values, scales, errors, 127)
        errors *= bounds.ROUNDED_UP
        lengths = np.zeros(lines)
        lengths[:n] = np.sqrt(2 * half_norms[:n].astype(np.float64)) * bounds.MARGIN_UP + errors[:n]
        if rows.removed is not None:
            half_norms[:n][rows.removed[start:stop]] = np.inf
        errors, lengths = _rounded_up(errors), _rounded_up(lengths)
        largest = (each.reshape(-1, GROUP).max(axis=1) for each in (errors, lengths))
        return Block(start, n, *pack_rows(values, lines), scales, half_norms, errors, lengths, *largest)


def _rounded_up(values: np.ndarray) -> np.ndarray:
    """Converted to float32, rounded up."""
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))
