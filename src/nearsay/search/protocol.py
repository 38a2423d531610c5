"""What every search backend is: rows in, candidate row numbers out."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from nearsay.distances.distance import Distance
from nearsay.search.held import HeldRows


class NeighborSearch(Protocol):
    """Proposes candidates; ``nearsay.neighbors.find`` alone measures and orders them.

    ``exact`` promises that the k nearest rows, with ties by row number, are
    always among the candidates.
    """

    exact: bool
    distance_: Distance
    rows_: HeldRows

    def fit(self, X: Any) -> NeighborSearch:
        """Hold the rows of ``X``, numbered from 0."""
        ...

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        """Row numbers (n_queries, at least k) that should hold the k nearest; −1 fills up.

        ``Q`` has been checked, and k is no more than the number of rows held.
        """
        ...

    def add(self, X: Any) -> np.ndarray:
        """Hold more rows; gives their numbers."""
        ...

    def remove(self, rows: Any) -> None:
        """Forget rows by number. Numbers of other rows stay."""
        ...
