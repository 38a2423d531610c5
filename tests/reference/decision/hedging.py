"""Hedging as loops, straight from the definitions: one query, one node, one setting at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.stats import beta

Parents = tuple[tuple[int, ...], ...]


@cache
def at_or_above(parents: Parents, node: int) -> set[int]:
    found = {node}
    for parent in parents[node]:
        found |= at_or_above(parents, parent)
    return found


@cache
def leaves_under(parents: Parents, node: int) -> list[int]:
    inner = {parent for above in parents for parent in above}
    return [leaf for leaf in range(len(parents)) if leaf not in inner and node in at_or_above(parents, leaf)]


@cache
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


def climbing(p: Sequence[float], parents: Parents, threshold: float) -> int:
    p_node, node = node_probabilities(p, parents), flat(p)
    while p_node[node] < threshold and parents[node]:
        node = parents[node][0]
    return node


def risk_and_coverage(
    rows: Sequence[Sequence[float]], labels: Sequence[int], parents: Parents, rule: str, setting: float
) -> tuple[float, float]:
    """The share of wrong answers among those that are not the root, and how far all narrow down, on average."""
    root, gains = len(parents) - 1, information(parents)
    answers = [RULES[rule](p, parents, setting) for p in rows]
    given = [(node, label) for node, label in zip(answers, labels, strict=True) if node != root]
    wrong = sum(node not in at_or_above(parents, label) for node, label in given)
    return wrong / max(1, len(given)), sum(gains[node] for node in answers) / len(rows) / (max(gains) or 1.0)


RULES = {
    "darts": darts,
    "fixed-threshold": fixed_threshold,
    "flat-reject": flat_reject,
    "climbing": climbing,
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


# ------------------------------------------------------------------ promises with a confidence


def tail(right: int, n: int, accuracy: float) -> Fraction:
    """How likely so many right answers or more are where each of n is right with this probability."""
    p = Fraction(accuracy)
    return sum((math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(right, n + 1)), Fraction(0))


def tail_of_correlated(right: int, n: int, accuracy: float, worth: float) -> float:
    """The same where ``worth`` answers are worth one: the incomplete beta integral, by summing small steps.

    With ``worth`` 1 it is the tail of the binomial; otherwise of the distribution between whole numbers that has
    ``worth`` times its variance, half an answer added at the end that is counted.
    """
    a, b = (right - 0.5) / worth + 0.5, (n - right + 0.5) / worth + 0.5
    steps = 20_000
    middles = [(step + 0.5) / steps for step in range(steps)]
    density = [math.exp((a - 1) * math.log(t) + (b - 1) * math.log(1 - t)) for t in middles]
    return sum(y for t, y in zip(middles, density, strict=True) if t <= accuracy) / sum(density)


def promised_gain(
    rows: Sequence[Sequence[float]],
    labels: Sequence[int],
    parents: Parents,
    rule: str,
    accuracy: float,
    confidence: float,
) -> float:
    """The largest gain of the settings passed before the first failure, from the safest to the boldest."""
    most = 0.0
    for setting in sorted(settings_that_matter(rows, parents, rule), reverse=True):
        right, gain = right_and_gain(rows, labels, parents, rule, setting)
        if not tail(right, len(rows), accuracy) < 1 - Fraction(confidence):
            break
        most = max(most, gain)
    return most


def design_effect(wrong: Sequence[bool], groups: Sequence[int], whole_groups: float) -> float:
    """How many answers are worth one, from all pairs of rows within a group."""
    n, share = len(wrong), sum(wrong) / len(wrong)
    together = total = pairs = 0.0
    for i in range(n):
        total += (wrong[i] - share) ** 2
        for j in range(n):
            if groups[i] == groups[j]:
                together += (wrong[i] - share) * (wrong[j] - share)
                pairs += 1
    return max(1.0, (together + whole_groups * pairs / n) / (total + whole_groups))


def effective_ways(wrong: Sequence[Sequence[bool]]) -> float:
    """From the correlation of every two ways."""
    squares = []
    for one in range(len(wrong)):
        for other in range(one):
            a, b = (np.array(wrong[way], float) for way in (one, other))
            constant = a.std() == 0 or b.std() == 0
            squares.append(0.0 if constant else float(np.corrcoef(a, b)[0, 1]) ** 2)
    return 1 + (len(wrong) - 1) * (1 - sum(squares) / len(squares)) if squares else 1.0
