"""The pass over packed rows that rules most of them out before a score is written. Imported on first use only (numba).

    tile: six queries × 64 rows ──► sums ──► scores, in registers ──► any below its query's limit?
                                                                       │ no, nearly always: on to the next tile
                                                                       └ yes: 64 scores, and a bit for each that is

A score is off by at most its *margin*: what rounding did to this row and this query, and no other. So every query
keeps a list of rows with scores and margins, and a threshold

    τ = the k-th lowest of (score + margin) + slack          k rows are certain to lie no higher

and a row with score − margin above it is certain not to be among the k nearest. The limit of a tile is the threshold
and the largest margin that a row of it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearsay.search.screening.selection_kernels import kth_smallest
from nearsay.search.screening.shortlist_kernels import just_above
from nearsay.search.screening.tiles.matrix_tile_kernels import multiply_block, release_tiles, set_up_tiles
from nearsay.search.screening.tiles.packed_tile_kernels import (
    FLOAT,
    LONG,
    QUERIES_AT_ONCE,
    READ_AT_ONCE,
    SERVES,
    TILE_ROWS,
    Tile,
    compiled,
    room_for_sums,
)

# Margins are known for so many rows together: a whole number of tiles, and one tile where sums are held in memory.
GROUP = 64
FLOATS = ir.VectorType(FLOAT, SERVES.lanes)


@intrinsic
def _compare_tile(
    typing: Any, Q: Any, query_scales: Any, limits: Any, i: Any, packed: Any, row_sums: Any, row_scales: Any,
    half_norms: Any, r: Any, scores: Any, below: Any, sums: Any, first: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Whether any score of the tile from query ``i`` and row ``r`` on lies below its query's limit.

    Only then ``scores[a, b]`` is written, and the bits of ``below[a]`` that say of which rows they are. Where queries
    and rows have been multiplied already, theirs are the ``sums`` from line ``first`` on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tile = Tile(context, builder, signature, arguments, READ_AT_ONCE)
        i, r = arguments[3], arguments[8]
        sums = tile.held(11, arguments[12]) if SERVES.held else tile.sums(0, i, 4, 5, r)
        row_scales, half_norms = tile.vectors(6, r, FLOATS), tile.vectors(7, r, FLOATS)
        fuse = _known(builder, "fma", [FLOATS] * 3)
        lower = _known(builder, "minnum", [FLOATS] * 2)
        limits = [tile.of_query(2, i, a, FLOATS) for a in range(READ_AT_ONCE)]
        scores, any_line = [], None
        for a in range(READ_AT_ONCE):
            turned = builder.fneg(tile.of_query(1, i, a, FLOATS))
            line = [
                builder.call(fuse, [builder.fmul(builder.sitofp(whole, FLOATS), row_scale), turned, half_norm])
                for whole, row_scale, half_norm in zip(sums[a], row_scales, half_norms, strict=True)
            ]
            scores.append(line)
            lowest = line[0]
            for score in line[1:]:
                lowest = builder.call(lower, [lowest, score], fastmath=("nnan", "nsz"))
            any_of_line = builder.fcmp_ordered("<", lowest, limits[a])
            any_line = any_of_line if any_line is None else builder.or_(any_line, any_of_line)
        bits = ir.IntType(SERVES.lanes)
        any_below = builder.icmp_unsigned("!=", builder.bitcast(any_line, bits), ir.Constant(bits, 0))
        with builder.if_then(any_below, likely=False):
            for a in range(READ_AT_ONCE):
                bits_of_line = builder.gep(tile.data(10), [ir.Constant(LONG, a)])
                mask = ir.Constant(LONG, 0)
                for b, score in enumerate(scores[a]):
                    place = builder.gep(tile.data(9), [ir.Constant(LONG, a * TILE_ROWS + b * SERVES.lanes)])
                    builder.store(score, builder.bitcast(place, FLOATS.as_pointer()), align=4)
                    some = builder.bitcast(builder.fcmp_ordered("<", score, limits[a]), bits)
                    some = builder.shl(builder.zext(some, LONG), ir.Constant(LONG, b * SERVES.lanes))
                    mask = builder.or_(mask, some)
                builder.store(mask, bits_of_line)
        return any_below

    number = types.int64
    arguments = (
        Q, query_scales, limits, number, packed, row_sums, row_scales, half_norms, number, scores, below, sums, number,
    )  # fmt: skip
    return types.boolean(*arguments), generate


@intrinsic
def _first_bit(typing: Any, bits: Any) -> tuple[Any, Callable[..., Any]]:
    """The position of the lowest set bit; at least one must be set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _known(builder: Any, name: str, given: list[Any]) -> Any:
    kind = ir.FunctionType(FLOATS, given)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{SERVES.lanes}f32")


@compiled
def see_packed(queries, rows, groups, first, k, slack, lists):  # type: ignore[no-untyped-def]
    """Add rows to the lists of those queries for which they may be among the k nearest.

    Queries and rows are filled up to whole tiles: queries with thresholds of −inf, rows with half norms of +inf.
    ``groups`` are where to start, where to stop, and of which numbers groups are multiples: of the first one, and, if
    it is not 0, not of the second; ``first`` is the number of the first row of all.
    """
    Q, query_scales, reaches, query_errors = queries
    packed, row_sums, row_scales, half_norms, errors, lengths, group_errors, group_lengths = rows
    listed, thresholds, counts, due, _ = lists
    limits = np.empty(Q.shape[0], np.float32)
    scores = np.empty((READ_AT_ONCE, TILE_ROWS), np.float32)
    below = np.zeros(READ_AT_ONCE, np.int64)
    sums = room_for_sums()
    set_up_tiles()
    n_lines = -(-slack.shape[0] // READ_AT_ONCE) * READ_AT_ONCE  # the others only fill up
    line, next_line = 0, QUERIES_AT_ONCE  # of the sums that are read, and of those that are multiplied meanwhile
    start, stop, step, left_out = groups
    g = start + -start % step
    g += left_out > 0 and g % left_out == 0
    if g < stop:
        multiply_block(Q, 0, packed, row_sums, g * GROUP, sums, next_line)
    while g < stop:
        next_g = g + step
        next_g += left_out > 0 and next_g % left_out == 0
        error, length = group_errors[g], group_lengths[g]
        for q in range(limits.shape[0]):
            limits[q] = thresholds[q] + (reaches[q] * error + query_errors[q] * length)
        for r in range(g * GROUP, (g + 1) * GROUP, TILE_ROWS):
            for i in range(0, n_lines, READ_AT_ONCE):
                if i % QUERIES_AT_ONCE == 0:
                    line, next_line = next_line, line
                    if i + QUERIES_AT_ONCE < n_lines:
                        multiply_block(Q, i + QUERIES_AT_ONCE, packed, row_sums, r, sums, next_line)
                    elif next_g < stop:
                        multiply_block(Q, 0, packed, row_sums, next_g * GROUP, sums, next_line)
                if _compare_tile(
                    Q, query_scales, limits, i, packed, row_sums, row_scales, half_norms, r, scores, below,
                    sums, line + i % QUERIES_AT_ONCE,
                ):  # fmt: skip
                    for a in range(READ_AT_ONCE):
                        bits, q = below[a], i + a
                        while bits != 0:
                            b = _first_bit(bits)
                            bits &= bits - 1
                            margin = reaches[q] * errors[r + b] + query_errors[q] * lengths[r + b]
                            if scores[a, b] - margin < thresholds[q]:
                                count = counts[q]
                                here = listed[q, count]
                                here.score, here.margin, here.row = scores[a, b], margin, first + r + b
                                counts[q] = count + 1
                                if count + 1 >= due[q]:
                                    _make_room(lists, q, k, slack[q])
        g = next_g
    release_tiles()


@compiled
def _make_room(lists, q, k, slack):  # type: ignore[no-untyped-def]
    """Cut a full list back; where that does not help, the query is crowded, and no row passes any more.

    Whatever ``due`` was, the list has room for another row afterward.
    """
    listed, thresholds, counts, due, _ = lists
    cut_back(lists, q, k, slack)
    capacity = listed.shape[1]
    if counts[q] > capacity - capacity // 4:
        counts[q], thresholds[q] = 0, -np.inf
    # Early cuts bring the threshold down early; a long list is only for those who need it.
    due[q] = min(capacity, max(due[q], 2 * counts[q]))


@compiled
def cut_back(lists, q, k, slack):  # type: ignore[no-untyped-def]
    """Keep what can still be among the k nearest, of at least k rows; gives the threshold that is certain."""
    listed, thresholds, counts, _, scratch = lists
    count = counts[q]
    for c in range(count):
        scratch[c] = listed[q, c].score + listed[q, c].margin
    certain = just_above(kth_smallest(scratch[:count], k), slack, scratch.dtype)
    threshold = min(certain, thresholds[q])
    kept = 0
    for c in range(count):
        entry = listed[q, c]
        if entry.score - entry.margin < threshold:
            place = listed[q, kept]
            place.score, place.margin, place.row = entry.score, entry.margin, entry.row
            kept += 1
    counts[q], thresholds[q] = kept, threshold
    return certain


@compiled
def join_parts(listed, thresholds, counts):  # type: ignore[no-untyped-def]
    """Lists (parts, queries) over different rows as one a query; one that is crowded in any part is crowded."""
    n_parts, n_queries = counts.shape
    totals, joined_thresholds = np.zeros(n_queries, np.int64), np.full(n_queries, np.inf, np.float32)
    for q in range(n_queries):
        for part in range(n_parts):
            totals[q] += counts[part, q]
            joined_thresholds[q] = min(joined_thresholds[q], thresholds[part, q])
        if joined_thresholds[q] == -np.inf:
            totals[q] = 0
    joined = np.empty((n_queries, max(1, totals.max())), listed.dtype)
    for q in range(n_queries):
        place = 0
        for part in range(n_parts if totals[q] else 0):
            for c in range(counts[part, q]):
                joined[q, place] = listed[part, q, c]
                place += 1
    return joined, joined_thresholds, totals


@compiled
def certain_thresholds(lists, k, slack, thresholds):  # type: ignore[no-untyped-def]
    """The thresholds that the rows listed so far make certain; +inf where they are fewer than k."""
    for q in range(slack.shape[0]):
        thresholds[q] = np.inf
        if lists[2][q] >= k:
            thresholds[q] = cut_back(lists, q, k, slack[q])


@compiled
def finish(lists, guesses, k, slack):  # type: ignore[no-untyped-def]
    """Candidates of every query; −1 fills up, and is all that a crowded query has, or one that was guessed wrong.

    A list that began with a threshold that was guessed, and not +inf, holds all candidates if k rows make certain that
    it was no lower than need be.
    """
    listed, _, counts, _, _ = lists
    n_queries = slack.shape[0]
    width = 1
    for q in range(n_queries):
        certain = np.float32(np.inf)
        if counts[q] >= k:
            certain = cut_back(lists, q, k, slack[q])
        if certain > guesses[q]:
            counts[q] = 0
        width = max(width, counts[q])
    candidates = np.full((n_queries, width), -1, np.int64)
    for q in range(n_queries):
        for c in range(counts[q]):
            candidates[q, c] = listed[q, c].row
    return candidates
