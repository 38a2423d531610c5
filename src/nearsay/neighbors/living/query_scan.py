"""Scan of all rows for one query: rough scores say which rows have to be measured.

    scores of all rows ──► those that may count: nearest, nearest of a class, within a reach ──► distances

Where a distance has no rough scores every row is measured, and the scores are the distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.neighbors import brute_force, neighbor_search
from nearsay.neighbors.table import NeighborTable
from nearsay.search.exact import ExactSearch
from nearsay.search.protocol import NeighborSearch

NO_LABELS, NO_CLASSES = np.empty(0, np.int64), np.empty(0)

Measured = tuple[np.ndarray, np.ndarray]  # row numbers and distances, (1, n)


def screens(search: NeighborSearch) -> bool:
    """Whether there are rough scores, which take less time than measuring."""
    return isinstance(search, ExactSearch) and search.distance_.has_euclidean_form


class QueryScan:
    """A query, and the scores of all rows for it; the search must be exact."""

    def __init__(self, search: NeighborSearch, query: Any, scores: np.ndarray, slack: float) -> None:
        self._search, self._query = search, query
        self.scores, self.slack = scores, slack
        # Turn a distance into a score: |q|², the scale of lengths, ``form_share``, ``form_squared``.
        self._as_score: tuple[float, float, float, bool] = (0.0, 1.0, 0.5, True)
        self._room = np.empty(len(scores), np.int64)

    @classmethod
    def each(cls, search: NeighborSearch, Q: Any) -> list[QueryScan]:
        """One for each of a few checked queries."""
        rough = None
        if isinstance(search, ExactSearch) and not brute_force.serves(search, len(Q)):
            rough = search.rough_scores(Q)
        if rough is None:
            return [cls(search, Q[q : q + 1], far, 0.0) for q, far in enumerate(brute_force.all_distances(search, Q))]
        scans = []
        for q, scores in enumerate(rough.scores):
            scan = cls(search, Q[q : q + 1], scores, float(rough.slack[q]))
            distance = search.distance_
            scan._as_score = float(rough.squares[q]), rough.scale, distance.form_share, distance.form_squared
            scans.append(scan)
        return scans

    def leave_out(self, row: int) -> None:
        """Ignore this row."""
        self.scores[row] = np.inf

    def nearest(self, k: int, left_out: np.ndarray = neighbor_search.NOBODY) -> NeighborTable:
        """The ``k`` nearest rows, without the one left out (if any is), padded with −1."""
        from nearsay.neighbors.living.scanned_kernels import may_be_nearest

        table, among = neighbor_search.no_neighbors(1, k), k + len(left_out)
        measured = self._measured(may_be_nearest(self.scores, self.slack, NO_LABELS, among, NO_CLASSES, self._room))
        neighbor_search.order_measured(*measured, left_out, table)
        return table

    def nearest_of_classes(
        self, labels: np.ndarray, table: NeighborTable, nearest: np.ndarray, far: np.ndarray
    ) -> None:
        """Fill in the nearest rows, and the nearest member of each class: (1, n_classes, 1), −1 and +inf so far."""
        from nearsay.neighbors.living.scanned_kernels import may_be_nearest
        from nearsay.neighbors.order_kernels import nearest_of_each_class

        room = np.empty(nearest.shape[1])
        measured = self._measured(may_be_nearest(self.scores, self.slack, labels, table.n_neighbors, room, self._room))
        neighbor_search.order_measured(*measured, neighbor_search.NOBODY, table)
        nearest_of_each_class(*measured, labels, nearest, far)

    def members(self, labels: np.ndarray, classes: np.ndarray, n_members: int, n_classes: int) -> np.ndarray:
        """The distances of the nearest members of these classes: (classes, members), +inf where there are fewer."""
        from nearsay.neighbors.living.scanned_kernels import lowest_of_places, may_be_members

        place_of = np.full(n_classes, -1, np.int64)
        place_of[classes] = np.arange(len(classes))
        far = np.full((len(classes), n_members), np.inf)
        count = may_be_members(self.scores, self.slack, labels, place_of, np.empty(far.shape), self._room)
        candidates, distances = self._measured(count)
        lowest_of_places(candidates[0], distances[0], labels, place_of, far)
        return far

    def within(self, reach: np.ndarray) -> Measured:
        """The rows that may be no farther than their ``reach`` (n_rows; −1 for none), and their distances."""
        return self._measured(len(self.may_be_within(reach)))

    def may_be_within(self, reach: np.ndarray) -> np.ndarray:
        """Their numbers, without measuring them."""
        from nearsay.neighbors.living.living_table_kernels import may_be_within

        return self._room[: may_be_within(self.scores, self.slack, self._as_score, reach, self._room)]

    def _measured(self, count: int) -> Measured:
        candidates = self._room[None, :count]
        return candidates, neighbor_search.measured(self._search, self._query, candidates)
