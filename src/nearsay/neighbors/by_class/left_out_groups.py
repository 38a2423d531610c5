"""Leaves small groups of rows out of each other's answers: one search among all rows, then a few classes once more.

    a row among all others ──► its neighbors without its group ┐
                           └─► classes of its group, measured ─┴─► what a search without the group would give
                               again without it, back in order

A search of its own for every group would take thousands of searches where rows come in pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.class_means import DISTANCES_AT_ONCE, PAIRS_A_TASK, RowsByClass, means_of_nearest
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.search.protocol import NeighborSearch

# Larger groups are searched for one by one: so many neighbors more would be asked for in vain.
MOST_IN_GROUP = 32


class RowGroups:
    """The live rows by group; ``number`` is −1 for a row that is alone in its group.

    >>> groups = RowGroups(np.array([5, 7, 5, 5]), live=np.array([0, 1, 3]))
    >>> groups.number, groups.size_of(np.array([0, 1])), groups.of(0)
    (array([ 0, -1, -1,  0]), array([2, 1]), array([0, 3]))
    """

    def __init__(self, groups: np.ndarray, live: np.ndarray) -> None:
        _, number, size = np.unique(groups[live], return_inverse=True, return_counts=True)
        shared = size[number] > 1
        self.number = np.full(len(groups), -1)
        self.number[live[shared]] = number[shared]
        self._in_order = live[np.argsort(self.number[live], kind="stable")]
        self._starts = np.searchsorted(self.number[self._in_order], np.arange(len(size) + 1))

    def size_of(self, rows: np.ndarray) -> np.ndarray:
        """How many live rows the group of each of these rows has, itself among them."""
        number = self.number[rows]
        return np.where(number < 0, 1, self._starts[number + 1] - self._starts[number])

    def of(self, number: int) -> np.ndarray:
        """The rows of a group of several."""
        return self._in_order[self._starts[number] : self._starts[number + 1]]

    def are_of_one(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Where the row of a line and another row are of one group: (n_lines, n_others); never for −1."""
        mine = self.number[rows][:, None]
        return (mine >= 0) & (others >= 0) & (self.number[others] == mine)


class SmallGroups:
    """Takes small groups out of a leave-one-out table of all rows.

    search, labels, by_class : the rows, their class numbers, and the rows of each class.
    """

    def __init__(self, search: NeighborSearch, labels: np.ndarray, by_class: RowsByClass, groups: RowGroups) -> None:
        self.search, self.labels, self.by_class, self.groups = search, labels, by_class, groups

    def without(self, table: NeighborTable, k: int, rows: np.ndarray) -> tuple[NeighborTable, np.ndarray]:
        """The first ``k`` of a longer table about these rows, without their groups; and which lines are undecided.

        Undecided is a line in which equal distances decide the order of classes, or another class is now among the
        few whose members are measured.
        """
        nearest = table.without(self.groups.are_of_one(rows, table.indices), k)
        if table.classes is None:
            return nearest, np.zeros(len(rows), np.bool_)
        classes, undecided = self._without_members(table.classes, rows)
        return NeighborTable(nearest.indices, nearest.distances, classes), undecided

    def _without_members(self, known: NearestClasses, rows: np.ndarray) -> tuple[NearestClasses, np.ndarray]:
        """The classes in order once those of each group are measured without it, and which lines are undecided."""
        changing = _Changing(known.nearest.copy(), known.means.copy(), np.zeros(known.nearest.shape, np.bool_))
        whole = []
        for label, lines in self._lines_by_class(rows).items():
            if self.by_class.worth_searching(label, len(lines), known.members[-1] + MOST_IN_GROUP):
                for part in row_blocks(len(lines), size=PAIRS_A_TASK):
                    self._measure(label, lines[part], known, rows, changing, searched=True)
            else:
                size = max(1, DISTANCES_AT_ONCE // self.by_class.size(label))
                whole += [(label, lines[part]) for part in row_blocks(len(lines), size=size)]
        in_parallel(lambda part: self._measure(*part, known, rows, changing), whole)
        return changing.in_order(known)

    def _lines_by_class(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """For each class the lines whose group has a member of it."""
        by_group = np.argsort(self.groups.number[rows], kind="stable")
        in_order = self.groups.number[rows][by_group]
        parts: dict[int, list[np.ndarray]] = {}
        for number in np.unique(in_order).tolist():
            start, stop = np.searchsorted(in_order, (number, number + 1))
            for label in np.unique(self.labels[self.groups.of(number)]).tolist():
                parts.setdefault(label, []).append(by_group[start:stop])
        return {label: np.concatenate(lines) for label, lines in parts.items()}

    def _measure(
        self,
        label: int,
        lines: np.ndarray,
        known: NearestClasses,
        rows: np.ndarray,
        changing: _Changing,
        *,
        searched: bool = False,
    ) -> None:
        """How far the members of a class are in these lines without their groups, where the class is listed.

        The nearest of a large class are ``searched`` for first.
        """
        listed = known.numbers[lines] == label
        lines, place = lines[listed.any(axis=1)], listed.argmax(axis=1)[listed.any(axis=1)]
        Q = self.search.rows_.take(rows[lines])
        candidates = np.broadcast_to(self.by_class.of(label), (len(lines), self.by_class.size(label)))
        if searched and self.by_class.grouped is not None:
            k = known.members[-1] + MOST_IN_GROUP
            few = self.by_class.grouped.nearest_among(Q, self.by_class.places(label), k)
            if (few[:, 0] >= 0).all():
                candidates = few
        candidates = np.ascontiguousarray(candidates)
        far = neighbor_search.measured(self.search, Q, candidates)
        far[(candidates < 0) | self.groups.are_of_one(rows[lines], candidates)] = np.inf
        changing.put(lines, place, far, np.array(known.members))


@dataclass(frozen=True)
class _Changing:
    """Nearest members and means of classes, of which some change: arrays as in ``NearestClasses``."""

    nearest: np.ndarray
    means: np.ndarray
    changed: np.ndarray

    def put(self, lines: np.ndarray, place: np.ndarray, far: np.ndarray, members: np.ndarray) -> None:
        """Put in the distances of the members of the class at this place of each line."""
        self.nearest[lines, place], self.changed[lines, place] = far.min(axis=1), True
        near = (place < self.means.shape[1]) & np.isfinite(far).any(axis=1)
        self.means[lines[near], place[near]] = means_of_nearest(far[near], members)

    def in_order(self, known: NearestClasses) -> tuple[NearestClasses, np.ndarray]:
        """The classes by their nearest member again, and the lines in which that takes more than is known."""
        order = np.argsort(self.nearest, axis=1, kind="stable")
        nearest, changed = (np.take_along_axis(array, order, axis=1) for array in (self.nearest, self.changed))
        equal = (nearest[:, 1:] == nearest[:, :-1]) & (changed[:, 1:] | changed[:, :-1])
        n_near = self.means.shape[1]
        from_afar = order[:, :n_near] >= n_near
        undecided = equal.any(axis=1) | from_afar.any(axis=1) | (changed & np.isinf(nearest)).any(axis=1)
        numbers = np.take_along_axis(known.numbers, order, axis=1)
        means = np.take_along_axis(self.means, np.minimum(order[:, :n_near], n_near - 1)[:, :, None], axis=1)
        return NearestClasses(numbers, nearest, means, known.beyond, known.members), undecided
