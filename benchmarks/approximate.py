"""Approximate search beside raw faiss at the same settings: ``python -m benchmarks.approximate [--tiny]``.

Ours is the whole of ``nearest``: the structure is asked, and what it proposes
is measured in float64 and put in order. Raw is faiss's own ``search`` on a
structure of the same size and effort, for the same queries in one call. Both
on one thread, in queries per CPU-second.

The rows are like embeddings: a thousand clusters in a space whose directions
matter less and less (standard deviation of the j-th: j^-½). Even noise in 128
dimensions, where nothing is near anything, is not what people index.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nearsay as ns
from benchmarks.measuring import Rows, best_time, main
from nearsay.neighbors.neighbor_search import nearest
from nearsay.search.approximate import ApproximateSearch
from nearsay.search.exact import ExactSearch
from nearsay.search.faiss_structures import Graph
from nearsay.search.ivf_cells import cell_count

K, RECALL = 10, 0.99


def clustered_rows(n: int, n_queries: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and queries from the same clusters."""
    rng = np.random.default_rng(0)
    spectrum = np.arange(1, d + 1) ** -0.5
    centers = rng.normal(size=(1000, d)) * spectrum
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0].astype(np.float32)

    def draw(count: int) -> np.ndarray:
        spread = 0.7 * spectrum * rng.normal(size=(count, d))
        return (centers[rng.integers(0, len(centers), count)] + spread).astype(np.float32) @ turn

    return draw(n), draw(n_queries)


def raw_index(faiss: Any, kind: str, X: np.ndarray) -> Any:
    """The structure as a user of faiss builds it."""
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(X.shape[1], Graph.links)
        index.hnsw.efConstruction = Graph.view_when_building
    else:
        index = faiss.index_factory(X.shape[1], f"IVF{cell_count(len(X))},Flat")
        index.cp.niter, index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 6, 1, 48
        index.train(X)
    index.add(X)
    return index


def best_cpu_times(rivals: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """CPU seconds of this thread, best of several runs, taking turns; what else the machine does counts for little."""
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(repeats):
        for name, work in rivals.items():
            start = time.thread_time()
            work()
            best[name] = min(best[name], time.thread_time() - start)
    return best


def compare(kind: str, n: int, d: int, n_queries: int) -> dict[str, Any]:
    import faiss

    X, Q = clustered_rows(n, n_queries, d)
    true = nearest(ExactSearch().fit(X), Q, K)
    search = ApproximateSearch(kind=kind, recall=RECALL)
    built = best_time(lambda: search.fit(X), 1)
    raw = raw_index(faiss, kind, X)
    effort = search.settings_[K].effort
    parameters = (
        faiss.SearchParametersHNSW(efSearch=effort) if kind == "hnsw" else faiss.SearchParametersIVF(nprobe=effort)
    )
    ours, raws = nearest(search, Q, K), raw.search(Q, K, params=parameters)[1]
    times = best_cpu_times({"ours": lambda: nearest(search, Q, K), "raw": lambda: raw.search(Q, K, params=parameters)})
    return {
        "rows": f"{n}×{d}",
        "kind": kind,
        "effort": effort,
        "recall": (ours.distances <= true.distances[:, -1:]).mean(),
        "raw recall": np.mean([np.isin(t, r).mean() for t, r in zip(true.indices, raws, strict=True)]),
        "queries/s": n_queries / times["ours"],
        "raw queries/s": n_queries / times["raw"],
        "ratio": times["raw"] / times["ours"],
        "build s": built,
    }


def run(tiny: bool) -> Rows:
    """One row for each kind and size; the ratio is the share of raw faiss's speed that is kept."""
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        with ns.threads(1):
            if tiny:
                return [compare(kind, 3000, 16, 200) for kind in ("hnsw", "ivf")]
            return [compare(kind, 100_000, 128, 2000) for kind in ("hnsw", "ivf")] + [
                compare("ivf", 1_000_000, 64, 2000)
            ]
    finally:
        faiss.omp_set_num_threads(threads)


if __name__ == "__main__":
    main(f"Approximate search, k = {K}, recall {RECALL} asked for, one thread", run)
