"""Confusion matrices by level of a taxonomy: an owl called a hawk is still a bird."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from nearsay.core.arrays import as_labels
from nearsay.reports.evaluation import confused_pairs
from nearsay.taxonomy.taxonomy import Taxonomy

# A level of more nodes has no table of all pairs.
MOST_NODES = 30


def confusion_by_level(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """Accuracy and confusion matrix at each level below the root, in plain values.

    Parameters
    ----------
    y_true, y_pred : (n,) names of nodes
    taxonomy : Taxonomy

    Returns
    -------
    list of dict, the most general level first
        ``level`` (1 is right below the root), ``n_items``, ``n_right``, ``accuracy``, ``confused`` (as in
        ``evaluation_summary``), ``nodes``, and ``counts``: a line for each node that items are under, a column for
        each that the answers are under. A node above the level counts as itself; with more than ``MOST_NODES``
        nodes there are no ``nodes`` and ``counts``.

    >>> tree = Taxonomy.from_paths([("animal", "bird", "owl"), ("animal", "bird", "hawk"), ("animal", "cat")])
    >>> [(each["level"], each["accuracy"]) for each in confusion_by_level(["owl", "cat"], ["hawk", "cat"], tree)]
    [(1, 1.0), (2, 0.5)]
    """
    y, predicted = as_labels(y_true), as_labels(y_pred)
    paths = {name: taxonomy.path(name) for name in {*y.tolist(), *predicted.tolist()}}
    order = {path: place for place, path in enumerate(taxonomy.to_paths())}
    # Nodes side by side as in the tree, an inner one before what is below it.
    first = {node: place for path, place in sorted(order.items(), key=lambda each: -each[1]) for node in path}
    deepest = max(len(path) for path in paths.values())
    levels = []
    for level in range(1, deepest):
        above = {name: path[min(level, len(path) - 1)] for name, path in paths.items()}
        true, called = ([above[name] for name in names.tolist()] for names in (y, predicted))
        counts = Counter(zip(true, called, strict=True))
        nodes = sorted({*true, *called}, key=lambda node: (first[node], taxonomy.depth(node)))
        few = len(nodes) <= MOST_NODES
        n_right = sum(n for (a, b), n in counts.items() if a == b)
        levels.append(
            {
                "level": level,
                "n_items": len(y),
                "n_right": n_right,
                "accuracy": n_right / len(y),
                "confused": confused_pairs(np.array(true, np.object_), np.array(called, np.object_)),
                "nodes": [str(node) for node in nodes] if few else None,
                "counts": [[counts[a, b] for b in nodes] for a in nodes] if few else None,
            }
        )
    return levels
