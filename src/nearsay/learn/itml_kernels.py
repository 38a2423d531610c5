"""The compiled loop of ITML. Imported on first use only (numba).

A constraint changes M by a rank-one step, and the next constraint needs the changed M. The steps of some constraints
are collected and added to M together, so that both M times the differences and the sum of the steps are matrix
products.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from nearsay.core.compiling import only_compiled as compiled

# One over anything larger is finite.
SMALLEST = np.finfo(np.float64).tiny

# Constraints whose steps are added to M together.
TOGETHER = 32

# Sums of products in any order, without rounding in between: twice as fast.
fused = partial(compiled, fastmath={"contract", "reassoc"})


@compiled
def sweep(M, differences, signs, targets, gamma, duals):  # type: ignore[no-untyped-def]
    """Project onto every constraint once, in order; ``M`` and ``duals`` are written to."""
    n, d = differences.shape
    to_target, to_prior = 1 / (1 + 1 / gamma), 1 / (1 + gamma)
    images, steps, signed = np.empty((TOGETHER, d)), np.empty((TOGETHER, d)), np.empty((TOGETHER, d))
    change_of_M = np.empty((d, d))
    for first in range(0, n, TOGETHER):
        some = differences[first : first + TOGETHER]
        np.dot(some, M, images[: len(some)])
        n_steps = 0
        for c in range(len(some)):
            i, image = first + c, images[c]
            _take_steps(steps[:n_steps], signed[:n_steps], some[c], image)
            distance = _dot(some[c], image)
            if not distance > SMALLEST:
                continue  # M is too small along this difference for float64
            slack = 1 / targets[i] - signs[i] * duals[i] / gamma
            change = min(duals[i], signs[i] * to_target * (1 / distance - slack))
            if change == 0:
                continue
            # One over the new distance, as a mean: 1 / distance − signs · change would cancel where much changes.
            inverse = to_prior / distance + to_target * slack
            if change == duals[i]:
                inverse = 1 / distance - signs[i] * change
            duals[i] -= change
            steps[n_steps] = np.sqrt(abs(change) / (distance * inverse)) * image
            signed[n_steps] = signs[i] * np.sign(change) * steps[n_steps]
            n_steps += 1
        np.dot(np.ascontiguousarray(steps[:n_steps].T), signed[:n_steps], change_of_M)
        for j in range(d):
            for k in range(j + 1):  # exactly symmetric, in whatever order the product was summed
                M[j, k] += change_of_M[j, k]
                M[k, j] = M[j, k]


@fused
def _take_steps(steps, signed, difference, image):  # type: ignore[no-untyped-def]
    """Add the product of the steps not yet in M with the difference to ``image``: Σ step (signed · difference)."""
    four = len(steps) - len(steps) % 4
    for first in range(0, four, 4):  # four at a time, as the image is written to less often
        a, b, c, d = signed[first], signed[first + 1], signed[first + 2], signed[first + 3]
        along_a, along_b, along_c, along_d = 0.0, 0.0, 0.0, 0.0
        for k in range(len(image)):
            along_a += a[k] * difference[k]
            along_b += b[k] * difference[k]
            along_c += c[k] * difference[k]
            along_d += d[k] * difference[k]
        a, b, c, d = steps[first], steps[first + 1], steps[first + 2], steps[first + 3]
        for k in range(len(image)):
            image[k] += (along_a * a[k] + along_b * b[k]) + (along_c * c[k] + along_d * d[k])
    for step in range(four, len(steps)):
        along = _dot(signed[step], difference)
        for k in range(len(image)):
            image[k] += along * steps[step, k]


@fused
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total
