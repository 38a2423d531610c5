"""Near-duplicates: rows of one class that lie closer together than independent rows would.

    fellows of a row, nearest first:   · · ·     ·  ·   ·   ·  ·     independent: spacings are alike, on this scale
                                       ··· ············ ·   ·        siblings first, then a gap: the row is of a bunch

Distances r₁ ≤ r₂ ≤ … to the nearest fellows of a row (rows of its class) grow as volume grows: among independent rows
the spacings k · log(rₖ₊₁ / rₖ) are alike at all ranks k, whatever the dimension, the density and the unit. In noisy or
curved classes they grow with the rank. So spacings that are larger at the first ranks than at later ones show that
rows come in bunches: paraphrases by one writer, frames of one video, copies.

Nothing but the rows says so. Bunches that are as wide as the class, or larger than ``MOST_SIBLINGS``, are not
noticed, and independent rows that a class repeats (a few fixed items, drawn many times) are taken for copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from nearsay.data.content_order import content_order
from nearsay.distances.functions import PrecomputedDistance
from nearsay.distances.named import Metric, as_distance
from nearsay.neighbors.index import NeighborIndex

# Spacings are compared on these scales: the first half of so many nearest fellows with the second half.
SCALES = (8, 16, 32)
# A scale must be so many times smaller than the class, over which density and dimension change.
ROWS_A_SCALE = {8: 2, 16: 2, 32: 32}
MOST_SIBLINGS = 16
# The share of the first half is larger than by chance: so much, and so many standard errors.
EFFECT, STANDARD_ERRORS = 0.015, 3.0
FEWEST_ROWS = 30
# Where more of the spacings are ties, rows lie on a grid, and distances grow in steps.
MOST_TIES = 0.25


def near_duplicate_groups(
    X: Any, labels: np.ndarray, metric: Metric = "euclidean", n_jobs: int | None = None
) -> np.ndarray | None:
    """The group of every row: near-duplicates within a class share one, and every other row has its own.

    None where rows are not closer to each other than independent ones would be. Groups do not depend on the order of
    the rows.

    X : rows that the metric compares.
    labels : (n_rows,) class numbers.

    >>> rng = np.random.default_rng(0)
    >>> alone = rng.normal(size=(100, 4))
    >>> near_duplicate_groups(alone, np.zeros(100, int)) is None
    True
    >>> twins = np.concatenate([alone, alone + 0.01 * rng.normal(size=(100, 4))])
    >>> groups = near_duplicate_groups(twins, np.zeros(200, int))
    >>> bool((groups[:100] == groups[100:]).all()), len(np.unique(groups))
    (True, 100)
    """
    distance = as_distance(metric)
    pairwise = isinstance(distance, PrecomputedDistance)
    order = content_order(X, labels, pairwise=pairwise)
    indices, distances = _fellows(X, labels, order, distance, pairwise, n_jobs)
    sizes = np.bincount(labels)[labels[order]]
    n_siblings = siblings(distances, sizes)
    if not n_siblings:
        return None
    group = np.empty(len(labels), np.int64)
    group[order] = order[_linked(indices, distances, n_siblings)]
    return group


def siblings(distances: np.ndarray, sizes: np.ndarray) -> int:
    """How many nearest fellows of a row are siblings: the fewest without which no spacings show bunches.

    ``distances`` are those of the nearest fellows (n_rows, n_fellows), +inf where a class has fewer; ``sizes`` the
    number of rows in the class of each row.

    >>> evenly = np.cumsum(1 / np.arange(10.0, 60.0)) + np.zeros((50, 1))    # equal spacings from the eleventh rank on
    >>> siblings(np.exp(evenly), np.full(50, 500))
    0
    >>> siblings(np.exp(np.hstack([np.full((50, 2), -3.0), evenly])), np.full(50, 500))
    2
    """
    positive = distances[(distances > 0) & np.isfinite(distances)]
    if not len(positive):
        return 0
    logs = np.log(np.maximum(distances / positive.min(), 1.0))  # where rows lie on a grid, its step counts as none
    for n_siblings in range(MOST_SIBLINGS + 1):
        if not any(_bunched(logs[sizes > ROWS_A_SCALE[k] * k + n_siblings, n_siblings:], k) for k in SCALES):
            return n_siblings
    return MOST_SIBLINGS


def _bunched(logs: np.ndarray, scale: int) -> bool:
    """Whether the first spacings of the usual row are larger than those of an independent one.

    Of independent rows, the share of the first half has a beta distribution.
    """
    logs = logs[:, :scale]
    if logs.shape[1] < scale:
        return False
    logs = logs[np.isfinite(logs).all(axis=1)]
    spacings = np.diff(logs, axis=1) * np.arange(1, scale)
    ties = (spacings == 0) & (logs[:, 1:] > 0)  # copies are none
    spacings = spacings[ties.mean(axis=1) <= MOST_TIES]
    total = spacings.sum(axis=1)
    share = spacings[total > 0, : scale // 2 - 1].sum(axis=1) / total[total > 0]
    if len(share) < FEWEST_ROWS:
        return False
    expected = (scale / 2 - 1) / (scale - 1)
    error = np.sqrt(np.pi / 2 * expected * (1 - expected) / scale / len(share))  # of the median
    return bool(np.median(share) - expected > max(EFFECT, STANDARD_ERRORS * error))


def _fellows(
    X: Any, labels: np.ndarray, order: np.ndarray, distance: Any, pairwise: bool, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest rows of the same class and their distances, for the rows in this order, numbered by it."""
    n_fellows = MOST_SIBLINGS + max(SCALES)
    indices = np.full((len(labels), n_fellows), -1)
    distances = np.full((len(labels), n_fellows), np.inf)
    for label in np.unique(labels):
        places = np.flatnonzero(labels[order] == label)
        k = min(n_fellows, len(places) - 1)
        if not k:
            continue
        rows = _safe_indexing(X, order[places])
        index = NeighborIndex(distance, n_jobs=n_jobs).fit(rows[:, order[places]] if pairwise else rows)
        table = index.leave_one_out(k)
        indices[places, :k], distances[places, :k] = places[table.indices], table.distances
    return indices, distances


def _linked(indices: np.ndarray, distances: np.ndarray, n_siblings: int) -> np.ndarray:
    """The first row of the group of each row: the nearest pairs are joined until rows have so many siblings on average.

    Near is meant by what is usual around both rows. Two groups become one when all pairs between them have come.
    """
    n_rows = len(indices)
    usual = distances[:, 2 * n_siblings + SCALES[1] - 1]
    a, b = _pairs(indices, distances, usual)
    first, rows_of = np.arange(n_rows), {row: [row] for row in range(n_rows)}
    links: list[dict[int, int]] = [{} for _ in range(n_rows)]  # how many pairs between two groups have come
    n_left = (n_siblings * n_rows + 1) // 2
    for one, other in zip(a.tolist(), b.tolist(), strict=True):
        if n_left <= 0:
            break
        one, other = sorted((int(first[one]), int(first[other])))
        if one == other:
            continue
        links[one][other] = links[other][one] = links[one].get(other, 0) + 1
        n_pairs = len(rows_of[one]) * len(rows_of[other])
        if links[one][other] < n_pairs:
            continue
        n_left -= n_pairs
        first[rows_of[other]] = one
        rows_of[one] += rows_of.pop(other)
        for third, count in links[other].items():
            del links[third][other]
            if third != one:
                links[one][third] = links[third][one] = links[one].get(third, 0) + count
        links[other] = {}
    return first


def _pairs(indices: np.ndarray, distances: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows, nearest first by what is usual around both; a class too small to say what is usual has none."""
    one = np.repeat(np.arange(len(indices)), MOST_SIBLINGS)
    other, far = indices[:, :MOST_SIBLINGS].ravel(), distances[:, :MOST_SIBLINGS].ravel()
    known = (other >= 0) & np.isfinite(usual[one]) & (usual[one] > 0) & (usual[other] > 0)
    one, other, far = one[known], other[known], far[known]
    _, once = np.unique(np.minimum(one, other) * len(indices) + np.maximum(one, other), return_index=True)
    one, other, far = one[once], other[once], far[once]
    by_nearness = np.argsort(far / np.sqrt(usual[one] * usual[other]), kind="stable")
    return one[by_nearness], other[by_nearness]
