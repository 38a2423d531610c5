"""What a search takes beside an earlier version: ``python -m benchmarks.two_versions CHECKOUT [--tiny]``.

``CHECKOUT`` is a second checkout of this project, as ``git worktree add`` makes it. Each version runs in a process
of its own, on one thread, and answers whatever it is asked next:

    this process ──► "do it once" ──► this version    CPU seconds ──┐
                 ──► "do it once" ──► that version    CPU seconds ──┴─► the least of each, and their ratio

They take turns at every single run, so that a slow spell of the machine meets both. CPU time is counted.
Both must find the same rows and classes. ``benchmarks.opening`` compares two versions the same way.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]
K = 10
# Rows, columns, classes.
SHAPES = [(150, 4, 3), (1_600, 64, 10), (1_600, 64, 100), (2_000, 16, 2), (5_000, 16, 10)]
LARGE_SHAPES = [(100_000, 128, 10), (100_000, 128, 1_000)]
TINY_SHAPES = [(150, 4, 3)]
MEMBERS = [(), (1,), (1, 4)]
NEIGHBORS = [1, 10, 47, 48, 200]  # where classes are not asked for
QUERIES = [1, 10, 1_000]
ASKED_OF_MANY = 1_000  # rows asked of a large collection
SECONDS = 3.0  # for one line of the table, both versions together
RUNS = 200  # of each version at most


Works = dict[str, Callable[[], Any]]


def works(shape: str) -> Works:
    """What is timed in a collection of random clusters of so many rows, columns and classes, by name."""
    import nearsay as ns
    from nearsay.core.compiling import start_compiling

    start_compiling()
    n, d, n_classes = map(int, shape.split(","))
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(n_classes, d)) * (0.2 if n > max(QUERIES) * 10 else 1.0)
    y = rng.integers(0, n_classes, n)
    X = centers[y] + rng.normal(size=(n, d))
    index = ns.NeighborIndex(search="exact").fit(X)
    labeled = index.with_labels(y, n_classes)
    asked: Works = {}
    if n > 10 * max(QUERIES):
        rows = np.sort(rng.choice(n, ASKED_OF_MANY, replace=False))
        for k in NEIGHBORS:
            asked[f"{ASKED_OF_MANY} plain queries, k={k}"] = lambda k=k: index.query(X[rows], k)
        for m in MEMBERS:
            asked[f"{ASKED_OF_MANY} left one out, {told(m)}"] = lambda m=m: labeled.leave_one_out(K, m, rows=rows)
        return asked
    Q = centers[rng.integers(0, n_classes, max(QUERIES))] + rng.normal(size=(max(QUERIES), d))
    for m in MEMBERS:
        asked[f"leave one out, {told(m)}"] = lambda m=m: labeled.leave_one_out(K, m)
    for count in QUERIES:
        for m in MEMBERS:
            asked[f"{count} queries, {told(m)}"] = lambda n=count, m=m: labeled.query(Q[:n], K, m)
        asked[f"{count} plain queries"] = lambda n=count: index.query(Q[:n], K)
    return asked


def told(members: tuple[int, ...]) -> str:
    return f"{members[-1]} of each" if members else "order"


def answer(make: Callable[[str], Works], digest: Callable[[Any], str]) -> None:
    """The process of one version: what to make, then names of works, one a line."""
    from threadpoolctl import threadpool_limits

    import nearsay as ns

    asked: Works = {}
    with threadpool_limits(1), ns.threads(1):
        for line in sys.stdin:
            kind, _, what = line.strip().partition(" ")
            if kind == "make":
                asked = make(what)
                print(*asked, sep=";", flush=True)
                continue
            start = time.process_time()
            made = asked[what]()
            seconds = time.process_time() - start
            print(digest(made) if kind == "found" else seconds, flush=True)
            if hasattr(made, "close"):
                made.close()
            del made  # not within the time of the next


def digest(table: Any) -> str:
    """The rows, their distances, the order of the classes and the means, as one short word."""
    arrays = [table.indices, table.distances]
    if table.classes is not None:
        arrays += [table.classes.numbers, table.classes.means]
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]


class Version:
    """A process that does what it is told with the code of one checkout; ``module`` is the benchmark that it runs."""

    def __init__(self, checkout: Path, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "--answer"],
            env=os.environ | {"PYTHONPATH": str(checkout.resolve() / "src"), "OPENBLAS_NUM_THREADS": "1"},
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answered = self._process.stdout.readline().strip()
        if not answered:
            raise SystemExit(f"A version stopped at {line!r}; its error stands above.")
        return answered

    def close(self) -> None:
        self._process.communicate()


def compared(before: Version, now: Version, what: str, only: str, seconds: float) -> list[dict[str, Any]]:
    """Least CPU milliseconds of both, for every work in what both are told to make."""
    names = {version.ask(f"make {what}") for version in (before, now)}
    rows = []
    for name in names.pop().split(";"):
        if only not in name:
            continue
        same = before.ask(f"found {name}") == now.ask(f"found {name}")
        least, start = [np.inf, np.inf], time.perf_counter()
        for run in range(RUNS):
            if run >= 3 and time.perf_counter() - start > seconds:
                break
            for v in (0, 1) if run % 2 else (1, 0):
                least[v] = min(least[v], float((before, now)[v].ask(f"time {name}")))
        rows.append(
            {
                "work": name,
                "ms before": 1000 * least[0],
                "ms now": 1000 * least[1],
                "now / before": least[1] / least[0],
                "same": "yes" if same else "NO",
            }
        )
    return rows


def main() -> None:
    from benchmarks.measuring import print_table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--large", action="store_true", help="100,000 rows instead of small collections")
    parser.add_argument("--only", default="", help="works whose name holds this")
    parser.add_argument("--rows", default="", help="sizes of one collection instead: rows,columns,classes")
    options = parser.parse_args()
    shapes = TINY_SHAPES if options.tiny else LARGE_SHAPES if options.large else SHAPES
    if options.rows:
        shapes = [tuple(map(int, options.rows.split(",")))]
    before, now = (Version(checkout, "benchmarks.two_versions") for checkout in (options.checkout, HERE))
    try:
        rows = [
            {"rows, classes": f"{shape[0]}×{shape[1]}, {shape[2]}"} | row
            for shape in shapes
            for row in compared(before, now, ",".join(map(str, shape)), options.only, 0.1 if options.tiny else SECONDS)
        ]
    finally:
        before.close(), now.close()
    print_table("Two versions, one thread", rows)


if __name__ == "__main__":
    answer(works, digest) if "--answer" in sys.argv else main()
