"""Few classes, several members of each: products in float64, so precise that members need not be measured.

    rows of a class ──► products ──► squared distances, and how far each can be off
                        (float64)     ├─► the few lowest ──► rows to measure: the nearest of all, and of the class
                                      └─► the lowest m ────► means, from below and from above
                                                             equal in seven digits? ──► the mean
                                                             else ──► the members are measured (``class_means.py``)

A mean has seven digits and a product fifteen, so hardly any has to be measured. What is certain does not depend on
the order in which a product is summed, so neither threads nor blocks nor processors change a bit.
"""

from __future__ import annotations

import numpy as np

from nearsay.core.arrays import rows_within
from nearsay.core.parallel import in_parallel, shares
from nearsay.distances.distance import Distance
from nearsay.distances.vectors import Euclidean
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.class_means import RowsByClass, fill_means
from nearsay.neighbors.by_class.class_table import no_members
from nearsay.neighbors.by_class.float64_rows import Float64Rows, NearRows
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.by_class.ways import BruteForce
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.search.protocol import NeighborSearch

QUERIES_AT_ONCE, AT_LEAST = 240, 60
SQUARES_BYTES = 1 << 20  # for the squared distances of queries to the rows of a class
ROOM = 64  # for rows that cannot be told from the nearest of their class


class Float64Products:
    """Finds rows, classes and means by Euclidean distance."""

    def __init__(
        self, search: NeighborSearch, labels: np.ndarray, n_classes: int, by_class: RowsByClass, rows: Float64Rows
    ) -> None:
        self._search, self._labels, self._n_classes = search, labels, n_classes
        self._by_class, self._rows = by_class, rows
        self._brute_force = BruteForce(search, labels, n_classes)

    @staticmethod
    def serves(distance: Distance) -> bool:
        return isinstance(distance, Euclidean)

    def search(self, queries: Queries, k: int, members: tuple[int, ...]) -> NeighborTable:
        nearest = neighbor_search.no_neighbors(queries.n, k)
        classes = NearestClasses.to_fill(queries.n, self._n_classes, members)
        table = NeighborTable(nearest.indices, nearest.distances, classes)
        uncertain = np.zeros(classes.means.shape[:2], np.bool_)
        most = max(AT_LEAST, rows_within(SQUARES_BYTES, 8 * self._rows.largest, QUERIES_AT_ONCE))
        at_once = shares(queries.n, most=self._search.rows_.block_size(most))
        in_parallel(lambda part: self._fill(queries[part], table[part], uncertain[part]), at_once)
        fill_means(self._search, self._by_class, queries, classes, uncertain)
        return table

    def _fill(self, queries: Queries, table: NeighborTable, uncertain: np.ndarray) -> None:
        """Fill in the table, and mark the classes whose means have to be measured."""
        from nearsay.neighbors.order_kernels import nearest_of_each_class

        Q, k, classes = queries.items, table.n_neighbors, table.classes
        assert classes is not None
        near = self._rows.near(Q, queries.left_out, k, classes.members[-1], ROOM + self._n_classes)
        measured = neighbor_search.measured(self._search, Q, near.candidates)
        if k:
            neighbor_search.order_measured(near.candidates, measured, neighbor_search.NOBODY, table)
        of_each = no_members(queries.n, self._n_classes, 1)
        nearest_of_each_class(near.candidates, measured, self._labels, of_each.indices, of_each.distances)
        lines = np.flatnonzero(near.undecided)
        self._brute_force.fill_lines(queries, lines, table, of_each)
        of_each.put_in_order(classes)
        self._fill_means(near, classes, uncertain)

    def _fill_means(self, near: NearRows, classes: NearestClasses, uncertain: np.ndarray) -> None:
        """Fill in the means of several members that are certain."""
        from nearsay.neighbors.by_class.float64_kernels import certain_means

        assert isinstance(self._search.distance_, Euclidean)
        members, squared = np.array(classes.members), self._search.distance_.squared
        means = np.empty((*near.lowest.shape[:2], len(members)))
        marked = np.repeat(near.undecided[:, None], means.shape[1], axis=1)
        errors = near.lengths, self._rows.share, self._rows.least
        certain_means(near.lowest, *errors, members, squared, means, marked)
        numbers = classes.numbers[:, : uncertain.shape[1]]
        listed, at = numbers >= 0, (np.arange(len(numbers))[:, None], numbers)
        several = slice(1, None) if members[0] == 1 else slice(None)
        classes.means[:, :, several] = np.where(listed[:, :, None], means[at], np.inf)[:, :, several]
        uncertain[:] = listed & marked[at]
