"""Rows of a search on a device, and how they are asked: the steps one after the other, for some queries at a time.

queries ──► lowest score of each group ──► groups ──► rows ──► float64 ──► the k nearest
                                              └── too many for their lists: a wider look, then the CPU
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.distances.distance import Distance
from nearsay.distances.histograms import Hellinger
from nearsay.distances.vectors import Correlation, Cosine, Euclidean, Mahalanobis, SquaredEuclidean
from nearsay.search.gpu.blocks import kept_on_host, passing, rows_at_once
from nearsay.search.gpu.results import Results
from nearsay.search.gpu.rows import DeviceQueries, DeviceRows, RowSpace, from_numpy
from nearsay.search.gpu.steps import PlainSteps, written
from nearsay.search.row_store import HeldRows
from nearsay.search.screening.prepared_rows import Geometry

# Distances that are measured on the device, and by which loop; others are measured where the rows lie.
MEASURED_THERE: dict[type[Distance], str] = {
    Euclidean: "euclidean",
    SquaredEuclidean: "sqeuclidean",
    Cosine: "cosine",
    Correlation: "cosine",
    Hellinger: "hellinger",
    Mahalanobis: "mahalanobis",
}
# Of these, rows are brought into a form on the host that the loops compare.
FORMED = (Correlation, Hellinger)
# Lowest scores of groups that are held at once.
MINIMA_BYTES = 2 << 30
QUERIES_AT_ONCE = 16384
# More neighbors than this are left to the CPU.
MOST_NEIGHBORS = 1024
# What a second look has room for, in groups and in rows.
WIDE = 4096
# Rows are centered and scaled once; ones added later may be so much longer than the longest was.
LONGEST = 64.0


@dataclass(frozen=True)
class Room:
    """Rows in a group, and how many groups and rows may be left of all before a query counts as undecided."""

    size: int
    groups: int
    rows: int

    @classmethod
    def first_look(cls, k: int) -> Room:
        """Small groups cost more to write, and less to look at: the more neighbors, the smaller.

        >>> Room.first_look(10)
        Room(size=64, groups=256, rows=64)
        """
        rows = 1 << (2 * k + 31).bit_length()
        if k <= 32:
            return cls(64, 256, rows)
        return cls(32 if k <= 64 else 16, max(512, 4 * rows), rows)

    def wider(self) -> Room:
        return replace(self, groups=WIDE, rows=max(WIDE, self.rows))


@dataclass(frozen=True)
class GpuNeighbors:
    """The nearest rows of queries, as tensors on the device.

    Attributes
    ----------
    numbers, distances : (n_queries, k); without distances, candidates that hold the nearest: −1 fills up.
    undecided : (n_queries,) bool, where what is told means nothing.
    """

    numbers: Any
    distances: Any
    undecided: Any


class DeviceCollection:
    """Rows on a device: those given first in one part, added ones in another. Immutable: ``at`` gives a new one."""

    def __init__(self, steps: PlainSteps, device: Any, distance: Distance, geometry: Geometry) -> None:
        self.steps, self.torch, self.device = steps, steps.torch, device
        self.distance = distance
        self.kind = MEASURED_THERE.get(type(distance))
        self.linear_map = None
        if isinstance(distance, Mahalanobis):
            self.linear_map = self.torch.from_numpy(distance.L).to(device)
        self.space = RowSpace(self.torch, device, geometry)
        X = geometry.rows.items
        size = rows_at_once(self.torch, device, X)
        self._given = [self._moved(X[part], part.start, wait=size < len(X)) for part in row_blocks(len(X), size=size)]
        self._hold(geometry)

    def at(self, geometry: Geometry) -> DeviceCollection | None:
        """The collection after a change of the rows; None where all must be prepared anew."""
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
        """Take note of rows that were added or removed; those given first lie here already."""
        added = [self._moved(chunk, first) for first, chunk in geometry.rows.chunks()[1:] if len(chunk)]
        parts = [*self._given, *added]
        removed = geometry.rows.removed
        self.parts = parts if removed is None else [part.without(np.flatnonzero(removed)) for part in parts]

    def _moved(self, X: Any, first: int, *, wait: bool = False) -> DeviceRows:
        """Rows as they are multiplied and measured: on the device, or waiting for it in main memory."""
        rows = self.space.rows(X, first, None if self.kind is None else self._measurable(X))
        return kept_on_host(self.torch, rows) if wait else rows

    def _measurable(self, X: Any) -> Any:
        """What the distance's own loop compares; float32 stays so where taking the form changes no number."""
        if isinstance(X, np.ndarray):
            form = X
            if isinstance(self.distance, FORMED):
                form = np.empty(X.shape)
                for part in row_blocks(len(X), row_bytes=8 * X.shape[1]):
                    form[part] = self.distance.form(X[part])
            return from_numpy(self.torch, form).to(self.device)
        return X.to(self.device).contiguous()

    def rows_of(self, numbers: np.ndarray) -> Any:
        """The rows of these numbers, as queries: those on the device where they are all there as they are."""
        rows, held = self.parts[0], self.rows
        there = self.space.geometry.as_is and len(self.parts) == 1 and rows.exact.device.type == self.device.type
        if np.array_equal(numbers, np.arange(len(held))):
            return rows.exact if there else held.between(0, len(held))
        return rows.exact[self.torch.from_numpy(numbers).to(self.device)] if there else held.take(numbers)

    def nearest(self, Q: Any, left_out: Any, k: int) -> GpuNeighbors:
        """The k nearest rows of checked queries; ``left_out`` names the row that each is itself (or is empty)."""
        torch = self.torch
        looks = [look for _, look in self._looks(Q, left_out, k)] or [self._nothing(k)]
        numbers, distances, undecided = (
            parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*looks, strict=True)
        )
        for here, look in self._wider_looks(Q, left_out, k, undecided.nonzero()[:, 0].cpu().numpy()):
            place = torch.from_numpy(here).to(self.device)
            numbers[place], distances[place], undecided[place] = look
        return GpuNeighbors(numbers, distances, undecided)

    def nearest_in_arrays(self, Q: Any, left_out: Any, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same, and which queries stay undecided, in arrays of the host: copied while the next are looked for."""
        numbers, distances = np.empty((len(Q), k), np.int64), np.empty((len(Q), k))
        undecided, results = np.zeros(len(Q), np.bool_), Results(self.torch, self.device)
        for part, look in self._looks(Q, left_out, k):
            results.bring(look, (numbers[part], distances[part], undecided[part]))
        results.finish()
        for here, look in self._wider_looks(Q, left_out, k, np.flatnonzero(undecided)):
            numbers[here], distances[here], undecided[here] = (tensor.cpu().numpy() for tensor in look)
        return numbers, distances, undecided

    def _looks(self, Q: Any, left_out: Any, k: int) -> Iterator[tuple[slice, tuple[Any, Any, Any]]]:
        """Numbers, distances and whether they are undecided, of some queries at a time."""
        asked, left_out = k + 1 if len(left_out) else k, self.torch.as_tensor(left_out, device=self.device)
        room = Room.first_look(asked)
        for part in self._batches(len(Q), room):
            yield part, self._look(Q[part], left_out[part], asked, k, room)

    def _wider_looks(
        self, Q: Any, left_out: Any, k: int, again: np.ndarray
    ) -> Iterator[tuple[np.ndarray, tuple[Any, Any, Any]]]:
        """The same for the queries of these numbers, with longer lists."""
        asked, left_out = k + 1 if len(left_out) else k, self.torch.as_tensor(left_out, device=self.device)
        room = Room.first_look(asked).wider()
        for part in self._batches(len(again), room):
            here = again[part]
            chosen = here if isinstance(Q, np.ndarray) else self.torch.from_numpy(here).to(Q.device)
            itself = left_out[self.torch.from_numpy(here).to(self.device)] if len(left_out) else left_out
            yield here, self._look(Q[chosen], itself, asked, k, room)

    def _nothing(self, k: int) -> tuple[Any, Any, Any]:
        """The answer to no queries."""
        torch = self.torch
        numbers = torch.empty((0, k), dtype=torch.int64, device=self.device)
        return numbers, numbers.double(), torch.empty(0, dtype=torch.bool, device=self.device)

    def candidates(self, Q: Any, k: int) -> GpuNeighbors:
        """Rows that hold the k nearest, for distances that are measured elsewhere."""
        torch, room = self.torch, Room.first_look(k)
        kept, undecided = [], []
        for part in self._batches(len(Q), room):
            rows_of_parts: list[Any] = []
            crowded = None
            for rows, kept_rows, counts in self._kept(self._queries(Q[part]), k, room):
                there = written(torch, counts, room.rows)
                rows_of_parts.append(torch.where(there, kept_rows.long() + rows.first, -1))
                here = counts > room.rows
                crowded = here if crowded is None else crowded | here
            kept.append(torch.cat(rows_of_parts, dim=1))
            undecided.append(crowded)
        return GpuNeighbors(torch.cat(kept), None, torch.cat(undecided))

    def _batches(self, n_queries: int, room: Room) -> Iterator[slice]:
        n_groups = max(len(part.halves) for part in self.parts) // room.size
        most = min(QUERIES_AT_ONCE, MINIMA_BYTES // (4 * n_groups), MINIMA_BYTES // (16 * (room.rows + room.groups)))
        return row_blocks(n_queries, size=max(256, most // 256 * 256))

    def brought(self, Q: Any) -> Any:
        """Queries on the device, once for all that is made of them; as they are where they take another form first."""
        if isinstance(Q, np.ndarray) and self.space.geometry.as_is:
            return from_numpy(self.torch, Q).to(self.device)
        return Q

    def _queries(self, Q: Any) -> DeviceQueries:
        form_error = 0.0 if self.space.geometry.as_is else self.space.geometry.form_error(Q)
        return self.steps.prepared(self.space, Q, form_error)

    def _kept(self, queries: DeviceQueries, k: int, room: Room) -> Iterator[tuple[DeviceRows, Any, Any]]:
        """Each part of the rows, those that may be among the nearest, and how many; too many where undecided."""
        steps, torch = self.steps, self.torch
        limits = torch.full((queries.n,), np.inf, dtype=torch.float32, device=self.device)
        for rows in passing(torch, self.device, self.parts):
            minima = steps.group_minima(queries, rows, room.size)
            listed, counts, limits = steps.list_groups(minima, queries, rows, room.size, k, limits, room.groups)
            kept, kept_counts = steps.look(queries, rows, room.size, listed, counts, limits, room.rows)
            yield rows, kept, torch.where(queries.bounds.certain, kept_counts, room.rows + 1)

    def _look(self, Q: Any, left_out: Any, asked: int, k: int, room: Room) -> tuple[Any, Any, Any]:
        assert self.kind is not None
        torch, steps, Q = self.torch, self.steps, self.brought(Q)
        measurable = self._measurable(Q)
        found, undecided = [], torch.zeros(len(Q), dtype=torch.bool, device=self.device)
        for rows, kept, counts in self._kept(self._queries(Q), asked, room):
            undecided |= counts > room.rows
            far = steps.measure(self.kind, measurable, rows, kept, counts, self.linear_map)
            found.append(steps.order(kept, far, counts, left_out, rows.first, k))
        if len(found) == 1:
            return *found[0], undecided
        numbers, far = (torch.cat(several, dim=1) for several in zip(*found, strict=True))
        counts = torch.full((len(Q),), numbers.shape[1], dtype=torch.int32, device=self.device)
        return *PlainSteps.order(steps, numbers, far, counts, left_out[:0], 0, k), undecided
