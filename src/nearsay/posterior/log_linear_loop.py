"""The compiled loops of log-linear pools. Imported on first use only (numba)."""

from __future__ import annotations

import math

import numpy as np

from nearsay.compiling import compiled

NEGLIGIBLE = 1e-12


@compiled
def add_cases(features, offsets, truth, weights, p_true, gradient, curvature):  # type: ignore[no-untyped-def]
    """The negative log likelihood of all cases; its derivatives are added to what is there."""
    n, n_candidates, n_weights = features.shape
    p = np.empty(n_candidates)
    mean, apart = np.empty(n_weights), np.empty(n_weights)
    lost = 0.0
    for i in range(n):
        highest = -np.inf
        for u in range(n_candidates):
            score = offsets[i, u]
            for j in range(n_weights):
                score -= weights[j] * features[i, u, j]
            p[u] = score
            highest = max(highest, score)
        true_score = p[truth[i]]
        total = 0.0
        for u in range(n_candidates):
            p[u] = math.exp(p[u] - highest)
            total += p[u]
        lost += highest + math.log(total) - true_score
        p_true[i] = p[truth[i]] / total
        mean[:] = 0.0
        for u in range(n_candidates):
            p[u] /= total
            if p[u] > NEGLIGIBLE:
                for j in range(n_weights):
                    mean[j] += p[u] * features[i, u, j]
        for j in range(n_weights):
            gradient[j] += features[i, truth[i], j] - mean[j]
        for u in range(n_candidates):
            if p[u] > NEGLIGIBLE:
                for j in range(n_weights):
                    apart[j] = features[i, u, j] - mean[j]
                for j in range(n_weights):
                    for m in range(j + 1):
                        curvature[j, m] += p[u] * apart[j] * apart[m]
    for j in range(n_weights):
        for m in range(j):
            curvature[m, j] = curvature[j, m]
    return lost


@compiled
def log_mean_distances(numbers, distances, beyond, members, floor, out):  # type: ignore[no-untyped-def]
    """Fill out[query, class, j] with the log of the mean distance of the members[j] nearest of the class.

    A class with fewer members gives the mean of those it has. A class that is
    not listed stands at ``beyond``; where all are listed it has no member at
    all, and stands at the mean of the others, neither helped nor harmed. A
    query with no class listed has 0 everywhere.
    """
    n, n_classes, n_features = out.shape
    unlisted = np.empty(n_features)
    for i in range(n):
        listed = 0
        while listed < numbers.shape[1] and numbers[i, listed] >= 0:
            listed += 1
        unlisted[:] = math.log(beyond[i] + floor) if listed and beyond[i] < np.inf else 0.0
        for c in range(n_classes):
            for j in range(n_features):
                out[i, c, j] = unlisted[j]
        for t in range(listed):
            total, met, j = 0.0, 0, 0
            while met < distances.shape[2] and distances[i, t, met] < np.inf:
                total += distances[i, t, met]
                met += 1
                if members[j] == met:
                    out[i, numbers[i, t], j] = math.log(total / met + floor)
                    j += 1
                    if j == n_features:
                        break
            while j < n_features:
                out[i, numbers[i, t], j] = math.log(total / met + floor)
                j += 1
        if 0 < listed < n_classes and beyond[i] == np.inf:
            _fill_unlisted(numbers[i, :listed], out[i])


@compiled
def _fill_unlisted(listed, features):  # type: ignore[no-untyped-def]
    absent = np.ones(features.shape[0], np.bool_)
    absent[listed] = False
    for j in range(features.shape[1]):
        mean = features[:, j].sum() / len(listed)  # the absent ones are 0 here
        for c in range(features.shape[0]):
            if absent[c]:
                features[c, j] = mean
