"""A collection learns, and the workers of a cluster find the past cases that it learns from.

    here:     views, maps, trials, weights ──► what was learned
                 │ which rows, seen how: a few hundred kilobytes       ▲
    workers:     └──► the collection, opened by path ──► neighbors of these rows among all others

Asking rows about all others takes most of the time of learning. Each part, some rows of one fold in one view, is a pure
function of the collection at one version. So what is learned is the same, however many workers there are.
"""

from __future__ import annotations

import hashlib
import socket
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from nearsay.collection.live import LiveCollection
from nearsay.collection.state.learned import Learned, sight_of
from nearsay.collection.state.live_views import LiveTransform
from nearsay.core.arrays import row_blocks
from nearsay.distances.named import as_distance
from nearsay.errors import StorageError
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.sharded.shard_work import Workers
from nearsay.neighbors.sharded.workers import workers_of
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.posterior.views.feature_group import View

# Few enough that several workers have something to do in each view.
ROWS_A_TASK = 1024
# A process keeps about so many bytes of rows ready, as they are seen in several views by the maps of several folds.
MEMORY = 512 << 20


@dataclass(frozen=True, eq=False)
class PastCasesTask:
    """Some rows to be asked about all others.

    Attributes
    ----------
    collection, version : its path, and the event after which it is asked.
    sight : how rows are seen, by maps that have not seen those that are asked.
    k, members : as in ``LabeledNeighbors.leave_one_out``.
    rows : numbers among the rows that vote.
    """

    collection: str
    version: int
    sight: LiveTransform
    k: int
    members: tuple[int, ...] | None
    rows: np.ndarray

    @property
    def seen_by(self) -> str:
        """Tells how rows are seen from all other ways."""
        digest = hashlib.sha256(f"{self.collection} {self.version} {self.sight.metric} {self.sight.columns}".encode())
        for name, part in sorted(vars(self.sight.whole).items()) if self.sight.whole is not None else ():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


class ViewElsewhere(View):
    """A view whose past cases are found by workers.

    Parameters
    ----------
    workers, collection, version : who finds them, and where.
    others : as in ``View``.
    """

    def __init__(self, workers: Workers, collection: str, version: int, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._ask, self._collection, self._version = workers, collection, version

    def past_cases(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray | None = None) -> NeighborTable:
        """The neighbors of rows, or of some, each left out of its own; found in parts and put in order."""
        rows = np.arange(self.n_rows) if rows is None else rows
        parts = list(self._parts(rows))
        if not parts:
            return super().past_cases(k, members, rows)
        known = self._collection, self._version
        tasks = [PastCasesTask(*known, sight, k, members, rows[lines]) for sight, lines in parts]
        tables = list(self._ask.each(past_cases_part, tasks, lambda: None))
        return joined(tables)[np.argsort(np.concatenate([lines for _, lines in parts]))]

    def _parts(self, rows: np.ndarray) -> Iterator[tuple[LiveTransform, np.ndarray]]:
        """(how they are seen, places among ``rows``): rows of one fold, where maps must not have seen them."""
        sight = sight_of(self)
        fold = self.transforms.fold[rows] if self.transforms is not None and sight.without else np.full(len(rows), -1)
        for number in np.unique(fold):
            seen = sight if number < 0 else replace(sight, whole=sight.without[number])
            of_fold = np.flatnonzero(fold == number)
            for part in row_blocks(len(of_fold), size=ROWS_A_TASK):
                yield replace(seen, without=()), of_fold[part]


def learned_on(
    cluster: Any, collection: LiveCollection, posterior: str = "auto", n_neighbors: int | str = "auto"
) -> Learned:
    """What ``collection.learn`` would learn now, for its argument ``learned``; nothing is kept yet."""
    where = str(collection.store.path.resolve()), collection.version
    return collection._learned_anew(posterior, n_neighbors, make=partial(ViewElsewhere, workers_of(cluster), *where))


def past_cases_part(task: PastCasesTask) -> NeighborTable:
    """The neighbors of some rows among all others that vote."""
    return _labeled(task).leave_one_out(task.k, task.members, task.rows)


_lock = Lock()
# Rows as tasks before saw them: the next one likely does, too. The last one used is at the end.
_ready: OrderedDict[str, LabeledNeighbors] = OrderedDict()


def _labeled(task: PastCasesTask) -> LabeledNeighbors:
    with LiveCollection.open(task.collection, read_only=True) as collection:
        if collection.version != task.version:
            raise StorageError(
                f"The collection {task.collection} on {socket.gethostname()} is at event {collection.version}, but"
                f" event {task.version} is to be learned from. Copy it again, or ask again."
            )
        with _lock:
            seen_by = task.seen_by
            if seen_by not in _ready:
                X, labels = collection._rows_that_vote()
                while _ready and (len(_ready) + 1) * X.nbytes > MEMORY:
                    _ready.popitem(last=False)
                index = NeighborIndex(as_distance(task.sight.metric)).fit(task.sight.seen(X))
                classes, numbers = np.unique(labels, return_inverse=True)
                _ready[seen_by] = index.with_labels(numbers, len(classes))
            _ready.move_to_end(seen_by)
            return _ready[seen_by]
