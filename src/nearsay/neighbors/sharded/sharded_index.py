"""Neighbor search in shards, for more rows than fit into memory or onto one machine: the same answers.

ShardedIndex.fit("rows/") ──► query, leave_one_out          (as NeighborIndex)
       └── with_labels(labels) ──► query, leave_one_out     (as LabeledNeighbors: classes in order, and means)
                └──► tasks (blocks of queries × shards) ──► one process, or a cluster
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from nearsay.core.arrays import check_n_neighbors, check_row_numbers, mapped, row_blocks, rows_within
from nearsay.distances.named import Metric, as_distance, with_parameters
from nearsay.errors import InputError, NotFitted
from nearsay.neighbors.by_class.class_means import means_of_nearest
from nearsay.neighbors.by_class.labeled import (
    LIST_ALL_UP_TO,
    ROWS_WITH_CLASSES,
    check_labels,
    check_members,
    with_classes_met,
)
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.neighbors.sharded.dask_cluster import workers_of
from nearsay.neighbors.sharded.fitted_shards import check_shard, known_as
from nearsay.neighbors.sharded.shard_search import NO_ROWS, Partial, ShardTask, shard_tasks, stacked
from nearsay.neighbors.sharded.shard_work import TaskRounds, work_folder
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.search.row_store import MOST_ROWS
from nearsay.search.shards import ShardedRows

# Bytes of shards that a process keeps ready for the next query.
MEMORY = 512 << 20
# The answer of a shard to a block of queries takes no more than this.
ANSWER_BYTES = 64 << 20

Progress = Callable[[int, int], Any]
Result = TypeVar("Result")


class ShardedIndex:
    """Neighbor search over rows in files: the same rows, order and distances as ``NeighborIndex``.

    Parameters
    ----------
    metric, metric_params : as in ``NeighborIndex``.
    search : str, default="exact"
        How each shard is searched: "exact", or "approximate", "hnsw" or "ivf" with a ``recall``. The recall of the
        whole is that of its shards.
    recall : float, optional
    cluster : optional
        Where tasks run: None is this process; otherwise the address of a Dask scheduler, "local" for one worker a
        core, a number of local workers, or a ``dask.distributed.Client``.
    work_folder : path, optional
        Keeps the answers of shards, so that the same call resumes after an interruption. On a cluster all workers
        need the folder under this path. Delete it when done.
    memory : int, default=512 MB
        How many bytes of shards each process keeps ready for the next query.
    on_progress : function of (tasks done, tasks in all), optional

    Attributes
    ----------
    rows_ : ShardedRows
    distance_ : Distance

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> np.save(f"{folder}/1.npy", np.array([[5.0, 5.0]]))
    >>> index = ShardedIndex().fit(folder)
    >>> index.query([[4.0, 4.0]], k=2).indices
    array([[2, 1]])
    >>> index.leave_one_out(k=1).indices.ravel()
    array([1, 0, 1])
    """

    queries_at_once = 16_384  # at most

    def __init__(
        self,
        metric: Metric = "euclidean",
        search: str = "exact",
        recall: float | None = None,
        *,
        metric_params: Mapping[str, Any] | None = None,
        cluster: Any = None,
        work_folder: str | os.PathLike[str] | None = None,
        memory: int = MEMORY,
        on_progress: Progress | None = None,
    ) -> None:
        self.metric = metric
        self.search = search
        self.recall = recall
        self.metric_params = metric_params
        self.cluster = cluster
        self.work_folder = work_folder
        self.memory = memory
        self.on_progress = on_progress

    def fit(self, where: Any, y: Any = None) -> ShardedIndex:
        """Open the files: ``where`` is a ``ShardedRows`` or what ``ShardedRows.open`` takes. No row is read.

        A row that cannot be compared (NaN, infinite) is an error when its shard is first searched.
        """
        if not isinstance(self.search, str):
            raise InputError(
                f'Shards are searched by workers, so search is a name, such as "exact" or "hnsw"; got {self.search!r}.'
            )
        self.distance_ = as_distance(with_parameters(self.metric, self.metric_params))
        known_as(self.distance_)  # raises for a matrix of distances
        self.rows_ = where if isinstance(where, ShardedRows) else ShardedRows.open(where)
        self._workers = workers_of(self.cluster)
        return self

    def like(self, metric: Metric) -> ShardedIndex:
        """An unfitted index with this metric and otherwise the same settings."""
        return ShardedIndex(
            metric,
            self.search,
            self.recall,
            cluster=self.cluster,
            work_folder=self.work_folder,
            memory=self.memory,
            on_progress=self.on_progress,
        )

    def check_rows(self) -> None:
        """Read every row once; an error names the file of the first that cannot be compared."""
        tasks = [(shard, self.distance_) for shard in self._fitted.shards]
        for _ in self._workers.each(check_shard, tasks, lambda: None):
            pass

    def query(self, Q: Any, k: int) -> NeighborTable:
        """The ``k`` nearest rows of every query, nearest first; equal distances by row number."""
        k = check_n_neighbors(k, self._fitted.n_live)
        return self.nearest(self.check_queries(Q), NO_ROWS, k)

    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The ``k`` nearest *other* rows of every row, or of some; −1 and +inf for a removed row."""
        held = self._fitted
        k = check_n_neighbors(k, held.n_live, left_out=1)
        return self.nearest(None, _numbers(rows, len(held)), k)

    def kneighbors(self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """(distances, indices), or the indices alone; with ``X=None`` of each row among the others."""
        table = self.leave_one_out(n_neighbors) if X is None else self.query(X, n_neighbors)
        return (table.distances, table.indices) if return_distance else table.indices

    def with_labels(self, labels: Any, n_classes: int | None = None) -> LabeledShards:
        """The rows with their class numbers (0, 1, …): a search for the nearest rows *and* classes."""
        return LabeledShards(self, labels, n_classes)

    def __len__(self) -> int:
        """How many live rows there are."""
        return self._fitted.n_live

    @property
    def _fitted(self) -> ShardedRows:
        try:
            return self.rows_
        except AttributeError:
            raise NotFitted("This index holds no rows yet. Call fit(where) first.") from None

    def check_queries(self, Q: Any, name: str = "Q") -> np.ndarray:
        """Queries as the distance needs them."""
        return self.distance_.check(Q, name=name, like=np.empty((0, self._fitted.n_columns)))

    def nearest(
        self, Q: np.ndarray | None, left_out: np.ndarray, k: int, groups: np.ndarray | None = None
    ) -> NeighborTable:
        """The ``k`` nearest rows of checked queries, or of the rows of these numbers; −1 where there are fewer.

        With ``groups``, of all rows, a row's neighbors are of other groups.
        """
        blocks = self.blocks(len(left_out if Q is None else Q), 16 * k)
        searches = (self._nearest_of(None if Q is None else Q[part], left_out[part], k, groups) for part in blocks)
        answer = stacked(list(self.run(searches, self.progress(len(blocks))))).nearest
        assert answer is not None
        gone = np.isin(left_out, self.rows_.removed)
        if gone.any():
            answer.indices[gone], answer.distances[gone] = -1, np.inf
        return answer

    def _nearest_of(
        self, Q: np.ndarray | None, left_out: np.ndarray, k: int, groups: np.ndarray | None
    ) -> TaskRounds[Partial]:
        return (yield self.tasks(self.rows_.take(left_out) if Q is None else Q, left_out, k=k, groups=groups))

    def blocks(self, n_queries: int, row_bytes: int, at_once: int | None = None) -> list[slice]:
        """Blocks of queries for which the answer of a shard, ``row_bytes`` a query, stays small; at least one block."""
        size = rows_within(ANSWER_BYTES, row_bytes, most=at_once or self.queries_at_once)
        return list(row_blocks(n_queries, size=size)) or [slice(0, 0)]

    def run(self, searches: Iterable[TaskRounds[Result]], report: Callable[[], None]) -> Iterator[Result]:
        """The results of searches in all shards, in order; calls ``report`` after each task."""
        return self._workers.run(searches, work_folder(self.work_folder), report)

    def tasks(self, Q: np.ndarray, left_out: np.ndarray, **what: Any) -> list[ShardTask]:
        """A task for every shard; ``what`` goes to ``shard_tasks``."""
        return shard_tasks(
            self.rows_, Q, metric=self.distance_, left_out=left_out, memory=self.memory,
            search=(self.search, self.recall), **what,
        )  # fmt: skip

    def progress(self, n_passes: int) -> Callable[[], None]:
        """A function that counts a task, of ``n_passes`` per shard, and calls ``on_progress``."""
        done, total = itertools.count(1), n_passes * len(self.rows_.shards)

        def report() -> None:
            if self.on_progress is not None:
                self.on_progress(next(done), total)

        return report


class LabeledShards:
    """Search for neighbors and classes among rows in shards, as ``LabeledNeighbors``.

    ``labels`` are the class numbers of all rows, removed ones too: an array, or the path of an ``.npy`` file that
    all workers have. Where ``groups`` is set to a number for each row, rows of one group are never asked about each
    other.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0], [1.0]]))
    >>> np.save(f"{folder}/1.npy", np.array([[5.0]]))
    >>> table = ShardedIndex().fit(folder).with_labels([0, 0, 1]).query([[4.0]], k=2, members=(1, 2))
    >>> table.indices, table.classes.numbers
    (array([[2, 1]]), array([[1, 0]]))
    """

    groups: np.ndarray | None = None

    def __init__(self, index: ShardedIndex, labels: Any, n_classes: int | None = None) -> None:
        self.search = index
        self._sent: np.ndarray | str
        path = os.fspath(labels) if isinstance(labels, str | os.PathLike) else None
        given = mapped(path) if path is not None else labels
        self.labels, self.n_classes = check_labels(given, len(index.rows_), n_classes)
        # In the smallest type: every task carries those of its shard.
        smallest = np.min_scalar_type(max(self.n_classes - 1, 0))
        self._sent = self.labels.astype(smallest) if path is None else os.path.abspath(path)
        self.lists_all = self.n_classes <= LIST_ALL_UP_TO

    @property
    def live_numbers(self) -> np.ndarray:
        """Numbers of the live rows."""
        return self.search.rows_.live_numbers

    def __len__(self) -> int:
        """How many live rows there are."""
        return self.search.rows_.n_live

    def query(self, Q: Any, k: int, members: Sequence[int] | None = None, *, input_name: str = "Q") -> NeighborTable:
        """The ``k`` nearest rows of every query, −1 and +inf where there are fewer; with ``members``, the classes."""
        k = check_n_neighbors(k, MOST_ROWS)
        return self._answered(self.search.check_queries(Q, input_name), NO_ROWS, k, members)

    def leave_one_out(self, k: int, members: Sequence[int] | None = None, rows: Any = None) -> NeighborTable:
        """The same for every row, or for some, and the *other* rows. A removed row has no neighbors and no classes."""
        k = check_n_neighbors(k, MOST_ROWS)
        return self._answered(None, _numbers(rows, len(self.search.rows_)), k, members)

    def leave_one_out_blocks(
        self, k: int, members: Sequence[int] | None = None, rows: Any = None, at_once: int | None = None
    ) -> Iterator[tuple[np.ndarray, NeighborTable]]:
        """(row numbers, their table) of all rows, or of some, in order: what ``leave_one_out`` gives, never all held.

        No more than ``at_once`` rows at a time; on a cluster the next blocks are searched while one is processed.
        """
        k, numbers = check_n_neighbors(k, MOST_ROWS), _numbers(rows, len(self.search.rows_))
        checked = None if members is None else check_members(members)
        if checked is not None and self.lists_all:
            for part, table in self._by_block(None, numbers, k, checked, at_once):
                yield numbers[part], table
            return
        for part in row_blocks(len(numbers), size=at_once or self.search.queries_at_once):
            yield numbers[part], self._answered(None, numbers[part], k, checked)

    def _answered(
        self, Q: np.ndarray | None, left_out: np.ndarray, k: int, members: Sequence[int] | None
    ) -> NeighborTable:
        if members is None:
            return self.search.nearest(Q, left_out, k, self.groups)
        checked = check_members(members)
        if not self.lists_all:
            return self._by_rows_met(Q, left_out, k, checked)
        # Block by block: answers by class take much memory.
        return joined([table for _, table in self._by_block(Q, left_out, k, checked)])

    def _by_block(
        self, Q: np.ndarray | None, left_out: np.ndarray, k: int, members: tuple[int, ...], at_once: int | None = None
    ) -> Iterator[tuple[slice, NeighborTable]]:
        """Blocks of queries, or rows, and their tables; the next are searched before the last are done."""
        of_members = 8 * min(self.n_classes, MEMBERS_OF_NEAREST) * max(members, default=0)
        row_bytes = max(16 * (self.n_classes + k), of_members)
        blocks = self.search.blocks(len(left_out if Q is None else Q), row_bytes, at_once)
        searches = (self._all_classes(None if Q is None else Q[part], left_out[part], k, members) for part in blocks)
        report = self.search.progress(len(blocks) * (1 if members in ((), (1,)) else 2))
        return zip(blocks, self.search.run(searches, report), strict=True)

    def _all_classes(
        self, Q: np.ndarray | None, left_out: np.ndarray, k: int, members: tuple[int, ...]
    ) -> TaskRounds[NeighborTable]:
        """The nearest rows, and all classes in order, for one block of queries."""
        queries = self.search.rows_.take(left_out) if Q is None else Q
        known: dict[str, Any] = {"labels": self._sent, "n_classes": self.n_classes, "groups": self.groups}
        answer = yield self.search.tasks(queries, left_out, k=k, **known)
        assert answer.nearest is not None
        assert answer.members is not None
        gone = np.isin(left_out, self.search.rows_.removed)
        for table in (answer.nearest, answer.members):
            table.indices[gone], table.distances[gone] = -1, np.inf
        classes = answer.members.in_order((1,) if members else ())
        if members not in ((), (1,)):
            near = np.ascontiguousarray(classes.numbers[:, :MEMBERS_OF_NEAREST])
            further = yield self.search.tasks(queries, left_out, k=0, near=near, n_members=members[-1], **known)
            assert further.members_far is not None
            means, listed = np.full((*near.shape, len(members)), np.inf), near >= 0
            means[listed] = means_of_nearest(further.members_far[listed], np.array(members))
            classes = NearestClasses(classes.numbers, classes.nearest, means, classes.beyond, members)
        return NeighborTable(answer.nearest.indices, answer.nearest.distances, classes)

    def _by_rows_met(
        self, Q: np.ndarray | None, left_out: np.ndarray, k: int, members: tuple[int, ...]
    ) -> NeighborTable:
        """The nearest rows, and the classes of a few more of them, where classes are too many to list."""
        if self.groups is not None:
            raise InputError(
                f"Rows in shards of more than {LIST_ALL_UP_TO:,} classes cannot be asked about other groups alone; got"
                f" {self.n_classes:,} classes. Leave groups and validation rows out, or hold the rows in memory."
            )
        others = max(len(self) - (Q is None), 0)
        n_rows = max(k, ROWS_WITH_CLASSES)
        table = self.search.nearest(Q, left_out, n_rows)
        width = min(n_rows, others)
        table = NeighborTable(table.indices[:, :width], table.distances[:, :width])
        sizes = np.bincount(self.labels[self.live_numbers], minlength=self.n_classes)
        answer = with_classes_met(table, self.labels, sizes, left_out, k, members, every_row=width == others)
        return answer.widened(k)


def _numbers(rows: Any, n_rows: int) -> np.ndarray:
    return np.arange(n_rows) if rows is None else check_row_numbers(rows, n_rows)
