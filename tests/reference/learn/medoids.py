"""Greedy medoids the slow and obvious way: every item is tried as the next one."""

from __future__ import annotations

import math


def greedy_medoids(far, n, nearest=None):
    """Places of items, each the one after which the distances to the nearest chosen item sum to the least."""
    n_covered = len(far[0]) if len(far) else 0
    start = max((value for line in far for value in line), default=0.0)
    left = [start] * n_covered if nearest is None else list(nearest)
    chosen = []
    while len(chosen) < min(n, len(far)):
        best, least = None, math.inf
        for place, line in enumerate(far):
            total = math.fsum(min(a, b) for a, b in zip(left, line, strict=True))
            if place not in chosen and total < least:
                best, least = place, total
        chosen.append(best)
        left = [min(a, b) for a, b in zip(left, far[best], strict=True)]
    return chosen
