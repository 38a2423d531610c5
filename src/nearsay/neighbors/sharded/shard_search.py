"""Search in one shard, and merging the answers of shards: pure functions that run on any machine.

    shard 0 ──► answer ─┐
    shard 1 ──► answer ─┼─► merge, in any order and grouping ──► what a search of all rows gives, to the last bit
    shard 2 ──► answer ─┘

A ``ShardTask`` holds the path of a shard, the queries, and what to search for. It is a few kilobytes besides the
queries, so it can be sent to any machine that has the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.distances.distance import Distance
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.class_means import RowsByClass
from nearsay.neighbors.by_class.class_table import ClassTable, no_members
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.sharded.fitted_shards import FittedShard, fitted_shard
from nearsay.neighbors.table import NeighborTable
from nearsay.search.shards import ShardedRows
from nearsay.search.stored.shard import Shard

NO_ROWS = np.empty(0, np.int64)
# Distances of queries to the members of a class that are measured at once: 8 MB.
DISTANCES_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class ShardTask:
    """A search in one shard.

    removed : numbers, counted from the first of the shard, of rows that must not be found.
    Q : (n_queries, n_columns)
    k : how many nearest rows; 0 where only members of classes are wanted.
    left_out : (n_queries,) or empty, the row number, counted from the first of the shard, that each query is itself;
        below 0, or past the end of the shard, where it is none of its rows.
    groups : (n_rows of the shard,) the group of each row, and (n_queries,) those whose rows must not be found; or None
    labels : (n_rows of the shard,) class numbers, the path of an ``.npy`` file that has those of all rows, or None.
    n_classes : with labels, the nearest row of each class is searched for, too.
    near : (n_queries, n_near) class numbers, or None, instead of all of that, the distances of the ``n_members``
        nearest rows of each of these classes.
    search : how the rows of a shard are searched: a name, as ``NeighborIndex`` takes it, and the recall.
    memory : how many bytes of shards a process may keep ready for the next task.
    """

    shard: Shard
    removed: np.ndarray
    Q: np.ndarray
    k: int
    distance: Distance
    left_out: np.ndarray
    labels: np.ndarray | str | None = None
    n_classes: int = 0
    near: np.ndarray | None = None
    n_members: int = 0
    search: tuple[str, float | None] = ("exact", None)
    memory: int = 0
    groups: tuple[np.ndarray, np.ndarray] | None = None

    def answer(self) -> Partial:
        """Search the shard. A task has the same answer wherever, and however often, it runs."""
        fitted = fitted_shard(self.shard, self.removed, self.distance, self.search, self.memory)
        Q = neighbor_search.checked_queries(fitted.search, self.Q)
        if self.near is not None:
            return Partial(members_far=_members_far(self, fitted, Q))
        if self.groups is not None:
            return self._by_group(fitted, Q)
        here = (self.left_out >= 0) & (self.left_out < self.shard.n_rows)
        if not here.any():
            return self._search(fitted, Q, NO_ROWS)
        if here.all():
            return self._search(fitted, Q, self.left_out)
        # Rows of this shard leave themselves out; for others all of its rows count.
        of_shard, others = self._search(fitted, Q[here], self.left_out[here]), self._search(fitted, Q[~here], NO_ROWS)
        return _interleaved(of_shard, others, here)

    def _search(self, fitted: FittedShard, Q: np.ndarray, left_out: np.ndarray) -> Partial:
        """The nearest rows, padded with −1 and +inf, and those of each class; numbered as the whole numbers them."""
        table = neighbor_search.no_neighbors(len(Q), self.k)
        k = min(self.k, fitted.n_live - bool(len(left_out)))
        members = None
        if self.labels is not None:
            labeled = fitted.labeled(self.labels, self.n_classes)
            some, members = labeled.rows_and_members(Queries.of_items(Q, left_out), max(k, 0))
        elif k > 0:
            some = _nearest(fitted, Q, left_out, k)
        else:
            some = table
        table.indices[:, : some.n_neighbors], table.distances[:, : some.n_neighbors] = some.indices, some.distances
        first = self.shard.first
        table.indices[table.indices >= 0] += first
        if members is not None:
            members.indices[members.indices >= 0] += first
        return Partial(table, members)

    def _by_group(self, fitted: FittedShard, Q: np.ndarray) -> Partial:
        """``_search`` without the rows of the queries' own groups: a longer list of neighbors holds enough others."""
        assert self.groups is not None
        of_rows, of_queries = self.groups
        if (of_rows == of_rows[0]).all() and (of_queries == of_rows[0]).all():  # validation rows, asked of themselves
            members = None if self.labels is None else no_members(len(Q), self.n_classes, 1)
            return Partial(neighbor_search.no_neighbors(len(Q), self.k), members)
        most = int(np.unique(of_rows[np.isin(of_rows, of_queries)], return_counts=True)[1].max(initial=0))
        longer = replace(self, k=min(self.k + most, fitted.n_live))
        parts = []
        for lines in row_blocks(len(Q), row_bytes=16 * longer.k):
            some = replace(self, groups=(of_rows, of_queries[lines]))
            parts.append(some._of_other_groups(fitted, Q[lines], longer._search(fitted, Q[lines], NO_ROWS)))
        return stacked(parts) if parts else self._search(fitted, Q, NO_ROWS)

    def _of_other_groups(self, fitted: FittedShard, Q: np.ndarray, part: Partial) -> Partial:
        """A part without the rows of the queries' own groups."""
        assert part.nearest is not None
        nearest = part.nearest.without(self._is_own(part.nearest.indices), self.k)
        if part.members is not None:
            self._replace_own_members(fitted, Q, part.members)
        return Partial(nearest.widened(self.k), part.members)

    def _replace_own_members(self, fitted: FittedShard, Q: np.ndarray, members: ClassTable) -> None:
        """Where the nearest row of a class is of the query's own group, put in the nearest of another."""
        lines, classes = np.nonzero(self._is_own(members.indices[:, :, 0]))
        for pairs, rows, distances in _pairs_with_rows_of(self, fitted, Q, lines, classes):
            nearest = distances.argmin(axis=1)
            far = distances[np.arange(len(pairs)), nearest]
            at = lines[pairs], classes[pairs], 0
            members.distances[at] = far
            members.indices[at] = np.where(np.isfinite(far), rows[nearest] + self.shard.first, -1)

    def _is_own(self, indices: np.ndarray) -> np.ndarray:
        """Which rows, numbered as the whole numbers them or −1, are of the groups of the queries in their lines."""
        assert self.groups is not None
        of_rows, of_queries = self.groups
        return np.asarray((indices >= 0) & (of_rows[np.maximum(indices - self.shard.first, 0)] == of_queries[:, None]))


@dataclass(frozen=True)
class Partial:
    """The answer of some shards to some queries, as ``merge`` takes it.

    nearest : the k nearest rows of these shards, padded with −1 and +inf; or None.
    members : the nearest row of each class; or None.
    members_far : (n_queries, n_near, n_members) distances, ascending, padded with +inf; or None.
    """

    nearest: NeighborTable | None = None
    members: ClassTable | None = None
    members_far: np.ndarray | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, by name."""
        arrays: dict[str, np.ndarray] = {}
        for name, table in (("nearest", self.nearest), ("members", self.members)):
            if table is not None:
                arrays |= {f"{name}_indices": table.indices, f"{name}_distances": table.distances}
        return arrays if self.members_far is None else {**arrays, "members_far": self.members_far}

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> Partial:
        """The inverse of ``arrays``."""
        nearest, members = None, None
        if "nearest_indices" in arrays:
            nearest = NeighborTable(arrays["nearest_indices"], arrays["nearest_distances"])
        if "members_indices" in arrays:
            members = ClassTable(arrays["members_indices"], arrays["members_distances"])
        return cls(nearest, members, arrays.get("members_far"))


def shard_tasks(
    rows: ShardedRows,
    Q: Any,
    k: int,
    metric: Any = "euclidean",
    *,
    left_out: np.ndarray = NO_ROWS,
    labels: np.ndarray | str | None = None,
    n_classes: int = 0,
    near: np.ndarray | None = None,
    n_members: int = 0,
    search: tuple[str, float | None] = ("exact", None),
    memory: int = 0,
    groups: np.ndarray | None = None,
) -> list[ShardTask]:
    """A task for each shard; ``merge`` of their answers is the answer of all rows.

    ``left_out``, ``labels`` and ``groups`` are of all rows, and with ``groups`` a row is asked about the rows of other
    groups; the rest is as in ``ShardTask``.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0], [1.0]]))
    >>> np.save(f"{folder}/1.npy", np.array([[5.0]]))
    >>> tasks = shard_tasks(ShardedRows.open(folder), [[4.0]], k=2)
    >>> merge(task.answer() for task in tasks).nearest.indices
    array([[2, 1]])
    """
    distance = as_distance(metric)
    Q = distance.check(Q, name="Q", like=np.empty((0, rows.n_columns)))
    tasks = []
    for shard in rows.shards:
        labels_here = labels[shard.first : shard.end] if isinstance(labels, np.ndarray) else labels
        groups_here = None
        if groups is not None and len(left_out):
            groups_here = groups[shard.first : shard.end], groups[left_out]
        tasks.append(
            ShardTask(
                shard, rows.removed_in(shard), Q, k, distance, left_out - shard.first, labels_here, n_classes, near,
                n_members, search, memory, groups_here,
            )
        )  # fmt: skip
    return tasks


def merge(partials: Iterable[Partial]) -> Partial:
    """The answer of all shards together: nearest first, equal distances by row number.

    The order of the answers does not matter, nor whether some were merged before.
    """
    merged = None
    for each in partials:
        merged = each if merged is None else _merged(merged, each)
    if merged is None:
        raise InputError("There is nothing to merge: no partial answer was given.")
    return merged


def _merged(one: Partial, other: Partial) -> Partial:
    nearest, members, far = one.nearest, one.members, one.members_far
    if nearest is not None and other.nearest is not None:
        table = neighbor_search.no_neighbors(len(nearest), nearest.n_neighbors)
        neighbor_search.order_measured(
            np.hstack([nearest.indices, other.nearest.indices]),
            np.hstack([nearest.distances, other.nearest.distances]),
            neighbor_search.NOBODY,
            table,
        )
        nearest = table
    if members is not None and other.members is not None:
        members = _nearer_members(members, other.members)
    if far is not None and other.members_far is not None:
        far = np.sort(np.concatenate([far, other.members_far], axis=2), axis=2)[:, :, : far.shape[2]]
    return Partial(nearest, members, far)


def _nearer_members(one: ClassTable, other: ClassTable) -> ClassTable:
    """Of each class the nearest row of either, ties by row number."""
    equal = (other.distances == one.distances) & (other.indices >= 0)
    nearer = (other.distances < one.distances) | (equal & ((one.indices < 0) | (other.indices < one.indices)))
    return ClassTable(np.where(nearer, other.indices, one.indices), np.where(nearer, other.distances, one.distances))


def _nearest(fitted: FittedShard, Q: np.ndarray, left_out: np.ndarray, k: int) -> NeighborTable:
    if not len(left_out):
        return neighbor_search.nearest_of_checked(fitted.search, Q, k)
    # Search for one more, and take out the row itself.
    more = neighbor_search.nearest_of_checked(fitted.search, Q, min(k + 1, fitted.n_live))
    table = neighbor_search.no_neighbors(len(Q), k)
    neighbor_search.order_measured(more.indices, more.distances, left_out, table)
    return table


def _interleaved(of_shard: Partial, others: Partial, here: np.ndarray) -> Partial:
    """Lines of two answers as one, the first where ``here`` is True."""
    order = np.argsort(np.concatenate([np.flatnonzero(here), np.flatnonzero(~here)]))
    return Partial.of_arrays({name: array[order] for name, array in stacked([of_shard, others]).arrays().items()})


def _members_far(task: ShardTask, fitted: FittedShard, Q: np.ndarray) -> np.ndarray:
    """The distances of the nearest rows of the classes near each query."""
    assert task.near is not None
    far = np.full((*task.near.shape, task.n_members), np.inf)
    lines, places = np.nonzero(task.near >= 0)
    for pairs, _, distances in _pairs_with_rows_of(task, fitted, Q, lines, task.near[lines, places]):
        far[lines[pairs], places[pairs], : min(distances.shape[1], task.n_members)] = _smallest(
            distances, task.n_members
        )
    return far


def _pairs_with_rows_of(
    task: ShardTask, fitted: FittedShard, Q: np.ndarray, lines: np.ndarray, classes: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(numbers of pairs, rows of their class, distances of their queries to these) for pairs of a query and a class.

    A row that a query must not find is at +inf.
    """
    live, of_all = fitted.search.rows_.live_numbers, fitted.labeled(task.labels, task.n_classes).labels
    order = live[np.argsort(of_all[live], kind="stable")]
    rows_by_class = RowsByClass(order, of_all, task.n_classes, grouped=None)
    by_class = np.argsort(classes, kind="stable")
    starts = np.flatnonzero(np.diff(classes[by_class], prepend=-1))
    for pairs in np.split(by_class, starts[1:]) if len(by_class) else ():
        rows = rows_by_class.of(int(classes[pairs[0]]))
        if not len(rows):
            continue
        X = fitted.search.rows_.take(rows)
        for part in row_blocks(len(pairs), size=max(1, DISTANCES_AT_ONCE // len(rows))):
            of_part = lines[pairs[part]]
            distances = task.distance.block(Q[of_part], X)
            if task.groups is not None:
                of_rows, of_queries = task.groups
                distances[of_rows[rows] == of_queries[of_part][:, None]] = np.inf
            elif len(task.left_out):
                distances[rows == task.left_out[of_part][:, None]] = np.inf
            yield pairs[part], rows, distances


def _smallest(distances: np.ndarray, n: int) -> np.ndarray:
    """The ``n`` smallest numbers of each line, ascending, or all where there are fewer."""
    if distances.shape[1] > n:
        distances = np.partition(distances, n - 1, axis=1)[:, :n]
    return np.sort(distances, axis=1)


def stacked(parts: Sequence[Partial]) -> Partial:
    """Answers to some queries, and to others after them."""
    arrays = [part.arrays() for part in parts]
    return Partial.of_arrays({name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]})
