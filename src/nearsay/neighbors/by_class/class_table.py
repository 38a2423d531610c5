"""``ClassTable``: the nearest members of *each class*, for every query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.arrays import check_row_numbers
from nearsay.core.compiling import worth_compiling
from nearsay.errors import InputError
from nearsay.neighbors.class_order import NearestClasses, classes_in_order

# Up to so many classes are put in order by counting how many are nearer, which is done for several at a time.
COUNT_UP_TO = 128


@dataclass(frozen=True)
class ClassTable:
    """For every query the nearest members of each class, nearest first.

    Attributes
    ----------
    indices : (n_queries, n_classes, n_members) int64
        Row numbers; −1 where a class has fewer members.
    distances : (n_queries, n_classes, n_members) float64
        Their distances; +inf where there is none.
    """

    indices: np.ndarray
    distances: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: Any) -> ClassTable:
        """The same table for some of the queries: a slice, their numbers, or a mask."""
        lines = rows if isinstance(rows, slice) else check_row_numbers(rows, len(self))
        return ClassTable(self.indices[lines], self.distances[lines])

    def first(self, n_members: int) -> ClassTable:
        """The nearest ``n_members`` of each class alone."""
        if not 1 <= n_members <= self.indices.shape[2]:
            raise InputError(f"This table holds {self.indices.shape[2]} members a class, not {n_members}.")
        return ClassTable(self.indices[:, :, :n_members], self.distances[:, :, :n_members])

    def in_order(self, members: tuple[int, ...] = ()) -> NearestClasses:
        """The classes by their nearest member; a class without any is not listed.

        ``members`` : numbers of nearest members whose mean distances are computed, no more than this table holds.

        >>> table = ClassTable(np.array([[[7], [-1], [4]]]), np.array([[[2.0], [np.inf], [1.0]]]))
        >>> table.in_order().numbers
        array([[ 2,  0, -1]])
        """
        classes = NearestClasses.to_fill(len(self), self.indices.shape[1], members)
        self.put_in_order(classes)
        return classes

    def put_in_order(self, classes: NearestClasses) -> None:
        """Fill in the classes, and the means of no more members than this table holds."""
        n_classes, n_members = self.indices.shape[1:]
        if n_members > 1 or (n_classes <= COUNT_UP_TO and worth_compiling(0)):
            from nearsay.neighbors.order_kernels import few_classes_in_order

            few_classes_in_order(self.indices, self.distances, np.array(classes.members, np.int64), *classes.arrays[:3])
            return
        nearest = classes.nearest if classes.members else np.empty((len(self), n_classes))
        classes_in_order(self.indices[:, :, 0], self.distances[:, :, 0], classes.numbers, nearest)
        if classes.members:
            classes.means[:, :, 0] = nearest[:, : classes.means.shape[1]]


def no_members(n_queries: int, n_classes: int, n_members: int) -> ClassTable:
    """An empty table: −1 and +inf everywhere."""
    shape = (n_queries, n_classes, n_members)
    return ClassTable(np.full(shape, -1, np.int64), np.full(shape, np.inf))
