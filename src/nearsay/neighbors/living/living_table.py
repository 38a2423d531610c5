"""The leave-one-out table of a collection that changes: every row's nearest others, kept up to date row by row.

    row 7:   12  3  40  9 | 51  8        k neighbors | spare ones
              └─ known ───────┘          the first so many are certain

A row that is added is scored against all others, and measured where it may matter: this gives its own line, and the
lines it belongs in. A row that is removed is taken out of the lines it is in; spare neighbors move up, and a line
without any left is searched again. The table is that of a rebuild, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks, rows_within
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.living.query_scan import QueryScan, screens
from nearsay.neighbors.table import NeighborTable
from nearsay.search.protocol import NeighborSearch

SPARE = 5
# Added rows are scored so many at a time, or as many as make scores of so many bytes.
ROWS_AT_ONCE = 32
SCORE_BYTES = 32 << 20


class LivingTable:
    """The ``k`` nearest others of every live row of a search.

    search : exact, with a distance that is the same both ways.
    k : how many neighbors a row.
    spare : how many more are remembered.

    >>> from nearsay.search.exact import ExactSearch
    >>> search = ExactSearch().fit([[0.0], [1.0], [5.0]])
    >>> living = LivingTable(search, k=1)
    >>> living.table().indices.ravel()
    array([1, 0, 1])
    >>> living.appear(search, search.add([[4.0]]))
    >>> living.table().indices.ravel()
    array([1, 0, 3, 2])
    >>> search.remove([1])
    >>> living.vanish(search, np.array([1]))
    >>> living.table().indices.ravel()
    array([ 3, -1,  3,  2])
    """

    def __init__(self, search: NeighborSearch, k: int, spare: int = SPARE) -> None:
        self.k = k
        self.n_kept = k + spare
        self._n_live = search.rows_.n_live
        n_rows = len(search.rows_)
        self._indices = np.full((n_rows, self.n_kept), -1, np.int64)
        self._distances = np.full((n_rows, self.n_kept), np.inf)
        self._known = np.zeros(n_rows, np.int64)
        self._edges = np.full(n_rows, -1.0)  # the last distance known of each line
        self._room = self._lines
        self._search_again(search, search.rows_.live_numbers)

    @property
    def _lines(self) -> tuple[np.ndarray, ...]:
        return self._indices, self._distances, self._known, self._edges

    def __len__(self) -> int:
        """How many lines there are, those of removed rows included."""
        return len(self._known)

    def table(self, rows: Any = None) -> NeighborTable:
        """The lines of all rows, or of some; −1 and +inf for removed rows, and where there are fewer others."""
        lines = slice(None) if rows is None else rows
        return NeighborTable(self._indices[lines, : self.k].copy(), self._distances[lines, : self.k].copy())

    def appear(self, search: NeighborSearch, rows: np.ndarray) -> None:
        """Update after rows were added to the search, or restored; no other change may be pending."""
        from nearsay.neighbors.living.living_table_kernels import let_in

        self._grow(len(search.rows_))
        absent = _removed(search).copy()
        absent[rows] = True  # their own lines are searched below
        before, self._n_live = self._n_live, self._n_live + len(rows)
        for part in row_blocks(len(rows), size=rows_within(SCORE_BYTES, 8 * len(self), most=ROWS_AT_ONCE)):
            scans = QueryScan.each(search, search.rows_.take(rows[part]))
            for row, scan in zip(rows[part], scans, strict=True):
                complete = before <= self.n_kept + 1  # lines may hold all others, and then take any
                others, far = scan.within(np.full(len(self), np.inf) if complete else self._edges)
                let_in(row, others[0], far[0], absent, before, *self._lines)
                before += 1
                if len(rows) <= ROWS_AT_ONCE:
                    self._put(np.array([row]), scan.nearest(self._n_others, np.array([row])))
        if len(rows) > ROWS_AT_ONCE:
            self._search_again(search, rows)

    @property
    def _n_others(self) -> int:
        """How many neighbors a line that is searched has."""
        return min(self.n_kept, max(self._n_live - 1, 0))

    def vanish(self, search: NeighborSearch, rows: np.ndarray) -> None:
        """Update after rows were removed from the search."""
        from nearsay.neighbors.living.living_table_kernels import take_out

        gone = np.zeros(len(self), np.bool_)
        gone[rows] = True
        self._n_live -= len(rows)
        lines = np.arange(len(self))
        if 0 < len(rows) <= ROWS_AT_ONCE and screens(search):
            scans = QueryScan.each(search, search.rows_.take(rows))
            lines = np.unique(np.concatenate([scan.may_be_within(self._edges) for scan in scans]))
        self._indices[rows], self._distances[rows], self._known[rows], self._edges[rows] = -1, np.inf, 0, -1.0
        short = np.zeros(len(lines), np.bool_)
        take_out(gone, lines, min(self.k, self._n_live - 1), short, *self._lines)
        short &= ~_removed(search)[lines]
        if short.any():
            self._search_again(search, lines[short])

    def _search_again(self, search: NeighborSearch, rows: np.ndarray) -> None:
        if self._n_others and len(rows):
            self._put(rows, neighbor_search.leave_one_out(search, self._n_others, rows))
        else:
            self._known[rows], self._edges[rows] = 0, -1.0

    def _put(self, rows: np.ndarray, table: NeighborTable) -> None:
        """Replace the lines of these rows; all of the table is certain."""
        n_known = table.n_neighbors
        self._indices[rows, :n_known], self._distances[rows, :n_known] = table.indices, table.distances
        self._indices[rows, n_known:], self._distances[rows, n_known:] = -1, np.inf
        self._known[rows], self._edges[rows] = n_known, table.distances[:, -1] if n_known else -1.0

    def _grow(self, n_rows: int) -> None:
        more = n_rows - len(self)
        if more <= 0:
            return
        if n_rows > len(self._room[0]):
            self._room = tuple(_doubled(array, n_rows) for array in self._lines)
        self._indices, self._distances, self._known, self._edges = (array[:n_rows] for array in self._room)
        self._indices[-more:], self._distances[-more:], self._known[-more:], self._edges[-more:] = -1, np.inf, 0, -1.0


def _doubled(array: np.ndarray, at_least: int) -> np.ndarray:
    room = np.empty((max(at_least, 2 * len(array)), *array.shape[1:]), array.dtype)
    room[: len(array)] = array
    return room


def _removed(search: NeighborSearch) -> np.ndarray:
    removed = search.rows_.removed
    return np.zeros(len(search.rows_), np.bool_) if removed is None else removed
