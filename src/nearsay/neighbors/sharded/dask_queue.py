"""Work that a Dask cluster has been given and has not answered: as much as keeps its workers busy, and no more.

    talks ──► [ block 0: 3 tasks open ][ block 1: all open ] │ block 2, block 3, … wait here
                       └── the next block is asked as soon as fewer tasks are open than twice the threads

Answers of shards are let go as soon as they are merged, and results are given in the order of what was asked.
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
from nearsay.neighbors.sharded.shard_work import Talk, Told, answer_once
from nearsay.search.stored.mapped import RowMap

Item = TypeVar("Item")
Found = TypeVar("Found")

# Answers of so many shards are merged at once.
MERGED_AT_ONCE = 8
# So many tasks a thread are open, so that it has the next one when it is done with the last.
TASKS_A_THREAD = 2
# So many talks, those that wait for the result of an earlier one too: each holds an answer of up to 64 MB here.
MOST_TALKS = 8
# So often, in seconds, it is looked whether there are workers left.
LOOK_EVERY = 5.0


@dataclass(eq=False)
class _PendingTask(Generic[Found]):
    """A talk, what it asked last, and what is open of that: answers of shards, and all of them merged."""

    number: int
    talk: Talk[Found]
    tasks: Sequence[ShardTask]
    client: Any = None
    answers: set[Any] = field(default_factory=set)
    merged: Any = None
    n_told: int = 0


class TalksInFlight(Generic[Found]):
    """Talks that are held with the workers of a cluster, several at a time.

    ``step`` may be called again with another connection where one was lost: what was open is asked again.
    """

    def __init__(self, talks: Iterable[Talk[Found]], folder: str | None, tell: Told) -> None:
        self._coming, self._folder, self._tell = iter(talks), folder, tell
        self._asked: dict[int, _PendingTask[Found]] = {}
        self._results: dict[int, Found] = {}
        self._arrived: queue.SimpleQueue[tuple[_PendingTask[Found], Any]] = queue.SimpleQueue()
        self._n_begun, self._n_given, self._all_begun = 0, 0, False

    def goes_on(self) -> bool:
        """Whether anything is still to come."""
        return not self._all_begun or bool(self._asked)

    def landed(self) -> Iterator[Found]:
        """Results whose turn it is."""
        while self._n_given in self._results:
            found = self._results.pop(self._n_given)
            self._n_given += 1
            yield found

    def step(self, client: Any, patience: float) -> None:
        """Ask what there is room for, and wait until something is answered. An error where the cluster is gone."""
        for asked in self._asked.values():
            if asked.client is not client:
                self._submit(client, asked)
        self._begin(client)
        if self._asked:
            self._take(*self._next(client, patience))

    def let_go(self) -> None:
        """Tell the cluster that what is open is not needed any more."""
        for asked in self._asked.values():
            with suppress(Exception):  # a cluster that is gone has let go
                asked.client.cancel([*asked.answers, asked.merged])
        self._asked.clear()

    def _begin(self, client: Any) -> None:
        """Begin with the next talks, as long as workers would wait otherwise."""
        while not self._all_begun and self._n_begun - self._n_given < MOST_TALKS:
            n_open = sum(len(asked.answers) for asked in self._asked.values())
            if self._asked and n_open >= TASKS_A_THREAD * _n_threads(client):
                return
            talk = next(self._coming, None)
            if talk is None:
                self._all_begun = True
                return
            asked = _PendingTask(self._n_begun, talk, ())
            self._n_begun += 1
            self._asked[asked.number] = asked
            self._go_on(client, asked, None)

    def _go_on(self, client: Any, asked: _PendingTask[Found], answer: Partial | None) -> None:
        """Tell a talk its answer, and submit what it asks next."""
        asked.client = None
        try:
            asked.tasks, asked.n_told = (next(asked.talk) if answer is None else asked.talk.send(answer)), 0
        except StopIteration as end:
            self._results[asked.number] = end.value
            del self._asked[asked.number]
        else:
            self._submit(client, asked)

    def _submit(self, client: Any, asked: _PendingTask[Found]) -> None:
        answers, asked.merged = _submitted(client, asked.tasks, self._folder, asked.number)
        asked.answers, asked.client = set(answers), client
        for future in (*answers, asked.merged):
            future.add_done_callback(partial(_put, self._arrived, asked))

    def _next(self, client: Any, patience: float) -> tuple[_PendingTask[Found], Any]:
        """What was answered next, and by which future."""
        watch = _Watch(client, patience)
        while True:
            try:
                return self._arrived.get(timeout=LOOK_EVERY)
            except queue.Empty:
                watch.look()

    def _take(self, asked: _PendingTask[Found], future: Any) -> None:
        if future not in asked.answers and future is not asked.merged:
            return  # of a connection that was lost
        if future.status != "finished":
            future.result()  # says what was wrong
        if future is asked.merged:
            self._go_on(asked.client, asked, future.result())
            return
        asked.answers.discard(future)
        n_done = len(asked.tasks) - len(asked.answers)
        if n_done > asked.n_told:  # tasks that are done again are not told again
            asked.n_told = n_done
            self._tell()


class ItemsInFlight(Generic[Item, Found]):
    """Items that workers do something with; ``first`` may be called again with another connection."""

    def __init__(self, work: Callable[[Item], Found], items: Sequence[Item]) -> None:
        self._work, self._waiting = work, deque(items)
        self._given_out: deque[tuple[Item, Any, Any]] = deque()

    def goes_on(self) -> bool:
        """Whether anything is still to come."""
        return bool(self._waiting or self._given_out)

    def first(self, client: Any, patience: float) -> Found:
        """What comes of the first item that is left; those behind it are given out before it is waited for."""
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
                    distributed.wait([future], timeout=LOOK_EVERY)
            except TimeoutError:
                watch.look()
        found: Found = future.result()
        self._given_out.popleft()
        return found


class _Watch:
    """Sees whether a cluster is still there."""

    def __init__(self, client: Any, patience: float) -> None:
        self._client, self._patience, self._last_seen = client, patience, time.monotonic()

    def look(self) -> None:
        """An error where the connection is lost, or all workers are gone for long."""
        if self._client.status != "running":
            raise CancelledError("the connection to the scheduler was lost")
        if self._client.nthreads():
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > self._patience:
            raise TimeoutError(f"no workers for {self._patience:.0f} seconds")


def _submitted(client: Any, tasks: Sequence[ShardTask], folder: str | None, number: int) -> tuple[list[Any], Any]:
    """Futures of the answers of all tasks, and of the answers merged; those of earlier talks go first, and merges."""
    # In the graph once, and made again from there if its worker is lost; sent with every task it would be many copies.
    # So would a map of the rows.
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
        merged = [client.submit(_merged_there, group, pure=False, priority=1) for group in groups]
    return answers, merged[0]


def where_to(n_shards: int, workers: Sequence[str]) -> list[list[str]]:
    """The workers that should have each shard, every time it is asked: those of one machine, whose system keeps its
    files in memory; on one machine alone, one worker, which keeps it ready. They are asked in turn.

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
    beside = {worker: [other for other in in_order if machine[other] == machine[worker]] for worker in in_order}
    return [beside[in_order[number % len(in_order)]] for number in range(n_shards)]


def _put(arrived: queue.SimpleQueue[Any], asked: Any, future: Any) -> None:
    arrived.put((asked, future))


def _n_threads(client: Any) -> int:
    return sum(client.nthreads().values())


Shared = tuple[np.ndarray, RowMap | None]


def _given(shared: Shared) -> Shared:
    return shared


def _answered(task: ShardTask, shared: Shared, folder: str | None) -> Partial:
    """What a worker does: one task on one thread, as it has as many tasks at a time as threads."""
    Q, mapped = shared
    with threads(1):
        return answer_once(replace(task, Q=Q, shard=replace(task.shard, mapped=mapped)), folder)


def _merged_there(parts: list[Partial]) -> Partial:
    with threads(1):
        return merge(parts)


def _on_one_thread(work: Callable[[Item], Found], item: Item) -> Found:
    with threads(1):
        return work(item)
