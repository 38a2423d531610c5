"""Rows as the scores that a linear classifier gives each class: neighbors in that space are alike for the classifier.

    rows ──► multinomial logistic regression ──► a score for each class ──► unit length ──► distances

For many columns and classes, as sentences have them, this finds better neighbors than a covariance does. The
regression takes a few steps, each with the inverse of a bound of the Hessian (Böhning 1992) and Nesterov's momentum:
stopping early keeps it from fitting noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nearsay.core.parallel import one_blas_thread
from nearsay.posterior.views.row_transforms import LearnedTransforms, LinearMap, RowTransform

# Knows labels, so that past cases are mapped by lines that were learned without them.
CLASS_LINES = RowTransform("class lines", power=0.0, unit=True)
RIDGE = 0.1
STEPS = 25


class ClassLines(LearnedTransforms):
    """The maps of one transform, ``CLASS_LINES``: learned from all rows, and from all but each fold of them."""

    def __init__(
        self, X: Any, labels: np.ndarray, order: np.ndarray | None = None, groups: np.ndarray | None = None
    ) -> None:
        super().__init__([CLASS_LINES], X, labels, order, groups)

    def _learned_from(self, rows: np.ndarray, without: int | None = None) -> list[LinearMap]:
        X = np.asarray(self.X[rows], np.float32)
        center = X.mean(axis=0, dtype=np.float64)
        n_classes = int(self.labels.max(initial=0)) + 1
        matrix = class_lines(X - center.astype(np.float32), self.labels[rows], n_classes)
        return [LinearMap(center, matrix.astype(np.float64), CLASS_LINES.unit)]


def class_lines(X: np.ndarray, labels: np.ndarray, n_classes: int, ridge: float = RIDGE, steps: int = STEPS) -> Any:
    """Coefficients (n_columns, n_classes) float32 of a logistic regression on centered rows, after a few steps.

    The scores of a row sum to 0.

    >>> W = class_lines(np.array([[-1.0], [-2.0], [3.0]], np.float32), np.array([0, 0, 1]), 2)
    >>> bool(W[0, 0] < 0 < W[0, 1]), bool(abs(W.sum()) < 1e-5)
    (True, True)
    """
    n_rows, n_columns = X.shape
    with one_blas_thread():
        bound = (X.T @ X) / np.float32(2) + np.float32(ridge) * np.eye(n_columns, dtype=np.float32)
        factor = cho_factor(bound, check_finite=False)
        W = before = np.zeros((n_columns, n_classes), np.float32)
        bias = bias_before = np.zeros(n_classes, np.float32)
        momentum = 1.0
        for _ in range(steps):
            faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            share = np.float32((momentum - 1) / faster)
            ahead, bias_ahead = W + share * (W - before), bias + share * (bias - bias_before)
            p = X @ ahead
            p += bias_ahead
            p -= p.max(axis=1, keepdims=True)
            np.exp(p, out=p)
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(n_rows), labels] -= 1
            before, bias_before, momentum = W, bias, faster
            W = ahead - cho_solve(factor, X.T @ p + np.float32(ridge) * ahead, check_finite=False)
            bias = bias_ahead - 2 * p.mean(axis=0)
    return W
