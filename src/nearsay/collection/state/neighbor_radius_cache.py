"""A cache of neighbor radii (how far the k neighbors of a row reach), kept from one version to the next.

    radius of row 7: 0.4 ──── a row within 0.4 of it is added or removed ────► unknown, until needed again
                         └─── any other change ───────────────────────────────► 0.4

Novelty needs the radius of every neighbor of a query, and searching it takes as long as the query. Labels do not
change it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.collection.state.live_views import LiveView
from nearsay.neighbors.living.query_scan import QueryScan, screens

# After more changes than this all radii are unknown.
MOST_CHANGED = 32


@dataclass(frozen=True, eq=False)
class NeighborRadiusCache:
    """The known radii of one version; versions in which the same rows vote share them.

    Attributes
    ----------
    values : (n_rows,) the radius of each row, NaN where unknown; filled in when one is computed.
    votes : (n_rows,) bool, the rows that vote.
    """

    values: np.ndarray
    votes: np.ndarray

    @classmethod
    def unknown(cls, view: LiveView) -> NeighborRadiusCache:
        """An empty cache."""
        return cls(np.full(len(view.voters.votes), np.nan), view.voters.votes)

    def following(self, view: LiveView) -> NeighborRadiusCache:
        """The cache of the next version."""
        before, after = self.votes, view.voters.votes
        if before is after or np.array_equal(before, after):
            return self
        changed = np.flatnonzero(after != np.concatenate([before, np.zeros(len(after) - len(before), np.bool_)]))
        # Views with a map for each fold place a row differently in each.
        if len(changed) > MOST_CHANGED or view.transform.without or not screens(view.search):
            return self.unknown(view)
        values = np.concatenate([self.values, np.full(len(after) - len(before), np.nan)])
        for scan in QueryScan.each(view.search, view.search.rows_.take(changed)):
            values[scan.may_be_within(np.where(np.isnan(values), -1.0, values))] = np.nan
        return NeighborRadiusCache(values, after)
