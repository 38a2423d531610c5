"""Near-duplicates within classes, slowly: every distance, every rank and every pair of groups by itself."""

from math import log, pi, sqrt
from statistics import median

import numpy as np

SCALES = {8: 2, 16: 2, 32: 32}  # and how many times as large a class must be
MOST_SIBLINGS = 16


def near_duplicate_groups(X, labels):
    """Sets of row numbers that share a group, each with two rows or more."""
    fellows = [_fellows(X, labels, row) for row in range(len(X))]
    n_siblings = siblings(fellows, labels)
    return {frozenset(group) for group in _joined(fellows, n_siblings) if len(group) > 1} if n_siblings else set()


def siblings(fellows, labels):
    positive = [far for row in fellows for far, _ in row if far > 0]
    for n_siblings in range(MOST_SIBLINGS + 1):
        if not any(_bunched(fellows, labels, n_siblings, scale, min(positive)) for scale in SCALES):
            return n_siblings
    return MOST_SIBLINGS


def _fellows(X, labels, row):
    """(distance, row) of the other rows of its class, nearest first."""
    others = [other for other in range(len(X)) if other != row and labels[other] == labels[row]]
    return sorted((sqrt(sum((a - b) ** 2 for a, b in zip(X[row], X[other], strict=True))), other) for other in others)


def _bunched(fellows, labels, n_siblings, scale, smallest):
    shares = []
    for row, nearest in enumerate(fellows):
        size = sum(label == labels[row] for label in labels)
        if size <= SCALES[scale] * scale + n_siblings:
            continue
        far = [max(distance, smallest) for distance, _ in nearest[n_siblings : n_siblings + scale]]
        spacings = [rank * (log(far[rank]) - log(far[rank - 1])) for rank in range(1, scale)]
        ties = [far[rank] == far[rank - 1] > smallest for rank in range(1, scale)]
        if sum(ties) / len(ties) <= 0.25 and sum(spacings) > 0:
            shares.append(sum(spacings[: scale // 2 - 1]) / sum(spacings))
    if len(shares) < 30:
        return False
    a, b = scale / 2 - 1, scale / 2
    spread = sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
    return median(shares) - a / (a + b) > max(0.015, 3 * sqrt(pi / 2) * spread / sqrt(len(shares)))


def _joined(fellows, n_siblings):
    """Groups once the nearest pairs are joined, two groups when all pairs between them have come."""
    usual = [row[2 * n_siblings + 15][0] if len(row) > 2 * n_siblings + 15 else 0 for row in fellows]
    pairs = {
        (far / sqrt(usual[row] * usual[other]), min(row, other), max(row, other))
        for row, nearest in enumerate(fellows)
        for far, other in nearest[:MOST_SIBLINGS]
        if usual[row] > 0 and usual[other] > 0
    }
    groups, come = [{row} for row in range(len(fellows))], set()
    for _, one, other in sorted(pairs):
        if np.mean([len(group) - 1 for group in groups for _ in group]) >= n_siblings:
            break
        come.add((one, other))
        mine, theirs = (next(group for group in groups if row in group) for row in (one, other))
        if mine is not theirs and all((min(a, b), max(a, b)) in come for a in mine for b in theirs):
            groups = [group for group in groups if group is not mine and group is not theirs] + [mine | theirs]
    return groups
