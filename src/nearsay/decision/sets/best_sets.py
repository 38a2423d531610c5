"""Sets of a few nodes of a taxonomy: for every number of leaves the most probable set, by dynamic programming.

A set is at most r nodes whose leaves are disjoint. Below a node, and for every
number of nodes and of leaves, the most probable choice is the best sum of
choices below its children, or the node itself. How many leaves a choice covers
does not depend on the query, so the sums to be compared are listed once for a
taxonomy, as steps, and a query is one walk through them.

Probabilities are added as whole multiples of 2 ** −52: the same votes added up
in another order are equal, and a set is never preferred for its rounding.

In a graph a node may share leaves with nodes that are neither above nor below it. There the steps follow first
parents: nodes with leaves that come to them by other ways stand alone in a set, all others are combined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from nearsay.core.parallel import in_parallel
from nearsay.core.settings import check_whole
from nearsay.decision.rules import as_probabilities, query_blocks
from nearsay.taxonomy.taxonomy import Taxonomy

# More nodes than these are no answer that one would read out; and their number has three bits in the sums.
MOST_NODES = 7

# Probabilities are counted in units of so many to one.
UNITS = 2.0**52

NOTHING = 0


@dataclass(frozen=True, eq=False)
class SetSteps:
    """The sums that find the best sets of a taxonomy.

    There are places for sums: place 0 is the empty set, place 1 + v is node v alone. In step s the sum of places
    ``first[s]`` and ``second[s]`` is put at ``target[s]`` if nothing better is there. At the end ``level[l]`` is the
    place of the best set of ``n_leaves[l]`` leaves, which rise.
    """

    n_places: int
    target: np.ndarray
    first: np.ndarray
    second: np.ndarray
    level: np.ndarray
    n_leaves: np.ndarray


@dataclass(frozen=True, eq=False)
class BestSets:
    """For every number of leaves the most probable set of each query.

    n_leaves : (levels,) how many leaves the sets of a level cover; rising.
    p : (queries, levels) the probability of the set; −1 where it is no more probable than a set of fewer leaves.
    nodes : (queries, levels, max_nodes) node numbers, rising; −1 where a set has fewer. Of equally probable sets of as
        many leaves the one of fewer nodes.
    """

    n_leaves: np.ndarray
    p: np.ndarray
    nodes: np.ndarray


def best_sets(p_leaf: Any, taxonomy: Taxonomy, max_nodes: int) -> BestSets:
    """Find the best sets of at most ``max_nodes`` nodes for probabilities (queries × leaves).

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}, "bird": ["owl", "crow"]}})
    >>> sets = best_sets([[0.4, 0.2, 0.3, 0.1, 0.0]], pets, max_nodes=2)
    >>> [(int(n), float(p.round(3)), [pets.nodes[v] for v in nodes if v >= 0])
    ...  for n, p, nodes in zip(sets.n_leaves, sets.p[0], sets.nodes[0]) if p > 0]
    [(1, 0.4, ['corgi']), (2, 0.7, ['corgi', 'cat']), (3, 0.9, ['cat', 'dog']), (5, 1.0, ['pet'])]
    """
    from nearsay.decision.sets.best_sets_kernels import take_steps

    check_whole("max_nodes", max_nodes, least=1, most=MOST_NODES)
    p_leaf = as_probabilities(p_leaf, taxonomy)
    steps = steps_of(taxonomy, int(max_nodes))
    units = np.rint(p_leaf * UNITS).astype(np.int64)
    p = np.empty((len(p_leaf), len(steps.level)))
    nodes = np.empty((*p.shape, int(max_nodes)), np.int32)
    covers = taxonomy.covers.astype(np.int64)

    def choose(rows: slice) -> None:
        of_nodes = np.ascontiguousarray(units[rows] @ covers)
        take_steps(of_nodes, steps.n_places, steps.target, steps.first, steps.second, steps.level, p[rows], nodes[rows])

    in_parallel(choose, list(query_blocks(len(p_leaf), taxonomy)))
    return BestSets(steps.n_leaves, p, nodes)


@lru_cache(maxsize=8)
def steps_of(taxonomy: Taxonomy, max_nodes: int) -> SetSteps:
    """List the steps of a taxonomy, children before their parents."""
    n_leaves = np.diff(taxonomy.covers.tocsc().indptr)
    first_parent = [above[0] if above else -1 for above in taxonomy.parents]
    along_first = np.ones(taxonomy.n_nodes, np.int64)
    along_first[taxonomy.n_leaves :] = 0
    for node, parent in enumerate(first_parent[:-1]):
        along_first[parent] += along_first[node]
    places = _Places(1 + taxonomy.n_nodes)
    below: list[dict[tuple[int, int], int]] = [{} for _ in range(taxonomy.n_nodes)]
    for node in range(taxonomy.n_nodes):
        if n_leaves[node] == along_first[node]:
            places.offer(below[node], (1, int(n_leaves[node])), 1 + node, NOTHING)
        if first_parent[node] >= 0:
            places.join(below[first_parent[node]], below[node], max_nodes)
            below[node] = {}
    levels: dict[tuple[int, int], int] = {}
    for (_, covered), place in sorted(below[-1].items()):
        places.offer(levels, (0, covered), place, NOTHING)
    for node in np.flatnonzero(n_leaves != along_first).tolist():
        places.offer(levels, (0, int(n_leaves[node])), 1 + node, NOTHING)
    ordered = sorted((covered, place) for (_, covered), place in levels.items())
    target, first, second = (np.array(column, np.uintp) for column in zip(*places.steps, strict=True))
    by_level = np.array(ordered, np.intp)
    return SetSteps(places.n, target, first, second, by_level[:, 1], by_level[:, 0])


class _Places:
    """Places for sums, and the steps that fill them."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.steps: list[tuple[int, int, int]] = []

    def offer(self, table: dict[tuple[int, int], int], key: tuple[int, int], first: int, second: int) -> None:
        """A step that may improve the place of this (number of nodes, number of leaves)."""
        if key not in table:
            table[key] = self.n
            self.n += 1
        self.steps.append((table[key], first, second))

    def join(self, before: dict[tuple[int, int], int], child: dict[tuple[int, int], int], max_nodes: int) -> None:
        """Choices below a parent so far, and below its next child: the larger sets first, which read the smaller."""
        so_far = sorted(before.items())
        for n_nodes in range(max_nodes, 0, -1):
            for (nodes, covered), place in so_far:
                for (more, also), other in child.items():
                    if nodes + more == n_nodes:
                        self.offer(before, (n_nodes, covered + also), place, other)
            for (more, also), other in child.items():
                if more == n_nodes:
                    self.offer(before, (n_nodes, also), other, NOTHING)
