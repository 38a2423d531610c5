"""Compiled loops that select the rows to measure, by rough scores. Imported on first use only.

A score is certain to ``slack``: a row that is measured to be nearer than a limit scores no more than that above it.
Removed rows score +inf.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.compiling import compiled


@compiled
def may_be_nearest(scores, slack, labels, k, lowest, numbers):  # type: ignore[no-untyped-def]
    """Fill in the numbers of rows that may be among the ``k`` nearest, or the nearest of their class; gives how many.

    ``lowest`` (n_classes) and ``numbers`` (n_rows) are room to work in; without classes ``lowest`` is empty.
    """
    lowest[:] = np.inf
    best = np.full(k, np.inf)
    limit = np.inf
    listed = 0
    for row in range(scores.shape[0]):
        score = scores[row]
        if score == np.inf:
            continue
        keep = score <= limit
        if keep and score < best[k - 1]:
            _lower(best, score)
            limit = best[k - 1] + slack
        if lowest.shape[0]:
            c = labels[row]
            keep |= score <= lowest[c] + slack
            if score < lowest[c]:
                lowest[c] = score
        if keep:
            numbers[listed] = row
            listed += 1
    # Limits were higher when the first rows were listed.
    count = 0
    for place in range(listed):
        row = numbers[place]
        if scores[row] <= limit or (lowest.shape[0] > 0 and scores[row] <= lowest[labels[row]] + slack):
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
    limits = np.full(place_of.shape[0], -np.inf)  # by class, so that a row reads one place
    for c in range(place_of.shape[0]):
        if place_of[c] >= 0:
            limits[c] = np.inf
    listed = 0
    for row in range(scores.shape[0]):
        c = labels[row]
        if scores[row] <= limits[c] and scores[row] < np.inf:
            t = place_of[c]
            if scores[row] < best[t, most]:
                _lower(best[t], scores[row])
                limits[c] = best[t, most] + slack
            numbers[listed] = row
            listed += 1
    count = 0
    for place in range(listed):
        row = numbers[place]
        if scores[row] <= limits[labels[row]]:
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
