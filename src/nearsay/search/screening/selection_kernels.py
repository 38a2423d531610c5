"""The compiled loops that find the k-th smallest of some numbers."""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import compiled

# From so many numbers on they are sorted into bins first, which takes no decision that a processor could not foresee.
BINNED_FROM = 96
BINS = 128


@compiled
def kth_smallest(values, k):  # type: ignore[no-untyped-def]
    """The k-th smallest of ``values`` (k counts from 1), which are left in another order, or not all."""
    n = values.shape[0]
    if n < BINNED_FROM:
        return _kth_by_turns(values, k)
    lowest = highest = values[0]
    for i in range(n):
        lowest, highest = min(lowest, values[i]), max(highest, values[i])
    width = highest - lowest
    if not 0 < width < np.inf:
        return _kth_by_turns(values, k)
    inverse = values.dtype.type(BINS - 0.5) / width
    if not inverse < np.inf:
        return _kth_by_turns(values, k)
    counts = np.zeros(BINS, np.int64)
    for i in range(n):
        counts[np.int64((values[i] - lowest) * inverse)] += 1
    bin_of_kth, before = 0, 0
    while before + counts[bin_of_kth] < k:
        before += counts[bin_of_kth]
        bin_of_kth += 1
    kept = 0
    for i in range(n):
        value = values[i]
        values[kept] = value
        kept += np.int64((value - lowest) * inverse) == bin_of_kth
    return _kth_by_turns(values[:kept], k - before)


@compiled
def _kth_by_turns(values, k):  # type: ignore[no-untyped-def]
    """Hoare's selection, in place."""
    low, high, target = 0, values.shape[0] - 1, k - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return values[target]
