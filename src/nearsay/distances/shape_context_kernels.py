"""Compiled loops of the shape-context distance. Imported on first use only (numba)."""

from __future__ import annotations

import math

import numpy as np

from nearsay.core.compiling import only_compiled as compiled

RINGS = 5
SECTORS = 12
# Outer radius of the innermost ring, as a share of the mean distance between points; each further ring doubles it.
INNER_RADIUS = 0.125


@compiled
def spread_out(points, n_chosen):  # type: ignore[no-untyped-def]
    """Farthest-point sampling: numbers of points, each the farthest from those before; starts with the first."""
    chosen = np.zeros(n_chosen, np.int64)
    gap = np.full(len(points), np.inf)
    for c in range(n_chosen - 1):
        last, farthest = points[chosen[c]], 0
        for i in range(len(points)):
            y, x = points[i, 0] - last[0], points[i, 1] - last[1]
            gap[i] = min(gap[i], y * y + x * x)
            if gap[i] > gap[farthest]:
                farthest = i
        chosen[c + 1] = farthest
    return chosen


@compiled
def mean_distance(points):  # type: ignore[no-untyped-def]
    """Mean distance between two different points."""
    n = len(points)
    total = 0.0
    for i in range(n):
        for j in range(i):
            total += math.hypot(points[i, 0] - points[j, 0], points[i, 1] - points[j, 1])
    return 2.0 * total / (n * (n - 1))


@compiled
def contexts(points):  # type: ignore[no-untyped-def]
    """For each point the share of the others in every ring and sector around it: (points × 60)."""
    n = len(points)
    out = np.zeros((n, RINGS * SECTORS))
    innermost = (INNER_RADIUS * mean_distance(points)) ** 2
    for i in range(n):
        for j in range(n):
            y, x = points[j, 0] - points[i, 0], points[j, 1] - points[i, 1]
            ring, limit = 0, innermost
            while ring < RINGS and y * y + x * x >= limit:
                ring, limit = ring + 1, 4.0 * limit
            if i != j and ring < RINGS:
                # Pixels line up along axes and diagonals. A quarter of a sector more keeps all their directions (every
                # rational slope) off the borders, where rounding would decide.
                sector = math.floor(math.atan2(y, x) * (SECTORS / (2.0 * math.pi)) + 0.25) % SECTORS
                out[i, ring * SECTORS + sector] += 1.0
    return out / (n - 1)


@compiled
def matching_costs(contexts_a, angles_a, contexts_b, angles_b, angle_share):  # type: ignore[no-untyped-def]
    """The cost of matching each point of a with each of b: χ² of the contexts, and the difference of the normals."""
    columns = np.ascontiguousarray(contexts_b.T)
    out = np.zeros((len(contexts_a), len(contexts_b)))
    for i in range(out.shape[0]):
        costs = out[i]
        for b in range(columns.shape[0]):
            share, column = contexts_a[i, b], columns[b]
            if share == 0.0:  # most are: no division needed
                for j in range(len(costs)):
                    costs[j] += 0.5 * column[j]
            else:
                for j in range(len(costs)):
                    difference = share - column[j]
                    costs[j] += 0.5 * difference * difference / (share + column[j])
        for j in range(len(costs)):
            turned = 0.5 * (1.0 - math.cos(angles_a[i] - angles_b[j]))
            costs[j] = (1.0 - angle_share) * costs[j] + angle_share * turned
    return out


@compiled
def bending_kernel(a, b):  # type: ignore[no-untyped-def]
    """The thin-plate kernel r² log r² between the points of a and of b."""
    out = np.zeros((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            y, x = a[i, 0] - b[j, 0], a[i, 1] - b[j, 1]
            squared = y * y + x * x
            if squared > 0.0:
                out[i, j] = squared * math.log(squared)
    return out
