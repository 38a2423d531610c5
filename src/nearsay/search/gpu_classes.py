"""The nearest member of each class on a device: lowest scores of groups again, of which each holds rows of one class.

    rows, by class, each class filled up to whole groups of 16
    ┌────────────┬──────┬────────────────┐     lowest score of each group
    │ ant ant ant│ bee  │ cicada cicada  │ ──► of each class a threshold ──► groups ──► rows ──► float64 ──► the nearest
    └────────────┴──────┴────────────────┘

Of each class, a row is measured no farther than the lowest t + E of its groups (``gpu_bounds.py``), so its nearest
member has t − E of at most that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nearsay.arrays import row_blocks
from nearsay.search.gpu_collection import QUERIES_AT_ONCE, DeviceCollection
from nearsay.search.gpu_rows import TILE

# Rows in a group; four groups share a stretch of rows, which must be of one class.
SIZE = 16
STRETCH = 4 * SIZE
# What fills classes up may be so many times as much as the rows; with more, the processor is sooner done.
MOST_FILLING = 8
# Lowest scores, and the nearest of each class, that are held at once.
BYTES_AT_ONCE = 4 << 30


class DeviceClasses:
    """Rows on a device once more, in order of their classes."""

    def __init__(self, collection: DeviceCollection, labels: np.ndarray, n_classes: int) -> None:
        torch = collection.torch
        self.collection, self.n_classes = collection, n_classes
        rows = collection.parts[0]
        places, starts = places_by_class(labels[: rows.n], n_classes)
        self.places = torch.from_numpy(places).to(collection.device)
        self.first_groups = torch.from_numpy(starts // SIZE).to(collection.device)
        there, chosen = self.places >= 0, self.places.clamp(min=0).long()
        self.rows = replace(
            rows,
            halves=rows.halves[chosen],
            half_norms=torch.where(there, rows.half_norms[chosen], np.inf),
            errors=torch.where(there, rows.errors[chosen], 0.0),
            lengths=torch.where(there, rows.lengths[chosen], 0.0),
        )

    @classmethod
    def serves(cls, collection: DeviceCollection, n_classes: int) -> bool:
        """Whether the rows lie on the device in one piece, are measured there by differences, and fill their groups."""
        if len(collection.parts) > 1 or collection.kind not in ("euclidean", "sqeuclidean"):
            return False
        return n_classes * STRETCH <= MOST_FILLING * len(collection.parts[0].halves)

    def nearest(self, Q: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row numbers and distances (n_queries, n_classes) of the nearest members; and queries that stay undecided."""
        n_queries = len(Q)
        numbers, distances = np.empty((n_queries, self.n_classes), np.int64), np.empty((n_queries, self.n_classes))
        undecided = np.zeros(n_queries, np.bool_)
        a_query = 4 * len(self.rows.halves) // SIZE + 12 * self.n_classes
        size = max(256, min(QUERIES_AT_ONCE, BYTES_AT_ONCE // a_query) // 256 * 256)
        collection, kind = self.collection, self.collection.kind
        assert kind is not None
        for part in row_blocks(n_queries, size=size):
            queries, exact = collection._queries(Q[part]), collection._measurable(Q[part])
            minima = collection.steps.group_minima(queries, self.rows, SIZE)
            found, far = collection.steps.nearest_of_classes(kind, queries, exact, self, minima)
            numbers[part], distances[part] = found.cpu().numpy(), far.cpu().numpy()
            undecided[part] = ~queries.bounds.certain.cpu().numpy()
        return numbers, distances, np.flatnonzero(undecided)


def places_by_class(labels: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows in order of their classes, each class filled up with −1 to whole stretches; and where classes begin.

    >>> places, starts = places_by_class(np.array([1, 0, 1]), 2)
    >>> starts.tolist(), places[[0, 1, 64, 65, 66]].tolist(), len(places)
    ([0, 64, 128], [1, -1, 0, 2, -1], 256)
    """
    sizes = np.bincount(labels, minlength=n_classes)
    starts = np.concatenate([[0], np.cumsum(-(-sizes // STRETCH) * STRETCH)])
    places = np.full(-(-starts[-1] // TILE) * TILE, -1, np.int32)
    order = np.argsort(labels, kind="stable")
    within = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places[starts[labels[order]] + within] = order
    return places, starts.astype(np.int32)
