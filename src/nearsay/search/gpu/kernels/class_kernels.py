"""Triton kernels that find the nearest members of classes; ``class_steps.py`` specifies each step.

    nearest_of_class    a program reads the keys of a class for some queries: the lowest, and others that may be nearest
    rows_of_entries     a program scores the rows of some groups, each for one query
    squares_of_pairs    a program adds up the squares of many pairs of a query and a row
    scores_of_classes   a program multiplies some rows of a class with some queries near it
    members_below       a program reads the scores of one class for one query: the k-th lowest, and the rows below

Nearly always one row alone may be the nearest of a class, hardly ever more than two. The first and one other have
fixed places in the output; the rest are appended to a list, in any order, and counted.
"""

from __future__ import annotations

from nearsay.search.gpu.kernels.jit import jit, tl
from nearsay.search.gpu.kernels.selection_kernels import four_columns, kth_lowest, place_of, slack_of


@jit
def places_of_keys(keys, groups, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where the rows lie that keys of these groups name."""
    return place_of(groups, keys.to(tl.int32, bitcast=True) & (SIZE - 1), SIZE)


@jit
def nearest_of_class(  # type: ignore[no-untyped-def]
    keys, group_errors, group_lengths, factors, alphas, betas, gammas, first_groups, left_out_places, thresholds,
    nearest, others, more_pairs, more, n_more, to_second, n_queries, n_groups, room, eta_of_factor, tiny,
    LEFT_OUT: tl.constexpr, SIZE: tl.constexpr, QUERIES: tl.constexpr,
):  # fmt: skip
    """A thread reads the keys of a query, those of the four groups of a stretch at a time."""
    of_class = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    is_query = query < n_queries
    alpha = tl.load(alphas + query, mask=is_query, other=0.0)[:, None]
    beta = tl.load(betas + query, mask=is_query, other=0.0)[:, None]
    gamma = tl.load(gammas + query, mask=is_query, other=0.0)[:, None]
    eta = eta_of_factor * tl.load(factors + query, mask=is_query, other=0.0)[:, None]
    first = tl.load(first_groups + of_class)
    last = tl.load(first_groups + of_class + 1)
    four = tl.arange(0, 4)
    to_keys = keys + query.to(tl.int64)[:, None] * n_groups + four[None, :]
    threshold = tl.full((QUERIES,), float("inf"), tl.float32)
    lowest = tl.full((QUERIES,), float("inf"), tl.float32)
    best = tl.full((QUERIES,), -1, tl.int32)
    if LEFT_OUT:
        left_out = tl.load(left_out_places + query, mask=is_query, other=-1)[:, None]
    for start in range(first, last, 4):
        group = start + four[None, :]
        low = tl.load(to_keys + start, mask=is_query[:, None], other=float("inf"))
        error = tl.load(group_errors + group)
        length = tl.load(group_lengths + group)
        slack = slack_of(alpha, beta, eta, gamma, error, length)
        highest = low + slack
        if LEFT_OUT:
            following = tl.load(to_keys + start + to_second, mask=is_query[:, None], other=float("inf"))
            unsure = (low < tiny) & (low > -tiny)
            itself = (places_of_keys(low, group, SIZE) == left_out) & (unsure == 0)
            low = tl.where(itself, following, low)
            highest = tl.where(unsure, float("inf"), low + slack)
        threshold = tl.minimum(threshold, tl.min(highest, axis=1))
        least = tl.min(low, axis=1)
        its_place = tl.max(tl.where(low == least[:, None], places_of_keys(low, group, SIZE), -1), axis=1)
        best = tl.where(least < lowest, its_place, best)
        lowest = tl.minimum(lowest, least)
    best = tl.where((lowest < tiny) & (lowest > -tiny), -1, best)
    pair = of_class * n_queries + query
    tl.store(thresholds + pair, threshold, mask=is_query)
    tl.store(nearest + pair, best, mask=is_query)
    other = tl.full((QUERIES,), -1, tl.int32)
    for start in range(first, last, 4):
        group = start + four[None, :]
        low = tl.load(to_keys + start, mask=is_query[:, None], other=float("inf"))
        following = tl.load(to_keys + start + to_second, mask=is_query[:, None], other=float("inf"))
        error = tl.load(group_errors + group)
        length = tl.load(group_lengths + group)
        highest = threshold[:, None] + slack_of(alpha, beta, eta, gamma, error, length)
        unsure = (low < tiny) & (low > -tiny)
        if LEFT_OUT:
            itself = (places_of_keys(low, group, SIZE) == left_out) & (unsure == 0)
            low = tl.where(itself, following, low)
        place = places_of_keys(low, group, SIZE)
        near = (low <= highest) & (low < float("inf"))
        is_open = near & (unsure | ((following <= highest) & (following < float("inf"))))
        near = is_open | (near & (place != best[:, None]))
        candidate = tl.where(near, tl.where(is_open, -2 - group, place), -0x7FFFFFFF)
        one = tl.max(candidate, axis=1)
        free = (other == -1) & (one > -0x7FFFFFFF)
        other = tl.where(free, one, other)
        near = near & ((free == 0)[:, None] | (candidate != one[:, None]))
        if tl.max(tl.max(near.to(tl.int32), axis=1), axis=0) > 0:
            at = tl.atomic_add(n_more + tl.zeros((QUERIES, 4), tl.int32), 1, mask=near, sem="relaxed")
            fits = near & (at < room)
            tl.store(more_pairs + at, tl.broadcast_to(pair[:, None], (QUERIES, 4)), mask=fits)
            tl.store(more + at, candidate, mask=fits)
    tl.store(others + pair, other, mask=is_query)


@jit
def rows_of_entries(  # type: ignore[no-untyped-def]
    queries, rows, half_norms, errors, lengths, factors, alphas, betas, gammas, thresholds, left_out_places, pairs,
    groups, row_pairs, row_places, n_more, n_entries, n_queries, n_columns, room, eta_of_factor,
    LEFT_OUT: tl.constexpr, ENTRIES: tl.constexpr, SIZE: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """One warp scores the groups of ``ENTRIES`` entries, one after the other."""
    within = tl.arange(0, SIZE)
    column = tl.arange(0, STEP)
    to_count = n_more + tl.zeros((SIZE,), tl.int32)
    begin = tl.program_id(0) * ENTRIES
    for entry in range(begin, tl.minimum(begin + ENTRIES, n_entries)):
        pair = tl.load(pairs + entry)
        group = tl.load(groups + entry)
        is_group = group >= 0
        group = tl.maximum(group, 0)
        query = (pair % n_queries).to(tl.int64)
        place = place_of(group, within, SIZE)
        to_row = rows + place[:, None].to(tl.int64) * n_columns + column[None, :]
        to_query = queries + query * n_columns + column
        products = tl.zeros((SIZE,), tl.float32)
        for first in range(0, n_columns, STEP):
            x = tl.load(to_row + first).to(tl.float32)
            q = tl.load(to_query + first).to(tl.float32)
            products += tl.sum(x * q[None, :], axis=1)
        factor = tl.load(factors + query)
        scores = tl.load(half_norms + place) * factor + products
        alpha = tl.load(alphas + query)
        beta = tl.load(betas + query)
        gamma = tl.load(gammas + query)
        slack = slack_of(alpha, beta, eta_of_factor * factor, gamma, tl.load(errors + place), tl.load(lengths + place))
        near = is_group & (scores - slack <= tl.load(thresholds + pair)) & (scores < float("inf"))
        if LEFT_OUT:
            near = near & (place != tl.load(left_out_places + query))
        kept = tl.min(tl.where(near, place, 0x7FFFFFFF), axis=0)
        tl.store(row_pairs + entry, pair)
        tl.store(row_places + entry, tl.where(kept < 0x7FFFFFFF, kept, -1))
        more = near & (place != kept)
        at = tl.atomic_add(to_count, 1, mask=more, sem="relaxed")
        fits = more & (at < room)
        tl.store(row_pairs + n_entries + at, pair + tl.zeros((SIZE,), tl.int32), mask=fits)
        tl.store(row_places + n_entries + at, place, mask=fits)


@jit
def squares_of_pairs(  # type: ignore[no-untyped-def]
    queries, rows, pairs, places, far, n_entries, n_queries, n_columns, ALL: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Queries lie by column, so that loads of neighboring pairs coalesce. ``ALL``: entry i is pair i.

    Launched without fused operations: sums are rounded after each multiplication and each addition.
    """
    entry = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    inside = entry < n_entries
    place = tl.load(places + entry, mask=inside, other=-1)
    is_row = place >= 0
    if ALL:
        to_query = queries + (entry % n_queries)
    else:
        to_query = queries + tl.load(pairs + entry, mask=inside, other=0) % n_queries
    to_row = rows + tl.maximum(place, 0).to(tl.int64) * n_columns
    total = tl.zeros((LANES,), tl.float64)
    for first in range(0, n_columns, 4):
        a, b, c, d = four_columns(to_row, is_row, first, n_columns, LANES)
        difference = tl.load(to_query) - a
        total += difference * difference
        more = is_row & (first + 1 < n_columns)
        difference = tl.load(to_query + n_queries, mask=more, other=0.0) - b
        total += difference * difference
        more = is_row & (first + 2 < n_columns)
        difference = tl.load(to_query + 2 * n_queries, mask=more, other=0.0) - c
        total += difference * difference
        more = is_row & (first + 3 < n_columns)
        difference = tl.load(to_query + 3 * n_queries, mask=more, other=0.0) - d
        total += difference * difference
        to_query += 4 * n_queries
    tl.store(far + entry, tl.where(is_row, total, float("inf")), mask=inside)


@jit
def scores_of_classes(  # type: ignore[no-untyped-def]
    queries, rows, half_norms, factors, starts, asking, tile_classes, tile_firsts, ends, scores, several, width,
    n_columns, STEP: tl.constexpr, LINES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Some lines of one class, and some of its rows.

    ``asking`` are the lines of ``scores`` sorted by class; line i is of query i // ``several``.
    """
    of_class = tl.load(tile_classes + tl.program_id(0))
    first = tl.load(starts + of_class)
    last = tl.load(starts + of_class + 1)
    begin = first + tl.program_id(1) * ROWS
    if begin < last:
        at = tl.load(tile_firsts + tl.program_id(0)) + tl.arange(0, LINES)
        is_line = at < tl.load(ends + of_class)
        line = tl.load(asking + at, mask=is_line, other=0)
        query = line // several
        place = begin + tl.arange(0, ROWS)
        inside = place < last
        column = tl.arange(0, STEP)
        to_query = queries + query[:, None].to(tl.int64) * n_columns + column[None, :]
        to_row = rows + place[None, :].to(tl.int64) * n_columns + column[:, None]
        products = tl.zeros((LINES, ROWS), tl.float32)
        for _ in range(0, n_columns, STEP):
            q = tl.load(to_query, mask=is_line[:, None], other=0.0)
            x = tl.load(to_row, mask=inside[None, :], other=0.0)
            products = tl.dot(q, x, products)
            to_query += STEP
            to_row += STEP
        minus_factor = -tl.load(factors + query)  # as where all rows are multiplied
        norms = tl.load(half_norms + place, mask=inside, other=float("inf"))
        out = scores + line[:, None].to(tl.int64) * width + (place - first)[None, :]
        both = is_line[:, None] & inside[None, :]
        tl.store(out, products - norms[None, :] * minus_factor[:, None], mask=both)


@jit
def members_below(  # type: ignore[no-untyped-def]
    scores, errors, lengths, factors, alphas, betas, gammas, starts, wanted, left_out_places, kept, counts, several,
    width, k, room, eta_of_factor, LEFT_OUT: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Every ``LANES``-th member of the class shares a lane."""
    line = tl.program_id(0).to(tl.int64)
    query = line // several
    of_class = tl.load(wanted + line)
    first = tl.load(starts + of_class)
    last = tl.load(starts + of_class + 1)
    alpha = tl.load(alphas + query)
    beta = tl.load(betas + query)
    gamma = tl.load(gammas + query)
    eta = eta_of_factor * tl.load(factors + query)
    left_out = first - 1
    if LEFT_OUT:
        left_out = tl.load(left_out_places + query)
    to_score = scores + line * width
    lane = tl.arange(0, LANES)
    highest = tl.full((LANES,), float("inf"), tl.float32)
    for start in range(first, last, LANES):
        place = start + lane
        inside = (place < last) & (place != left_out)
        score = tl.load(to_score + (place - first), mask=inside, other=float("inf"))
        error = tl.load(errors + place, mask=inside, other=0.0)
        length = tl.load(lengths + place, mask=inside, other=0.0)
        highest = tl.minimum(highest, score + slack_of(alpha, beta, eta, gamma, error, length))
    threshold = kth_lowest(highest, k, 14)
    count = tl.full((), 0, tl.int32)
    for start in range(first, last, LANES):
        place = start + lane
        inside = (place < last) & (place != left_out)
        score = tl.load(to_score + (place - first), mask=inside, other=float("inf"))
        error = tl.load(errors + place, mask=inside, other=0.0)
        length = tl.load(lengths + place, mask=inside, other=0.0)
        slack = slack_of(alpha, beta, eta, gamma, error, length)
        near = (score - slack <= threshold) & (score < float("inf"))
        at = count + tl.cumsum(near.to(tl.int32), axis=0) - 1
        tl.store(kept + line * room + at, place, mask=near & (at < room))
        count += tl.sum(near.to(tl.int32), axis=0)
    tl.store(counts + line, count)
