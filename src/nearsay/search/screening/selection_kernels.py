"""The compiled loop that finds the k-th smallest of some numbers."""

from __future__ import annotations

from nearsay.compiling import only_compiled as compiled


@compiled
def kth_smallest(values, k):  # type: ignore[no-untyped-def]
    """Hoare's selection, in place: the k-th smallest of ``values`` (k counts from 1)."""
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
