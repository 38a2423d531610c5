"""Distributed leave-one-out: the workers of a cluster answer about items of a collection by all others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.live import LiveCollection
from nearsay.core.arrays import row_blocks
from nearsay.errors import StorageError
from nearsay.neighbors.sharded.dask_cluster import workers_of
from nearsay.neighbors.table import NeighborTable

ROWS_A_TASK = 8192

Block = tuple[slice, NeighborTable, np.ndarray]


@dataclass(frozen=True, eq=False)
class LeftOutTask:
    """Some rows to answer about, of a collection that the worker opens by path."""

    collection: str
    version: int
    rows: np.ndarray


def left_out_on(cluster: Any, path: Path, version: int, rows: np.ndarray) -> Iterator[Block]:
    """The same as ``LiveClassifier.left_out_proba``, by workers that open the collection at this path."""
    parts = list(row_blocks(len(rows), size=ROWS_A_TASK))
    tasks = [LeftOutTask(str(path.resolve()), version, rows[part]) for part in parts]
    for part, blocks in zip(parts, workers_of(cluster).each(left_out_part, tasks, lambda: None), strict=True):
        for lines, table, p in blocks:
            yield slice(part.start + lines.start, part.start + lines.stop), table, p


def left_out_part(task: LeftOutTask) -> list[Block]:
    """The neighbors and probabilities of some rows, each answered by all others."""
    with LiveCollection.open(task.collection, read_only=True) as collection:
        if collection.version != task.version:
            raise StorageError(
                f"The collection {task.collection} on {socket.gethostname()} is at event {collection.version}, but"
                f" event {task.version} is evaluated. Copy it again, or run it again."
            )
        return list(collection.state().classifier.left_out_proba(task.rows))
