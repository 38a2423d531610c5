"""Learned metrics as loops, straight from the definitions: one constraint, one pair, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from sklearn.covariance import ledoit_wolf

from tests.reference.decision.hedging import Parents, at_or_above

Matrix = list[list[float]]


def squared_distance(M: Matrix, v: Sequence[float]) -> float:
    return sum(v[j] * M[j][k] * v[k] for j in range(len(v)) for k in range(len(v)))


def itml(
    prior: Matrix,
    differences: Sequence[Sequence[float]],
    signs: Sequence[int],
    targets: Sequence[float],
    gamma: float,
    n_sweeps: int,
) -> tuple[Matrix, list[float], list[float]]:
    """M, the dual variables and the targets with their slack, after so many sweeps."""
    M = [list(row) for row in prior]
    duals, slack = [0.0] * len(signs), list(targets)
    share = 1.0 if gamma == math.inf else gamma / (gamma + 1)
    for _ in range(n_sweeps):
        for i, (v, sign) in enumerate(zip(differences, signs, strict=True)):
            p = squared_distance(M, v)
            change = min(duals[i], sign * share * (1 / p - 1 / slack[i]))
            duals[i] -= change
            beta = sign * change / (1 - sign * change * p)
            slack[i] = 1 / (1 / slack[i] + sign * change / gamma)
            Mv = [sum(M[j][k] * v[k] for k in range(len(v))) for j in range(len(v))]
            M = [[M[j][k] + beta * Mv[j] * Mv[k] for k in range(len(v))] for j in range(len(v))]
    return M, duals, slack


def log_det_divergence(A: Matrix, B: Matrix) -> float:
    ratio = np.array(A) @ np.linalg.inv(B)
    return float(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(A))


def itml_lagrangian(
    M: Matrix,
    prior: Matrix,
    differences: Sequence[Sequence[float]],
    signs: Sequence[int],
    targets: Sequence[float],
    gamma: float,
    duals: Sequence[float],
    slack: Sequence[float],
) -> float:
    """What is minimized, plus the constraints times their dual variables: at its least, the dual objective."""
    total = log_det_divergence(M, prior)
    for v, sign, target, dual, xi in zip(differences, signs, targets, duals, slack, strict=True):
        total += gamma * (xi / target - math.log(xi / target) - 1)
        total += dual * sign * (squared_distance(M, v) - xi)
    return total


def class_distance(parents: Parents, a: int, b: int) -> float:
    if a == b:
        return 0.0
    root = {len(parents) - 1}
    above_a, above_b = at_or_above(parents, a) - root, at_or_above(parents, b) - root
    return 1 - len(above_a & above_b) / max(len(above_a), len(above_b), 1)


def within_class_covariance(X: np.ndarray, labels: Sequence[int], weights: Sequence[float] | None = None) -> np.ndarray:
    n, d = X.shape
    weights = [1.0] * n if weights is None else weights
    total = np.zeros((d, d))
    for i in range(n):
        mates = [j for j in range(n) if labels[j] == labels[i]]
        off = X[i] - sum(weights[j] * X[j] for j in mates) / sum(weights[j] for j in mates)
        total += weights[i] * np.outer(off, off)
    return total / sum(weights)


def regression(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """What linear regression of Y on the columns of X says of every row, but for a constant; covariances are shrunk."""
    off = X - X.mean(axis=0)
    together = sum(np.outer(x, y) for x, y in zip(off, Y, strict=True)) / len(X)
    said: np.ndarray = X @ (np.linalg.pinv(ledoit_wolf(X)[0]) @ together)
    return said


def near_pairs(X: np.ndarray, labels: Sequence[int], k: int) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """All pairs, the lower row first, of a row and one of the k nearest of its class; and of other classes."""
    found: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
    for i in range(len(X)):
        for same, pairs in zip((True, False), found, strict=True):
            rows = [j for j in range(len(X)) if j != i and (labels[j] == labels[i]) == same]
            rows.sort(key=lambda j: (sum((X[i] - X[j]) ** 2), j))
            pairs.update((min(i, j), max(i, j)) for j in rows[:k])
    return found
