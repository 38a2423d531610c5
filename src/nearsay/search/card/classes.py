"""The nearest members of each class on a device: lowest scores of groups again, of which each holds rows of one class.

    rows, by class, each class filled up to whole groups
    ┌────────────┬──────┬────────────────┐     lowest score of each group
    │ ant ant ant│ bee  │ cicada cicada  │ ──► of each class a threshold ──► groups ──► rows ──► float64 ──► the nearest
    └────────────┴──────┴────────────────┘                                                                    │
                 of the 16 nearest classes every member in float64 ──► the m nearest ──► means ◄── classes in order

Of each class, a row is measured no farther than the lowest t + E of its groups (``bounds.py``), so its nearest
member has t − E of at most that. A row that is left out is passed over by number: the group that it lies in gives no
threshold, and it is none of the rows that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.arrays import row_blocks
from nearsay.search.card.class_places import group_of, places_by_class
from nearsay.search.card.class_steps import rooted
from nearsay.search.card.collection import QUERIES_AT_ONCE, DeviceCollection, Room
from nearsay.search.card.rows import DeviceQueries

# Rows in a group; four groups share a stretch of rows, which must be of one class.
SIZE = 16
# What fills classes up may be so many times as much as the rows; with more, the processor is sooner done.
MOST_FILLING = 8
# Lowest scores, and the nearest of each class, that are held at once; and distances to the members of classes.
BYTES_AT_ONCE = 4 << 30
DISTANCE_BYTES = 2 << 30
# What is held for a query and a class while the nearest is found.
BYTES_A_PAIR = 96
# Of a class of up to so many rows all are measured for the means of its nearest members; of a larger one those that may
# be among them, for so many lines (a query with a class) at a time. It must have so many groups for each member.
MEASURED_WHOLE = 4096
LINES_AT_ONCE = 1 << 15
GROUPS_A_MEMBER = 2
NO_ROW = 0x7FFFFFFF
BY_DIFFERENCES = ("euclidean", "sqeuclidean", "hellinger")


@dataclass(frozen=True)
class ClassesFound:
    """What is told of some queries, as tensors on the device.

    Attributes
    ----------
    rows, distances : (n_queries, n_classes) of the nearest member of each class; −1 and +inf without any.
    numbers, nearest : (n_queries, n_classes) the classes in order of it, and how far it is; −1 and +inf fill up.
    means : (n_queries, n_near, members), or None where they were not asked for.
    neighbors, neighbor_distances : (n_queries, k) the nearest rows of all.
    open_still : (n_queries,) bool, whose nearest rows must be looked for again.
    undecided : (n_queries,) bool, of which nothing that is told means anything.
    """

    rows: Any
    distances: Any
    numbers: Any
    nearest: Any
    means: Any
    neighbors: Any
    neighbor_distances: Any
    open_still: Any
    undecided: Any


class DeviceClasses:
    """Rows on a device once more, in order of their classes."""

    def __init__(self, collection: DeviceCollection, labels: np.ndarray, n_classes: int, *, size: int = SIZE) -> None:
        torch = collection.torch
        self.collection, self.n_classes, self.size = collection, n_classes, size
        self.steps = collection.steps.of_classes()
        rows = collection.parts[0]
        places, starts = places_by_class(labels[: rows.n], n_classes, 4 * size)
        widths = np.diff(starts)
        self.has_large = bool((widths > MEASURED_WHOLE).any())
        self.largest = int(widths[widths <= MEASURED_WHOLE].max(initial=0))
        self.places = torch.from_numpy(places).to(collection.device)
        self.starts = torch.from_numpy(starts).to(collection.device).long()
        self.first_groups = torch.from_numpy((starts // size).astype(np.int32)).to(collection.device)
        of_place = np.full(rows.n, -1, np.int64)
        of_place[places[places >= 0]] = np.flatnonzero(places >= 0)
        self.place_of_row = torch.from_numpy(of_place).to(collection.device)
        there, chosen = self.places >= 0, self.places.clamp(min=0).long()
        self.rows = replace(
            rows,
            halves=rows.halves[chosen],
            half_norms=torch.where(there, rows.half_norms[chosen], np.inf),
            errors=torch.where(there, rows.errors[chosen], 0.0),
            lengths=torch.where(there, rows.lengths[chosen], 0.0),
        )

    @cached_property
    def columns(self) -> Any:
        """What rows are measured from, by column and place: rows of one class lie beside each other."""
        return self.rows.exact.T[:, self.places.clamp(min=0).long()].contiguous()

    @cached_property
    def class_of_group(self) -> Any:
        """The class of each group; any where groups only fill up."""
        torch = self.collection.torch
        groups = torch.arange(len(self.places) // self.size, device=self.places.device, dtype=torch.int32)
        return (torch.searchsorted(self.first_groups, groups, right=True) - 1).clamp(max=self.n_classes - 1)

    @classmethod
    def serves(cls, collection: DeviceCollection, n_classes: int) -> bool:
        """Whether the rows lie on the device in one piece, are measured there by differences, and fill their groups."""
        if len(collection.parts) > 1 or collection.kind not in BY_DIFFERENCES:
            return False
        return n_classes * 4 * SIZE <= MOST_FILLING * len(collection.parts[0].halves)

    def tells_means(self, members: tuple[int, ...]) -> bool:
        """Whether the means of so many members are made here: few where classes are large."""
        most = max(members, default=1)
        return most == 1 or not self.has_large or GROUPS_A_MEMBER * (most + 1) * self.size <= MEASURED_WHOLE

    def found(
        self, Q: Any, left_out: np.ndarray, k: int, members: tuple[int, ...], n_near: int
    ) -> Iterator[tuple[slice, ClassesFound]]:
        """Some queries at a time: the nearest of each class, classes in order, means of members, the nearest rows.

        ``left_out`` names the row that each query is itself, or is empty; without ``Q`` these rows are the queries.
        Means are told of the ``n_near`` nearest classes.
        """
        collection = self.collection
        Q = collection.rows_of(left_out) if Q is None else Q
        itself = collection.torch.from_numpy(np.asarray(left_out, np.int64)).to(collection.device)
        a_query = 4 * len(self.rows.halves) // self.size + BYTES_A_PAIR * self.n_classes
        size = max(256, min(QUERIES_AT_ONCE, BYTES_AT_ONCE // a_query) // 256 * 256)
        for part in row_blocks(len(Q), size=size):
            yield part, self._look(Q[part], itself[part], k, members, n_near)

    def _look(self, Q: Any, left_out: Any, k: int, members: tuple[int, ...], n_near: int) -> ClassesFound:
        collection = self.collection
        queries, exact = collection._queries(Q), collection._measurable(Q)
        minima = collection.steps.group_minima(queries, self.rows, self.size)
        own = self.place_of_row[left_out] if len(left_out) else left_out
        neighbors = self._nearest_rows(queries, exact, minima, left_out, k)
        in_float64 = exact.to(collection.torch.float64)
        rows, distances = self._nearest_of_each(queries, in_float64, minima, own)
        numbers, nearest = self._in_order(rows, distances)
        means, undecided = None, ~queries.bounds.certain
        if members == (1,):
            means = nearest[:, :n_near, None].clone()
        elif members and self.tells_means(members):
            means = self._means(in_float64, numbers[:, :n_near], own, members)
            if self.has_large:
                undecided |= self._fill_large(means, numbers, queries, exact, minima, left_out, members)
        told = rows, distances, numbers, nearest, means
        return ClassesFound(*told, *neighbors, undecided)

    def _nearest_of_each(self, queries: DeviceQueries, Q: Any, minima: Any, own: Any) -> tuple[Any, Any]:
        """Row numbers and distances (n_queries, n_classes) of the nearest members, ties by row number."""
        torch, steps, kind = self.collection.torch, self.steps, self.collection.kind
        assert kind is not None
        own_groups = group_of(own, self.size)
        thresholds, pairs, groups = steps.groups_of_classes(minima, queries, self, own_groups)
        pairs, places = steps.rows_of_pairs(queries, self, thresholds, pairs, groups, own)
        far = steps.measure_pairs(kind, Q, self, pairs, places)
        pairs = pairs.long()
        shape, device = (self.n_classes, queries.n), minima.device
        distances = torch.full((shape[0] * shape[1],), np.inf, dtype=torch.float64, device=device)
        distances.scatter_reduce_(0, pairs, far, "amin")
        number = torch.where(
            (far == distances[pairs]) & (places >= 0), self.places[places.clamp(min=0).long()], NO_ROW
        ).to(torch.int32)
        rows = torch.full(distances.shape, NO_ROW, dtype=torch.int32, device=device)
        rows.scatter_reduce_(0, pairs, number, "amin")
        rows = rows.reshape(shape).T.contiguous().long()
        return torch.where(rows == NO_ROW, -1, rows), distances.reshape(shape).T.contiguous()

    def _in_order(self, rows: Any, distances: Any) -> tuple[Any, Any]:
        """The classes by their nearest member, ties by its row number, and how far it is; −1 and +inf fill up."""
        torch = self.collection.torch
        nearest, numbers = distances.sort(dim=1)
        tied = (nearest[:, 1:] == nearest[:, :-1]) & (nearest[:, 1:] < np.inf)
        few = tied.any(dim=1).nonzero()[:, 0]
        if len(few):
            by_row = rows[few].sort(dim=1).indices
            again = distances[few].gather(1, by_row).sort(dim=1, stable=True).indices
            numbers[few] = by_row.gather(1, again)
        return torch.where(nearest < np.inf, numbers, -1), nearest

    def _means(self, Q: Any, numbers: Any, own: Any, members: tuple[int, ...]) -> Any:
        """The mean distance of the m nearest members of these classes, or of all where a class has fewer.

        Those of large classes are left open.
        """
        torch, kind = self.collection.torch, self.collection.kind
        assert kind is not None
        numbers = torch.where(self._is_large(numbers), -1, numbers)
        means = torch.full((*numbers.shape, len(members)), np.inf, dtype=torch.float64, device=numbers.device)
        n_near, most = numbers.shape[1], min(members[-1], self.largest)
        if not most:
            return means
        for part in row_blocks(len(numbers), size=max(1, DISTANCE_BYTES // (8 * n_near * max(1, self.largest)))):
            itself = own[part] if len(own) else own
            squares = self.steps.measure_classes(Q[part], self, numbers[part], itself)
            told = means_of(torch, rooted(kind, self.steps.lowest(squares, most)), members)
            means[part] = told.reshape(-1, n_near, len(members))
        return torch.where((numbers >= 0)[:, :, None], means, np.inf)

    def _is_large(self, numbers: Any) -> Any:
        """Whether each of these classes (−1: none) has more rows than are measured whole."""
        of_class = numbers.clamp(min=0)
        return (numbers >= 0) & (self.starts[of_class + 1] - self.starts[of_class] > MEASURED_WHOLE)

    def _fill_large(
        self,
        means: Any,
        numbers: Any,
        queries: DeviceQueries,
        exact: Any,
        minima: Any,
        left_out: Any,
        members: tuple[int, ...],
    ) -> Any:
        """Fill in the means of large classes; tells the queries whose lists were too short."""
        torch = self.collection.torch
        asked = members[-1] + 1 if len(left_out) else members[-1]
        room = replace(Room.first_look(asked), size=self.size)
        crowded = torch.zeros(queries.n, dtype=torch.bool, device=means.device)
        query, near = self._is_large(numbers[:, : means.shape[1]]).nonzero(as_tuple=True)
        for part in row_blocks(len(query), size=LINES_AT_ONCE):
            which, at = query[part], near[part]
            listed = self.steps.groups_of_lines(
                minima, queries, self, which, numbers[which, at].contiguous(), asked, room.groups
            )
            itself = left_out[which] if len(left_out) else left_out
            lines = queries.at(which), exact[which].contiguous()
            _, far, open_still = self._measured(*lines, listed, room, itself, members[-1])
            means[which, at] = means_of(torch, far, members)
            crowded[which[open_still]] = True
        return crowded

    def _nearest_rows(
        self, queries: DeviceQueries, exact: Any, minima: Any, left_out: Any, k: int
    ) -> tuple[Any, Any, Any]:
        """The k nearest of all rows from the same lowest scores; and the queries that must be asked again."""
        torch, steps, size = self.collection.torch, self.collection.steps, self.size
        if not k:
            nothing = torch.empty((queries.n, 0), dtype=torch.int64, device=minima.device)
            return nothing, nothing.double(), torch.zeros_like(queries.bounds.certain)
        asked = k + 1 if len(left_out) else k
        room = replace(Room.first_look(asked), size=size)
        limits = torch.full((queries.n,), np.inf, dtype=torch.float32, device=minima.device)
        listed = steps.list_groups(minima, queries, self.rows, size, asked, limits, room.groups)
        return self._measured(queries, exact, listed, room, left_out, k)

    def _measured(
        self, queries: DeviceQueries, exact: Any, listed: tuple[Any, Any, Any], room: Room, left_out: Any, k: int
    ) -> tuple[Any, Any, Any]:
        """The k nearest rows of the groups listed, and how far they are; and whether there were too many to look at."""
        torch, kind, steps = self.collection.torch, self.collection.kind, self.collection.steps
        assert kind is not None
        kept, counts = steps.look(queries, self.rows, self.size, *listed, room.rows)
        counts = torch.where(queries.bounds.certain, counts, room.rows + 1)
        there = torch.arange(room.rows, device=kept.device) < counts[:, None]
        kept = torch.where(there, self.places[torch.where(there, kept, 0).clamp(min=0).long()], 0)
        far = steps.measure(kind, exact, self.rows, kept, counts)
        return *steps.order(kept, far, counts, left_out, 0, k), counts > room.rows


def means_of(torch: Any, lowest: Any, members: tuple[int, ...]) -> Any:
    """The mean of the m first numbers of each line, or of all that are finite: (lines, members).

    Added from left to right, as ``neighbors.class_means`` adds: a sum made in another order may end in another digit.
    """
    total = torch.zeros(len(lowest), dtype=torch.float64, device=lowest.device)
    added = torch.zeros_like(total)
    means = []
    columns = lowest.T.contiguous()
    for number, far in enumerate(columns):
        total = torch.where(far < np.inf, total + far, total)
        added += far < np.inf
        if number + 1 in members:
            means.append(total / added)
    return torch.stack([*means, *[total / added] * (len(members) - len(means))], dim=1)
