"""Linear support vector machines, one against all, for many classes at once, with Platt scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

FOLDS = 5
STEPS = 60


class OneAgainstAll(ClassifierMixin, BaseEstimator):
    """A linear machine for each class against all others, with squared hinge loss, as LinearSVC has them.

    All classes are learned together, by matrix products: with 200 of them
    that takes seconds where one machine after another takes minutes.

    Parameters
    ----------
    C : float, default=1.0
        How much a row on the wrong side of its margin costs.

    >>> machines = OneAgainstAll().fit([[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1])
    >>> machines.decision_function([[-3.0], [3.0]]).argmax(axis=1)
    array([0, 1])
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: Any) -> OneAgainstAll:
        from scipy.optimize import minimize

        self.classes_, labels = np.unique(y, return_inverse=True)
        rows = _with_ones(X)
        shape = rows.shape[1], len(self.classes_)
        side = np.where(labels[:, None] == np.arange(shape[1]), np.float32(1), np.float32(-1))

        def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights = flat.reshape(shape)
            short = np.maximum(1 - side * (rows @ weights.astype(np.float32)), 0)
            slope = weights - 2 * self.C * (rows.T @ (side * short))
            total = (flat @ flat) / 2 + self.C * np.einsum("ij,ij->", short, short, dtype=np.float64)
            return float(total), slope.ravel()

        start = np.zeros(shape[0] * shape[1])
        minimum = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        self.weights_ = minimum.x.reshape(shape)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """How far each row lies on each class's side, in margins: (n_rows, n_classes)."""
        values: np.ndarray = _with_ones(X) @ self.weights_.astype(np.float32)
        return values.astype(np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """The class on whose side each row lies farthest."""
        named: np.ndarray = self.classes_[self.decision_function(X).argmax(axis=1)]
        return named


def platt_scaled(machines: Any, X: np.ndarray, labels: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the rows of X, each by machines that have not seen it, and of the queries.

    A sigmoid a class, learned from the values that rows get when their fold
    is left out, and the classes brought to a sum of 1. These are all classes
    of ``labels``, 0 … n_classes−1, in order.
    """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    unseen = cross_val_predict(machines, X, labels, cv=folds, method="decision_function")
    scores = machines.fit(X, labels).decision_function(Q)
    scaled = CalibratedClassifierCV(FrozenEstimator(_Values(machines.classes_)), method="sigmoid").fit(unseen, labels)
    return scaled.predict_proba(unseen), scaled.predict_proba(scores)


class _Values(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are decision values already."""

    def __init__(self, classes: np.ndarray) -> None:
        self.classes = classes
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Values:
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        return np.asarray(X)

    def predict(self, X: Any) -> np.ndarray:
        named: np.ndarray = self.classes_[np.asarray(X).argmax(axis=1)]
        return named


def _with_ones(X: Any) -> np.ndarray:
    """A last column of ones, for the constant; in float32, which is enough for a side."""
    rows = np.asarray(X, np.float32)
    return np.column_stack([rows, np.ones(len(rows), np.float32)])
