"""What opening and saving take, beside an earlier version: ``python -m benchmarks.opening [CHECKOUT] [--tiny]``.

``CHECKOUT`` is a second checkout of this project, as ``git worktree add`` makes it. Without one, this version is
compared with itself, which shows how much the machine varies. Each version makes files and collections of its own, and
then they take turns, as in ``two_versions``: the least CPU time of many runs counts. The sizes of both files tell what
is content: a classifier that only counts votes holds the same in every version, others may have learned more or less.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.two_versions import HERE, Version, Works, answer, compared

COLUMNS = 16
# Rows of estimators, items of a collection, items of one that has learned.
SIZES, TINY_SIZES = "300,2000,20000;200000;2000", "60,90;300;60"
SECONDS = 10.0  # for one line of the table, both versions together


def works(sizes: str) -> Works:
    """Opening and saving of everything that is measured, by name."""
    import nearsay as ns
    from nearsay.collection import LiveCollection, Store

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    rows, (n_items,), (n_learned,) = (list(map(int, part.split(","))) for part in sizes.split(";"))
    saved: dict[str, Any] = {}
    for n in rows:
        saved[f"classifier, {n} rows"] = ns.NeighborClassifier().fit(*clusters(n))
        votes = ns.NeighborClassifier(5, posterior="proportional", metric="euclidean")
        saved[f"classifier that counts votes, {n} rows"] = votes.fit(*clusters(n))
    saved[f"index, {max(rows)} rows"] = ns.NeighborIndex().fit(clusters(max(rows))[0])
    X, y = clusters(min(rows))
    saved[f"keywords, {min(rows)} rows"] = ns.KeywordAnnotator().fit(X, (y[:, None] == np.arange(5)).astype(int))
    asked: Works = {}
    for number, (name, thing) in enumerate(saved.items()):
        ns.save(thing, folder / f"{number}.nearsay")
        asked[f"load {name}"] = lambda path=folder / f"{number}.nearsay": ns.load(path)
        asked[f"save {name}"] = lambda thing=thing: saved_as(folder / "again.nearsay", thing)
    large, learned = folder / "large", folder / "learned"
    with Store.create(large, COLUMNS) as store:
        fill(store, n_items)
    with LiveCollection.create(learned, COLUMNS) as collection:
        fill(collection.store, n_learned)
        collection.learn()
    readers: list[Any] = []

    def items() -> Any:
        if not readers:
            readers.append(Store.open(large, read_only=True))
        return readers[0].items()

    return asked | {
        f"Store.open, {n_items} items": lambda: Store.open(large),
        f"Store.open, {n_items} items, read-only": lambda: Store.open(large, read_only=True),
        f"Store.items, {n_items} items": items,
        f"LiveCollection.open, {n_learned} items that has learned": lambda: LiveCollection.open(learned),
    }


def saved_as(path: Path, thing: Any) -> Path:
    """Save it, and give the path back."""
    import nearsay as ns

    ns.save(thing, path)
    return path


def clusters(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of five classes, and their labels."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 5
    return rng.normal(size=(5, COLUMNS))[y] + rng.normal(size=(n, COLUMNS)), y


def fill(store: Any, n: int) -> None:
    """Add items with labels, keywords and details, and change some of them."""
    X, y = clusters(n)
    labels = [f"class {number}" for number in y]
    details = [{"path": f"{number}.png"} for number in range(n)]
    store.add([f"item {number}" for number in range(n)], X, labels, [["sea", "sky"]] * n, details)
    for number in range(20):
        store.relabel([f"item {number}"], ["class 1"])


def digest(made: Any) -> str:
    """The size of a file in KB, else what was made, in a word; answers are compared by the tests."""
    return f"{made.stat().st_size / 1000:.0f}" if isinstance(made, Path) else type(made).__name__


def main() -> None:
    from benchmarks.measuring import print_table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", default=HERE, help="a checkout of the version before")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--only", default="", help="works whose name holds this")
    options = parser.parse_args()
    before, now = (Version(checkout, "benchmarks.opening") for checkout in (options.checkout, HERE))
    try:
        sizes, seconds = (TINY_SIZES, 0.01) if options.tiny else (SIZES, SECONDS)
        rows = compared(before, now, sizes, options.only, seconds)
        for row in rows:
            name = row["work"].replace("load ", "save ")
            row["KB"] = " → ".join(version.ask(f"found {name}") for version in (before, now)) if "save" in name else ""
            del row["same"]
    finally:
        before.close(), now.close()
    print_table("Opening and saving, one thread", rows)


if __name__ == "__main__":
    answer(works, digest) if "--answer" in sys.argv else main()
