"""Keep the best of a stream of scores: the compiled pass behind exact search.

For every query there is a short list of candidates and a threshold. A block of
scores is read once; only scores below the threshold go on the list. When the
list is full it is cut back to what can still be among the k best, and the
threshold drops. After the first blocks few scores pass, so the pass costs
little more than reading them.

``slack`` is how far two scores must lie apart before their order is certain.
With slack 0 scores are final, and ties go to the earlier row. With a slack,
everything within it of the k-th best score is kept, for measuring later. When
that is more than the list can hold the query is marked ``crowded`` and left to
a wider look.

Blocks must come in order of row number. Imported on first use only (numba).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from nearsay.compiling import OPTIONS, compiled

# Scores are looked at in groups of this size; most groups hold nothing of interest.
GROUP = 32


def list_length(k: int) -> int:
    """How long a list grows before it is cut back for the first time: twice what is needed, and some."""
    return 2 * k + 64


class Shortlists:
    """The candidates of each query so far."""

    def __init__(self, slack: np.ndarray, k: int, capacity: int, dtype: Any) -> None:
        n = len(slack)
        self.k = k
        self.slack = slack
        self.scores = np.empty((n, capacity), dtype)
        self.rows = np.empty((n, capacity), np.int32)  # HeldRows gives out no larger number
        self.counts = np.zeros(n, np.int64)
        self.thresholds = np.full(n, np.inf, dtype)
        self.due = np.full(n, min(capacity, list_length(k)), np.int64)
        self.crowded = np.zeros(n, np.bool_)
        self._scratch = np.empty(capacity, dtype)

    def _state(self, queries: slice) -> tuple[np.ndarray, ...]:
        return (
            self.scores[queries],
            self.rows[queries],
            self.counts[queries],
            self.thresholds[queries],
            self.slack[queries],
            self.due[queries],
            self.crowded[queries],
            self._scratch,
        )

    def see_products(self, queries: slice, products: np.ndarray, half_norms: np.ndarray, first: int) -> None:
        """Look at the scores ``half_norms − products`` of rows ``first …`` for these queries."""
        _see_products(products, half_norms, first, self.k, *self._state(queries))

    def see(self, queries: slice, scores: np.ndarray, first: int) -> None:
        """Look at the scores of rows ``first …`` for these queries."""
        _see_scores(scores, first, self.k, *self._state(queries))

    def finish(self) -> np.ndarray:
        """Candidates of every query (−1 fills up); rows of a crowded query are all −1."""
        candidates: np.ndarray = _finish(self.k, *self._state(slice(None)))
        return candidates


@compiled
def norms(X, center, half_norms):  # type: ignore[no-untyped-def]
    """Half the squared norm of every row; gives the largest norm, as the rows are and after centering."""
    largest = largest_centered = 0.0
    for r in range(X.shape[0]):
        total = centered = 0.0
        for j in range(X.shape[1]):
            value = np.float64(X[r, j])
            total += value * value
            centered += (value - center[j]) * (value - center[j])
        half_norms[r] = total / 2
        largest = max(largest, total)
        largest_centered = max(largest_centered, centered)
    return math.sqrt(largest), math.sqrt(largest_centered)


@compiled
def center_and_scale(X, center, scale, out, half_norms):  # type: ignore[no-untyped-def]
    """Rows as float32, moved so that ``center`` is the origin, and half their squared norms."""
    for r in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            value = (np.float64(X[r, j]) - center[j]) * scale
            out[r, j] = value
            total += value * value
        half_norms[r] = total / 2


@compiled
def _kth_smallest(values, k):  # type: ignore[no-untyped-def]
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


@compiled
def _cut_back(scores, rows, count, k, slack, scratch):  # type: ignore[no-untyped-def]
    """Keep, in order, what can still be among the k best. Gives the new count and threshold."""
    if count <= k and count < scores.shape[0]:
        return count, scores.dtype.type(np.inf)
    part = scratch[:count]
    part[:] = scores[:count]
    kth = _kth_smallest(part, k)
    threshold = kth
    ties = 0
    if slack > 0:
        threshold = _just_above(kth, slack, scores.dtype)
    else:
        below = 0
        for c in range(count):
            below += scores[c] < kth
        ties = k - below
    kept = 0
    for c in range(count):
        keep = scores[c] < threshold
        if not keep and ties > 0 and scores[c] == kth:
            keep = True
            ties -= 1
        if keep:
            scores[kept] = scores[c]
            rows[kept] = rows[c]
            kept += 1
    return kept, threshold


# Scores are numbers (never NaN), and only with that said are minima taken several at a time.
@njit(**OPTIONS, fastmath={"nnan", "nsz"})
def _group_minima(product, half_norms, out):  # type: ignore[no-untyped-def]
    for g in range(out.shape[0]):
        p, h = product[g * GROUP : (g + 1) * GROUP], half_norms[g * GROUP : (g + 1) * GROUP]
        lowest = h[0] - p[0]
        for t in range(GROUP):
            lowest = min(lowest, h[t] - p[t])
        out[g] = lowest


@compiled
def _first_threshold(product, half_norms, k, slack, scratch):  # type: ignore[no-untyped-def]
    """A threshold from the lowest scores of groups: k groups reach down to the k-th of them, so k rows do."""
    minima = scratch[: min(half_norms.shape[0] // GROUP, scratch.shape[0])]
    if minima.shape[0] < k:
        return scratch.dtype.type(np.inf)
    _group_minima(product, half_norms, minima)
    return _just_above(_kth_smallest(minima, k), slack, scratch.dtype)


@compiled
def _see_products(products, half_norms, first, k, scores, rows, counts, thresholds, slack, due, crowded, scratch):  # type: ignore[no-untyped-def]
    capacity = scores.shape[1]
    n = half_norms.shape[0]
    for q in range(products.shape[0]):
        if crowded[q]:
            continue
        product = products[q]
        if thresholds[q] == np.inf and counts[q] == 0:
            thresholds[q] = _first_threshold(product, half_norms, k, slack[q], scratch)
        threshold = thresholds[q]
        for start in range(0, n, GROUP):
            stop = min(start + GROUP, n)
            interesting = False
            if stop - start == GROUP:
                p, h = product[start:stop], half_norms[start:stop]
                for t in range(GROUP):
                    interesting |= h[t] - p[t] < threshold
            else:
                interesting = True
            if not interesting:
                continue
            for r in range(start, stop):
                score = half_norms[r] - product[r]
                if score < threshold:
                    count = counts[q]
                    scores[q, count] = score
                    rows[q, count] = first + r
                    counts[q] = count + 1
                    if count + 1 == due[q]:
                        kept, threshold = _cut_back(scores[q], rows[q], count + 1, k, slack[q], scratch)
                        counts[q], thresholds[q] = kept, threshold
                        if slack[q] > 0 and due[q] == capacity and kept > capacity - capacity // 4:
                            crowded[q] = True
                            break
                        # Early cuts bring the threshold down early; a long list is only for those who need it.
                        due[q] = min(capacity, max(due[q], 2 * kept))
            if crowded[q]:
                break


@compiled
def _see_scores(block, first, k, scores, rows, counts, thresholds, slack, due, crowded, scratch):  # type: ignore[no-untyped-def]
    nothing = np.zeros(block.shape[1], block.dtype)
    _see_products(-block, nothing, first, k, scores, rows, counts, thresholds, slack, due, crowded, scratch)


@compiled
def shortlist(Q, products, half_norms, radius, unit_roundoff, k, length):  # type: ignore[no-untyped-def]
    """The whole pass for a few queries whose products with all rows are there.

    Gives the candidates as ``Shortlists.finish`` does, and whether any query is crowded.
    """
    n = Q.shape[0]
    slack = np.empty(n)
    for q in range(n):
        total = 0.0
        for j in range(Q.shape[1]):
            total += np.float64(Q[q, j]) * np.float64(Q[q, j])
        # The bound of ``views.rounding``, and its guard against overflow.
        far = math.sqrt(total)
        lost = unit_roundoff * (far * radius + radius**2) + 2.0**-50 * (far + radius) ** 2
        slack[q] = 2 * ((Q.shape[1] + 8) * lost + 1e-37) if far <= 1e15 * max(radius, 1e-15) else np.inf
    scores = np.empty((n, length), products.dtype)
    rows = np.empty((n, length), np.int32)
    counts = np.zeros(n, np.int64)
    thresholds = np.full(n, np.inf, products.dtype)
    due = np.full(n, length)
    crowded = np.zeros(n, np.bool_)
    scratch = np.empty(length, products.dtype)
    _see_products(products, half_norms, 0, k, scores, rows, counts, thresholds, slack, due, crowded, scratch)
    return _finish(k, scores, rows, counts, thresholds, slack, due, crowded, scratch), crowded.any()


@compiled
def best_of_stretches(products, half_norms, starts, rows, k, slack, found, counts, crowded):  # type: ignore[no-untyped-def]
    """Append to ``found`` what can be among the k best of each stretch of columns.

    Stretch s runs from ``starts[s]`` to ``starts[s + 1]``; ``rows`` are the row
    numbers of the columns, ascending within a stretch. A score of +inf is
    never kept. A query with more such rows than ``found`` has room for is
    marked crowded.
    """
    everything = products.dtype.type(np.inf)
    scores = np.empty(products.shape[1], products.dtype)
    scratch = np.empty(products.shape[1], products.dtype)
    for q in range(products.shape[0]):
        product = products[q]
        for c in range(product.shape[0]):
            scores[c] = half_norms[c] - product[c]
        for s in range(starts.shape[0] - 1):
            if crowded[q]:
                break
            stretch = scores[starts[s] : starts[s + 1]]
            kth = everything
            if k == 1:
                for c in range(stretch.shape[0]):
                    kth = min(kth, stretch[c])
            elif k < stretch.shape[0]:
                part = scratch[: stretch.shape[0]]
                part[:] = stretch
                kth = _kth_smallest(part, k)
            threshold, ties = kth, k
            if kth < everything and slack[q] > 0:
                threshold = _just_above(kth, slack[q], scores.dtype)
            elif kth < everything:
                for c in range(stretch.shape[0]):
                    ties -= stretch[c] < kth
            for c in range(stretch.shape[0]):
                tied = stretch[c] == threshold and ties > 0 and kth < everything
                if stretch[c] < threshold or tied:
                    ties -= tied
                    if counts[q] == found.shape[1]:
                        crowded[q] = True
                        break
                    found[q, counts[q]] = rows[starts[s] + c]
                    counts[q] += 1


@compiled
def _just_above(score, slack, dtype):  # type: ignore[no-untyped-def]
    """The smallest threshold that lets everything within the slack pass ``score < threshold``."""
    return dtype.type(np.nextafter(dtype.type(score + slack), dtype.type(np.inf)))


@compiled
def _finish(k, scores, rows, counts, thresholds, slack, due, crowded, scratch):  # type: ignore[no-untyped-def]
    width = 1
    for q in range(counts.shape[0]):
        if crowded[q]:
            counts[q] = 0
        elif counts[q] > k:
            counts[q], thresholds[q] = _cut_back(scores[q], rows[q], counts[q], k, slack[q], scratch)
        width = max(width, counts[q])
    candidates = np.full((counts.shape[0], width), -1, np.int64)
    for q in range(counts.shape[0]):
        candidates[q, : counts[q]] = rows[q, : counts[q]]
    return candidates
