"""Where distributed work runs: in this process, or on a cluster."""

from __future__ import annotations

from typing import Any

from nearsay.neighbors.sharded.dask_cluster import DaskCluster
from nearsay.neighbors.sharded.shard_work import OneProcess, Workers


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
