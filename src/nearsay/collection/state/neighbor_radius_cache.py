"""How far the neighbors of rows reach, kept from one version of a collection to the next.

    row 7 reaches 0.4 ──── a row comes or goes within 0.4 of it ────► unknown, until it is met again
                      └─── anything else changes ───────────────────► 0.4

Novelty asks for the reach of every neighbor of a query, and searching for it takes as long as the query. Labels do
not change it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.collection.state.live_views import LiveView
from nearsay.neighbors.living.query_scan import QueryScan, screens

# With more rows that come or go, all is unknown.
MOST_CHANGED = 32


@dataclass(frozen=True, eq=False)
class NeighborRadiusCache:
    """What is known of one version; versions in which the same rows vote share it.

    Attributes
    ----------
    values : (n_rows,) how far the neighbors of each row reach, NaN where unknown; filled in by whoever finds out.
    votes : (n_rows,) bool, the rows that vote.
    """

    values: np.ndarray
    votes: np.ndarray

    @classmethod
    def unknown(cls, view: LiveView) -> NeighborRadiusCache:
        """Nothing is known yet."""
        return cls(np.full(len(view.voters.votes), np.nan), view.voters.votes)

    def following(self, view: LiveView) -> NeighborRadiusCache:
        """What is still known where other rows vote."""
        before, now = self.votes, view.voters.votes
        if before is now or np.array_equal(before, now):
            return self
        changed = np.flatnonzero(now != np.concatenate([before, np.zeros(len(now) - len(before), np.bool_)]))
        # Maps that were learned without a row see it in another way.
        if len(changed) > MOST_CHANGED or view.sight.without or not screens(view.search):
            return self.unknown(view)
        values = np.concatenate([self.values, np.full(len(now) - len(before), np.nan)])
        for look in QueryScan.each(view.search, view.search.rows_.take(changed)):
            values[look.may_be_within(np.where(np.isnan(values), -1.0, values))] = np.nan
        return NeighborRadiusCache(values, now)
