"""The steps of a search as Triton kernels, for CUDA; ``gpu_steps.py`` says what each gives. Imported on first use only.

    prepared        a program rounds one query, and adds up its bound
    group_minima    a program multiplies one tile of queries with many tiles of rows, and writes one number per group
    list_groups     a program reads the minima of one query twice: for the k-th lowest, and for those below it
    look            a program goes over the listed groups of one query, 64 rows at a time
    measure         a program adds up the squares of one query's candidates, column by column, without fused operations
    order           each candidate's place is the number of candidates that come before it

Loops over columns in ``measure`` round as the compiled loops of the CPU do: one multiplication, one addition.
"""

from __future__ import annotations

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # nothing here is called without it
    triton = tl = None


def jit(function: Any) -> Any:
    """The kernel; the function as it stands where there is no Triton."""
    return function if triton is None else triton.jit(function)


@jit
def forms_of_queries(  # type: ignore[no-untyped-def]
    queries,
    center,
    constants,
    halves,
    factors,
    alphas,
    betas,
    gammas,
    certain,
    n_columns,
    width,
    COLUMNS: tl.constexpr,
):
    """What ``RowSpace.queries`` does, for one query; ``constants`` are its numbers in float64."""
    query = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    inside = column < n_columns
    scale = tl.load(constants)
    rounded_up = tl.load(constants + 1)
    farthest = tl.load(constants + 2)
    summing = tl.load(constants + 3)
    constant = tl.load(constants + 4)
    linear = tl.load(constants + 5)
    quadratic = tl.load(constants + 6)
    bound_rounded_up = tl.load(constants + 7)
    row_scale = tl.load(constants + 8)
    q = tl.load(queries + query * n_columns + column, mask=inside, other=0.0).to(tl.float64)
    z = (q - tl.load(center + column, mask=inside, other=0.0)) * scale
    length = tl.sqrt(tl.sum(z * z, axis=0)) * rounded_up
    near = length <= farthest
    # A power of two that brings the length to between 128 and 256, from the digits of its exponent.
    power = 7 - (((length.to(tl.int64, bitcast=True) >> 52) & 0x7FF) - 1023)
    power = tl.minimum(tl.maximum(power, -60), 24)
    to_half = ((power + 1023) << 52).to(tl.float64, bitcast=True)
    back = ((1023 - power) << 52).to(tl.float64, bitcast=True)
    p = tl.where(near, z * to_half, 0.0).to(tl.float16)
    lost = tl.where(near, z - p.to(tl.float64) * back, 0.0)
    error = tl.sqrt(tl.sum(lost * lost, axis=0)) * rounded_up
    after = constant + length * (linear + length * quadratic)
    known = near & (after < float("inf"))
    scores = tl.where(known, to_half * row_scale * bound_rounded_up, 0.0)
    tl.store(halves + query * width + column, -p, mask=inside)
    tl.store(factors + query, (to_half / row_scale).to(tl.float32))
    tl.store(alphas + query, (tl.where(known, length, 0.0) * scores).to(tl.float32))
    tl.store(betas + query, (tl.where(known, error + summing * (length + error), 0.0) * scores).to(tl.float32))
    tl.store(gammas + query, (tl.where(known, after, 0.0) * scores).to(tl.float32))
    tl.store(certain + query, known)


@jit
def lowest_of_groups(scores, LINES: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The lowest of (lines, rows) in each group: pairs of rows, every fourth pair, stay within a thread."""
    parts = tl.reshape(scores, (LINES, ROWS // (4 * SIZE), SIZE // 2, 4, 2))
    return tl.reshape(tl.min(tl.min(parts, axis=4), axis=2), (LINES, ROWS // SIZE))


@jit
def minima_of_short_rows(  # type: ignore[no-untyped-def]
    queries,
    rows,
    half_norms,
    factors,
    minima,
    n_query_tiles,
    n_tiles,
    tiles_a_program,
    n_groups,
    COLUMNS: tl.constexpr,
    LINES: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
    STAGES: tl.constexpr,
    COPIED: tl.constexpr,
):
    """Queries stay, rows pass: for rows so short that a tile of queries fits beside several tiles of rows.

    ``COPIED``: ``rows`` is a descriptor, and the card's copy engine brings each tile; otherwise threads load it.
    """
    program = tl.program_id(0)
    part = program // n_query_tiles
    line = (program % n_query_tiles) * LINES + tl.arange(0, LINES)
    column = tl.arange(0, COLUMNS)
    several = tl.load(queries + line[:, None] * COLUMNS + column[None, :])
    # Subtracted with its sign turned: a sum would be begun with it, on tensor cores, which cut off digits of it.
    minus_factor = -tl.load(factors + line)
    start = part * tiles_a_program
    stop = tl.minimum(start + tiles_a_program, n_tiles)
    within = tl.arange(0, ROWS)
    group = tl.arange(0, ROWS // SIZE)
    if not COPIED:
        to_row = rows + start.to(tl.int64) * (ROWS * COLUMNS) + within[None, :] * COLUMNS + column[:, None]
    to_norm = half_norms + start * ROWS + within
    out = minima + line[:, None].to(tl.int64) * n_groups + start * (ROWS // SIZE) + group[None, :]
    for tile in tl.range(start, stop, num_stages=STAGES):
        if COPIED:
            products = tl.dot(several, tl.trans(rows.load([tile * ROWS, 0])))
        else:
            products = tl.dot(several, tl.load(to_row))
            to_row += ROWS * COLUMNS
        scores = products - tl.load(to_norm)[None, :] * minus_factor[:, None]
        tl.store(out, lowest_of_groups(scores, LINES, ROWS, SIZE))
        to_norm += ROWS
        out += ROWS // SIZE


@jit
def minima_while_rows_stay(  # type: ignore[no-untyped-def]
    queries,
    rows,
    half_norms,
    factors,
    minima,
    n_query_tiles,
    tiles_a_program,
    n_groups,
    COLUMNS: tl.constexpr,
    LINES: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
    STAGES: tl.constexpr,
    COPIED: tl.constexpr,
):
    """Rows stay, queries pass: every row is read from memory once, and queries are few enough for the cache."""
    parts = (n_query_tiles + tiles_a_program - 1) // tiles_a_program
    tile = tl.program_id(0) // parts
    start = (tl.program_id(0) % parts) * tiles_a_program
    stop = tl.minimum(start + tiles_a_program, n_query_tiles)
    row = tile.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    x = tl.load(rows + row[None, :] * COLUMNS + column[:, None])
    norms = tl.load(half_norms + row)
    line = tl.arange(0, LINES)
    group = tile * (ROWS // SIZE) + tl.arange(0, ROWS // SIZE)
    out = minima + (start * LINES + line)[:, None].to(tl.int64) * n_groups + group[None, :]
    if not COPIED:
        to_query = queries + (start * LINES + line)[:, None] * COLUMNS + column[None, :]
    to_factor = factors + start * LINES + line
    for several in tl.range(start, stop, num_stages=STAGES):
        if COPIED:
            products = tl.dot(queries.load([several * LINES, 0]), x)
        else:
            products = tl.dot(tl.load(to_query), x)
            to_query += LINES * COLUMNS
        # Subtracted with its sign turned, as above.
        scores = products - norms[None, :] * (-tl.load(to_factor))[:, None]
        tl.store(out, lowest_of_groups(scores, LINES, ROWS, SIZE))
        to_factor += LINES
        out += LINES * n_groups.to(tl.int64)


@jit
def minima_of_long_rows(  # type: ignore[no-untyped-def]
    queries,
    rows,
    half_norms,
    factors,
    minima,
    n_query_tiles,
    n_groups,
    n_columns,
    STEP: tl.constexpr,
    LINES: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
    STAGES: tl.constexpr,
    COPIED: tl.constexpr,
):
    """One tile of queries times one of rows, some columns at a time. Programs beside each other share the rows."""
    program = tl.program_id(0)
    tile = program // n_query_tiles
    line = (program % n_query_tiles) * LINES + tl.arange(0, LINES)
    within = tl.arange(0, ROWS)
    column = tl.arange(0, STEP)
    if not COPIED:
        to_query = queries + line[:, None] * n_columns + column[None, :]
        to_row = rows + tile.to(tl.int64) * ROWS * n_columns + within[None, :] * n_columns + column[:, None]
    products = tl.zeros((LINES, ROWS), tl.float32)
    for first in tl.range(0, n_columns, STEP, num_stages=STAGES):
        if COPIED:
            several = queries.load([(program % n_query_tiles) * LINES, first])
            products = tl.dot(several, tl.trans(rows.load([tile * ROWS, first])), products)
        else:
            products = tl.dot(tl.load(to_query), tl.load(to_row), products)
            to_query += STEP
            to_row += STEP
    minus_factor = -tl.load(factors + line)  # as above
    norms = tl.load(half_norms + tile * ROWS + within)
    scores = products - norms[None, :] * minus_factor[:, None]
    group = tile * (ROWS // SIZE) + tl.arange(0, ROWS // SIZE)
    out = minima + line[:, None].to(tl.int64) * n_groups + group[None, :]
    tl.store(out, lowest_of_groups(scores, LINES, ROWS, SIZE))


@jit
def groups_below(  # type: ignore[no-untyped-def]
    minima,
    group_errors,
    group_lengths,
    factors,
    alphas,
    betas,
    gammas,
    limits,
    thresholds,
    listed,
    counts,
    n_groups,
    k,
    room,
    eta_of_factor,
    TOGETHER: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Every ``TOGETHER``-th group shares a lane. Only lanes that hold one below the threshold are looked at again."""
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
        slack = alpha * error + (beta + eta * length) * length + gamma
        highest = tl.minimum(highest, lowest + slack)
        nearest = tl.minimum(nearest, lowest - slack)
    # The k-th lowest, by halving: as whole numbers, floats of one sign are in order, and the others are turned round.
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
        slack = alpha * error + (beta + eta * length) * length + gamma
        near = (lowest - slack <= threshold) & (lowest < float("inf"))
        place = tl.atomic_add(to_count, 1, mask=near, sem="relaxed")
        tl.store(listed + query * room + place, group, mask=near & (place < room))


@jit
def rows_below(  # type: ignore[no-untyped-def]
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
    listed,
    counts,
    kept,
    kept_counts,
    room,
    width,
    n_columns,
    eta_of_factor,
    STEP: tl.constexpr,
    SIZE: tl.constexpr,
    LANES: tl.constexpr,
):
    """Rows are kept in any order: ``places_of_kept`` puts them in theirs."""
    query = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + query)
    there = tl.where(count > room, 0, count)
    factor = tl.load(factors + query)
    alpha = tl.load(alphas + query)
    beta = tl.load(betas + query)
    gamma = tl.load(gammas + query)
    threshold = tl.load(thresholds + query)
    eta = eta_of_factor * factor
    lane = tl.arange(0, LANES)
    place_in_group = lane % SIZE
    column = tl.arange(0, STEP)
    to_query = queries + query * n_columns + column
    to_count = kept_counts + query + tl.zeros((LANES,), tl.int32)
    for start in range(0, there, LANES // SIZE):
        entry = start + lane // SIZE
        inside = entry < there
        group = tl.load(listed + query * room + entry, mask=inside, other=0)
        row = (group // 4) * (4 * SIZE) + 8 * (place_in_group // 2) + 2 * (group % 4) + place_in_group % 2
        to_row = rows + row[:, None].to(tl.int64) * n_columns + column[None, :]
        products = tl.zeros((LANES,), tl.float32)
        for first in range(0, n_columns, STEP):
            x = tl.load(to_row + first, mask=inside[:, None], other=0.0).to(tl.float32)
            q = tl.load(to_query + first).to(tl.float32)
            products += tl.sum(x * q[None, :], axis=1)
        scores = tl.load(half_norms + row, mask=inside, other=float("inf")) * factor + products
        error = tl.load(errors + row, mask=inside, other=0.0)
        length = tl.load(lengths + row, mask=inside, other=0.0)
        slack = alpha * error + (beta + eta * length) * length + gamma
        near = (scores - slack <= threshold) & (scores < float("inf")) & inside
        place = tl.atomic_add(to_count, 1, mask=near, sem="relaxed")
        tl.store(kept + query * width + place, row, mask=near & (place < width))
    if count > room:
        tl.store(kept_counts + query, width + 1)


@jit
def squares_of_kept(  # type: ignore[no-untyped-def]
    queries,
    exact,
    kept,
    counts,
    totals,
    squares,
    query_squares,
    width,
    n_columns,
    COSINE: tl.constexpr,
    LANES: tl.constexpr,
):
    """Launched with fused operations off: a sum must be rounded after each multiplication and each addition."""
    query = tl.program_id(0)
    count = tl.load(counts + query)
    start = tl.program_id(1) * LANES
    if start < tl.minimum(count, width):
        lane = start + tl.arange(0, LANES)
        inside = lane < tl.minimum(count, width)
        place = query.to(tl.int64) * width + lane
        row = tl.load(kept + place, mask=inside, other=0)
        to_row = exact + row.to(tl.int64) * n_columns
        to_query = queries + query.to(tl.int64) * n_columns
        total = tl.zeros((LANES,), tl.float64)
        square = tl.zeros((LANES,), tl.float64)
        query_square = tl.zeros((1,), tl.float64)
        for j in range(n_columns):
            q = tl.load(to_query + j).to(tl.float64)
            x = tl.load(to_row + j).to(tl.float64)
            if COSINE:
                total += q * x
                square += x * x
                query_square += q * q
            else:
                difference = q - x
                total += difference * difference
        tl.store(totals + place, total, mask=inside)
        if COSINE:
            tl.store(squares + place, square, mask=inside)
            tl.store(query_squares + query + tl.arange(0, 1), query_square)


@jit
def places_of_kept(  # type: ignore[no-untyped-def]
    kept,
    far,
    counts,
    left_out,
    numbers,
    distances,
    width,
    k,
    first,
    LEFT_OUT: tl.constexpr,
    LANES: tl.constexpr,
):
    query = tl.program_id(0)
    count = tl.minimum(tl.load(counts + query), width)
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


@jit
def nearest_of_class(  # type: ignore[no-untyped-def]
    queries,
    rows,
    half_norms,
    errors,
    lengths,
    minima,
    group_errors,
    group_lengths,
    factors,
    alphas,
    betas,
    gammas,
    first_groups,
    places,
    exact_queries,
    exact,
    numbers,
    distances,
    n_classes,
    n_groups,
    n_columns,
    n_exact_columns,
    eta_of_factor,
    ROOT: tl.constexpr,
    GROUPS: tl.constexpr,
    SIZE: tl.constexpr,
    STEP: tl.constexpr,
):
    """One query and one class. Launched with fused operations off, as ``squares_of_kept``."""
    number = tl.program_id(0).to(tl.int64)
    query = number // n_classes
    of_class = number % n_classes
    first = tl.load(first_groups + of_class)
    last = tl.load(first_groups + of_class + 1)
    factor = tl.load(factors + query)
    alpha = tl.load(alphas + query)
    beta = tl.load(betas + query)
    gamma = tl.load(gammas + query)
    eta = eta_of_factor * factor
    line = minima + query * n_groups
    lane = tl.arange(0, GROUPS)
    threshold = float("inf")
    for start in range(first, last, GROUPS):
        group = start + lane
        inside = group < last
        lowest = tl.load(line + group, mask=inside, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)
        length = tl.load(group_lengths + group, mask=inside, other=0.0)
        highest = lowest + (alpha * error + (beta + eta * length) * length + gamma)
        threshold = tl.minimum(threshold, tl.min(highest, axis=0))
    place = tl.arange(0, SIZE)
    column = tl.arange(0, STEP)
    nearest = tl.full((), float("inf"), tl.float64)
    its_row = tl.full((), 0x7FFFFFFF, tl.int32)
    for start in range(first, last, GROUPS):
        group = start + lane
        inside = group < last
        lowest = tl.load(line + group, mask=inside, other=float("inf"))
        error = tl.load(group_errors + group, mask=inside, other=0.0)
        length = tl.load(group_lengths + group, mask=inside, other=0.0)
        slack = alpha * error + (beta + eta * length) * length + gamma
        left = tl.where((lowest - slack <= threshold) & (lowest < float("inf")), group, 0x7FFFFFFF)
        following = tl.min(left, axis=0)
        while following < 0x7FFFFFFF:
            left = tl.where(left == following, 0x7FFFFFFF, left)
            member = (following // 4) * (4 * SIZE) + 8 * (place // 2) + 2 * (following % 4) + place % 2
            to_row = rows + member[:, None].to(tl.int64) * n_columns + column[None, :]
            products = tl.zeros((SIZE,), tl.float32)
            for step in range(0, n_columns, STEP):
                x = tl.load(to_row + step).to(tl.float32)
                q = tl.load(queries + query * n_columns + step + column).to(tl.float32)
                products += tl.sum(x * q[None, :], axis=1)
            scores = tl.load(half_norms + member) * factor + products
            long = tl.load(lengths + member)
            slack_of_rows = alpha * tl.load(errors + member) + (beta + eta * long) * long + gamma
            near = (scores - slack_of_rows <= threshold) & (scores < float("inf"))
            row = tl.load(places + member)
            to_exact = exact + tl.where(near, row, 0).to(tl.int64) * n_exact_columns
            total = tl.zeros((SIZE,), tl.float64)
            for j in range(n_exact_columns):
                q_j = tl.load(exact_queries + query * n_exact_columns + j).to(tl.float64)
                x_j = tl.load(to_exact + j, mask=near, other=0.0).to(tl.float64)
                difference = q_j - x_j
                total += difference * difference
            if ROOT:
                total = tl.sqrt(total)
            total = tl.where(near, total, float("inf"))
            least = tl.min(total, axis=0)
            least_row = tl.min(tl.where(near & (total == least), row, 0x7FFFFFFF), axis=0)
            better = (least < nearest) | ((least == nearest) & (least_row < its_row))
            nearest = tl.where(better, least, nearest)
            its_row = tl.where(better, least_row, its_row)
            following = tl.min(left, axis=0)
    tl.store(numbers + number, tl.where(its_row < 0x7FFFFFFF, its_row, -1).to(tl.int64))
    tl.store(distances + number, nearest)
