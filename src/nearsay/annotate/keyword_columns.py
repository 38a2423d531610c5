"""Feature columns for the scorers of the default annotator: vectors in their best view, and kernel features.

    vectors (Euclidean) ──► as given, standardized, unit length, … ──┬─► "vectors", to be searched
                                                                     ├─► few enough columns ──► "linear"
                                                                     └─► nearness to landmarks ──► "kernel"
    others (histograms, …) ──────────────────────────────────────────┬─► searched as they are
                                                                     └─► nearness to landmarks ──► "kernel of others"

Views are compared by the leave-one-out votes of the nearest rows; keywords are used for nothing else here, so one
table of columns serves every fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import svd
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from nearsay.annotate.calibration import KeywordCalibration
from nearsay.annotate.scorers.landmarks import LandmarkFeatures
from nearsay.annotate.scorers.relevance import Relevance
from nearsay.core.arrays import as_rows, evenly
from nearsay.data.keywords import annotated_order, rows_and_keywords
from nearsay.distances.vectors import Euclidean
from nearsay.learn.keyword_projection import unit_length
from nearsay.learn.linear_map import in_units
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.joint.feature_spaces import as_spaces

VECTORS, LINEAR, KERNEL, KERNEL_OF_OTHERS = "vectors", "linear", "kernel", "kernel of others"
# Rows or columns up to which directions are exact.
FACTORED_WHOLE = 1500
LANDMARKS, COMPONENTS = 2000, 400
# To compare views: the number of rows, and of queries among them.
COMPARED_AMONG, COMPARED_BY, PAIRS_COMPARED = 10_000, 1000, 2**18
NEIGHBORS = 20


def _as_given(X: np.ndarray) -> np.ndarray:
    return X


def _root(X: np.ndarray) -> np.ndarray:
    return unit_length(np.sqrt(np.maximum(X, 0.0)))


# Transforms of rows before columns are scaled.
SHAPED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as given": _as_given,
    "standardized": _as_given,
    "unit length": unit_length,
    "square roots at unit length": _root,
}


@dataclass(frozen=True)
class ColumnView:
    """A transform of columns, scaled so that the mean squared distance of rows from their mean is 1.

    name : one of SHAPED
    divisors : (n_columns,)

    >>> ColumnView.of("standardized", np.array([[0.0, 0.0], [2.0, 60.0]])).columns(np.array([[1.0, 60.0]])).round(3)
    array([[0.707, 1.414]])
    """

    name: str
    divisors: np.ndarray

    @classmethod
    def of(cls, name: str, X: np.ndarray) -> ColumnView:
        shaped = SHAPED[name](X)
        spread = shaped.std(axis=0, dtype=np.float64)
        # A constant column with rounding errors must not be scaled up.
        constant = spread <= 16 * np.finfo(np.float64).eps * np.abs(shaped).max(axis=0, initial=0.0)
        spread[constant] = 0.0
        if name == "standardized":
            divisors = np.where(constant, 1.0, spread) * np.sqrt(max(int((~constant).sum()), 1))
        else:
            divisors = np.full(X.shape[1], np.sqrt((spread**2).sum()) or 1.0)
        return cls(name, divisors)

    def columns(self, X: np.ndarray) -> np.ndarray:
        return SHAPED[self.name](X) / self.divisors


class KeywordColumns(TransformerMixin, BaseEstimator):
    """A transformer to columns for both linear methods and neighbor search.

    Parameters
    ----------
    features : None, {name: columns} or {name: (columns, distance)}, the feature spaces; None is one, all columns by
        Euclidean distance.

    Attributes
    ----------
    blocks_ : {name: slice}, the columns of the vectors, of the linear methods, and of the kernel features.
    views_ : {name of a space: name of a view}, the view of each Euclidean space.
    others_ : {name: (slice, Distance)}, the other spaces, by columns of the input.
    """

    # Linear methods need memory for the square of the number of columns. More columns than this, or than rows, are
    # reduced to so many leading directions, or all in which rows differ.
    most_columns, most_directions = 2000, 1000

    def __init__(self, features: Any = None) -> None:
        self.features = features

    def fit(self, X: Any, Y: Any) -> KeywordColumns:
        """Choose the views, and find the landmarks."""
        self.fit_transform(X, Y)
        return self

    def fit_transform(self, X: Any, Y: Any) -> np.ndarray:
        """The same as ``fit`` and then ``transform``; landmarks are not measured twice."""
        rows, keywords = rows_and_keywords(X, Y)
        order = annotated_order(rows, keywords.matrix)
        columns = self._learn(rows[order], csr_array(keywords.matrix[order]))
        return columns[np.argsort(order)]

    def _learn(self, rows: np.ndarray, keywords: csr_array) -> np.ndarray:
        """``fit``, with rows sorted by content; returns their columns."""
        spaces = as_spaces(self.features, rows.shape[1])
        self.n_features_in_ = rows.shape[1]
        self._vectors = [space for space in spaces if isinstance(space.distance, Euclidean)]
        self.others_ = {
            space.name: (space.columns, space.distance) for space in spaces if not isinstance(space.distance, Euclidean)
        }
        self._views = {space.name: self._view(rows[:, space.columns], keywords) for space in self._vectors}
        self.views_ = {name: view.name for name, (_, view) in self._views.items()}
        self._mean: np.ndarray | None = None
        self._directions: np.ndarray | None = None
        self._near: dict[str, LandmarkFeatures] = {}
        self.blocks_: dict[str, slice] = {}
        parts = []
        if self._vectors:
            vectors = self._vector_columns(rows)
            parts.append(self._block(VECTORS, vectors))
            self.blocks_[LINEAR] = self.blocks_[VECTORS]
            if vectors.shape[1] > min(self.most_columns, len(vectors)):
                self._mean = vectors.mean(axis=0)
                self._directions = leading_directions(vectors - self._mean, self.most_directions)
                parts.append(self._block(LINEAR, (vectors - self._mean) @ self._directions.T))
            parts.append(self._near_block(KERNEL, vectors, None))
        if self.others_:
            parts.append(self._near_block(KERNEL_OF_OTHERS, rows, self.others_))
        return np.hstack(parts)

    def transform(self, X: Any) -> np.ndarray:
        """The columns of each row: (n_rows, n_columns_out)."""
        check_is_fitted(self, "blocks_")
        rows = as_rows(X, width=self.n_features_in_)
        parts = []
        if self._vectors:
            vectors = self._vector_columns(rows)
            parts.append(vectors)
            if self._directions is not None:
                parts.append((vectors - self._mean) @ self._directions.T)
            parts.append(self._near[KERNEL].transform(vectors))
        if self.others_:
            parts.append(self._near[KERNEL_OF_OTHERS].transform(rows))
        return np.hstack(parts)

    @property
    def _width(self) -> int:
        return max((block.stop for block in self.blocks_.values()), default=0)

    def _block(self, name: str, columns: np.ndarray) -> np.ndarray:
        self.blocks_[name] = slice(self._width, self._width + columns.shape[1])
        return columns

    def _near_block(self, name: str, columns: np.ndarray, features: Any) -> np.ndarray:
        self._near[name] = LandmarkFeatures(features, n_landmarks=LANDMARKS, n_components=COMPONENTS)
        return self._block(name, self._near[name].fit_transform(columns))

    def _vector_columns(self, rows: np.ndarray) -> np.ndarray:
        """The Euclidean spaces side by side, each in its view."""
        units = [(rows[:, space.columns] / self._views[space.name][0], space.name) for space in self._vectors]
        return np.hstack([self._views[name][1].columns(columns) for columns, name in units])

    def _view(self, rows: np.ndarray, keywords: csr_array) -> tuple[float, ColumnView]:
        """The view whose nearest rows predict keywords best, and the unit of its columns."""
        scaled, unit = in_units(rows)
        scaled = scaled.astype(np.float64, copy=False)
        names = [name for name in SHAPED if name != "square roots at unit length" or scaled.min() >= 0]
        views = [ColumnView.of(name, scaled) for name in names]
        return unit, min(views, key=lambda view: nearest_loss(view.columns(scaled), keywords))


def leading_directions(centered: np.ndarray, most: int, factored_whole: int = FACTORED_WHOLE) -> np.ndarray:
    """The leading principal directions, orthonormal: (at most ``most``, n_columns)."""
    if min(centered.shape) <= factored_whole:
        directions = svd(centered, full_matrices=False)[2][:most]
    else:
        directions = randomized_svd(centered, most, random_state=0)[2]
    return np.asarray(directions)


def nearest_loss(columns: np.ndarray, keywords: csr_array) -> float:
    """The log loss, per row, of probabilities from the votes of the nearest other rows."""
    among = evenly(len(columns), COMPARED_AMONG)
    known = csr_array(keywords[among])
    queries = evenly(len(among), max(2, min(COMPARED_BY, PAIRS_COMPARED // known.shape[1])))
    index = NeighborIndex("sqeuclidean").fit(columns[among])
    table = index.leave_one_out(min(NEIGHBORS, len(among) - 1), queries)
    scores, past = [Relevance("distance").scores(table, known)], csr_array(known[queries])
    share = np.asarray(known.mean(axis=0)).ravel()
    return float(KeywordCalibration.shared(scores, past, share).losses(scores, past).mean())
