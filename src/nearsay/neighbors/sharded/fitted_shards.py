"""Shards that this process has opened and prepared for search: a cache with a memory limit."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

import numpy as np

from nearsay.core.arrays import mapped
from nearsay.distances.distance import Distance
from nearsay.distances.functions import CompiledDistance, FunctionDistance, PrecomputedDistance
from nearsay.errors import InputError
from nearsay.neighbors.by_class.class_search import ClassSearch
from nearsay.search.choose import choose
from nearsay.search.protocol import NeighborSearch
from nearsay.search.stored.places import Stamp
from nearsay.search.stored.shard import Shard


class FittedShard:
    """A search over the rows of one shard, numbered from 0."""

    def __init__(self, shard: Shard, removed: np.ndarray, distance: Distance, search: tuple[str, float | None]) -> None:
        rows = measurable(shard, distance)
        name, recall = search
        self.search: NeighborSearch = choose(name, distance, rows, recall).search.fit_checked(rows, distance)  # type: ignore[arg-type]
        if len(removed):
            self.search.remove(removed)
        self.n_live = self.search.rows_.n_live
        self.n_rows = shard.n_rows
        self.first = shard.first
        self._labeled: tuple[Hashable, ClassSearch] | None = None

    def labeled(self, labels: np.ndarray | str | None, n_classes: int) -> ClassSearch:
        """The rows with their classes, prepared once for the same labels."""
        if isinstance(labels, str):
            labels = mapped(labels)[self.first : self.first + self.n_rows]
        of_shard = np.ascontiguousarray(labels, np.int64)
        known = hashlib.sha256(of_shard.tobytes()).digest(), n_classes
        if self._labeled is None or self._labeled[0] != known:
            self._labeled = known, ClassSearch(self.search, of_shard, n_classes)
        return self._labeled[1]


def measurable(shard: Shard, distance: Distance) -> np.ndarray:
    """The rows of a shard as a distance needs them, or an error that names the file."""
    try:
        rows: np.ndarray = distance.check(shard.opened())
    except InputError as error:
        raise InputError(f"{shard.file}, rows from number {shard.first:,} on: {error}") from None
    return rows


def check_shard(task: tuple[Shard, Distance]) -> None:
    """Raise if a row of the shard cannot be compared: a task for a worker."""
    measurable(*task)


def fitted_shard(
    shard: Shard, removed: np.ndarray, distance: Distance, search: tuple[str, float | None], memory: int
) -> FittedShard:
    """A prepared shard, cached up to ``memory`` bytes; the file is checked every time."""
    # The stamp is part of the key, so a file that was written to is prepared again.
    key = (shard, shard.check(), removed.tobytes(), known_as(distance), search)
    with _lock:
        ready = _ready.get(key)
        if ready is not None:
            _ready.move_to_end(key)
    if ready is not None:
        return ready
    fitted = FittedShard(shard, removed, distance, search)
    if shard.nbytes <= memory and known_as(distance) is not None:
        with _lock:
            _ready[key] = fitted
            while sum(each[0].nbytes for each in _ready) > memory:
                _ready.popitem(last=False)
    return fitted


_lock = Lock()
_ready: OrderedDict[tuple[Shard, Stamp, bytes, Any, tuple[str, float | None]], FittedShard] = OrderedDict()


def known_as(distance: Distance) -> str | None:
    """A string that identifies a distance on any machine; None for a function of the user's.

    >>> from nearsay.distances.named import as_distance
    >>> known_as(as_distance("manhattan"))
    'manhattan []'
    """
    if isinstance(distance, PrecomputedDistance):
        raise InputError('Rows in shards are compared with each other; metric="precomputed" takes a whole matrix.')
    if isinstance(distance, FunctionDistance | CompiledDistance):
        return None
    given = []
    for name, value in sorted(distance.parameters().items()):
        parameter = known_as(value) if isinstance(value, Distance) else np.asarray(value).tolist()
        if parameter is None:
            return None
        given.append((name, parameter))
    return f"{distance.name} {given}"
