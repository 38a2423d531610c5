"""How often a neighbor had the right label, by how far it was and how clear the vote was."""

from __future__ import annotations

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.case_table import CaseTable
from nearsay.posterior.tabulated import Tabulated

N_BINS = 20

# How many neighbors the whole weighs against those of one cell: enough to fill an empty cell, and to keep one neighbor
# from settling a cell. Where one half of past cases is judged by the table of the other (leaves), 0.5 and 1 do best.
STRENGTH = 1.0


def right_at_even_odds(same: np.ndarray, other: np.ndarray) -> np.ndarray:
    """H1/(H1 + H2): the share of neighbors with the right label in each cell, had both kinds been equally many.

    A cell with few neighbors is shrunk to all distances of its votes (line),
    and these to the whole.

    >>> right_at_even_odds(np.array([[3, 0]]), np.array([[1, 0]])).round(3)
    array([[0.56, 0.55]])

    By hand: 3.5/5 = 0.7 of all, (3 + 0.7)/5 = 0.74 of the line and of its empty cell, (3 + 0.74)/5 = 0.748
    of the other; odds of 0.748/0.252 times 0.3/0.7 are 0.56.
    """
    n_same, n_other = same.sum(), other.sum()
    of_all = (n_same + 0.5) / (n_same + n_other + 1)
    of_line = _shrunk(same.sum(axis=1), other.sum(axis=1), of_all)
    share = _shrunk(same, other, of_line[:, None])
    weighed = share * (1 - of_all)
    at_even_odds: np.ndarray = weighed / (weighed + (1 - share) * of_all)
    return at_even_odds


def _shrunk(same: np.ndarray, other: np.ndarray, usual: float | np.ndarray) -> np.ndarray:
    share: np.ndarray = (same + STRENGTH * usual) / (same + other + STRENGTH)
    return share


class DistVotesplit(Tabulated):
    """A class is as likely as neighbors at the distance of its likeliest neighbor were right, in votes as clear.

    Neighbors of past cases are counted by their distance, in 20 bins of equal
    width, and by the votes of the most voted label of their case. A class
    takes the largest reading over its neighbors; rows are scaled to one.

    Parameters
    ----------
    model_failure : float, default=0.01
        Share of the probability spread evenly over all classes.

    Attributes
    ----------
    counts_ : (2, n_voters_, 20) whole numbers
        Neighbors of past cases with the label of their case, and with another one, by votes and distance.
    cases_ : (2, n_voters_, 20) whole numbers
        Past cases whose vote was wrong, and right, by votes and by the distance of the nearest neighbor.
    low_, width_ : float
        Where the first bin begins and how wide each is: from 0 to the largest distance in the table
        given to ``fit``. Whatever is farther falls in the last bin.
    reading_ : (n_neighbors_ + 1, 20)
        The share with the right label, where the most voted label of a query got v = 0 … K votes.
    """

    def tables(self) -> list[CaseTable]:
        """The table as it can be shown; distances are the middles of the bins."""
        middles = (self.low_ + self.width_ * (np.arange(N_BINS) + 0.5)).tolist()
        votes = list(range(1, self.n_voters_ + 1))
        axes = ("votes of the winner", "distance")
        return [CaseTable("dist&votesplit", axes, (votes, middles), self.counts_.sum(axis=0), self.past_reading_)]

    def record(self, table: NeighborTable) -> tuple[np.ndarray, np.ndarray]:
        """How many past cases had as clear a vote and as near a neighbor, and in how many the vote was right."""
        wrong, right = self.cases_[:, self.past_votes_like(table) - 1, self._bins(table)]
        found = table.indices[:, 0] >= 0
        return np.where(found, wrong + right, 0), np.where(found, right, 0)

    def _bins(self, table: NeighborTable) -> np.ndarray:
        """The bin of each nearest neighbor."""
        from nearsay.posterior.table_loops import distance_bins

        bins: np.ndarray = distance_bins(table.distances[:, 0], self.low_, self.width_, N_BINS)
        return bins

    def _clear(self, table: NeighborTable) -> None:
        distances = table.distances[:, : self.n_voters_]
        known = distances[np.isfinite(distances)]
        self.low_ = float(known.min(initial=0.0))  # below 0 where distances stand for a learned score
        self.width_ = (float(known.max(initial=self.low_)) - self.low_) / N_BINS
        self.counts_ = np.zeros((2, self.n_voters_, N_BINS), np.int64)
        self.cases_ = np.zeros((2, self.n_voters_, N_BINS), np.int64)

    def _count(self, table: NeighborTable, truth: np.ndarray) -> None:
        from nearsay.posterior.table_loops import count_distances

        winner, votes = self.elected_past(table)
        cells = votes - 1
        np.add.at(self.cases_, ((winner == truth).astype(np.int64), cells, self._bins(table)), 1)
        near = table.first(self.n_voters_)
        count_distances(near.indices, near.distances, self.labels_, truth, cells, self.low_, self.width_, *self.counts_)

    def _read(self) -> None:
        self.past_reading_ = right_at_even_odds(*self.counts_)
        self.reading_ = self.read_between(self.past_reading_)

    def _give(self, table: NeighborTable, p: np.ndarray) -> None:
        from nearsay.posterior.table_loops import give_by_distance

        votes = self.elected(table)[1]
        give_by_distance(
            table.indices,
            table.distances,
            self.labels_,
            votes,
            self.reading_,
            self.low_,
            self.width_,
            self.model_failure,
            p,
        )
