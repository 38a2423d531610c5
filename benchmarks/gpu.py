"""Exact search on a GPU: ours beside torch's product and topk, each with its two floors and an audit.

    python -m benchmarks.gpu              the table
    python -m benchmarks.gpu --steps      how long each step takes, with the sizes of kernels that are fastest here
    python -m benchmarks.gpu --audit      200,000 queries of all kinds of rows, hard ones too, against a float64 loop
    python -m benchmarks.gpu --hard       those among hard rows alone: heavy tails, duplicates, zeros, extreme scales
    python -m benchmarks.gpu --sizes      the time against the number of rows
    python -m benchmarks.gpu --classes    the search by class, step by step, and class probabilities
    python -m benchmarks.gpu --learning   a learned metric, its impostors listed on the GPU

Times are medians of ten by CUDA events, after a warm-up, with other queries each time. A query counts as wrong where a
row, its place or one bit of its distance differs from the double loop's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.gpu_class_probabilities import classes
from benchmarks.gpu_learning import learning
from benchmarks.gpu_measured import (
    KINDS,
    REPEATS,
    by_double_loop,
    fitted,
    floors,
    made_up,
    milliseconds,
    wall_milliseconds,
    wrong,
)
from benchmarks.gpu_steps import Timed, share_of_bound
from benchmarks.hard_rows import DTYPES, FAMILIES, NEIGHBORS, rows_and_queries
from benchmarks.measuring import Rows, print_table
from nearsay.core.compiling import start_compiling
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.index import NeighborIndex
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu import blocks as gpu_blocks
from nearsay.search.gpu.collection import GpuCollection
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.gpu.rows import gpu_bytes

# (rows, columns, queries, neighbors, kind)
CASES = [
    (1 << 20, 128, 10_000, 10, "normal"),
    (1 << 20, 128, 10_000, 10, "clustered"),
    (1 << 20, 128, 10_000, 200, "normal"),
    (1 << 20, 768, 10_000, 10, "normal"),
    (10_000_000, 128, 2048, 10, "normal"),
]
# (distance, type of rows, columns), beside euclidean in float32
DISTANCES = [
    ("cosine", "float32", 64),
    ("correlation", "float32", 100),
    ("sqeuclidean", "float64", 17),
    ("euclidean", "uint8", 784),
    ("euclidean", "int64", 5),
    ("cosine", "float64", 300),
    ("hellinger", "float64", 30),
    (("mahalanobis", {"V": np.diag(np.arange(1.0, 41.0))}), "float32", 40),
]
TINY_CASES = [(2000, 16, 40, 5, "normal"), (1500, 20, 30, 5, "clustered")]

Search = Callable[[Any], tuple[Any, Any]]


def ours(collection: GpuCollection, k: int) -> Search:
    def search(Q: Any) -> tuple[Any, Any]:
        found = collection.nearest(Q, np.empty(0, np.int64), k)
        return found.numbers, found.distances

    return search


def torch_topk(torch: Any, X: Any, k: int, tf32: bool) -> Search:
    half_norms = (X * X).sum(dim=1) / 2
    rows = X.T

    def search(Q: Any) -> tuple[Any, Any]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        parts = Q.split(max(1, (4 << 30) // (4 * len(X))))
        scores = (torch.addmm(half_norms, some, rows, alpha=-1) for some in parts)
        numbers = torch.cat([some.topk(k, largest=False).indices for some in scores])
        torch.backends.cuda.matmul.allow_tf32 = False
        return numbers, torch.zeros(numbers.shape, dtype=torch.float64, device=X.device)

    return search


def flashlib(X: Any, k: int) -> Search | None:
    """FlashLib's search, where it is installed and can run."""
    if X.device.type == "cpu" or find_spec("flashlib") is None:
        return None
    from flashlib import flash_knn

    def search(Q: Any) -> tuple[Any, Any]:
        squares, numbers = flash_knn(Q, X, k)
        return numbers, squares.double().sqrt()

    try:
        search(X[:256])
    except Exception as error:  # nothing of ours: it may not know this GPU or this many neighbors
        print(f"FlashLib: {type(error).__name__} {str(error)[:80]}", flush=True)
        return None
    return search


def rivals_of(torch: Any, X: Any, collection: GpuCollection, k: int) -> dict[str, Search]:
    rivals = {
        "ours": ours(collection, k),
        "torch float32 + topk": torch_topk(torch, X, k, tf32=False),
        "torch TF32 + topk": torch_topk(torch, X, k, tf32=True),
        "FlashLib": flashlib(X, k),
    }
    return {name: rival for name, rival in rivals.items() if rival is not None}


# ---------------------------------------------------------------- the table


def table(torch: Any, device: str, tiny: bool) -> Rows:
    lines: Rows = []
    for case in TINY_CASES if tiny else CASES:
        lines += compared(torch, device, *case, repeats=1 if tiny else REPEATS)
    return [*lines, all_rows(torch, device, 1500 if tiny else 1_000_000, 16 if tiny else 128)]


def compared(torch: Any, device: str, n: int, d: int, n_queries: int, k: int, kind: str, *, repeats: int) -> Rows:
    """All rivals on the same rows and queries."""
    X = made_up(torch, kind, n, d, 1, device)
    queries = [made_up(torch, kind, n_queries, d, 2 + run, device) for run in range(repeats + 2)]
    search, collection = fitted(X, device)
    if device != "cpu":
        Timed(torch, collection, queries[:7], k, device).tune()
    rivals = rivals_of(torch, X, collection, k)
    few = queries[0][:1000]
    true = by_double_loop(torch, X, few, k)
    arithmetic, moving = floors(n, d, n_queries)
    lines: Rows = []
    for name, rival in rivals.items():
        numbers, distances = (part.cpu().numpy() for part in rival(few))
        line = {
            "rows": f"{n}×{d} {kind}",
            "queries": n_queries,
            "k": k,
            "search": name,
            "ms": milliseconds(torch, lambda run, rival=rival: rival(queries[run]), device, repeats),
            "floor: products": arithmetic,
            "floor: bytes": moving,
            "audited": len(few),
            "same rows in order": f"{(numbers == true[0]).all(axis=1).mean():.2%}",
            "wrong": wrong(true, numbers, distances) if name == "ours" else "",
        }
        lines.append(line)
        print(line, flush=True)
    if device != "cpu":
        on_host = [q.cpu().numpy() for q in queries]
        line = {"rows": f"{n}×{d} {kind}", "queries": n_queries, "k": k, "search": "ours, numpy in and out"}
        lines.append(
            {**line, "ms": wall_milliseconds(lambda run: neighbor_search.nearest(search, on_host[run], k), device)}
        )
        print(lines[-1], flush=True)
    return lines


def all_rows(torch: Any, device: str, n: int, d: int, k: int = 10) -> dict[str, Any]:
    """The neighbors of all rows, each without itself, as arrays on the host."""
    X = made_up(torch, "normal", n, d, 1, device)
    search, _ = fitted(X, device)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        found = neighbor_search.leave_one_out(search, k)
        taken.append(1e3 * (time.perf_counter() - start))
    few = np.arange(n)[:: max(1, n // 1000)][:1000]
    numbers, distances = by_double_loop(torch, X, X[torch.from_numpy(few).to(device)], k + 1)
    others = numbers != few[:, None]  # no two rows are alike, so each is its own nearest
    true = numbers[others].reshape(len(few), k), distances[others].reshape(len(few), k)
    arithmetic, moving = floors(n, d, n)
    line = {"rows": f"{n}×{d} normal", "queries": "all, left out", "k": k, "search": "ours, numpy out"}
    line |= {"ms": statistics.median(taken), "floor: products": arithmetic, "floor: bytes": moving}
    line |= {"audited": len(few), "wrong": wrong(true, found.indices[few], found.distances[few])}
    print(line, flush=True)
    return line


def sizes(torch: Any, device: str, tiny: bool) -> Rows:
    """Milliseconds for 10,000 queries, k = 10, among more and more rows of 128 columns."""
    lines: Rows = []
    for n in (500,) if tiny else (1 << 16, 1 << 18, 1 << 20, 1 << 22):
        d, n_queries = (16, 30) if tiny else (128, 10_000)
        X = made_up(torch, "normal", n, d, 1, device)
        queries = [made_up(torch, "normal", n_queries, d, 2 + run, device) for run in range(7)]
        _, collection = fitted(X, device)
        line: dict[str, Any] = {"number of rows": n}
        for name, rival in rivals_of(torch, X, collection, 10).items():
            line[name] = milliseconds(torch, lambda run, do=rival, queries=queries: do(queries[run]), device, 5)
        lines.append(line)
        print(line, flush=True)
    return lines


# ---------------------------------------------------------------- steps and audit


def steps(torch: Any, device: str, tiny: bool) -> Rows:
    """How long each step takes, for one case after the other."""
    lines: Rows = []
    for n, d, n_queries, k, kind in TINY_CASES if tiny else CASES:
        X = made_up(torch, kind, n, d, 1, device)
        queries = [made_up(torch, kind, n_queries, d, 2 + run, device) for run in range(7)]
        _, collection = fitted(X, device)
        timed = Timed(torch, collection, queries, k, device)
        if device != "cpu":
            timed.tune()
        line = {"rows": f"{n}×{d} {kind}", "k": k, **timed.each()}
        search = ours(collection, k)
        line["all"] = round(timed.time(lambda run, search=search, queries=queries: search(queries[run])), 3)
        lines.append(line)
        print(line, flush=True)
    return lines


def audit(torch: Any, device: str, tiny: bool) -> Rows:
    """Queries of every kind against the double loop; some of them against the CPU's search too."""
    lines: Rows = []
    n, d, n_queries = (1500, 16, 30) if tiny else (200_000, 96, 16_700)
    for number, kind in enumerate((*KINDS[:: 3 if tiny else 1], "normal, in blocks")):
        k = (10, 1, 37)[number % 3]
        X, Q = (made_up(torch, kind, many, d, seed, device) for many, seed in ((n, 1), (n_queries, 2)))
        Q[::5] = X[: len(Q[::5])]  # a fifth of the queries are rows
        too_few = gpu_bytes(X.cpu().numpy()) // 2 if "blocks" in kind else sys.maxsize
        with patch.object(gpu_blocks, "free_bytes", return_value=too_few), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that rows pass over the GPU in blocks
            search, collection = fitted(X, device)
        open_still = collection.nearest(Q, np.empty(0, np.int64), k).undecided.nonzero()[:, 0]
        whole = neighbor_search.nearest(search, Q.cpu().numpy(), k)
        few = slice(0, 30 if tiny else 500)
        on_cpu = neighbor_search.nearest(ExactSearch().fit(X.cpu().numpy()), Q[few].cpu().numpy(), k)
        others = neighbor_search.leave_one_out(search, k, rows=np.arange(len(Q))[few])
        others_on_cpu = neighbor_search.leave_one_out(search.on_cpu(), k, rows=np.arange(len(Q))[few])
        line = {
            "rows": f"{n}×{d} {kind}",
            "k": k,
            "queries": n_queries,
            "blocks": len(collection.parts),
            "ms": milliseconds(
                torch, lambda run, do=collection, Q=Q, k=k: do.nearest(Q, neighbor_search.NOBODY, k), device, 3
            ),
            "wrong": wrong(by_double_loop(torch, X, Q, k), whole.indices, whole.distances),
            "left to the CPU": len(open_still),
            "unlike the CPU": sum(
                wrong((there.indices, there.distances), here.indices, here.distances)
                for here, there in ((whole[few], on_cpu), (others, others_on_cpu))
            ),
            "of the bound": "" if len(collection.parts) > 1 else f"{share_of_bound(torch, collection, Q):.2f}",
        }
        lines.append(line)
        print(line, flush=True)
    return lines + [unlike_the_cpu(torch, device, tiny, *case) for case in DISTANCES[:: 3 if tiny else 1]]


def hard(torch: Any, device: str, tiny: bool, n: int = 200_000, n_queries: int = 4400) -> Rows:
    """Queries among hard rows, for every number of neighbors in turn, against the double loop."""
    lines: Rows = []
    n, d, n_queries = (400, 5, 12) if tiny else (n, 20, n_queries)
    for number, family in enumerate(list(FAMILIES)[::8] if tiny else FAMILIES):  # tests try all, without a GPU
        k, dtype = min(NEIGHBORS[number % (len(NEIGHBORS) - 1)], n), DTYPES[number % 2]
        X, Q = rows_and_queries(family, dtype, n, d, n_queries, np.random.default_rng(number))
        search = GpuSearch(device=device).fit(X)
        open_still = search.on_gpu().nearest(torch.from_numpy(Q).to(device), neighbor_search.NOBODY, k).undecided
        start = time.perf_counter()
        whole = neighbor_search.nearest(search, Q, k)
        taken = time.perf_counter() - start
        true = by_double_loop(torch, *(torch.from_numpy(part).to(device) for part in (X, Q)), k)
        line = {
            "rows": f"{n}×{d} {family}, {dtype}",
            "k": k,
            "queries": n_queries,
            "ms": 1e3 * taken,
            "wrong": wrong(true, whole.indices, whole.distances),
            "left to the CPU": int(open_still.sum()),
        }
        lines.append(line)
        print(line, flush=True)
    return lines


def unlike_the_cpu(torch: Any, device: str, tiny: bool, metric: Any, dtype: str, d: int) -> dict[str, Any]:
    """Other distances, types and widths, full of ties, against the CPU's search; and tensors against arrays."""
    n, n_queries, k = (600, 20, 5) if tiny else (30_000, 2000, 10)
    X = np.random.default_rng(0).integers(0, 40, size=(n + n_queries, d)).astype(dtype)
    X, Q = X[:n], np.concatenate([X[n:], X[: n_queries // 4]])
    index, on_cpu = (
        NeighborIndex(metric, search=way(metric)).fit(X) for way in (partial(GpuSearch, device=device), ExactSearch)
    )
    there, here = index.query(Q, k), on_cpu.query(Q, k)
    numbers, distances = (part.cpu().numpy() for part in index.query_tensors(torch.from_numpy(Q).to(device), k))
    differing = wrong((here.indices, here.distances), there.indices, there.distances)
    differing += wrong((here.indices, here.distances), numbers, distances)
    line = {
        "rows": f"{n}×{d} {metric if isinstance(metric, str) else metric[0]} {dtype}",
        "k": k,
        "queries": len(Q),
        "unlike the CPU": differing,
    }
    print(line, flush=True)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works, without a GPU too")
    parser.add_argument("--steps", action="store_true", help="the time of each step")
    parser.add_argument("--audit", action="store_true", help="100,000 queries against a double loop in float64")
    parser.add_argument("--hard", action="store_true", help="100,000 queries among hard rows")
    parser.add_argument("--rows", type=int, default=200_000, help="with --hard: rows of each family")
    parser.add_argument("--queries", type=int, default=4400, help="with --hard: queries of each family")
    parser.add_argument("--sizes", action="store_true", help="the time against the number of rows")
    parser.add_argument("--classes", action="store_true", help="class probabilities")
    parser.add_argument("--learning", action="store_true", help="a learned metric")
    parser.add_argument("--cases", type=int, nargs="*", help="which of the cases, by number")
    given = parser.parse_args()
    if find_spec("torch") is None:
        print("torch is not installed: nothing measured.")
        return 0
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not given.tiny:
        print("No GPU that CUDA can use: nothing measured. --tiny takes the same steps on the CPU.")
        return 0
    if given.cases is not None:
        CASES[:] = [CASES[number] for number in given.cases]
    start_compiling()
    ways: dict[str, Callable[..., Rows]] = {way.__name__: way for way in (audit, steps, sizes, classes, learning)}
    ways["hard"] = partial(hard, n=given.rows, n_queries=given.queries)
    given.hard |= given.audit
    chosen = {name: way for name, way in ways.items() if getattr(given, name)} or {"table": table}
    if given.tiny and "table" in chosen:
        chosen |= {"hard": hard, "classes": classes, "learning": learning}  # so that none rots
    lines: Rows = []
    for name, way in chosen.items():
        told = way(torch, device, given.tiny)
        print_table(f"Exact search on a GPU: {name}", told)
        lines += told
    return int(any(line.get("wrong") or line.get("unlike the CPU") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
