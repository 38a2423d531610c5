"""Exact Euclidean search against what its users have today: faiss, scikit-learn, torch, usearch, scann.

All in one process, taking turns, on the same threads. faiss is tuned as its users rarely know to: products for batches
of any size (``distance_compute_blas_threshold = 1``), the better of two block sizes, and, where the OpenBLAS of its
wheel takes a processor for an older one, the right kernels (``OPENBLAS_CORETYPE``). torch, usearch and scann take part
where they are installed. Every engine answers the same queries, and a row is reported only after some of our answers
to all of them together were compared with a float64 reference.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import nearsay as ns
from benchmarks.measuring import Rows, best_time, best_times, main, print_table
from nearsay.core.arrays import evenly
from nearsay.core.parallel import cores
from nearsay.errors import DatasetNotFound
from nearsay.search.screening.products import product_seconds
from nearsay.search.screening.tiles import tile_families

# After numpy has loaded its own OpenBLAS, which knows the processor, and before faiss loads another that may not.
if platform.machine() == "x86_64" and "avx512f" in Path("/proc/cpuinfo").read_text():
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")

import faiss
from sklearn.neighbors import NearestNeighbors

SHAPES = [(100_000, 128, 4096, 10), (100_000, 128, 2048, 200), (60_000, 784, 1024, 10), (1_000_000, 64, 1024, 10)]
TINY_SHAPES = [(2_000, 16, 64, 10)]


SCALING = (1, 2, 4, 8, 16)


def run(tiny: bool) -> Rows:
    print_machine()
    repeats = 1 if tiny else 4
    rng = np.random.default_rng(0)
    rows, thread_rows = [], []
    for n, d, n_queries, k in TINY_SHAPES if tiny else SHAPES:
        X, Q = (rng.standard_normal((size, d), dtype=np.float32) for size in (n, n_queries))
        case = f"{n}×{d}, k={k}"
        rows.append(exact_row(case, X, Q, k, repeats=repeats))
        thread_rows.append(scaling_row(case, X, np.tile(Q, (1 if tiny else 4, 1)), k, repeats=repeats))
    if not tiny and (mnist := images()):
        rows.append(exact_row("MNIST, 60000×784, k=10", *mnist, 10, repeats=repeats))
    print_table("Threads: how many times as fast as one", thread_rows)
    few = [few_row(n_queries, repeats=3 if tiny else 20, n=2_000 if tiny else 100_000) for n_queries in (1, 8, 32)]
    print_table("A few queries at a time, on one thread and on all", few)
    for n_queries, dtype in ((1, "float64"), (1, "float32"), (100, "float64")):
        rows.append(small_row(n_queries, dtype, repeats=20 if tiny else 2000 // n_queries))
    return rows


def print_machine() -> None:
    """The processor, the kinds of product it has, and what they take."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    print(f"{platform.machine()}, {processor}, {cores()} cores; tile: {tile_families.tile().name}")
    for d in (64, 128, 768):
        taken = ", ".join(f"{kind} {1e6 * seconds:.0f} µs" for kind, seconds in product_seconds(d).items())
        print(f"256 × 512 products of {d} columns, one thread: {taken}")


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def images() -> tuple[np.ndarray, np.ndarray] | None:
    """MNIST, where it is on this machine: noise in 784 dimensions is the hardest case, images are an ordinary one."""
    try:
        train, test = (ns.load_dataset("mnist", split=split).X.astype(np.float32) for split in ("train", "test"))
    except DatasetNotFound:
        return None
    return train, test[:1024]


@contextmanager
def on_threads(count: int):
    """Every engine keeps to this many threads."""
    faiss.omp_set_num_threads(count)
    torch = sys.modules.get("torch")
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(count))
        stack.enter_context(ns.threads(count))
        if torch is not None:
            before = torch.get_num_threads()
            torch.set_num_threads(count)
            stack.callback(torch.set_num_threads, before)
        yield


def exact_row(case: str, X: np.ndarray, Q: np.ndarray, k: int, *, repeats: int) -> dict[str, object]:
    ours = ns.NeighborIndex(search="exact").fit(X)
    brute = NearestNeighbors(algorithm="brute").fit(X)
    flat = faiss.IndexFlatL2(X.shape[1])
    flat.add(X)
    check_against_float64(X, Q, ours.query(Q, k).indices)
    blas_blocks = tune_faiss(flat, Q[:256], k)
    engines = {
        "ours": lambda: ours.query(Q, k),
        "scikit-learn": lambda: brute.kneighbors(Q, k),
        "tuned faiss": lambda: flat.search(Q, k),
        "bare product": lambda: product_alone(X, Q),
        **other_engines(X, Q, k),
    }
    with on_threads(1):
        taken = best_times(engines, repeats)
    row: dict[str, object] = {"case": case, "queries/s": len(Q) / taken["ours"]}
    row |= {f"× {name}": seconds / taken["ours"] for name, seconds in taken.items() if name != "ours"}
    return row | {"faiss blocks": blas_blocks}


def other_engines(X: np.ndarray, Q: np.ndarray, k: int) -> dict[str, Callable[[], object]]:
    """Those that are installed."""
    engines: dict[str, Callable[[], object]] = {}
    try:
        import torch

        rows, queries = torch.from_numpy(X), torch.from_numpy(Q)
        half_norms = (rows * rows).sum(1) / 2

        def by_blocks(work: Callable[[object], object]) -> Callable[[], object]:
            return lambda: [work(queries[start : start + 512]) for start in range(0, len(queries), 512)]

        engines["torch addmm + topk"] = by_blocks(
            lambda few: torch.addmm(half_norms, few, rows.T, alpha=-1).topk(k, largest=False)
        )
        engines["torch product"] = by_blocks(lambda few: few @ rows.T)
    except ImportError:
        pass
    try:
        from usearch.index import MetricKind, search

        engines["usearch exact"] = lambda: search(X, Q[:256], k, MetricKind.L2sq, exact=True, threads=1)
    except ImportError:
        pass
    try:
        import scann

        searcher = scann.scann_ops_pybind.builder(X, k, "squared_l2").score_brute_force().build()
        engines["scann brute force"] = lambda: searcher.search_batched(Q)
    except ImportError:
        pass
    return engines


def scaling_row(case: str, X: np.ndarray, Q: np.ndarray, k: int, *, repeats: int) -> dict[str, object]:
    ours = ns.NeighborIndex(search="exact").fit(X)
    row: dict[str, object] = {"case": case}
    alone = 0.0
    for count in (each for each in SCALING if each <= cores()):
        with on_threads(count):
            taken = best_time(lambda: ours.query(Q, k), max(2, repeats - 1))
        alone = alone or taken
        row |= {
            f"{count} threads" if count > 1 else "one thread, queries/s": alone / taken if count > 1 else len(Q) / taken
        }
    return row


def few_row(n_queries: int, *, repeats: int, n: int) -> dict[str, object]:
    """Queries that come a few at a time, after a batch has been asked for."""
    rng = np.random.default_rng(0)
    X, Q = (rng.standard_normal((size, 128), dtype=np.float32) for size in (n, 64))
    ours = ns.NeighborIndex(search="exact").fit(X)
    ours.query(Q, 10)
    with on_threads(1):
        one = best_time(lambda: ours.query(Q[:n_queries], 10), repeats)
        product = best_time(lambda: Q[:n_queries] @ X.T, repeats)
    with on_threads(cores()):
        every = best_time(lambda: ours.query(Q[:n_queries], 10), repeats)
    return {
        "case": f"{n}×128, {n_queries} at a time",
        "ms, one thread": 1e3 * one,
        "× bare product": product / one,
        f"{cores()} threads": one / every,
    }


def small_row(n_queries: int, dtype: str, *, repeats: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    X, Q = (rng.standard_normal((size, 64)).astype(dtype) for size in (1500, n_queries))
    ours = ns.NeighborIndex(search="exact").fit(X)
    brute = NearestNeighbors(algorithm="brute").fit(X)
    check_against_float64(X, Q, ours.query(Q, 10).indices)
    with on_threads(1):
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
