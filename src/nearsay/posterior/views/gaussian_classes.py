"""Gaussian classes: how likely a row is in the cloud of each class, pooled with how far its members are.

    rows ──► columns of one scale ──► directions, whitened ──► how far from the mean of a class, as it spreads
             (or normal scores)

Neighbors show what is near; the mean and the spread of all members show what a class is like where few of them are
near. The covariance of a class is mixed with that within all classes, the more the fewer rows it has.
"""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from nearsay.core.parallel import one_blas_thread
from nearsay.encode.column_quantiles import ColumnQuantiles
from nearsay.posterior.past_cases import MANY_CLASSES
from nearsay.posterior.views.directions_model import DirectionsModel
from nearsay.posterior.views.many_gaussians import ManyGaussians
from nearsay.posterior.views.principal_directions import along_in_blocks, in_equal_blocks, principal_directions
from nearsay.posterior.views.row_transforms import STANDARDIZED, ClassSpread, learn_maps

# Probabilities of rows × classes are held; with more than these none are computed.
MOST_ANSWERS = 1 << 24


class GaussianClasses(DirectionsModel):
    """Probabilities from one Gaussian a class, all classes taken as equally frequent.

    The covariance of a class is that of its rows, mixed with the one within all
    classes, which counts as many rows as there are columns.

    scores : bool, default=False, whether columns are first replaced by their normal scores: the quantile of each number
        among the training rows, as a standard normal has it. Skewed columns, and those with values far out, then look
        like a Gaussian's.
    """

    _of_many: ManyGaussians | None = None
    _farthest = 1e100  # so that squares stay finite
    # A spread of d columns takes d² numbers a class, and d² products a row and class. More principal directions than so
    # many say little more; where rows and classes are many, fewer are taken, so that no more products than these are.
    most_directions, most_products = 64, 4e9

    def __init__(self, *, scores: bool = False) -> None:
        self.scores = scores

    def _fit(self, X: np.ndarray, y: np.ndarray, basis: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        self.classes_, labels = np.unique(y, return_inverse=True)
        n_answers = len(labels) * len(self.classes_)
        [self._standardized] = learn_maps([STANDARDIZED], X, labels)
        columns = super().columns(X)
        if self.scores:
            self._quantiles = ColumnQuantiles.of(columns)
            columns = self._quantiles.normal_scores(columns)
        with one_blas_thread():
            n_directions = min(self.most_directions, max(1, int(np.sqrt(self.most_products / n_answers))))
            self._basis = principal_directions(columns - columns.mean(axis=0), n_directions)
        mapped = along_in_blocks(columns, self._basis)
        self._learn(mapped, labels)
        return columns, mapped

    def of_other_rows(self, mapped: np.ndarray, y: np.ndarray) -> Self:
        other = copy(self)
        other.classes_, labels = np.unique(y, return_inverse=True)
        other._learn(mapped, labels)
        return other

    def _learn(self, mapped: np.ndarray, labels: np.ndarray) -> None:
        n, n_classes = len(labels), len(self.classes_)
        with one_blas_thread():
            # Around the means of samples rows spread less than around the true ones: n − n_classes degrees of freedom.
            unbiased = np.sqrt(max(n - n_classes, 1) / n)
            self._whitening = unbiased * ClassSpread(mapped, labels).factor(power=1.0, pull=0.0)
            whitened = mapped @ self._whitening
            self._of_many = ManyGaussians.of(whitened, labels, n_classes) if n_classes > MANY_CLASSES else None
            if self._of_many is not None:
                return
            of_classes = [_factor(whitened[labels == c]) for c in range(n_classes)]
        self._factors = np.hstack([factor for factor, _, _ in of_classes])
        self._offsets = np.concatenate([mean @ factor for factor, mean, _ in of_classes])
        self._half_log_det = np.array([half for _, _, half in of_classes])

    def proba_of_mapped(self, mapped: np.ndarray) -> np.ndarray:
        far = in_equal_blocks(mapped, len(self.classes_), self._far)
        p: np.ndarray = np.exp(far.min(axis=1, keepdims=True) - far)
        p /= p.sum(axis=1, keepdims=True)
        return p

    def _far(self, mapped: np.ndarray) -> np.ndarray:
        """Minus the log densities, up to what all classes have in common."""
        if self._of_many is not None:
            return self._of_many.far(mapped @ self._whitening)
        apart = mapped @ self._whitening @ self._factors - self._offsets
        squares = (apart * apart).reshape(len(mapped), len(self.classes_), -1)
        return squares.sum(axis=2) / 2 + self._half_log_det

    def columns(self, X: np.ndarray) -> np.ndarray:
        columns = super().columns(X)
        return self._quantiles.normal_scores(columns) if self.scores else columns


def _factor(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """F with F Fᵀ the inverse covariance of a class, its mean, and half the log of the determinant of its covariance.

    Rows are whitened, so that the covariance within all classes is the identity.
    """
    mean = rows.mean(axis=0)
    centered = rows - mean
    worth = rows.shape[1]
    values, vectors = np.linalg.eigh((centered.T @ centered + worth * np.eye(worth)) / (len(rows) - 1 + worth))
    return vectors / np.sqrt(values), mean, float(np.log(values).sum() / 2)
