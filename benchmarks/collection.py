"""A living collection: what a change costs until it counts, beside one exact query of the same rows.

Best times of several. A change is durable when it returns, so that the sync of the
disk is in it; ``python -m benchmarks.store`` measures that alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np

import nearsay as ns
from benchmarks.measuring import Rows, best_time, main

N_COLUMNS, N_CLASSES = 128, 100


def run(tiny: bool) -> Rows:
    n, repeats = (1_000, 1) if tiny else (100_000, 7)
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, n)
    X = (rng.normal(size=(N_CLASSES, N_COLUMNS))[y] + rng.normal(size=(n, N_COLUMNS))).astype(np.float32)
    rows: Rows = []
    number = count()
    index = ns.NeighborIndex(search="exact").fit(X)
    query = best_time(lambda: index.query(X[:1] + np.float32(0.01), 10), 1 + repeats)

    def measure(what: str, work: Callable[[], object], times: int = repeats) -> None:
        seconds = best_time(work, times)
        rows.append({"what": what, "ms": seconds * 1e3, "× one query": seconds / query})

    rows.append({"what": "one exact query", "ms": query * 1e3, "× one query": 1.0})
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        collection = ns.LiveCollection.create(Path(folder) / "c", N_COLUMNS)

        def add() -> None:
            new = next(number)
            collection.add([f"new {new}"], X[:1] + np.float32(0.02 * new), ["class 0"])

        def add_and_ask() -> None:
            add()
            collection.label(X[:1])

        ids, labels = [str(row) for row in range(n)], [f"class {c}" for c in y]
        measure(f"add {n:,} rows in one event", lambda: collection.add(ids, X, labels, by="import"), 1)
        measure("first answer: learns", lambda: collection.label(X[:1]), 1)
        measure("answer to one item", lambda: collection.label(X[:1] + np.float32(0.01)))
        measure("add a labeled row", add)
        measure("add a labeled row, and ask", add_and_ask)
        measure("relabel", lambda: collection.relabel([str(next(number))], ["class 1"]))
        now = collection.now()
        measure("leave-one-out table", lambda: collection.left_out(now.views, 10), 1)
        measure("add a labeled row, the table kept", add)
        measure("forget a row, the table kept", lambda: collection.forget([str(n - 1 - next(number))]))
        collection.close()
    return rows


if __name__ == "__main__":
    main(f"Living collection, {N_COLUMNS} columns, {N_CLASSES} classes", run)
