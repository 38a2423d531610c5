"""The compiled loops of RankBoost. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np

from nearsay.compiling import compiled


@compiled
def weight_by_rank(better, worse, weight, out):  # type: ignore[no-untyped-def]
    """Add each pair's weight at the rank of its better row, and take it off at that of its worse row.

    The sum of ``out`` up to a rank is then what a threshold there gets right, less what it gets wrong.
    """
    for pair in range(better.shape[0]):
        out[better[pair]] += weight[pair]
        out[worse[pair]] -= weight[pair]


@compiled
def reweigh(better, worse, threshold, alpha, weight, margin):  # type: ignore[no-untyped-def]
    """Let one more weak ranker speak: pairs it has right lose weight, wrong ones gain. Gives the sum of weights."""
    right, wrong = np.exp(-alpha), np.exp(alpha)
    total = 0.0
    for pair in range(better.shape[0]):
        says = int(better[pair] <= threshold) - int(worse[pair] <= threshold)
        if says > 0:
            margin[pair] += alpha
            weight[pair] *= right
        elif says < 0:
            margin[pair] -= alpha
            weight[pair] *= wrong
        total += weight[pair]
    return total


@compiled
def add_scores(distances, steps, values, score):  # type: ignore[no-untyped-def]
    """Add to every row's score what its place in one space is worth: ``values[j]`` from beyond ``steps[j − 1]`` on.

    ``steps`` rise: one for each threshold, the distance of the row that stands there.
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
