"""Rows and what they are: the one place that asks an index for what a posterior needs to know."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable

# Leave-one-out tables up to this size are kept for who asks again; larger ones are searched for anew.
KEPT_BYTES = 64 << 20


class LabeledIndex:
    """An index, and the class number of every row it holds.

    ``n_members`` is what a posterior says of itself: None where the nearest rows
    are enough, otherwise how many nearest members of each class it looks at
    besides the order of the classes.
    """

    def __init__(self, index: NeighborIndex, labels: np.ndarray, n_classes: int) -> None:
        self.index = index
        self.labels = labels
        self.n_classes = n_classes
        self._kept: dict[tuple[int, int | None], NeighborTable] = {}

    @property
    def n_others(self) -> int:
        """How many rows a row has beside itself."""
        return len(self.index) - 1

    def neighbors(self, Q: Any, k: int, n_members: int | None) -> NeighborTable:
        """The ``k`` nearest rows of every query."""
        if n_members is not None:
            return self.index.query_classes(Q, self.labels, k, n_members, n_classes=self.n_classes)
        return self.index.query(Q, k)

    def leave_one_out(self, k: int, n_members: int | None = None, rows: np.ndarray | None = None) -> NeighborTable:
        """The ``k`` nearest others of every row number, or of some; −1 and +inf where there are fewer."""
        if rows is not None:
            return self._search(k, n_members, rows)
        if (k, n_members) not in self._kept:
            table = self._search(k, n_members, None)
            if n_bytes(table) > KEPT_BYTES:
                return table
            self._kept = {(k, n_members): table}
        return self._kept[k, n_members]

    def _search(self, k: int, n_members: int | None, rows: np.ndarray | None) -> NeighborTable:
        if n_members is not None:
            return self.index.leave_one_out_classes(self.labels, k, n_members, n_classes=self.n_classes, rows=rows)
        n_rows = len(self.index.search_.rows_) if rows is None else len(rows)
        table = NeighborTable(np.full((n_rows, k), -1), np.full((n_rows, k), np.inf))
        if found := min(k, self.n_others):
            part = self.index.leave_one_out(found, rows)
            table.indices[:, :found], table.distances[:, :found] = part.indices, part.distances
        return table


def n_bytes(table: NeighborTable) -> int:
    """How much memory a table takes."""
    arrays = [table.indices, table.distances]
    if table.classes is not None:
        arrays += [table.classes.numbers, table.classes.distances]
    return sum(array.nbytes for array in arrays)
