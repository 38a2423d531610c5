"""Compiled loops for Manhattan distances between sparse histograms. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import only_compiled as compiled


@compiled
def by_column(X):  # type: ignore[no-untyped-def]
    """The nonzero entries by column (CSC): where each column starts, and the rows and sizes of its entries.

    Every column becomes two: positive entries, and after all of these, negative ones.
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
    # Unsigned indices need no check for negative ones: more than twice as fast.
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

    Only bins that both have add to the last sum, so the loop runs over the bins of a query, and for each
    over the rows that have it: ``rows`` and ``counts`` from ``starts[bin]`` on. All three sums are in the order of
    the bins, so equal rows have distance exactly 0, and distances are symmetric.
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


@compiled
def by_row(X):  # type: ignore[no-untyped-def]
    """The same entries by row (CSR), in the same order of columns: where each row starts, columns and sizes."""
    n_rows, n_columns = X.shape
    starts = np.zeros(n_rows + 1, np.int64)
    for row in range(n_rows):
        for column in range(n_columns):
            starts[row + 1] += X[row, column] != 0
    starts = np.cumsum(starts)
    columns, counts = np.empty(starts[-1], np.uint32), np.empty(starts[-1], X.dtype)
    for row in range(n_rows):
        place = starts[row]
        for column in range(n_columns):
            if X[row, column] > 0:
                columns[place], counts[place] = column, X[row, column]
                place += 1
        for column in range(n_columns):
            if X[row, column] < 0:
                columns[place], counts[place] = n_columns + column, -X[row, column]
                place += 1
    return starts, columns, counts


@compiled
def manhattan_of_pairs(starts, columns, counts, sums, Q, candidates, out):  # type: ignore[no-untyped-def]
    """The same distances as ``manhattan_of_counts``, bit for bit, of each query to its candidates; −1 is skipped.

    Entries are ``by_row``. A bin that the query does not have adds 0, which rounds nothing.
    """
    for i in range(Q.shape[0]):
        query = Q[i]
        total = 0.0
        for column in range(query.shape[0]):
            total += query[column]
        for c in range(candidates.shape[1]):
            row = candidates[i, c]
            if row < 0:
                continue
            bins, sizes = columns[starts[row] : starts[row + 1]], counts[starts[row] : starts[row + 1]]
            shared = 0.0
            for place in range(bins.shape[0]):
                shared += min(query[bins[place]], np.float64(sizes[place]))
            out[i, c] = max(total + sums[row] - 2.0 * shared, 0.0)
