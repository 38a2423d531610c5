"""Hedging as loops, straight from the definitions: one query, one node, one setting at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import beta

Parents = Sequence[Sequence[int]]


def at_or_above(parents: Parents, node: int) -> set[int]:
    found = {node}
    for parent in parents[node]:
        found |= at_or_above(parents, parent)
    return found


def leaves_under(parents: Parents, node: int) -> list[int]:
    inner = {parent for above in parents for parent in above}
    return [leaf for leaf in range(len(parents)) if leaf not in inner and node in at_or_above(parents, leaf)]


def information(parents: Parents) -> list[float]:
    root = len(parents) - 1
    all_leaves = len(leaves_under(parents, root))
    return [math.log2(all_leaves) - math.log2(len(leaves_under(parents, node))) for node in range(len(parents))]


def node_probabilities(p: Sequence[float], parents: Parents) -> list[float]:
    return [sum(p[leaf] for leaf in leaves_under(parents, node)) for node in range(len(parents))]


def flat(p: Sequence[float]) -> int:
    return max(range(len(p)), key=lambda leaf: (p[leaf], -leaf))


def flat_reject(p: Sequence[float], parents: Parents, threshold: float) -> int:
    return flat(p) if p[flat(p)] >= threshold else len(parents) - 1


def flat_reject_calibrated(p: Sequence[float], parents: Parents, threshold: float) -> int:
    return flat(p) if p[flat(p)] > threshold else len(parents) - 1


def darts(p: Sequence[float], parents: Parents, shift: float) -> int:
    if shift == math.inf:
        return len(parents) - 1
    gains, p_node = information(parents), node_probabilities(p, parents)
    best = 0
    for node in range(1, len(parents)):
        if (gains[node] + shift) * p_node[node] > (gains[best] + shift) * p_node[best]:
            best = node
    return best


def fixed_threshold(p: Sequence[float], parents: Parents, threshold: float) -> int:
    gains, p_node = information(parents), node_probabilities(p, parents)
    sure = [node for node in range(len(parents)) if p_node[node] >= threshold]
    return max(sure, key=lambda node: (gains[node], p_node[node], -node)) if sure else len(parents) - 1


RULES = {
    "darts": darts,
    "fixed-threshold": fixed_threshold,
    "flat-reject": flat_reject,
    "flat-reject-calibrated": flat_reject_calibrated,
}


def right_and_gain(
    rows: Sequence[Sequence[float]], labels: Sequence[int], parents: Parents, rule: str, setting: float
) -> tuple[int, float]:
    """How many answers are right, and their mean information."""
    gains = information(parents)
    right, gain = 0, 0.0
    for p, label in zip(rows, labels, strict=True):
        said = RULES[rule](p, parents, setting)
        if said in at_or_above(parents, label):
            right += 1
            gain += gains[said]
    return right, gain / len(rows)


def lower_bound(right: int, n: int, confidence: float) -> float:
    return float(beta.ppf(1 - confidence, right, n - right + 1)) if right else 0.0


def keeps(right: int, n: int, accuracy: float, confidence: float | None) -> bool:
    return right / n >= accuracy if confidence is None else lower_bound(right, n, confidence) > accuracy


def bisection(
    rows: Sequence[Sequence[float]],
    labels: Sequence[int],
    parents: Parents,
    accuracy: float,
    confidence: float | None,
) -> float:
    """The search of the authors of DARTS."""
    low, high = 0.0, accuracy * max(information(parents)) / (1 - accuracy)
    for _ in range(25):
        middle = (low + high) / 2
        right, _ = right_and_gain(rows, labels, parents, "darts", middle)
        if keeps(right, len(rows), accuracy, confidence):
            high = middle
        else:
            low = middle
    return high


def settings_that_matter(rows: Sequence[Sequence[float]], parents: Parents, rule: str) -> list[float]:
    """Settings that meet every answer which the rule gives: where two nodes are worth the same, and just past it."""
    found = {0.0}
    gains = information(parents)
    for p in rows:
        p_node = node_probabilities(p, parents)
        if rule == "darts":
            for a in range(len(parents)):
                for b in range(len(parents)):
                    if p_node[a] < p_node[b]:
                        found.add((p_node[a] * gains[a] - p_node[b] * gains[b]) / (p_node[b] - p_node[a]))
        else:
            found.update(p_node)
    return sorted(past for setting in found if setting >= 0 for past in (setting, setting + 1e-7))


def most_said(
    rows: Sequence[Sequence[float]], labels: Sequence[int], parents: Parents, rules: Sequence[str], accuracy: float
) -> float:
    """The largest gain at any setting of any of the rules at which so many answers are right; the root says nothing."""
    most = 0.0
    for rule in rules:
        for setting in settings_that_matter(rows, parents, rule):
            right, gain = right_and_gain(rows, labels, parents, rule, setting)
            # Where several rows are undecided, rounding would send one this way and another that way.
            beside = [right_and_gain(rows, labels, parents, rule, setting + off) for off in (-1e-9, 1e-9)]
            if (right, gain) in beside and keeps(right, len(rows), accuracy, None):
                most = max(most, gain)
    return most
