"""Exact Euclidean search against scikit-learn's brute force and tuned faiss.

All in one process, taking turns, one thread each unless a row says two. faiss
is tuned as its users rarely know to: products for batches of any size
(``distance_compute_blas_threshold = 1``) and the better of two block sizes;
``OPENBLAS_CORETYPE`` is passed on to its bundled OpenBLAS if you set it.
Every engine answers the same queries, and a row is reported only after some of
our answers to all of them together were compared with a float64 reference.
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
from nearsay.arrays import evenly
from nearsay.errors import DatasetNotFound

SHAPES = [(100_000, 128, 4096, 10), (100_000, 128, 2048, 200), (60_000, 784, 1024, 10), (1_000_000, 64, 1024, 10)]
TINY_SHAPES = [(2_000, 16, 64, 10)]


def run(tiny: bool) -> Rows:
    repeats = 1 if tiny else 4
    rng = np.random.default_rng(0)
    rows = []
    for n, d, n_queries, k in TINY_SHAPES if tiny else SHAPES:
        X, Q = (rng.standard_normal((size, d), dtype=np.float32) for size in (n, n_queries))
        rows.append(exact_row(f"{n}×{d}, k={k}", X, Q, k, repeats=repeats))
    if not tiny and (mnist := images()):
        rows.append(exact_row("MNIST, 60000×784, k=10", *mnist, 10, repeats=repeats))
    for n_queries, dtype in ((1, "float64"), (1, "float32"), (100, "float64")):
        rows.append(small_row(n_queries, dtype, repeats=20 if tiny else 2000 // n_queries))
    return rows


def images() -> tuple[np.ndarray, np.ndarray] | None:
    """MNIST, where it is on this machine: noise in 784 dimensions is the hardest case, images are an ordinary one."""
    try:
        train, test = (ns.load_dataset("mnist", split=split).X.astype(np.float32) for split in ("train", "test"))
    except DatasetNotFound:
        return None
    return train, test[:1024]


def exact_row(case: str, X: np.ndarray, Q: np.ndarray, k: int, *, repeats: int) -> dict[str, object]:
    n_queries, d = Q.shape
    ours = ns.NeighborIndex(search="exact").fit(X)
    brute = NearestNeighbors(algorithm="brute").fit(X)
    flat = faiss.IndexFlatL2(d)
    flat.add(X)
    check_against_float64(X, Q, ours.query(Q, k).indices)
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
        "case": case,
        "queries/s": n_queries / one["ours"],
        "× scikit-learn": one["sklearn"] / one["ours"],
        "× tuned faiss": one["faiss"] / one["ours"],
        "share of the bare product": one["product"] / one["ours"],
        "two threads ×": one["ours"] / two,
        "faiss blocks": blas_blocks,
    }


def small_row(n_queries: int, dtype: str, *, repeats: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    X, Q = (rng.standard_normal((size, 64)).astype(dtype) for size in (1500, n_queries))
    ours = ns.NeighborIndex(search="exact").fit(X)
    brute = NearestNeighbors(algorithm="brute").fit(X)
    check_against_float64(X, Q, ours.query(Q, 10).indices)
    with threadpool_limits(1), ns.threads(1):
        # So short that taking turns would measure the caches, not the engines.
        times = {
            "ours": best_time(lambda: ours.query(Q, 10), repeats),
            "sklearn": best_time(lambda: brute.kneighbors(Q, 10), repeats),
            "product": best_time(lambda: Q @ X.T, repeats),
        }
    return {
        "case": f"1500×64 {dtype}, k=10, {n_queries} at a time",
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
    """Compare a sample of the answer that is timed, all queries at once, with a float64 reference."""
    for place in evenly(len(Q), 5):
        squares = ((X.astype(np.float64) - Q[place]) ** 2).sum(axis=1)
        assert set(np.argsort(squares, kind="stable")[: indices.shape[1]]) == set(indices[place]), "not exact"


if __name__ == "__main__":
    main("Exact search, one thread", run)
