"""Nyström features of several feature spaces: a kernel of the joint distance to landmarks.

Linear methods cannot use distances between histograms (sums of absolute differences) directly. The kernel
exp(−sharpness · distance / mean distance) can be approximated by inner products of a few columns: its leading
components on the landmarks (Nyström approximation).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.core.arrays import as_rows, evenly
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_number, check_whole
from nearsay.data.content_order import content_order
from nearsay.errors import InputError

# Components weaker than this share of the strongest are rounding.
FAINTEST = 1e-10


class LandmarkFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DocumentedEstimator):
    """Nyström features: columns whose inner products approximate a kernel of the joint distance of all feature spaces.

    Parameters
    ----------
    features : as in ``JointNeighbors``.
    weights : None or {name: weight}
        How much each space counts, as in ``JointNeighbors``.
    n_landmarks : int, default=5000
        Number of rows drawn as landmarks, by their content; or all rows. More are better; memory grows with the
        square.
    n_components : int, default=400
        Number of columns, at most the rank of the kernel of the landmarks.
    sharpness : float, default=2.0
        The kernel is exp(−sharpness) at the mean distance.

    Attributes
    ----------
    landmarks_ : JointNeighbors that holds the landmarks.
    mean_distance_ : float

    Examples
    --------
    The kernel is 1 for equal rows and e⁻² at the mean distance:

    >>> columns = LandmarkFeatures().fit_transform([[0.0], [1.0], [1.0], [0.0]])
    >>> (columns @ columns.T).round(2)[0]
    array([1.  , 0.02, 0.02, 1.  ])
    """

    def __init__(
        self,
        features: Any = None,
        *,
        weights: Mapping[str, float] | None = None,
        n_landmarks: int = 5000,
        n_components: int = 400,
        sharpness: float = 2.0,
    ) -> None:
        self.features = features
        self.weights = weights
        self.n_landmarks = n_landmarks
        self.n_components = n_components
        self.sharpness = sharpness

    def fit(self, X: Any, Y: Any = None) -> LandmarkFeatures:
        """Choose the landmarks and compute the components. ``Y`` is ignored."""
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """The same as ``fit`` and then ``transform``; landmarks are not measured twice."""
        chosen, nearness = self._learn(X)
        rows = as_rows(X)
        columns = np.empty((len(rows), self._components.shape[1]))
        columns[chosen] = nearness @ self._components
        others = np.ones(len(rows), np.bool_)
        others[chosen] = False
        columns[others] = self._columns(rows[others])
        return columns

    def _learn(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """``fit``; returns the numbers of the landmarks and the kernel between them."""
        check_whole("n_landmarks", self.n_landmarks, least=1)
        check_whole("n_components", self.n_components, least=1)
        check_number("sharpness", self.sharpness, 0, closed="right")
        rows = as_rows(X)
        if not len(rows):
            raise InputError("X has no rows, so there are no landmarks.")
        chosen = content_order(rows, in_any_unit=True)[evenly(len(rows), self.n_landmarks)]
        self.n_features_in_ = rows.shape[1]
        self.landmarks_ = JointNeighbors(self.features, weights=self.weights).fit(rows[chosen])
        distances = self.landmarks_.distances()
        self.mean_distance_ = float(distances.mean()) or 1.0
        nearness = self._nearness(distances)
        strongest = [max(0, len(chosen) - self.n_components), len(chosen) - 1]
        strengths, vectors = eigh(nearness, subset_by_index=strongest, driver="evx")
        strong = strengths > FAINTEST * strengths[-1]
        self._components = vectors[:, strong] / np.sqrt(strengths[strong])
        return chosen, nearness

    def transform(self, X: Any) -> np.ndarray:
        """The components of each row: (n_rows, n_components)."""
        check_is_fitted(self, "mean_distance_")
        rows = as_rows(X, width=self.n_features_in_)
        return self._columns(rows)

    @property
    def _n_features_out(self) -> int:
        return int(self._components.shape[1])

    def _columns(self, rows: np.ndarray) -> np.ndarray:
        return self._nearness(self.landmarks_.distances(rows)) @ self._components

    def _nearness(self, distances: np.ndarray) -> np.ndarray:
        return np.exp(-self.sharpness * distances / self.mean_distance_)
