"""Mean distances of the nearest members of the nearest classes: a second look, at few classes only.

    queries ──► their 16 nearest classes ──► class by class, for all queries that need it:

                its rows ──► searched ──► what may be among the nearest ──► measured ──► means
                             (a large class)

The rows of a class are fetched once for all queries, and a class by itself fits the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.compiling import worth_compiling
from nearsay.core.parallel import in_parallel, shares
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.class_order import NearestClasses
from nearsay.search.by_class.grouped import GroupedRows
from nearsay.search.protocol import NeighborSearch

# A class of up to so many rows is measured whole, which takes less time than finding its nearest rows first. Where few
# of its members are wanted, a smaller one is searched too, if so many distances are saved that the search is worth it.
MEASURE_ALL_UP_TO = 256
FEW_WANTED, WORTH_SEARCHING = 16, 1 << 16
# Queries with their classes, in one task.
PAIRS_A_TASK = 4096
# Fewer distances than these take less time than a call for their class does.
WORTH_A_CALL = 4096
DISTANCES_AT_ONCE = 1 << 18  # of queries to the rows of a class: 2 MB
# Of few queries all classes are measured in one go, up to so many distances for each class: 2 to 4 times as fast for
# 16 queries in 100 or more classes, and as fast as class by class at 4,000.
DISTANCES_A_CLASS = 2048

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
    n_near, n_members = classes.means.shape[1], classes.members[-1]
    if not len(classes):
        return
    if rows.soon_measured(classes.numbers[:, :n_near]):
        _fill_few(search, rows, items, left_out, classes)
        return
    asked = classes.numbers[:, :n_near].ravel()
    by_class = np.argsort(asked, kind="stable")[np.count_nonzero(asked < 0) :]
    starts = np.flatnonzero(np.diff(asked[by_class], prepend=-1))
    members = np.array(classes.members)

    def fill(pairs: np.ndarray, candidates: np.ndarray | None = None) -> None:
        """Queries with one class; of its rows those that may be nearest are given, or all are measured."""
        number = int(asked[pairs[0]])
        width = rows.size(number) if candidates is None else candidates.shape[1]
        most = max(1, DISTANCES_AT_ONCE // width)
        for some in row_blocks(len(pairs), size=search.rows_.block_size(most)):
            lines, places = np.divmod(pairs[some], n_near)
            itself = left_out[lines] if len(left_out) else left_out
            far = _distances(
                search, rows, items(lines), number, itself, None if candidates is None else candidates[some]
            )
            classes.means[lines, places] = means_of_nearest(far, members)

    of_each = {int(asked[pairs[0]]): pairs for pairs in np.split(by_class, starts[1:]) if len(pairs)}
    searched = [number for number, pairs in of_each.items() if rows.worth_searching(number, len(pairs), n_members)]
    by_search = np.isin(np.arange(classes.numbers.shape[1]), searched)

    def fill_whole(part: slice) -> None:
        for pairs in np.split(by_class[part], starts[(starts > part.start) & (starts < part.stop)] - part.start):
            if not by_search[asked[pairs[0]]]:
                fill(pairs)

    def fill_together(part: slice) -> None:
        """The same, where few queries ask for each class: from one list of rows, as wide as the largest class."""
        pairs = by_class[part][~by_search[asked[by_class[part]]]]
        most = max(1, DISTANCES_AT_ONCE // max(1, int(rows.sizes(asked[pairs]).max(initial=0))))
        for some in row_blocks(len(pairs), size=search.rows_.block_size(most)):
            lines, places = np.divmod(pairs[some], n_near)
            candidates = rows.listed(asked[pairs[some]])
            far = neighbor_search.measured(search, items(lines), candidates)
            far[(candidates < 0) | (candidates == (left_out[lines][:, None] if len(left_out) else -1))] = np.inf
            classes.means[lines, places] = means_of_nearest(far, members)

    n_distances = int(rows.sizes(asked[by_class]).sum())
    one_list = search.distance_.pairs_are_quick and n_distances < WORTH_A_CALL * len(starts)
    in_parallel(fill_together if one_list else fill_whole, shares(len(by_class), most=PAIRS_A_TASK))
    for number in searched:
        pairs = of_each[number]
        for some in row_blocks(len(pairs), size=PAIRS_A_TASK):
            _fill_large(rows, items, n_near, n_members + bool(len(left_out)), number, pairs[some], fill)


def _fill_few(
    search: NeighborSearch, rows: RowsByClass, items: Items, left_out: np.ndarray, classes: NearestClasses
) -> None:
    """Fill in the means of few queries: all rows of their nearest classes are measured in one go."""
    n, n_near = classes.means.shape[:2]
    near = classes.numbers[:, :n_near]
    candidates = rows.listed(near)
    far = neighbor_search.measured(search, items(np.arange(n)), candidates.reshape(n, -1)).reshape(candidates.shape)
    far[candidates < 0] = np.inf
    if len(left_out):
        far[candidates == left_out[:, None, None]] = np.inf
    listed = near >= 0
    classes.means[listed] = means_of_nearest(far[listed], np.array(classes.members))


def _fill_large(
    rows: RowsByClass, items: Items, n_near: int, k: int, number: int, pairs: np.ndarray, fill: Callable[..., None]
) -> None:
    """Fill in the means of a large class, whose nearest rows are found first; the search goes in threads itself."""
    assert rows.grouped is not None
    candidates = rows.grouped.nearest_among(items(pairs // n_near), rows.places(number), k)
    decided = candidates[:, 0] >= 0
    found = pairs[decided], candidates[decided]
    in_parallel(lambda part: fill(found[0][part], found[1][part]), shares(len(found[0]), most=len(pairs)))
    if not decided.all():
        fill(pairs[~decided])


class RowsByClass:
    """The row numbers of each class, in order; ``grouped`` scores them, where a product can."""

    def __init__(self, order: np.ndarray, labels: np.ndarray, n_classes: int, grouped: GroupedRows | None) -> None:
        self._order = order
        self._starts = np.searchsorted(labels[order], np.arange(n_classes + 1))
        self._largest = int(np.diff(self._starts).max(initial=0))
        self.grouped = grouped

    def of(self, number: int) -> np.ndarray:
        return self._order[self.places(number)]

    def places(self, number: int) -> slice:
        return slice(self._starts[number], self._starts[number + 1])

    def size(self, number: int) -> int:
        return int(self._starts[number + 1] - self._starts[number])

    def soon_measured(self, numbers: np.ndarray) -> bool:
        """Whether all rows of these classes are so few that going class by class would take longer."""
        n_distances, n_classes = numbers.size * self._largest, min(numbers.size, len(self._starts) - 1)
        return worth_compiling(0) and n_distances <= min(DISTANCES_A_CLASS * n_classes, DISTANCES_AT_ONCE)

    def sizes(self, numbers: np.ndarray) -> np.ndarray:
        """How many rows each of these classes has."""
        sizes: np.ndarray = self._starts[numbers + 1] - self._starts[numbers]
        return sizes

    def listed(self, numbers: np.ndarray) -> np.ndarray:
        """The row numbers of each of these classes along one more axis, −1 behind and for a class of number −1."""
        places = self._starts[numbers][..., None] + np.arange(self.sizes(numbers).max(initial=0))
        here = (places < self._starts[numbers + 1][..., None]) & (numbers[..., None] >= 0)
        return np.where(here, self._order[np.where(here, places, 0)], -1)

    def worth_searching(self, number: int, n_queries: int, n_members: int) -> bool:
        """Whether it is worth finding the nearest rows of a class, for so many queries, before any is measured."""
        size = self.size(number)
        if self.grouped is None or size <= 2 * n_members:
            return False
        few_wanted = size > FEW_WANTED * n_members and size * n_queries > WORTH_SEARCHING
        return size > MEASURE_ALL_UP_TO or few_wanted


def _distances(
    search: NeighborSearch,
    rows: RowsByClass,
    Q: Any,
    number: int,
    left_out: np.ndarray,
    candidates: np.ndarray | None,
) -> np.ndarray:
    """How far the candidates are from some queries, or all rows of the class; +inf where there is none."""
    numbers = rows.of(number)
    if candidates is None and rows.grouped is not None:
        far, first = np.empty((len(Q), len(numbers))), rows.places(number).start
        for part in row_blocks(len(numbers), size=search.rows_.block_size(len(numbers))):
            held = rows.grouped.rows_at(slice(first + part.start, first + part.stop))
            far[:, part] = search.distance_.block(Q, held)
        if len(left_out):
            far[numbers == left_out[:, None]] = np.inf
        return far
    if candidates is None:
        candidates = np.tile(numbers, (len(Q), 1))
    far = neighbor_search.measured(search, Q, candidates)
    far[(candidates < 0) | (candidates == (left_out[:, None] if len(left_out) else -1))] = np.inf
    return far


def means_of_nearest(far: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The mean of the m smallest numbers of each line, or of all that are finite: (lines, members)."""
    nearest = np.sort(far, axis=1)[:, : members[-1]]
    found = np.minimum(members, np.count_nonzero(nearest < np.inf, axis=1)[:, None])
    sums = np.cumsum(nearest, axis=1)  # from left to right: ``np.sum`` would change the order with the length
    means: np.ndarray = np.take_along_axis(sums, found - 1, axis=1) / found
    return means
