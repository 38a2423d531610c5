"""Slow, obvious versions of everything, straight from the formulas: plain loops over plain floats.

The fast code is compared with these on small random inputs full of ties and
duplicates. Nothing here is clever, and nothing here imports nearsay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# ---------------------------------------------------------------- neighbors


def nearest(
    X: Sequence, Q: Sequence, k: int, distance: Callable, *, leave_out_itself: bool = False
) -> tuple[list[list[int]], list[list[float]]]:
    """Row numbers and distances of the k nearest rows, ties by row number."""
    indices, distances = [], []
    for i, q in enumerate(Q):
        measured = [(distance(q, x), row) for row, x in enumerate(X) if not (leave_out_itself and row == i)]
        measured.sort()
        indices.append([row for _, row in measured[:k]])
        distances.append([d for d, _ in measured[:k]])
    return indices, distances


# ---------------------------------------------------------------- distances


def euclidean(a: Sequence[float], b: Sequence[float]) -> float:
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += (float(x) - float(y)) ** 2
    return math.sqrt(total)


# ---------------------------------------------------------------- images

# ---------------------------------------------------------------- votes and probabilities
