"""Compiled loops of ``float64_rows.py``: rows within a limit, and means within bounds.

Imported on first use only (numba).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from nearsay.core.compiling import only_compiled as compiled
from nearsay.core.rounding import SPLIT
from nearsay.search.screening.selection_kernels import kth_smallest

# Squares are never NaN, and only with that said are minima taken several at a time.
njit_nonan = partial(compiled, fastmath={"nnan", "nsz"})


@njit_nonan
def lowest_of_lines(squares, n, size, groups, low):  # type: ignore[no-untyped-def]
    """Write the n lowest numbers of each line, and some more, to ``low``; +inf fills up.

    ``groups`` become the lowest of every ``size`` numbers, which lie as many places apart as there are groups. The n-th
    lowest of them is no lower than n numbers. Gives the lines in which more are no higher than there is room for, and
    how many places are filled in the fullest line.
    """
    n_groups, n_rows, room, widest = groups.shape[1], squares.shape[1], low.shape[1], 0
    scratch, kept, crowded = np.empty(n_groups), np.empty(n_rows), np.zeros(squares.shape[0], np.bool_)
    for q in range(squares.shape[0]):
        line, lowest = squares[q], groups[q]
        for g in range(n_groups):
            lowest[g] = line[g]
        for start in range(n_groups, n_rows, n_groups):
            following = line[start : start + n_groups]
            for g in range(following.shape[0]):
                lowest[g] = min(lowest[g], following[g])
        scratch[:] = lowest
        limit, count = kth_smallest(scratch, n), 0
        for r in range(n_rows):
            # Written in any case, and counted if it is to stay: a branch would often be guessed wrong.
            kept[count] = line[r]
            count += line[r] <= limit
        crowded[q] = count > room
        count = min(count, room)
        low[q, :count] = kept[:count]
        low[q, count:] = np.inf
        widest = max(widest, count)
    return crowded, widest


@compiled
def list_within(squares, groups, limits, rows, listed, of_listed, counts):  # type: ignore[no-untyped-def]
    """Add to the lists of each query the rows within its limit, which are not infinite, until they are full."""
    room = listed.shape[1]
    for q in range(squares.shape[0]):
        line, limit, count = squares[q], limits[q], counts[q]
        for g in range(groups.shape[1]):
            if groups[q, g] <= limit:
                for r in range(g, line.shape[0], groups.shape[1]):
                    if line[r] <= limit and line[r] < np.inf and count < room:
                        listed[q, count], of_listed[q, count] = rows[r], line[r]
                        count += 1
        counts[q] = count


@compiled
def keep_within(listed, of_listed, counts, labels, limits):  # type: ignore[no-untyped-def]
    """Keep of each list the rows within the limit of their class; −1 fills up. Gives the longest length."""
    most = 1
    for q in range(listed.shape[0]):
        kept = 0
        for t in range(counts[q]):
            row = listed[q, t]
            if of_listed[q, t] <= limits[q, labels[row]]:
                listed[q, kept] = row
                kept += 1
        listed[q, kept:] = -1
        most = max(most, kept)
    return most


@compiled
def _rounded(mean):  # type: ignore[no-untyped-def]
    high = SPLIT * mean
    return high - (high - mean)


@compiled
def certain_means(lowest, lengths, share, least, members, squared, means, uncertain):  # type: ignore[no-untyped-def]
    """Fill in means of squares that each are off by no more than their error, or mark a class as ``uncertain``.

    ``lowest`` and ``means`` are by class number; a mean over a class without members is +inf.
    """
    n_lowest = lowest.shape[2]
    low, high = np.empty(n_lowest), np.empty(n_lowest)
    summing = (n_lowest + 8) * 2.0**-52  # more than a sum of so many loses, as a share of it
    for q in range(lowest.shape[0]):
        for c in range(lowest.shape[1]):
            squares, length, n = lowest[q, c], 2 * lengths[q], 0
            while n < n_lowest and squares[n] < np.inf:
                n += 1
            for t in range(n):
                square = max(squares[t], 0.0)
                reach = length + np.sqrt(square)
                error = share * reach * reach + least
                below, above = max(squares[t] - error, 0.0), square + error
                low[t], high[t] = (below, above) if squared else (np.sqrt(below), np.sqrt(above))
            sum_low, sum_high, added = 0.0, 0.0, 0
            for j in range(members.shape[0]):
                if n == 0:
                    means[q, c, j] = np.inf
                    continue
                while added < min(members[j], n):
                    sum_low += low[added]
                    sum_high += high[added]
                    added += 1
                mean = _rounded(sum_high / added * (1 + summing))
                means[q, c, j] = mean
                if mean != _rounded(sum_low / added * (1 - summing)) and members[j] > 1:
                    uncertain[q, c] = True
