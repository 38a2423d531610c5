"""Peak memory, each case in a fresh process: of a search beyond the rows, the queries and the answer; of a process that
fits a classifier to very many classes and asks it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.measuring import Rows, fresh, main, peak_megabytes, print_table

CASES: list[dict[str, Any]] = [
    {"n": 1_000_000, "d": 64, "dtype": "float32", "n_queries": 4_000, "k": 10},
    {"n": 1_000_000, "d": 64, "dtype": "float64", "n_queries": 4_000, "k": 200},
    {"n": 3_000_000, "d": 64, "dtype": "float32", "n_queries": 1_000, "k": 10},
    {"n": 60_000, "d": 784, "dtype": "uint8", "n_queries": 2_000, "k": 10},
    {"n": 20_000, "d": 16, "dtype": "float32", "n_queries": 200_000, "k": 200},
    {"n": 200_000, "d": 32, "dtype": "float32", "n_queries": 2_000, "k": 10, "kind": "full of ties"},
    {"n": 100_000, "d": 16, "dtype": "float64", "n_queries": 500, "k": 10, "distance": "manhattan"},
]
TINY_CASES: list[dict[str, Any]] = [{"n": 5_000, "d": 8, "dtype": "float32", "n_queries": 500, "k": 10}]


# Two rows a class: noise, which no view nor model tells apart.
FITS: list[dict[str, Any]] = [
    {"n": 4_000, "d": 20, "n_classes": 10, "metric": "euclidean"},
    {"n": 4_000, "d": 20, "n_classes": 2_000, "metric": "euclidean"},
    {"n": 20_000, "d": 20, "n_classes": 10_000, "metric": "auto"},
]
TINY_FITS: list[dict[str, Any]] = [{"n": 100, "d": 4, "n_classes": 2, "metric": "euclidean"}]


def run(tiny: bool) -> Rows:
    cases, fits = (TINY_CASES, TINY_FITS) if tiny else (CASES, FITS)
    of_fits = [{**case, **fresh(of_a_fit, case)} for case in fits]
    print_table("Peak memory of a process that fits a classifier and asks it 1,000 questions", of_fits)
    return [{**case, "MB beyond rows, queries, answer": fresh(extra_megabytes, case)} for case in cases]


def of_a_fit(case: dict[str, Any]) -> dict[str, float]:
    import nearsay as ns

    n, d, n_classes = (case[name] for name in ("n", "d", "n_classes"))
    rng = np.random.default_rng(0)
    X, y, Q = rng.normal(size=(n, d)), np.arange(n) % n_classes, rng.normal(size=(1000, d))
    before, start = peak_megabytes(), time.process_time()
    clf = ns.NeighborClassifier(metric=case["metric"]).fit(X, y)
    fitted = time.process_time() - start
    clf.predict_proba(Q)
    return {"MB before": before, "MB in all": peak_megabytes(), "fit, processor s": fitted}


def extra_megabytes(case: dict[str, Any]) -> float:
    import nearsay as ns

    n, d, dtype, n_queries, k = (case[name] for name in ("n", "d", "dtype", "n_queries", "k"))
    distance, kind = case.get("distance", "euclidean"), case.get("kind", "normal")
    rng = np.random.default_rng(0)
    X, Q = (make_rows(rng, rows, d, dtype, kind) for rows in (n, n_queries))
    warm_up = ns.NeighborIndex(distance, search="exact").fit(X[:500])
    warm_up.query(Q[:100], 10)
    warm_up.query(Q[:1], 10)
    before = peak_megabytes()
    table = ns.NeighborIndex(distance, search="exact").fit(X).query(Q, k)
    return peak_megabytes() - before - (table.indices.nbytes + table.distances.nbytes) / 2**20


def make_rows(rng: np.random.Generator, n: int, d: int, dtype: str, kind: str) -> np.ndarray:
    """Rows filled block by block, so that making them leaves no peak of its own."""
    out = np.empty((n, d), dtype)
    for start in range(0, n, 10_000):
        block = out[start : start + 10_000]
        if dtype == "uint8" or kind == "full of ties":
            block[:] = rng.integers(0, 2 if kind == "full of ties" else 256, block.shape)
        else:
            block[:] = rng.standard_normal(block.shape)
    return out


if __name__ == "__main__":
    main("Peak memory of exact search", run)
