"""Neighbors and classes of a small collection, all of whose products are at hand at once (``by_class/small.py``).

Scores say which rows may be among the nearest and how the classes follow each
other; what they leave open is measured, and put in order by what was measured.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel, shares
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST, NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.search.by_class.small import Multiplied, OwnBlock, SmallRows
from nearsay.search.protocol import NeighborSearch

QUERIES_SCANNED = 64

# Measures every row for some queries, each without the row it is itself (of these numbers, where any are given),
# and gives as many neighbors as it is told, and the means of so many members.
Scan = Callable[[np.ndarray, np.ndarray, int, tuple[int, ...]], NeighborTable]


class AllAtOnce:
    """Tables with all classes listed, for the few rows of a search; ``scan`` answers what scores cannot decide.

    With ``members`` () nothing is told but the order.
    """

    def __init__(self, search: NeighborSearch, rows: SmallRows, labels: np.ndarray, scan: Scan) -> None:
        self.search = search
        self.rows = rows
        self.labels = labels
        self._scan = scan

    def nearest(
        self, Q: np.ndarray, k: int, members: tuple[int, ...], left_out: np.ndarray = neighbor_search.NOBODY
    ) -> NeighborTable:
        """The nearest rows and classes of queries; ``left_out`` names the row that each is itself (or is empty)."""
        table = self._lines(len(Q), k, members)

        def fill(part: slice) -> None:
            few, itself, lines = Q[part], left_out[part], np.arange(part.start, part.stop)
            self._settle(few, itself, self.rows.times(few, itself), table, lines)

        in_parallel(fill, shares(len(Q), most=self.rows.queries_at_once))
        return table

    def others(self, k: int, members: tuple[int, ...]) -> NeighborTable:
        """The same for all rows of the collection, each without itself; the line of a removed row stays empty."""
        held = self.search.rows_
        table = self._lines(len(held), k, members)

        def fill(block: Callable[[], OwnBlock]) -> None:
            numbers, queries = block()
            self._settle(held.take(numbers), numbers, queries, table, numbers)

        in_parallel(fill, self.rows.times_others())
        return table

    def _lines(self, n_queries: int, k: int, members: tuple[int, ...]) -> NeighborTable:
        """A table to be filled in."""
        classes = NearestClasses.to_fill(n_queries, self.rows.n_classes, members)
        nearest = neighbor_search.no_neighbors(n_queries, k)
        return NeighborTable(nearest.indices, nearest.distances, classes)

    def _settle(
        self,
        Q: np.ndarray,
        left_out: np.ndarray,
        queries: Multiplied,
        table: NeighborTable,
        lines: np.ndarray,
    ) -> None:
        """Fill in these lines of the table: measure the candidates, or every row where scores decide nothing."""
        from nearsay.neighbors.order_kernels import settle_classes

        assert table.classes is not None
        crowded = np.zeros(len(Q), np.bool_)
        k, classes = table.n_neighbors, table.classes
        if k:
            candidates, crowded = self.rows.nearest(queries, k)
            few = neighbor_search.no_neighbors(len(Q), k)
            neighbor_search.measure_and_order(self.search, Q, candidates, neighbor_search.NOBODY, few)
            table.indices[lines], table.distances[lines] = few.indices, few.distances
        found = self.rows.classes(queries, max(classes.members, default=0), MEMBERS_OF_NEAREST)
        measured = neighbor_search.measured(self.search, Q, found.members)
        members = np.array(classes.members, np.int64)
        settle_classes(found.numbers, found.members, measured, self.labels, members, lines, *classes.arrays[:3])
        undecided = np.flatnonzero(crowded | found.full)
        for part in row_blocks(len(undecided), size=QUERIES_SCANNED):
            again = undecided[part]
            itself = left_out[again] if len(left_out) else left_out
            _put(self._scan(Q[again], itself, k, classes.members), table, lines[again])


def _put(some: NeighborTable, table: NeighborTable, lines: np.ndarray) -> None:
    """Put ``some`` in place of these lines of a table."""
    assert some.classes is not None
    assert table.classes is not None
    table.indices[lines], table.distances[lines] = some.indices, some.distances
    table.classes[lines] = some.classes
