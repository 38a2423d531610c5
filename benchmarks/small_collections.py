"""What a way of its own for small collections gains: ``python -m benchmarks.small_collections [--tiny]``.

The same work with it and without it, in one process and on one thread, taking
turns. Collections of more than ``small.SMALL`` rows go the same way in both, so
their ratio shows what is noise.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_times, main
from nearsay.search.by_class import small

K = 10
SHAPES = [(150, 4, 3), (400, 16, 10), (1_600, 64, 100), (2_000, 16, 2), (5_000, 16, 10), (20_000, 32, 10)]
TINY_SHAPES = [(150, 4, 3)]
QUERIES = [1, 10, 1_000]


def run(tiny: bool) -> Rows:
    with threadpool_limits(1), ns.threads(1):
        return [row for shape in (TINY_SHAPES if tiny else SHAPES) for row in case(*shape, repeats=2 if tiny else 15)]


def case(n: int, d: int, n_classes: int, *, repeats: int) -> Rows:
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(n_classes, d))
    y = rng.integers(0, n_classes, n)
    X = centers[y] + rng.normal(size=(n, d))
    Q = centers[rng.integers(0, n_classes, max(QUERIES))] + rng.normal(size=(max(QUERIES), d))
    index = ns.NeighborIndex(search="exact").fit(X)
    classifier = ns.NeighborClassifier(K, posterior="rank&votesplit", search="exact")
    works: dict[str, Callable[[], object]] = {
        "leave_one_out": lambda: index.leave_one_out(K),
        "leave_one_out_classes": lambda: index.leave_one_out_classes(y, K),
        "NeighborClassifier.fit": lambda: classifier.fit(X, y),
    }
    for count in QUERIES:
        works[f"query_classes, {count}"] = lambda count=count: index.query_classes(Q[:count], y, K)
    return [
        {"rows, classes": f"{n}×{d}, {n_classes}", "work": name, **with_and_without(work, repeats)}
        for name, work in works.items()
    ]


def with_and_without(work: Callable[[], object], repeats: int) -> dict[str, float]:
    """Milliseconds of both, and the second over the first."""

    def without() -> object:
        with patch.object(small, "SMALL", 0):
            return work()

    work(), without()  # compiles
    times = best_times({"with": work, "without": without}, repeats)
    return {
        "ms with": 1000 * times["with"],
        "ms without": 1000 * times["without"],
        "gain ×": times["without"] / times["with"],
    }


if __name__ == "__main__":
    main("Small collections, one thread", run)
