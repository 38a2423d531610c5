"""The compiled loops that say which rows have to be measured, by rough scores. Imported on first use only.

A score is certain to ``slack``: rows that are measured to be nearer than a limit score no more than that above it.
Rows that are not there score +inf.
"""

from __future__ import annotations

import numpy as np

from nearsay.compiling import compiled


@compiled
def may_be_nearest(scores, slack, labels, k, lowest, numbers):  # type: ignore[no-untyped-def]
    """Fill in the numbers of rows that may be among the ``k`` nearest, or the nearest of their class; gives how many.

    ``lowest`` (n_classes) and ``numbers`` (n_rows) are room to work in; without classes ``lowest`` is empty.
    """
    lowest[:] = np.inf
    best = np.full(k, np.inf)
    last = np.inf
    for row in range(scores.shape[0]):
        score = scores[row]
        if score < last:
            _lower(best, score)
            last = best[k - 1]
        if lowest.shape[0] and score < lowest[labels[row]]:
            lowest[labels[row]] = score
    limit = last + slack
    count = 0
    for row in range(scores.shape[0]):
        score = scores[row]
        if score < np.inf and (score <= limit or (lowest.shape[0] > 0 and score <= lowest[labels[row]] + slack)):
            numbers[count] = row
            count += 1
    return count


@compiled
def may_be_members(scores, slack, labels, place_of, best, numbers):  # type: ignore[no-untyped-def]
    """The same for the nearest members of some classes: those with a place in ``place_of`` (n_classes, −1 for none).

    ``best`` (places × members) is room to work in.
    """
    best[:] = np.inf
    most = best.shape[1] - 1
    for row in range(scores.shape[0]):
        t = place_of[labels[row]]
        if t >= 0 and scores[row] < best[t, most]:
            _lower(best[t], scores[row])
    count = 0
    for row in range(scores.shape[0]):
        t = place_of[labels[row]]
        if t >= 0 and scores[row] < np.inf and scores[row] <= best[t, most] + slack:
            numbers[count] = row
            count += 1
    return count


@compiled
def _lower(best, score):  # type: ignore[no-untyped-def]
    """Put a score where it belongs among the lowest so far; the last falls out."""
    place = best.shape[0] - 1
    while place > 0 and best[place - 1] > score:
        best[place] = best[place - 1]
        place -= 1
    best[place] = score


@compiled
def lowest_of_places(numbers, distances, labels, place_of, lowest):  # type: ignore[no-untyped-def]
    """Let the distances of measured rows take their places among the lowest of the classes that have a place."""
    most = lowest.shape[1] - 1
    for c in range(numbers.shape[0]):
        t = place_of[labels[numbers[c]]]
        if t >= 0 and distances[c] < lowest[t, most]:
            _lower(lowest[t], distances[c])
