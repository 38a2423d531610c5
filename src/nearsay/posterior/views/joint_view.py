"""All feature groups together, as one more group: every view and model that a classifier of all columns has.

    columns of all groups ──► classifier ──► its views and models ──► one table, beside those of the groups

What groups say together (a line across two of them, a tree that splits on one and then on the other) no group can say.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.past_cases import PastCases, lines_of
from nearsay.posterior.views.feature_group import View, present
from nearsay.posterior.views.views import Views

NAME = "all columns"


class JointView(View):
    """A ``View`` whose tables hold further views of the same rows, and what models say.

    Rows that lack any group are not among its rows, and have an empty line as queries.

    columns : of all groups together.
    past : of the classifier of these columns; its rows are those of X that lack no group.
    n_rows : how many rows X has.
    rows : (n_present,) the numbers of the rows that lack no group.
    """

    def __init__(self, columns: Any, past: PastCases, n_rows: int, rows: np.ndarray) -> None:
        search: Any = past.search
        first: View = search.views[0]
        super().__init__(NAME, columns, first.distance, first.search, n_jobs=first.n_jobs)
        self.views_: Views = search
        self.past_ = past
        self.n_rows, self.rows_ = n_rows, rows

    @property
    def metric_name(self) -> str:
        """The distance of the view whose neighbors are shown."""
        return self.views_.views[0].metric_name

    @property
    def labeled_(self) -> LabeledNeighbors:  # type: ignore[override]
        """The search of the view whose neighbors are shown."""
        return self.views_.first

    def over(self, X: Any, labels: np.ndarray, n_classes: int, groups: np.ndarray | None = None) -> JointView:
        """The same views of other rows; models stay as they were learned: from none of the rows to be asked about."""
        rows, numbers = present(X, self.columns)
        other = copy(self)
        of_groups = None if groups is None else groups[numbers]
        other.views_ = self.views_.over(rows, labels[numbers], n_classes, of_groups)
        other.n_rows, other.rows_, other.maps_are_held_out = len(X), numbers, True
        return other

    def neighbors(self, X: np.ndarray, k: int, members: tuple[int, ...] | None) -> NeighborTable:
        """The ``k`` nearest rows of every query that lacks no group, with further views and models."""
        rows, lines = present(X, self.columns)
        return self._spread(self.views_.query(rows, k, members), lines, len(X))

    def past_cases(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray | None = None) -> NeighborTable:
        """The same for the rows themselves, each left out of its neighbors: all of them, or some."""
        return super().past_cases(k, members, np.arange(self.n_rows) if rows is None else rows)

    def _left_out(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray) -> NeighborTable:
        if self.maps_are_held_out:
            return self.views_.leave_one_out(k, members, rows)
        table, judged = self.past_.judged(k, members)
        if judged is None or np.isin(rows, judged).all():
            return table[lines_of(rows, judged)]
        return self.views_.leave_one_out(k, members, rows)
