"""Linear classes: multinomial logistic regression on standardized columns, pooled with the neighbors.

    rows ──► columns of one scale ──► directions ──► one weight a direction and class ──► softmax

Neighbors see what is near. A line sees a trend across the whole collection, also where rows are few or far apart.
"""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np
from scipy.optimize import minimize

from nearsay.core.arrays import evenly
from nearsay.core.parallel import one_blas_thread
from nearsay.posterior.views.directions_model import DirectionsModel
from nearsay.posterior.views.principal_directions import along_in_blocks, in_equal_blocks, principal_directions
from nearsay.posterior.views.row_transforms import STANDARDIZED, learn_maps

# Ridges to try, from strict to free: each is the inverse of the variance that weights are expected to have. The free
# ones take the most steps, so the search goes on only while they help.
RIDGES = (300.0, 30.0, 3.0, 0.3, 0.03)
# One row in so many says which ridge is best.
JUDGED = 3
# A step that lowers the loss by a smaller share is the last one.
STEPS, CLOSE_ENOUGH = 200, 1e-5
# Share of the probability of every held-out row that is spread evenly while ridges are compared.
SPREAD = 1e-3


class LinearClasses(DirectionsModel):
    """Multinomial logistic regression with a ridge.

    ridge : float or None, default=None, half of it times the sum of squared weights is added to the loss of all rows.
        None takes the one of ``RIDGES`` by which every third row is answered best from the others.
    most_products : float, default=4e8, rows × directions × classes that a step may take; of more rows, as many are
        learned from as that leaves.
    """

    _farthest = 10.0  # one wild number would outweigh all others
    most_directions = 512  # that weights are learned for: the principal ones where there are more columns

    def __init__(self, *, ridge: float | None = None, most_products: float = 4e8) -> None:
        self.ridge = ridge
        self.most_products = most_products

    def _fit(self, X: np.ndarray, y: np.ndarray, basis: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """From as many rows as there is time for."""
        self.classes_, met, labels = _classes_as_met(y)
        some = self._evenly(X.shape[1], len(labels))
        X, labels = X[some], labels[some]
        [self._standardized] = learn_maps([STANDARDIZED], X, labels)
        columns = self.columns(X)
        # A view has them of the same columns, but that none is drawn in.
        if basis is not None and self._has_made(basis, columns, n_rows=len(y)):
            self._basis = basis
        else:
            with one_blas_thread():
                self._basis = principal_directions(columns - columns.mean(axis=0), self.most_directions)
        mapped = along_in_blocks(columns, self._basis)
        self._learn(mapped, labels, met)
        return columns, mapped

    def _has_made(self, basis: np.ndarray, columns: np.ndarray, n_rows: int) -> bool:
        """Whether these columns of so many rows have these principal directions, where a view has learned them."""
        fit = len(basis) == columns.shape[1] > self.most_directions >= basis.shape[1] and len(columns) == n_rows
        return fit and bool(np.abs(columns).max(initial=0.0) < self._farthest)

    def of_other_rows(self, mapped: np.ndarray, y: np.ndarray) -> Self:
        """With the same ridge, too."""
        other = copy(self)
        other.ridge = self.ridge_
        other.classes_, met, labels = _classes_as_met(y)
        some = other._evenly(mapped.shape[1], len(labels))
        other._learn(mapped[some], labels[some], met)
        return other

    def _evenly(self, n_columns: int, n_rows: int) -> np.ndarray:
        """The rows that it is learned from."""
        n_products = min(n_columns, self.most_directions) * len(self.classes_)
        return evenly(n_rows, max(1, int(self.most_products / n_products)))

    def _learn(self, mapped: np.ndarray, labels: np.ndarray, met: np.ndarray) -> None:
        with one_blas_thread():
            # A column of ones for the intercept.
            rows = np.hstack([mapped, np.ones((len(mapped), 1))])
            self.ridge_ = _best_ridge(rows, labels, len(self.classes_)) if self.ridge is None else self.ridge
            self._weights = np.empty((rows.shape[1], len(met)))
            self._weights[:, met] = fit_softmax(rows, labels, len(met), self.ridge_)

    def proba_of_mapped(self, mapped: np.ndarray) -> np.ndarray:
        def scores(block: np.ndarray) -> np.ndarray:
            with_ones: np.ndarray = np.hstack([block, np.ones((len(block), 1))])
            return with_ones @ self._weights

        return _softmax(in_equal_blocks(mapped, len(self.classes_), scores))


def _classes_as_met(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The classes; their numbers in the order in which rows meet them; and each row's place in that order.

    In that order, the names of classes make no difference to any digit.
    """
    classes, first, labels = np.unique(y, return_index=True, return_inverse=True)
    met = np.argsort(first)
    return classes, met, np.argsort(met)[labels]


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
