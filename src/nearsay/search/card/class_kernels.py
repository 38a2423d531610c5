"""Triton kernels that find the nearest members of classes on CUDA: ``class_steps.py`` says what each step gives.

    groups_of_class     a program reads the lowest scores of one class for some queries: the lowest, and those near it
    rows_of_entries     a program looks at the rows of some groups, each for a query
    squares_of_pairs    a program adds up the squares of many pairs of a query and a row, column by column
    squares_of_classes  a program measures some rows of a class for some queries that ask for it
    lowest_of_line      a program finds the m lowest numbers of a line
    groups_of_line      a program reads the lowest scores of one class for one query: the k-th lowest, and those below

Nearly always one group, and one row in it, may be the nearest of a class. It has a place of its own in what is written;
the few others are appended behind, in any order, and counted.
"""

from __future__ import annotations

from nearsay.search.card.jit import jit, tl


@jit
def groups_of_class(  # type: ignore[no-untyped-def]
    minima,
    group_errors,
    group_lengths,
    factors,
    alphas,
    betas,
    gammas,
    first_groups,
    own_groups,
    thresholds,
    pairs,
    groups,
    n_more,
    n_queries,
    n_pairs,
    n_groups,
    room,
    eta_of_factor,
    LEFT_OUT: tl.constexpr,
    QUERIES: tl.constexpr,
    GROUPS: tl.constexpr,
):
    of_class = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    asked = query < n_queries
    alpha = tl.load(alphas + query, mask=asked, other=0.0)[:, None]
    beta = tl.load(betas + query, mask=asked, other=0.0)[:, None]
    gamma = tl.load(gammas + query, mask=asked, other=0.0)[:, None]
    eta = eta_of_factor * tl.load(factors + query, mask=asked, other=0.0)[:, None]
    first = tl.load(first_groups + of_class)
    last = tl.load(first_groups + of_class + 1)
    line = minima + query.to(tl.int64)[:, None] * n_groups
    lane = tl.arange(0, GROUPS)
    threshold = tl.full((QUERIES,), float("inf"), tl.float32)
    nearest = tl.full((QUERIES,), float("inf"), tl.float32)
    best = tl.full((QUERIES,), -1, tl.int32)
    if LEFT_OUT:
        own = tl.load(own_groups + query, mask=asked, other=-1)[:, None]
    for start in range(first, last, GROUPS):
        group = start + lane
        inside = group < last
        both = asked[:, None] & inside[None, :]
        lowest = tl.load(line + group[None, :], mask=both, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)[None, :]
        length = tl.load(group_lengths + group, mask=inside, other=0.0)[None, :]
        highest = lowest + (alpha * error + (beta + eta * length) * length + gamma)
        if LEFT_OUT:
            highest = tl.where(group[None, :] == own, float("inf"), highest)
        threshold = tl.minimum(threshold, tl.min(highest, axis=1))
        least = tl.min(lowest, axis=1)
        its_group = tl.min(tl.where(lowest == least[:, None], group[None, :], 0x7FFFFFFF), axis=1)
        best = tl.where(least < nearest, its_group, best)
        nearest = tl.minimum(nearest, least)
    pair = of_class * n_queries + query
    tl.store(thresholds + pair, threshold, mask=asked)
    tl.store(pairs + pair, pair, mask=asked)
    tl.store(groups + pair, best, mask=asked)
    to_count = n_more + tl.zeros((QUERIES, GROUPS), tl.int32)
    for start in range(first, last, GROUPS):
        group = start + lane
        inside = group < last
        both = asked[:, None] & inside[None, :]
        lowest = tl.load(line + group[None, :], mask=both, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)[None, :]
        length = tl.load(group_lengths + group, mask=inside, other=0.0)[None, :]
        slack = alpha * error + (beta + eta * length) * length + gamma
        near = (lowest - slack <= threshold[:, None]) & (lowest < float("inf")) & (group[None, :] != best[:, None])
        if tl.max(tl.max(near.to(tl.int32), axis=1), axis=0) > 0:
            place = tl.atomic_add(to_count, 1, mask=near, sem="relaxed")
            fits = near & (place < room)
            tl.store(pairs + n_pairs + place, tl.broadcast_to(pair[:, None], (QUERIES, GROUPS)), mask=fits)
            tl.store(groups + n_pairs + place, tl.broadcast_to(group[None, :], (QUERIES, GROUPS)), mask=fits)


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
    columns,
    pairs,
    places,
    far,
    n_entries,
    n_queries,
    n_lines,
    n_columns,
    LANES: tl.constexpr,
):
    """Queries and rows lie by column: those of pairs beside each other are beside each other, or nearly so.

    Launched with fused operations off: a sum must be rounded after each multiplication and each addition.
    """
    entry = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    inside = entry < n_entries
    pair = tl.load(pairs + entry, mask=inside, other=0)
    place = tl.load(places + entry, mask=inside, other=-1)
    there = place >= 0
    to_query = queries + pair % n_queries
    to_row = columns + tl.maximum(place, 0)
    total = tl.zeros((LANES,), tl.float64)
    for _ in range(n_columns):
        q = tl.load(to_query)
        x = tl.load(to_row, mask=there, other=0).to(tl.float64)
        difference = q - x
        total += difference * difference
        to_query += n_queries
        to_row += n_lines
    tl.store(far + entry, tl.where(there, total, float("inf")), mask=inside)


@jit
def squares_of_classes(  # type: ignore[no-untyped-def]
    queries,
    columns,
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
    n_lines,
    n_columns,
    LEFT_OUT: tl.constexpr,
    LINES: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Some of those that ask for one class, and some of its rows. Launched with fused operations off, as above.

    ``asking`` are lines of ``far`` by the class they ask for; line i is about query i // ``several``.
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
        to_query = queries + query.to(tl.int64) * n_columns
        to_row = columns + place
        total = tl.zeros((LINES, ROWS), tl.float64)
        for j in range(n_columns):
            q = tl.load(to_query + j)
            x = tl.load(to_row, mask=inside, other=0).to(tl.float64)
            difference = q[:, None] - x[None, :]
            total += difference * difference
            to_row += n_lines
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


@jit
def groups_of_line(  # type: ignore[no-untyped-def]
    minima,
    group_errors,
    group_lengths,
    factors,
    alphas,
    betas,
    gammas,
    first_groups,
    queries,
    classes,
    thresholds,
    listed,
    counts,
    n_groups,
    k,
    room,
    eta_of_factor,
    LANES: tl.constexpr,
):
    """As ``groups_below`` of all rows: every ``LANES``-th group of the class shares a lane."""
    line = tl.program_id(0).to(tl.int64)
    query = tl.load(queries + line)
    of_class = tl.load(classes + line)
    first = tl.load(first_groups + of_class)
    last = tl.load(first_groups + of_class + 1)
    alpha = tl.load(alphas + query)
    beta = tl.load(betas + query)
    gamma = tl.load(gammas + query)
    eta = eta_of_factor * tl.load(factors + query)
    to_lowest = minima + query * n_groups
    lane = tl.arange(0, LANES)
    highest = tl.full((LANES,), float("inf"), tl.float32)
    for start in range(first, last, LANES):
        group = start + lane
        inside = group < last
        lowest = tl.load(to_lowest + group, mask=inside, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)
        length = tl.load(group_lengths + group, mask=inside, other=0.0)
        highest = tl.minimum(highest, lowest + (alpha * error + (beta + eta * length) * length + gamma))
    bits = highest.to(tl.int32, bitcast=True)
    keys = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    low = tl.min(keys, axis=0).to(tl.int64)
    high = tl.max(keys, axis=0).to(tl.int64)
    while low < high:
        middle = (low + high) >> 1
        enough = tl.sum((keys <= middle.to(tl.int32)).to(tl.int32), axis=0) >= k
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle + 1)
    key = high.to(tl.int32)
    threshold = tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)
    tl.store(thresholds + line, threshold)
    to_count = counts + line + tl.zeros((LANES,), tl.int32)
    for start in range(first, last, LANES):
        group = start + lane
        inside = group < last
        lowest = tl.load(to_lowest + group, mask=inside, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)
        length = tl.load(group_lengths + group, mask=inside, other=0.0)
        slack = alpha * error + (beta + eta * length) * length + gamma
        near = (lowest - slack <= threshold) & (lowest < float("inf"))
        place = tl.atomic_add(to_count, 1, mask=near, sem="relaxed")
        tl.store(listed + line * room + place, group, mask=near & (place < room))
