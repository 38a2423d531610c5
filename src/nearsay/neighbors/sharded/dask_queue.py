"""Searches and work items pending on a Dask cluster: as many as keep its workers busy, and no more.

    searches ──► [ block 0: 3 tasks open ][ block 1: all open ] │ block 2, block 3, … wait here
                       └── the next block is submitted as soon as fewer tasks are open than twice the threads

Answers of shards are freed as soon as they are merged, and results are given in the order of the searches.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from nearsay.core.parallel import threads
from nearsay.errors import require
from nearsay.neighbors.sharded.shard_search import Partial, ShardTask, merge
from nearsay.neighbors.sharded.shard_work import Report, TaskRounds, answer_once
from nearsay.search.stored.mapped import RowMap

Item = TypeVar("Item")
Result = TypeVar("Result")

# Answers that are merged by one task.
MERGED_AT_ONCE = 8
# Open tasks per thread, so that none is idle.
TASKS_A_THREAD = 2
# Searches that are open or whose results wait for earlier ones: each holds up to 64 MB in this process.
MOST_SEARCHES = 8
# Seconds between two checks that there are workers left.
CHECK_EVERY = 5.0


@dataclass(eq=False)
class _PendingSearch(Generic[Result]):
    """A search, its current round of tasks, and the futures of their answers and of the merged answer."""

    number: int
    rounds: TaskRounds[Result]
    tasks: Sequence[ShardTask]
    client: Any = None
    answers: set[Any] = field(default_factory=set)
    merged: Any = None
    n_reported: int = 0


class PendingSearches(Generic[Result]):
    """Searches on the workers of a cluster, several at a time.

    If a connection is lost, call ``step`` with a new one: open tasks are submitted again.
    """

    def __init__(self, searches: Iterable[TaskRounds[Result]], folder: str | None, report: Report) -> None:
        self._waiting, self._folder, self._report = iter(searches), folder, report
        self._open: dict[int, _PendingSearch[Result]] = {}
        self._results: dict[int, Result] = {}
        self._arrived: queue.SimpleQueue[tuple[_PendingSearch[Result], Any]] = queue.SimpleQueue()
        self._n_started, self._n_given, self._all_started = 0, 0, False

    def is_open(self) -> bool:
        """Whether there are results still to come."""
        return not self._all_started or bool(self._open)

    def results(self) -> Iterator[Result]:
        """The next results, in order."""
        while self._n_given in self._results:
            result = self._results.pop(self._n_given)
            self._n_given += 1
            yield result

    def step(self, client: Any, patience: float) -> None:
        """Submit as many tasks as keep workers busy, and wait for an answer; raises if the cluster is gone."""
        for search in self._open.values():
            if search.client is not client:
                self._submit(client, search)
        self._start(client)
        if self._open:
            self._receive(*self._next(client, patience))

    def cancel(self) -> None:
        """Cancel all open tasks."""
        for search in self._open.values():
            with suppress(Exception):  # the cluster may be gone
                search.client.cancel([*search.answers, search.merged])
        self._open.clear()

    def _start(self, client: Any) -> None:
        """Start the next searches, as long as workers would be idle otherwise."""
        while not self._all_started and self._n_started - self._n_given < MOST_SEARCHES:
            n_open = sum(len(search.answers) for search in self._open.values())
            if self._open and n_open >= TASKS_A_THREAD * _n_threads(client):
                return
            rounds = next(self._waiting, None)
            if rounds is None:
                self._all_started = True
                return
            search = _PendingSearch(self._n_started, rounds, ())
            self._n_started += 1
            self._open[search.number] = search
            self._next_round(client, search, None)

    def _next_round(self, client: Any, search: _PendingSearch[Result], answer: Partial | None) -> None:
        """Send a search its merged answer, and submit its next round."""
        search.client = None
        try:
            search.tasks, search.n_reported = (next(search.rounds) if answer is None else search.rounds.send(answer)), 0
        except StopIteration as end:
            self._results[search.number] = end.value
            del self._open[search.number]
        else:
            self._submit(client, search)

    def _submit(self, client: Any, search: _PendingSearch[Result]) -> None:
        answers, search.merged = _submitted(client, search.tasks, self._folder, search.number)
        search.answers, search.client = set(answers), client
        for future in (*answers, search.merged):
            future.add_done_callback(partial(_put, self._arrived, search))

    def _next(self, client: Any, patience: float) -> tuple[_PendingSearch[Result], Any]:
        """The next future that is done, and its search."""
        watch = _Watch(client, patience)
        while True:
            try:
                return self._arrived.get(timeout=CHECK_EVERY)
            except queue.Empty:
                watch.check()

    def _receive(self, search: _PendingSearch[Result], future: Any) -> None:
        if future not in search.answers and future is not search.merged:
            return  # from a connection that was lost
        if future.status != "finished":
            future.result()  # raises
        if future is search.merged:
            self._next_round(search.client, search, future.result())
            return
        search.answers.discard(future)
        n_done = len(search.tasks) - len(search.answers)
        if n_done > search.n_reported:  # tasks that run again are not reported again
            search.n_reported = n_done
            self._report()


class PendingItems(Generic[Item, Result]):
    """Work items on a cluster; ``first`` may be called again with another connection."""

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self._work, self._waiting = work, deque(items)
        self._given_out: deque[tuple[Item, Any, Any]] = deque()

    def is_open(self) -> bool:
        """Whether there are results still to come."""
        return bool(self._waiting or self._given_out)

    def first(self, client: Any, patience: float) -> Result:
        """The result of the first item left; the next items are submitted before it is waited for."""
        again = [item for item, given_to, _ in self._given_out if given_to is not client]
        if again:
            self._waiting.extendleft(item for item, *_ in reversed(self._given_out))
            self._given_out.clear()
        most = max(TASKS_A_THREAD * _n_threads(client), 1)
        while self._waiting and len(self._given_out) < most:
            item = self._waiting[0]
            self._given_out.append((item, client, client.submit(_on_one_thread, self._work, item, pure=False)))
            self._waiting.popleft()
        distributed, future, watch = require("distributed", "dask"), self._given_out[0][2], _Watch(client, patience)
        while not future.done():
            try:
                with client.as_current():
                    distributed.wait([future], timeout=CHECK_EVERY)
            except TimeoutError:
                watch.check()
        result: Result = future.result()
        self._given_out.popleft()
        return result


class _Watch:
    """Checks that a cluster is still alive."""

    def __init__(self, client: Any, patience: float) -> None:
        self._client, self._patience, self._last_workers = client, patience, time.monotonic()

    def check(self) -> None:
        """Raise if the connection is lost, or there have been no workers for long."""
        if self._client.status != "running":
            raise CancelledError("the connection to the scheduler was lost")
        if self._client.nthreads():
            self._last_workers = time.monotonic()
        elif time.monotonic() - self._last_workers > self._patience:
            raise TimeoutError(f"no workers for {self._patience:.0f} seconds")


def _submitted(client: Any, tasks: Sequence[ShardTask], folder: str | None, number: int) -> tuple[list[Any], Any]:
    """Futures of the answers of all tasks, and of the merged answer; merges and earlier searches have priority."""
    # Queries and row map are in the task graph once, not a copy with every task.
    shared = client.submit(_given, (tasks[0].Q, tasks[0].shard.mapped), pure=False, priority=1)
    none, near = tasks[0].Q[:0], where_to(len(tasks), list(client.nthreads()))
    answers = [
        client.submit(
            _answered, replace(task, Q=none, shard=replace(task.shard, mapped=None)), shared, folder, pure=False,
            workers=workers, allow_other_workers=True, priority=-number,
        )
        for task, workers in zip(tasks, near, strict=True)
    ]  # fmt: skip
    merged = answers
    while merged is answers or len(merged) > 1:
        groups = [merged[start : start + MERGED_AT_ONCE] for start in range(0, len(merged), MERGED_AT_ONCE)]
        merged = [client.submit(_merge_on_worker, group, pure=False, priority=1) for group in groups]
    return answers, merged[0]


def where_to(n_shards: int, workers: Sequence[str]) -> list[list[str]]:
    """The workers for each shard, the same every time: those of one machine, whose system has the file in its cache;
    on a single machine one worker, which keeps the shard ready. Shards go round.

    >>> where_to(3, ["tcp://b:1", "tcp://a:1", "tcp://a:2"])
    [['tcp://a:1', 'tcp://a:2'], ['tcp://a:1', 'tcp://a:2'], ['tcp://b:1']]
    >>> where_to(3, ["tcp://a:1", "tcp://a:2"])
    [['tcp://a:1'], ['tcp://a:2'], ['tcp://a:1']]
    """
    in_order = sorted(workers)
    if not in_order:
        return [[]] * n_shards
    machine = {worker: worker.rsplit(":", 1)[0] for worker in in_order}
    if len(set(machine.values())) == 1:
        return [[in_order[number % len(in_order)]] for number in range(n_shards)]
    same_machine = {worker: [other for other in in_order if machine[other] == machine[worker]] for worker in in_order}
    return [same_machine[in_order[number % len(in_order)]] for number in range(n_shards)]


def _put(arrived: queue.SimpleQueue[Any], search: Any, future: Any) -> None:
    arrived.put((search, future))


def _n_threads(client: Any) -> int:
    return sum(client.nthreads().values())


Shared = tuple[np.ndarray, RowMap | None]


def _given(shared: Shared) -> Shared:
    return shared


def _answered(task: ShardTask, shared: Shared, folder: str | None) -> Partial:
    """Run a task on a worker, on one thread: a worker has as many tasks at a time as threads."""
    Q, mapped = shared
    with threads(1):
        return answer_once(replace(task, Q=Q, shard=replace(task.shard, mapped=mapped)), folder)


def _merge_on_worker(parts: list[Partial]) -> Partial:
    with threads(1):
        return merge(parts)


def _on_one_thread(work: Callable[[Item], Result], item: Item) -> Result:
    with threads(1):
        return work(item)
