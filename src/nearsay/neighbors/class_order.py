"""Classes in order of their nearest member, with the distances of their members.

    query ──► nearest ant 0.2 · nearest cicada 0.3 · nearest bee 0.9 ──► numbers  (0, 2, 1)
              four ants   0.4 · four cicadas   0.5 ·                     nearest, means, beyond

All classes are listed where there are no more than 10,000. Where there are
more, only those met among the nearest rows are, and every other class lies ``beyond``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

# Of so many nearest classes several members are measured, of the others only the nearest: classes so far down the list
# have next to no chance, and measuring many members of each of thousands would take many times as long.
MEMBERS_OF_NEAREST = 16


@dataclass(frozen=True)
class NearestClasses:
    """For every query the classes by their nearest member, and how far their nearest members are.

    numbers : (n_queries, n_listed) int64, class numbers, nearest first; equal distances by the row number of the
        nearest member. −1 fills up.
    nearest : (n_queries, n_listed) float64, the distance of the nearest member of each of these classes; +inf where
        there is no class. Nothing (0 columns) where only the order was asked for.
    means : (n_queries, n_near, len(members)) float64, for the n_near = min(n_listed, 16) nearest classes, and for each
        number of ``members``: the mean distance of so many nearest members, or of all where a class has fewer; +inf
        where there is no class. A member that is farther than was looked counts as ``beyond``. Means of several have
        seven digits (``core/rounding.py``), so that products are certain of nearly all of them.
    beyond : (n_queries,) float64, no member that is not listed lies nearer than this; +inf where all classes are
        listed.
    members : how many nearest members the means are of, increasing.
    """

    numbers: np.ndarray
    nearest: np.ndarray
    means: np.ndarray
    beyond: np.ndarray
    members: tuple[int, ...] = ()

    @classmethod
    def to_fill(cls, n_queries: int, n_listed: int, members: tuple[int, ...]) -> Self:
        """Classes to be filled in: −1 and +inf everywhere."""
        return cls(
            np.full((n_queries, n_listed), -1, np.int64),
            np.full((n_queries, n_listed if members else 0), np.inf),
            np.full((n_queries, min(n_listed, MEMBERS_OF_NEAREST), len(members)), np.inf),
            np.full(n_queries, np.inf),
            members,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: slice | np.ndarray) -> NearestClasses:
        """The same for some of the queries."""
        numbers, nearest, means, beyond = (part[rows] for part in self.arrays)
        return NearestClasses(numbers, nearest, means, beyond, self.members)

    def __setitem__(self, rows: slice | np.ndarray, some: NearestClasses) -> None:
        """Replace the lines of some queries."""
        for mine, theirs in zip(self.arrays, some.arrays, strict=True):
            mine[rows] = theirs

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """numbers, nearest, means, beyond."""
        return self.numbers, self.nearest, self.means, self.beyond

    def forget(self, rows: np.ndarray) -> None:
        """Clear the lines of these queries."""
        self[rows] = NearestClasses.to_fill(1, self.numbers.shape[1], self.members)


def classes_in_order(rows: np.ndarray, distances: np.ndarray, numbers: np.ndarray, nearest: np.ndarray) -> None:
    """Fill in the classes of each query by their nearest member, ties by its row number, and how far it is.

    All are (n_queries, n_classes): ``rows`` and ``distances`` of the nearest member of each class (−1 and +inf
    without any), ``numbers`` of the classes in order, and ``nearest`` in that order; −1 and +inf fill up.

    >>> rows, distances = np.array([[7, -1, 4]]), np.array([[2.0, np.inf, 2.0]])
    >>> numbers, nearest = np.empty((1, 3), np.int64), np.empty((1, 3))
    >>> classes_in_order(rows, distances, numbers, nearest)
    >>> numbers, nearest
    (array([[ 2,  0, -1]]), array([[ 2.,  2., inf]]))
    """
    from nearsay.neighbors.order_kernels import in_that_order, settle_order

    with np.errstate(over="ignore"):  # what becomes infinite in float32 is put right below
        bits = distances.astype(np.float32).view(np.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF  # of a negative number the bits grow the other way
    # A whole number that ends in the class is sorted twice as fast as a distance with its class beside it.
    numbers[:] = bits
    numbers <<= 32
    numbers |= np.arange(numbers.shape[1])
    numbers.sort(axis=1)
    numbers &= 0xFFFFFFFF
    crowded = np.zeros(len(numbers), np.bool_)
    settle_order(numbers, rows, distances, crowded)
    for q in np.flatnonzero(crowded):
        numbers[q] = np.lexsort((rows[q], distances[q]))
    in_that_order(rows, distances, numbers, nearest)


def joined_classes(parts: Sequence[NearestClasses]) -> NearestClasses:
    """The lines of several, one after the other."""
    numbers, nearest, means, beyond = (
        np.concatenate(arrays) for arrays in zip(*(p.arrays for p in parts), strict=True)
    )
    return NearestClasses(numbers, nearest, means, beyond, parts[0].members)
