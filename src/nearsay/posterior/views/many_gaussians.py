"""Gaussians of thousands of classes with few rows each: no covariance is held, only the rows that bend it.

    n rows of a class ──► their n − 1 directions ──► how far a row is along these, and in all others together

The covariance of a class is that of its rows, mixed with the identity, which counts as many rows as there are columns.
With fewer rows than columns it is the identity but for a few directions. So memory grows with the rows, not with the
classes times the square of the columns, and a query takes as many products less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True)
class ManyGaussians:
    """Densities of whitened rows in each class.

    With W a matrix of r directions, the inverse covariance of a class of n rows in d columns is
    (n − 1 + d) / d · (I − Wᵀ W).

    means : (n_classes, n_columns)
    directions : (n_directions, n_columns), those of the classes one after the other.
    first : (n_classes + 1,) where those of each class begin.
    along_means : (n_directions,) the mean of its class along each of them.
    scales : (n_classes,) (n − 1 + d) / d.
    half_log_det : (n_classes,) half the log of the determinant of the covariance.
    """

    means: np.ndarray
    directions: np.ndarray
    first: np.ndarray
    along_means: np.ndarray
    scales: np.ndarray
    half_log_det: np.ndarray

    @classmethod
    def of(cls, whitened: np.ndarray, labels: np.ndarray, n_classes: int) -> Self:
        """Of whitened rows; each class has one at least."""
        d = whitened.shape[1]
        sizes = np.bincount(labels, minlength=n_classes)
        by_class = np.argsort(labels, kind="stable")
        begin = np.append(0, np.cumsum(sizes))
        n_directions = np.minimum(sizes - 1, d)
        first = np.append(0, np.cumsum(n_directions))
        means, directions = np.empty((n_classes, d)), np.empty((first[-1], d))
        log_det = np.empty(n_classes)
        for size in np.unique(sizes):  # classes of one size together
            of_size = np.flatnonzero(sizes == size)
            rows = whitened[by_class[begin[of_size][:, None] + np.arange(size)]]
            means[of_size] = rows.mean(axis=1)
            bent, log_det[of_size] = _bent(rows - means[of_size][:, None])
            directions[first[of_size][:, None] + np.arange(bent.shape[1])] = bent
        along_means = np.einsum("ij,ij->i", directions, np.repeat(means, n_directions, axis=0))
        return cls(means, directions, first, along_means, (sizes - 1 + d) / d, log_det / 2)

    def far(self, whitened: np.ndarray) -> np.ndarray:
        """Minus the log densities of rows (n_rows, n_classes), up to what all classes have in common."""
        far = whitened @ self.means.T
        far *= -2
        far += (self.means * self.means).sum(axis=1)
        far += (whitened * whitened).sum(axis=1)[:, None]
        along = whitened @ self.directions.T
        along -= self.along_means
        along *= along
        bent = np.flatnonzero(np.diff(self.first))  # reduceat gives nothing for classes without any direction
        if len(bent):
            far[:, bent] -= np.add.reduceat(along, self.first[bent], axis=1)
        far *= self.scales / 2
        far += self.half_log_det
        return far


def _bent(centered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The directions W of classes of one size, and the logs of the determinants of their covariances.

    centered : (n_classes, n, d) rows around the means of their classes.
    """
    n, d = centered.shape[1:]
    if n - 1 < d:
        values, vectors = np.linalg.eigh(centered @ centered.transpose(0, 2, 1))
        values, vectors = np.maximum(values[:, 1:], 0.0), vectors[:, :, 1:]  # the first is 0: rows are centered
        directions = vectors.transpose(0, 2, 1) @ centered / np.sqrt(values + d)[:, :, None]
    else:
        values, vectors = np.linalg.eigh(centered.transpose(0, 2, 1) @ centered)
        values = np.maximum(values, 0.0)
        directions = (vectors * np.sqrt(values / (values + d))[:, None]).transpose(0, 2, 1)
    others = d - values.shape[1]
    return directions, np.log((values + d) / (n - 1 + d)).sum(axis=1) + others * np.log(d / (n - 1 + d))
