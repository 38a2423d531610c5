"""The compiled loops for Manhattan distances between mostly empty histograms. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np

from nearsay.compiling import only_compiled as compiled


@compiled
def by_column(X):  # type: ignore[no-untyped-def]
    """The entries that are not zero, column by column: where each column starts, and the rows and sizes of its entries.

    Every column becomes two, what is above zero and, after all of these, what is below it.
    """
    n_rows, n_columns = X.shape
    starts = np.zeros(2 * n_columns + 1, np.int64)
    for row in range(n_rows):
        for column in range(n_columns):
            if X[row, column] > 0:
                starts[column + 1] += 1
            elif X[row, column] < 0:
                starts[n_columns + column + 1] += 1
    starts = np.cumsum(starts)
    # Numbers that cannot be negative are not checked for counting from the end: more than twice as fast.
    rows, counts = np.empty(starts[-1], np.uint32), np.empty(starts[-1], X.dtype)
    place = starts.copy()
    for row in range(n_rows):
        for column in range(n_columns):
            value = X[row, column]
            if value != 0:
                at = column if value > 0 else n_columns + column
                rows[place[at]], counts[place[at]] = row, abs(value)
                place[at] += 1
    return starts, rows, counts


@compiled
def sums_in_order(starts, rows, counts, sums):  # type: ignore[no-untyped-def]
    """Add up each row's entries in the order of its columns."""
    for column in range(starts.shape[0] - 1):
        for place in range(starts[column], starts[column + 1]):
            sums[rows[place]] += counts[place]


@compiled
def manhattan_of_counts(starts, rows, counts, sums, Q, first, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (queries × rows from ``first`` on) with Σ|q − x| = Σq + Σx − 2 Σ min(q, x), no entry negative.

    Only bins that both have add to the last sum, so a query goes through its own bins, and in each
    through the rows that have it: ``rows`` and ``counts`` from ``starts[bin]`` on. Sums run in the order of the
    bins, all three, so two equal rows are exactly 0 apart, and any two as far from one side as from the other.
    """
    last = first + out.shape[1]
    shared = np.empty(sums.shape[0])
    for i in range(Q.shape[0]):
        shared[first:last] = 0.0
        total = 0.0
        for column in range(Q.shape[1]):
            amount = Q[i, column]
            if amount == 0.0:
                continue
            total += amount
            start, stop = starts[column], starts[column + 1]
            start, stop = (
                start + np.searchsorted(rows[start:stop], first),
                start + np.searchsorted(rows[start:stop], last),
            )
            bin_rows, bin_counts = rows[start:stop], counts[start:stop]
            for place in range(bin_rows.shape[0]):
                shared[bin_rows[place]] += min(amount, np.float64(bin_counts[place]))
        for row in range(first, last):
            out[i, row - first] = max(total + sums[row] - 2.0 * shared[row], 0.0)
