"""Compiled loops of the vector distances. Imported on first use only.

All have one shape, ``kernel(Q, columns, [arguments,] out)``: ``Q`` is (queries × d), and ``columns`` is (d × rows), the
rows transposed, so that the innermost loop runs over neighboring rows and is vectorized. Each distance is still summed
coordinate by coordinate in order, as in a plain double loop, whatever else is measured.

Loops that need a power or a logarithm run pair by pair instead: vectorized, those may round differently.
"""

from __future__ import annotations

import math

import numpy as np

from nearsay.core.compiling import compiled

# Rows whose differences mahalanobis holds at once, so that they stay in the processor's cache.
ROWS_IN_CACHE = 64


@compiled
def squared_euclidean(Q, columns, out):  # type: ignore[no-untyped-def]
    # Two queries and four columns at a time: what is read serves twice, and sums are written a quarter as often.
    # Terms are added in the order of the columns all the same.
    out[:] = 0.0
    n_queries, n_columns = Q.shape
    in_pairs, in_fours = n_queries - n_queries % 2, n_columns - n_columns % 4
    for i in range(0, in_pairs, 2):
        first, second = out[i], out[i + 1]
        for j in range(0, in_fours, 4):
            p0, p1, p2, p3 = Q[i, j], Q[i, j + 1], Q[i, j + 2], Q[i, j + 3]
            q0, q1, q2, q3 = Q[i + 1, j], Q[i + 1, j + 1], Q[i + 1, j + 2], Q[i + 1, j + 3]
            c0, c1, c2, c3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
            for r in range(columns.shape[1]):
                a0, a1, a2, a3 = p0 - c0[r], p1 - c1[r], p2 - c2[r], p3 - c3[r]
                b0, b1, b2, b3 = q0 - c0[r], q1 - c1[r], q2 - c2[r], q3 - c3[r]
                first[r] = (((first[r] + a0 * a0) + a1 * a1) + a2 * a2) + a3 * a3
                second[r] = (((second[r] + b0 * b0) + b1 * b1) + b2 * b2) + b3 * b3
    for i in range(n_queries):
        total = out[i]
        for j in range(in_fours if i < in_pairs else 0, n_columns):
            q, column = Q[i, j], columns[j]
            for r in range(column.shape[0]):
                difference = q - column[r]
                total[r] += difference * difference


@compiled
def euclidean(Q, columns, out):  # type: ignore[no-untyped-def]
    squared_euclidean(Q, columns, out)
    for i in range(out.shape[0]):
        for r in range(out.shape[1]):
            out[i, r] = math.sqrt(out[i, r])


@compiled
def root_of_half_squares(Q, columns, out):  # type: ignore[no-untyped-def]
    squared_euclidean(Q, columns, out)
    for i in range(out.shape[0]):
        for r in range(out.shape[1]):
            out[i, r] = math.sqrt(out[i, r] / 2)


@compiled
def manhattan(Q, columns, out):  # type: ignore[no-untyped-def]
    # Two queries and four columns at a time: what is read serves twice, and sums are written a quarter as often.
    # Terms are added in the order of the columns all the same.
    out[:] = 0.0
    n_queries, n_columns = Q.shape
    in_pairs, in_fours = n_queries - n_queries % 2, n_columns - n_columns % 4
    for i in range(0, in_pairs, 2):
        first, second = out[i], out[i + 1]
        for j in range(0, in_fours, 4):
            p0, p1, p2, p3 = Q[i, j], Q[i, j + 1], Q[i, j + 2], Q[i, j + 3]
            q0, q1, q2, q3 = Q[i + 1, j], Q[i + 1, j + 1], Q[i + 1, j + 2], Q[i + 1, j + 3]
            c0, c1, c2, c3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
            for r in range(columns.shape[1]):
                x0, x1, x2, x3 = c0[r], c1[r], c2[r], c3[r]
                first[r] = (((first[r] + abs(p0 - x0)) + abs(p1 - x1)) + abs(p2 - x2)) + abs(p3 - x3)
                second[r] = (((second[r] + abs(q0 - x0)) + abs(q1 - x1)) + abs(q2 - x2)) + abs(q3 - x3)
    for i in range(n_queries):
        total = out[i]
        for j in range(in_fours if i < in_pairs else 0, n_columns):
            q, column = Q[i, j], columns[j]
            for r in range(column.shape[0]):
                total[r] += abs(q - column[r])


@compiled
def chebyshev(Q, columns, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    for i in range(Q.shape[0]):
        largest = out[i]
        for j in range(Q.shape[1]):
            q = Q[i, j]
            column = columns[j]
            for r in range(column.shape[0]):
                difference = abs(q - column[r])
                largest[r] = difference if difference > largest[r] else largest[r]


@compiled
def minkowski(Q, columns, p, out):  # type: ignore[no-untyped-def]
    rows = columns.T.copy()
    for i in range(Q.shape[0]):
        for r in range(rows.shape[0]):
            total = 0.0
            for j in range(Q.shape[1]):
                total += abs(Q[i, j] - rows[r, j]) ** p
            out[i, r] = total ** (1.0 / p)


@compiled
def mahalanobis(Q, columns, L, out):  # type: ignore[no-untyped-def]
    """|L(q − x)|: the difference first, so that a common offset cancels before anything is rounded."""
    d, n = columns.shape
    differences = np.empty((d, ROWS_IN_CACHE))
    component = np.empty(ROWS_IN_CACHE)
    out[:] = 0.0
    for i in range(Q.shape[0]):
        for start in range(0, n, ROWS_IN_CACHE):
            size = min(ROWS_IN_CACHE, n - start)
            for j in range(d):
                for r in range(size):
                    differences[j, r] = Q[i, j] - columns[j, start + r]
            total = out[i, start : start + size]
            for c in range(L.shape[0]):
                component[:] = 0.0
                for j in range(d):
                    weight = L[c, j]
                    difference = differences[j]
                    for r in range(size):
                        component[r] += weight * difference[r]
                for r in range(size):
                    total[r] += component[r] * component[r]
            for r in range(size):
                total[r] = math.sqrt(total[r])


# ---------------------------------------------------------------- ratios


@compiled
def _one_minus_cosine(dot, length, other):  # type: ignore[no-untyped-def]
    return min(max(1.0 - dot / (length * other), 0.0), 2.0)


@compiled
def cosine(Q, columns, out):  # type: ignore[no-untyped-def]
    lengths = np.zeros(columns.shape[1])
    for j in range(columns.shape[0]):
        column = columns[j]
        for r in range(column.shape[0]):
            lengths[r] += column[r] * column[r]
    lengths, of_queries = np.sqrt(lengths), _lengths(Q)
    out[:] = 0.0
    for i in range(Q.shape[0]):
        dot = out[i]
        for j in range(Q.shape[1]):
            q, column = Q[i, j], columns[j]
            for r in range(column.shape[0]):
                dot[r] += q * column[r]
        for r in range(dot.shape[0]):
            dot[r] = _one_minus_cosine(dot[r], of_queries[i], lengths[r])


@compiled
def canberra(Q, columns, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    for i in range(Q.shape[0]):
        total = out[i]
        for j in range(Q.shape[1]):
            q = Q[i, j]
            column = columns[j]
            for r in range(column.shape[0]):
                size = abs(q) + abs(column[r])
                total[r] += abs(q - column[r]) / size if size > 0.0 else 0.0


@compiled
def braycurtis(Q, columns, out):  # type: ignore[no-untyped-def]
    sizes = np.empty(columns.shape[1])
    out[:] = 0.0
    for i in range(Q.shape[0]):
        total = out[i]
        sizes[:] = 0.0
        for j in range(Q.shape[1]):
            q = Q[i, j]
            column = columns[j]
            for r in range(column.shape[0]):
                total[r] += abs(q - column[r])
                sizes[r] += abs(q + column[r])
        for r in range(sizes.shape[0]):
            total[r] = total[r] / sizes[r] if total[r] > 0.0 else 0.0


@compiled
def hamming(Q, columns, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    for i in range(Q.shape[0]):
        different = out[i]
        for j in range(Q.shape[1]):
            q = Q[i, j]
            column = columns[j]
            for r in range(column.shape[0]):
                different[r] += 1.0 if q != column[r] else 0.0
        for r in range(different.shape[0]):
            different[r] /= Q.shape[1]


@compiled
def jaccard(Q, columns, out):  # type: ignore[no-untyped-def]
    present = np.empty(columns.shape[1])
    out[:] = 0.0
    for i in range(Q.shape[0]):
        different = out[i]
        present[:] = 0.0
        for j in range(Q.shape[1]):
            in_query = Q[i, j] != 0.0
            column = columns[j]
            for r in range(column.shape[0]):
                in_row = column[r] != 0.0
                different[r] += 1.0 if in_query != in_row else 0.0
                present[r] += 1.0 if in_query or in_row else 0.0
        for r in range(present.shape[0]):
            different[r] = different[r] / present[r] if present[r] > 0.0 else 0.0


# ---------------------------------------------------------------- histograms


@compiled
def chi2(Q, columns, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    for i in range(Q.shape[0]):
        total = out[i]
        for j in range(Q.shape[1]):
            q = Q[i, j]
            column = columns[j]
            for r in range(column.shape[0]):
                difference = q - column[r]
                amount = q + column[r]
                total[r] += difference * difference / amount if amount > 0.0 else 0.0
        for r in range(total.shape[0]):
            total[r] /= 2


@compiled
def intersection(Q, columns, out):  # type: ignore[no-untyped-def]
    amounts = np.zeros(columns.shape[1])
    for j in range(columns.shape[0]):
        column = columns[j]
        for r in range(column.shape[0]):
            amounts[r] += column[r]
    out[:] = 0.0
    for i in range(Q.shape[0]):
        amount = 0.0
        shared = out[i]
        for j in range(Q.shape[1]):
            q = Q[i, j]
            amount += q
            column = columns[j]
            for r in range(column.shape[0]):
                shared[r] += q if q < column[r] else column[r]
        for r in range(shared.shape[0]):
            shared[r] = 1.0 - shared[r] / (amount if amount > amounts[r] else amounts[r])


@compiled
def kullback_leibler(Q, columns, out):  # type: ignore[no-untyped-def]
    rows = columns.T.copy()
    for i in range(Q.shape[0]):
        for r in range(rows.shape[0]):
            total = 0.0
            for j in range(Q.shape[1]):
                total += Q[i, j] * math.log(Q[i, j] / rows[r, j])
            # Never below zero but for rounding.
            out[i, r] = max(total, 0.0)


@compiled
def jensen_shannon(Q, columns, out):  # type: ignore[no-untyped-def]
    rows = columns.T.copy()
    for i in range(Q.shape[0]):
        for r in range(rows.shape[0]):
            from_query = from_row = 0.0
            for j in range(Q.shape[1]):
                q, x = Q[i, j], rows[r, j]
                both = q + x  # twice the middle, which could be too small to represent
                if q > 0.0:
                    from_query += q * math.log(2 * q / both)
                if x > 0.0:
                    from_row += x * math.log(2 * x / both)
            # Never below zero but for rounding.
            out[i, r] = math.sqrt(max(from_query + from_row, 0.0) / 2)


# ---------------------------------------------------------------- chosen pairs


@compiled
def measure_euclidean(Q, X, candidates, first, squared, share, out):  # type: ignore[no-untyped-def]
    """Measure each query against its own candidates, without transposing rows; the sum is multiplied by ``share``.

    Four at a time hide the latency of additions; each is still summed in order.
    """
    n, d = X.shape
    for i in range(candidates.shape[0]):
        q = Q[i]
        for start in range(0, candidates.shape[1], 4):
            stop = min(start + 4, candidates.shape[1])
            r0 = candidates[i, start] - first
            r1 = candidates[i, min(start + 1, stop - 1)] - first
            r2 = candidates[i, min(start + 2, stop - 1)] - first
            r3 = candidates[i, stop - 1] - first
            if max(r0, r1, r2, r3) < 0:  # −1 fills up
                continue
            # Rows that lie elsewhere are read as row 0 and not written.
            x0, x1 = X[r0 if 0 <= r0 < n else 0], X[r1 if 0 <= r1 < n else 0]
            x2, x3 = X[r2 if 0 <= r2 < n else 0], X[r3 if 0 <= r3 < n else 0]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(d):
                value = q[j]
                d0, d1 = value - np.float64(x0[j]), value - np.float64(x1[j])
                d2, d3 = value - np.float64(x2[j]), value - np.float64(x3[j])
                s0 += d0 * d0
                s1 += d1 * d1
                s2 += d2 * d2
                s3 += d3 * d3
            for c in range(start, stop):
                row = candidates[i, c] - first
                if 0 <= row < n:
                    place = c - start if stop - start == 4 or c < stop - 1 else 3
                    total = (s0, s1, s2, s3)[place] * share
                    out[i, c] = total if squared else math.sqrt(total)


@compiled
def measure_manhattan(Q, X, candidates, first, out):  # type: ignore[no-untyped-def]
    """The same for manhattan."""
    n, d = X.shape
    for i in range(candidates.shape[0]):
        q = Q[i]
        for start in range(0, candidates.shape[1], 4):
            stop = min(start + 4, candidates.shape[1])
            r0 = candidates[i, start] - first
            r1 = candidates[i, min(start + 1, stop - 1)] - first
            r2 = candidates[i, min(start + 2, stop - 1)] - first
            r3 = candidates[i, stop - 1] - first
            if max(r0, r1, r2, r3) < 0:  # −1 fills up
                continue
            # Rows that lie elsewhere are read as row 0 and not written.
            x0, x1 = X[r0 if 0 <= r0 < n else 0], X[r1 if 0 <= r1 < n else 0]
            x2, x3 = X[r2 if 0 <= r2 < n else 0], X[r3 if 0 <= r3 < n else 0]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(d):
                value = q[j]
                s0 += abs(value - np.float64(x0[j]))
                s1 += abs(value - np.float64(x1[j]))
                s2 += abs(value - np.float64(x2[j]))
                s3 += abs(value - np.float64(x3[j]))
            for c in range(start, stop):
                row = candidates[i, c] - first
                if 0 <= row < n:
                    place = c - start if stop - start == 4 or c < stop - 1 else 3
                    out[i, c] = (s0, s1, s2, s3)[place]


@compiled
def measure_cosine(Q, X, candidates, first, out):  # type: ignore[no-untyped-def]
    """The same for cosine, two rows at a time; candidates that lie elsewhere cost nothing."""
    lengths, of_queries, here = _lengths(X), _lengths(Q), np.empty(candidates.shape[1], np.int64)
    for i in range(candidates.shape[0]):
        q, n_here = Q[i], 0
        for c in range(candidates.shape[1]):
            if 0 <= candidates[i, c] - first < len(X):
                here[n_here] = c
                n_here += 1
        for start in range(0, n_here, 2):
            c0, c1 = here[start], here[min(start + 1, n_here - 1)]
            r0, r1 = candidates[i, c0] - first, candidates[i, c1] - first
            x0, x1 = X[r0], X[r1]
            dot0 = dot1 = 0.0
            for j in range(X.shape[1]):
                dot0 += q[j] * x0[j]
                dot1 += q[j] * x1[j]
            out[i, c0] = _one_minus_cosine(dot0, of_queries[i], lengths[r0])
            out[i, c1] = _one_minus_cosine(dot1, of_queries[i], lengths[r1])


@compiled
def _lengths(X):  # type: ignore[no-untyped-def]
    lengths = np.zeros(len(X))
    for i in range(len(X)):
        for j in range(X.shape[1]):
            lengths[i] += X[i, j] * X[i, j]
    return np.sqrt(lengths)
