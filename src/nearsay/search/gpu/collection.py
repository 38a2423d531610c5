"""The rows of a search on the GPU: runs the steps of a search, for some queries at a time.

queries ──► lowest score of each group ──► groups ──► rows ──► float64 ──► the k nearest
                                              └── too many for their lists: longer lists, then the CPU
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.distances.distance import Distance
from nearsay.distances.histograms import Hellinger
from nearsay.distances.mahalanobis import Mahalanobis
from nearsay.distances.vectors import Correlation, Cosine, Euclidean, SquaredEuclidean
from nearsay.search.gpu.blocks import kept_on_host, on_gpu_in_turn, rows_at_once
from nearsay.search.gpu.limits import GpuLimits, Room
from nearsay.search.gpu.results import Results
from nearsay.search.gpu.rows import GpuQueries, GpuRows, RowSpace, from_numpy
from nearsay.search.gpu.steps import PlainSteps, written
from nearsay.search.row_store import HeldRows
from nearsay.search.screening.prepared_rows import Geometry

# Distances that are measured on the GPU, and by which kernel; others are measured on the CPU.
MEASURED_ON_GPU: dict[type[Distance], str] = {
    Euclidean: "euclidean",
    SquaredEuclidean: "sqeuclidean",
    Cosine: "cosine",
    Correlation: "cosine",
    Hellinger: "hellinger",
    Mahalanobis: "mahalanobis",
}
# Of these, rows are first brought into the form that the kernels compare, on the CPU.
FORMED = (Correlation, Hellinger)
# More neighbors than this are searched on the CPU.
MOST_NEIGHBORS = 1024
# Rows are centered and scaled once; rows added later may be so many times as long as the longest was.
LONGEST = 64.0


@dataclass(frozen=True)
class GpuNeighbors:
    """The nearest rows of queries, as tensors on the GPU.

    Attributes
    ----------
    numbers, distances : (n_queries, k); without distances, candidates that include the nearest, padded with −1.
    undecided : (n_queries,) bool: no answer, the CPU has to search.
    """

    numbers: Any
    distances: Any
    undecided: Any


class GpuCollection:
    """Rows on the GPU, in one part, and one more for each addition. Immutable: ``at`` gives a new one."""

    def __init__(
        self, steps: PlainSteps, device: Any, distance: Distance, geometry: Geometry, limits: GpuLimits
    ) -> None:
        self.steps, self.torch, self.device, self.limits = steps, steps.torch, device, limits
        self.distance = distance
        self.kind = MEASURED_ON_GPU.get(type(distance))
        self.linear_map = None
        if isinstance(distance, Mahalanobis):
            self.linear_map = self.torch.from_numpy(distance.L).to(device)
        self.space = RowSpace(self.torch, device, geometry)
        X = geometry.rows.items
        size = rows_at_once(self.torch, device, X, limits.free_bytes)
        self._given = [self._moved(X[part], part.start, wait=size < len(X)) for part in row_blocks(len(X), size=size)]
        self._hold(geometry)

    def at(self, geometry: Geometry) -> GpuCollection | None:
        """The collection after a change of the rows; None if all rows must be prepared again."""
        if geometry.radius * self.space.scale > LONGEST:
            return None
        following = copy.copy(self)
        following.space = self.space.at(geometry)
        following._hold(geometry)
        return following

    @property
    def rows(self) -> HeldRows:
        return self.space.geometry.rows

    def _hold(self, geometry: Geometry) -> None:
        """Update the parts after rows were added or removed; those given first are on the GPU already."""
        added = [self._moved(chunk, first) for first, chunk in geometry.rows.chunks()[1:] if len(chunk)]
        parts = [*self._given, *added]
        removed = geometry.rows.removed
        self.parts = parts if removed is None else [part.without(np.flatnonzero(removed)) for part in parts]

    def _moved(self, X: Any, first: int, *, wait: bool = False) -> GpuRows:
        """Rows as they are multiplied and measured: on the GPU, or (``wait``) in main memory."""
        rows = self.space.rows(X, first, None if self.kind is None else self._measurable(X))
        return kept_on_host(rows) if wait else rows

    def _measurable(self, X: Any) -> Any:
        """The numbers that are compared when distances are measured; float32 stays float32 where no form is taken."""
        if isinstance(X, np.ndarray):
            form = X
            if isinstance(self.distance, FORMED):
                form = np.empty(X.shape)
                for part in row_blocks(len(X), row_bytes=8 * X.shape[1]):
                    form[part] = self.distance.form(X[part])
            return from_numpy(self.torch, form).to(self.device)
        return X.to(self.device).contiguous()

    def rows_of(self, numbers: np.ndarray) -> Any:
        """The rows of these numbers, as queries: from the GPU if all rows are on it unchanged."""
        rows, held = self.parts[0], self.rows
        on_gpu = self.space.geometry.as_is and len(self.parts) == 1 and rows.exact.device.type == self.device.type
        if np.array_equal(numbers, np.arange(len(held))):
            return rows.exact if on_gpu else held.between(0, len(held))
        return rows.exact[self.torch.from_numpy(numbers).to(self.device)] if on_gpu else held.take(numbers)

    def nearest(self, Q: Any, left_out: Any, k: int) -> GpuNeighbors:
        """The k nearest rows of checked queries; ``left_out`` is the row that each query is (or empty)."""
        torch = self.torch
        results = [result for _, result in self._first_pass(Q, left_out, k)] or [self._no_queries(k)]
        numbers, distances, undecided = (
            parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*results, strict=True)
        )
        for queries, result in self._second_pass(Q, left_out, k, undecided.nonzero()[:, 0].cpu().numpy()):
            place = torch.from_numpy(queries).to(self.device)
            numbers[place], distances[place], undecided[place] = result
        return GpuNeighbors(numbers, distances, undecided)

    def nearest_in_arrays(self, Q: Any, left_out: Any, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same as numpy arrays: results of one batch are copied while the next is searched."""
        numbers, distances = np.empty((len(Q), k), np.int64), np.empty((len(Q), k))
        undecided, results = np.zeros(len(Q), np.bool_), Results(self.torch, self.device)
        for part, result in self._first_pass(Q, left_out, k):
            results.bring(result, (numbers[part], distances[part], undecided[part]))
        results.finish()
        for queries, result in self._second_pass(Q, left_out, k, np.flatnonzero(undecided)):
            numbers[queries], distances[queries], undecided[queries] = (tensor.cpu().numpy() for tensor in result)
        return numbers, distances, undecided

    def _first_pass(self, Q: Any, left_out: Any, k: int) -> Iterator[tuple[slice, tuple[Any, Any, Any]]]:
        """Numbers, distances and whether they are undecided, for some queries at a time."""
        n_listed, left_out = k + 1 if len(left_out) else k, self.torch.as_tensor(left_out, device=self.device)
        room = self.limits.first_room(n_listed)
        for part in self._batches(len(Q), room):
            yield part, self._search(Q[part], left_out[part], n_listed, k, room)

    def _second_pass(
        self, Q: Any, left_out: Any, k: int, undecided: np.ndarray
    ) -> Iterator[tuple[np.ndarray, tuple[Any, Any, Any]]]:
        """The same for the queries of these numbers, with longer lists."""
        n_listed, left_out = k + 1 if len(left_out) else k, self.torch.as_tensor(left_out, device=self.device)
        room = self.limits.wide_room(n_listed)
        for part in self._batches(len(undecided), room):
            queries = undecided[part]
            chosen = queries if isinstance(Q, np.ndarray) else self.torch.from_numpy(queries).to(Q.device)
            itself = left_out[self.torch.from_numpy(queries).to(self.device)] if len(left_out) else left_out
            yield queries, self._search(Q[chosen], itself, n_listed, k, room)

    def _no_queries(self, k: int) -> tuple[Any, Any, Any]:
        """The result for no queries."""
        torch = self.torch
        numbers = torch.empty((0, k), dtype=torch.int64, device=self.device)
        return numbers, numbers.double(), torch.empty(0, dtype=torch.bool, device=self.device)

    def candidates(self, Q: Any, k: int) -> GpuNeighbors:
        """Rows that include the k nearest, for distances that are measured on the CPU."""
        torch, room = self.torch, self.limits.first_room(k)
        kept, undecided = [], []
        for part in self._batches(len(Q), room):
            rows_of_parts: list[Any] = []
            crowded = None
            for rows, kept_rows, counts in self._listed_rows(self._queries(Q[part]), k, room):
                valid = written(torch, counts, room.rows)
                rows_of_parts.append(torch.where(valid, kept_rows.long() + rows.first, -1))
                too_many = counts > room.rows
                crowded = too_many if crowded is None else crowded | too_many
            kept.append(torch.cat(rows_of_parts, dim=1))
            undecided.append(crowded)
        return GpuNeighbors(torch.cat(kept), None, torch.cat(undecided))

    def _batches(self, n_queries: int, room: Room) -> Iterator[slice]:
        n_groups = max(len(part.halves) for part in self.parts) // room.size
        held = self.limits.minima_bytes
        most = min(self.limits.queries_at_once, held // (4 * n_groups), held // (16 * (room.rows + room.groups)))
        return row_blocks(n_queries, size=max(256, most // 256 * 256))

    def brought(self, Q: Any) -> Any:
        """Queries on the GPU; on the CPU if they take another form first."""
        if isinstance(Q, np.ndarray) and self.space.geometry.as_is:
            return from_numpy(self.torch, Q).to(self.device)
        return Q

    def _queries(self, Q: Any) -> GpuQueries:
        form_error = 0.0 if self.space.geometry.as_is else self.space.geometry.form_error(Q)
        return self.steps.prepared(self.space, Q, form_error)

    def _listed_rows(self, queries: GpuQueries, k: int, room: Room) -> Iterator[tuple[GpuRows, Any, Any]]:
        """Each part of the rows, those that may be among the nearest, and their counts; above ``room`` if undecided."""
        steps, torch = self.steps, self.torch
        limits = torch.full((queries.n,), np.inf, dtype=torch.float32, device=self.device)
        for rows in on_gpu_in_turn(torch, self.device, self.parts):
            minima = steps.group_minima(queries, rows, room.size)
            listed, counts, limits = steps.list_groups(minima, queries, rows, room.size, k, limits, room.groups)
            kept, kept_counts = steps.list_rows(queries, rows, room.size, listed, counts, limits, room.rows)
            yield rows, kept, torch.where(queries.bounds.certain, kept_counts, room.rows + 1)

    def _search(self, Q: Any, left_out: Any, n_listed: int, k: int, room: Room) -> tuple[Any, Any, Any]:
        assert self.kind is not None
        torch, steps, Q = self.torch, self.steps, self.brought(Q)
        measurable = self._measurable(Q)
        parts, undecided = [], torch.zeros(len(Q), dtype=torch.bool, device=self.device)
        for rows, kept, counts in self._listed_rows(self._queries(Q), n_listed, room):
            undecided |= counts > room.rows
            far = steps.measure(self.kind, measurable, rows, kept, counts, self.linear_map)
            parts.append(steps.order(kept, far, counts, left_out, rows.first, k))
        if len(parts) == 1:
            return *parts[0], undecided
        numbers, far = (torch.cat(several, dim=1) for several in zip(*parts, strict=True))
        counts = torch.full((len(Q),), numbers.shape[1], dtype=torch.int32, device=self.device)
        return *PlainSteps.order(steps, numbers, far, counts, left_out[:0], 0, k), undecided
