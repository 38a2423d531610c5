"""The compiled loop that puts measured candidates in order. Imported on first use only."""

from __future__ import annotations

from functools import partial

import numpy as np

from nearsay.core.compiling import compiled
from nearsay.core.rounding import SPLIT
from nearsay.search.screening.selection_kernels import kth_smallest

# Inserting one by one beats sorting up to about this many.
INSERT_UP_TO = 64
# More are sorted into so many bins first, and no further if none of them holds more than so many.
BINS, FULL_BIN = 256, 32
# Runs this long are sorted by inserting, and then merged.
RUN = 16
# Putting classes right one by one beats sorting them, as long as each moves no farther than this in the mean.
MOVES = 8


@compiled
def insert(indices, distances, row, distance):  # type: ignore[no-untyped-def]
    """Put one row where it belongs in a list that is in order; the last one falls out."""
    place = indices.shape[0]
    while place > 0 and (
        distance < distances[place - 1] or (distance == distances[place - 1] and row < indices[place - 1])
    ):
        place -= 1
    for later in range(indices.shape[0] - 1, place, -1):
        indices[later] = indices[later - 1]
        distances[later] = distances[later - 1]
    if place < indices.shape[0]:
        indices[place] = row
        distances[place] = distance


@compiled
def nearest_first(candidates, measured, left_out, indices, distances):  # type: ignore[no-untyped-def]
    """Fill each query's neighbors, nearest first, ties by row number, without the row left out (if any are)."""
    indices[:] = -1
    distances[:] = np.inf
    for q in range(candidates.shape[0]):
        itself = left_out[q] if left_out.shape[0] else -1
        for c in range(candidates.shape[1]):
            row = candidates[q, c]
            if row >= 0 and row != itself:
                insert(indices[q], distances[q], row, measured[q, c])


@compiled
def many_nearest_first(candidates, measured, left_out, indices, distances):  # type: ignore[no-untyped-def]
    """The same for more neighbors than ``INSERT_UP_TO``, which are sorted."""
    k = indices.shape[1]
    indices[:] = -1
    distances[:] = np.inf
    rows, far = np.empty(candidates.shape[1], np.int64), np.empty(candidates.shape[1])
    for q in range(candidates.shape[0]):
        itself = left_out[q] if left_out.shape[0] else -1
        n = 0
        # What was not measured is left out before sorting: its distance can be anything.
        for c in range(candidates.shape[1]):
            row = candidates[q, c]
            if row >= 0 and row != itself:
                rows[n], far[n] = row, measured[q, c]
                n += 1
        if n > k:  # ordering all of them would take longer
            farthest = kth_smallest(far[:n].copy(), k)
            kept = 0
            for c in range(n):
                if far[c] <= farthest:
                    rows[kept], far[kept] = rows[c], far[c]
                    kept += 1
            n = kept
        sort_nearest_first(rows[:n], far[:n])
        for place in range(min(n, k)):
            indices[q, place], distances[q, place] = rows[place], far[place]


@compiled
def sort_nearest_first(rows, far):  # type: ignore[no-untyped-def]
    """Sort rows by how far they are, ties by row number: into bins of equal width, and in each by inserting.

    Where many fall into one bin, or distances are infinite, by merging.
    """
    n = rows.shape[0]
    nearest, farthest = np.inf, -np.inf
    for c in range(n):
        nearest, farthest = min(nearest, far[c]), max(farthest, far[c])
    per_unit = (BINS - 0.5) / (farthest - nearest) if nearest < farthest < np.inf else 0.0
    ends, fullest = np.zeros(BINS, np.int64), 0
    in_bins = 0.0 < per_unit < np.inf
    if in_bins:
        for c in range(n):
            ends[int((far[c] - nearest) * per_unit)] += 1
        before = 0
        for b in range(BINS):
            fullest = max(fullest, ends[b])
            before += ends[b]
            ends[b] = before
    if not in_bins or fullest > FULL_BIN:
        _merge(rows, far)
        return
    rows_before, far_before = rows.copy(), far.copy()
    for c in range(n):
        b = int((far_before[c] - nearest) * per_unit)
        ends[b] -= 1
        rows[ends[b]], far[ends[b]] = rows_before[c], far_before[c]
    _sort_by_inserting(rows, far)


# Not numpy's sort, which takes as long to compile as all else in this module.
@compiled
def _merge(rows, far):  # type: ignore[no-untyped-def]
    n = rows.shape[0]
    for first in range(0, n, RUN):
        _sort_by_inserting(rows[first : first + RUN], far[first : first + RUN])
    rows_before, far_before = np.empty_like(rows), np.empty_like(far)
    run = RUN
    while run < n:
        rows_before[:], far_before[:] = rows, far
        for first in range(0, n, 2 * run):
            left, middle, end = first, min(first + run, n), min(first + 2 * run, n)
            right = middle
            for place in range(first, end):
                if right == end or (
                    left < middle
                    and (
                        far_before[left] < far_before[right]
                        or (far_before[left] == far_before[right] and rows_before[left] < rows_before[right])
                    )
                ):
                    rows[place], far[place] = rows_before[left], far_before[left]
                    left += 1
                else:
                    rows[place], far[place] = rows_before[right], far_before[right]
                    right += 1
        run *= 2


@compiled
def _sort_by_inserting(rows, far):  # type: ignore[no-untyped-def]
    for c in range(1, rows.shape[0]):
        row, distance, place = rows[c], far[c], c
        while place > 0 and (distance < far[place - 1] or (distance == far[place - 1] and row < rows[place - 1])):
            rows[place], far[place] = rows[place - 1], far[place - 1]
            place -= 1
        rows[place], far[place] = row, distance


@compiled
def nearest_of_each_class(candidates, measured, labels, indices, distances):  # type: ignore[no-untyped-def]
    """Let the candidates take their places among each query's nearest members of each class, ties by row number.

    ``indices`` and ``distances`` are in order so far (−1 and +inf without any).
    """
    n_members = indices.shape[2]
    for q in range(candidates.shape[0]):
        for c in range(candidates.shape[1]):
            row, distance = candidates[q, c], measured[q, c]
            if row < 0:
                continue
            label = labels[row]
            place = n_members
            while place > 0:
                before = indices[q, label, place - 1]
                if before >= 0:
                    nearer = distances[q, label, place - 1]
                    if nearer < distance or (nearer == distance and before < row):
                        break
                    if place < n_members:
                        indices[q, label, place] = before
                        distances[q, label, place] = nearer
                place -= 1
            if place < n_members:
                indices[q, label, place] = row
                distances[q, label, place] = distance


@compiled
def insert_block(block, first, labels, removed, left_out, table, members):  # type: ignore[no-untyped-def]
    """Let the measured distances of rows ``first …`` take their places among the nearest, of all and of each class.

    ``table`` and ``members`` are pairs of row numbers and distances, in order so far; ``removed`` may be empty.
    """
    for q in range(block.shape[0]):
        itself = left_out[q] if left_out.shape[0] else -1
        for r in range(block.shape[1]):
            row = first + r
            if row == itself or (removed.shape[0] and removed[row]):
                continue
            c = labels[row]
            insert(table[0][q], table[1][q], row, block[q, r])
            insert(members[0][q, c], members[1][q, c], row, block[q, r])


# Distances are numbers (never NaN), and only with that said are they compared several at a time.
@partial(compiled, fastmath={"nnan", "nsz"})
def _count_below(keys, key):  # type: ignore[no-untyped-def]
    count = np.int32(0)
    for t in range(keys.shape[0]):
        count = np.int32(count + (np.int32(1) if key > keys[t] else np.int32(0)))
    return np.int64(count)


@compiled
def _fill_means(distances, met, members, means):  # type: ignore[no-untyped-def]
    """The mean of the members[j] first distances, or of all ``met`` where there are fewer, as ``rounded`` does."""
    total, added = 0.0, 0
    for j in range(members.shape[0]):
        while added < min(members[j], met):
            total += distances[added]
            added += 1
        mean = total / added
        high = SPLIT * mean
        means[j] = mean if members[j] == 1 or mean == np.inf else high - (high - mean)


@compiled
def few_classes_in_order(indices, distances, members, numbers, nearest, means):  # type: ignore[no-untyped-def]
    """The classes of each query by their nearest member, ties by its row number, and their means.

    ``numbers``, ``nearest`` and ``means`` come filled with −1 and +inf. For few classes: their ranks are counted, in
    float32, several at a time. What float32 cannot tell apart is put right afterward.
    """
    n_classes, n_members = distances.shape[1:]
    keys, classes = np.empty(n_classes, np.float32), np.empty(n_classes, np.int64)
    for q in range(indices.shape[0]):
        listed = 0
        for c in range(n_classes):
            if indices[q, c, 0] >= 0:
                keys[listed], classes[listed] = distances[q, c, 0], c
                listed += 1
        order = numbers[q]
        for t in range(listed):
            rank = _count_below(keys[:listed], keys[t])
            while order[rank] >= 0:  # as far away as one before, in float32
                rank += 1
            order[rank] = classes[t]
        for t in range(listed):
            c = order[t]
            far, row = distances[q, c, 0], indices[q, c, 0]
            place = t
            while place > 0:
                before = order[place - 1]
                nearer = distances[q, before, 0]
                if nearer < far or (nearer == far and indices[q, before, 0] < row):
                    break
                order[place] = before
                place -= 1
            order[place] = c
        for t in range(min(listed, nearest.shape[1])):
            nearest[q, t] = distances[q, order[t], 0]
        for t in range(min(listed, means.shape[1])):
            c, met = order[t], 0
            while met < n_members and indices[q, c, met] >= 0:
                met += 1
            _fill_means(distances[q, c], met, members, means[q, t])


@compiled
def in_that_order(rows, distances, numbers, nearest):  # type: ignore[no-untyped-def]
    """Fill in how far the nearest members are, in the order of ``numbers``, which becomes −1 where there is none."""
    for q in range(numbers.shape[0]):
        for t in range(numbers.shape[1]):
            c = numbers[q, t]
            nearest[q, t] = distances[q, c]
            if rows[q, c] < 0:
                numbers[q, t] = -1


@compiled
def settle_order(numbers, rows, distances, crowded):  # type: ignore[no-untyped-def]
    """Put classes that are nearly in order (as float32 tells them apart) in order, ties by row number.

    Where that would take long, as among thousands that are equally far, the query is marked ``crowded`` instead.
    """
    for q in range(numbers.shape[0]):
        order, row, far = numbers[q], rows[q], distances[q]
        patience = MOVES * order.shape[0]
        for t in range(1, order.shape[0]):
            c = order[t]
            place = t
            while place > 0:
                before = order[place - 1]
                if far[before] < far[c] or (far[before] == far[c] and row[before] < row[c]):
                    break
                order[place] = before
                place -= 1
            order[place] = c
            patience -= t - place
            if patience < 0:
                crowded[q] = True
                break


@compiled
def nearest_of_classes(lines, candidates, measured, rows, labels, indices, distances):  # type: ignore[no-untyped-def]
    """Let candidates become the nearest of their class where they are, ties by row number.

    ``candidates`` are places among ``rows``, whose classes are ``labels``; those of query q count for line
    ``lines[q]`` of ``indices`` and ``distances`` (queries × classes; −1 and +inf without any).
    """
    for q in range(candidates.shape[0]):
        line = lines[q]
        for t in range(candidates.shape[1]):
            place = candidates[q, t]
            if place < 0:
                break
            row, far, c = rows[place], measured[q, t], labels[place]
            before = indices[line, c]
            if before < 0 or far < distances[line, c] or (far == distances[line, c] and row < before):
                indices[line, c], distances[line, c] = row, far


@compiled
def settle_classes(by_score, candidates, measured, labels, members, numbers, nearest, means):  # type: ignore[no-untyped-def]
    """Let measured candidates correct an order of the classes that is right but for them; ties by row number.

    ``by_score`` (queries × classes) is that order, padded with −1. ``numbers``, ``nearest`` and ``means`` come filled
    with −1 and +inf.
    """
    n_classes = numbers.shape[1]
    room = members[-1] if members.shape[0] else 1
    rows, far = np.empty((n_classes, room), np.int64), np.empty((n_classes, room))
    met = np.zeros(n_classes, np.int64)
    for q in range(by_score.shape[0]):
        met[:] = 0
        for t in range(candidates.shape[1]):
            row, distance = candidates[q, t], measured[q, t]
            if row < 0:
                break
            # As ``_insert``, which takes several times as long: handing an array to a function counts who holds it.
            c = labels[row]
            place = met[c]
            met[c] = min(place + 1, room)
            while place > 0:
                nearer = far[c, place - 1]
                if nearer < distance or (nearer == distance and rows[c, place - 1] < row):
                    break
                if place < room:
                    rows[c, place], far[c, place] = rows[c, place - 1], nearer
                place -= 1
            if place < room:
                rows[c, place], far[c, place] = row, distance
        for t in range(n_classes):
            c = by_score[q, t]
            if c < 0:  # so are all that follow
                break
            place = t
            if met[c] > 0:
                while place > 0:
                    before = numbers[q, place - 1]
                    nearer = met[before] == 0 or far[before, 0] < far[c, 0]
                    if nearer or (far[before, 0] == far[c, 0] and rows[before, 0] < rows[c, 0]):
                        break
                    numbers[q, place] = before
                    place -= 1
            numbers[q, place] = c
        for t in range(nearest.shape[1]):
            c = numbers[q, t]
            if c < 0:
                break
            nearest[q, t] = far[c, 0]
            if t < means.shape[1]:
                _fill_means(far[c], met[c], members, means[q, t])


@compiled
def classes_met(indices, distances, labels, sizes, left_out, members, numbers, nearest, means, beyond):  # type: ignore[no-untyped-def]
    """The classes among the nearest rows of each query, and how far their members are.

    A member that the class has, but that is not among these rows, lies ``beyond``.
    ``numbers``, ``nearest`` and ``means`` come filled with −1 and +inf.
    """
    n_members = members[-1] if members.shape[0] else 0
    at = np.full(sizes.shape[0], -1, np.int64)  # where a class is listed
    met = np.zeros(sizes.shape[0], np.int64)
    far = np.empty((numbers.shape[1], n_members))
    for q in range(indices.shape[0]):
        listed = 0
        for t in range(indices.shape[1]):
            if indices[q, t] < 0:
                break
            c = labels[indices[q, t]]
            if met[c] == 0:
                at[c] = listed
                numbers[q, listed] = c
                listed += 1
            if met[c] < n_members:
                far[at[c], met[c]] = distances[q, t]
            met[c] += 1
        for t in range(listed):
            c = numbers[q, t]
            others = sizes[c]
            if left_out.shape[0] and labels[left_out[q]] == c:
                others -= 1
            for more in range(met[c], min(others, n_members)):
                far[t, more] = beyond[q]
            if t < nearest.shape[1]:
                nearest[q, t] = far[t, 0]
            if t < means.shape[1]:
                _fill_means(far[t], min(others, n_members), members, means[q, t])
            met[c] = 0
