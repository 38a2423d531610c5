"""Learned rankings the slow and obvious way: agreement, NDCG by swapping two items for real, RankBoost by loops."""

from __future__ import annotations

import math


def agreement(y: set, z: set) -> float:
    """2pr/(p + r) with precision p and recall r of z as a guess at y."""
    shared = len(y & z)
    if not shared:
        return 0.0
    precision, recall = shared / len(z), shared / len(y)
    return 2 * precision * recall / (precision + recall)


def dcg(agreements: list[float], depth: int) -> float:
    return sum((2**r - 1) / math.log2(1 + place) for place, r in enumerate(agreements[:depth], start=1))


def ndcg_lost_by_swapping(agreements: list[float], a: int, b: int, depth: int) -> float:
    """How much NDCG at depth falls when the items at places a and b (from 1) of the ideal order are swapped."""
    swapped = list(agreements)
    swapped[a - 1], swapped[b - 1] = swapped[b - 1], swapped[a - 1]
    return (dcg(agreements, depth) - dcg(swapped, depth)) / dcg(agreements, depth)


def rank_boost(better: list[list[int]], worse: list[list[int]], weight: list[float], n_ranks: int, max_iter: int):
    """Rounds of (space, threshold, alpha, error, bound); every threshold of every space is tried by counting."""
    n_pairs = len(weight)
    start = [w / sum(weight) for w in weight]
    D, H, bound, rounds = list(start), [0.0] * n_pairs, 1.0, []
    for _ in range(max_iter):
        best = (0.0, 0, 0)
        for space in range(len(better)):
            for threshold in range(n_ranks):
                r = sum(
                    D[p] * ((better[space][p] <= threshold) - (worse[space][p] <= threshold)) for p in range(n_pairs)
                )
                r = round(r, 12)
                if abs(r) > abs(best[0]):
                    best = (r, space, threshold)
        r, space, threshold = best
        if r == 0:
            break
        r = max(-1 + 1e-9, min(1 - 1e-9, r))
        alpha = 0.5 * math.log((1 + r) / (1 - r))
        says = [(better[space][p] <= threshold) - (worse[space][p] <= threshold) for p in range(n_pairs)]
        H = [H[p] + alpha * says[p] for p in range(n_pairs)]
        D = [D[p] * math.exp(-alpha * says[p]) for p in range(n_pairs)]
        Z = sum(D)
        D = [d / Z for d in D]
        bound *= Z
        error = sum(start[p] for p in range(n_pairs) if H[p] <= 0)
        rounds.append((space, threshold, alpha, error, bound))
    return rounds


def ranks(distances: list[float], itself: int | None) -> list[int]:
    """One more than the number of rows that are nearer, the row itself left out."""
    return [
        1 + sum(1 for other, d in enumerate(distances) if other != itself and d < distances[row])
        for row in range(len(distances))
    ]
