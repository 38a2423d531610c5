"""LMNN as loops, straight from the definitions: one row, one target, one impostor at a time."""

from __future__ import annotations

import numpy as np


def targets(X: np.ndarray, labels: np.ndarray, k: int) -> list[list[int]]:
    """The k nearest other rows of each row's class; equal distances by row number."""
    found = []
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i and labels[j] == labels[i]]
        found.append(sorted(others, key=lambda j: (float(((X[i] - X[j]) ** 2).sum()), j))[:k])
    return found


def loss_and_slope(
    X: np.ndarray,
    labels: np.ndarray,
    targets: list[list[int]],
    M: np.ndarray,
    push: float,
    margins: np.ndarray,
    rows: range | None = None,
) -> tuple[float, np.ndarray]:
    """The sums over the rows i, and their slope by M; a triple just at the margin is not counted."""
    total, slope = 0.0, np.zeros_like(M)
    for i in range(len(X)) if rows is None else rows:
        for j in targets[i]:
            v = X[i] - X[j]
            total += (1 - push) * (v @ M @ v)
            slope += (1 - push) * np.outer(v, v)
            for l in range(len(X)):
                if labels[l] == labels[i]:
                    continue
                u = X[i] - X[l]
                short = margins[labels[i], labels[l]] + v @ M @ v - u @ M @ u
                if short > 0:
                    total += push * short
                    slope += push * (np.outer(v, v) - np.outer(u, u))
    return total, slope


def projected_gradient(
    X: np.ndarray, labels: np.ndarray, targets: list[list[int]], push: float, margin: float, steps: int
) -> float:
    """The lowest loss on the paper's way down: steps of −slope, each brought back to M ⪰ 0.

    The length grows by 1 % after a fall and is halved after a rise, which is taken back.
    """
    pairs = np.array([(i, j) for i, of_row in enumerate(targets) for j in of_row])
    others = labels[pairs[:, 0]][:, None] != labels[None, :]
    of_row = np.eye(len(X))[pairs[:, 0]]

    def look(M: np.ndarray) -> tuple[float, np.ndarray]:
        Z = X @ M
        squares = np.einsum("ij,ij->i", Z, X)
        distances = squares[:, None] + squares[None, :] - 2 * Z @ X.T
        near = distances[pairs[:, 0], pairs[:, 1]]
        short = np.where(others, margin + near[:, None] - distances[pairs[:, 0]], 0.0)
        active = short > 0
        # Weight of (a − b)(a − b)ᵀ for every two rows.
        weights = np.zeros((len(X), len(X)))
        np.add.at(weights, tuple(pairs.T), (1 - push) + push * active.sum(axis=1))
        weights -= push * (of_row.T @ active)
        both = weights + weights.T
        slope = X.T @ (np.diag(both.sum(axis=1)) - both) @ X
        return (1 - push) * near.sum() + push * short[active].sum(), slope

    M = np.eye(X.shape[1])
    value, slope = look(M)
    length = 1e-3 / np.abs(slope).max()
    for _ in range(steps):
        values, vectors = np.linalg.eigh(M - length * slope)
        there = (vectors * np.maximum(values, 0)) @ vectors.T
        new_value, new_slope = look(there)
        if new_value < value:
            M, value, slope, length = there, new_value, new_slope, length * 1.05
        else:
            length /= 2
    return float(value)
