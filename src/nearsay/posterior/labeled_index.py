"""Rows and what they are: the one place that asks an index for what a posterior needs to know."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.past_cases import rows_judged


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
        self._kept: dict[tuple[int, int | None], tuple[NeighborTable, np.ndarray | None]] = {}

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
        if n_members is not None:
            return self.index.leave_one_out_classes(self.labels, k, n_members, n_classes=self.n_classes, rows=rows)
        n_rows = len(self.index.search_.rows_) if rows is None else len(rows)
        table = NeighborTable(np.full((n_rows, k), -1), np.full((n_rows, k), np.inf))
        if found := min(k, self.n_others):
            part = self.index.leave_one_out(found, rows)
            table.indices[:, :found], table.distances[:, :found] = part.indices, part.distances
        return table

    def past_cases(self, k: int, n_members: int | None) -> tuple[NeighborTable, np.ndarray | None]:
        """The same for the rows that are judged, and their numbers (None: all rows); kept for who asks again."""
        if (k, n_members) not in self._kept:
            rows = rows_judged(len(self.labels), k, n_members, self.n_classes)
            self._kept = {(k, n_members): (self.leave_one_out(k, n_members, rows), rows)}
        return self._kept[k, n_members]
