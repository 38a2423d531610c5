"""Speed of exact search on this machine, in queries per second, compared with scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.core.parallel import thread_count
from nearsay.neighbors.index import NeighborIndex

ROUNDS = 3


def measure_search(n_rows: int, n_columns: int, k: int, n_queries: int = 1000) -> dict[str, Any]:
    """Queries a second of ``NeighborIndex`` and of scikit-learn's brute force, and their times as ratios.

    >>> [line["name"] for line in measure_search(50, 3, 2, n_queries=5)["lines"]]
    ['nearsay', 'scikit-learn, brute force']
    """
    from sklearn.neighbors import NearestNeighbors

    generator = np.random.default_rng(0)
    X, Q = generator.normal(size=(n_rows, n_columns)), generator.normal(size=(min(n_queries, n_rows), n_columns))
    k = min(k, n_rows)
    ours = NeighborIndex().fit(X)
    theirs = NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=thread_count()).fit(X)
    seconds = {
        "nearsay": _best(lambda: ours.query(Q, k)),
        "scikit-learn, brute force": _best(lambda: theirs.kneighbors(Q)),
    }
    return {
        "title": f"Exact search of {n_rows:,} × {n_columns}, k = {k}, {thread_count()} threads",
        "lines": [
            {"name": name, "per_second": len(Q) / taken, "ratio": taken / seconds["nearsay"]}
            for name, taken in seconds.items()
        ],
    }


def _best(run: Callable[[], Any]) -> float:
    """The shortest of several times, after one that is not counted."""
    run()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)
