"""The compiled loops of RankBoost. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import only_compiled as compiled


@compiled
def rank_rows(distances, first, starts, rows, ranks):  # type: ignore[no-untyped-def]
    """Rank the rows that each query's pairs name: one more than the number of nearer rows, the query itself left out.

    Line i of ``distances`` belongs to row ``first + i``, whose pairs are
    those from ``starts[first + i]`` on; ``rows`` and ``ranks`` are (2, n_pairs).

    Sorting thousands of rows for a few hundred ranks is not needed: rows are counted in buckets by distance, and
    compared only within a bucket.
    """
    n = distances.shape[1]
    bucket, begin, grouped = np.empty(n, np.uint32), np.empty(n + 2, np.int64), np.empty(n)
    for i in range(distances.shape[0]):
        line, itself = distances[i], np.uint64(first + i)
        low, high = line.min(), line.max()
        # Halves, so that no difference of two finite numbers overflows. Rounding keeps the order of buckets.
        width = high / 2 - low / 2
        begin[:] = 0
        for row in range(n):
            share = (line[row] / 2 - low / 2) / width if width > 0.0 else 0.0
            bucket[row] = np.uint32(share * (n - 1))
            begin[bucket[row] + np.uint32(2)] += 1
        begin[bucket[itself] + np.uint32(2)] -= 1
        for b in range(n):
            begin[b + 1] += begin[b]
        for row in range(n):
            if row != itself:
                at = bucket[row] + np.uint32(1)
                grouped[begin[at]] = line[row]
                begin[at] += 1
        for pair in range(starts[first + i], starts[first + i + 1]):
            for side in range(2):
                row = rows[side, pair]
                nearer = begin[bucket[row]]
                for other in grouped[nearer : begin[bucket[row] + np.uint32(1)]]:
                    nearer += int(other < line[row])
                ranks[side, pair] = 1 + nearer


@compiled
def weight_by_rank(better, worse, weight, out):  # type: ignore[no-untyped-def]
    """Add each pair's weight at the rank of its better row, and subtract it at that of its worse row.

    The sum of ``out`` up to a rank is then the weight that a threshold there gets right, less what it gets wrong.
    """
    for pair in range(better.shape[0]):
        out[better[pair]] += weight[pair]
        out[worse[pair]] -= weight[pair]


@compiled
def reweigh(better, worse, threshold, alpha, start, weight, margin):  # type: ignore[no-untyped-def]
    """Add a weak ranker: lower the weights of pairs that it gets right, raise those of the others.

    Returns the sum of the new weights, and the sum of the initial weights (``start``) of pairs that are wrong now.
    """
    right, wrong = np.exp(-alpha), np.exp(alpha)
    total = error = 0.0
    for pair in range(better.shape[0]):
        says = int(better[pair] <= threshold) - int(worse[pair] <= threshold)
        if says > 0:
            margin[pair] += alpha
            weight[pair] *= right
        elif says < 0:
            margin[pair] -= alpha
            weight[pair] *= wrong
        total += weight[pair]
        if margin[pair] <= 0.0:
            error += start[pair]
    return total, error


@compiled
def add_scores(distances, steps, values, score):  # type: ignore[no-untyped-def]
    """Add the score of its rank in one space to every row: ``values[j]`` beyond the distance ``steps[j − 1]``.

    ``steps`` rise: for each threshold, the distance of the row of that rank.
    """
    n_steps = steps.shape[0]
    for row in range(distances.shape[0]):
        low, high = 0, n_steps
        while low < high:
            middle = (low + high) // 2
            if steps[middle] < distances[row]:
                low = middle + 1
            else:
                high = middle
        score[row] += values[low]
