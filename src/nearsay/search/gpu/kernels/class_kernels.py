"""Triton kernels that find the nearest members of classes on CUDA: ``class_steps.py`` says what each step gives.

    nearest_of_class    a program reads the keys of one class for some queries: the lowest, and what else may be nearest
    rows_of_entries     a program looks at the rows of some groups, each for a query
    squares_of_pairs    a program adds up the squares of many pairs of a query and a row
    scores_of_classes   a program multiplies some rows of a class with some queries that ask for it
    members_below       a program reads the scores of one class for one query: the k-th lowest, and the rows below
    means_of_lines      a program averages the nearest members of many lines
    squares_of_classes  a program measures some rows of a class for some queries that ask for it
    lowest_of_line      a program finds the m lowest numbers of a line

Nearly always one row alone may be the nearest of a class, and hardly ever there are more than two. The first and one
other have a place of their own in what is written; the rest are appended to a list, in any order, and counted.
"""

from __future__ import annotations

from nearsay.search.gpu.kernels.jit import jit, tl
from nearsay.search.gpu.kernels.selection_kernels import four_columns, kth_lowest


@jit
def places_of_keys(keys, groups, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where the rows lie that keys of these groups tell."""
    within = keys.to(tl.int32, bitcast=True) & (SIZE - 1)
    return groups // 4 * (4 * SIZE) + within // 2 * 8 + groups % 4 * 2 + within % 2


@jit
def nearest_of_class(  # type: ignore[no-untyped-def]
    keys,
    group_errors,
    group_lengths,
    factors,
    alphas,
    betas,
    gammas,
    first_groups,
    own_places,
    thresholds,
    nearest,
    others,
    more_pairs,
    more,
    n_more,
    to_second,
    n_queries,
    n_groups,
    room,
    eta_of_factor,
    tiny,
    LEFT_OUT: tl.constexpr,
    SIZE: tl.constexpr,
    QUERIES: tl.constexpr,
):
    """A thread reads the keys of a query, those of the four groups of a stretch at a time."""
    of_class = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    asked = query < n_queries
    alpha = tl.load(alphas + query, mask=asked, other=0.0)[:, None]
    beta = tl.load(betas + query, mask=asked, other=0.0)[:, None]
    gamma = tl.load(gammas + query, mask=asked, other=0.0)[:, None]
    eta = eta_of_factor * tl.load(factors + query, mask=asked, other=0.0)[:, None]
    first = tl.load(first_groups + of_class)
    last = tl.load(first_groups + of_class + 1)
    four = tl.arange(0, 4)
    to_keys = keys + query.to(tl.int64)[:, None] * n_groups + four[None, :]
    threshold = tl.full((QUERIES,), float("inf"), tl.float32)
    lowest = tl.full((QUERIES,), float("inf"), tl.float32)
    best = tl.full((QUERIES,), -1, tl.int32)
    if LEFT_OUT:
        own = tl.load(own_places + query, mask=asked, other=-1)[:, None]
    for start in range(first, last, 4):
        group = start + four[None, :]
        low = tl.load(to_keys + start, mask=asked[:, None], other=float("inf"))
        error = tl.load(group_errors + group)
        length = tl.load(group_lengths + group)
        slack = alpha * error + (beta + eta * length) * length + gamma
        highest = low + slack
        if LEFT_OUT:
            following = tl.load(to_keys + start + to_second, mask=asked[:, None], other=float("inf"))
            unsure = (low < tiny) & (low > -tiny)
            itself = (places_of_keys(low, group, SIZE) == own) & (unsure == 0)
            low = tl.where(itself, following, low)
            highest = tl.where(unsure, float("inf"), low + slack)
        threshold = tl.minimum(threshold, tl.min(highest, axis=1))
        least = tl.min(low, axis=1)
        its_place = tl.max(tl.where(low == least[:, None], places_of_keys(low, group, SIZE), -1), axis=1)
        best = tl.where(least < lowest, its_place, best)
        lowest = tl.minimum(lowest, least)
    best = tl.where((lowest < tiny) & (lowest > -tiny), -1, best)
    pair = of_class * n_queries + query
    tl.store(thresholds + pair, threshold, mask=asked)
    tl.store(nearest + pair, best, mask=asked)
    other = tl.full((QUERIES,), -1, tl.int32)
    for start in range(first, last, 4):
        group = start + four[None, :]
        low = tl.load(to_keys + start, mask=asked[:, None], other=float("inf"))
        following = tl.load(to_keys + start + to_second, mask=asked[:, None], other=float("inf"))
        error = tl.load(group_errors + group)
        length = tl.load(group_lengths + group)
        highest = threshold[:, None] + (alpha * error + (beta + eta * length) * length + gamma)
        unsure = (low < tiny) & (low > -tiny)
        if LEFT_OUT:
            itself = (places_of_keys(low, group, SIZE) == own) & (unsure == 0)
            low = tl.where(itself, following, low)
        place = places_of_keys(low, group, SIZE)
        near = (low <= highest) & (low < float("inf"))
        is_open = near & (unsure | ((following <= highest) & (following < float("inf"))))
        near = is_open | (near & (place != best[:, None]))
        told = tl.where(near, tl.where(is_open, -2 - group, place), -0x7FFFFFFF)
        one = tl.max(told, axis=1)
        free = (other == -1) & (one > -0x7FFFFFFF)
        other = tl.where(free, one, other)
        near = near & ((free == 0)[:, None] | (told != one[:, None]))
        if tl.max(tl.max(near.to(tl.int32), axis=1), axis=0) > 0:
            at = tl.atomic_add(n_more + tl.zeros((QUERIES, 4), tl.int32), 1, mask=near, sem="relaxed")
            fits = near & (at < room)
            tl.store(more_pairs + at, tl.broadcast_to(pair[:, None], (QUERIES, 4)), mask=fits)
            tl.store(more + at, told, mask=fits)
    tl.store(others + pair, other, mask=asked)


@jit
def rows_of_entries(  # type: ignore[no-untyped-def]
    queries,
    rows,
    half_norms,
    errors,
    lengths,
    factors,
    alphas,
    betas,
    gammas,
    thresholds,
    own_places,
    pairs,
    groups,
    row_pairs,
    row_places,
    n_more,
    n_entries,
    n_queries,
    n_columns,
    room,
    eta_of_factor,
    LEFT_OUT: tl.constexpr,
    ENTRIES: tl.constexpr,
    SIZE: tl.constexpr,
    STEP: tl.constexpr,
):
    """One warp looks at the groups of ``ENTRIES`` entries, one after the other."""
    within = tl.arange(0, SIZE)
    column = tl.arange(0, STEP)
    to_count = n_more + tl.zeros((SIZE,), tl.int32)
    begin = tl.program_id(0) * ENTRIES
    for entry in range(begin, tl.minimum(begin + ENTRIES, n_entries)):
        pair = tl.load(pairs + entry)
        group = tl.load(groups + entry)
        there = group >= 0
        group = tl.maximum(group, 0)
        query = (pair % n_queries).to(tl.int64)
        place = (group // 4) * (4 * SIZE) + 8 * (within // 2) + 2 * (group % 4) + within % 2
        to_row = rows + place[:, None].to(tl.int64) * n_columns + column[None, :]
        to_query = queries + query * n_columns + column
        products = tl.zeros((SIZE,), tl.float32)
        for first in range(0, n_columns, STEP):
            x = tl.load(to_row + first).to(tl.float32)
            q = tl.load(to_query + first).to(tl.float32)
            products += tl.sum(x * q[None, :], axis=1)
        factor = tl.load(factors + query)
        scores = tl.load(half_norms + place) * factor + products
        length = tl.load(lengths + place)
        slack = tl.load(alphas + query) * tl.load(errors + place)
        slack += (tl.load(betas + query) + eta_of_factor * factor * length) * length + tl.load(gammas + query)
        near = there & (scores - slack <= tl.load(thresholds + pair)) & (scores < float("inf"))
        if LEFT_OUT:
            near = near & (place != tl.load(own_places + query))
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
    queries,
    rows,
    pairs,
    places,
    far,
    n_entries,
    n_queries,
    n_columns,
    ALL: tl.constexpr,
    LANES: tl.constexpr,
):
    """Queries lie by column: those of pairs beside each other are beside each other. ``ALL``: entry i is pair i.

    Launched with fused operations off: a sum must be rounded after each multiplication and each addition.
    """
    entry = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    inside = entry < n_entries
    place = tl.load(places + entry, mask=inside, other=-1)
    there = place >= 0
    if ALL:
        to_query = queries + (entry % n_queries)
    else:
        to_query = queries + tl.load(pairs + entry, mask=inside, other=0) % n_queries
    to_row = rows + tl.maximum(place, 0).to(tl.int64) * n_columns
    total = tl.zeros((LANES,), tl.float64)
    for first in range(0, n_columns, 4):
        a, b, c, d = four_columns(to_row, there, first, n_columns, LANES)
        difference = tl.load(to_query) - a
        total += difference * difference
        more = there & (first + 1 < n_columns)
        difference = tl.load(to_query + n_queries, mask=more, other=0.0) - b
        total += difference * difference
        more = there & (first + 2 < n_columns)
        difference = tl.load(to_query + 2 * n_queries, mask=more, other=0.0) - c
        total += difference * difference
        more = there & (first + 3 < n_columns)
        difference = tl.load(to_query + 3 * n_queries, mask=more, other=0.0) - d
        total += difference * difference
        to_query += 4 * n_queries
    tl.store(far + entry, tl.where(there, total, float("inf")), mask=inside)


@jit
def scores_of_classes(  # type: ignore[no-untyped-def]
    queries,
    rows,
    half_norms,
    factors,
    starts,
    asking,
    tile_classes,
    tile_firsts,
    ends,
    scores,
    several,
    width,
    n_columns,
    STEP: tl.constexpr,
    LINES: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some of those that ask for one class, and some of its rows.

    ``asking`` are lines of ``scores`` by the class they ask for; line i is about query i // ``several``.
    """
    of_class = tl.load(tile_classes + tl.program_id(0))
    first = tl.load(starts + of_class)
    last = tl.load(starts + of_class + 1)
    begin = first + tl.program_id(1) * ROWS
    if begin < last:
        at = tl.load(tile_firsts + tl.program_id(0)) + tl.arange(0, LINES)
        asked = at < tl.load(ends + of_class)
        line = tl.load(asking + at, mask=asked, other=0)
        query = line // several
        place = begin + tl.arange(0, ROWS)
        inside = place < last
        column = tl.arange(0, STEP)
        to_query = queries + query[:, None].to(tl.int64) * n_columns + column[None, :]
        to_row = rows + place[None, :].to(tl.int64) * n_columns + column[:, None]
        products = tl.zeros((LINES, ROWS), tl.float32)
        for _ in range(0, n_columns, STEP):
            q = tl.load(to_query, mask=asked[:, None], other=0.0)
            x = tl.load(to_row, mask=inside[None, :], other=0.0)
            products = tl.dot(q, x, products)
            to_query += STEP
            to_row += STEP
        minus_factor = -tl.load(factors + query)  # as where all rows are multiplied
        norms = tl.load(half_norms + place, mask=inside, other=float("inf"))
        out = scores + line[:, None].to(tl.int64) * width + (place - first)[None, :]
        both = asked[:, None] & inside[None, :]
        tl.store(out, products - norms[None, :] * minus_factor[:, None], mask=both)


@jit
def members_below(  # type: ignore[no-untyped-def]
    scores,
    errors,
    lengths,
    factors,
    alphas,
    betas,
    gammas,
    starts,
    asked,
    own_places,
    kept,
    counts,
    several,
    width,
    k,
    room,
    eta_of_factor,
    LEFT_OUT: tl.constexpr,
    LANES: tl.constexpr,
):
    """Every ``LANES``-th member of the class shares a lane."""
    line = tl.program_id(0).to(tl.int64)
    query = line // several
    of_class = tl.load(asked + line)
    first = tl.load(starts + of_class)
    last = tl.load(starts + of_class + 1)
    alpha = tl.load(alphas + query)
    beta = tl.load(betas + query)
    gamma = tl.load(gammas + query)
    eta = eta_of_factor * tl.load(factors + query)
    own = first - 1
    if LEFT_OUT:
        own = tl.load(own_places + query)
    to_score = scores + line * width
    lane = tl.arange(0, LANES)
    highest = tl.full((LANES,), float("inf"), tl.float32)
    for start in range(first, last, LANES):
        place = start + lane
        inside = (place < last) & (place != own)
        score = tl.load(to_score + (place - first), mask=inside, other=float("inf"))
        error = tl.load(errors + place, mask=inside, other=0.0)
        length = tl.load(lengths + place, mask=inside, other=0.0)
        highest = tl.minimum(highest, score + (alpha * error + (beta + eta * length) * length + gamma))
    threshold = kth_lowest(highest, k, 14)
    count = tl.full((), 0, tl.int32)
    for start in range(first, last, LANES):
        place = start + lane
        inside = (place < last) & (place != own)
        score = tl.load(to_score + (place - first), mask=inside, other=float("inf"))
        error = tl.load(errors + place, mask=inside, other=0.0)
        length = tl.load(lengths + place, mask=inside, other=0.0)
        slack = alpha * error + (beta + eta * length) * length + gamma
        near = (score - slack <= threshold) & (score < float("inf"))
        at = count + tl.cumsum(near.to(tl.int32), axis=0) - 1
        tl.store(kept + line * room + at, place, mask=near & (at < room))
        count += tl.sum(near.to(tl.int32), axis=0)
    tl.store(counts + line, count)


@jit
def means_of_lines(far, members, means, n_lines, width, n_members, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Added from the nearest on, as the processor adds: a sum made in another order may end in another digit."""
    line = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = line < n_lines
    to_far = far + line.to(tl.int64) * width
    total = tl.zeros((LANES,), tl.float64)
    added = tl.zeros((LANES,), tl.float64)
    for column in range(width):
        distance = tl.load(to_far + column, mask=inside, other=float("inf"))
        there = distance < float("inf")
        total = tl.where(there, total + distance, total)
        added += there.to(tl.float64)
        for number in range(n_members):
            reached = inside & (tl.load(members + number) == column + 1)
            tl.store(means + line.to(tl.int64) * n_members + number, total / added, mask=reached)


@jit
def squares_of_classes(  # type: ignore[no-untyped-def]
    queries,
    rows,
    half_norms,
    starts,
    asking,
    own_places,
    tile_classes,
    tile_firsts,
    ends,
    far,
    several,
    width,
    n_columns,
    LEFT_OUT: tl.constexpr,
    LINES: tl.constexpr,
    ROWS: tl.constexpr,
):
    """As ``scores_of_classes``, in float64. Launched with fused operations off, as above."""
    of_class = tl.load(tile_classes + tl.program_id(0))
    first = tl.load(starts + of_class)
    last = tl.load(starts + of_class + 1)
    begin = first + tl.program_id(1) * ROWS
    if begin < last:
        at = tl.load(tile_firsts + tl.program_id(0)) + tl.arange(0, LINES)
        asked = at < tl.load(ends + of_class)
        line = tl.load(asking + at, mask=asked, other=0)
        query = line // several
        place = begin + tl.arange(0, ROWS)
        inside = place < last
        to_query = queries + query.to(tl.int64) * n_columns
        to_row = rows + place.to(tl.int64) * n_columns
        total = tl.zeros((LINES, ROWS), tl.float64)
        for j in range(n_columns):
            q = tl.load(to_query + j)
            x = tl.load(to_row + j, mask=inside, other=0).to(tl.float64)
            difference = q[:, None] - x[None, :]
            total += difference * difference
        live = tl.load(half_norms + place, mask=inside, other=float("inf")) < float("inf")
        told = asked[:, None] & live[None, :]
        if LEFT_OUT:
            told = told & (place[None, :] != tl.load(own_places + query)[:, None])
        out = far + line.to(tl.int64)[:, None] * width + (place - first)[None, :]
        tl.store(out, total, mask=told)


@jit
def lowest_of_line(far, lowest, width, m, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """The m-th lowest by halving: as whole numbers, floats that are not negative are in the same order."""
    line = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    values = tl.load(far + line * width + lane, mask=lane < width, other=float("inf"))
    keys = values.to(tl.int64, bitcast=True)
    low = tl.min(keys, axis=0)
    high = tl.max(keys, axis=0)
    while low < high:
        middle = low + ((high - low) >> 1)
        enough = tl.sum((keys <= middle).to(tl.int32), axis=0) >= m
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle + 1)
    below = keys < high
    place = tl.cumsum(below.to(tl.int32), axis=0) - 1
    out = lowest + line * m
    tl.store(out + place, values, mask=below)
    # The rest are equal to the m-th.
    n_below = tl.sum(below.to(tl.int32), axis=0)
    edge = high.to(tl.float64, bitcast=True) + tl.zeros((LANES,), tl.float64)
    tl.store(out + lane, edge, mask=(lane >= n_below) & (lane < m))
