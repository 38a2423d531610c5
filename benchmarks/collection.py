"""A living collection: what a change costs until it counts, beside one exact query of the same rows.

Best times of several, and best times of the processor, which say more where others
work on the same machine. A change is durable when it returns, and the sync of the disk
takes as long as the disk happens to need: ``python -m benchmarks.store`` measures it
beside a bare one. So changes are measured twice here, as they are and with SQLite told
not to sync (``PRAGMA synchronous = OFF``), which leaves out the sync and nothing else.

Beside it what others do for a row that is to count: scikit-learn's classifier fitted
anew, and LanceDB, a table of vectors on disk, asked for the nearest rows without an index.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import nearsay as ns
from benchmarks.measuring import Rows, main
from nearsay.collection.indexing import index_source
from nearsay.core.arrays import row_blocks
from nearsay.posterior.past_cases import ROWS_AT_ONCE

N_COLUMNS = 128
K = 10


class Measured:
    """Times of what is done with so many rows and classes, as rows of the table."""

    def __init__(self, n: int, n_classes: int, repeats: int, folder: Path, spread: float = 1.0) -> None:
        rng = np.random.default_rng(0)
        self.y = rng.integers(0, n_classes, n)
        centers = spread * rng.normal(size=(n_classes, N_COLUMNS))
        self.X = (centers[self.y] + rng.normal(size=(n, N_COLUMNS))).astype(np.float32)
        self._new = (self.X[:1] + rng.normal(size=(512, N_COLUMNS))).astype(np.float32)
        self.classes, self.repeats, self.folder = n_classes, repeats, folder
        self.number = count()
        self.rows: Rows = []
        index = ns.NeighborIndex(search="exact").fit(self.X)
        self.query = best_of_both(lambda: index.query(self.one_more, K), 1 + repeats)
        self.put("one exact query", *self.query)

    @property
    def one_more(self) -> np.ndarray:
        """A row that is not there yet: one of the others, moved in each column."""
        place = next(self.number) % len(self._new)
        return self._new[place : place + 1]

    def put(self, what: str, wall: float, processor: float) -> None:
        self.rows.append(
            {
                "classes": self.classes,
                "what": what,
                "ms": wall * 1e3,
                "× one query": wall / self.query[0],
                "processor ms": processor * 1e3,
                "× that of one query": processor / self.query[1],
            }
        )

    def measure(self, what: str, work: Callable[[], object], times: int | None = None) -> None:
        self.put(what, *best_of_both(work, self.repeats if times is None else times))

    def collection(self, **learn: Any) -> ns.LiveCollection:
        """All rows in a collection."""
        made = ns.LiveCollection.create(tempfile.mkdtemp(dir=self.folder), N_COLUMNS)
        ids, labels = [str(row) for row in range(len(self.X))], [f"class {c}" for c in self.y]
        self.measure(f"add {len(ids):,} rows in one event", lambda: made.add(ids, self.X, labels, by="import"), 1)
        self.measure("first answer: learns", lambda: made.learn(**learn) if learn else made.label(self.one_more), 1)
        return made


def best_of_both(work: Callable[[], object], times: int) -> tuple[float, float]:
    """The least seconds of several, on the wall and of the processor."""
    wall = processor = float("inf")
    for _ in range(times):
        before = time.perf_counter(), time.process_time()
        work()
        wall, processor = min(wall, time.perf_counter() - before[0]), min(processor, time.process_time() - before[1])
    return wall, processor


def run(tiny: bool) -> Rows:
    n, n_few, many, repeats = (200, 120, 8, 1) if tiny else (100_000, 6_000, 100, 40)
    rows: Rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for n_classes in (many, 5):
            measured = Measured(n, n_classes, repeats, Path(folder))
            changes(measured)
            if n_classes == many:
                indexing(measured, 1 if tiny else 3)
                scikit_learn(measured, 1 if tiny else 5)
                lancedb(measured, 1 if tiny else 5)
            rows += measured.rows
        for posterior in ("pooled", "proportional"):
            rows += mistakes(Measured(n_few, many, 1 if tiny else 3, Path(folder), spread=0.35), posterior)
    return rows


def changes(measured: Measured) -> None:
    """Single changes, until they count."""
    with measured.collection() as collection:
        number = measured.number

        def ask() -> None:
            collection.label(measured.one_more)

        def add() -> None:
            collection.add([f"new {next(number)}"], measured.one_more, ["class 0"])

        def add_and_ask() -> None:
            add()
            ask()

        def relabel() -> None:
            collection.relabel([str(next(number))], ["class 1"])

        def label_one(unknown: list[str]) -> None:
            collection.relabel([unknown.pop()], ["class 0"])

        def forget() -> None:
            collection.forget([str(len(measured.X) - 1 - next(number))])

        for _ in range(5):
            ask()
        measured.measure("answer to one item", ask)
        measured.measure("add a labeled row, and ask", add_and_ask)
        now = collection.state()
        measured.measure(f"leave-one-out table of {K}", lambda: collection.tracker.left_out(now.views, K), 1)
        for said, syncs in (("", nullcontext()), (", not synced", unsynced(collection))):
            with syncs:
                unknown = [f"unknown{said} {place}" for place in range(measured.repeats)]
                collection.add(unknown, np.concatenate([measured.one_more for _ in unknown]))
                measured.measure(f"add a labeled row, the table kept, and ask{said}", add_and_ask)
                measured.measure(f"add a labeled row, the table kept{said}", add)
                measured.measure(f"relabel{said}", relabel)
                measured.measure(f"label an item that had none{said}", partial(label_one, unknown))
                measured.measure(f"forget a row, the table kept{said}", forget)


@contextmanager
def unsynced(collection: ns.LiveCollection) -> Iterator[None]:
    """Events are written, but nobody waits for the disk."""
    database = collection.store._database
    before = database.one("PRAGMA synchronous")
    database.execute("PRAGMA synchronous = OFF")
    yield
    database.execute(f"PRAGMA synchronous = {before}")


def mistakes(measured: Measured, posterior: str) -> Rows:
    """``likely_mistakes`` beside the search of the nearest others that it needs."""
    with measured.collection(posterior=posterior) as collection:
        now = collection.state()
        k, members = now.learned.n_neighbors, now.learned.members
        live = np.flatnonzero(now.voting.votes)

        def search() -> None:
            if members is None:
                collection.tracker._living = None
                collection.tracker.left_out(now.views, k)
            else:
                for part in row_blocks(len(live), size=ROWS_AT_ONCE):
                    now.views.leave_one_out(k, members, live[part])

        def ask() -> None:
            collection.tracker._living = None
            collection.likely_mistakes()

        search()
        taken = {search: (float("inf"), float("inf")), ask: (float("inf"), float("inf"))}
        for _ in range(measured.repeats):
            for work, best in taken.items():
                wall, processor = best_of_both(work, 1)
                taken[work] = min(best[0], wall), min(best[1], processor)
    ratio = taken[ask][1] / taken[search][1]
    measured.put(f"nearest others of all {len(live):,} rows, {posterior}", *taken[search])
    measured.put(f"likely_mistakes, {posterior}: {ratio:.2f} × that", *taken[ask])
    return measured.rows[-2:]


def indexing(measured: Measured, times: int) -> None:
    """Files to a collection on disk, arrays and embeddings in Parquet; nothing is learned."""
    for path in embedding_files(measured):
        wall, processor = best_of_both(
            lambda path=path: index_source(path, measured.folder / f"indexed {next(measured.number)}", learn=False),
            times,
        )
        measured.put(f"index {path.name}: {len(measured.X) / wall:,.0f} rows a second", wall, processor)


def embedding_files(measured: Measured) -> list[Path]:
    """The rows as arrays, as one column of lists, and as a column for each number."""
    import pyarrow
    from pyarrow import parquet

    labels, names = [f"class {c}" for c in measured.y], ("rows.npz", "lists.parquet", "columns.parquet")
    arrays, lists, columns = (measured.folder / name for name in names)
    np.savez(arrays, X=measured.X, y=np.array(labels))
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(measured.X.ravel()), N_COLUMNS)
    numbered = {f"f{column}": numbers.copy() for column, numbers in enumerate(measured.X.T)}
    parquet.write_table(pyarrow.table({"vector": vectors, "label": labels}), lists)
    parquet.write_table(pyarrow.table({**numbered, "label": labels}), columns)
    return [arrays, lists, columns]


def scikit_learn(measured: Measured, times: int) -> None:
    """A classifier fitted anew after each row; the copy of all rows that a longer array takes is not counted."""
    n, X = len(measured.X), np.concatenate([measured.X, measured.X[:times]])
    y, number = np.concatenate([measured.y, measured.y[:times]]), count(1)

    def add_and_ask() -> None:
        now = n + next(number)
        KNeighborsClassifier(K).fit(X[:now], y[:now]).predict(measured.one_more)

    measured.measure("scikit-learn: fit again, and predict one", add_and_ask, times)


def lancedb(measured: Measured, times: int) -> None:
    """A table of vectors and labels on disk; its search takes as many threads as it likes."""
    try:
        import lancedb as lance
        import pyarrow
    except ImportError:
        measured.rows.append({"classes": measured.classes, "what": "LanceDB: not installed here (pip install lancedb)"})
        return
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(measured.X.ravel()), N_COLUMNS)
    labels = pyarrow.array([f"class {c}" for c in measured.y])
    table = lance.connect(measured.folder / "lance").create_table(
        "rows", pyarrow.table({"vector": vectors, "label": labels})
    )

    def ask() -> None:
        table.search(measured.one_more[0]).limit(K).to_list()

    def add() -> None:
        table.add([{"vector": measured.one_more[0], "label": "class 0"}])

    def add_and_ask(optimize: bool) -> None:
        add()
        if optimize:
            table.optimize()
        ask()

    ask()
    measured.measure("LanceDB: nearest rows of one query", ask)
    measured.measure("LanceDB: add a row, and ask", lambda: add_and_ask(False), times)
    measured.measure("LanceDB: add a row, optimize, and ask", lambda: add_and_ask(True), times)


if __name__ == "__main__":
    main(f"Living collection, {N_COLUMNS} columns", run)
