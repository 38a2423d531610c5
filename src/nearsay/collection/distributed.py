"""Work on a collection by the workers of a cluster, who open it by path: past cases to learn from, and leave-one-out.

    here:     views, maps, trials, weights ──► what was learned
                 │ row numbers and a transform: a few hundred kB       ▲
    workers:     └──► the collection, opened by path ──► neighbors of these rows among all others

Each part, some rows of one fold in one view, is a pure function of the collection at one version, so the result does
not depend on the number of workers.
"""

from __future__ import annotations

import hashlib
import socket
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from nearsay.collection.live import LiveCollection
from nearsay.collection.state.learned import Learned, transform_of
from nearsay.collection.state.live_views import LiveTransform
from nearsay.collection.state.row_groups import GROUP_BY
from nearsay.core.arrays import row_blocks
from nearsay.distances.named import as_distance
from nearsay.errors import InputError, StorageError
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.sharded.dask_cluster import workers_of
from nearsay.neighbors.sharded.shard_work import Workers
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.posterior.views.feature_group import View

LEFT_OUT_A_TASK = 8192  # more than of past cases: these answers take less time
# A process caches about so many bytes of mapped rows.
MEMORY = 512 << 20

Block = tuple[slice, NeighborTable, np.ndarray]


@contextmanager
def opened_at(path: str, version: int) -> Iterator[LiveCollection]:
    """The collection at this path of a worker; an error where it has another version."""
    with LiveCollection.open(path, read_only=True) as collection:
        if collection.version != version:
            raise StorageError(
                f"The collection {path} on {socket.gethostname()} is at event {collection.version}, but event {version}"
                " is needed. Copy it again, or run it again."
            )
        yield collection


@dataclass(frozen=True, eq=False)
class PastCasesTask:
    """Some rows whose nearest others are searched.

    Attributes
    ----------
    collection, version : its path and version.
    transform : of the view, learned without these rows.
    k, members : as in ``LabeledNeighbors.leave_one_out``.
    rows : numbers among the rows that vote.
    """

    collection: str
    version: int
    transform: LiveTransform
    k: int
    members: tuple[int, ...] | None
    rows: np.ndarray

    @property
    def digest(self) -> str:
        """Identifies the mapped rows."""
        digest = hashlib.sha256(
            f"{self.collection} {self.version} {self.transform.metric} {self.transform.columns}".encode()
        )
        for name, part in sorted(vars(self.transform.whole).items()) if self.transform.whole is not None else ():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


class DistributedView(View):
    """A view whose past cases are searched by workers.

    Parameters
    ----------
    workers, collection, version : the workers, and the collection they open.
    others : as in ``View``.
    """

    rows_a_task = 1024  # few enough that several workers have something to do in each view

    def __init__(self, workers: Workers, collection: str, version: int, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._ask, self._collection, self._version = workers, collection, version

    def past_cases(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray | None = None) -> NeighborTable:
        """The nearest others of all rows, or of some; searched in parts and put in order."""
        rows = np.arange(self.n_rows) if rows is None else rows
        parts = list(self._parts(rows))
        if not parts:
            return super().past_cases(k, members, rows)
        known = self._collection, self._version
        tasks = [PastCasesTask(*known, transform, k, members, rows[lines]) for transform, lines in parts]
        tables = list(self._ask.each(past_cases_part, tasks, lambda: None))
        return joined(tables)[np.argsort(np.concatenate([lines for _, lines in parts]))]

    def _parts(self, rows: np.ndarray) -> Iterator[tuple[LiveTransform, np.ndarray]]:
        """(transform, places among ``rows``): rows of one fold, with a transform learned without them."""
        transform, transforms = transform_of(self), self.transforms
        fold = transforms.fold[rows] if transforms is not None and transform.without else np.full(len(rows), -1)
        for number in np.unique(fold):
            mapped = transform if number < 0 else replace(transform, whole=transform.without[number])
            of_fold = np.flatnonzero(fold == number)
            for part in row_blocks(len(of_fold), size=self.rows_a_task):
                yield replace(mapped, without=()), of_fold[part]


def learned_on(
    cluster: Any, collection: LiveCollection, posterior: str = "auto", n_neighbors: int | str = "auto"
) -> Learned:
    """The result of learning on a cluster, for ``collection.learn(learned=…)``; nothing is written."""
    if collection.store.settings.get(GROUP_BY) is not None:
        raise InputError("A cluster does not leave out groups of items. Learn without it.")
    where = str(collection.store.path.resolve()), collection.version
    return collection.tracker.learn(posterior, n_neighbors, make=partial(DistributedView, workers_of(cluster), *where))


def past_cases_part(task: PastCasesTask) -> NeighborTable:
    """The neighbors of some rows among all others that vote."""
    return _labeled(task).leave_one_out(task.k, task.members, task.rows)


_lock = Lock()
# Mapped rows of earlier tasks, which the next one likely needs. The last one used is at the end.
_ready: OrderedDict[str, LabeledNeighbors] = OrderedDict()


def _labeled(task: PastCasesTask) -> LabeledNeighbors:
    with opened_at(task.collection, task.version) as collection, _lock:
        digest = task.digest
        if digest not in _ready:
            X, labels = collection.tracker.labeled_rows()
            while _ready and (len(_ready) + 1) * X.nbytes > MEMORY:
                _ready.popitem(last=False)
            index = NeighborIndex(as_distance(task.transform.metric)).fit(task.transform.apply(X))
            classes, numbers = np.unique(labels, return_inverse=True)
            _ready[digest] = index.with_labels(numbers, len(classes))
        _ready.move_to_end(digest)
        return _ready[digest]


@dataclass(frozen=True, eq=False)
class LeftOutTask:
    """Some rows to answer about, of a collection that the worker opens by path."""

    collection: str
    version: int
    rows: np.ndarray


def left_out_on(cluster: Any, path: Path, version: int, rows: np.ndarray) -> Iterator[Block]:
    """The same as ``LiveClassifier.left_out_proba``, by workers."""
    parts = list(row_blocks(len(rows), size=LEFT_OUT_A_TASK))
    tasks = [LeftOutTask(str(path.resolve()), version, rows[part]) for part in parts]
    for part, blocks in zip(parts, workers_of(cluster).each(left_out_part, tasks, lambda: None), strict=True):
        for lines, table, p in blocks:
            yield slice(part.start + lines.start, part.start + lines.stop), table, p


def left_out_part(task: LeftOutTask) -> list[Block]:
    """The neighbors and probabilities of some rows, each answered by all others."""
    with opened_at(task.collection, task.version) as collection:
        return list(collection.state().classifier.left_out_proba(task.rows))
