"""Rows beyond memory and beyond one process: memory-mapped shards against an array, and Dask against one process.

Rows are made in a temporary folder (2.6 GB for the largest case), which is removed at the end.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Rows, fresh, main, peak_megabytes
from nearsay.core.parallel import threads

K = 10
SMALL_SHARD = 16 << 20  # of few rows, so that every worker has some
LATENT = 20  # dimensions that descriptions of pictures are worth, about
ROWS_A_FILE = 1_000_000

Sizes = dict[str, int]
FULL: Sizes = {
    "mapped rows": 10_000_000, "queries": 1000, "left-out rows": 1_000_000, "classes": 1000, "asked": 8192,
    "dask rows": 1_000_000, "dask left-out rows": 200_000, "columns": 64, "repeats": 3,
    "plan rows": 1_000_000, "plan columns": 128,
}  # fmt: skip
TINY: Sizes = {
    "mapped rows": 20_000, "queries": 50, "left-out rows": 3000, "classes": 20, "asked": 200,
    "dask rows": 3000, "dask left-out rows": 1000, "columns": 8, "repeats": 1,
    "plan rows": 3000, "plan columns": 8,
}  # fmt: skip


def run(tiny: bool) -> Rows:
    from nearsay.neighbors.sharded.dask_cluster import close_clusters

    sizes = TINY if tiny else FULL
    only = [name for name in CASES if f"--{name}" in ASKED_FOR] or list(CASES)
    rows = []
    with tempfile.TemporaryDirectory(prefix="nearsay-scale-") as folder:
        for name in only:
            rows += CASES[name](folder, sizes)
    close_clusters()
    return rows


# ---------------------------------------------------------------- made-up rows


def make_rows(folder: str, n_rows: int, n_columns: int, latent: int | None = None) -> str:
    """A folder of .npy files with so many rows, made once: noise, the hardest to search, or near few dimensions."""
    where = Path(folder) / f"{n_rows}x{n_columns}-{latent}"
    if not where.exists():
        where.mkdir()
        rng = np.random.default_rng(0)
        for number, start in enumerate(range(0, n_rows, ROWS_A_FILE)):
            n = min(ROWS_A_FILE, n_rows - start)
            out = np.lib.format.open_memmap(where / f"{number:03}.npy", "w+", np.float32, (n, n_columns))
            for first in range(0, n, 50_000):
                part = slice(first, min(first + 50_000, n))
                out[part] = made_up(rng, part.stop - part.start, n_columns, latent)
            out.flush()
            del out
    return str(where)


def made_up(rng: np.random.Generator, n: int, n_columns: int, latent: int | None) -> np.ndarray:
    """Normal noise; or, as descriptions of pictures are, close to a surface of ``latent`` dimensions."""
    noise = rng.standard_normal((n, n_columns), dtype=np.float32)
    if latent is None:
        return noise
    directions = np.random.default_rng(3).standard_normal((latent, n_columns), dtype=np.float32)
    return rng.standard_normal((n, latent), dtype=np.float32) @ directions + 0.3 * noise


def queries(n: int, n_columns: int, latent: int | None = None) -> np.ndarray:
    return made_up(np.random.default_rng(1), n, n_columns, latent)


def labels_of(n_rows: int, n_classes: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, n_classes, n_rows)


# ---------------------------------------------------------------- larger than memory


def mapped(folder: str, sizes: Sizes) -> Rows:
    """Shards on disk against the same rows in memory, each in a fresh process."""
    where = make_rows(folder, sizes["mapped rows"], sizes["columns"])
    given = where, sizes["queries"], sizes["repeats"]
    in_memory, from_disk = fresh(query_in_memory, *given), fresh(query_shards, *given)
    assert in_memory["digest"] == from_disk["digest"], "the answers differ"
    return [
        {
            "case": f"{sizes['mapped rows']:,} × {sizes['columns']}, {sizes['queries']:,} queries, in memory",
            **figures(in_memory), "speed": 1.0,
        },
        {
            "case": "the same from shards, each mapped by itself",
            **figures(from_disk), "speed": in_memory["processor"] / from_disk["processor"],
        },
    ]  # fmt: skip


def query_in_memory(where: str, n_queries: int, repeats: int) -> dict[str, Any]:
    import nearsay as ns

    files = sorted(Path(where).iterdir())
    sizes = [np.load(path, mmap_mode="r").shape for path in files]
    X = np.empty((sum(size[0] for size in sizes), sizes[0][1]), np.float32)
    start = 0
    for path in files:
        part = np.load(path, mmap_mode="r")
        X[start : start + len(part)] = part
        start += len(part)
    index = ns.NeighborIndex(search="exact").fit(X)
    return timed(lambda Q: index.query(Q, K), queries(n_queries, X.shape[1]), repeats)


def query_shards(where: str, n_queries: int, repeats: int) -> dict[str, Any]:
    from nearsay.neighbors.sharded.sharded_index import ShardedIndex

    index = ShardedIndex().fit(where)
    return timed(lambda Q: index.query(Q, K), queries(n_queries, index.rows_.n_columns), repeats)


def timed(ask: Callable[[np.ndarray], Any], Q: np.ndarray, repeats: int) -> dict[str, Any]:
    """The fastest of a few calls, all of them after one that compiles and reads the files once.

    Processor time hardly depends on what else the machine does.
    """
    import hashlib

    table = ask(Q)
    processor, seconds = float("inf"), float("inf")
    for _ in range(repeats):
        start = time.process_time(), time.perf_counter()
        ask(Q)
        processor = min(processor, time.process_time() - start[0])
        seconds = min(seconds, time.perf_counter() - start[1])
    digest = hashlib.sha256(table.indices.tobytes() + table.distances.tobytes()).hexdigest()
    return {"seconds": seconds, "processor": processor, "peak": peak_megabytes(), "digest": digest}


def figures(found: dict[str, Any]) -> dict[str, float]:
    return {"seconds": found["seconds"], "processor seconds": found["processor"], "peak MB": found["peak"]}


# ---------------------------------------------------------------- leave-one-out, with classes


def left_out(folder: str, sizes: Sizes) -> Rows:
    """Past cases, the pooled posterior and probabilities of rows left out, in a fresh process."""
    where = make_rows(folder, sizes["left-out rows"], sizes["columns"])
    found = fresh(leave_out, where, sizes["classes"], sizes["asked"])
    of = f"{sizes['left-out rows']:,} × {sizes['columns']}, {sizes['classes']:,} classes"
    return [
        {"case": f"{of}: pooled posterior, fitted", "processor seconds": found["fit"], "peak MB": found["fit peak"]},
        {
            "case": f"{of}: probabilities of {sizes['asked']:,} rows left out",
            "processor seconds": found["asked"], "peak MB": found["peak"],
        },
    ]  # fmt: skip


def leave_out(where: str, n_classes: int, n_asked: int) -> dict[str, float]:
    from nearsay.posterior.classifier import NeighborClassifier
    from nearsay.posterior.sharded import ShardedClassifier
    from nearsay.search.shards import ShardedRows

    rows = ShardedRows.open(where)
    start = time.process_time()
    clf = ShardedClassifier(NeighborClassifier(K, posterior="pooled")).fit(rows, labels_of(len(rows), n_classes))
    fitted, fit_peak = time.process_time() - start, peak_megabytes()
    done, start = 0, time.process_time()
    for block, (numbers, _) in enumerate(clf.left_out_blocks()):
        done += len(numbers) if block else 0  # the first block is that of the past cases, found before
        if done >= n_asked:
            break
    asked = time.process_time() - start
    return {"fit": fitted, "fit peak": fit_peak, "asked": asked, "peak": peak_megabytes()}


# ---------------------------------------------------------------- Dask


def dask(folder: str, sizes: Sizes) -> Rows:
    """The same work in one process, by one worker and by two, in turns; processor time is that of all processes."""
    from nearsay.neighbors.sharded.sharded_index import ShardedIndex

    where, Q = make_rows(folder, sizes["dask rows"], sizes["columns"]), queries(sizes["queries"], sizes["columns"])
    found: dict[str, Any] = {}

    def asked(name: str, cluster: int | None, n_threads: int) -> Callable[[], None]:
        index = ShardedIndex(cluster=cluster).fit(where)

        def ask() -> None:
            with threads(n_threads):
                found[name] = index.query(Q, K)

        ask()  # opens and compiles
        return ask

    ways = {
        "one process, one thread": asked("one process, one thread", None, 1),
        "one process, two threads": asked("one process, two threads", None, 2),
        "Dask, one worker": asked("Dask, one worker", 1, 1),
        "Dask, two workers": asked("Dask, two workers", 2, 1),
    }
    clusters = {"Dask, one worker": 1, "Dask, two workers": 2}
    seconds, processor = dict.fromkeys(ways, float("inf")), dict.fromkeys(ways, float("inf"))
    for _ in range(2 * sizes["repeats"]):
        for name, ask in ways.items():
            start = time.perf_counter(), processor_time(clusters.get(name))
            ask()
            seconds[name] = min(seconds[name], time.perf_counter() - start[0])
            processor[name] = min(processor[name], processor_time(clusters.get(name)) - start[1])
    first = next(iter(found.values()))
    assert all((each.indices == first.indices).all() for each in found.values()), "the answers differ"
    size = f"{sizes['dask rows']:,} × {sizes['columns']}, {sizes['queries']:,} queries"
    rows: Rows = [
        {"case": f"{size}: {name}", "seconds": seconds[name], "processor seconds": processor[name]} for name in ways
    ]
    for row, name in ((rows[2], "Dask, one worker"), (rows[3], "Dask, two workers")):
        row["over one process"] = processor[name] / processor["one process, one thread"]
    rows[3]["times one worker"] = seconds["Dask, one worker"] / seconds["Dask, two workers"]
    return rows


def processor_time(cluster: int | None) -> float:
    """Processor seconds of this process so far, and of the workers of a cluster."""
    from nearsay.neighbors.sharded.dask_cluster import DaskCluster

    if cluster is None:
        return time.process_time()
    return time.process_time() + sum(DaskCluster(cluster).client().run(time.process_time).values())


def left_out_tables(folder: str, sizes: Sizes) -> Rows:
    """Ranks of the true label among past cases, all rows each asked about all others, counted block by block."""
    from nearsay.neighbors.sharded.sharded_index import ShardedIndex
    from nearsay.search.shards import ShardedRows

    n = sizes["dask left-out rows"]
    where, labels = make_rows(folder, n, sizes["columns"]), labels_of(n, sizes["classes"])
    shards, rows, found = ShardedRows.open(where, shard_bytes=SMALL_SHARD), [], []
    for name, cluster in (("one process, one thread", None), ("Dask, one worker", 1), ("Dask, two workers", 2)):
        labeled = ShardedIndex(cluster=cluster).fit(shards).with_labels(labels)
        with threads(1):
            ranks_counted(labeled, np.arange(8))  # opens and compiles
            start = time.perf_counter(), processor_time(cluster)
            found.append(ranks_counted(labeled, None))
        seconds, processor = time.perf_counter() - start[0], processor_time(cluster) - start[1]
        case = f"{n:,} × {sizes['columns']}, {sizes['classes']:,} classes: ranks of all rows left out, {name}"
        rows.append({"case": case, "seconds": seconds, "processor seconds": processor})
        rows[-1]["over one process"] = processor / float(rows[0]["processor seconds"])
    assert all((each == found[0]).all() for each in found), "the tables differ"
    assert found[0].sum() == n, "not every row was counted"
    rows[2]["times one worker"] = float(rows[1]["seconds"]) / float(rows[2]["seconds"])
    return rows


def ranks_counted(labeled: Any, rows: np.ndarray | None) -> np.ndarray:
    """How often the true label came first, second, … of all classes."""
    from nearsay.posterior.methods.rank import Rank

    table = Rank()
    for block, (numbers, some) in enumerate(labeled.leave_one_out_blocks(K, (), rows)):
        if block:
            table.add(some, labeled.labels, numbers)
        else:
            table.fit(some, labeled.labels, labeled.n_classes, numbers)
    counts: np.ndarray = table.counts_
    return counts


# ---------------------------------------------------------------- what a plan is made of


def plan(folder: str, sizes: Sizes) -> Rows:
    """What a shard costs on one core: made ready and searched, exactly, by inverted lists, and a quarter by a graph."""
    where = make_rows(folder, sizes["plan rows"], sizes["plan columns"], LATENT)
    return list(fresh(costs, where, sizes["queries"]))


def costs(where: str, n_queries: int) -> Rows:
    from nearsay.distances.named import as_distance
    from nearsay.neighbors.neighbor_search import nearest
    from nearsay.neighbors.sharded.fitted_shards import FittedShard
    from nearsay.search.shards import ShardedRows

    whole, quarter = (ShardedRows.open(where, shard_bytes=size).shards[0] for size in (1 << 40, 1 << 27))
    Q = queries(n_queries, whole.n_columns, LATENT)
    found = []
    for shard, name, recall in ((whole, "exact", None), (whole, "ivf", 0.95), (quarter, "hnsw", 0.95)):
        size = f"a shard of {shard.n_rows:,} × {shard.n_columns}"
        start = time.process_time()
        search = FittedShard(shard, np.empty(0, np.int64), as_distance("euclidean"), (name, recall)).search
        made = time.process_time() - start
        nearest(search, Q, K)
        start = time.process_time()
        nearest(search, Q, K)
        asked = time.process_time() - start
        found.append({"case": f"{size}, {name}: made ready", "processor seconds": made, "peak MB": peak_megabytes()})
        found.append({"case": f"{size}, {name}: {n_queries:,} queries", "processor seconds": asked})
    return found


# Those in processes of their own come before threads of Dask are started.
CASES: dict[str, Callable[[str, Sizes], Rows]] = {
    "mapped": mapped, "left-out": left_out, "plan": plan, "dask": dask, "tables": left_out_tables,
}  # fmt: skip
ASKED_FOR = [each for each in sys.argv if each.removeprefix("--") in CASES]

if __name__ == "__main__":
    sys.argv = [each for each in sys.argv if each not in ASKED_FOR]
    main("Rows beyond memory, and beyond one process", run)
