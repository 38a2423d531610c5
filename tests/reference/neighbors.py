"""Slow, obvious versions of everything, straight from the formulas: plain loops over plain floats.

The fast code is compared with these on small random inputs full of ties and
duplicates. Nothing here is clever, and nothing here imports nearsay.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy.interpolate import RBFInterpolator

# ---------------------------------------------------------------- neighbors


def nearest(
    X: Sequence, Q: Sequence, k: int, distance: Callable, *, leave_out_itself: bool = False
) -> tuple[list[list[int]], list[list[float]]]:
    """Row numbers and distances of the k nearest rows, ties by row number."""
    indices, distances = [], []
    for i, q in enumerate(Q):
        measured = [(distance(q, x), row) for row, x in enumerate(X) if not (leave_out_itself and row == i)]
        measured.sort()
        indices.append([row for _, row in measured[:k]])
        distances.append([d for d, _ in measured[:k]])
    return indices, distances


def nearest_by_class(
    X: Sequence,
    labels: Sequence[int],
    Q: Sequence,
    n_members: int,
    n_classes: int,
    distance: Callable,
    *,
    leave_out_itself: bool = False,
) -> tuple[list, list]:
    """Row numbers and distances of the nearest members of each class; −1 and inf where there are too few."""
    indices, distances = [], []
    for i, q in enumerate(Q):
        rows_of_query, distances_of_query = [], []
        for c in range(n_classes):
            members = [row for row in range(len(X)) if labels[row] == c and not (leave_out_itself and row == i)]
            measured = sorted((distance(q, X[row]), row) for row in members)[:n_members]
            missing = n_members - len(measured)
            rows_of_query.append([row for _, row in measured] + [-1] * missing)
            distances_of_query.append([d for d, _ in measured] + [math.inf] * missing)
        indices.append(rows_of_query)
        distances.append(distances_of_query)
    return indices, distances


# ---------------------------------------------------------------- classes by their nearest member


def nearest_classes(
    X: Sequence,
    labels: Sequence[int],
    Q: Sequence,
    members: Sequence[int],
    distance: Callable,
    *,
    n_listed: int,
    n_asked: int | None = None,
    left_out: Sequence[int] | None = None,
    removed: Iterable[int] = (),
) -> tuple[list, list, list, list]:
    """Class numbers by their nearest member, its distance, means of several, and how far the others are at least.

    Only the ``n_asked`` nearest rows are asked for their classes (None: all rows). Of the 16 nearest classes the
    means over each number of ``members`` are told, those of several in seven digits. −1 and inf fill up; with no
    ``members`` the order is all.
    """
    numbers, nearest, means, beyond = [], [], [], []
    for i, q in enumerate(Q):
        gone = {*removed, left_out[i]} if left_out is not None else set(removed)
        if left_out is not None and left_out[i] in set(removed):
            gone = set(range(len(X)))
        measured = sorted((distance(q, X[row]), row) for row in range(len(X)) if row not in gone)
        asked = measured if n_asked is None else measured[:n_asked]
        end = asked[-1][0] if len(asked) < len(measured) else math.inf
        by_class: dict[int, list[float]] = {}
        for d, row in asked:
            by_class.setdefault(labels[row], []).append(d)
        for _, row in measured[len(asked) :]:
            if labels[row] in by_class:
                by_class[labels[row]].append(end)
        listed, far = list(by_class), list(by_class.values())
        missing = n_listed - len(listed)
        numbers.append([*listed, *[-1] * missing])
        nearest.append([*(line[0] for line in far), *[math.inf] * missing] if members else [])
        told = [[mean_of_first(line, m) for m in members] for line in far]
        means.append([*told, *[[math.inf] * len(members)] * missing][:16])
        beyond.append(end)
    return numbers, nearest, means, beyond


def mean_of_first(far: Sequence[float], m: int) -> float:
    """The mean of the m first, or of all: of several with the 24 bits of float32, at any scale."""
    mean = in_order(far[:m]) / len(far[:m])
    if m == 1 or not 0 < mean < math.inf:
        return mean
    share, power = math.frexp(mean)
    return math.ldexp(float(np.float32(share)), power)


# ---------------------------------------------------------------- distances
# Each takes two rows of numbers, the query first, and adds up coordinate by coordinate.


def in_order(values: Iterable[float]) -> float:
    """A sum from left to right, rounded at every step (the built-in ``sum`` compensates for rounding)."""
    total = 0.0
    for value in values:
        total += value
    return total


def pairs(a: Sequence[float], b: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(a, b, strict=True)]


def sqeuclidean(a: Sequence[float], b: Sequence[float]) -> float:
    return in_order((x - y) * (x - y) for x, y in pairs(a, b))


def euclidean(a: Sequence[float], b: Sequence[float]) -> float:
    return math.sqrt(sqeuclidean(a, b))


def manhattan(a: Sequence[float], b: Sequence[float]) -> float:
    return in_order(abs(x - y) for x, y in pairs(a, b))


def chebyshev(a: Sequence[float], b: Sequence[float]) -> float:
    return max(abs(x - y) for x, y in pairs(a, b))


def minkowski(a: Sequence[float], b: Sequence[float], p: float) -> float:
    return in_order(abs(x - y) ** p for x, y in pairs(a, b)) ** (1 / p)


def mahalanobis(a: Sequence[float], b: Sequence[float], L: Sequence[Sequence[float]]) -> float:
    components = [in_order(float(w) * (x - y) for w, (x, y) in zip(row, pairs(a, b), strict=True)) for row in L]
    return math.sqrt(in_order(c * c for c in components))


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    dot = in_order(x * y for x, y in pairs(a, b))
    length_a = math.sqrt(in_order(x * x for x, _ in pairs(a, b)))
    length_b = math.sqrt(in_order(y * y for _, y in pairs(a, b)))
    return min(max(1 - dot / (length_a * length_b), 0.0), 2.0)


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    mean_a = in_order(x for x, _ in pairs(a, b)) / len(a)
    mean_b = in_order(y for _, y in pairs(a, b)) / len(b)
    return cosine([float(x) - mean_a for x in a], [float(y) - mean_b for y in b])


def canberra(a: Sequence[float], b: Sequence[float]) -> float:
    return in_order(abs(x - y) / (abs(x) + abs(y)) for x, y in pairs(a, b) if (x, y) != (0, 0))


def braycurtis(a: Sequence[float], b: Sequence[float]) -> float:
    different = in_order(abs(x - y) for x, y in pairs(a, b))
    return different / in_order(abs(x + y) for x, y in pairs(a, b)) if different > 0 else 0.0


def hamming(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x != y for x, y in pairs(a, b)) / len(a)


def jaccard(a: Sequence[float], b: Sequence[float]) -> float:
    present = [(x != 0, y != 0) for x, y in pairs(a, b) if x != 0 or y != 0]
    return sum(x != y for x, y in present) / len(present) if present else 0.0


def chi2(a: Sequence[float], b: Sequence[float]) -> float:
    return in_order((x - y) * (x - y) / (x + y) for x, y in pairs(a, b) if x + y > 0) / 2


def hellinger(a: Sequence[float], b: Sequence[float]) -> float:
    roots = [(math.sqrt(x), math.sqrt(y)) for x, y in pairs(a, b)]
    return math.sqrt(in_order((x - y) * (x - y) for x, y in roots) / 2)


def intersection(a: Sequence[float], b: Sequence[float]) -> float:
    totals = in_order(x for x, _ in pairs(a, b)), in_order(y for _, y in pairs(a, b))
    return 1 - in_order(min(x, y) for x, y in pairs(a, b)) / max(totals)


def shares(a: Sequence[float]) -> list[float]:
    total = in_order(float(x) for x in a)
    return [float(x) / total for x in a]


def jensen_shannon(a: Sequence[float], b: Sequence[float]) -> float:
    from_a = in_order(x * math.log(x / ((x + y) / 2)) for x, y in pairs(shares(a), shares(b)) if x > 0)
    from_b = in_order(y * math.log(y / ((x + y) / 2)) for x, y in pairs(shares(a), shares(b)) if y > 0)
    return math.sqrt(max(from_a + from_b, 0.0) / 2)


def kullback_leibler(a: Sequence[float], b: Sequence[float], smoothing: float = 1e-9) -> float:
    p, q = ([(x + smoothing) / (1 + smoothing * len(a)) for x in shares(row)] for row in (a, b))
    return max(in_order(x * math.log(x / y) for x, y in pairs(p, q)), 0.0)


# ---------------------------------------------------------------- images


def gaussian(sigma: float, derivative: bool = False) -> dict[int, float]:
    """Weights by offset, out to four sigma; with ``derivative`` those of its slope."""
    reach = int(4 * sigma + 0.5)
    bell = {t: math.exp(-0.5 * (t / sigma) ** 2) for t in range(-reach, reach + 1)}
    total = sum(bell.values())
    return {t: b / total * (-t / sigma**2 if derivative else 1.0) for t, b in bell.items()}


def blurred(image: Sequence[Sequence[float]], sigma: float, slope_along: str = "") -> list[list[float]]:
    """Convolution with a Gaussian (or its slope along "x" or "y"); 0 outside the image."""
    height, width = len(image), len(image[0])
    down, right = gaussian(sigma, slope_along == "y"), gaussian(sigma, slope_along == "x")
    return [
        [
            sum(
                down[i] * right[j] * float(image[y - i][x - j])
                for i in down
                for j in right
                if 0 <= y - i < height and 0 <= x - j < width
            )
            for x in range(width)
        ]
        for y in range(height)
    ]


def tangents(image: Sequence[Sequence[float]], sigma: float) -> list[list[float]]:
    """The seven directions in which small transformations move an image, flattened."""
    dx, dy = blurred(image, sigma, "x"), blurred(image, sigma, "y")
    moves: list[Callable[[float, float, float, float], float]] = [
        lambda x, y, dx, dy: dx,
        lambda x, y, dx, dy: dy,
        lambda x, y, dx, dy: x * dx + y * dy,
        lambda x, y, dx, dy: y * dx - x * dy,
        lambda x, y, dx, dy: x * dx - y * dy,
        lambda x, y, dx, dy: y * dx + x * dy,
        lambda x, y, dx, dy: dx**2 + dy**2,
    ]
    middle_y, middle_x = (len(image) - 1) / 2, (len(image[0]) - 1) / 2
    return [
        [move(x - middle_x, y - middle_y, dx[y][x], dy[y][x]) for y in range(len(image)) for x in range(len(image[0]))]
        for move in moves
    ]


def tangent_directions(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], sigma: float, sides: str = "both"
) -> list[list[float]]:
    """The directions in which the images are moved, of length one, without those that move nothing."""
    directions = (tangents(a, sigma) if sides != "row" else []) + (tangents(b, sigma) if sides != "query" else [])
    lengths = [math.sqrt(sum(v * v for v in direction)) for direction in directions]
    return [[v / n for v in direction] for direction, n in zip(directions, lengths, strict=True) if n > 0]


def tangent_distance(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], sigma: float, sides: str = "both"
) -> float:
    """The least |a + Ta·s − b − Tb·t| over all s and t, by least squares; "query" moves a only, "row" b only."""
    lines = zip(blurred(a, sigma), blurred(b, sigma), strict=True)
    start = [p - q for line_a, line_b in lines for p, q in zip(line_a, line_b, strict=True)]
    units = tangent_directions(a, b, sigma, sides)
    if not units:
        return math.sqrt(sum(v * v for v in start))
    A = np.array(units).T
    steps = np.linalg.lstsq(A, np.array(start), rcond=1e-6)[0]
    return float(np.linalg.norm(np.array(start) - A @ steps))


def shape_contexts(points: Sequence[Sequence[float]]) -> list[list[float]]:
    """For each point the share of the others in every ring (5) and sector (12, from −7.5°) around it."""
    n = len(points)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    mean = sum(math.dist(points[i], points[j]) for i, j in pairs) / len(pairs)
    out = [[0.0] * 60 for _ in points]
    for i, j in pairs:
        radius = math.dist(points[i], points[j]) / mean
        rings = [ring for ring in range(5) if radius < 2.0 ** (ring - 3)]
        angle = math.degrees(math.atan2(points[j][0] - points[i][0], points[j][1] - points[i][1]))
        if rings:
            out[i][rings[0] * 12 + int((angle + 7.5) % 360 // 30)] += 1 / (n - 1)
    return out


def shape_costs(query: dict, row: dict, row_points: Sequence[Sequence[float]]) -> list[list[float]]:
    """Seven tenths χ² of the contexts, three tenths how the contours' directions differ."""
    contexts_q, contexts_r = shape_contexts(query["points"]), shape_contexts(row_points)
    return [
        [
            0.7 * sum(0.5 * (u - v) ** 2 / (u + v) for u, v in zip(h, g, strict=True) if u + v > 0)
            + 0.3 * 0.5 * (1 - math.cos(angle_q - angle_r))
            for g, angle_r in zip(contexts_r, row["angles"], strict=True)
        ]
        for h, angle_q in zip(contexts_q, query["angles"], strict=True)
    ]


def shape_context_distance(query: dict, row: dict) -> float:
    """Every matching is tried, so only for a handful of points (as many on both sides)."""
    stiffness = 20.0  # of a plate with r² log r²; scipy's has half of that, r² log r
    n, points = len(row["points"]), row["points"]
    costs = shape_costs(query, row, points)
    for _ in range(3):
        matching = min(itertools.permutations(range(n)), key=lambda m, c=costs: sum(c[i][m[i]] for i in range(n)))
        sources = np.array([row["points"][j] for j in matching])
        targets = np.array(query["points"])
        plate = RBFInterpolator(sources, targets, kernel="thin_plate_spline", smoothing=stiffness / 2, degree=1)
        points = plate(np.array(row["points"])).tolist()
        costs = shape_costs(query, row, points)
    # How far the plate stays back, by its stiffness, is the force at each point.
    forces = (targets - plate(sources)) / stiffness
    bending = sum(
        float(forces[i] @ forces[j]) * math.dist(a, b) ** 2 * math.log(math.dist(a, b) ** 2)
        for (i, a), (j, b) in itertools.permutations(enumerate(sources.tolist()), 2)
    )
    context = sum(min(line) for line in costs) / n + sum(min(line[j] for line in costs) for j in range(n)) / n
    appearance = (
        sum(
            (p - q) ** 2
            for i in range(n)
            for p, q in zip(query["windows"][i], row["windows"][matching[i]], strict=True)
        )
        / n
    )
    return context + 0.3 * bending + 1.6 * appearance


# ---------------------------------------------------------------- votes and probabilities


def votes(said: Sequence[int], n_classes: int) -> list[int]:
    """How many neighbors say each class."""
    return [sum(1 for label in said if label == c) for c in range(n_classes)]


def winner(scores: Sequence[float], said: Sequence[int], tie_break: str) -> int:
    """The class with the largest score; ties go to the nearest neighbor's class, or to the first class."""
    tied = [c for c, score in enumerate(scores) if score == max(scores)]
    if tie_break == "nearest":
        for label in said:
            if label in tied:
                return label
    return tied[0]


def proportional(said: Sequence[int], n_classes: int, model_failure: float, smoothing: str) -> list[float]:
    """Eq. (4) of the paper on probabilities, or add-one."""
    if smoothing == "add-one":
        return [(v + 1) / (len(said) + n_classes) for v in votes(said, n_classes)]
    return [(1 - model_failure) * v / len(said) + model_failure / n_classes for v in votes(said, n_classes)]


def k_curve(
    X: Sequence, y: Sequence[int], n_classes: int, largest: int, *, tie_break: str, model_failure: float, smoothing: str
) -> tuple[list[float], list[float]]:
    """Accuracy and mean log posterior for k = 1 … largest: the whole collection judged anew for every k."""
    accuracies, log_posteriors = [], []
    for k in range(1, largest + 1):
        indices, _ = nearest(X, X, k, euclidean, leave_out_itself=True)
        right, total = 0, 0.0
        for truth, rows in zip(y, indices, strict=True):
            said = [y[row] for row in rows]
            right += winner(votes(said, n_classes), said, tie_break) == truth
            p = proportional(said, n_classes, model_failure, smoothing)[truth]
            total += math.log(p) if p > 0 else -math.inf
        accuracies.append(right / len(y))
        log_posteriors.append(total / len(y))
    return accuracies, log_posteriors


def novelty(
    X: Sequence, y: Sequence[int], queries: Sequence[Sequence[float]], k: int, *, by_class: bool = False
) -> list[float]:
    """Share of rows with a smaller sum of four signs than each query, by plain votes; equal ones count half.

    Beyond all rows half a row's share is divided by e with every unit. Every row is asked in a collection from which
    it was taken out, as a query would be.
    """
    n_classes = max(y) + 1
    reach = max(1, min(5, min(k, len(X) - 1) - 1))
    surroundings = min(10, k, len(X) - 1)
    nearest_of_all = [d[0] for d in nearest(X, X, 1, euclidean, leave_out_itself=True)[1]]
    positive = sorted(d for d in nearest_of_all if d > 0)
    middle = (positive[(len(positive) - 1) // 2] + positive[len(positive) // 2]) / 2 if positive else 1000.0

    def away(distance: float) -> float:
        return math.log(distance + middle / 1000)

    def signs(query: Sequence[float], here: list[int], n_neighbors: int) -> tuple[list[float], int]:
        rows, distances = (part[0] for part in nearest([X[r] for r in here], [query], n_neighbors, euclidean))
        others = {r: sorted(euclidean(X[here[r]], X[o]) for o in here if o != here[r]) for r in rows[:reach]}
        last = distances[min(reach, len(rows)) - 1]
        own = [other[reach - 1] if len(other) >= reach else last for other in others.values()]
        said = [y[here[r]] for r in rows]
        p = proportional(said, n_classes, 0.01, "model_failure")
        farther = away(last) - sum(map(away, own)) / len(own)
        best = winner(votes(said, n_classes), said, "nearest")
        # An equal share of 3 in 3 may be an ulp below 1 here, which 1e-6 would make a ten-billionth of a sign.
        around = [away(distance) for distance in distances[:surroundings]]
        return [around[0], sum(around) / len(around), farther, math.log(round(1 - max(p), 15) + 1e-6)], best

    everyone = list(range(len(X)))
    past = [signs(X[r], [o for o in everyone if o != r], min(k, len(X) - 1))[0] for r in everyone]
    centers = [sum(column) / len(past) for column in zip(*past, strict=True)]
    spreads = [
        math.sqrt(sum((sign - center) ** 2 for sign in column) / len(past))
        for column, center in zip(zip(*past, strict=True), centers, strict=True)
    ]

    def score(found: list[float]) -> float:
        parts = zip(found, centers, spreads, strict=True)
        return sum((sign - center) / (spread if spread > 1e-9 else 1.0) for sign, center, spread in parts)

    shares = []
    for query in queries:
        found, best = signs(query, everyone, k)
        here = score(found)
        of_class = [score(case) for case, label in zip(past, y, strict=True) if label == best]
        usual = of_class if by_class and len(of_class) >= 10 else [score(case) for case in past]
        equal = [abs(case - here) <= 1e-9 for case in usual]
        below = [case < here - 1e-9 for case in usual]
        share = (sum(below) + sum(equal) / 2) / len(usual)
        if share == 1:
            share -= math.exp(max(usual) - here) / (2 * len(usual))
        elif share == 0:
            share += math.exp(here - min(usual)) / (2 * len(usual))
        shares.append(share)
    return shares


def nearest_neighbor_error(X: Sequence, y: Sequence[int]) -> float:
    """How often the nearest other row has another label."""
    indices, _ = nearest(X, X, 1, euclidean, leave_out_itself=True)
    return sum(y[row] != truth for truth, (row,) in zip(y, indices, strict=True)) / len(y)


# ---------------------------------------------------------------- measures


def brier(p: Sequence[Sequence[float]], y: Sequence[int]) -> float:
    total = 0.0
    for row, true in zip(p, y, strict=True):
        for c, probability in enumerate(row):
            total += (probability - (1.0 if c == true else 0.0)) ** 2
    return total / len(p)


def expected_calibration_error(p: Sequence[Sequence[float]], y: Sequence[int], n_bins: int) -> float:
    """Bins of equal size by confidence; among equal confidences the right answers are shared out evenly."""
    cases = []
    for row, true in zip(p, y, strict=True):
        confidence = max(row)
        cases.append((confidence, 1.0 if list(row).index(confidence) == true else 0.0))
    cases.sort()
    evened = []
    for confidence, _ in cases:
        alike = [right for other, right in cases if other == confidence]
        evened.append((confidence, sum(alike) / len(alike)))
    n_bins = min(n_bins, len(cases))
    size, larger = divmod(len(cases), n_bins)
    total, start = 0.0, 0
    for b in range(n_bins):
        stop = start + size + (1 if b < larger else 0)
        total += abs(sum(right - confidence for confidence, right in evened[start:stop]))
        start = stop
    return total / len(cases)


def macro_precision_and_recall(predicted: Sequence, y: Sequence) -> tuple[float, float]:
    names = sorted(set(predicted) | set(y))
    precisions, recalls = [], []
    for name in names:
        right = sum(1 for said, true in zip(predicted, y, strict=True) if said == true == name)
        precisions.append(right / max(list(predicted).count(name), 1))
        recalls.append(right / max(list(y).count(name), 1))
    return sum(precisions) / len(names), sum(recalls) / len(names)


def largest_products(Q, X, k):
    """The rows with the largest inner products, equal ones by row number: (n_queries, k) numbers and products."""
    numbers, products = [], []
    for q in Q:
        found = []
        for i, x in enumerate(X):
            total = 0.0
            for a, b in zip(q, x, strict=True):
                total += float(a) * float(b)
            found.append((-total, i))
        found.sort()
        numbers.append([i for _, i in found[:k]])
        products.append([-minus for minus, _ in found[:k]])
    return np.array(numbers).reshape(len(Q), k), np.array(products).reshape(len(Q), k)
