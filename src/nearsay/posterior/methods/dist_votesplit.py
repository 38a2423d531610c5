"""Posterior from distances: how often a neighbor had the right label, by how far it was and how clear the vote was."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.past_case_table import CaseTable, Tabulated, worth_of

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
    return _at_even_odds(same, other, _of_all(same.sum(), other.sum()))


def _of_all(n_same: np.ndarray, n_other: np.ndarray) -> np.ndarray:
    return (n_same + 0.5) / (n_same + n_other + 1)


def _at_even_odds(same: np.ndarray, other: np.ndarray, of_all: np.ndarray) -> np.ndarray:
    """The same for lines of cells (…, n_bins), given the share of all cells, one number or (…, 1)."""
    of_line = _shrunk(same.sum(axis=-1, keepdims=True), other.sum(axis=-1, keepdims=True), of_all)
    share = _shrunk(same, other, of_line)
    weighed = share * (1 - of_all)
    return weighed / (weighed + (1 - share) * of_all)


def _shrunk(same: np.ndarray, other: np.ndarray, usual: float | np.ndarray) -> np.ndarray:
    return (same + STRENGTH * usual) / (same + other + STRENGTH)


class DistVotesplit(Tabulated):
    """A class is as likely as neighbors at the distance of its likeliest neighbor were right, in votes as clear.

    Neighbors of past cases are counted by their distance, in 20 bins of equal
    width, and by the votes of the most voted label of their case. A class
    takes the largest reading over its neighbors; rows are scaled to one.

    Parameters
    ----------
    model_failure, max_past_cases : as in ``Weighted``.

    Attributes
    ----------
    counts_ : (2, n_voters, 20) whole numbers
        Neighbors of past cases with the label of their case, and with another one, by votes and distance.
    low_, width_ : float
        Where the first bin begins and how wide each is: from 0 to the largest distance in the table
        given to ``fit``. Whatever is farther falls in the last bin.
    reading_ : (n_neighbors + 1, 20)
        The share with the right label, where the most voted label of a query got v = 0 … K votes.
    """

    name = "dist&votesplit"

    def tables(self) -> list[CaseTable]:
        """The table as it can be shown; distances are the middles of the bins."""
        middles = (self.low_ + self.width_ * (np.arange(N_BINS) + 0.5)).tolist()
        votes = list(range(1, self.n_voters_ + 1))
        axes = ("votes of the winner", "distance")
        cases = self.in_cases(self.counts_.sum(axis=0))
        return [CaseTable("dist&votesplit", axes, (votes, middles), cases, self.past_reading_)]

    def _clear(self, tables: Iterator[NeighborTable]) -> None:
        self.low_, high = 0.0, -np.inf  # below 0 where distances stand for a learned score
        for table in tables:
            distances = table.distances[:, : self.n_voters_]
            known = distances[np.isfinite(distances)]
            self.low_, high = float(known.min(initial=self.low_)), float(known.max(initial=high))
        self.width_ = (max(high, self.low_) - self.low_) / N_BINS
        self.counts_ = self._zeros(2, self.n_voters_, N_BINS)

    def _count(self, table: NeighborTable, truth: np.ndarray, worth: np.ndarray) -> None:
        lines = self.elected_past(table)[1] - 1
        self.counts_ = self.counts_ + self._neighbors_of(table, truth, worth, lines, self.n_voters_)

    def _neighbors_of(
        self, table: NeighborTable, truth: np.ndarray, worth: np.ndarray, lines: np.ndarray, n_lines: int
    ) -> np.ndarray:
        """The neighbors of cases, right and wrong, by the line of their case and by distance: (2, n_lines, 20)."""
        from nearsay.posterior.methods.past_case_table_kernels import count_distances

        near, counts = table.first(self.n_voters_), self._zeros(2, n_lines, N_BINS)
        cases = (truth, worth, lines)
        count_distances(near.indices, near.distances, self.labels_, *cases, self.low_, self.width_, *counts)
        return counts

    def _read(self) -> None:
        self.past_reading_ = right_at_even_odds(*self.in_cases(self.counts_))
        self.reading_ = self.read_between(self.past_reading_)

    def _give(self, table: NeighborTable, p: np.ndarray) -> None:
        self._give_from(table, self.elected(table)[1], self.reading_, p)

    def _give_from(self, table: NeighborTable, lines: np.ndarray, reading: np.ndarray, p: np.ndarray) -> None:
        from nearsay.posterior.methods.past_case_table_kernels import give_by_distance

        near = (table.indices, table.distances, self.labels_)
        give_by_distance(*near, lines, reading, self.low_, self.width_, self.model_failure, p)

    def _left_out(self, table: NeighborTable, rows: np.ndarray) -> np.ndarray:
        p = np.empty((len(table), self.n_classes_))
        for part in row_blocks(len(table), row_bytes=8 * 16 * N_BINS):
            here = table[part]
            self._give_from(here, np.arange(len(here)), self._readings_without_each(here, rows[part]), p[part])
        for line in self._ends_of_bins(table):
            others = np.delete(np.arange(len(table)), line)
            without = copy(self).fit(table[others], self.labels_, self.n_classes_, rows[others])
            p[line] = without.proba(table[line : line + 1])[0]
        return p

    def _readings_without_each(self, table: NeighborTable, rows: np.ndarray) -> np.ndarray:
        """The line that each counted case reads when its neighbors are not counted: (n_cases, 20)."""
        of_case = self._neighbors_of(
            table, self.labels_[rows], worth_of(rows, self.weights), np.arange(len(table)), len(table)
        )
        line_of_case = self.elected_past(table)[1] - 1
        of_all = _of_all(*self.in_cases(self.counts_.sum(axis=(1, 2))[:, None] - of_case.sum(axis=2)))[:, None]

        def past_reading(lines: np.ndarray) -> np.ndarray:
            same, other = self.in_cases(
                self.counts_[:, lines] - np.where(lines == line_of_case, 1, 0)[:, None] * of_case
            )
            return _at_even_odds(same, other, of_all)

        return self.between(past_reading, self.elected(table)[1])

    def _ends_of_bins(self, table: NeighborTable) -> list[int]:
        """The cases without which the bins would begin or end elsewhere: those that alone are at an end."""
        distances = table.distances[:, : self.n_voters_]
        nearest = distances.min(axis=1)
        farthest = np.where(np.isfinite(distances), distances, -np.inf).max(axis=1)
        ends = [np.flatnonzero(farthest == farthest.max())]
        if self.low_ < 0:
            ends.append(np.flatnonzero(nearest == nearest.min()))
        return sorted({int(lines[0]) for lines in ends if len(lines) == 1})
