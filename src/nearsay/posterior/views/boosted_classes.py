"""Boosted trees on the columns of a table, pooled with the neighbors.

    rows ──► a hundred small trees, each for what those before it leave over ──► one score a class ──► softmax

Tables of words and numbers often have classes by a few thresholds at a time, which distances over all columns blur, a
line cannot bend to, and a forest averages away.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_limits

from nearsay.core.arrays import evenly, row_blocks
from nearsay.posterior.views.tree_growth import check_trees, leaves_of_trees

# A small step a tree. Few leaves tell few columns from each other; of more rows trees may have more of them.
STEP, STEPS = 0.1, 100
FEW_LEAVES, MORE_LEAVES, MANY_ROWS = 4, 8, 2000
# Of a leaf: fewer rows are noise, and its value is held at zero as by this many more rows of no opinion.
ROWS_OF_LEAF, SHRINKAGE = 10, 1.0


class BoostedClasses(ClassifierMixin, BaseEstimator):
    """Probabilities of scikit-learn's histogram gradient boosting, with small trees.

    Parameters
    ----------
    most_rows : int, default=20_000, of more rows, so many are learned from, evenly.

    Attributes
    ----------
    classes_ : (n_classes,)
    """

    def __init__(self, *, most_rows: int = 20_000) -> None:
        self.most_rows = most_rows

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> BoostedClasses:
        made = cls.__new__(cls)
        made.__dict__.update(fields)
        if "_right" in fields:
            check_trees(made._roots, made._feature, made._right)
        return made

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Grow the trees; X holds finite numbers, and there are at least two classes."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        some = evenly(len(y), self.most_rows)
        X, y = X[some], y[some]
        self.classes_, first, labels = np.unique(y, return_index=True, return_inverse=True)
        # Numbered by their first rows, classes of other names give the same trees to the last bit.
        self._met = np.argsort(first)
        boosting = HistGradientBoostingClassifier(
            learning_rate=STEP,
            max_iter=STEPS,
            max_leaf_nodes=FEW_LEAVES if len(y) < MANY_ROWS else MORE_LEAVES,
            min_samples_leaf=ROWS_OF_LEAF,
            l2_regularization=SHRINKAGE,
            early_stopping=False,
            random_state=0,
        )
        # Threads gain nothing at any number of rows taken here, and wait for each other in loops: where other programs
        # use the cores, 90 rows took seconds on two.
        with threadpool_limits(1, "openmp"):
            boosting.fit(X, np.argsort(self._met)[labels])
        trees = [tree.nodes for step in boosting._predictors for tree in step]
        self._roots = np.cumsum([0, *(len(nodes) for nodes in trees[:-1])])
        nodes = np.concatenate(trees)
        offsets = np.repeat(self._roots, [len(each) for each in trees])
        is_leaf = nodes["is_leaf"].astype(np.bool_)
        self._right = np.where(is_leaf, 0, nodes["right"].astype(np.int64) + offsets).astype(np.int32)
        self._feature = np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.int32)
        self._threshold = np.where(is_leaf, 0.0, nodes["num_threshold"])
        self._values = nodes["value"].astype(np.float64)
        self._baseline = np.ravel(boosting._baseline_prediction).astype(np.float64)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n_queries, n_classes)."""
        n_scores = len(self._baseline)  # one where there are two classes: the log odds of the second
        scores = np.zeros((len(X), len(self.classes_)))
        for part in row_blocks(len(X), row_bytes=64 * len(self._roots)):
            leaves = leaves_of_trees(X[part], self._roots, self._feature, self._threshold, self._right)
            of_trees = self._values[leaves].reshape(len(leaves), -1, n_scores)
            scores[part, self._met[-n_scores:]] = self._baseline + of_trees.sum(axis=1)
        return np.asarray(softmax(scores, axis=1))
