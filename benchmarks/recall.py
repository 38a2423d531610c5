"""Recall against queries a second: exact search beside the graphs and lists of others, ``python -m benchmarks.recall``.

Every structure is asked with rising effort, and the first effort that reaches each recall counts, as if somebody had
tuned it on these very queries, which nobody can (ours finds its effort on rows held out, before any query). One thread,
processor time, a thousand queries in one call and then one at a time; the rows are those of ``benchmarks.approximate``.
usearch and scann are compared where they are installed.

``--rows 1000000`` names another size; ``--columns 768`` other columns.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import nearsay as ns
from benchmarks.approximate import clustered_rows
from benchmarks.measuring import Rows, best_time, print_table
from nearsay.core.compiling import start_compiling
from nearsay.neighbors.neighbor_search import nearest
from nearsay.search.approximate import ApproximateSearch
from nearsay.search.exact import ExactSearch
from nearsay.search.ivf_cells import cell_count

K = 10
RECALLS = (0.9, 0.95, 0.99)
# Queries that are asked one at a time.
ONE_BY_ONE = 100
Ask = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """A structure over the rows: the seconds it took to build, and how it is asked with each effort, least first."""

    name: str
    built: float
    asks: Iterator[Ask]


def exact(X: np.ndarray, recall: float = 1.0) -> Peer:
    start = time.process_time()
    search = ExactSearch().fit(X) if recall == 1 else ApproximateSearch(recall=recall).fit(X)
    nearest(search, X[:1], K)
    name = "nearsay, exact" if recall == 1 else f"nearsay, recall={recall}"
    return Peer(name, time.process_time() - start, iter([lambda Q: nearest(search, Q, K).indices]))


def faiss_graph(X: np.ndarray) -> Peer:
    import faiss

    start = time.process_time()
    index = faiss.IndexHNSWFlat(X.shape[1], 32)
    index.hnsw.efConstruction = 200
    index.add(X)
    settings = [faiss.SearchParametersHNSW(efSearch=effort) for effort in doubling(10, 1280)]
    return Peer("faiss HNSW", time.process_time() - start, asks_of_faiss(index, settings))


def faiss_lists(X: np.ndarray) -> Peer:
    import faiss

    start = time.process_time()
    index = faiss.index_factory(X.shape[1], f"IVF{cell_count(len(X))},Flat")
    index.train(X)
    index.add(X)
    settings = [faiss.SearchParametersIVF(nprobe=effort) for effort in doubling(1, 512)]
    return Peer("faiss IVF", time.process_time() - start, asks_of_faiss(index, settings))


def asks_of_faiss(index: Any, settings: list[Any]) -> Iterator[Ask]:
    return (lambda Q, given=given: index.search(Q, K, params=given)[1] for given in settings)


def usearch_graph(X: np.ndarray) -> Peer:
    from usearch.index import Index

    start = time.process_time()
    index = Index(ndim=X.shape[1], metric="l2sq", connectivity=16)
    index.add(np.arange(len(X)), X, threads=1)

    def asks() -> Iterator[Ask]:
        for effort in doubling(16, 1024):
            index.expansion_search = effort
            yield lambda Q: index.search(Q, K, threads=1).keys.reshape(len(Q), K)

    return Peer("usearch HNSW", time.process_time() - start, asks())


def scann_tree(X: np.ndarray) -> Peer:
    import scann

    leaves = int(4 * len(X) ** 0.5)
    start = time.process_time()
    tree = scann.scann_ops_pybind.builder(X, K, "squared_l2").tree(
        num_leaves=leaves, num_leaves_to_search=10, training_sample_size=min(len(X), 250_000)
    )
    searcher = tree.score_ah(2).reorder(10 * K).set_n_training_threads(1).build()

    def asks() -> Iterator[Ask]:
        for effort in doubling(5, 640):
            yield lambda Q, effort=effort: searcher.search_batched(
                Q, leaves_to_search=effort, pre_reorder_num_neighbors=10 * K
            )[0]

    return Peer("scann", time.process_time() - start, asks())


def doubling(first: int, last: int) -> Iterator[int]:
    """Efforts with two steps to each doubling."""
    effort = float(first)
    while effort <= last:
        yield round(effort)
        effort *= 2**0.5


def measured(peer: Peer, Q: np.ndarray, farthest: np.ndarray, X: np.ndarray, repeats: int) -> Rows:
    """The first effort that reaches each recall: queries a second in one call, and one at a time."""
    rows: Rows = []
    wanted = list(RECALLS)
    for ask in peer.asks:
        found = recall_of(ask(Q), Q, farthest, X)
        reached = [recall for recall in wanted if found >= recall]
        if reached:
            seconds = best_time(lambda ask=ask: ask(Q), repeats, time.process_time)
            single = best_time(
                lambda ask=ask: [ask(Q[i : i + 1]) for i in range(ONE_BY_ONE)], repeats, time.process_time
            )
            values = {
                "search": peer.name, "built in s": peer.built, "recall": round(found, 4),
                "queries/s": len(Q) / seconds, "one at a time/s": ONE_BY_ONE / single,
            }  # fmt: skip
            rows += [{"at least": recall, **values} for recall in reached]
            wanted = [recall for recall in wanted if recall not in reached]
        if not wanted:
            break
    return rows


def recall_of(answered: np.ndarray, Q: np.ndarray, farthest: np.ndarray, X: np.ndarray) -> float:
    """The share of answers that are as near as the true k-th neighbor."""
    near = 0
    for query, rows, limit in zip(Q.astype(np.float64), answered.astype(np.int64), farthest, strict=True):
        distances = np.sqrt(((X[rows[rows >= 0]] - query) ** 2).sum(axis=1))
        near += int((distances <= limit * (1 + 1e-9)).sum())
    return near / (K * len(Q))


def compare(n: int, d: int, n_queries: int, repeats: int = 3) -> Rows:
    X, Q = clustered_rows(n, n_queries, d)
    farthest = nearest(ExactSearch().fit(X), Q, K).distances[:, -1]
    makers = [exact, *[lambda X, r=r: exact(X, r) for r in RECALLS], faiss_lists, faiss_graph]
    makers += [make for package, make in (("usearch", usearch_graph), ("scann", scann_tree)) if is_installed(package)]
    rows: Rows = []
    for make in makers:
        rows += measured(make(X), Q, farthest, X, repeats)
    speeds = {row["at least"]: row["queries/s"] for row in rows if row["search"] == "nearsay, exact"}
    return [
        {**row, "exact / it": speeds[row["at least"]] / row["queries/s"]}
        for row in sorted(rows, key=lambda row: row["at least"])
    ]


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--columns", type=int, default=128)
    given = parser.parse_args()
    import faiss

    start_compiling()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        with ns.threads(1):
            sizes = [(3000, 16, 100)] if given.tiny else [(n, given.columns, 1000) for n in given.rows]
            for size in sizes:
                rows = compare(*size, repeats=1 if given.tiny else 3)
                print_table(f"Recall against speed, k = {K}, one thread, {size[0]:,} × {size[1]}", rows)
    finally:
        faiss.omp_set_num_threads(threads)


if __name__ == "__main__":
    main()
