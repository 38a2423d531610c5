"""LMNN as loops, straight from the definitions: one row, one target, one impostor at a time.

``python tests/reference/learn/lmnn.py`` goes the paper's way down for all digits, 1,000 steps, and prints the loss.
"""

from __future__ import annotations

from collections.abc import Callable

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


def loss_over_all(
    X: np.ndarray, labels: np.ndarray, targets: list[list[int]], push: float, margin: float
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """The same sums and slope, of M, with all rows and impostors of a first, second, … target in one array."""
    others = labels[:, None] != labels[None, :]
    by_place = []
    for place in range(max(map(len, targets))):
        rows = [i for i, of_row in enumerate(targets) if len(of_row) > place]
        by_place.append((np.array(rows), np.array([targets[i][place] for i in rows])))

    def look(M: np.ndarray) -> tuple[float, np.ndarray]:
        Z = X @ M
        squares = np.einsum("ij,ij->i", Z, X)
        distances = squares[:, None] + squares[None, :] - 2 * Z @ X.T
        total, weights = 0.0, np.zeros_like(distances)  # weights of (a − b)(a − b)ᵀ for every two rows
        for i, j in by_place:
            near = distances[i, j]
            short = margin + near[:, None] - distances[i]
            active = others[i] & (short > 0)
            total += (1 - push) * near.sum() + push * short[active].sum()
            weights[i] -= push * active
            weights[i, j] += (1 - push) + push * active.sum(axis=1)
        both = weights + weights.T
        return float(total), X.T @ (np.diag(both.sum(axis=1)) - both) @ X

    return look


def projected_gradient(
    X: np.ndarray, labels: np.ndarray, targets: list[list[int]], push: float, margin: float, steps: int
) -> float:
    """The lowest loss on the paper's way down: steps of −slope, each brought back to M ⪰ 0.

    The length grows by 5 % after a fall and is halved after a rise, which is taken back.
    """
    look = loss_over_all(X, labels, targets, push, margin)
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
    return value


if __name__ == "__main__":
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X / 15
    print(f"{projected_gradient(X, y, targets(X, y, 3), 0.5, 1.0, steps=1000):.4f}")
