"""Triton kernels that select and measure candidates; ``steps.py`` specifies each step.

    list_groups     a program reads the minima of one query: their k-th lowest, and the groups below it
    list_rows       a program reads the listed groups of one query, 64 rows at a time
    measure         a program adds up the squares of one query's candidates, column by column, without fused operations
    order           the rank of a candidate is the number of candidates before it

Sums over columns in float64 round as the compiled loops of the CPU do: one multiplication, one addition.
"""

from __future__ import annotations

from nearsay.search.gpu.kernels.jit import jit, tl


@jit
def kth_lowest(values, k, TIMES: tl.constexpr):  # type: ignore[no-untyped-def]
    """A bound that k values do not exceed, by bisection: hardly above the k-th lowest; +inf if there are fewer.

    The bits of floats, as integers, are in order once those of negative numbers are flipped. At most ``TIMES`` steps.
    """
    bits = values.to(tl.int32, bitcast=True)
    keys = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    low = tl.min(keys, axis=0).to(tl.int64)
    highest = tl.max(keys, axis=0).to(tl.int64)
    finite = values < float("inf")
    high = tl.max(tl.where(finite, keys, -0x7FFFFFFF), axis=0).to(tl.int64)
    high = tl.where(tl.sum(finite.to(tl.int32), axis=0) >= k, high, highest)
    left = tl.full((), TIMES, tl.int32)
    while (low < high) & (left > 0):
        middle = (low + high) >> 1
        enough = tl.sum((keys <= middle.to(tl.int32)).to(tl.int32), axis=0) >= k
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle + 1)
        left -= 1
    key = high.to(tl.int32)
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@jit
def n_written(count, room):  # type: ignore[no-untyped-def]
    """How many entries of a list may be read: none if it overflowed, as then it was not filled."""
    return tl.where(count > room, 0, count)


@jit
def slack_of(alpha, beta, eta, gamma, error, length):  # type: ignore[no-untyped-def]
    """E of ``bounds.py``: how far a score may be off."""
    return alpha * error + (beta + eta * length) * length + gamma


@jit
def place_of(group, within, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """``rows.place_of``: where the rows of a group lie."""
    return group // 4 * (4 * SIZE) + within // 2 * 8 + group % 4 * 2 + within % 2


@jit
def four_columns(to_rows, is_row, first, n_columns, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    """Four numbers of each row, in float64, read by one thread at once; 0 past the last column."""
    column = first + tl.arange(0, 4)
    both = is_row[:, None] & (column < n_columns)[None, :]
    x = tl.load(to_rows[:, None] + column[None, :], mask=both, other=0)
    even, odd = tl.split(tl.reshape(x, (LANES, 2, 2)))
    a, c = tl.split(even)
    b, d = tl.split(odd)
    return a.to(tl.float64), b.to(tl.float64), c.to(tl.float64), d.to(tl.float64)


@jit
def groups_below(  # type: ignore[no-untyped-def]
    minima, group_errors, group_lengths, factors, alphas, betas, gammas, limits, thresholds, listed, counts,
    n_groups, k, room, eta_of_factor, TOGETHER: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Every ``TOGETHER``-th group shares a lane; only lanes with a group below the threshold are read again."""
    query = tl.program_id(0).to(tl.int64)
    alpha = tl.load(alphas + query)
    beta = tl.load(betas + query)
    gamma = tl.load(gammas + query)
    eta = eta_of_factor * tl.load(factors + query)
    line = minima + query * n_groups
    lane = tl.arange(0, TOGETHER)
    highest = tl.full((TOGETHER,), float("inf"), tl.float32)
    nearest = tl.full((TOGETHER,), float("inf"), tl.float32)
    for start in tl.range(0, n_groups, TOGETHER, num_stages=STAGES):
        group = start + lane
        inside = group < n_groups
        lowest = tl.load(line + group, mask=inside, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)
        length = tl.load(group_lengths + group, mask=inside, other=0.0)
        slack = slack_of(alpha, beta, eta, gamma, error, length)
        highest = tl.minimum(highest, lowest + slack)
        nearest = tl.minimum(nearest, lowest - slack)
    threshold = kth_lowest(highest, k, 32)
    threshold = tl.minimum(threshold, tl.load(limits + query))
    tl.store(thresholds + query, threshold)
    may = nearest <= threshold
    to_count = counts + query + tl.zeros((TOGETHER,), tl.int32)
    for start in range(0, n_groups, TOGETHER):
        group = start + lane
        inside = may & (group < n_groups)
        lowest = tl.load(line + group, mask=inside, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)
        length = tl.load(group_lengths + group, mask=inside, other=0.0)
        slack = slack_of(alpha, beta, eta, gamma, error, length)
        near = (lowest - slack <= threshold) & (lowest < float("inf"))
        place = tl.atomic_add(to_count, 1, mask=near, sem="relaxed")
        tl.store(listed + query * room + place, group, mask=near & (place < room))


@jit
def rows_below(  # type: ignore[no-untyped-def]
    queries, rows, half_norms, errors, lengths, factors, alphas, betas, gammas, thresholds, listed, counts, kept,
    kept_counts, room, width, n_columns, eta_of_factor, STEP: tl.constexpr, SIZE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Keeps rows in any order: ``places_of_kept`` sorts them."""
    query = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + query)
    n_listed = n_written(count, room)
    factor = tl.load(factors + query)
    alpha = tl.load(alphas + query)
    beta = tl.load(betas + query)
    gamma = tl.load(gammas + query)
    threshold = tl.load(thresholds + query)
    eta = eta_of_factor * factor
    lane = tl.arange(0, LANES)
    column = tl.arange(0, STEP)
    to_query = queries + query * n_columns + column
    to_count = kept_counts + query + tl.zeros((LANES,), tl.int32)
    for start in range(0, n_listed, LANES // SIZE):
        entry = start + lane // SIZE
        inside = entry < n_listed
        group = tl.load(listed + query * room + entry, mask=inside, other=0)
        row = place_of(group, lane % SIZE, SIZE)
        to_row = rows + row[:, None].to(tl.int64) * n_columns + column[None, :]
        products = tl.zeros((LANES,), tl.float32)
        for first in range(0, n_columns, STEP):
            x = tl.load(to_row + first, mask=inside[:, None], other=0.0).to(tl.float32)
            q = tl.load(to_query + first).to(tl.float32)
            products += tl.sum(x * q[None, :], axis=1)
        scores = tl.load(half_norms + row, mask=inside, other=float("inf")) * factor + products
        error = tl.load(errors + row, mask=inside, other=0.0)
        length = tl.load(lengths + row, mask=inside, other=0.0)
        slack = slack_of(alpha, beta, eta, gamma, error, length)
        near = (scores - slack <= threshold) & (scores < float("inf")) & inside
        place = tl.atomic_add(to_count, 1, mask=near, sem="relaxed")
        tl.store(kept + query * width + place, row, mask=near & (place < width))
    if count > room:
        tl.store(kept_counts + query, width + 1)


@jit
def one_more(total, square, query_square, q, x, COSINE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add one column to the sums; past the last one both numbers are 0, which changes nothing."""
    if COSINE:
        total += q * x
        square += x * x
        query_square += q * q
    else:
        difference = q - x
        total += difference * difference
    return total, square, query_square


@jit
def squares_of_kept(  # type: ignore[no-untyped-def]
    queries, exact, kept, counts, totals, squares, query_squares, width, n_columns, COSINE: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """Launched without fused operations: sums are rounded after each multiplication and each addition."""
    query = tl.program_id(0)
    count = n_written(tl.load(counts + query), width)
    start = tl.program_id(1) * LANES
    if start < count:
        lane = start + tl.arange(0, LANES)
        inside = lane < count
        place = query.to(tl.int64) * width + lane
        row = tl.load(kept + place, mask=inside, other=0)
        to_row = exact + row.to(tl.int64) * n_columns
        to_query = queries + query.to(tl.int64) * n_columns
        total = tl.zeros((LANES,), tl.float64)
        square = tl.zeros((LANES,), tl.float64)
        query_square = tl.zeros((1,), tl.float64)
        for first in range(0, n_columns, 4):
            a, b, c, d = four_columns(to_row, inside, first, n_columns, LANES)
            q = tl.load(to_query + first).to(tl.float64)
            total, square, query_square = one_more(total, square, query_square, q, a, COSINE)
            q = tl.load(to_query + first + 1, mask=first + 1 < n_columns, other=0).to(tl.float64)
            total, square, query_square = one_more(total, square, query_square, q, b, COSINE)
            q = tl.load(to_query + first + 2, mask=first + 2 < n_columns, other=0).to(tl.float64)
            total, square, query_square = one_more(total, square, query_square, q, c, COSINE)
            q = tl.load(to_query + first + 3, mask=first + 3 < n_columns, other=0).to(tl.float64)
            total, square, query_square = one_more(total, square, query_square, q, d, COSINE)
        tl.store(totals + place, total, mask=inside)
        if COSINE:
            tl.store(squares + place, square, mask=inside)
            tl.store(query_squares + query + tl.arange(0, 1), query_square)


@jit
def mapped_squares_of_kept(  # type: ignore[no-untyped-def]
    queries, exact, linear_map, kept, counts, totals, width, n_components, n_columns, LANES: tl.constexpr,
):  # fmt: skip
    """|L(q − x)|², component by component. Launched without fused operations, as above."""
    query = tl.program_id(0)
    count = n_written(tl.load(counts + query), width)
    start = tl.program_id(1) * LANES
    if start < count:
        lane = start + tl.arange(0, LANES)
        inside = lane < count
        place = query.to(tl.int64) * width + lane
        row = tl.load(kept + place, mask=inside, other=0)
        to_row = exact + row.to(tl.int64) * n_columns
        to_query = queries + query.to(tl.int64) * n_columns
        total = tl.zeros((LANES,), tl.float64)
        for c in range(n_components):
            component = tl.zeros((LANES,), tl.float64)
            for j in range(n_columns):
                weight = tl.load(linear_map + c * n_columns + j)
                q = tl.load(to_query + j).to(tl.float64)
                x = tl.load(to_row + j).to(tl.float64)
                component += weight * (q - x)
            total += component * component
        tl.store(totals + place, total, mask=inside)


@jit
def places_of_kept(  # type: ignore[no-untyped-def]
    kept, far, counts, left_out, numbers, distances, width, k, first, LEFT_OUT: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    query = tl.program_id(0)
    count = n_written(tl.load(counts + query), width)
    start = tl.program_id(1) * LANES
    if start < count:
        itself = first - 1
        if LEFT_OUT:
            itself = tl.load(left_out + query)
        lane = start + tl.arange(0, LANES)
        inside = lane < count
        line = query.to(tl.int64) * width
        number = tl.load(kept + line + lane, mask=inside, other=0).to(tl.int64) + first
        distance = tl.load(far + line + lane, mask=inside, other=float("inf"))
        before = tl.zeros((LANES,), tl.int32)
        for other in range(count):
            its_number = tl.load(kept + line + other).to(tl.int64) + first
            its_distance = tl.load(far + line + other)
            nearer = (its_distance < distance) | ((its_distance == distance) & (its_number < number))
            before += (nearer & (its_number != itself)).to(tl.int32)
        taken = inside & (number != itself) & (before < k)
        out = query.to(tl.int64) * k + before
        tl.store(numbers + out, number, mask=taken)
        tl.store(distances + out, distance, mask=taken)
