"""Neighbors of queries that are tensors on a GPU, as tensors on the same device.

tensor, or what DLPack gives ──► checked on its device ──► neighbors and distances on its device
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.core.arrays import LARGEST_VALUE, check_n_neighbors
from nearsay.errors import InputError, require
from nearsay.neighbors import neighbor_search
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.protocol import NeighborSearch


def nearest_tensors(search: NeighborSearch, Q: Any, k: int) -> tuple[Any, Any]:
    """The ``k`` nearest rows of every query, and their distances: int64 and float64 tensors on the queries' device."""
    torch = require("torch", "torch")
    search = search.snapshot()
    k = check_n_neighbors(k, search.rows_.n_live)
    queries = Q if isinstance(Q, torch.Tensor) else torch.from_dlpack(Q)
    # Other distances check queries, and take their Euclidean form, with numpy.
    if not isinstance(search, GpuSearch) or not search.takes_tensors:
        return _by_way_of_numpy(torch, search, queries, k)
    _check(torch, queries, search.rows_.items.shape[1])
    if not search.serves(len(queries), k):
        return _by_way_of_numpy(torch, search, queries, k)
    result = search.on_gpu().nearest(queries.detach(), neighbor_search.NOBODY, k)
    undecided = result.undecided.nonzero()[:, 0]
    if len(undecided):
        few = queries[undecided.to(queries.device)].detach().cpu().numpy()
        again = neighbor_search.nearest_of_checked(search.on_cpu(), few, k)
        result.numbers[undecided] = torch.from_numpy(again.indices).to(result.numbers.device)
        result.distances[undecided] = torch.from_numpy(again.distances).to(result.numbers.device)
    return result.numbers.to(queries.device), result.distances.to(queries.device)


def _by_way_of_numpy(torch: Any, search: NeighborSearch, queries: Any, k: int) -> tuple[Any, Any]:
    table = neighbor_search.nearest(search, queries.detach().cpu().numpy(), k)
    return torch.from_numpy(table.indices).to(queries.device), torch.from_numpy(table.distances).to(queries.device)


def _check(torch: Any, queries: Any, n_columns: int) -> None:
    """The checks of ``as_rows`` for a tensor, on its device."""
    if queries.ndim != 2 or queries.shape[1] != n_columns:
        raise InputError(
            f"Q must have two dimensions and {n_columns} columns, as the rows given to fit have; got shape"
            f" {tuple(queries.shape)}."
        )
    if queries.is_complex() or queries.dtype == torch.bfloat16:
        raise InputError(f"Q must hold real numbers of a type that numpy has; got {queries.dtype}. Pass Q.float().")
    wrong = ~(queries.abs() < LARGEST_VALUE)
    if bool(wrong.any()):
        row, column = (int(place) for place in wrong.nonzero()[0])
        value = float(queries[row, column])
        kind = "too large to square" if np.isfinite(value) else "not a finite number"
        raise InputError(
            f"Q holds {value} at row {row}, column {column}, which is {kind}. Fill in or drop such rows first."
        )
