"""Tasks of a search over shards done by a Dask cluster: one that is there, by its address, or a local one.

    tasks ──► workers, each opens the files of its shards by path ──► answers ──► merged by workers, eight at a time
      └─ queries travel once a batch; no row is ever sent; a shard goes to the machine that had it before

Nothing that is needed again lies with a worker alone: a task is a pure function of files and of what the scheduler
holds. So a worker that is killed costs the tasks it had; a scheduler that is gone costs the batch, which is asked
again once it is back. With a work folder, neither costs what was written there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from nearsay.errors import ClusterError, InputError, NearsayError, require
from nearsay.neighbors.shard_search import Partial, ShardTask, merge
from nearsay.neighbors.shard_work import Told, answer_once
from nearsay.parallel import cores, threads
from nearsay.search.mapped_shards import RowMap

Item = TypeVar("Item")
Found = TypeVar("Found")
Done = TypeVar("Done")

LOCAL = "local"
# Answers of so many shards are merged at once.
MERGED_AT_ONCE = 8
# So many items are given out before the first is asked for, so that results do not pile up.
ITEMS_AT_ONCE = 64
# How often a batch is asked again when the scheduler was lost, and how many seconds it is waited for.
TRIES, PATIENCE = 3, 30.0
# So often, in seconds, it is looked whether there are workers left.
LOOK_EVERY = 5.0

_clients: dict[Any, Any] = {}  # by what was asked for: several searches share a cluster


class DaskCluster:
    """Does tasks on the workers of a cluster.

    Parameters
    ----------
    cluster : str, int or Client
        The address of a scheduler ("tcp://host:8786"), "local" for a worker a core on this machine, a number of
        local workers, or a ``dask.distributed.Client``.
    """

    def __init__(self, cluster: Any) -> None:
        distributed = require("distributed", "dask")
        is_count = isinstance(cluster, int | np.integer) and not isinstance(cluster, bool) and cluster >= 1
        if not (is_count or isinstance(cluster, str | distributed.Client)):
            raise InputError(
                'A cluster is the address of a Dask scheduler, "local", a number of local workers, or a Client;'
                f" got {cluster!r}."
            )
        self.cluster = cluster

    def merged(self, tasks: Sequence[ShardTask], folder: str | None, tell: Told) -> Partial:
        """The answers of all tasks as one; where the scheduler was lost, those that are not kept are asked again."""
        return self._done(lambda client, told: _merged(client, tasks, folder, told), folder, tell)

    def each(self, work: Callable[[Item], Found], items: Sequence[Item], tell: Told) -> Iterator[Found]:
        """What a pure function gives for each item, in order; a few items more than there are threads at a time."""
        for start in range(0, len(items), ITEMS_AT_ONCE):
            some = items[start : start + ITEMS_AT_ONCE]
            yield from self._done(partial(_each, work=work, items=some), None, tell)

    def _done(self, act: Callable[[Any, Callable[[int], None]], Done], folder: str | None, tell: Told) -> Done:
        """Act with a connection, and once more with a new one where it was lost."""
        told = 0

        def tell_once(done: int) -> None:
            nonlocal told
            while told < done:
                tell()
                told += 1

        for attempt in range(TRIES):
            try:
                return act(self.client(), tell_once)
            except NearsayError:
                raise
            except (OSError, CancelledError, TimeoutError) as error:
                self._forget()
                if attempt == TRIES - 1:
                    raise ClusterError(self._lost(folder, error)) from error
        raise AssertionError

    def client(self) -> Any:
        """A connection to the cluster, made where there is none that works."""
        distributed = require("distributed", "dask")
        if isinstance(self.cluster, distributed.Client):
            return self.cluster
        known = _clients.get(self.cluster)
        if known is not None and known.status == "running":
            return known
        if isinstance(self.cluster, str) and self.cluster != LOCAL:
            _clients[self.cluster] = self._connected(distributed)
        else:
            count = cores() if self.cluster == LOCAL else int(self.cluster)
            # A memory map counts as memory of a worker, though the system can have it back: no limit.
            local = distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                memory_limit=0,
                silence_logs="ERROR",
            )
            _clients[self.cluster] = distributed.Client(local)
        return _clients[self.cluster]

    def _connected(self, distributed: Any) -> Any:
        try:
            client = distributed.Client(self.cluster, timeout=PATIENCE, set_as_default=False)
        except ValueError as error:  # what is no address at all
            raise InputError(f"{self.cluster!r} is no address of a Dask scheduler ({error}).") from error
        except OSError as error:
            raise ClusterError(
                f"No Dask scheduler answers at {self.cluster}. Start one, or see that this machine can reach it."
            ) from error
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            client.close()
            raise ClusterError(
                f"The cluster at {self.cluster} has no workers. Start some: dask worker {self.cluster}"
            ) from error
        return client

    def _forget(self) -> None:
        """Let go of a connection that was lost."""
        known = _clients.pop(self.cluster, None) if isinstance(self.cluster, str | int) else None
        if known is not None:
            known.close(timeout=1)

    def _lost(self, folder: str | None, error: Exception) -> str:
        kept = f"What was done is kept in {folder}" if folder else "With a work_folder, what was done would be kept"
        reason = f"{type(error).__name__}: {error}"
        return f"The cluster {self.cluster} went away ({reason}). {kept}, and not done again when you ask again."


def close_clusters() -> None:
    """Close the connections that were made here, and the local clusters."""
    for client in _clients.values():
        local = client.cluster
        client.close()
        if local is not None:
            local.close()
    _clients.clear()


def _merged(client: Any, tasks: Sequence[ShardTask], folder: str | None, tell: Any) -> Partial:
    """Ask for all tasks, and for the answers merged, as soon as some are there."""
    # In the graph once, and made again from there if its worker is lost; sent with every task it would be many copies.
    # So would a map of the rows.
    shared = client.submit(_given, (tasks[0].Q, tasks[0].shard.mapped), pure=False)
    none, near = tasks[0].Q[:0], where_to(len(tasks), list(client.nthreads()))
    asked = [
        client.submit(
            _answered,
            replace(task, Q=none, shard=replace(task.shard, mapped=None)),
            shared,
            folder,
            pure=False,
            workers=workers,
            allow_other_workers=True,
        )
        for task, workers in zip(tasks, near, strict=True)
    ]
    merged = asked
    while len(merged) > 1:
        groups = [merged[start : start + MERGED_AT_ONCE] for start in range(0, len(merged), MERGED_AT_ONCE)]
        merged = [client.submit(_merged_there, group, pure=False) for group in groups]
    _wait(client, asked, tell)
    del asked
    found: Partial = merged[0].result()
    return found


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


def _each(
    client: Any, told: Callable[[int], None], *, work: Callable[[Item], Found], items: Sequence[Item]
) -> list[Found]:
    asked = [client.submit(_on_one_thread, work, item, pure=False) for item in items]
    _wait(client, asked, told)
    found: list[Found] = client.gather(asked)
    return found


def _on_one_thread(work: Callable[[Item], Found], item: Item) -> Found:
    with threads(1):
        return work(item)


def _wait(client: Any, asked: list[Any], tell: Any) -> None:
    """Return when all are done, or one has failed; an error where all workers are gone for long."""
    distributed = require("distributed", "dask")
    last_seen = time.monotonic()
    open_tasks = list(asked)
    while open_tasks:
        try:
            with client.as_current():
                found = distributed.wait(open_tasks, timeout=LOOK_EVERY, return_when="FIRST_COMPLETED")
            open_tasks = list(found.not_done)
        except TimeoutError:
            open_tasks = [future for future in open_tasks if not future.done()]
        for future in asked:
            if future.status in ("error", "cancelled", "lost"):
                future.result()  # says what was wrong
        tell(len(asked) - len(open_tasks))
        if client.status != "running":
            raise CancelledError("the connection to the scheduler was lost")
        if client.nthreads():
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > PATIENCE:
            raise TimeoutError(f"no workers for {PATIENCE:.0f} seconds")


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


def worker_pids(cluster: Any) -> dict[str, int]:
    """The process number of every worker, by its address."""
    found: dict[str, int] = DaskCluster(cluster).client().run(os.getpid)
    return found
