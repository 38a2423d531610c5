"""Weights of a forest, row by row and tree by tree, from its own trees."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier


def forest_weights(
    forest: RandomForestClassifier, X: np.ndarray, query: np.ndarray, case: int | None, smallest: int = 2
) -> np.ndarray:
    """The share of every training row in the vote for one query; ``case`` is the training row that it is, or None.

    Nodes that fewer than ``smallest`` different rows reached are not split.
    """
    total, n_trees = np.zeros(len(X)), 0
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        if case is not None and case in drawn:
            continue
        n_trees += 1
        way = tree.decision_path(query[None]).indices
        end = next((node for node in way if tree.tree_.n_node_samples[node] < smallest), way[-1])
        passed = tree.decision_path(X).toarray()  # by each row, which nodes
        inside = [row for row in drawn if passed[row, end]]
        for row in inside:  # as often as it was drawn
            total[row] += 1 / len(inside)
    return total / n_trees if n_trees else total
