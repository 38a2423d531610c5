"""The pool, the product and the choice of exponents as loops, straight from the formulas."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize, minimize_scalar

FLOOR_SHARE = 0.3
PRECISION = 0.1
BELIEF = 0.1


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def class_distances(X: np.ndarray, y: np.ndarray, q: Sequence[float], left_out: int | None) -> dict[int, list[float]]:
    """The distances of q to the members of each class, nearest first; without the row that q is."""
    found: dict[int, list[float]] = {}
    for row, (x, label) in enumerate(zip(X, y, strict=True)):
        if row != left_out and not np.isnan(x).any():
            found.setdefault(int(label), []).append(distance(q, x))
    return {label: sorted(distances) for label, distances in found.items()}


def usable_members(y: np.ndarray, members: Sequence[int]) -> list[int]:
    sizes = sorted(int((y == label).sum()) for label in y)
    middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
    most = max(1, min(4, int(middle) - 1), int(middle) // 4)
    return sorted({min(k, most) for k in members})


def floor_of(X: np.ndarray, y: np.ndarray) -> float:
    """Three tenths of the usual distance of a row to its nearest other row, of those that are not 0."""
    nearest = []
    for row in range(len(X)):
        if not np.isnan(X[row]).any():
            by_class = class_distances(X, y, X[row], row)
            if by_class:
                nearest.append(min(distances[0] for distances in by_class.values()))
    positive = [d for d in nearest if d > 0]
    return FLOOR_SHARE * (float(np.median(positive)) if positive else 1.0)


def features(
    X: np.ndarray, y: np.ndarray, q: np.ndarray, left_out: int | None, members: Sequence[int], floor: float
) -> list[list[float]]:
    """[class][number] log of the mean distance of that many nearest members."""
    n_classes = int(y.max()) + 1
    if np.isnan(q).any():
        return [[0.0] * len(members) for _ in range(n_classes)]
    by_class = class_distances(X, y, q, left_out)
    table = [
        [math.log(np.mean(by_class[c][:k]) + floor) for k in members] if c in by_class else None
        for c in range(n_classes)
    ]
    met = [row for row in table if row is not None]
    if not met:
        return [[0.0] * len(members) for _ in range(n_classes)]
    usual = [sum(row[j] for row in met) / len(met) for j in range(len(members))]
    return [usual if row is None else row for row in table]


def softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores)
    exps = [math.exp(score - highest) for score in scores]
    return [e / sum(exps) for e in exps]


def pooled(
    groups: Sequence[np.ndarray],
    y: np.ndarray,
    queries: Sequence[np.ndarray],
    members: Sequence[int],
    largest: float,
    row_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (that of the class size last) and probabilities of the pool.

    ``largest`` is the model failure allowed, ``row_weights`` what each row counts for.
    """
    counts_for = np.ones(len(y)) if row_weights is None else row_weights / np.mean(row_weights)
    members = usable_members(y, members)
    floors = [floor_of(X, y) for X in groups]
    n_classes = int(y.max()) + 1

    def of(rows: Sequence[np.ndarray], left_out: int | None) -> np.ndarray:
        parts = [features(X, y, q, left_out, members, floor) for X, q, floor in zip(groups, rows, floors, strict=True)]
        rows_of = [int((y == c).sum()) for c in range(n_classes)]
        together = [float(counts_for[y == c].sum()) for c in range(n_classes)]
        usual = statistics.median([size for n, size in zip(rows_of, together, strict=True) if n > 1])
        sizes = [-math.log(size if n > 1 else usual) for n, size in zip(rows_of, together, strict=True)]
        return np.array([[*(value for part in parts for value in part[c]), sizes[c]] for c in range(n_classes)])

    usable = [i for i in range(len(y)) if (y == y[i]).sum() > 1]
    cases = [(of([X[i] for X in groups], i), int(y[i])) for i in usable]
    worth = [float(counts_for[i]) for i in usable]

    def loss(weights: np.ndarray) -> float:
        lost = PRECISION / 2 * float(weights @ weights)
        for (table, truth), w in zip(cases, worth, strict=True):
            lost -= w * math.log(max(softmax([-float(row @ weights) for row in table])[truth], 1e-300))
        return lost

    found = minimize(loss, np.zeros(len(groups) * len(members) + 1), method="BFGS", options={"gtol": 1e-9})
    weights = found.x
    p_true = [softmax([-float(row @ weights) for row in table])[truth] for table, truth in cases]
    share = min(largest, most_likely_failure(p_true, n_classes, worth))
    answers = []
    for q in zip(*queries, strict=True):
        p = softmax([-float(row @ weights) for row in of(list(q), None)])
        answers.append([(1 - share) * value + share / n_classes for value in p])
    return weights, np.array(answers)


def most_likely_failure(p_true: Sequence[float], n_classes: int, worth: Sequence[float] | None = None) -> float:
    worth = [1.0] * len(p_true) if worth is None else worth

    def lost(log_odds: float) -> float:
        share = 1 / (1 + math.exp(-log_odds))
        total = sum(w * math.log((1 - share) * p + share / n_classes) for p, w in zip(p_true, worth, strict=True))
        return -(total + BELIEF * math.log(share) + BELIEF * math.log(1 - share))

    found = minimize_scalar(lost, bounds=(-40, 20), method="bounded", options={"xatol": 1e-10})
    return 1 / (1 + math.exp(-float(found.x)))


def product(posteriors: Sequence[Sequence[float]], exponents: Sequence[float]) -> list[float]:
    """Eq. (3) for one query, with exponents."""
    logs = [
        sum(e * math.log(p[c]) for e, p in zip(exponents, posteriors, strict=True)) for c in range(len(posteriors[0]))
    ]
    return softmax(logs)
