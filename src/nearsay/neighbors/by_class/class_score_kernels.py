"""Compiled loops that select, from one matrix product, the k best rows of each query and the best of each class.

    products             queries ─►        every row of the product is one row of the collection:
    rows    ant   │ · · · · · · · ·        neighboring queries lie side by side, so a comparison
     │      ant   │ · · · · · · · ·        is made for many of them at once, and one class
     ▼      bee   │ · · · · · · · ·        is a stretch of lines

As in ``screening/shortlist_kernels.py`` scores are ``half_norms − products``, and everything within a query's slack is
kept: what is found is measured later. Lines may come in any order, but those of one class must follow each other.
Imported on first use only (numba).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from nearsay.core.compiling import only_compiled as compiled
from nearsay.search.screening.selection_kernels import kth_smallest
from nearsay.search.screening.shortlist_kernels import cut_back, just_above

# The lowest of so many lines stands for them all: most groups hold nothing of interest.
LINES = 32
# The same where the best line of each class is looked for: most groups hold one that is nearly the best.
LINES_BY_CLASS = 8
# Added to a threshold in float32, as a share of it and in any case: more than adding the slack can have rounded away.
ABOVE, SMALLEST = np.float32(2.0**-20), np.float32(1e-30)
# Up to so many of the lowest are found soonest by exchanging lines, for many queries at once.
EXCHANGE_UP_TO = 16

# Scores are numbers (never NaN), and only with that said are minima taken several at a time.
njit_nonan = partial(compiled, fastmath={"nnan", "nsz"})


@njit_nonan
def _lowest_of_group(products, half_norms, stops, g, low):  # type: ignore[no-untyped-def]
    low[:] = np.inf
    for r in range(stops[g - 1] if g else 0, stops[g]):
        line, half_norm = products[r], half_norms[r]
        for q in range(line.shape[0]):
            low[q] = min(low[q], half_norm - line[q])


@njit_nonan
def _just_above(score):  # type: ignore[no-untyped-def]
    """As ``just_above``, for a sum that was rounded already, so that several queries are compared at a time."""
    return score + abs(score) * ABOVE + SMALLEST


@njit_nonan
def nearest_of_stretches(products, half_norms, stops, firsts, lowest, slack, listed_rows, counts):  # type: ignore[no-untyped-def]
    """List the lines that can be the best of their stretch, which is groups ``firsts[s]`` to ``firsts[s + 1]``.

    The lowest scores of the groups go to ``lowest``. They are taken stretch by stretch, whose lines are then still at
    hand. A query whose count reaches the last place of ``listed_rows`` had more such lines than there was room for.
    """
    n_queries, last = products.shape[1], listed_rows.shape[1] - 1
    thresholds = np.empty(n_queries, products.dtype)
    marks = np.zeros(-(-n_queries // 8) * 8, np.uint8)
    eights = marks.view(np.uint64)  # most marks are 0, and eight of them are looked at in one go
    for s in range(firsts.shape[0] - 1):
        thresholds[:] = np.inf
        for g in range(firsts[s], firsts[s + 1]):
            low = lowest[g]
            _lowest_of_group(products, half_norms, stops, g, low)
            for q in range(n_queries):
                thresholds[q] = min(thresholds[q], low[q])
        for q in range(n_queries):
            thresholds[q] = _just_above(thresholds[q] + slack[q])
        for g in range(firsts[s], firsts[s + 1]):
            _mark_below(lowest[g], thresholds, marks)
            start = stops[g - 1] if g else 0
            for e in range(eights.shape[0]):
                if eights[e] == 0:
                    continue
                for q in range(8 * e, min(8 * e + 8, n_queries)):
                    if marks[q] == 0:
                        continue
                    threshold, count = thresholds[q], counts[q]
                    for r in range(start, stops[g]):
                        # Written in any case, and counted if it is to stay: a branch would often be guessed wrong.
                        listed_rows[q, count] = r
                        count = min(count + (1 if threshold > half_norms[r] - products[r, q] else 0), last)
                    counts[q] = count


@njit_nonan
def nearest_by_finer_scores(  # type: ignore[no-untyped-def]
    products, half_norms, stops, firsts, lowest, slacks, queries, rows, finer_half_norms, listed_rows, counts
):
    """The same where scores are coarse, with a finer look at those lines that they cannot tell apart.

    The true score of the best line b by coarse scores is known by its finer one, f(b), up to half of the finer slack.
    So the best line has a coarse score of at most f(b) plus half of *both* slacks, which is little more than half as
    far as the coarse slack reaches, and a finer score of at most f(b) plus the finer slack.
    ``slacks`` are the coarse one, the mean of both, and the finer one, of each query.
    """
    n_queries, last = products.shape[1], listed_rows.shape[1] - 1
    coarse, between, fine = slacks
    lows, following, thresholds, limits = np.empty((4, n_queries), products.dtype)
    groups, bests = np.empty((2, n_queries), np.int32)
    marks = np.zeros(-(-n_queries // 8) * 8, np.uint8)
    eights = marks.view(np.uint64)
    for s in range(firsts.shape[0] - 1):
        lows[:], following[:], thresholds[:] = np.inf, np.inf, -np.inf
        for g in range(firsts[s], firsts[s + 1]):
            _lowest_of_group(products, half_norms, stops, g, lowest[g])
            _lowest_and_next(lowest[g], np.int32(g), lows, groups, following)
        for q in range(n_queries):
            if lows[q] == np.inf:
                continue
            g, bound = groups[q], _just_above(lows[q] + coarse[q])
            best = within = 0
            for r in range(stops[g - 1] if g else 0, stops[g]):
                score = half_norms[r] - products[r, q]
                best = r if score == lows[q] else best
                within += 1 if bound > score else 0
            listed_rows[q, counts[q]] = bests[q] = best
            counts[q] = min(counts[q] + 1, last)
            if within > 1 or bound > following[q]:
                score = finer_half_norms[best] - _product(queries, q, rows, best)
                thresholds[q], limits[q] = _just_above(score + between[q]), _just_above(score + fine[q])
        for g in range(firsts[s], firsts[s + 1]):
            _mark_below(lowest[g], thresholds, marks)
            for e in range(eights.shape[0]):
                if eights[e] == 0:
                    continue
                for q in range(8 * e, min(8 * e + 8, n_queries)):
                    if marks[q] == 0:
                        continue
                    for r in range(stops[g - 1] if g else 0, stops[g]):
                        if r == bests[q] or not thresholds[q] > half_norms[r] - products[r, q]:
                            continue
                        if limits[q] > finer_half_norms[r] - _product(queries, q, rows, r):
                            listed_rows[q, counts[q]] = r
                            counts[q] = min(counts[q] + 1, last)


@compiled
def as_listed(listed_rows, counts):  # type: ignore[no-untyped-def]
    """What was found of each query, as wide as the longest list; −1 fills up."""
    listed = np.full((listed_rows.shape[0], max(1, counts.max())), -1)
    for q in range(listed_rows.shape[0]):
        for place in range(counts[q]):
            listed[q, place] = listed_rows[q, place]
    return listed


@njit_nonan
def _mark_below(line, bounds, marks):  # type: ignore[no-untyped-def]
    for q in range(line.shape[0]):
        marks[q] = np.uint8(1) if bounds[q] > line[q] else np.uint8(0)


@njit_nonan
def _lowest_and_next(line, number, lowest, numbers, following):  # type: ignore[no-untyped-def]
    """One line of scores more: the lowest of each query, the number of its line, and the second lowest."""
    for q in range(line.shape[0]):
        score, low, number_before = line[q], lowest[q], numbers[q]
        following[q] = min(following[q], max(low, score))
        numbers[q] = number if low > score else number_before
        lowest[q] = min(low, score)


@njit_nonan
def _any_below(line, half_norm, bounds):  # type: ignore[no-untyped-def]
    listed_rows = False
    for q in range(line.shape[0]):
        listed_rows |= bounds[q] > half_norm - line[q]
    return listed_rows


# In these two all is read before anything is chosen, and compared by > rather than <: only then does the compiler
# take several queries at once.


@njit_nonan
def best_and_next(line, half_norm, place, best, places, following):  # type: ignore[no-untyped-def]
    """One line more: the best score of each query and its place, and the second best score."""
    for q in range(line.shape[0]):
        score, lowest, number_before = half_norm - line[q], best[q], places[q]
        following[q] = min(following[q], max(lowest, score))
        places[q] = place if lowest > score else number_before
        best[q] = min(lowest, score)


@njit_nonan
def _score(line, half_norm, place, scores, carried):  # type: ignore[no-untyped-def]
    for q in range(line.shape[0]):
        scores[q] = half_norm - line[q]
        carried[q] = place


@njit_nonan
def _exchange(scores, carried, best, places):  # type: ignore[no-untyped-def]
    """Leave the lower score of each query, and its place, in ``best`` and ``places``; carry on the other."""
    for q in range(scores.shape[0]):
        score, place, lowest, number_before = scores[q], carried[q], best[q], places[q]
        carried[q] = number_before if lowest > score else place
        places[q] = place if lowest > score else number_before
        scores[q] = max(score, lowest)
        best[q] = min(score, lowest)


@njit_nonan
def _best_lines(products, half_norms, start, stop, best, places, scores, carried):  # type: ignore[no-untyped-def]
    """The best lines of each query, in order of their scores, of which there is one more than places asked for."""
    best[:] = np.inf
    m = best.shape[0] - 1
    for r in range(start, stop):
        if m == 1:
            best_and_next(products[r], half_norms[r], np.int32(r), best[0], places[0], best[1])
        elif _any_below(products[r], half_norms[r], best[m]):
            _score(products[r], half_norms[r], np.int32(r), scores, carried)
            for t in range(m + 1):
                _exchange(scores, carried, best[t], places[t])


@compiled
def best_of_classes(products, half_norms, rows, labels, bounds, slack, best, places, listed_rows, counts):  # type: ignore[no-untyped-def]
    """Add to ``listed_rows`` what can be among the m best of each class.

    ``bounds`` are the m-th best scores so far of the class of the last line seen, +inf where the first line here is of
    another. ``best`` and ``places`` are room for m + 1 lines of each query. A query whose count reaches the last place
    of ``listed_rows`` had more such rows than there was room for.
    """
    n_queries, m = products.shape[1], best.shape[0] - 1
    last = listed_rows.shape[1] - 1
    scores, carried = np.empty(n_queries, products.dtype), np.empty(n_queries, np.int32)
    start = np.int64(0)  # a literal 0 would be compiled for anew
    while start < rows.shape[0]:
        stop = start + 1
        while stop < rows.shape[0] and labels[stop] == labels[start]:
            stop += 1
        if start > 0:
            bounds[:] = np.inf
        _best_lines(products, half_norms, start, stop, best, places, scores, carried)
        for q in range(n_queries):
            bounds[q] = min(bounds[q], best[m - 1, q])
            threshold = just_above(bounds[q], slack[q], products.dtype)
            if not best[m, q] < threshold:
                for t in range(m):
                    if best[t, q] < threshold:
                        listed_rows[q, counts[q]] = rows[places[t, q]]
                        counts[q] = min(counts[q] + 1, last)
                continue
            # More than m lie within the slack.
            for r in range(start, stop):
                if half_norms[r] - products[r, q] < threshold:
                    listed_rows[q, counts[q]] = rows[r]
                    counts[q] = min(counts[q] + 1, last)
        start = stop


@njit_nonan
def _kth_of_lines(lowest, k, kth):  # type: ignore[no-untyped-def]
    """The k-th lowest number of each column."""
    n_lines, n_queries = lowest.shape
    if k > EXCHANGE_UP_TO:
        for q in range(n_queries):
            kth[q] = kth_smallest(lowest[:, q].copy(), k)
        return
    best, passed = np.full((k, n_queries), np.inf, lowest.dtype), np.empty_like(kth)
    for g in range(n_lines):
        for q in range(n_queries):
            passed[q] = lowest[g, q]
        for t in range(k):
            for q in range(n_queries):
                score, low = passed[q], best[t, q]
                best[t, q] = min(score, low)
                passed[q] = max(score, low)
    for q in range(n_queries):
        kth[q] = best[k - 1, q]


@compiled
def best_of_all(  # type: ignore[no-untyped-def]
    products, half_norms, stops, lowest, numbers, k, scores, rows, counts, thresholds, slack, due, crowded, scratch
):
    """Add to the shortlists what can be among the k best of all lines; ``numbers`` are the lines' row numbers.

    ``lowest`` holds the lowest scores of groups of lines.
    """
    n_queries, capacity = products.shape[1], scores.shape[1]
    if lowest.shape[0] >= k and thresholds.max() == np.inf:
        kth = np.empty(n_queries, products.dtype)
        _kth_of_lines(lowest, k, kth)
        for q in range(n_queries):
            # k groups reach down to the k-th lowest of them, so k rows do.
            if thresholds[q] == np.inf:
                thresholds[q] = just_above(kth[q], slack[q], products.dtype)
    marks = np.zeros(-(-n_queries // 8) * 8, np.uint8)
    eights = marks.view(np.uint64)  # most marks are 0, and eight of them are looked at in one go
    for g in range(lowest.shape[0]):
        _mark_below(lowest[g], thresholds, marks)
        for e in range(eights.shape[0]):
            if eights[e] == 0:
                continue
            for q in range(8 * e, min(8 * e + 8, n_queries)):
                if marks[q] == 0:
                    continue
                for r in range(stops[g - 1] if g else 0, stops[g]):
                    score = half_norms[r] - products[r, q]
                    if not score < thresholds[q]:
                        continue
                    count = counts[q]
                    scores[q, count], rows[q, count] = score, numbers[r]
                    counts[q] = count + 1
                    if count + 1 >= due[q]:
                        kept, thresholds[q] = cut_back(scores[q], rows[q], count + 1, k, slack[q], scratch)
                        counts[q] = kept
                        if kept > capacity - capacity // 4:
                            crowded[q], thresholds[q] = True, -np.inf
                        due[q] = min(capacity, max(due[q], 2 * kept))


@compiled
def best_of_all_lines(products, half_norms, numbers, k, scores, rows, counts, thresholds, slack, due, crowded, scratch):  # type: ignore[no-untyped-def]
    """The same, where the lowest scores of groups are not known yet."""
    n_lines = products.shape[0]
    stops = np.minimum(np.arange(LINES, n_lines + LINES, LINES), n_lines)
    lowest = np.empty((stops.shape[0], products.shape[1]), products.dtype)
    for g in range(stops.shape[0]):
        _lowest_of_group(products, half_norms, stops, g, lowest[g])
    lists = scores, rows, counts, thresholds, slack, due, crowded, scratch
    best_of_all(products, half_norms, stops, lowest, numbers, k, *lists)


# In whatever order it is added up: the slack allows for any.
@partial(compiled, fastmath={"nnan", "nsz", "reassoc", "contract"})
def _product(queries, q, rows, r):  # type: ignore[no-untyped-def]
    total = queries.dtype.type(0.0)
    for j in range(queries.shape[1]):
        total += queries[q, j] * rows[r, j]
    return total


@compiled
def narrow(candidates, queries, rows, half_norms, places, labels, m, slack):  # type: ignore[no-untyped-def]
    """Of each query's candidates keep, label by label, what can be among the m best by finer scores; −1 fills up.

    Candidates of one label must follow each other. ``places`` says where a
    row number stands among ``rows``. Gives the largest number that was kept.
    """
    width, most = candidates.shape[1], 1
    scores, scratch = np.empty(width, rows.dtype), np.empty(width, rows.dtype)
    for q in range(candidates.shape[0]):
        mine = candidates[q]
        kept = start = 0
        while start < width and mine[start] >= 0:
            stop, label = start, labels[mine[start]]
            while stop < width and mine[stop] >= 0 and labels[mine[stop]] == label:
                stop += 1
            if stop - start <= m:
                for c in range(start, stop):
                    mine[kept] = mine[c]
                    kept += 1
                start = stop
                continue
            lowest = rows.dtype.type(np.inf)
            for c in range(start, stop):
                place = places[mine[c]]
                scores[c] = half_norms[place] - _product(queries, q, rows, place)
                lowest = min(lowest, scores[c])
            if m > 1:
                for c in range(start, stop):
                    scratch[c] = scores[c]
                lowest = kth_smallest(scratch[start:stop], m)
            threshold = just_above(lowest, slack[q], rows.dtype)
            for c in range(start, stop):
                if scores[c] < threshold:
                    mine[kept] = mine[c]
                    kept += 1
            start = stop
        mine[kept:] = -1
        most = max(most, kept)
    return most
