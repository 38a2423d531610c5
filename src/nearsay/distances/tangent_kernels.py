"""Compiled loops of the tangent distance. Imported on first use only (numba).

With d = x − y, and U and V orthonormal bases of the tangent planes at x and y, the squared distance between the planes
is |d|² less the squared length of d's projection onto the span of both. All it needs are the inner products

             V      d
        U    M      p
        d    g     |d|²

and a 7×7 system. Each pair is measured by the same instructions in the same
order, so the result does not depend on what else is measured.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from nearsay.core.compiling import only_compiled as compiled

# Allows vectorized sums over pixels, in an order fixed when the loop is compiled.
compiled_in_lanes = partial(compiled, fastmath={"reassoc", "contract"})

TANGENTS = 7
# A tangent with less than this share of its length outside the span of those before it depends on them.
DEPENDENT = 1e-7
# Directions of two planes that meet at an angle of less than 1e-4 count as one: sin² of the angle.
SHARED = 1e-8


@compiled
def orthonormalize(planes):  # type: ignore[no-untyped-def]
    """Turn the rows of every plane into an orthonormal basis, in place; dependent rows become zeros."""
    for plane in planes:
        for i in range(plane.shape[0]):
            before = math.sqrt(dot(plane[i], plane[i]))
            # The second round removes the rounding errors of the first.
            for _ in range(2):
                for j in range(i):
                    along = dot(plane[i], plane[j])
                    for p in range(plane.shape[1]):
                        plane[i, p] -= along * plane[j, p]
            after = math.sqrt(dot(plane[i], plane[i]))
            scale = 1.0 / after if after > DEPENDENT * before else 0.0
            for p in range(plane.shape[1]):
                plane[i, p] *= scale


@compiled
def measure_one_sided(points_q, points_x, basis, basis_of_row, queries, rows, out):  # type: ignore[no-untyped-def]
    """Distance of query ``queries[i]`` to row ``rows[i]``, where only one of them may move along its plane."""
    difference = np.empty(points_q.shape[1])
    for i in range(len(out)):
        subtract(points_q[queries[i]], points_x[rows[i]], difference)
        plane = basis[rows[i] if basis_of_row else queries[i]]
        explained = 0.0
        for t in range(TANGENTS):
            along = dot(plane[t], difference)
            explained += along * along
        out[i] = math.sqrt(max(0.0, dot(difference, difference) - explained))


@compiled
def measure_two_sided(points_q, points_x, basis_q, basis_x, queries, rows, out):  # type: ignore[no-untyped-def]
    """Distance of query ``queries[i]`` to row ``rows[i]``, where both may move along their planes."""
    difference = np.empty(points_q.shape[1])
    products = np.empty((TANGENTS + 1, TANGENTS + 1))
    schur = np.empty((TANGENTS, TANGENTS))
    rest = np.empty(TANGENTS)
    for i in range(len(out)):
        subtract(points_q[queries[i]], points_x[rows[i]], difference)
        inner_products(basis_q[queries[i]], basis_x[rows[i]], difference, products)
        # Eliminating either plane first gives the same number but for rounding; the mean is the same to the last
        # bit whichever image comes first.
        explained = 0.5 * (projected(products, schur, rest) + projected(products.T, schur, rest))
        out[i] = math.sqrt(max(0.0, products[TANGENTS, TANGENTS] - explained))


@compiled
def subtract(a, b, out):  # type: ignore[no-untyped-def]
    for p in range(len(out)):
        out[p] = a[p] - b[p]


@compiled_in_lanes
def dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for p in range(len(a)):
        total += a[p] * b[p]
    return total


@compiled_in_lanes
def inner_products(U, V, d, out):  # type: ignore[no-untyped-def]
    """The inner products in the module's docstring. Eight sums at once hide the latency of additions."""
    for i in range(TANGENTS + 1):
        left = U[i] if i < TANGENTS else d
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for p in range(len(d)):
            value = left[p]
            s0 += value * V[0, p]
            s1 += value * V[1, p]
            s2 += value * V[2, p]
            s3 += value * V[3, p]
            s4 += value * V[4, p]
            s5 += value * V[5, p]
            s6 += value * V[6, p]
            s7 += value * d[p]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = s0, s1, s2, s3
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = s4, s5, s6, s7


@compiled
def projected(products, schur, rest):  # type: ignore[no-untyped-def]
    """Squared length of d's projection onto the span of both planes: |p|² + rᵀ S⁺ r.

    S = I − MᵀM and r = g − Mᵀp are what eliminating the first plane leaves of the second. S is factored by Cholesky's
    method with the largest pivot first; it ends where the planes share all remaining directions.
    """
    n = TANGENTS
    total = 0.0
    for i in range(n):
        total += products[i, n] * products[i, n]
    for j in range(n):
        rest[j] = products[n, j]
        for i in range(n):
            rest[j] -= products[i, j] * products[i, n]
        for k in range(n):
            schur[j, k] = 1.0 if j == k else 0.0
            for i in range(n):
                schur[j, k] -= products[i, j] * products[i, k]
    for step in range(n):
        pivot = step
        for j in range(step + 1, n):
            if schur[j, j] > schur[pivot, pivot]:
                pivot = j
        if not schur[pivot, pivot] > SHARED:
            break
        for k in range(n):
            schur[step, k], schur[pivot, k] = schur[pivot, k], schur[step, k]
        for k in range(n):
            schur[k, step], schur[k, pivot] = schur[k, pivot], schur[k, step]
        rest[step], rest[pivot] = rest[pivot], rest[step]
        total += rest[step] * rest[step] / schur[step, step]
        for j in range(step + 1, n):
            factor = schur[j, step] / schur[step, step]
            rest[j] -= factor * rest[step]
            for k in range(step + 1, n):
                schur[j, k] -= factor * schur[step, k]
    return total
