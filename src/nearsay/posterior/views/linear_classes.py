"""Linear classes: multinomial logistic regression on standardized columns, pooled with the neighbors.

    rows ──► columns of one scale ──► directions ──► one weight a direction and class ──► softmax

Neighbors see what is near. A line sees a trend across the whole collection, also where rows are few or far apart.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin

from nearsay.core.arrays import evenly
from nearsay.core.parallel import one_blas_thread
from nearsay.posterior.views.row_transforms import (
    ROWS_AT_ONCE,
    STANDARDIZED,
    along,
    learn_maps,
    principal_directions,
)

# Directions that weights are learned for: the principal ones where there are more columns.
MOST_DIRECTIONS = 512
# Ridges to try, from strict to free: each is the inverse of the variance that weights are expected to have. The free
# ones take the most steps, so the search goes on only while they help.
RIDGES = (300.0, 30.0, 3.0, 0.3, 0.03)
# One row in so many says which ridge is best.
JUDGED = 3
# A step that lowers the loss by a smaller share is the last one.
STEPS, CLOSE_ENOUGH = 200, 1e-5
# No standardized number counts as farther out: one wild number would outweigh all others.
FARTHEST = 10.0
# Share of the probability of every held-out row that is spread evenly while ridges are compared.
SPREAD = 1e-3


class LinearClasses(ClassifierMixin, BaseEstimator):
    """Multinomial logistic regression with a ridge.

    Parameters
    ----------
    ridge : float or None, default=None
        Half of it times the sum of squared weights is added to the loss of all rows. None takes the one of ``RIDGES``
        by which every third row is answered best from the others.
    most_products : float, default=4e8
        Rows × directions × classes that a step may take; of more rows, as many are learned from as that leaves.
    """

    def __init__(self, *, ridge: float | None = None, most_products: float = 4e8) -> None:
        self.ridge = ridge
        self.most_products = most_products

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Learn the weights; X holds finite numbers, and there are at least two classes."""
        self.classes_, first, labels = np.unique(y, return_index=True, return_inverse=True)
        # Classes in the order in which rows meet them: their names make no difference to any digit.
        met = np.argsort(first)
        labels = np.argsort(met)[labels]
        n_directions = min(X.shape[1], MOST_DIRECTIONS)
        some = evenly(len(labels), max(1, int(self.most_products / (n_directions * len(self.classes_)))))
        X, labels = X[some], labels[some]
        [self._standardized] = learn_maps([STANDARDIZED], X, labels)
        columns = self._columns(X)
        with one_blas_thread():
            self._basis = principal_directions(columns - columns.mean(axis=0), MOST_DIRECTIONS)
            # A column of ones for the intercept.
            rows = np.hstack([along(columns, self._basis), np.ones((len(columns), 1))])
            self.ridge_ = _best_ridge(rows, labels, len(self.classes_)) if self.ridge is None else self.ridge
            self._weights = np.empty((rows.shape[1], len(met)))
            self._weights[:, met] = fit_softmax(rows, labels, len(met), self.ridge_)
        return self

    def settled(self) -> LinearClasses:
        """An unfitted one with the ridge that was chosen."""
        return LinearClasses(ridge=self.ridge_, most_products=self.most_products)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n_queries, n_classes); the same digits for a row in any batch."""
        scores = np.empty((len(X), len(self.classes_)))
        block = np.ones((ROWS_AT_ONCE, len(self._weights)))
        with one_blas_thread():
            for first in range(0, len(X), ROWS_AT_ONCE):
                some = self._columns(X[first : first + ROWS_AT_ONCE])
                block[: len(some), :-1] = along(some, self._basis)
                scores[first : first + len(some)] = (block @ self._weights)[: len(some)]
        return _softmax(scores)

    def _columns(self, X: np.ndarray) -> np.ndarray:
        return np.clip(self._standardized(X).astype(np.float64), -FARTHEST, FARTHEST)


def _best_ridge(rows: np.ndarray, labels: np.ndarray, n_classes: int) -> float:
    """The ridge by which every third row is answered best from the other two thirds; the strictest of equals."""
    judged = np.arange(len(labels)) % JUDGED == 0
    if judged.all() or not judged.any():
        return RIDGES[1]
    best, least, start = RIDGES[0], np.inf, None
    for ridge in RIDGES:
        start = fit_softmax(rows[~judged], labels[~judged], n_classes, ridge, start)
        p = _softmax(rows[judged] @ start)[np.arange(judged.sum()), labels[judged]]
        loss = -float(np.log((1 - SPREAD) * p + SPREAD / n_classes).mean())
        if loss >= least:
            break
        best, least = ridge, loss
    return best


def fit_softmax(
    rows: np.ndarray, labels: np.ndarray, n_classes: int, ridge: float, start: np.ndarray | None = None
) -> np.ndarray:
    """Weights (n_columns, n_classes) that make the labels most likely, less the ridge; the last column has none.

    Columns are divided by the square root of a bound of their curvature (Böhning 1992): where they are uncorrelated,
    as principal directions are, few steps lead to the minimum, and float32 is good enough.

    >>> rows = np.array([[-1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])
    >>> weights = fit_softmax(rows, np.array([0, 1, 1, 0]), n_classes=2, ridge=0.1)
    >>> bool(weights[0, 1] > 0 > weights[0, 0]), np.abs(weights[1]).max() < 1e-6
    (True, np.True_)
    """
    n_rows, n_columns = rows.shape
    # The intercept is held by a hair, so that there is one minimum.
    ridges = np.append(np.full(n_columns - 1, ridge), 1e-3)
    curvature = np.sqrt(np.einsum("ij,ij->j", rows, rows) / 2 + ridges)
    scaled, ridges = (rows / curvature).astype(np.float32), (ridges / curvature**2)[:, None]
    of_truth = np.arange(n_rows), labels

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(n_columns, n_classes)
        p = scaled @ weights.astype(np.float32)
        p -= p.max(axis=1, keepdims=True)
        lost = -float(p[of_truth].sum(dtype=np.float64))
        np.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        lost += float(np.log(total).sum(dtype=np.float64))
        p /= total
        p[of_truth] -= 1
        slope = (scaled.T @ p).astype(np.float64) + ridges * weights
        return lost + float((ridges * weights * weights).sum()) / 2, slope.ravel()

    begin = np.zeros((n_columns, n_classes)) if start is None else start * curvature[:, None]
    options = {"maxiter": STEPS, "gtol": 0.0, "ftol": CLOSE_ENOUGH}
    weights = minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B", options=options).x
    return np.asarray(weights.reshape(n_columns, n_classes) / curvature[:, None])


def _softmax(scores: np.ndarray) -> np.ndarray:
    p: np.ndarray = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p
