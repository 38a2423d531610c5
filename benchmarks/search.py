"""Exact Euclidean search against scikit-learn's brute force and tuned faiss.

All in one process, taking turns, one thread each unless a row says two. faiss
is tuned as its users rarely know to: products for batches of any size
(``distance_compute_blas_threshold = 1``) and the better of two block sizes;
``OPENBLAS_CORETYPE`` is passed on to its bundled OpenBLAS if you set it.
Every engine answers the same queries, and a row is reported only after our
answers were compared with a float64 reference for a few of them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_time, best_times, main

SHAPES = [(100_000, 128, 1024, 10), (100_000, 128, 1024, 200), (60_000, 784, 512, 10), (1_000_000, 64, 512, 10)]
TINY_SHAPES = [(2_000, 16, 64, 10)]


def run(tiny: bool) -> Rows:
    repeats = 1 if tiny else 4
    rows = [exact_row(*shape, repeats=repeats) for shape in (TINY_SHAPES if tiny else SHAPES)]
    return [*rows, small_row(1, repeats=50 if tiny else 3000), small_row(100, repeats=5 if tiny else 300)]


def exact_row(n: int, d: int, n_queries: int, k: int, *, repeats: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    Q = rng.standard_normal((n_queries, d), dtype=np.float32)
    ours = ns.NeighborIndex(search="exact").fit(X)
    brute = NearestNeighbors(algorithm="brute").fit(X)
    flat = faiss.IndexFlatL2(d)
    flat.add(X)
    check_against_float64(X, Q[:5], ours.query(Q[:5], k).indices)
    blas_blocks = tune_faiss(flat, Q[:256], k)

    def on_threads(threads: int):  # every engine keeps to this many
        faiss.omp_set_num_threads(threads)
        return threadpool_limits(threads)

    with on_threads(1), ns.threads(1):
        one = best_times(
            {
                "ours": lambda: ours.query(Q, k),
                "sklearn": lambda: brute.kneighbors(Q, k),
                "faiss": lambda: flat.search(Q, k),
                "product": lambda: product_alone(X, Q),
            },
            repeats,
        )
    with on_threads(2), ns.threads(2):
        two = best_time(lambda: ours.query(Q, k), repeats)
    return {
        "case": f"{n}×{d}, k={k}",
        "queries/s": n_queries / one["ours"],
        "× scikit-learn": one["sklearn"] / one["ours"],
        "× tuned faiss": one["faiss"] / one["ours"],
        "share of the bare product": one["product"] / one["ours"],
        "two threads ×": one["ours"] / two,
        "faiss blocks": blas_blocks,
    }


def small_row(n_queries: int, *, repeats: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 64))
    Q = rng.standard_normal((n_queries, 64))
    ours = ns.NeighborIndex(search="exact").fit(X)
    brute = NearestNeighbors(algorithm="brute").fit(X)
    check_against_float64(X, Q[:5], ours.query(Q[:5], 10).indices)
    with threadpool_limits(1), ns.threads(1):
        times = best_times(
            {
                "ours": lambda: ours.query(Q, 10),
                "sklearn": lambda: brute.kneighbors(Q, 10),
                "product": lambda: Q @ X.T,
            },
            repeats,
        )
    return {
        "case": f"1500×64 float64, k=10, {n_queries} at a time",
        "queries/s": n_queries / times["ours"],
        "× scikit-learn": times["sklearn"] / times["ours"],
        "share of the bare product": times["product"] / times["ours"],
    }


def product_alone(X: np.ndarray, Q: np.ndarray) -> None:
    """The float32 products that exact search cannot do without, in blocks."""
    out = np.empty((512, 1024), np.float32)
    for start in range(0, len(Q), 512):
        some = Q[start : start + 512]
        for first in range(0, len(X), 1024):
            block = X[first : first + 1024]
            np.matmul(some, block.T, out=out[: len(some), : len(block)])


def tune_faiss(index: object, Q: np.ndarray, k: int) -> str:
    """Set faiss's block sizes to the faster of two, and say which."""
    faiss.cvar.distance_compute_blas_threshold = 1
    faiss.omp_set_num_threads(1)
    times = {}
    for queries, rows in ((4096, 1024), (256, 4096)):
        faiss.cvar.distance_compute_blas_query_bs, faiss.cvar.distance_compute_blas_database_bs = queries, rows
        times[queries, rows] = best_time(lambda: index.search(Q, k), 2)
    best = min(times, key=times.__getitem__)
    faiss.cvar.distance_compute_blas_query_bs, faiss.cvar.distance_compute_blas_database_bs = best
    return f"{best[0]}×{best[1]}"


def check_against_float64(X: np.ndarray, Q: np.ndarray, indices: np.ndarray) -> None:
    for q, found in zip(Q.astype(np.float64), indices, strict=True):
        squares = ((X.astype(np.float64) - q) ** 2).sum(axis=1)
        assert set(np.argsort(squares, kind="stable")[: len(found)]) == set(found), "not exact"


if __name__ == "__main__":
    main("Exact search, one thread", run)
