"""Tasks of a search over shards done by a Dask cluster: one that is there, by its address, or a local one.

    tasks ──► workers, each opens the files of its shards by path ──► answers ──► merged by workers, eight at a time
      └─ queries travel once a block; no row is ever sent; a shard goes to the machine that had it before
      └─ the next block of queries is asked before the last one is answered, so that no worker waits (in_flight.py)

Nothing that is needed again lies with a worker alone: a task is a pure function of files and of what the scheduler
holds. So a worker that is killed costs the tasks it had; a scheduler that is gone costs the blocks that were asked,
which are asked again once it is back. With a work folder, neither costs what was written there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import numpy as np

from nearsay.errors import ClusterError, InputError, NearsayError, require
from nearsay.neighbors.in_flight import ItemsInFlight, TalksInFlight
from nearsay.neighbors.shard_work import Talk, Told
from nearsay.parallel import cores

Item = TypeVar("Item")
Found = TypeVar("Found")
Done = TypeVar("Done")

LOCAL = "local"
# How often a block is asked again when the scheduler was lost, and how many seconds it, or workers, are waited for.
TRIES, PATIENCE = 3, 30.0

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

    def held(self, talks: Iterable[Talk[Found]], folder: str | None, tell: Told) -> Iterator[Found]:
        """What comes of each talk, in order; several are held at a time."""
        flight: TalksInFlight[Found] = TalksInFlight(talks, folder, tell)
        try:
            while flight.goes_on():
                self._done(lambda client: flight.step(client, PATIENCE), folder)
                yield from flight.landed()
        finally:
            flight.let_go()

    def each(self, work: Callable[[Item], Found], items: Sequence[Item], tell: Told) -> Iterator[Found]:
        """What a pure function gives for each item, in order; about twice as many items as threads at a time."""
        flight: ItemsInFlight[Item, Found] = ItemsInFlight(work, items)
        while flight.goes_on():
            found = self._done(lambda client: flight.first(client, PATIENCE), None)
            tell()
            yield found

    def _done(self, act: Callable[[Any], Done], folder: str | None) -> Done:
        """Act with a connection, and once more with a new one where it was lost."""
        for attempt in range(TRIES):
            try:
                return act(self.client())
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
            # Loud only while it is closed, when levels are put back to what they were.
            told = logging.getLogger("distributed")
            told.setLevel(max(told.level, logging.WARNING))
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


def worker_pids(cluster: Any) -> dict[str, int]:
    """The process number of every worker, by its address."""
    found: dict[str, int] = DaskCluster(cluster).client().run(os.getpid)
    return found
