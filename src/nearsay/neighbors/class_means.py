"""Mean distances of the nearest members of the nearest classes: a second look, at few classes only.

    queries ──► their 16 nearest classes ──► class by class, for all queries that need it:

                its rows ──► float32 scores ──► what may be among the nearest ──► measured ──► means
                             (of a large class)

The rows of a class are fetched once for all queries, and a class by itself fits the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.arrays import row_blocks
from nearsay.neighbors import find
from nearsay.neighbors.class_order import NearestClasses
from nearsay.parallel import in_parallel, shares
from nearsay.search.by_class.grouped import GroupedRows
from nearsay.search.protocol import NeighborSearch

# Up to so many rows for each member wanted, measuring all takes less time than scoring them first.
MEASURE_ALL_UP_TO = 4
# Queries with their classes, in one task.
PAIRS_A_TASK = 4096
DISTANCES_AT_ONCE = 1 << 18  # of queries to the rows of a class: 2 MB

Items = Callable[[np.ndarray], Any]


def fill_means(
    search: NeighborSearch,
    rows: RowsByClass,
    items: Items,
    left_out: np.ndarray,
    classes: NearestClasses,
) -> None:
    """Fill in the means of classes whose order is known.

    ``items`` gives the queries of some lines, ``left_out`` the row that each is
    itself (or is empty).
    """
    n_near = classes.means.shape[1]
    asked = classes.numbers[:, :n_near].ravel()
    by_class = np.argsort(asked, kind="stable")[np.count_nonzero(asked < 0) :]
    starts = np.flatnonzero(np.diff(asked[by_class], prepend=-1))
    members = np.array(classes.members)

    def fill(part: slice) -> None:
        for run in np.split(by_class[part], starts[(starts > part.start) & (starts < part.stop)] - part.start):
            number, n_rows = asked[run[0]], rows.size(asked[run[0]])
            for some in row_blocks(len(run), size=max(1, DISTANCES_AT_ONCE // max(1, n_rows))):
                lines, places = np.divmod(run[some], n_near)
                itself = left_out[lines] if len(left_out) else left_out
                far = _distances(search, rows, items(lines), number, itself, classes.members[-1])
                classes.means[lines, places] = _means(far, members)

    in_parallel(fill, shares(len(by_class), most=PAIRS_A_TASK))


class RowsByClass:
    """The row numbers of each class, in order; ``grouped`` scores them, where a product can."""

    def __init__(self, order: np.ndarray, labels: np.ndarray, n_classes: int, grouped: GroupedRows | None) -> None:
        self._order = order
        self._starts = np.searchsorted(labels[order], np.arange(n_classes + 1))
        self.grouped = grouped

    def of(self, number: int) -> np.ndarray:
        return self._order[self.places(number)]

    def places(self, number: int) -> slice:
        return slice(self._starts[number], self._starts[number + 1])

    def size(self, number: int) -> int:
        return int(self._starts[number + 1] - self._starts[number])


def _distances(
    search: NeighborSearch, rows: RowsByClass, Q: Any, number: int, left_out: np.ndarray, n_members: int
) -> np.ndarray:
    """How far the rows of a class are from some queries, at least the nearest; +inf for any other, in any order."""
    numbers = rows.of(number)
    if rows.grouped is None:
        candidates = np.tile(numbers, (len(Q), 1))
    elif len(numbers) > MEASURE_ALL_UP_TO * n_members:
        candidates = rows.grouped.nearest_among(Q, rows.places(number), left_out, n_members)
    else:
        far = search.distance_.block(Q, rows.grouped.rows_at(rows.places(number)))
        if len(left_out):
            far[numbers == left_out[:, None]] = np.inf
        return far
    far = find.measured(search, Q, candidates)
    far[(candidates < 0) | (candidates == (left_out[:, None] if len(left_out) else -1))] = np.inf
    return far


def _means(far: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The mean of the m smallest numbers of each line, or of all that are finite: (lines, members)."""
    nearest = np.sort(far, axis=1)[:, : members[-1]]
    found = np.minimum(members, np.count_nonzero(nearest < np.inf, axis=1)[:, None])
    sums = np.cumsum(nearest, axis=1)  # from left to right: ``np.sum`` would change the order with the length
    means: np.ndarray = np.take_along_axis(sums, found - 1, axis=1) / found
    return means
