"""Measures of specificity as loops over (parent, child) pairs, straight from the definitions: one answer at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tests.reference.decision.taxonomy import leaves_below, walked_up

Edges = list[tuple[str, str]]


def root_of(edges: Edges) -> str:
    return next(parent for parent, _ in edges if all(child != parent for _, child in edges))


def is_right(edges: Edges, true: str, said: str) -> bool:
    return said in walked_up(edges, true)


def bits(edges: Edges, node: str) -> float:
    under = leaves_below(edges, node) or {node}
    return math.log2(len(leaves_below(edges, root_of(edges)))) - math.log2(len(under))


def accuracy(edges: Edges, truth: Sequence[str], answers: Sequence[str]) -> float:
    return sum(is_right(edges, true, said) for true, said in zip(truth, answers, strict=True)) / len(truth)


def gain(edges: Edges, truth: Sequence[str], answers: Sequence[str]) -> float:
    pairs = zip(truth, answers, strict=True)
    return sum(bits(edges, said) for true, said in pairs if is_right(edges, true, said)) / len(truth)


def similarity(edges: Edges, true: str, said: str) -> float:
    one, other = (walked_up(edges, node) - {root_of(edges)} for node in (true, said))
    longer = max(len(one), len(other))
    return float(Fraction(len(one & other), longer)) if longer else 1.0


def height(edges: Edges, node: str) -> int:
    return max((1 + height(edges, child) for parent, child in edges if parent == node), default=0)


def lca_cost(edges: Edges, truth: Sequence[str], answers: Sequence[str]) -> float:
    meeting = [walked_up(edges, true) & walked_up(edges, said) for true, said in zip(truth, answers, strict=True)]
    return sum(min(height(edges, node) for node in nodes) for nodes in meeting) / len(truth)


def breakdown(edges: Edges, truth: Sequence[str], answers: Sequence[str]) -> tuple[float, dict[float, float]]:
    """The share of wrong answers, and of right ones by their bits (to nine digits), rising."""
    nodes = {node for edge in edges for node in edge}
    shares = dict.fromkeys(sorted({round(bits(edges, node), 9) for node in nodes}), 0.0)
    wrong = 0.0
    for true, said in zip(truth, answers, strict=True):
        if is_right(edges, true, said):
            shares[round(bits(edges, said), 9)] += 1 / len(truth)
        else:
            wrong += 1 / len(truth)
    return wrong, shares
