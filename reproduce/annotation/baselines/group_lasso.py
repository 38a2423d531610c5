"""Least squares with columns in groups, few of which count: the group lasso, with weights that are never negative.

    smallest  ½|t − D w|²/n + λ Σ |w of group g|     over w ≥ 0

found by accelerated proximal gradient steps (FISTA; Beck and Teboulle 2009).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import svds

# Steps end where no weight moves by more than this share of the largest.
SMALL_STEP = 1e-4
MOST_STEPS = 500


def group_lasso(D: np.ndarray, target: np.ndarray, groups: list[slice], penalty: float) -> np.ndarray:
    """Weights (n_columns,) of the columns of ``D`` that predict ``target``, all zero in groups that help too little.

    Parameters
    ----------
    D : (n, n_columns) float32 or float64
    target : (n,)
        Columns and target should have mean zero: there is no constant.
    groups : slices of columns.
    penalty : float from 0 to 1
        λ as a share of the smallest λ at which no group counts.

    One group of one column, ½(1 − w)² + λw, where λ = 1 is the smallest that gives 0:

    >>> group_lasso(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), [slice(0, 1)], penalty=0.25).round(3)
    array([0.75])
    """
    n, n_columns = D.shape
    most = max(_length(np.maximum(target @ D[:, group], 0.0)) for group in groups) / n
    weights = np.zeros(n_columns, D.dtype)
    if most == 0 or penalty >= 1:  # at 1, rounding would decide
        return weights
    curvature = _largest_singular_value(D) ** 2 / n
    ahead, momentum = weights, 1.0
    for _ in range(MOST_STEPS):
        slope = (D @ ahead - target) @ D / n
        stepped = _shrunk(ahead - (slope / curvature).astype(D.dtype), groups, penalty * most / curvature)
        moved = stepped - weights
        next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        # Momentum that points uphill is dropped (O'Donoghue and Candès 2015): it would circle the minimum.
        if (ahead - stepped) @ moved > 0:
            next_momentum, ahead = 1.0, stepped
        else:
            ahead = (stepped + (momentum - 1) / next_momentum * moved).astype(D.dtype)
        weights, momentum = stepped, next_momentum
        if np.abs(moved).max() <= SMALL_STEP * weights.max(initial=0.0):
            break
    return weights


def _shrunk(weights: np.ndarray, groups: list[slice], by: float) -> np.ndarray:
    """What is nearest to these weights at the price ``by`` · Σ |w of g|: none negative, each group so much shorter."""
    shrunk = np.zeros_like(weights)
    for group in groups:
        part = np.maximum(weights[group], 0)
        length = _length(part)
        if length > by:
            shrunk[group] = part * (1 - by / length)
    return shrunk


def _length(weights: np.ndarray) -> float:
    return float(np.linalg.norm(weights))


def _largest_singular_value(D: np.ndarray) -> float:
    if min(D.shape) < 3:  # too small for the iterative solver
        return float(np.linalg.norm(D, 2))
    # A little more than the truth keeps steps short enough whatever the solver's tolerance.
    largest = svds(D, k=1, v0=np.ones(min(D.shape), D.dtype), tol=1e-3, return_singular_vectors=False)
    return float(largest[0]) * 1.01
