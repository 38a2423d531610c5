"""The nearest members of each class on a GPU: lowest scores of groups again, where each group holds rows of one class.

    rows by class, each class padded to whole groups
    ┌────────────┬──────┬────────────────┐     the two lowest scores of each group, and of which rows
    │ ant ant ant│ bee  │ cicada cicada  │ ──► a threshold per class ──► nearly always one row ──► float64
    └────────────┴──────┴────────────────┘     both of a group below it: score the whole group     │
             of the 16 nearest classes the scores of all members ──► float64 ──► means ◄── the nearest classes

Of each class, a row is measured no farther than its lowest t + E (``bounds.py``), so its nearest member has t − E of at
most that. A *key* is a score whose last bits are the row's place in its group. Where only the lowest of a group is
below the threshold, the key names the row, and no other row of the group is read. A row that is left out is skipped by
its place: the second lowest of its group is taken instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.search.gpu.class_steps import rooted
from nearsay.search.gpu.collection import GpuCollection
from nearsay.search.gpu.limits import Room
from nearsay.search.gpu.rows import TILE, GpuQueries
from nearsay.search.gpu.steps import written

# Rows in a group: the largest of these with which padding hardly doubles the classes. Four groups share a stretch of
# rows, which must be of one class.
SIZES = (32, 16, 8)
# Padding may make the rows this many times as many; with more, the CPU is faster.
MOST_PADDING = 8
# Memory for a query and a class while the nearest is found.
BYTES_A_PAIR = 96
NO_ROW = 0x7FFFFFFF
BY_DIFFERENCES = ("euclidean", "sqeuclidean", "hellinger")


@dataclass(frozen=True)
class ClassResults:
    """Results by class for some queries, as tensors on the GPU.

    Attributes
    ----------
    rows, distances : (n_queries, n_classes) of the nearest member of each class, int32; −1 and +inf without any.
    near : (n_queries, n_near) the nearest classes, in order, padded with −1.
    means : (n_queries, n_near, members), or None where none are wanted.
    neighbors, neighbor_distances : (n_queries, k) the nearest rows of all.
    rows_undecided : (n_queries,) bool: the nearest rows of all must be searched again.
    undecided : (n_queries,) bool: no result; the CPU has to search.
    """

    torch: Any
    rows: Any
    distances: Any
    near: Any
    means: Any
    neighbors: Any
    neighbor_distances: Any
    rows_undecided: Any
    undecided: Any

    def in_order(self) -> tuple[Any, Any]:
        """All classes, nearest first, and their distances: (n_queries, n_classes), padded with −1 and +inf."""
        return in_order(self.torch, self.rows, self.distances)


class GpuRowsByClass:
    """A copy of the rows on the GPU, in order of their classes."""

    def __init__(self, collection: GpuCollection, labels: np.ndarray, n_classes: int) -> None:
        torch = collection.torch
        self.steps = collection.steps.of_classes()
        rows = collection.parts[0]
        size = collection.limits.group_size or size_of_groups(len(rows.halves), n_classes)
        self.collection, self.n_classes, self.size = collection, n_classes, size
        places, starts = places_by_class(labels[: rows.n], n_classes, 4 * size)
        self.largest = int(np.diff(starts).max(initial=0))
        self.places = torch.from_numpy(places).to(collection.device)
        self.starts = torch.from_numpy(starts).to(collection.device).long()
        self.first_groups = torch.from_numpy((starts // size).astype(np.int32)).to(collection.device)
        of_place = np.full(rows.n, -1, np.int64)
        of_place[places[places >= 0]] = np.flatnonzero(places >= 0)
        self.place_of_row = torch.from_numpy(of_place).to(collection.device)
        is_row, chosen = self.places >= 0, self.places.clamp(min=0).long()
        self.rows = replace(
            rows,
            halves=rows.halves[chosen],
            half_norms=torch.where(is_row, rows.half_norms[chosen], np.inf),
            errors=torch.where(is_row, rows.errors[chosen], 0.0),
            lengths=torch.where(is_row, rows.lengths[chosen], 0.0),
        )

    @cached_property
    def in_order(self) -> Any:
        """The rows for measuring, by place."""
        return self.rows.exact[self.places.clamp(min=0).long()].contiguous()

    @cached_property
    def class_of_group(self) -> Any:
        """The class of each group; any class for padding."""
        torch = self.collection.torch
        groups = torch.arange(len(self.places) // self.size, device=self.places.device, dtype=torch.int32)
        return (torch.searchsorted(self.first_groups, groups, right=True) - 1).clamp(max=self.n_classes - 1)

    @classmethod
    def serves(cls, collection: GpuCollection, n_classes: int) -> bool:
        """Whether the rows are on the GPU in one part, are measured by differences, and need little padding."""
        too_many = n_classes > collection.limits.most_classes
        if len(collection.parts) > 1 or collection.kind not in BY_DIFFERENCES or too_many:
            return False
        return n_classes * 4 * SIZES[-1] <= MOST_PADDING * len(collection.parts[0].halves)

    def results(
        self, Q: Any, left_out: np.ndarray, k: int, members: tuple[int, ...], n_near: int
    ) -> Iterator[tuple[slice, ClassResults]]:
        """For some queries at a time: the nearest of each class, classes in order, means of members, the nearest rows.

        ``left_out`` is the row that each query is, or empty; without ``Q`` these rows are the queries. Means are of the
        ``n_near`` nearest classes.
        """
        collection = self.collection
        Q = collection.rows_of(left_out) if Q is None else Q
        itself = collection.torch.from_numpy(np.asarray(left_out, np.int64)).to(collection.device)
        a_query = 8 * len(self.rows.halves) // self.size + BYTES_A_PAIR * self.n_classes
        limits = collection.limits
        size = max(256, min(limits.queries_at_once, limits.class_bytes // a_query) // 256 * 256)
        for part in row_blocks(len(Q), size=size):
            yield part, self._search(Q[part], itself[part], k, members, n_near)

    def _search(self, Q: Any, left_out: Any, k: int, members: tuple[int, ...], n_near: int) -> ClassResults:
        collection = self.collection
        Q = collection.brought(Q)
        queries, exact = collection._queries(Q), collection._measurable(Q)
        keyed = queries.with_keys(self.size)
        keys = collection.steps.group_lows(queries, self.rows, self.size)
        left_out_places = self.place_of_row[left_out] if len(left_out) else left_out
        neighbors = self._nearest_rows(keyed, exact, keys[0], left_out, k)
        in_float64 = exact.to(collection.torch.float64)
        rows, distances = self._nearest_of_each(queries, keyed, in_float64, keys, left_out_places)
        near, means = nearest_classes(collection.torch, rows, distances, n_near), None
        if members == (1,):
            far = distances.gather(1, near.clamp(min=0))
            means = collection.torch.where(near >= 0, far, np.inf)[:, :, None]
        elif members:
            means = self._means(queries, exact, near, left_out_places, members)
        by_class = rows, distances, near, means
        return ClassResults(collection.torch, *by_class, *neighbors, ~queries.bounds.certain)

    def _nearest_of_each(
        self, queries: GpuQueries, keyed: GpuQueries, Q: Any, keys: Any, left_out_places: Any
    ) -> tuple[Any, Any]:
        """Row numbers and distances (n_queries, n_classes) of the nearest members, ties by row number."""
        torch, steps, kind = self.collection.torch, self.steps, self.collection.kind
        assert kind is not None
        thresholds, places, all_others = steps.nearest_of_classes(keys, keyed, self, left_out_places)
        distances = steps.measure_pairs(kind, Q, self, None, places)
        rows = self._row_numbers(places)
        pairs, others = all_others()
        in_groups = (others < -1).nonzero()[:, 0]
        if len(in_groups):
            scored = steps.rows_of_pairs(
                queries, self, thresholds, pairs[in_groups], -2 - others[in_groups], left_out_places
            )
            pairs, others = torch.cat([pairs, scored[0]]), torch.cat([others, scored[1]])
        if len(pairs):
            far, numbers = steps.measure_pairs(kind, Q, self, pairs, others), self._row_numbers(others)
            pairs = pairs.long()
            before = distances.clone()
            distances.scatter_reduce_(0, pairs, far, "amin")
            rows = torch.where(before == distances, rows, NO_ROW)
            rows.scatter_reduce_(0, pairs, torch.where(far == distances[pairs], numbers, NO_ROW), "amin")
        shape = self.n_classes, queries.n
        rows = torch.where(rows == NO_ROW, -1, rows).reshape(shape).T.contiguous()
        return rows, distances.reshape(shape).T.contiguous()

    def _row_numbers(self, places: Any) -> Any:
        return self.collection.torch.where(places >= 0, self.places[places.clamp(min=0).long()], NO_ROW)

    def _means(self, queries: GpuQueries, Q: Any, near: Any, left_out_places: Any, members: tuple[int, ...]) -> Any:
        """The mean distance of the m nearest members of these classes, or of all where a class has fewer."""
        torch, kind, steps = self.collection.torch, self.collection.kind, self.collection.steps
        assert kind is not None
        n_near, most = near.shape[1], min(members[-1], self.largest)
        means = torch.full((*near.shape, len(members)), np.inf, dtype=torch.float64, device=near.device)
        if not most:
            return means
        room, rows = 1 << (most + most // 2 + 15).bit_length(), replace(self.rows, exact=self.in_order)
        a_query = n_near * max(4 * self.largest, 16 * room + 8 * Q.shape[1])
        for part in row_blocks(queries.n, size=max(1, self.collection.limits.member_bytes // a_query)):
            itself = left_out_places[part] if len(left_out_places) else left_out_places
            classes = near[part].contiguous()
            kept, counts = self.steps.members_of_lines(queries.some(part), self, classes, itself, most, room)
            lines = Q[part].repeat_interleave(n_near, dim=0)
            far = steps.measure(kind, lines, rows, kept, counts)
            far = steps.order(kept, far, counts, left_out_places[:0], 0, most)[1]
            of_lines = self.steps.means(far, members).reshape(*classes.shape, len(members))
            means[part] = torch.where((classes >= 0)[:, :, None], of_lines, np.inf)
            crowded = (counts > room).reshape(classes.shape)
            self._fill_crowded(means[part], Q[part], classes, crowded, itself, members)
        return means

    def _fill_crowded(
        self, means: Any, Q: Any, classes: Any, crowded: Any, left_out_places: Any, members: tuple[int, ...]
    ) -> None:
        """Measure all members of classes of which too many may be among the nearest: where many rows are equal."""
        torch, kind = self.collection.torch, self.collection.kind
        assert kind is not None
        query, at = crowded.nonzero(as_tuple=True)
        for part in row_blocks(len(query), size=max(1, self.collection.limits.member_bytes // (32 * self.largest))):
            which = query[part]
            itself = left_out_places[which] if len(left_out_places) else left_out_places
            lines = Q[which].to(torch.float64)
            squares = self.steps.measure_classes(lines, self, classes[which, at[part]], itself)
            lowest = squares.topk(min(members[-1], self.largest), dim=1, largest=False).values.sort(dim=1).values
            far = rooted(kind, lowest)
            means[which, at[part]] = self.steps.means(far, members)

    def _nearest_rows(
        self, queries: GpuQueries, exact: Any, minima: Any, left_out: Any, k: int
    ) -> tuple[Any, Any, Any]:
        """The k nearest of all rows from the same lowest scores; and the queries that must be searched again."""
        torch, steps, size = self.collection.torch, self.collection.steps, self.size
        if not k:
            no_rows = torch.empty((queries.n, 0), dtype=torch.int64, device=minima.device)
            return no_rows, no_rows.double(), torch.zeros_like(queries.bounds.certain)
        n_listed = k + 1 if len(left_out) else k
        room = replace(self.collection.limits.first_room(n_listed), size=size)
        limits = torch.full((queries.n,), np.inf, dtype=torch.float32, device=minima.device)
        listed = steps.list_groups(minima, queries, self.rows, size, n_listed, limits, room.groups)
        return self._measured(queries, exact, listed, room, left_out, k)

    def _measured(
        self, queries: GpuQueries, exact: Any, listed: tuple[Any, Any, Any], room: Room, left_out: Any, k: int
    ) -> tuple[Any, Any, Any]:
        """The k nearest rows of the groups listed, and their distances; and whether the lists overflowed."""
        torch, kind, steps = self.collection.torch, self.collection.kind, self.collection.steps
        assert kind is not None
        kept, counts = steps.list_rows(queries, self.rows, self.size, *listed, room.rows)
        counts = torch.where(queries.bounds.certain, counts, room.rows + 1)
        valid = written(torch, counts, room.rows)
        kept = torch.where(valid, self.places[torch.where(valid, kept, 0).long()], 0)
        far = steps.measure(kind, exact, self.rows, kept, counts)
        return *steps.order(kept, far, counts, left_out, 0, k), counts > room.rows


def size_of_groups(n_rows: int, n_classes: int) -> int:
    """Rows in a group, so that classes need little padding.

    >>> size_of_groups(1_000_000, 1000), size_of_groups(1_000_000, 12_000), size_of_groups(1000, 1000)
    (32, 16, 8)
    """
    return next((size for size in SIZES if 4 * size * n_classes <= n_rows), SIZES[-1])


def nearest_classes(torch: Any, rows: Any, distances: Any, n_near: int) -> Any:
    """The nearest classes (n_queries, n_near), in order: the first that ``in_order`` gives."""
    far, numbers = distances.topk(min(n_near + 1, distances.shape[1]), dim=1, largest=False, sorted=True)
    tied = (far[:, 1:] == far[:, :-1]) & (far[:, 1:] < np.inf)
    near = torch.where(far < np.inf, numbers, -1)[:, :n_near].contiguous()
    few = tied.any(dim=1).nonzero()[:, 0]
    if len(few):
        near[few] = in_order(torch, rows[few], distances[few])[0][:, :n_near]
    return near


def in_order(torch: Any, rows: Any, distances: Any) -> tuple[Any, Any]:
    """The classes by their nearest member, ties by its row number, and its distance; padded with −1 and +inf."""
    nearest, numbers = distances.sort(dim=1)
    tied = (nearest[:, 1:] == nearest[:, :-1]) & (nearest[:, 1:] < np.inf)
    few = tied.any(dim=1).nonzero()[:, 0]
    if len(few):
        by_row = rows[few].sort(dim=1).indices
        again = distances[few].gather(1, by_row).sort(dim=1, stable=True).indices
        numbers[few] = by_row.gather(1, again)
    return torch.where(nearest < np.inf, numbers, -1), nearest


def places_by_class(labels: np.ndarray, n_classes: int, stretch: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers by class, each class padded with −1 to whole stretches; and where each class begins.

    >>> places, starts = places_by_class(np.array([1, 0, 1]), 2, stretch=64)
    >>> starts.tolist(), places[[0, 1, 64, 65, 66]].tolist(), len(places)
    ([0, 64, 128], [1, -1, 0, 2, -1], 256)
    """
    sizes = np.bincount(labels, minlength=n_classes)
    starts = np.concatenate([[0], np.cumsum(-(-sizes // stretch) * stretch)])
    places = np.full(-(-starts[-1] // TILE) * TILE, -1, np.int32)
    order = np.argsort(labels, kind="stable")
    within = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places[starts[labels[order]] + within] = order
    return places, starts.astype(np.int32)
