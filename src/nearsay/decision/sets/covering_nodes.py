"""A set of labels in a few words: nodes of a taxonomy that hold them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearsay.taxonomy.taxonomy import Taxonomy


def covering_nodes(labels: Sequence[Any], taxonomy: Taxonomy, max_nodes: int = 2) -> list[Any]:
    """At most so many nodes that hold every label, with the fewest leaves in all; of these the fewest nodes.

    The first node holds the first label. What holds all labels covers the right one at least as often as they do.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle", "beagle"], "wolf": {}, "cat": {}}})
    >>> covering_nodes(["corgi", "wolf", "beagle"], pets), covering_nodes(["wolf", "corgi", "cat"], pets)
    (['dog', 'wolf'], ['pet'])
    """
    above = [np.unique([node, *map(taxonomy.number, taxonomy.ancestors(label))])
             for label, node in zip(labels, taxonomy.check_labels(labels).tolist(), strict=True)]  # fmt: skip
    n_leaves = np.diff(taxonomy.covers.tocsc().indptr)

    def cheapest(rest: list[int], most: int) -> tuple[int, list[int]] | None:
        """(leaves, nodes) for these labels, by their places."""
        if not rest:
            return 0, []
        best: tuple[int, list[int]] | None = None
        for node in above[rest[0]].tolist() if most else []:
            further = cheapest([place for place in rest if node not in above[place]], most - 1)
            if further is not None:
                offer = int(n_leaves[node]) + further[0], [node, *further[1]]
                best = offer if best is None else min(best, offer, key=lambda each: (each[0], len(each[1])))
        return best

    offer = cheapest(list(range(len(labels))), max_nodes)
    assert offer is not None  # the root holds all
    return [taxonomy.nodes[node] for node in offer[1]]
