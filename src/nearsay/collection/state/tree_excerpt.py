"""The relevant part of a taxonomy for an answer: the path to it, and other probable nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nearsay.taxonomy.taxonomy import Taxonomy

# The number of further nodes, and their least probability.
MOST, LEAST = 14, 0.02


def tree_shown(taxonomy: Taxonomy, p_node: np.ndarray, answers: Iterable[Any] = ()) -> list[dict[str, Any]]:
    """The relevant nodes, a parent before its children, each with its probability.

    Parameters
    ----------
    p_node : (n_nodes,) how probable each node is.
    answers : nodes that are shown with the whole path to them, however probable.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}, "fish": {}}})
    >>> for node in tree_shown(pets, np.array([0.6, 0.2, 0.2, 0.0, 0.8, 1.0])):
    ...     print("  " * node["depth"], node["node"], node["probability"])
    pet 1.0
       dog 0.8
         corgi 0.6
         poodle 0.2
       cat 0.2
    """
    shown = {taxonomy.n_nodes - 1}
    for answer in answers:
        shown.update(_way(taxonomy, taxonomy.number(answer)))
    worth = np.flatnonzero(p_node >= LEAST)
    # Among equals the higher number first: a parent has a higher one than its children.
    for node in worth[np.lexsort((-worth, -p_node[worth]))][:MOST].tolist():
        shown.update(_way(taxonomy, node))
    lines: list[dict[str, Any]] = []
    _add_lines(taxonomy, p_node, taxonomy.n_nodes - 1, 0, shown, lines)
    return lines


def _way(taxonomy: Taxonomy, node: int) -> list[int]:
    """The path from the node up to the root, by first parents."""
    way = [node]
    while taxonomy.parents[way[-1]]:
        way.append(taxonomy.parents[way[-1]][0])
    return way


def _add_lines(
    taxonomy: Taxonomy, p_node: np.ndarray, node: int, depth: int, shown: set[int], lines: list[dict[str, Any]]
) -> None:
    name = taxonomy.nodes[node]
    parents = taxonomy.parents[node]
    lines.append(
        {
            "node": name,
            "word": taxonomy.node_words[name],
            "parent": taxonomy.nodes[parents[0]] if parents else None,
            "depth": depth,
            "probability": float(p_node[node]),
        }
    )
    below = [child for child in taxonomy.children[node] if child in shown and taxonomy.parents[child][0] == node]
    for child in sorted(below, key=lambda child: -p_node[child]):
        _add_lines(taxonomy, p_node, child, depth + 1, shown, lines)
