"""Triton kernels that round queries and multiply them with rows; ``steps.py`` specifies each step.

prepared        a program rounds one query to float16, and computes its error bound
group_minima    a program multiplies one tile of rows with many tiles of queries, and writes the lowest score of each
                group, or the two lowest with their places in the group (``TWO``)
"""

from __future__ import annotations

from nearsay.search.gpu.kernels.jit import jit, tl


@jit
def forms_of_queries(  # type: ignore[no-untyped-def]
    queries, center, constants, halves, factors, alphas, betas, gammas, certain, n_columns, width,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """``RowSpace.queries`` for one query; ``constants`` are the coefficients of its bound, in float64."""
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
    # A power of two that brings the length to between 128 and 256, from the bits of its exponent.
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
    """The lowest of (lines, rows) in each group: its rows, every fourth pair, lie in one thread."""
    parts = tl.reshape(scores, (LINES, ROWS // (4 * SIZE), SIZE // 2, 4, 2))
    return tl.reshape(tl.min(tl.min(parts, axis=4), axis=2), (LINES, ROWS // SIZE))


@jit
def both_lowest(low, following, other_low, other_following):  # type: ignore[no-untyped-def]
    """The two lowest of two sorted pairs."""
    following = tl.minimum(tl.maximum(low, other_low), tl.minimum(following, other_following))
    return tl.minimum(low, other_low), following


@jit
def two_lowest_of_groups(scores, factors, nothing, LINES: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The two lowest keys of each group (score, last bits: place in the group); +inf above ``nothing`` · factors."""
    row = tl.arange(0, ROWS)
    place = row // 8 % (SIZE // 2) * 2 + row % 2
    keys = (scores.to(tl.int32, bitcast=True) & -SIZE) | place[None, :]
    parts = tl.reshape(keys.to(tl.float32, bitcast=True), (LINES, ROWS // (4 * SIZE), SIZE // 2, 4, 2))
    one, other = tl.split(parts)
    low, following = tl.reduce((tl.minimum(one, other), tl.maximum(one, other)), 2, both_lowest)
    low = tl.reshape(low, (LINES, ROWS // SIZE))
    following = tl.reshape(following, (LINES, ROWS // SIZE))
    most = nothing * factors[:, None]
    return tl.where(low < most, low, float("inf")), tl.where(following < most, following, float("inf"))


@jit
def write_lowest(  # type: ignore[no-untyped-def]
    scores, factors, out, to_second, nothing, TWO: tl.constexpr, LINES: tl.constexpr, ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):  # fmt: skip
    """``to_second`` is the offset from the lowest scores to the second lowest."""
    if TWO:
        low, following = two_lowest_of_groups(scores, factors, nothing, LINES, ROWS, SIZE)
        tl.store(out, low)
        tl.store(out + to_second, following)
    else:
        tl.store(out, lowest_of_groups(scores, LINES, ROWS, SIZE))


@jit
def minima_of_short_rows(  # type: ignore[no-untyped-def]
    queries, rows, half_norms, factors, minima, n_query_tiles, tiles_a_program, n_groups, to_second, nothing,
    TWO: tl.constexpr, COLUMNS: tl.constexpr, LINES: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr,
    STAGES: tl.constexpr, COPIED: tl.constexpr,
):  # fmt: skip
    """Rows of up to 128 columns: a tile of rows stays in registers while queries, few enough for the cache, pass.

    ``COPIED``: ``queries`` is a descriptor, and the copy engine loads each tile; otherwise threads load it.
    """
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
        # Subtract the negative: tensor cores would start the sum with an added term, and truncate its digits.
        minus_factor = -tl.load(to_factor)
        scores = products - norms[None, :] * minus_factor[:, None]
        write_lowest(scores, -minus_factor, out, to_second, nothing, TWO, LINES, ROWS, SIZE)
        to_factor += LINES
        out += LINES * n_groups.to(tl.int64)


@jit
def minima_of_long_rows(  # type: ignore[no-untyped-def]
    queries, rows, half_norms, factors, minima, n_query_tiles, n_groups, n_columns, to_second, nothing,
    TWO: tl.constexpr, STEP: tl.constexpr, LINES: tl.constexpr, ROWS: tl.constexpr, SIZE: tl.constexpr,
    STAGES: tl.constexpr, COPIED: tl.constexpr,
):  # fmt: skip
    """One tile of queries times one of rows, some columns at a time. Neighboring programs share the rows."""
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
    minus_factor = -tl.load(factors + line)  # see minima_of_short_rows
    norms = tl.load(half_norms + tile * ROWS + within)
    scores = products - norms[None, :] * minus_factor[:, None]
    group = tile * (ROWS // SIZE) + tl.arange(0, ROWS // SIZE)
    out = minima + line[:, None].to(tl.int64) * n_groups + group[None, :]
    write_lowest(scores, -minus_factor, out, to_second, nothing, TWO, LINES, ROWS, SIZE)
