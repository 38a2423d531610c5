"""The compiled loop behind ITML. Imported on first use only (numba)."""

from __future__ import annotations

import numpy as np
from numba import njit

from nearsay.compiling import OPTIONS, compiled

# One over anything larger is finite.
SMALLEST = np.finfo(np.float64).tiny

# A product is added without rounding in between, which is twice as fast. It is the same for (j, k) and (k, j).
fused = njit(**OPTIONS, fastmath={"contract"})


@compiled
def sweep(M, differences, signs, targets, gamma, duals):  # type: ignore[no-untyped-def]
    """Meet every constraint once, in order, as far as its slack asks for; ``M`` and ``duals`` are written to.

    M goes through the processor once a constraint: as its rows are updated,
    they are multiplied with the next difference.
    """
    n, d = differences.shape
    to_target, to_prior = 1 / (1 + 1 / gamma), 1 / (1 + gamma)
    image, coming, step = np.empty(d), np.empty(d), np.empty(d)
    if n > 0:
        _multiply(M, differences[0], image)
    for i in range(n):
        following = differences[(i + 1) % n]
        distance = np.dot(differences[i], image)
        change = 0.0
        if distance > SMALLEST:  # else M has become too small along this difference for numbers to tell
            slack = 1 / targets[i] - signs[i] * duals[i] / gamma
            change = min(duals[i], signs[i] * to_target * (1 / distance - slack))
        if change == 0:
            _multiply(M, following, coming)
        else:
            # One over the new distance, as a mean: 1 / distance − signs · change would cancel where much changes.
            inverse = to_prior / distance + to_target * slack
            if change == duals[i]:
                inverse = 1 / distance - signs[i] * change
            duals[i] -= change
            step[:] = np.sqrt(abs(change) / (distance * inverse)) * image
            _update_and_multiply(M, step, signs[i] * np.sign(change), following, coming)
        image, coming = coming, image


@fused
def _multiply(M, v, out):  # type: ignore[no-untyped-def]
    """``out`` = M v, row by row, as M is symmetric: whole rows are added faster than products are summed."""
    out[:] = 0
    for j in range(len(v)):
        row, times = M[j], v[j]
        for k in range(len(v)):
            out[k] += times * row[k]


@fused
def _update_and_multiply(M, step, sign, v, out):  # type: ignore[no-untyped-def]
    """``M`` += sign · step stepᵀ, which leaves it exactly symmetric, and ``out`` = M v."""
    out[:] = 0
    for j in range(len(v)):
        row, along, times = M[j], sign * step[j], v[j]
        for k in range(len(v)):
            updated = row[k] + along * step[k]
            row[k] = updated
            out[k] += times * updated
