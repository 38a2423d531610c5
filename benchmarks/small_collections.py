"""What a way of its own for small collections gains: ``python -m benchmarks.small_collections [--tiny]``.

The classes of the rows of a small collection, with that way (``search/by_class/small.py``)
and without it, in one process and on one thread, taking turns; CPU time, so that other work on the machine does not
count. What goes the same way in both, because the collection is too large or too little would be gained, shows how much
of a ratio is noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_times, main
from nearsay.search.by_class import small

K = 10
SHAPES = [(150, 4, 3), (1_600, 64, 10), (1_600, 64, 100), (2_000, 16, 2), (5_000, 16, 10)]
TINY_SHAPES = [(150, 4, 3)]
QUERIES = [1, 10, 1_000]
MEMBERS = [(), (1,), (1, 4)]  # means of so many members of each class; () is the order of the classes alone


def run(tiny: bool) -> Rows:
    with threadpool_limits(1), ns.threads(1):
        return [row for shape in (TINY_SHAPES if tiny else SHAPES) for row in case(*shape, repeats=2 if tiny else 7)]


def case(n: int, d: int, n_classes: int, *, repeats: int) -> Rows:
    repeats = repeats if n <= small.SMALL else 2
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(n_classes, d))
    y = rng.integers(0, n_classes, n)
    X = centers[y] + rng.normal(size=(n, d))
    Q = centers[rng.integers(0, n_classes, max(QUERIES))] + rng.normal(size=(max(QUERIES), d))
    labeled = ns.NeighborIndex(search="exact").fit(X).with_labels(y, n_classes)
    classifier = ns.NeighborClassifier(K, posterior="rank&votesplit", search="exact")
    works: dict[str, Callable[[], object]] = {"fit, rank&votesplit": lambda: classifier.fit(X, y)}
    for m in MEMBERS:
        works[f"leave one out, {told(m)}"] = lambda m=m: labeled.leave_one_out(K, m)
    for count in QUERIES:
        works[f"{count} queries, order"] = lambda n=count: labeled.query(Q[:n], K, ())
    return [
        {"rows, classes": f"{n}×{d}, {n_classes}", "work": name, **with_and_without(work, repeats)}
        for name, work in works.items()
    ]


def told(members: tuple[int, ...]) -> str:
    return f"{members[-1]} of each" if members else "order"


def with_and_without(work: Callable[[], object], repeats: int) -> dict[str, float]:
    """CPU milliseconds of both, and the second over the first."""

    def without() -> object:
        with patch.object(small, "SMALL", 0):
            return work()

    work(), without()  # compiles
    times = best_times({"with": work, "without": without}, repeats, time.process_time)
    return {
        "ms with": 1000 * times["with"],
        "ms without": 1000 * times["without"],
        "gain ×": times["without"] / times["with"],
    }


if __name__ == "__main__":
    main("Small collections, one thread", run)
