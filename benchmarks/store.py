"""A collection on disk: a durable event beside a bare write and sync, rows a second, and opening.

Events and bare syncs take turns on one disk, so that a slow spell meets both. A
sync takes as long as the disk happens to need, from a tenth of a millisecond to
many, so medians are compared and not the best times.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.measuring import Rows, best_time, main
from nearsay.collection import Store

N_COLUMNS = 128
PAGE = b"x" * 4096


def run(tiny: bool) -> Rows:
    n_rows, n_bulk, n_events = (2_000, 1_000, 5) if tiny else (1_000_000, 100_000, 200)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "collection"
        with Store.create(path, N_COLUMNS) as store:
            rows = [bulk_row(store, n_rows, n_bulk)]
            rows += event_rows(store, Path(folder) / "bare", n_events)
        shape = f"{n_rows:,}×{N_COLUMNS}"
        for read_only in (False, True):
            opening = best_time(lambda: Store.open(path, read_only=read_only).close(), 10)  # noqa: B023
            rows.append({"what": f"open and close {shape}{', read only' * read_only}", "ms": opening * 1e3})
        with Store.open(path, read_only=True) as store:
            rows.append({"what": f"blocks of {shape}", "ms": best_time(store.blocks, 1) * 1e3})
            rows.append({"what": f"items of {shape}", "ms": best_time(store.items, 1) * 1e3})
    return rows


def bulk_row(store: Store, n_rows: int, n_bulk: int) -> dict[str, object]:
    """Rows a second when many are added in one event; the median of all such events."""
    rng = np.random.default_rng(0)
    seconds = []
    for first in range(0, n_rows, n_bulk):
        X = rng.random((n_bulk, N_COLUMNS), dtype=np.float32)
        ids = [f"item {number}" for number in range(first, first + n_bulk)]
        labels = [f"label {number % 100}" for number in range(n_bulk)]
        seconds.append(timed(lambda: store.add(ids, X, labels=labels, by="import")))  # noqa: B023
    return {
        "what": f"add {n_bulk:,} rows in one event",
        "ms": median(seconds) * 1e3,
        "rows/s": n_bulk / median(seconds),
    }


def event_rows(store: Store, bare: Path, n: int) -> Rows:
    """Single durable events, each beside a bare write of one page and its sync."""
    file = os.open(bare, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    x = np.ones((1, N_COLUMNS))
    works: dict[str, Callable[[int], object]] = {
        "bare write and sync": lambda number: (os.write(file, PAGE), os.fsync(file)),
        "add": lambda number: store.add([f"new {number}"], x, labels=["a"]),
        "relabel": lambda number: store.relabel([f"new {number}"], ["b"]),
        "forget": lambda number: store.forget([f"new {number}"]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(n):
        for name, work in works.items():
            seconds[name].append(timed(lambda: work(number)))  # noqa: B023
    os.close(file)
    usual = {name: median(some) for name, some in seconds.items()}
    return [
        {"what": name, "ms": some * 1e3, "× bare sync": some / usual["bare write and sync"]}
        for name, some in usual.items()
    ]


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main("Store", run)
