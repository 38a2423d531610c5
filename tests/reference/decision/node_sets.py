"""Sets of nodes by trying all of them: every choice of at most r nodes, every setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

from tests.reference.decision.hedging import Parents, leaves_under


def along_first_parents(parents: Parents, node: int) -> set[int]:
    """The leaves from which the first parents lead to this node."""
    below = set()
    for leaf in leaves_under(parents, len(parents) - 1):
        way = leaf
        while way != node and parents[way]:
            way = parents[way][0]
        if way == node:
            below.add(leaf)
    return below


@cache
def all_sets(parents: Parents, most: int) -> list[tuple[int, ...]]:
    """Nodes with disjoint leaves; of several, each has only leaves that come to it by first parents."""
    leaves = [set(leaves_under(parents, node)) for node in range(len(parents))]
    whole = [node for node in range(len(parents)) if leaves[node] == along_first_parents(parents, node)]
    sets: list[tuple[int, ...]] = [(node,) for node in range(len(parents))]
    for size in range(2, most + 1):
        sets += [nodes for nodes in combinations(whole, size) if are_disjoint([leaves[node] for node in nodes])]
    return sets


def are_disjoint(parts: Sequence[set[int]]) -> bool:
    return sum(map(len, parts)) == len(set().union(*parts))


def best_by_leaves(p: Sequence[Fraction], parents: Parents, most: int) -> dict[int, tuple[Fraction, int]]:
    """{leaves covered: (probability, number of nodes)} of the most probable set, where fewer leaves have less."""
    best: dict[int, tuple[Fraction, int]] = {}
    for nodes in all_sets(parents, most):
        covered = [leaf for node in nodes for leaf in leaves_under(parents, node)]
        offer = (sum((p[leaf] for leaf in covered), Fraction(0)), -len(nodes))
        best[len(covered)] = max(best.get(len(covered), (Fraction(-1), 0)), offer)
    kept, highest = {}, Fraction(0)
    for n_leaves in sorted(best):
        if best[n_leaves][0] > highest:
            highest = best[n_leaves][0]
            kept[n_leaves] = (highest, -best[n_leaves][1])
    return kept


def fewest_leaves(p: Sequence[Fraction], parents: Parents, most: int, threshold: float) -> tuple[int, Fraction]:
    """How many leaves the smallest set covers whose probability reaches the threshold, and that probability."""
    for n_leaves, (probability, _) in best_by_leaves(p, parents, most).items():
        if probability >= threshold:
            return n_leaves, probability
    return len(leaves_under(parents, len(parents) - 1)), Fraction(1)


def largest_reward(p: Sequence[Fraction], parents: Parents, most: int, shift: float) -> float:
    """The largest probability · (information + shift) of any set."""
    n_all = len(leaves_under(parents, len(parents) - 1))
    return max(
        float(probability) * (math.log2(n_all / n_leaves) + shift)
        for n_leaves, (probability, _) in best_by_leaves(p, parents, most).items()
    )


def nodes_that_hold(labels: Sequence[int], parents: Parents, most: int) -> tuple[int, int]:
    """(leaves, nodes) of the choice of at most so many nodes that holds all labels; leaves of two nodes count twice."""
    above: list[set[int]] = []
    for label in labels:
        known = {label}
        while more := {parent for node in known for parent in parents[node]} - known:
            known |= more
        above.append(known)
    offers = [
        (sum(len(leaves_under(parents, node)) for node in nodes), len(nodes))
        for size in range(1, most + 1)
        for nodes in combinations(range(len(parents)), size)
        if all(known & set(nodes) for known in above)
    ]
    return min(offers)
