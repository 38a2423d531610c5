"""Rows and classes that a graphics card finds, and what the processor adds where the card leaves something open.

queries ──► card: nearest rows, classes in order, means of members ──► table
              ├── the nearest rows of a few ──► asked again (``neighbor_search.py``)
              └── too far away for scores ──► the processor's search
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.class_order_on_gpu import ClassesThere
from nearsay.neighbors.by_class.class_table import ClassTable
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.search.gpu.classes import DeviceClasses, GpuClasses
from nearsay.search.gpu.collection import DeviceCollection
from nearsay.search.gpu.gpu_search import GpuSearch
from nearsay.search.gpu.results import Results

# What is told of the classes of queries stays on the card up to this size, and is brought to the host above it.
KEPT_THERE = 1 << 30

T = TypeVar("T")
# Answers by the processor: of these lines, with the means of these members.
Otherwise = Callable[[np.ndarray, tuple[int, ...]], NeighborTable]


class ClassesOnCard:
    """The rows of a search on a card, each with its class."""

    def __init__(self, search: GpuSearch, labels: np.ndarray, n_classes: int) -> None:
        self.search, self.labels, self.n_classes = search, labels, n_classes
        self._there: DeviceClasses | None = None

    def __reduce__(self) -> tuple[type[ClassesOnCard], tuple[Any, ...]]:
        """A copy, or one that travels to another process, begins without anything on the card."""
        return type(self), (self.search, self.labels, self.n_classes)

    def serves(self, n_queries: int, k: int) -> bool:
        """Whether the card finds the nearest of each class, and so many rows beside."""
        if not n_queries or not self.search.rows_.n_live or not self.search.serves(n_queries, max(k, 1) + 1):
            return False
        return DeviceClasses.serves(self.search.on_device(), self.n_classes)

    def table(
        self, Q: Any, left_out: np.ndarray, k: int, members: tuple[int, ...], otherwise: Otherwise
    ) -> NeighborTable | None:
        """The ``k`` nearest rows, and all classes in order; None where the card ran out of memory.

        ``left_out`` names the row that each query is itself, or is empty; without ``Q`` these rows are the queries.
        """
        n_queries = len(left_out) if Q is None else len(Q)
        stays = Q is not None and bool(members) and 8 * n_queries * self.n_classes <= KEPT_THERE

        def ask(there: DeviceCollection) -> tuple[NeighborTable, np.ndarray, np.ndarray]:
            return _filled(self._by_class(there), Q, left_out, n_queries, k, members, stays=stays)

        found = self._asked(ask)
        if found is None:
            return None
        table, open_still, undecided = found
        classes = table.classes
        assert classes is not None
        if len(open_still):
            again = self._nearest_rows(None if Q is None else Q[open_still], left_out, open_still, k)
            table.indices[open_still], table.distances[open_still] = again.indices, again.distances
        if len(undecided):
            again = otherwise(undecided, classes.members)
            assert again.classes is not None
            table.indices[undecided], table.distances[undecided] = again.indices, again.distances
            classes[undecided] = again.classes
        removed = self.search.rows_.removed
        if removed is not None and len(left_out):
            gone = removed[left_out]
            table.indices[gone], table.distances[gone] = -1, np.inf
            classes.forget(gone)
        return table

    def fill_nearest(self, Q: Any, table: NeighborTable, members: ClassTable) -> np.ndarray | None:
        """Fill in the nearest rows and the nearest of each class; tells the queries that stay undecided.

        None where the card ran out of memory.
        """

        def ask(there: DeviceCollection) -> tuple[np.ndarray, np.ndarray]:
            open_still, undecided = np.zeros(len(Q), np.bool_), np.zeros(len(Q), np.bool_)
            results = Results(there.torch, there.device)
            for part, found in self._by_class(there).found(Q, neighbor_search.NOBODY, table.n_neighbors, (), 0):
                told = (found.rows, members.indices[part, :, 0]), (found.distances, members.distances[part, :, 0])
                rows = _rows_told(found, table[part], open_still[part], undecided[part])
                results.bring(*zip(*told, *rows, strict=True))
            results.finish()
            return np.flatnonzero(open_still & ~undecided), np.flatnonzero(undecided)

        asked = self._asked(ask)
        if asked is None:
            return None
        open_still, undecided = asked
        if len(open_still):
            again = self._nearest_rows(Q[open_still], neighbor_search.NOBODY, open_still, table.n_neighbors)
            table.indices[open_still], table.distances[open_still] = again.indices, again.distances
        return undecided

    def _asked(self, ask: Callable[[DeviceCollection], T]) -> T | None:
        found = self.search.asked(ask)
        if found is None:
            self._there = None  # the memory is needed
        return found

    def _by_class(self, there: DeviceCollection) -> DeviceClasses:
        if self._there is None:
            self._there = DeviceClasses(there, self.labels, self.n_classes)
        return self._there

    def _nearest_rows(self, Q: Any, left_out: np.ndarray, lines: np.ndarray, k: int) -> NeighborTable:
        """The nearest rows of queries that need a wider look."""
        if Q is None:
            return neighbor_search.leave_one_out(self.search, k, left_out[lines])
        return neighbor_search.nearest_of_checked(self.search, Q, k)


def _filled(
    by_class: DeviceClasses,
    Q: Any,
    left_out: np.ndarray,
    n_queries: int,
    k: int,
    members: tuple[int, ...],
    *,
    stays: bool,
) -> tuple[NeighborTable, np.ndarray, np.ndarray]:
    """What the card tells; and the lines whose rows, or all of it, must be found in another way.

    Rows come in arrays, and so do the classes unless they stay there.
    """
    torch, device = by_class.collection.torch, by_class.collection.device
    table = NeighborTable(np.empty((n_queries, k), np.int64), np.empty((n_queries, k)))
    n_near = min(by_class.n_classes, MEMBERS_OF_NEAREST)
    in_arrays = None if stays else NearestClasses.to_overwrite(n_queries, by_class.n_classes, members)
    open_still, undecided = np.zeros(n_queries, np.bool_), np.zeros(n_queries, np.bool_)
    results, kept = Results(torch, device), []
    for part, found in by_class.found(Q, left_out, k, members, n_near):
        told = _rows_told(found, table[part], open_still[part], undecided[part])
        if in_arrays is None:
            kept.append((found.distances, found.rows, found.near, found.means))
        else:
            numbers, nearest = found.in_order()
            told.append((numbers, in_arrays.numbers[part]))
            if members:
                told += [(nearest, in_arrays.nearest[part]), (found.means, in_arrays.means[part])]
        results.bring(*zip(*told, strict=True))
    results.finish()
    classes = in_arrays
    if classes is None:
        by_number, rows, near, means = (
            parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*kept, strict=True)
        )
        classes = ClassesThere(by_number, rows, near, means, members)
    table = NeighborTable(table.indices, table.distances, classes)
    return table, np.flatnonzero(open_still & ~undecided), np.flatnonzero(undecided)


def _rows_told(
    found: GpuClasses, table: NeighborTable, open_still: np.ndarray, undecided: np.ndarray
) -> list[tuple[Any, np.ndarray]]:
    tensors = found.neighbors, found.neighbor_distances, found.open_still, found.undecided
    return list(zip(tensors, (table.indices, table.distances, open_still, undecided), strict=True))
