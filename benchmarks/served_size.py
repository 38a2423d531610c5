"""What a served collection takes: memory while it answers and learns, and room on disk, each in a fresh process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Rows, fresh, main, peak_megabytes

SHAPES = [(100_000, 64), (100_000, 128), (100_000, 512)]
TINY_SHAPES = [(300, 8)]
N_CLASSES = 100


def run(tiny: bool) -> Rows:
    rows = []
    for n, d in TINY_SHAPES if tiny else SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "c.nearsay")
            learning = fresh(learn, path, n, d, "proportional" if tiny else "auto")
            opened, answering = fresh(serve, path, d)
            on_disk = sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file()) / 2**20
        rows.append({
            "items": n, "columns": d, "vectors MB": n * d * 4 / 2**20, "on disk MB": on_disk, "open MB": opened,
            "answering MB": answering, "learning MB": learning,
        })  # fmt: skip
    return rows


def learn(path: str, n: int, d: int, posterior: str) -> float:
    """The most memory while learning, with everything else that a process holds."""
    import nearsay as ns

    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, n)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X += rng.normal(size=(N_CLASSES, d)).astype(np.float32)[y]
    with ns.LiveCollection.create(path, d) as collection:
        collection.add([f"item {row}" for row in range(n)], X, [f"class {c}" for c in y], by="import")
        del X
    with ns.LiveCollection.open(path) as collection:
        collection.learn(posterior=posterior)
    return peak_megabytes()


def serve(path: str, d: int) -> tuple[float, float]:
    """Memory of a server's process after opening a collection, and the most while it answers."""
    import nearsay as ns
    from nearsay.web.app import make_app
    from nearsay.web.content.served_collection import ACCURACIES

    rng: Any = np.random.default_rng(1)
    with ns.LiveCollection.open(path) as collection:
        make_app(collection, None)
        opened = peak_megabytes()
        for _ in range(8):
            collection.label(rng.normal(size=(16, d)), hedges_at=ACCURACIES)
            collection.label_items(["item 3", "item 5"])
        return opened, peak_megabytes()


if __name__ == "__main__":
    main("What a served collection takes", run)
