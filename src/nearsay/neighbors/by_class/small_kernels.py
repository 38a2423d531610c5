"""The compiled passes over the products of a small collection. Imported on first use only (numba).

As in ``class_score_kernels.py`` a line of the products is a row of the collection, scores are ``half_norms −
products``, and ``starts`` says where the lines of each class begin and end. All lines are at hand, so a class is looked
at again where that is needed, and only there.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import only_compiled as compiled
from nearsay.neighbors.by_class.class_score_kernels import best_and_next, njit_nonan

# Below the score +inf of what is out of reach. Thresholds are float64: what adding the slack rounds is far below it.
LARGEST = np.finfo(np.float64).max

# The last digits of a score make room for a class number below 128.
CLASS_BITS = 7


@njit_nonan
def lowest_of_classes(products, half_norms, starts, lowest):  # type: ignore[no-untyped-def]
    """The lowest score of each query in every class; +inf without any line."""
    lowest[:] = np.inf
    for c in range(lowest.shape[0]):
        low = lowest[c]
        for r in range(starts[c], starts[c + 1]):
            line, half_norm = products[r], half_norms[r]
            for q in range(line.shape[0]):
                low[q] = min(low[q], half_norm - line[q])


@compiled
def best_of_classes(products, half_norms, starts, best, places, following):  # type: ignore[no-untyped-def]
    """The lowest score of each query in every class, its line, and the second lowest score."""
    best[:] = np.inf
    following[:] = np.inf
    for c in range(best.shape[0]):
        for r in range(starts[c], starts[c + 1]):
            best_and_next(products[r], half_norms[r], np.int32(r), best[c], places[c], following[c])


@compiled
def sortable(bits, keys):  # type: ignore[no-untyped-def]
    """Make of each score (``bits``: classes × queries) a whole number that sorts alike and ends in its class.

    One whole number of 32 bits is sorted four times as fast as one of 64, or as a score with its class beside it.
    """
    low = np.int32((1 << CLASS_BITS) - 1)
    for c in range(bits.shape[0]):
        for q in range(bits.shape[1]):
            whole = bits[c, q]
            if whole < 0:  # of a negative number the bits grow the other way
                whole ^= np.int32(0x7FFFFFFF)
            keys[q, c] = (whole & ~low) | np.int32(c)


@compiled
def classes_by_score(keys, lowest, numbers):  # type: ignore[no-untyped-def]
    """The classes of sorted ``keys``, in order of their lowest scores; −1 for those without."""
    low = (1 << CLASS_BITS) - 1
    for q in range(keys.shape[0]):
        order = numbers[q]
        for t in range(keys.shape[1]):
            c = np.int64(keys[q, t]) & low
            score = lowest[c, q]
            if score == np.inf:  # so are all that follow
                order[t:] = -1
                break
            place = t
            # The digits that made room for the class may have told two apart.
            while place > 0 and lowest[order[place - 1], q] > score:
                order[place] = order[place - 1]
                place -= 1
            order[place] = c


@compiled
def members_in_doubt(products, half_norms, rows, starts, lowest, numbers, slack, listed, counts):  # type: ignore[no-untyped-def]
    """List what may be the nearest member of a class, for the classes whose place in the order is not certain.

    A query whose count reaches the last place of ``listed`` had more of them than there was room for.
    """
    last = listed.shape[1] - 1
    for q in range(numbers.shape[0]):
        doubted = False  # as the one before
        for t in range(numbers.shape[1]):
            c = numbers[q, t]
            if c < 0:
                break
            threshold = min(np.float64(lowest[c, q]) + slack[q], LARGEST)
            following = numbers[q, t + 1] if t + 1 < numbers.shape[1] else -1
            near_next = following >= 0 and lowest[following, q] <= threshold
            if doubted or near_next:
                for r in range(starts[c], starts[c + 1]):
                    if half_norms[r] - products[r, q] <= threshold:
                        listed[q, counts[q]] = rows[r]
                        counts[q] = min(counts[q] + 1, last)
            doubted = near_next


@njit_nonan
def members_of_classes(  # type: ignore[no-untyped-def]
    products, half_norms, rows, starts, best, places, following, numbers, slack, m, n_near, listed, counts
):
    """List what may be among the m nearest members of the ``n_near`` nearest classes, and the nearest of others.

    A query whose count reaches the last place of ``listed`` had more of them than there was room for.
    """
    n_queries, last = counts.shape[0], listed.shape[1] - 1
    wanted = np.empty(n_queries, best.dtype)  # the score of the last member that is wanted of the class
    near, scores, lowest = np.empty(n_queries, np.int64), np.empty_like(wanted), np.empty((m, n_queries), best.dtype)
    bounds = np.full(n_queries, LARGEST)  # up to which the best score of a class makes it one of the nearest
    if n_near < numbers.shape[1]:
        for q in range(n_queries):
            if numbers[q, n_near - 1] >= 0:
                bounds[q] = min(np.float64(best[numbers[q, n_near - 1], q]) + slack[q], LARGEST)
    for c in range(best.shape[0]):
        for q in range(n_queries):
            wanted[q] = best[c, q]
        n_here = 0
        if m > 1:
            for q in range(n_queries):
                near[n_here] = q
                n_here += 1 if best[c, q] <= bounds[q] else 0
            lowest[:, :n_here] = np.inf
            for r in range(starts[c], starts[c + 1]):
                for i in range(n_here):
                    scores[i] = half_norms[r] - products[r, near[i]]
                for t in range(m):
                    for i in range(n_here):  # several at a time
                        score, low = scores[i], lowest[t, i]
                        lowest[t, i] = min(score, low)
                        scores[i] = max(score, low)
            for i in range(n_here):
                wanted[near[i]] = lowest[m - 1, i]
        for q in range(n_queries):
            if best[c, q] == np.inf:
                continue
            threshold = min(np.float64(wanted[q]) + slack[q], LARGEST)
            count = counts[q]
            if following[c, q] > threshold:
                listed[q, count] = rows[places[c, q]]
                counts[q] = min(count + 1, last)
                continue
            for r in range(starts[c], starts[c + 1]):
                # Written in any case, and counted if it is to stay: a branch would often be guessed wrong.
                listed[q, count] = rows[r]
                stays = half_norms[r] - products[r, q] <= threshold
                count = min(count + (1 if stays else 0), last)
            counts[q] = count
