"""Images that are made up: a small tree, and rows that lie near each other where they share an inner node of it."""

from __future__ import annotations

import numpy as np

from nearsay.data.rows import LabeledRows
from nearsay.taxonomy.taxonomy import Taxonomy
from reproduce.hedging.tin200 import Images

TREE = Taxonomy.from_nested({"R": {"A": {"a": {"a1": {}, "a2": {}}, "a3": {}}, "B": {"b1": {}, "b2": {}}, "c": {}}})
N_LEAVES = TREE.n_leaves


def made_up_images(seed: int = 0) -> Images:
    """Leaves that lie near each other where they share an inner node; some rows come twice."""
    rng = np.random.default_rng(seed)
    centers = np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0], [6, 0, 1], [7, 0, 1], [3, 6, 4]], float)
    tree = TREE.with_leaves(sorted(TREE.leaves))

    def rows(n: int) -> LabeledRows:
        numbers = np.arange(n) % N_LEAVES
        X = (centers[numbers] + rng.normal(scale=1.0, size=(n, 3))).round(1)
        return LabeledRows(X, np.array(tree.leaves)[numbers])

    return Images(rows(240), rows(60), tree)
