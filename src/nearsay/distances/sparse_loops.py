"""The compiled loop for Manhattan distances between mostly empty histograms. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np

from nearsay.compiling import compiled


@compiled
def manhattan_of_counts(starts, rows, counts, sums, Q, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (queries × rows) with Σ|q − x| = Σq + Σx − 2 Σ min(q, x), where no entry is negative.

    Only bins that both have add to the last sum, so a query goes through its own bins, and in each
    through the rows that have it: ``rows`` and ``counts`` from ``starts[bin]`` on. Sums run in the order of the
    bins, all three, so two equal rows are exactly 0 apart.
    """
    for i in range(Q.shape[0]):
        shared = np.zeros(out.shape[1])
        total = 0.0
        for column in range(Q.shape[1]):
            amount = Q[i, column]
            if amount == 0.0:
                continue
            total += amount
            for place in range(starts[column], starts[column + 1]):
                shared[rows[place]] += min(amount, counts[place])
        for row in range(out.shape[1]):
            out[i, row] = max(total + sums[row] - 2.0 * shared[row], 0.0)


@compiled
def sums_in_order(starts, rows, counts, sums):  # type: ignore[no-untyped-def]
    """Add up each row's entries in the order of its columns."""
    for column in range(starts.shape[0] - 1):
        for place in range(starts[column], starts[column + 1]):
            sums[rows[place]] += counts[place]
