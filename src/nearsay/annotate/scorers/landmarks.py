"""Kernel features of several feature spaces: nearness to landmarks, by the mean of all distances.

Histograms are compared by sums of absolute differences, and no linear method knows what to do with these. Nearness
exp(−sharpness · distance / mean distance) is a kernel; its leading components, found on the landmarks (Nyström), are
columns whose products are nearness again, and any linear method can follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.core.arrays import as_rows, evenly
from nearsay.core.settings import check_number, check_whole
from nearsay.data.content_order import content_order
from nearsay.errors import InputError

# Components weaker than this share of the strongest are rounding.
FAINTEST = 1e-10


class LandmarkFeatures(TransformerMixin, BaseEstimator):
    """Columns whose products are how near two rows are by all feature spaces together.

    Parameters
    ----------
    features : None, {name: columns} or {name: (columns, distance)}
        The feature spaces; None is one, all columns by Euclidean distance.
    weights : None or {name: weight}
        How much each space counts, as in ``JointNeighbors``.
    n_landmarks : int, default=5000
        Rows, drawn by their content, to which all are held; or all rows. The more the better; the square of their
        number is held.
    n_components : int, default=400
        Columns that come out, or as many as the landmarks span.
    sharpness : float, default=2.0
        Nearness is exp(−sharpness) at the mean distance.

    Attributes
    ----------
    landmarks_ : JointNeighbors that holds the landmarks.
    mean_distance_ : float

    Examples
    --------
    Equal rows have nearness 1, rows at the mean distance e⁻²:

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
        """Choose the landmarks and find the components. ``Y`` is not looked at."""
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
        columns[others] = self.transform(rows[others])
        return columns

    def _learn(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Do what ``fit`` does; give the numbers of the landmarks and how near each is to each."""
        check_whole("n_landmarks", self.n_landmarks, least=1)
        check_whole("n_components", self.n_components, least=1)
        check_number("sharpness", self.sharpness, 0, closed="right")
        rows = as_rows(X)
        if not len(rows):
            raise InputError("X has no rows: there is nothing to be a landmark.")
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
        columns: np.ndarray = self._nearness(self.landmarks_.distances(rows)) @ self._components
        return columns

    def _nearness(self, distances: np.ndarray) -> np.ndarray:
        nearness: np.ndarray = np.exp(-self.sharpness * distances / self.mean_distance_)
        return nearness
