"""The search by class on a GPU; the CPU answers what the GPU leaves undecided.

queries ──► GPU: nearest rows, classes in order, means of members ──► table
              ├── nearest rows undecided ──► searched again (``neighbor_search.py``)
              └── too far away for scores ──► search by class on the CPU
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.class_order_on_gpu import ClassesOnGpu
from nearsay.neighbors.by_class.class_table import ClassTable
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.search.gpu.classes import ClassResults, GpuRowsByClass
from nearsay.search.gpu.collection import GpuCollection
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.gpu.results import Results

T = TypeVar("T")
# Searches by class on the CPU.
OnCpu = Callable[[Queries, int, tuple[int, ...]], NeighborTable]


class GpuWay:
    """The rows of a search on a GPU, each with its class."""

    def __init__(self, search: GpuSearch, labels: np.ndarray, n_classes: int) -> None:
        self._search, self._labels, self._n_classes = search, labels, n_classes
        self._on_gpu: GpuRowsByClass | None = None

    def __reduce__(self) -> tuple[type[GpuWay], tuple[Any, ...]]:
        """A copy, or one in another process, starts with nothing on the GPU."""
        return type(self), (self._search, self._labels, self._n_classes)

    def serves(self, n_queries: int, k: int) -> bool:
        """Whether the GPU serves such a search."""
        if not n_queries or not self._search.rows_.n_live or not self._search.serves(n_queries, max(k, 1) + 1):
            return False
        return GpuRowsByClass.serves(self._search.on_gpu(), self._n_classes)

    def search(self, queries: Queries, k: int, members: tuple[int, ...], on_cpu: OnCpu) -> NeighborTable | None:
        """The ``k`` nearest rows, and all classes in order; None if the GPU ran out of memory."""

        def search(rows: GpuCollection) -> tuple[NeighborTable, np.ndarray, np.ndarray]:
            return _filled(self._by_class(rows), queries, k, members)

        result = self._run(search)
        if result is None:
            return None
        table, rows_undecided, undecided = result
        classes = table.classes
        assert classes is not None
        self._fill_rows(queries, rows_undecided, table)
        if len(undecided):
            again = on_cpu(queries[undecided], k, classes.members)
            assert again.classes is not None
            table.indices[undecided], table.distances[undecided] = again.indices, again.distances
            classes[undecided] = again.classes
        return table

    def fill_nearest(self, Q: Any, table: NeighborTable, members: ClassTable) -> np.ndarray | None:
        """Fill in the nearest rows and the nearest of each class; gives the queries that stay undecided.

        None if the GPU ran out of memory.
        """

        def search(rows: GpuCollection) -> tuple[np.ndarray, np.ndarray]:
            rows_undecided, undecided = np.zeros(len(Q), np.bool_), np.zeros(len(Q), np.bool_)
            copies = Results(rows.torch, rows.device)
            for part, result in self._by_class(rows).results(Q, neighbor_search.NOBODY, table.n_neighbors, (), 0):
                pairs = [(result.rows, members.indices[part, :, 0]), (result.distances, members.distances[part, :, 0])]
                pairs += _of_rows(result, table[part], rows_undecided[part], undecided[part])
                copies.bring(*zip(*pairs, strict=True))
            copies.finish()
            return np.flatnonzero(rows_undecided & ~undecided), np.flatnonzero(undecided)

        result = self._run(search)
        if result is None:
            return None
        self._fill_rows(Queries.of_items(Q), result[0], table)
        return result[1]

    def _run(self, search: Callable[[GpuCollection], T]) -> T | None:
        result = self._search.run(search)
        if result is None:
            self._on_gpu = None  # frees its memory
        return result

    def _by_class(self, rows: GpuCollection) -> GpuRowsByClass:
        if self._on_gpu is None:
            self._on_gpu = GpuRowsByClass(rows, self._labels, self._n_classes)
        return self._on_gpu

    def _fill_rows(self, queries: Queries, lines: np.ndarray, table: NeighborTable) -> None:
        """Search again for the nearest rows of some queries, with longer lists."""
        if not len(lines):
            return
        few, k = queries[lines], table.n_neighbors
        if len(few.left_out):
            again = neighbor_search.leave_one_out(self._search, k, few.left_out)
        else:
            again = neighbor_search.nearest_of_checked(self._search, few.items, k)
        table.indices[lines], table.distances[lines] = again.indices, again.distances


def _filled(
    by_class: GpuRowsByClass, queries: Queries, k: int, members: tuple[int, ...]
) -> tuple[NeighborTable, np.ndarray, np.ndarray]:
    """What the GPU finds; and the lines whose rows, or all of it, are undecided.

    Rows come in arrays. Classes of queries stay on the GPU if they are not too large, for a posterior that works there.
    """
    collection, n = by_class.collection, queries.n
    torch, device = collection.torch, collection.device
    Q = None if len(queries.left_out) else queries.items
    stays = Q is not None and bool(members) and 8 * n * by_class.n_classes <= collection.limits.kept_bytes
    table = NeighborTable(np.empty((n, k), np.int64), np.empty((n, k)))
    n_near = min(by_class.n_classes, MEMBERS_OF_NEAREST)
    in_arrays = None if stays else NearestClasses.to_fill(n, by_class.n_classes, members)
    rows_undecided, undecided = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    copies, kept = Results(torch, device), []
    for part, result in by_class.results(Q, queries.left_out, k, members, n_near):
        pairs = _of_rows(result, table[part], rows_undecided[part], undecided[part])
        if in_arrays is None:
            kept.append((result.distances, result.rows, result.near, result.means))
        else:
            numbers, nearest = result.in_order()
            pairs.append((numbers, in_arrays.numbers[part]))
            if members:
                pairs += [(nearest, in_arrays.nearest[part]), (result.means, in_arrays.means[part])]
        copies.bring(*zip(*pairs, strict=True))
    copies.finish()
    classes = in_arrays
    if classes is None:
        by_number, rows, near, means = (
            parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*kept, strict=True)
        )
        classes = ClassesOnGpu(by_number, rows, near, means, members)
    table = NeighborTable(table.indices, table.distances, classes)
    return table, np.flatnonzero(rows_undecided & ~undecided), np.flatnonzero(undecided)


def _of_rows(
    result: ClassResults, table: NeighborTable, rows_undecided: np.ndarray, undecided: np.ndarray
) -> list[tuple[Any, np.ndarray]]:
    """Tensors of the nearest rows, and the arrays they are copied to."""
    tensors = result.neighbors, result.neighbor_distances, result.rows_undecided, result.undecided
    return list(zip(tensors, (table.indices, table.distances, rows_undecided, undecided), strict=True))
