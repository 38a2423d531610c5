"""The compiled loops of log-linear pools. Imported on first use only."""

from __future__ import annotations

import math

import numpy as np

from nearsay.core.compiling import compiled


@compiled
def keep_nearest(features, order, truth, ends, per_group, kept, offsets, place):  # type: ignore[no-untyped-def]
    """Keep each case's nearest classes, its true one, and some of each group of others, which end where ``ends`` say.

    ``kept`` (cases × candidates × weights), ``offsets``, the logs of how many
    classes each stands for, and ``place``, where the truth went, are filled in.
    """
    n_near = ends[0]
    for i in range(features.shape[0]):
        place[i] = -1
        for t in range(n_near):
            _copy(features[i, order[i, t]], kept[i, t])
            if order[i, t] == truth[i]:
                place[i] = t
        _copy(features[i, truth[i]], kept[i, n_near])
        if place[i] < 0:
            place[i] = n_near
        else:
            offsets[i, n_near] = -np.inf  # it is there already
        for group in range(1, ends.shape[0]):
            first, n_ranks = ends[group - 1], ends[group] - ends[group - 1]
            true_rank = n_ranks
            for rank in range(n_ranks):
                if order[i, first + rank] == truth[i]:
                    true_rank = rank
            n_others = n_ranks - (true_rank < n_ranks)
            n_kept = min(per_group, n_others)
            for number in range(per_group):
                t = n_near + 1 + (group - 1) * per_group + number
                if number < n_kept:
                    rank = (2 * number + 1) * n_others // (2 * n_kept)  # evenly, among those that are not true
                    _copy(features[i, order[i, first + rank + (rank >= true_rank)]], kept[i, t])
                    offsets[i, t] = math.log(n_others / n_kept)
                else:
                    kept[i, t] = 0.0
                    offsets[i, t] = -np.inf


@compiled
def _copy(numbers, into):  # type: ignore[no-untyped-def]
    # An array assigned to an array compiles for seconds, for its error message alone.
    for each in range(len(numbers)):
        into[each] = numbers[each]


@compiled
def log_mean_distances(numbers, nearest, means, beyond, columns, floor, gaps, first, out):  # type: ignore[no-untyped-def]
    """Fill out[query, class, first + j] with the log of the mean distances in column columns[j] of ``means``.

    A class that has no means stands at its nearest member, and as much farther
    off as ``gaps`` say. A class that is not listed stands at ``beyond``; where all
    are listed it has no member at all, and stands at the mean of the others,
    neither helped nor harmed. A query with no class listed has 0 everywhere.
    """
    n, n_classes, n_features = out.shape[0], out.shape[1], columns.shape[0]
    for i in range(n):
        listed = 0
        while listed < numbers.shape[1] and numbers[i, listed] >= 0:
            listed += 1
        if listed < n_classes:
            unlisted = math.log(beyond[i] + floor) if listed and beyond[i] < np.inf else 0.0
            out[i, :, first : first + n_features] = unlisted
        for t in range(listed):
            c = numbers[i, t]
            if t < means.shape[1]:
                for j in range(n_features):
                    out[i, c, first + j] = math.log(means[i, t, columns[j]] + floor)
            else:
                far = math.log(nearest[i, t] + floor)
                for j in range(n_features):
                    out[i, c, first + j] = far + gaps[j]
        if 0 < listed < n_classes and beyond[i] == np.inf:
            _fill_unlisted(numbers[i, :listed], out[i, :, first : first + n_features])


@compiled
def _fill_unlisted(listed, features):  # type: ignore[no-untyped-def]
    absent = np.ones(features.shape[0], np.bool_)
    absent[listed] = False
    for j in range(features.shape[1]):
        total = 0.0  # the absent ones are 0 here
        for c in range(features.shape[0]):
            total += features[c, j]
        mean = total / len(listed)
        for c in range(features.shape[0]):
            if absent[c]:
                features[c, j] = mean
