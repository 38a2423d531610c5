"""Promises by simulation: worlds whose truth is known, so that every promise made in them can be checked.

``python tests/simulated_promises.py`` prints the tables of docs/guarantees.md and docs/prediction-sets.md; the tests
look at fewer repetitions of the same.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from nearsay.data.taxonomy import Taxonomy
from nearsay.decision.hedged import HedgedClassifier
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.named import POSTERIORS

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
    "weighted, by row": NeighborClassifier(5, posterior=("weighted", {"by": "row"})),
    "auto": NeighborClassifier("auto", posterior="auto"),
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
    estimator: Any, n: int, accuracy: float, confidences: list[float], repetitions: int, seed: int = 0
) -> np.ndarray:
    """How often hedged answers to new rows are right: (repetitions, confidences), a new collection each time."""
    random = np.random.default_rng((seed, n))
    got = np.empty((repetitions, len(confidences)))
    for repetition in range(repetitions):
        X, y = kinds_and_breeds(random, n)
        Q, _ = kinds_and_breeds(random, FRESH)
        right = true_posterior(Q) @ TREE.covers  # of every node, without the noise of drawing labels
        hedged = HedgedClassifier(estimator, TREE, accuracy, confidence=confidences[0]).fit(X, y)
        for place, confidence in enumerate(confidences):
            hedged.confidence = confidence
            nodes = TREE.check_labels(hedged.set_accuracy(accuracy).predict(Q).tolist())
            got[repetition, place] = right[np.arange(FRESH), nodes].mean()
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


if __name__ == "__main__":
    main()
