"""BoostMetric as loops, straight from the definitions: one triplet, one pair of numbers at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Triplet = tuple[int, int, int]


def outer_difference(X: np.ndarray, triplet: Triplet) -> np.ndarray:
    """(anchor − other)(anchor − other)ᵀ − (anchor − same)(anchor − same)ᵀ."""
    anchor, same, other = triplet
    to_other, to_same = X[anchor] - X[other], X[anchor] - X[same]
    return np.outer(to_other, to_other) - np.outer(to_same, to_same)


def loss(X: np.ndarray, triplets: Sequence[Triplet], shares: Sequence[float], M: np.ndarray, penalty: float) -> float:
    total = 0.0
    for triplet, share in zip(triplets, shares, strict=True):
        total += share * math.exp(-float((outer_difference(X, triplet) * M).sum()))
    return math.log(total) + penalty * float(np.trace(M))


def bisected_weight(shares: Sequence[float], margins: Sequence[float], penalty: float) -> float:
    """Where Σ shares (margin − penalty) exp(−w margin) changes its sign; at most 30 over the largest margin."""

    def excess(w: float) -> float:
        return sum(u * (h - penalty) * math.exp(-w * h) for u, h in zip(shares, margins, strict=True))

    largest = max(abs(margin) for margin in margins)
    if largest == 0 or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, 30 / largest
    if excess(high) > 0:
        return high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def boost(
    X: np.ndarray, triplets: Sequence[Triplet], shares: Sequence[float], start: float, penalty: float, max_iter: int
) -> list[np.ndarray]:
    """The metrics after 0, 1, …, ``max_iter`` rounds, or fewer where no direction is left."""
    metrics = [start * np.eye(X.shape[1])]
    for _ in range(max_iter):
        differences = [outer_difference(X, triplet) for triplet in triplets]
        u = [s * math.exp(-float((A * metrics[-1]).sum())) for s, A in zip(shares, differences, strict=True)]
        u = [share / sum(u) for share in u]
        values, vectors = np.linalg.eigh(sum(share * A for share, A in zip(u, differences, strict=True)))
        if values[-1] <= penalty:
            break
        z = vectors[:, -1]
        w = bisected_weight(u, [float(z @ A @ z) for A in differences], penalty)
        metrics.append(metrics[-1] + w * np.outer(z, z))
    return metrics


def majority(labels: Sequence[int]) -> int:
    """The label with most votes; of tied ones that of the nearest neighbor, who comes first."""
    most = max(list(labels).count(label) for label in labels)
    return next(label for label in labels if list(labels).count(label) == most)
