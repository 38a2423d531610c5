"""Pictures described by the workers of a cluster: the same vectors as in one process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.image_description import Description
from nearsay.core.arrays import row_blocks
from nearsay.describe.folder import SkippedImage
from nearsay.neighbors.sharded.dask_cluster import workers_of

PICTURES_A_TASK = 16

Task = tuple[str, list[str]]


class DescribedByWorkers:
    """Describes pictures as a record says, on a cluster whose workers have them at the same paths."""

    def __init__(self, record: Mapping[str, Any], cluster: Any) -> None:
        self.name = ", ".join(record["by"])
        self._record, self._cluster = json.dumps(record, sort_keys=True), cluster

    def __call__(self, paths: list[Path]) -> tuple[np.ndarray, list[SkippedImage]]:
        """A row for each picture that could be described, and those that could not."""
        given = {os.path.abspath(path): path for path in paths}
        tasks = [(self._record, list(given)[part]) for part in row_blocks(len(given), size=PICTURES_A_TASK)]
        parts = list(workers_of(self._cluster).each(describe_some, tasks, lambda: None))
        skipped = [SkippedImage(given[path], reason) for _, some in parts for path, reason in some]
        rows = [X for X, _ in parts if len(X)]
        return (np.concatenate(rows) if rows else np.empty((0, 0), np.float32)), skipped


def describe_some(task: Task) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """The rows of some pictures, and (path, reason) of those that could not be described."""
    record, paths = task
    X, skipped = _recorded(record)([Path(path) for path in paths])
    return X, [(str(each.path), each.reason) for each in skipped]


@lru_cache(maxsize=2)
def _recorded(record: str) -> Description:
    """A description, loaded and checked once per process: an encoder takes seconds."""
    settings = json.loads(record)
    return Description.recorded(settings, Path(settings["model"]) if settings.get("model") else None)
