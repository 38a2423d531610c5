"""Tasks of a search over shards done by a Dask cluster: one that is there, by its address, or a local one.

    tasks ──► workers, each opens the files of its shards by path ──► answers ──► merged by workers, eight at a time
      └─ queries travel once a block; no row is ever sent; a shard goes to the machine that had it before
      └─ the next block of queries is asked before the last one is answered, so that no worker waits (dask_queue.py)

Nothing that is needed again lies with a worker alone: a task is a pure function of files and of what the scheduler
holds. So a worker that is killed costs the tasks it had; a scheduler that is gone costs the blocks that were asked,
which are asked again once it is back. With a work folder, neither costs what was written there.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import numpy as np

from nearsay.core.parallel import cores
from nearsay.errors import ClusterError, InputError, NearsayError, require
from nearsay.neighbors.sharded.dask_queue import ItemsInFlight, TalksInFlight
from nearsay.neighbors.sharded.shard_work import Talk, Told

Item = TypeVar("Item")
Found = TypeVar("Found")
Done = TypeVar("Done")

LOCAL = "local"
# How often a block is asked again when the scheduler was lost, and how many seconds it, or workers, are waited for.
TRIES, PATIENCE = 3, 30.0
# What openssl calls a key and a certificate that it prints.
PEM = ("PRIVATE KEY", "CERTIFICATE")

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
            _clients[self.cluster] = distributed.Client(_local_cluster(distributed, count))
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


def _local_cluster(distributed: Any, count: int) -> Any:
    """Workers on this machine that take orders from this process alone.

    A scheduler runs whatever it is sent, so that one without credentials would work for every user of the machine. It
    gets a certificate that only this process and its workers know, and no pages.
    """
    # Loud only while it is closed, when levels are put back to what they were.
    told = logging.getLogger("distributed")
    told.setLevel(max(told.level, logging.WARNING))
    no_pages: dict[str, Any] = {f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")}
    with require("dask", "dask").config.set(no_pages):
        return distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            security=_credentials(distributed),
            # A memory map counts as memory of a worker, though the system can have it back: no limit.
            memory_limit=0,
            silence_logs="ERROR",
        )


def _credentials(distributed: Any) -> Any:
    """A key and its certificate, held in memory: from the package cryptography, or else from the command openssl."""
    try:
        return distributed.Security.temporary()
    except ImportError:
        pass
    asked = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch"]
    try:
        made = subprocess.run(
            [*asked, "-subj", "/CN=nearsay", "-days", "365", "-keyout", "-"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=PATIENCE,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterError(
            "A local cluster needs credentials, which the package cryptography makes. Run: pip install cryptography"
        ) from error
    key, certificate = (re.search(f"-----BEGIN {name}-----.+?-----END {name}-----\n", made, re.DOTALL) for name in PEM)
    if key is None or certificate is None:
        raise ClusterError("openssl made no credentials for a local cluster. Run: pip install cryptography")
    roles = ("client", "scheduler", "worker")
    return distributed.Security(
        require_encryption=True,
        tls_ca_file=certificate[0],
        **{f"tls_{role}_key": key[0] for role in roles},
        **{f"tls_{role}_cert": certificate[0] for role in roles},
    )


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
