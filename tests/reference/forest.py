"""Weights of a forest, row by row and tree by tree, from its own trees."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier


def forest_weights(forest: RandomForestClassifier, X: np.ndarray, query: np.ndarray, case: int | None) -> np.ndarray:
    """The share of every training row in the vote for one query; ``case`` is the training row that it is, or None."""
    total, n_trees = np.zeros(len(X)), 0
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        if case is not None and case in drawn:
            continue
        n_trees += 1
        leaf = tree.apply(query[None])[0]
        inside = [row for row in drawn if tree.apply(X[row][None])[0] == leaf]
        for row in inside:  # as often as it was drawn
            total[row] += 1 / len(inside)
    return total / n_trees if n_trees else total
