"""What a collection learns, learned by a worker of a cluster that opens it by path."""

from __future__ import annotations

import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsay.collection.learned import FILE, Learned
from nearsay.collection.live import LiveCollection
from nearsay.errors import StorageError
from nearsay.neighbors.workers import workers_of


@dataclass(frozen=True)
class LearnTask:
    """What to learn from: a collection by path, its version, and the settings of ``LiveCollection.learn``."""

    collection: str
    version: int
    posterior: str
    n_neighbors: int | str


def learned_on(
    cluster: Any, collection: LiveCollection, posterior: str = "auto", n_neighbors: int | str = "auto"
) -> Learned:
    """What ``collection.learn`` would learn now, for its argument ``learned``; nothing is kept yet."""
    path = str(collection.store.path.resolve())
    task = LearnTask(path, collection.version, posterior, n_neighbors)
    (written,) = workers_of(cluster).each(learn_part, [task], lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / FILE).write_bytes(written)
        return Learned.read(folder)


def learn_part(task: LearnTask) -> bytes:
    """Learn, and give the file that it is kept in."""
    with LiveCollection.open(task.collection, read_only=True) as collection, tempfile.TemporaryDirectory() as folder:
        if collection.version != task.version:
            raise StorageError(
                f"The collection {task.collection} on {socket.gethostname()} is at event {collection.version}, but"
                f" event {task.version} is to be learned from. Copy it again, or ask again."
            )
        collection._learned_anew(task.posterior, task.n_neighbors).write(Path(folder))
        return (Path(folder) / FILE).read_bytes()
