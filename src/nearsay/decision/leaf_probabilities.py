"""Probabilities of a classifier's classes as probabilities of the leaves of a taxonomy."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.decision.rules import SUM_TOLERANCE
from nearsay.taxonomy.taxonomy import Taxonomy


def leaf_probabilities(p: np.ndarray, taxonomy: Taxonomy, class_nodes: np.ndarray, leaf_mass: Any) -> np.ndarray:
    """(n_rows, n_leaves) from (n_rows, n_classes): rows sum to 1, all leaves alike where no class got any.

    class_nodes : (n_classes,) the node of each class.
    leaf_mass : sparse (n_classes, n_leaves), as ``taxonomy.leaf_mass`` gives it: a class that is an inner node is
        divided among the leaves below it.
    """
    p_leaf = _by_leaf(p, taxonomy.n_leaves, class_nodes, leaf_mass)
    with np.errstate(invalid="ignore"):  # the rule raises an error for NaN
        total = p_leaf.sum(axis=1)
        off = np.flatnonzero(np.abs(total - 1) > SUM_TOLERANCE)
        if len(off):
            p_leaf = p_leaf.copy()
            p_leaf[off] /= np.where(total[off] == 0, 1, total[off])[:, None]
            p_leaf[total == 0] = 1 / taxonomy.n_leaves
    return p_leaf


def _by_leaf(p: np.ndarray, n_leaves: int, class_nodes: np.ndarray, leaf_mass: Any) -> np.ndarray:
    from nearsay.decision.envelope_kernels import put_in_order

    p = np.ascontiguousarray(p)
    if np.array_equal(class_nodes, np.arange(n_leaves)):
        return p
    if class_nodes.max() >= n_leaves:  # a class is an inner node
        return p @ leaf_mass
    ordered = np.zeros((len(p), n_leaves))
    put_in_order(p, class_nodes, ordered)
    return ordered
