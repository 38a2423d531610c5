"""The posteriors that learn from past cases, straight from the formulas: plain loops over plain numbers.

A line is what one query (or one row, left out) sees: the labels of its
neighbors, nearest first, their distances, and the classes by their nearest
member. A missing neighbor is not in the line. A past case is its line, its true
label and what it counts for: 1, or the weight of its row (1 in the mean).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.reference import neighbors as reference


class Line(NamedTuple):
    said: list[int]
    distances: list[float]
    rows: list[int]
    classes: list[int]


def line(X: Sequence, y: Sequence[int], query: Sequence[float], k: int, n_listed: int, left_out: int | None) -> Line:
    others = [row for row in range(len(X)) if row != left_out]
    measured = sorted((reference.euclidean(query, X[row]), row) for row in others)
    classes: list[int] = []
    for _, row in measured:
        if y[row] not in classes:
            classes.append(int(y[row]))
    near = measured[:k]
    return Line([int(y[row]) for _, row in near], [d for d, _ in near], [row for _, row in near], classes[:n_listed])


Case = tuple[Line, int, Fraction]


def past_lines(
    X: Sequence, y: Sequence[int], k: int, n_listed: int, weights: Sequence[float] | None = None
) -> list[Case]:
    """The past cases of all rows that have another row of their class."""
    worth = relative(weights) if weights is not None else [Fraction(1)] * len(X)
    return [
        (line(X, y, X[i], k, n_listed, left_out=i), int(y[i]), worth[i])
        for i in range(len(X))
        if list(y).count(int(y[i])) > 1
    ]


def relative(weights: Sequence[float]) -> list[Fraction]:
    exact = [Fraction(float(w)) for w in weights]
    return [w * len(exact) / sum(exact) for w in exact]


def winner(said: Sequence[int]) -> int:
    return max(said, key=lambda label: (said.count(label), -said.index(label)))


def class_size(y: Sequence[int]) -> int:
    return sorted(list(y).count(label) for label in y)[len(y) // 2]


def voters(y: Sequence[int], k: int) -> int:
    return max(1, min(k, class_size(y) - 1))


def between(past: Sequence[Sequence[float]], v: int, y: Sequence[int], k: int) -> list[float]:
    """The lines of ``past`` for 1, 2, … votes, read at v·K'/min(K, n)."""
    place = min(max(v * len(past) / max(1, min(k, class_size(y))), 1), len(past))
    below = math.floor(place)
    above = min(below + 1, len(past))
    return [
        (1 - (place - below)) * a + (place - below) * b for a, b in zip(past[below - 1], past[above - 1], strict=True)
    ]


def with_failure(p: Sequence[float], model_failure: float) -> list[float]:
    return [(1 - model_failure) * float(value / sum(p)) + model_failure / len(p) for value in p]


# ---------------------------------------------------------------- ranks


def decreasing(values: Sequence[float]) -> list[float]:
    """The nearest decreasing sequence, by the min-max formula of isotonic regression."""
    n = len(values)
    return [min(max(sum(values[a : b + 1]) / (b + 1 - a) for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


def pooled(counts: Sequence[int], few: int = 10) -> list[float]:
    """Counts of ranks 1 … C and of "beyond", those after the last rank with enough cases in decreasing order."""
    ranks = list(counts[:-1])
    start = max((r + 1 for r, count in enumerate(ranks) if count >= few), default=0)
    return [*ranks[:start], *decreasing(ranks[start:]), counts[-1]]


def rank_table(counts: Sequence[int]) -> list[float]:
    n_ranks = len(counts) - 1
    values = [value + (1 / n_ranks if r < n_ranks else 0) for r, value in enumerate(pooled(counts))]
    return [value / sum(values) for value in values]


def shrunk(counts: Sequence[int], whole: Sequence[float], strength: float = 10.0) -> list[float]:
    counted, p, gone_on = pooled(counts), [], 1.0
    for r in range(len(whole)):
        left, left_of_whole = sum(counted[r:]), sum(whole[r:])
        usual = whole[r] / left_of_whole if left_of_whole > 0 else 1.0
        share = (counted[r] + strength * usual) / (left + strength) if r < len(whole) - 1 else 1.0
        p.append(gone_on * share)
        gone_on *= 1 - share
    return p


def true_rank(classes: Sequence[int], truth: int, n_classes: int) -> int:
    return classes.index(truth) if truth in classes else n_classes


def by_rank(table: Sequence[float], classes: Sequence[int], n_classes: int) -> list[float]:
    """What a table of ranks gives to every class; those not listed share the rest."""
    listed = sum(table[: len(classes)])
    share = (1 - listed) / (n_classes - len(classes)) if len(classes) < n_classes else 0.0
    p = [share] * n_classes
    for r, c in enumerate(classes):
        p[c] = table[r]
    return [value / sum(p) for value in p]


def rank_counts(past: list[Case], n_classes: int) -> list[Fraction]:
    counts = [Fraction(0)] * (n_classes + 1)
    for case, truth, worth in past:
        counts[true_rank(case.classes, truth, n_classes)] += worth
    return counts


def past_rank_tables(past: list[Case], y: Sequence[int], k: int, n_classes: int) -> list[list[float]]:
    """P(rank given v votes) for v = 1 … K'."""
    expected, n_voters = rank_table(rank_counts(past, n_classes)), voters(y, k)
    tables = []
    for v in range(n_voters, 0, -1):
        alike = [case for case in past if past_votes(case[0], n_voters) == v]
        tables.insert(0, shrunk(rank_counts(alike, n_classes), expected))
        expected = tables[0] if tables[0][0] < expected[0] else expected
    return tables


def past_votes(case: Line, n_voters: int) -> int:
    asked = case.said[:n_voters]
    return asked.count(winner(asked))


def rank(past: list, query: Line, y: Sequence[int], k: int, n_classes: int) -> list[float]:
    return by_rank(rank_table(rank_counts(past, n_classes)), query.classes, n_classes)


def rank_votesplit(past: list, query: Line, y: Sequence[int], k: int, n_classes: int) -> list[float]:
    tables = past_rank_tables(past, y, k, n_classes)
    return by_rank(between(tables, query.said.count(winner(query.said)), y, k), query.classes, n_classes)


# ---------------------------------------------------------------- confusion


def confmat(past: list, query: Line, y: Sequence[int], k: int, n_classes: int, normalize: str = "row") -> list[float]:
    n_voters = voters(y, k)
    pairs = [(truth, winner(case.said[:n_voters]), worth) for case, truth, worth in past]
    said = winner(query.said)
    cases = [pair for pair in pairs if pair[0 if normalize == "row" else 1] == said]
    cases = cases or pairs
    right = sum(w for truth, predicted, w in cases if truth == predicted) / sum(w for _, _, w in cases)
    if n_classes == 1:
        return [1.0]
    return [right if c == said else (1 - right) / (n_classes - 1) for c in range(n_classes)]


def confmat_column(past: list, query: Line, y: Sequence[int], k: int, n_classes: int) -> list[float]:
    return confmat(past, query, y, k, n_classes, "column")


def _confmat_of(past: list, tables: list[list[float]], query: Line, n_classes: int) -> list[float]:
    matrix = [[1.0] * n_classes for _ in range(n_classes)]
    for (case, truth, worth), table in zip(past, tables, strict=True):
        for c, p in enumerate(by_rank(table, case.classes, n_classes)):
            matrix[truth][c] += worth * p
    column = [row[winner(query.said)] / sum(row) for row in matrix]
    return [value / sum(column) for value in column]


def confmat_rank(past: list, query: Line, y: Sequence[int], k: int, n_classes: int) -> list[float]:
    return _confmat_of(past, [rank_table(rank_counts(past, n_classes))] * len(past), query, n_classes)


def confmat_rank_votesplit(past: list, query: Line, y: Sequence[int], k: int, n_classes: int) -> list[float]:
    tables, n_voters = past_rank_tables(past, y, k, n_classes), voters(y, k)
    return _confmat_of(past, [tables[past_votes(case, n_voters) - 1] for case, _, _ in past], query, n_classes)


# ---------------------------------------------------------------- distance and votes


def dist_votesplit(past: list, query: Line, y: Sequence[int], k: int, n_classes: int) -> list[float]:
    n_voters, n_bins = voters(y, k), 20
    largest = max(d for case, _, _ in past for d in case.distances[:n_voters])

    def bin_of(d: float) -> int:
        if d == 0:
            return 0
        return n_bins - 1 if d >= largest else min(int(d / (largest / n_bins)), n_bins - 1)

    same = [[Fraction(0)] * n_bins for _ in range(n_voters)]
    other = [[Fraction(0)] * n_bins for _ in range(n_voters)]
    for case, truth, worth in past:
        v = past_votes(case, n_voters)
        for label, d in zip(case.said[:n_voters], case.distances[:n_voters], strict=True):
            (same if label == truth else other)[v - 1][bin_of(d)] += worth
    n_same, n_other = sum(map(sum, same)), sum(map(sum, other))
    of_all = (n_same + 0.5) / (n_same + n_other + 1)
    readings = []
    for h1, h2 in zip(same, other, strict=True):
        of_line = (sum(h1) + of_all) / (sum(h1) + sum(h2) + 1)
        shares = [(a + of_line) / (a + b + 1) for a, b in zip(h1, h2, strict=True)]
        readings.append([s * (1 - of_all) / (s * (1 - of_all) + (1 - s) * of_all) for s in shares])
    reading = between(readings, query.said.count(winner(query.said)), y, k)
    p = [0.0] * n_classes
    for label, d in zip(query.said, query.distances, strict=True):
        p[label] = max(p[label], reading[bin_of(d)])
    return [value / sum(p) for value in p]


# ---------------------------------------------------------------- weights


def votes(query: Line, weights: Sequence[float], n_classes: int) -> list[float]:
    """What the neighbors that say each class weigh together; ``weights`` are those of all rows."""
    return [
        sum(weights[row] for row, label in zip(query.rows, query.said, strict=True) if label == c)
        for c in range(n_classes)
    ]


def log_likelihood(
    weights: Sequence[float], right: Sequence[Sequence[int]], worth: Sequence[float] | None = None
) -> float:
    """Σ worth · log Σ w_i over the right neighbors, of the cases that have one."""
    return sum(
        w_case * math.log(max(sum(w for w, hit in zip(weights, case, strict=True) if hit), 1e-300))
        for case, w_case in zip(right, worth or [1.0] * len(right), strict=True)
        if any(case)
    )


def weighted(said: Sequence[int], weights: Sequence[float], n_classes: int) -> list[float]:
    p = [sum(w for label, w in zip(said, weights, strict=True) if label == c) for c in range(n_classes)]
    return [value / sum(p) for value in p]
