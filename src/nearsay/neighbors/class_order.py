"""The classes in order of their nearest member: what ranks of labels and within-class distances are read from.

    query ──► nearest ant 0.2 · nearest cicada 0.3 · nearest bee 0.9 ──► numbers  (0, 2, 1)
              its second  0.4 · its second     0.3 ·                     distances, beyond

All classes are listed where there are few. Where there are many, only those
met among the nearest rows are, and every other class lies ``beyond``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NearestClasses:
    """For every query the classes by their nearest member, and the distances of their nearest members.

    Attributes
    ----------
    numbers : (n_queries, n_listed) int64
        Class numbers, nearest first; equal distances by the row number of the nearest member. −1 fills up.
    distances : (n_queries, n_listed, n_members) float64
        How far the nearest members of each of these classes are, nearest first. +inf where a class has no
        more members, and after the first member of every class but the 16 nearest, which are not looked at;
        ``beyond`` where there is one, but farther than was looked. Nothing (0 members) where only the order
        was asked for.
    beyond : (n_queries,) float64
        No member that is not listed lies nearer than this; +inf where every member that was asked for is listed.
    """

    numbers: np.ndarray
    distances: np.ndarray
    beyond: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: slice | np.ndarray) -> NearestClasses:
        """The same for some of the queries."""
        return NearestClasses(self.numbers[rows], self.distances[rows], self.beyond[rows])
