"""Mean distances of the nearest members of the 16 nearest classes, where the pass over the rows has not found them.

pairs of a query and a class ──► all members are measured, of few queries in lists, of many as a block ──┐
                             └─► a large class is searched first (products), few are measured ───────────┴─► means
"""

from __future__ import annotations

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.compiling import worth_compiling
from nearsay.core.parallel import in_parallel, shares
from nearsay.core.rounding import rounded
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.grouped_rows import GroupedRows
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.class_order import NearestClasses
from nearsay.search.protocol import NeighborSearch

# Pairs of a query and a class, in one task.
PAIRS_A_TASK = 4096
DISTANCES_AT_ONCE = 1 << 18  # of queries to the rows of a class: 2 MB


def fill_means(
    search: NeighborSearch,
    rows: RowsByClass,
    queries: Queries,
    classes: NearestClasses,
    some: np.ndarray | None = None,
) -> None:
    """Fill in the means of classes whose order is known, or of ``some`` near ones (queries × near classes)."""
    n_near, n_members = classes.means.shape[1], classes.members[-1]
    near = classes.numbers[:, :n_near].ravel()
    if some is not None:
        near = np.where(some.ravel(), near, -1)
    pairs = np.argsort(near, kind="stable")[np.count_nonzero(near < 0) :]  # query · n_near + place, by class
    if not len(pairs):
        return
    starts = np.flatnonzero(np.diff(near[pairs], prepend=-1))
    of_class = dict(zip(near[pairs[starts]].tolist(), np.split(pairs, starts[1:]), strict=True))
    searched = [number for number, some in of_class.items() if rows.worth_searching(number, len(some), n_members)]
    whole = sorted(of_class.keys() - searched)
    measure = _Measured(search, rows, queries, classes)
    if search.distance_.pairs_are_quick and worth_compiling(0):
        in_lists = {number for number in whole if not rows.worth_a_block(number, len(of_class[number]))}
        listed = pairs[np.isin(near[pairs], list(in_lists))]
        in_parallel(lambda part: measure.whole_classes(listed[part]), shares(len(listed), most=PAIRS_A_TASK))
        whole = [number for number in whole if number not in in_lists]
    in_parallel(lambda number: measure.whole_class(of_class[number]), whole)
    for number in searched:
        for part in row_blocks(len(of_class[number]), size=PAIRS_A_TASK):
            measure.searched_class(of_class[number][part])


class _Measured:
    """Measures members of classes for pairs of a query and a class, and fills in their means."""

    def __init__(self, search: NeighborSearch, rows: RowsByClass, queries: Queries, classes: NearestClasses) -> None:
        self._search, self._rows, self._queries, self._classes = search, rows, queries, classes
        self._n_near = classes.means.shape[1]
        self._members = np.array(classes.members)

    def whole_classes(self, pairs: np.ndarray) -> None:
        """All members, from lists of rows as wide as the largest class."""
        numbers = self._class_of(pairs)
        most = max(1, DISTANCES_AT_ONCE // max(1, int(self._rows.sizes(numbers).max(initial=0))))
        for part in row_blocks(len(pairs), size=self._search.rows_.block_size(most)):
            self._candidates(pairs[part], self._rows.listed(numbers[part]))

    def whole_class(self, pairs: np.ndarray) -> None:
        """All members of one class, as a block of distances."""
        number = int(self._class_of(pairs[:1])[0])
        rows, block_size = self._rows.of(number), self._search.rows_.block_size
        for part in row_blocks(len(pairs), size=block_size(max(1, DISTANCES_AT_ONCE // len(rows)))):
            lines, grouped = pairs[part] // self._n_near, self._rows.grouped
            candidates = np.broadcast_to(rows, (len(lines), len(rows)))
            if grouped is None:
                self._candidates(pairs[part], np.ascontiguousarray(candidates))
                continue
            Q, far, first = self._queries.take(lines), np.empty(candidates.shape), self._rows.places(number).start
            for some in row_blocks(len(rows), size=block_size(len(rows))):
                held = grouped.rows_at(slice(first + some.start, first + some.stop))
                far[:, some] = self._search.distance_.block(Q, held)
            self._fill(pairs[part], candidates, far)

    def searched_class(self, pairs: np.ndarray) -> None:
        """The nearest members of one large class, which is searched first; the search runs in threads itself."""
        number, grouped = int(self._class_of(pairs[:1])[0]), self._rows.grouped
        assert grouped is not None
        k = self._classes.members[-1] + bool(len(self._queries.left_out))
        candidates = grouped.nearest_among(self._queries.take(pairs // self._n_near), self._rows.places(number), k)
        decided = candidates[:, 0] >= 0
        some, few = pairs[decided], candidates[decided]
        in_parallel(lambda part: self._candidates(some[part], few[part]), shares(len(some), most=len(pairs)))
        if not decided.all():
            self.whole_class(pairs[~decided])

    def _class_of(self, pairs: np.ndarray) -> np.ndarray:
        return self._classes.numbers[pairs // self._n_near, pairs % self._n_near]

    def _candidates(self, pairs: np.ndarray, candidates: np.ndarray) -> None:
        Q = self._queries.take(pairs // self._n_near)
        self._fill(pairs, candidates, neighbor_search.measured(self._search, Q, candidates))

    def _fill(self, pairs: np.ndarray, candidates: np.ndarray, far: np.ndarray) -> None:
        """Fill in the means from the distances of candidates; those of −1, and of the query itself, do not count."""
        lines, places = np.divmod(pairs, self._n_near)
        left_out = self._queries.left_out
        far[(candidates < 0) | (candidates == (left_out[lines][:, None] if len(left_out) else -1))] = np.inf
        self._classes.means[lines, places] = means_of_nearest(far, self._members)


class RowsByClass:
    """The row numbers of each class, in order; ``grouped`` searches a class, where the distance has products."""

    # A class of up to so many rows is measured whole, which takes less time than searching it first. Where few of its
    # members are wanted, a smaller one is searched too, if so many distances are saved.
    measure_all_up_to = 256
    few_wanted, worth_saving = 16, 1 << 16
    # From so many distances on, all of a class are measured as one block, three times as fast as listed pairs.
    block_from = 1 << 13

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

    def sizes(self, numbers: np.ndarray) -> np.ndarray:
        """How many rows each of these classes has."""
        return self._starts[numbers + 1] - self._starts[numbers]

    def listed(self, numbers: np.ndarray) -> np.ndarray:
        """The row numbers of each of these classes, one line each, padded with −1."""
        places = self._starts[numbers][:, None] + np.arange(self.sizes(numbers).max(initial=0))
        is_row = places < self._starts[numbers + 1][:, None]
        return np.where(is_row, self._order[np.where(is_row, places, 0)], -1)

    def worth_a_block(self, number: int, n_queries: int) -> bool:
        """Whether to measure all rows of a class for all its queries as one block, not pair by pair."""
        return self.grouped is not None and self.size(number) * n_queries >= self.block_from

    def worth_searching(self, number: int, n_queries: int, n_members: int) -> bool:
        """Whether to search a class for so many queries before its rows are measured."""
        size = self.size(number)
        if self.grouped is None or size <= 2 * n_members:
            return False
        few_wanted = size > self.few_wanted * n_members and size * n_queries > self.worth_saving
        return size > self.measure_all_up_to or few_wanted


def means_of_nearest(far: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The mean of the m smallest numbers of each line, or of all that are finite, rounded: (lines, members)."""
    nearest = np.sort(far, axis=1)[:, : members[-1]]
    counts = np.minimum(members, np.count_nonzero(nearest < np.inf, axis=1)[:, None])
    sums = np.cumsum(nearest, axis=1)  # from left to right: ``np.sum`` would change the order with the length
    means = np.take_along_axis(sums, counts - 1, axis=1) / counts
    return np.where(members == 1, means, rounded(means))
