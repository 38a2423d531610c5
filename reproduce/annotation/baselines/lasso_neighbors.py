"""Weights of feature spaces, or of columns, learned from pairs of rows that share many keywords or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.core.arrays import as_rows, row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.core.settings import check_number, check_randomness
from nearsay.data.keywords import annotated_order, rows_and_keywords
from nearsay.errors import InputError
from nearsay.learn.linear_map import in_units
from nearsay.neighbors.joint.feature_spaces import FeatureSpace, HeldSpaces, as_spaces
from nearsay.neighbors.joint.joint_search import JointIndex
from nearsay.neighbors.table import NeighborTable
from reproduce.annotation.baselines.group_lasso import group_lasso
from reproduce.annotation.baselines.keyword_pairs import KeywordPairs, draw_pairs


class _PairLearner(JointNeighbors):
    """Neighbors by a weighted sum of distances, whose weights are learned from pairs of rows.

    Parameters
    ----------
    features : None, {name: columns} or {name: (columns, distance)}
        The feature spaces; None is one, all columns.
    penalty : float or None
        The larger, the fewer spaces count; None is ``PENALTY``.
    n_pairs : int or None
        At most so many pairs of each kind are drawn; None is ``N_PAIRS``.
    min_shared : int, default=4
        Rows that share at least so many keywords are alike.
    random_state : int or None, default=0

    Attributes
    ----------
    weights_ : {name: weight}
        They sum to 1.
    """

    learns_from_keywords = True
    PENALTY: float
    N_PAIRS: int

    def __init__(
        self,
        features: Any = None,
        *,
        penalty: float | None = None,
        n_pairs: int | None = None,
        min_shared: int = 4,
        random_state: int | None = 0,
    ) -> None:
        self.features = features
        self.penalty = penalty
        self.n_pairs = n_pairs
        self.min_shared = min_shared
        self.random_state = random_state

    @property
    def _penalty(self) -> float:
        return self.PENALTY if self.penalty is None else self.penalty

    def _rows_and_pairs(self, X: Any, Y: Any) -> tuple[np.ndarray, KeywordPairs]:
        rows, keywords = rows_and_keywords(X, Y)
        seed = int(check_randomness(self.random_state).randint(2**31 - 1))
        order = annotated_order(rows, keywords.matrix)  # which pairs are drawn depends on the order of rows
        n_pairs = self.N_PAIRS if self.n_pairs is None else self.n_pairs
        pairs = draw_pairs(csr_array(keywords.matrix[order]), n_pairs, self.min_shared, seed)
        return rows, replace(pairs, first=order[pairs.first], second=order[pairs.second])

    def _check_weights(self, weights: np.ndarray) -> np.ndarray:
        if not weights.any():
            raise InputError(
                f"No feature space tells rows that are alike from others at penalty={self._penalty:g}."
                " Lower it; if that does not help, the features say nothing about these keywords."
            )
        return weights


class LassoNeighbors(_PairLearner):
    """The nearest rows by several feature spaces, weighted so that rows alike in keywords are near (LASSO).

    Logistic regression with an L1 penalty separates pairs of rows that share many keywords from pairs that share none,
    by their scaled distances in all spaces (Makadia, Pavlovic and Kumar 2008). A weight is never below 0: being far
    away in a space does not make rows alike. The penalty is what a weight of 1 costs, next to the mean log loss.

    The first column separates cats from dogs; the second is noise:

    >>> X = [[0, 5], [1, 0], [2, 7], [10, 1], [11, 6], [12, 2]]
    >>> Y = [["cat"], ["cat"], ["cat"], ["dog"], ["dog"], ["dog"]]
    >>> lasso = LassoNeighbors({"shape": slice(0, 1), "noise": slice(1, 2)}, min_shared=1, penalty=0.01).fit(X, Y)
    >>> lasso.weights_["shape"] > 0.9
    True
    """

    PENALTY, N_PAIRS = 0.001, 5000

    def fit(self, X: Any, Y: Any = None) -> LassoNeighbors:
        """Learn the weights from rows (n_rows, n_columns) and their keywords."""
        rows, pairs = self._rows_and_pairs(X, Y)
        held = HeldSpaces(rows, as_spaces(self.features, rows.shape[1]))
        weights = separating_weights(paired_distances(held, pairs) / held.scales, pairs.alike, self._penalty)
        self._hold(held, self._check_weights(weights))
        return self


class GroupLassoNeighbors(_PairLearner):
    """The nearest rows by a weighted sum of differences, columns weighted and whole groups left out (GS).

    Whether the rows of a pair share many keywords (−1) or none (+1) is regressed on the absolute differences of all
    their columns, by least squares with a group lasso penalty (Zhang et al. 2010); the weights, never negative, then
    weigh the differences. The columns of a group are first scaled so that their mean variance is 1. The penalty is a
    share of the smallest one at which no group counts. Columns are compared by absolute difference, so the only
    distance that ``features`` may name is "manhattan".

    With thousands of columns this fits its pairs closely and new rows less so: expect less than of ``JointNeighbors``.

    Attributes
    ----------
    column_weights_ : float32, or float64 where rows are so large or small that float32 has no room
        One for each column of each group, group after group.

    >>> X = [[0, 5], [1, 0], [2, 7], [10, 1], [11, 6], [12, 2]]
    >>> Y = [["cat"], ["cat"], ["cat"], ["dog"], ["dog"], ["dog"]]
    >>> groups = GroupLassoNeighbors({"shape": slice(0, 1), "noise": slice(1, 2)}, penalty=0.3, min_shared=1).fit(X, Y)
    >>> groups.weights_
    {'shape': 1.0, 'noise': 0.0}
    """

    PENALTY, N_PAIRS = 0.03, 2000

    def fit(self, X: Any, Y: Any = None) -> GroupLassoNeighbors:
        """Learn the weights of the columns from rows (n_rows, n_columns) and their keywords."""
        check_number("penalty", self._penalty, 0, 1, closed="neither")
        rows, pairs = self._rows_and_pairs(X, Y)
        spaces = as_spaces(self.features, rows.shape[1], "manhattan")
        for space in spaces:
            if space.distance.name != "manhattan":
                raise InputError(
                    f"Columns are weighted by absolute differences; {space.name!r} asks for {space.distance.name}."
                    " Leave the distance out, or name 'manhattan'."
                )
        columns = [np.arange(rows.shape[1])[space.columns] for space in spaces]
        ends = np.cumsum([len(part) for part in columns]).tolist()
        groups = [slice(start, stop) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]
        self._columns = np.concatenate(columns)
        scaled, unit = in_units(rows[:, self._columns])
        differences = _differences(scaled, pairs)
        scale = _one_scale(differences, groups)
        target = np.where(pairs.alike, -1.0, 1.0).astype(np.float32)
        differences /= scale
        differences -= differences.mean(axis=0)
        at_one_scale = self._check_weights(group_lasso(differences, target - target.mean(), groups, self._penalty))
        weights = at_one_scale / scale
        self.column_weights_ = weights if unit == 1 else weights.astype(np.float64) / unit
        lengths = np.array([np.linalg.norm(at_one_scale[group]) for group in groups])
        self.n_features_in_ = rows.shape[1]
        counting = [
            FeatureSpace(space.name, group, space.distance)
            for space, group, length in zip(spaces, groups, lengths, strict=True)
            if length
        ]
        self._index = JointIndex(HeldSpaces(self._weighted(rows), counting), np.ones(len(counting)))
        self.weights_ = dict(zip([space.name for space in spaces], (lengths / lengths.sum()).tolist(), strict=True))
        return self

    def neighbors(self, X: Any, k: int) -> NeighborTable:
        """The ``k`` rows nearest to every query, nearest first; equal distances by row number."""
        return self._index.query(self._weighted(as_rows(X, width=self.n_features_in_)), k)

    def _weighted(self, rows: np.ndarray) -> np.ndarray:
        # Weighted differences are differences of weighted columns.
        weighted: np.ndarray = rows[:, self._columns] * self.column_weights_
        return weighted


def paired_distances(held: HeldSpaces, pairs: KeywordPairs) -> np.ndarray:
    """How far the two rows of every pair are apart in every space: (n_pairs, n_spaces)."""
    out = np.empty((len(pairs), len(held)))

    def measure(part: slice) -> None:
        first, second = held.rows[pairs.first[part]], held.rows[pairs.second[part]]
        for m, space in enumerate(held.spaces):
            out[part, m] = space.distance.paired(first[:, space.columns], second[:, space.columns])

    in_parallel(measure, row_blocks(len(pairs), row_bytes=8 * held.rows.shape[1]))
    return out


def _differences(X: np.ndarray, pairs: KeywordPairs) -> np.ndarray:
    """Absolute differences of the two rows of every pair, column by column: (n_pairs, n_columns) float32."""
    out = np.empty((len(pairs), X.shape[1]), np.float32)
    for part in row_blocks(len(pairs), row_bytes=8 * X.shape[1]):
        out[part] = np.abs(X[pairs.first[part]].astype(np.float64) - X[pairs.second[part]])
    return out


def _one_scale(differences: np.ndarray, groups: list[slice]) -> np.ndarray:
    """What to divide each column by, the same for all of a group, so that variances are 1 in the mean: (n_columns,)."""
    scale = np.ones(differences.shape[1], np.float32)
    for group in groups:
        spread = float(np.sqrt(differences[:, group].var(axis=0, dtype=np.float64).mean()))
        if spread > 0:
            scale[group] = spread
    return scale


def separating_weights(distances: np.ndarray, alike: np.ndarray, penalty: float) -> np.ndarray:
    """Weights w ≥ 0 with the smallest mean log loss of P(alike) = 1/(1 + exp(w·d − b)), plus ``penalty`` · Σ w.

    Parameters
    ----------
    distances : (n_pairs, n_spaces)
    alike : (n_pairs,) bool

    The second space carries no information. In the first, b = w by symmetry, and 1 + exp(w) = 5 at the minimum:

    >>> D = np.array([[0.0, 1], [1, 1], [1, 1], [2, 1]])
    >>> separating_weights(D, np.array([1, 1, 0, 0]) > 0, 0.1).round(3)
    array([1.386, 0.   ])
    """
    check_number("penalty", penalty, 0)
    sign = np.where(alike, 1.0, -1.0)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, offset = parameters[:-1], parameters[-1]
        margin = sign * (offset - distances @ weights)
        slope = -sign * expit(-margin) / len(sign)
        value = float(np.logaddexp(0, -margin).mean() + penalty * weights.sum())
        return value, np.append(penalty - slope @ distances, slope.sum())

    n_spaces = distances.shape[1]
    # Where no weight is negative, the L1 penalty is a plain sum, and smooth.
    bounds = [(0.0, None)] * n_spaces + [(None, None)]
    minimum = minimize(
        loss, np.zeros(n_spaces + 1), jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-13}
    )
    weights: np.ndarray = minimum.x[:-1]
    return weights
