"""Where tasks of a sharded search run: in this process, or on a Dask cluster, which is running or a local one.

    tasks ──► workers, each opens the files of its shards by path ──► answers ──► merged by workers, eight at a time
      └─ queries are sent once a block, rows never; a shard goes to the machine that had it before
      └─ the next block of queries is submitted before the last one is answered (dask_queue.py)

A task is a pure function of files and of what the scheduler holds. So a worker that is killed costs the tasks it had;
a scheduler that is lost costs the open blocks, which are submitted again once it is back. With a work folder, neither
costs what was written there.
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import numpy as np

from nearsay.core.parallel import cores
from nearsay.errors import ClusterError, InputError, NearsayError, require
from nearsay.neighbors.sharded.dask_queue import PendingItems, PendingSearches
from nearsay.neighbors.sharded.shard_work import OneProcess, Report, TaskRounds, Workers

Item = TypeVar("Item")
Result = TypeVar("Result")
Done = TypeVar("Done")

LOCAL = "local"
PATIENCE = 30.0  # seconds to wait for a scheduler, for workers or for credentials
# The PEM labels of a key and a certificate.
PEM = ("PRIVATE KEY", "CERTIFICATE")

_clients: dict[Any, Any] = {}  # by the ``cluster`` parameter: several searches share one


class DaskCluster:
    """Runs tasks on the workers of a cluster.

    cluster : str, int or Client, the address of a scheduler ("tcp://host:8786"), "local" for a worker a core on this
        machine, a number of local workers, or a ``dask.distributed.Client``.
    """

    # How often to reconnect to a lost scheduler, and how many seconds to wait for it or for workers.
    tries, patience = 3, PATIENCE

    def __init__(self, cluster: Any) -> None:
        distributed = require("distributed", "dask")
        is_count = isinstance(cluster, int | np.integer) and not isinstance(cluster, bool) and cluster >= 1
        if not (is_count or isinstance(cluster, str | distributed.Client)):
            raise InputError(
                'A cluster is the address of a Dask scheduler, "local", a number of local workers, or a Client;'
                f" got {cluster!r}."
            )
        self.cluster = cluster

    def run(self, searches: Iterable[TaskRounds[Result]], folder: str | None, report: Report) -> Iterator[Result]:
        """The results of the searches, in order; several run at a time."""
        pending: PendingSearches[Result] = PendingSearches(searches, folder, report)
        try:
            while pending.is_open():
                self._with_client(lambda client: pending.step(client, self.patience), folder)
                yield from pending.results()
        finally:
            pending.cancel()

    def each(self, work: Callable[[Item], Result], items: Sequence[Item], report: Report) -> Iterator[Result]:
        """The results of a pure function for each item, in order; about twice as many items as threads at a time."""
        pending: PendingItems[Item, Result] = PendingItems(work, items)
        while pending.is_open():
            result = self._with_client(lambda client: pending.first(client, self.patience), None)
            report()
            yield result

    def _with_client(self, act: Callable[[Any], Done], folder: str | None) -> Done:
        """Call ``act`` with a client, and again with a new one if the connection is lost."""
        for attempt in range(self.tries):
            try:
                return act(self.client())
            except NearsayError:
                raise
            except (OSError, CancelledError, TimeoutError) as error:
                self._drop_client()
                if attempt == self.tries - 1:
                    raise ClusterError(self._lost(folder, error)) from error
        raise AssertionError

    def client(self) -> Any:
        """A working connection to the cluster."""
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
            client = distributed.Client(self.cluster, timeout=self.patience, set_as_default=False)
        except ValueError as error:  # not an address
            raise InputError(f"{self.cluster!r} is no address of a Dask scheduler ({error}).") from error
        except OSError as error:
            raise ClusterError(
                f"No Dask scheduler answers at {self.cluster}. Start one, or see that this machine can reach it."
            ) from error
        try:
            client.wait_for_workers(1, timeout=self.patience)
        except TimeoutError as error:
            client.close()
            raise ClusterError(
                f"The cluster at {self.cluster} has no workers. Start some: dask worker {self.cluster}"
            ) from error
        return client

    def _drop_client(self) -> None:
        """Close a connection that was lost."""
        known = _clients.pop(self.cluster, None) if isinstance(self.cluster, str | int) else None
        if known is not None:
            known.close(timeout=1)

    def _lost(self, folder: str | None, error: Exception) -> str:
        kept = f"What was done is kept in {folder}" if folder else "With a work_folder, what was done would be kept"
        reason = f"{type(error).__name__}: {error}"
        return (
            f"The connection to the cluster {self.cluster} was lost ({reason}). {kept}, and not done again next time."
        )


def _local_cluster(distributed: Any, count: int) -> Any:
    """Workers on this machine that accept tasks from this process only.

    A scheduler runs whatever it is sent, so one without credentials would serve every user of the machine. It gets a
    certificate that only this process and its workers know, and no dashboard.
    """
    # Closing a cluster resets log levels, and logs warnings.
    logger = logging.getLogger("distributed")
    logger.setLevel(max(logger.level, logging.WARNING))
    no_pages: dict[str, Any] = {f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")}
    with require("dask", "dask").config.set(no_pages):
        return distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            security=_credentials(distributed),
            # A memory map counts as memory of a worker, although the system can reclaim it: no limit.
            memory_limit=0,
            silence_logs="ERROR",
        )


def _credentials(distributed: Any) -> Any:
    """A key and its certificate, in memory: from the package cryptography, or from the openssl command."""
    try:
        return distributed.Security.temporary()
    except ImportError:
        pass
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch"]
    try:
        made = subprocess.run(
            [*command, "-subj", "/CN=nearsay", "-days", "365", "-keyout", "-"],
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


def workers_of(cluster: Any) -> Workers:
    """``OneProcess`` for None, otherwise a ``DaskCluster``.

    >>> type(workers_of(None)).__name__
    'OneProcess'
    """
    return OneProcess() if cluster is None else DaskCluster(cluster)


def named_cluster(name: str | None) -> str | int | None:
    """The ``cluster`` parameter from a command line: an address, "local", or a number of local workers.

    >>> named_cluster("tcp://host:8786"), named_cluster("4"), named_cluster(None)
    ('tcp://host:8786', 4, None)
    """
    return int(name) if name is not None and name.isdigit() else name
