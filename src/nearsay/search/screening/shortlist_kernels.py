"""Keep the best of a stream of scores: the compiled pass behind exact search.

For every query there is a short list of candidates and a threshold. A block of scores is read once; only scores below
the threshold go on the list. When the list is full it is cut back to what can still be among the k best, and the
threshold drops. After the first blocks few scores pass, so the pass costs little more than reading them.

``slack`` is how far two scores must lie apart before their order is certain. With slack 0 scores are final, and ties go
to the earlier row. With a slack, everything within it of the k-th best score is kept, for measuring later. When that is
more than the list can hold the query is marked ``crowded`` and left to a wider look.

Blocks must come in order of row number. Imported on first use only (numba).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from nearsay.core.compiling import only_compiled as compiled
from nearsay.search.screening.minima_kernels import GROUP, lowest_of_group
from nearsay.search.screening.selection_kernels import kth_smallest


def list_length(k: int) -> int:
    """The length of a list before it is first cut back: twice what is needed, and some."""
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

    def state(self, queries: slice) -> tuple[np.ndarray, ...]:
        """The state of these queries, for the compiled loops."""
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
        """Add the scores ``half_norms − products`` of rows ``first …`` for these queries."""
        _see_products(products, half_norms, first, self.k, *self.state(queries))

    def see(self, queries: slice, scores: np.ndarray, first: int) -> None:
        """Add the scores of rows ``first …`` for these queries."""
        _see_scores(scores, first, self.k, *self.state(queries))

    def finish(self) -> np.ndarray:
        """Candidates of every query (−1 fills up); rows of a crowded query are all −1."""
        return _finish(self.k, *self.state(slice(None)))


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
def cut_back(scores, rows, count, k, slack, scratch):  # type: ignore[no-untyped-def]
    """Keep, in order, what can still be among the k best. Gives the new count and threshold."""
    if count <= k and count < scores.shape[0]:
        return count, scores.dtype.type(np.inf)
    part = scratch[:count]
    for c in range(count):  # one array assigned to another takes seconds more to compile, for words no one will read
        part[c] = scores[c]
    kth = kth_smallest(part, k)
    threshold = kth
    ties = 0
    if slack > 0:
        threshold = just_above(kth, slack, scores.dtype)
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


@compiled
def _group_minima(product, half_norms, out):  # type: ignore[no-untyped-def]
    """The lowest score of every group; the last group may be smaller than the others."""
    n = product.shape[0]
    for g in range(n // GROUP):
        out[g] = lowest_of_group(half_norms, product, g * GROUP)
    if n % GROUP:
        lowest = half_norms[n - 1] - product[n - 1]
        for r in range(n // GROUP * GROUP, n):
            lowest = min(lowest, half_norms[r] - product[r])
        out[n // GROUP] = lowest


@compiled
def _see_products(products, half_norms, first, k, scores, rows, counts, thresholds, slack, due, crowded, scratch):  # type: ignore[no-untyped-def]
    capacity = scores.shape[1]
    n = half_norms.shape[0]
    minima = np.empty(-(-n // GROUP), products.dtype)
    for q in range(products.shape[0]):
        if crowded[q]:
            continue
        product = products[q]
        _group_minima(product, half_norms, minima)
        if thresholds[q] == np.inf and counts[q] == 0 and k <= minima.shape[0]:
            # k groups reach down to the k-th lowest of them, so k rows do.
            thresholds[q] = just_above(kth_smallest(minima.copy(), k), slack[q], products.dtype)
        threshold = thresholds[q]
        for g in range(minima.shape[0]):
            if not minima[g] < threshold:
                continue
            for r in range(g * GROUP, min((g + 1) * GROUP, n)):
                score = half_norms[r] - product[r]
                if score < threshold:
                    count = counts[q]
                    scores[q, count] = score
                    rows[q, count] = first + r
                    counts[q] = count + 1
                    if count + 1 >= due[q]:
                        kept, threshold = cut_back(scores[q], rows[q], count + 1, k, slack[q], scratch)
                        counts[q], thresholds[q] = kept, threshold
                        if kept > capacity - capacity // 4:  # never with slack 0: k rows are kept of 2 k and more
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


# The bound holds for sums in any order, fused or not.
@partial(compiled, fastmath={"reassoc", "contract", "nsz"})
def multiply(Q, X):  # type: ignore[no-untyped-def]
    """Products of one or two queries with rows in the cache: faster than a call of BLAS.

    Four rows at a time, for which a number of the query is read once; the last four may have been there before.
    """
    n, d = X.shape
    products = np.empty((Q.shape[0], n), X.dtype)
    for i in range(Q.shape[0]):
        q, product = Q[i], products[i]
        for start in range(0, n, 4):
            r0 = max(0, min(start, n - 4))
            r1, r2, r3 = min(r0 + 1, n - 1), min(r0 + 2, n - 1), min(r0 + 3, n - 1)
            x0, x1, x2, x3 = X[r0], X[r1], X[r2], X[r3]
            s0 = s1 = s2 = s3 = X.dtype.type(0)
            for j in range(d):
                value = q[j]
                s0 += value * x0[j]
                s1 += value * x1[j]
                s2 += value * x2[j]
                s3 += value * x3[j]
            product[r0], product[r1], product[r2], product[r3] = s0, s1, s2, s3
    return products


@compiled
def shortlist(Q, products, X, half_norms, bound, k, length):  # type: ignore[no-untyped-def]
    """The whole pass for a few queries; computes their products with all rows if they are not given.

    ``bound`` holds the coefficients of a ``bounds.Bound``, and the length of the farthest query that it serves. Gives
    the candidates as ``Shortlists.finish`` does, and whether any query is crowded, too far away, or not finite.
    """
    n = Q.shape[0]
    constant, linear, quadratic, farthest = bound
    slack, thresholds, scratch = np.empty(n), np.empty(n, X.dtype), np.empty(length, X.dtype)
    counts, due, crowded = np.zeros(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.bool_)
    for q in range(n):
        total = 0.0
        for j in range(Q.shape[1]):
            total += np.float64(Q[q, j]) * np.float64(Q[q, j])
        far = math.sqrt(total)
        if not far <= farthest:
            return np.empty((0, 1), np.int64), True
        slack[q] = 2 * (constant + far * (linear + far * quadratic))
        thresholds[q], due[q] = np.inf, length
    if products.shape[0] < n:
        products = multiply(Q, X)
    scores, rows = np.empty((n, length), X.dtype), np.empty((n, length), np.int32)
    first = np.int64(0)  # a literal 0 would be compiled for anew
    _see_products(products, half_norms, first, k, scores, rows, counts, thresholds, slack, due, crowded, scratch)
    undecided = False
    for q in range(n):
        undecided |= crowded[q]
    return _finish(k, scores, rows, counts, thresholds, slack, due, crowded, scratch), undecided


@compiled
def just_above(score, slack, dtype):  # type: ignore[no-untyped-def]
    """The smallest threshold that lets everything within the slack pass ``score < threshold``."""
    return dtype.type(np.nextafter(dtype.type(score + slack), dtype.type(np.inf)))


@compiled
def _finish(k, scores, rows, counts, thresholds, slack, due, crowded, scratch):  # type: ignore[no-untyped-def]
    width = 1
    for q in range(counts.shape[0]):
        if crowded[q]:
            counts[q] = 0
        elif counts[q] > k:
            counts[q], thresholds[q] = cut_back(scores[q], rows[q], counts[q], k, slack[q], scratch)
        width = max(width, counts[q])
    candidates = np.full((counts.shape[0], width), -1, np.int64)
    for q in range(counts.shape[0]):
        for c in range(counts[q]):
            candidates[q, c] = rows[q, c]
    return candidates
