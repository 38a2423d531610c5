"""Neighbors by a weighted sum of distances in several feature spaces, each divided by its largest.

    distance(q, x) = Σ weight of space m · distance in space m / largest distance in space m

With equal weights this is the joint equal contribution (JEC) of Makadia, Pavlovic and Kumar (2008), a strong baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows
from nearsay.core.documented import DocumentedEstimator
from nearsay.errors import InputError, unknown_name
from nearsay.neighbors.joint.feature_spaces import FeatureSpace, HeldSpaces, as_spaces
from nearsay.neighbors.joint.joint_search import JointIndex
from nearsay.neighbors.table import NeighborTable


class JointNeighbors(DocumentedEstimator):
    """The nearest rows by the mean distance over several feature spaces, each scaled to one (JEC).

    Parameters
    ----------
    features : None, {name: columns} or {name: (columns, distance)}
        The feature spaces; None is one, all columns by Euclidean distance.
    weights : None or {name: weight}
        How much each space counts; only their proportions matter, and a space
        not named counts nothing. None weighs all the same.

    Attributes
    ----------
    weights_ : {name: weight}
        They sum to 1.

    Examples
    --------
    The largest difference is 4 in size and 100 in price, so a step of 1 in size is one of 25 in price:

    >>> X = [[0, 0], [1, 50], [4, 100]]
    >>> joint = JointNeighbors({"size": slice(0, 1), "price": slice(1, 2)}).fit(X)
    >>> joint.neighbors([[0, 50]], k=3).indices
    array([[1, 0, 2]])
    >>> joint.neighbors([[0, 50]], k=3).distances
    array([[0.125, 0.25 , 0.75 ]])
    """

    learns_from_keywords = False

    def __init__(self, features: Any = None, *, weights: Mapping[str, float] | None = None) -> None:
        self.features = features
        self.weights = weights

    def fit(self, X: Any, Y: Any = None) -> JointNeighbors:
        """Store the rows of ``X`` (n_rows, n_columns). ``Y`` is ignored."""
        rows = as_rows(X)
        if not len(rows):
            raise InputError("X has no rows, so there are no neighbors to find.")
        held = HeldSpaces(rows, as_spaces(self.features, rows.shape[1]))
        return self._hold(held, _weights_by_space(self.weights, held.spaces))

    def neighbors(self, X: Any, k: int) -> NeighborTable:
        """The ``k`` rows nearest to every query, nearest first; equal distances by row number."""
        check_is_fitted(self, "weights_")
        return self._index.query(as_rows(X, width=self.n_features_in_), k)

    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The same for the rows themselves (or ``rows``: numbers, or a mask), each left out of its own neighbors."""
        check_is_fitted(self, "weights_")
        return self._index.leave_one_out(k, rows)

    def distances(self, X: Any = None) -> np.ndarray:
        """Joint distances of every query (None: every row) to every row: (n_queries, n_rows)."""
        check_is_fitted(self, "weights_")
        return self._index.distances(None if X is None else as_rows(X, width=self.n_features_in_))

    def _hold(self, held: HeldSpaces, weights: np.ndarray) -> JointNeighbors:
        self._index = JointIndex(held, weights / weights.sum() / held.scales)
        self.n_features_in_ = held.rows.shape[1]
        names = [space.name for space in held.spaces]
        self.weights_ = dict(zip(names, (weights / weights.sum()).tolist(), strict=True))
        return self


def _weights_by_space(weights: Any, spaces: list[FeatureSpace]) -> np.ndarray:
    names = [space.name for space in spaces]
    if weights is None:
        return np.ones(len(names))
    if not isinstance(weights, Mapping):
        raise InputError(f"weights must map names of feature spaces to numbers, {{'color': 2.0}}; got {weights!r}.")
    for name in weights:
        if name not in names:
            raise unknown_name("feature space", name, names)
    given = np.array([float(weights.get(name, 0.0)) for name in names])
    if not (np.isfinite(given).all() and (given >= 0).all() and given.sum() > 0):
        raise InputError(f"weights must be at least 0, and one of them above; got {dict(weights)!r}.")
    return given
