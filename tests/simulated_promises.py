"""Promises by simulation: worlds whose truth is known, so that every promise made in them can be checked.

``python tests/simulated_promises.py`` prints the tables of docs/guarantees.md and docs/prediction-sets.md; the tests
look at fewer repetitions of the same.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from nearsay.decision.conformal import ConformalClassifier
from nearsay.decision.hedged import HedgedClassifier
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.weighted import Weighted
from nearsay.taxonomy.taxonomy import Taxonomy

FRESH = 4000
N_KINDS, N_BREEDS = 4, 2

# Four kinds of two breeds each in the plane: breeds are hard to tell apart, kinds less so.
TREE = Taxonomy.from_nested(
    {"all": {f"kind {kind}": [N_BREEDS * kind + breed for breed in range(N_BREEDS)] for kind in range(N_KINDS)}}
).with_leaves(range(N_KINDS * N_BREEDS))
_ANGLES = 2 * np.pi * np.arange(N_KINDS) / N_KINDS
_KINDS = 2.2 * np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
CENTERS = np.repeat(_KINDS, N_BREEDS, axis=0) + np.tile([[0.0, 0.0], [0.9, 0.9]], (N_KINDS, 1))

GROUPS = {"x": slice(0, 1), "y": slice(1, 2)}
ESTIMATORS: dict[str, Any] = {
    **{name: NeighborClassifier(5, posterior=name) for name in POSTERIORS},
    "weighted, by row": NeighborClassifier(5, posterior=Weighted(by="row")),
    "auto": NeighborClassifier("auto", posterior="auto"),
    "every view": NeighborClassifier(metric="auto"),
    "beside a model": NeighborClassifier(5, beside=LogisticRegression()),
    "fused, product": FusedClassifier(GROUPS, NeighborClassifier(5, posterior="rank&votesplit")),
    "fused, learned": FusedClassifier(GROUPS, NeighborClassifier(5, posterior="rank&votesplit"), exponents="learned"),
    "fused, pooled": FusedClassifier(GROUPS, NeighborClassifier(5, posterior="pooled")),
}


def kinds_and_breeds(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows around the centers, all classes equally likely."""
    y = random.integers(len(CENTERS), size=n)
    return CENTERS[y] + random.normal(size=(n, 2)), y


def true_posterior(X: np.ndarray) -> np.ndarray:
    """How likely each class truly is."""
    p = np.exp(-0.5 * ((X[:, None] - CENTERS) ** 2).sum(axis=2))
    return p / p.sum(axis=1, keepdims=True)


def true_accuracies(
    estimator: Any, n: int, accuracy: float, confidences: list[float], repetitions: int, fresh: int = FRESH
) -> np.ndarray:
    """How often hedged answers to new rows are right: (repetitions, confidences), a new collection each time."""
    random = np.random.default_rng((0, n))
    got = np.empty((repetitions, len(confidences)))
    for repetition in range(repetitions):
        X, y = kinds_and_breeds(random, n)
        Q, _ = kinds_and_breeds(random, fresh)
        right = true_posterior(Q) @ TREE.covers  # of every node, without the noise of drawing labels
        hedged = HedgedClassifier(estimator, TREE, accuracy, confidence=confidences[0]).fit(X, y)
        for place, confidence in enumerate(confidences):
            hedged.confidence = confidence
            nodes = TREE.check_labels(hedged.set_accuracy(accuracy).predict(Q).tolist())
            got[repetition, place] = right[np.arange(fresh), nodes].mean()
    return got


def long_tail(random: np.random.Generator, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Zipf's classes: class c is 1/(c+1) as frequent as the first, so that many have one row, and more have none."""
    share = 1 / np.arange(1, n_classes + 1)
    y = random.choice(n_classes, size=n, p=share / share.sum())
    centers = 3 * np.random.default_rng(0).normal(size=(n_classes, 4))
    return centers[y] + random.normal(size=(n, 4)), y


class Covered(NamedTuple):
    """One repetition: the share of new rows whose class is in their set, and whether the model said it could not be."""

    share: float
    seen: float
    asked_too_much: bool
    set_size: float


def coverages(
    estimator: Any, n: int, n_classes: int, coverage: float, repetitions: int, cv: Any = "split"
) -> list[Covered]:
    """Prediction sets for new rows of a long tail, a new collection each time."""
    random = np.random.default_rng((0, n, n_classes))
    found = []
    for _ in range(repetitions):
        X, y = long_tail(random, n, n_classes)
        Q, truth = long_tail(random, FRESH // 4, n_classes)
        sets = ConformalClassifier(estimator, coverage, cv=cv).fit(X, y)
        inside = sets.predict_set(Q)
        known = np.isin(truth, sets.classes_)
        places = np.searchsorted(sets.classes_, truth[known])
        covered = inside[np.flatnonzero(known), places].sum() / len(Q)
        found.append(Covered(covered, known.mean(), bool(np.isinf(sets.thresholds_).all()), inside.sum(axis=1).mean()))
    return found


def plane_coverages(estimator: Any, n: int, asked: list[float], repetitions: int) -> np.ndarray:
    """How often sets hold the class of new kinds and breeds: (repetitions, coverages), a new collection each time."""
    random = np.random.default_rng((1, n))
    got = np.empty((repetitions, len(asked)))
    for repetition in range(repetitions):
        sets = ConformalClassifier(estimator).fit(*kinds_and_breeds(random, n))
        Q, _ = kinds_and_breeds(random, FRESH // 4)
        likely = true_posterior(Q)[:, sets.classes_]  # without the noise of drawing labels
        for place, coverage in enumerate(asked):
            got[repetition, place] = (likely * sets.set_coverage(coverage).predict_set(Q)).sum(axis=1).mean()
    return got


def standard_error(share: float, repetitions: int) -> float:
    """Of a share of so many repetitions."""
    return math.sqrt(share * (1 - share) / repetitions)


def hedge_lines(sizes: list[int], names: list[str], repetitions: int, accuracy: float = 0.8) -> Iterator[str]:
    confidences = [0.9, 0.95]
    for name in names:
        cells = []
        for n in sizes:
            got = true_accuracies(ESTIMATORS[name], n, accuracy, confidences, repetitions)
            cells += [f"{kept:.3f}" for kept in (got >= accuracy).mean(axis=0)]
        yield f"| `{name}` | " + " | ".join(cells) + " |"


def set_lines(sizes: list[int], repetitions: int, coverage: float = 0.9) -> Iterator[str]:
    votes, pooled = NeighborClassifier(5, posterior="proportional"), NeighborClassifier(5, posterior="pooled")
    for name, estimator in (("proportional", votes), ("pooled", pooled)):
        for cv in ("split", None, 5):
            for n_classes in (30, 100, 1000):
                for n in sizes:
                    found = np.array(coverages(estimator, n, n_classes, coverage, repetitions, cv))
                    share, seen, too_much, size = found.mean(axis=0)
                    error = found[:, 0].std() / math.sqrt(repetitions)
                    yield (
                        f"| `{name}` | {cv} | {n_classes} | {n} | {1 - seen:.3f} | {share:.3f} ± {error:.3f} "
                        f"| {too_much:.2f} | {size:.1f} |"
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--names", nargs="+", default=list(ESTIMATORS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| posterior |" + "".join(f" n={n}, .9 | n={n}, .95 |" for n in given.sizes))
    for line in hedge_lines(given.sizes, given.names, given.repetitions):
        print(line, flush=True)
    print("| posterior | cv | classes | n | unseen | covered | cannot be reached | set size |")
    for line in set_lines([300, 1000], given.repetitions):
        print(line, flush=True)


if __name__ == "__main__":
    main()
