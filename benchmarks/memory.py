"""Peak memory of a search beyond the rows, the queries and the answer, each case in a fresh process."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measuring import Rows, fresh, main, peak_megabytes

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


def run(tiny: bool) -> Rows:
    cases = TINY_CASES if tiny else CASES
    return [{**case, "MB beyond rows, queries, answer": fresh(extra_megabytes, case)} for case in cases]


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
