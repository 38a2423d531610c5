"""The face of neighbor search: an index that is fitted, queried, changed, saved and opened."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.distances.named import as_distance
from nearsay.neighbors import find
from nearsay.neighbors.table import NeighborTable
from nearsay.search.choose import Choice, choose


class NeighborIndex:
    """Rows that can be asked for their neighbors."""

    def __init__(self, distance: Any = "euclidean", search: Any = "auto", recall: float | None = None) -> None:
        self.distance = distance
        self.search = search
        self.recall = recall

    def fit(self, X: Any) -> NeighborIndex:
        distance = as_distance(self.distance)
        self.chosen_: Choice = choose(self.search, distance, X, self.recall)
        self.search_ = self.chosen_.search.fit(X)
        return self

    def query(self, Q: Any, k: int) -> NeighborTable:
        """The ``k`` nearest rows of every query."""
        return find.nearest(self.search_, Q, k)

    def leave_one_out(self, k: int) -> NeighborTable:
        """The ``k`` nearest other rows of every row."""
        return find.leave_one_out(self.search_, k)

    def add(self, X: Any) -> np.ndarray:
        """Hold more rows; gives their numbers."""
        return self.search_.add(X)

    def remove(self, rows: Any) -> NeighborIndex:
        """Forget rows by number."""
        self.search_.remove(rows)
        return self


def nearest(X: Any, Q: Any, k: int, *, distance: Any = "euclidean", search: Any = "auto") -> NeighborTable:
    """The ``k`` nearest rows of ``X`` for every query in ``Q``."""
    return NeighborIndex(distance, search).fit(X).query(Q, k)


def leave_one_out(X: Any, k: int, *, distance: Any = "euclidean", search: Any = "auto") -> NeighborTable:
    """The ``k`` nearest other rows of every row of ``X``."""
    return NeighborIndex(distance, search).fit(X).leave_one_out(k)
