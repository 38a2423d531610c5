"""Posteriors from ranks: how often the true label was at each rank, over all past cases or by how clear their vote was.

Counts of ranks become probabilities of ranks, though most of the late ranks were
seen once or never. Columns are the ranks 1 … C of the true label among all classes
by their nearest member; one more column counts the labels beyond the list.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.past_case_table import CaseTable, Tabulated, listed_classes, worth_of

# A rank counted ten times is known to about a third of itself (1/√10). Where each past case is judged by the table of
# the others (100 classes of 4 to 15 leaves), anything from 10 up does equally well; below, chance looks like a pattern.
FEW_CASES = 10

# How many cases the whole weighs against those of one cell. Judged in the same way, 5 to 20 are equally good, and all
# are far better than shrinking each cell by itself, n_cell + s·P(rank), for any s: two errors among 900 unanimous
# votes say hardly anything about ranks, yet every late rank would be 0 but for the ranks of those two.
STRENGTH = 10.0


class Rank(Tabulated):
    """A class is as likely as true labels stood at its rank, all classes ordered by their nearest member.

    Where the table lists only some of many classes, the others share evenly
    what the listed ranks leave.

    Parameters
    ----------
    model_failure, max_past_cases : as in ``Weighted``.

    Attributes
    ----------
    counts_ : (1, n_classes + 1) whole numbers
        Past cases whose true label stood at rank 1, 2, …; the last column counts those beyond the list.
    reading_ : (1, n_classes + 1)
        The probability of each rank.

    Four rows, and each has its own label nearest but the third:

    >>> from nearsay.neighbors.class_order import NearestClasses
    >>> def table(indices, numbers):
    ...     indices, numbers = np.array(indices), np.array(numbers)
    ...     classes = NearestClasses.to_fill(*numbers.shape, members=())
    ...     classes.numbers[:] = numbers
    ...     return NeighborTable(indices, np.zeros(indices.shape), classes)
    >>> past = table([[1], [0], [1], [2]], [[0, 1], [0, 1], [0, 1], [1, 0]])
    >>> rank = Rank(model_failure=0.0).fit(past, np.array([0, 0, 1, 1]), n_classes=2)
    >>> rank.counts_
    array([[3, 1, 0]])
    >>> rank.proba(table([[2]], [[1, 0]]))                      # one more case is spread over both ranks
    array([[0.3, 0.7]])
    """

    name = "rank"
    members = ()
    counts_votes = False

    def tables(self) -> list[CaseTable]:
        """The table as it can be shown."""
        cases = self.in_cases(self.counts_[0])
        return [CaseTable("rank", ("rank of the true label",), (self._ranks(),), cases, self.reading_[0])]

    def _ranks(self) -> list[int | str]:
        return [*range(1, self.n_classes_ + 1), "beyond"]

    def _n_cells(self) -> int:
        return 1

    def past_cells(self, table: NeighborTable) -> np.ndarray:
        """The line of ``counts_`` that each past case belongs to."""
        return np.zeros(len(table), np.int64)

    def _cells(self, table: NeighborTable) -> np.ndarray:
        """The line of ``reading_`` that each query is read from."""
        return np.zeros(len(table), np.int64)

    def _clear(self, tables: Iterator[NeighborTable]) -> None:
        self.counts_ = self._zeros(self._n_cells(), self.n_classes_ + 1)

    def _count(self, table: NeighborTable, truth: np.ndarray, worth: np.ndarray) -> None:
        self.counts_ = self.counts_.copy()
        np.add.at(self.counts_, (self.past_cells(table), self._true_ranks(table, truth)), worth)

    def _true_ranks(self, table: NeighborTable, truth: np.ndarray) -> np.ndarray:
        """The column of ``counts_`` that each past case belongs to."""
        from nearsay.posterior.methods.past_case_table_kernels import true_ranks

        return true_ranks(listed_classes(table).numbers, truth, self.n_classes_)

    def _read(self) -> None:
        self.reading_ = rank_probabilities(self.in_cases(self.counts_[0]))[None, :]
        self.past_reading_ = self.reading_

    def _give(self, table: NeighborTable, p: np.ndarray) -> None:
        from nearsay.posterior.methods.past_case_table_kernels import give_by_rank

        give_by_rank(listed_classes(table).numbers, self._cells(table), self.reading_, self.model_failure, p)

    def _left_out(self, table: NeighborTable, rows: np.ndarray) -> np.ndarray:
        p = np.empty((len(table), self.n_classes_))
        for alike, others in self.without_each(table, rows):
            p[alike] = others.proba(table[alike])
        return p

    def without_each(self, table: NeighborTable, rows: np.ndarray) -> Iterator[tuple[np.ndarray, Rank]]:
        """For the counted cases of each cell of ``counts_``: their lines, and the ranks without one of them.

        Cases of one cell that are not worth the same come apart.
        """
        cells = self.past_cells(table) * (self.n_classes_ + 1) + self._true_ranks(table, self.labels_[rows])
        worth = worth_of(rows, self.weights)
        order = np.lexsort((worth, cells))
        differs = (np.diff(cells[order]) != 0) | (np.diff(worth[order]) != 0)
        for alike in np.split(order, np.flatnonzero(differs) + 1):
            yield alike, self.without(table[alike[:1]], rows[alike[:1]])


class RankVotesplit(Rank):
    """As ``Rank``, counted apart for each number of votes that the most voted label got.

    A clear vote was right more often than a split one. Cells with few cases
    are shrunk to those of clearer votes and to the whole, so few rows a class
    do no harm.

    Parameters
    ----------
    model_failure, max_past_cases : as in ``Weighted``.

    Attributes
    ----------
    counts_ : (n_voters, n_classes + 1) whole numbers
        Line v−1: past cases whose most voted label got v votes, by the rank of the true label; the last column
        counts those beyond the list.
    reading_ : (n_neighbors + 1, n_classes + 1)
        The probability of each rank where the most voted label of a query got v = 0 … K votes.
    """

    name = "rank&votesplit"
    counts_votes = True

    def tables(self) -> list[CaseTable]:
        """The table as it can be shown."""
        axes = ("votes of the winner", "rank of the true label")
        votes = list(range(1, self.n_voters_ + 1))
        cases = self.in_cases(self.counts_)
        return [CaseTable("rank&votesplit", axes, (votes, self._ranks()), cases, self.past_reading_)]

    def _n_cells(self) -> int:
        return self.n_voters_

    def past_cells(self, table: NeighborTable) -> np.ndarray:
        return self.elected_past(table)[1] - 1

    def _cells(self, table: NeighborTable) -> np.ndarray:
        return self.elected(table)[1]

    def _read(self) -> None:
        counts = self.in_cases(self.counts_)
        self.past_reading_ = shrunk_by_votes(counts, rank_probabilities(self.in_cases(self.counts_.sum(axis=0))))
        self.reading_ = self.read_between(self.past_reading_)


def pooled_tail(counts: np.ndarray) -> np.ndarray:
    """The counts of ranks, with those of late ranks pooled until a later rank is never likelier than an earlier one.

    The tail begins where every further rank has fewer than ten cases: one
    case at rank 37 does not say that rank 37 is special. Ranks before it are
    counted as they are, in whatever order. The sum stays the same, and the
    last column, labels beyond the list, stays apart.

    >>> pooled_tail(np.array([80, 17, 0, 2, 0, 0]))
    array([80., 17.,  1.,  1.,  0.,  0.])
    """
    from scipy.optimize import isotonic_regression

    n_ranks = len(counts) - 1
    often = np.flatnonzero(counts[:-1] >= FEW_CASES)
    tail = slice(often[-1] + 1 if len(often) else 0, n_ranks)
    pooled: np.ndarray = counts.astype(np.float64)
    if tail.start < n_ranks:
        pooled[tail] = isotonic_regression(pooled[tail], increasing=False).x
    return pooled


def rank_probabilities(counts: np.ndarray) -> np.ndarray:
    """How likely the true label stands at each rank: (n_classes + 1,), summing to 1.

    As frequent as it was, the tail pooled. One more case, spread evenly over
    all ranks, keeps each of them possible.

    >>> rank_probabilities(np.array([80, 17, 0, 2, 0, 0]))         # 80 17 1 1 0, and 0.2 more for each rank
    array([0.802, 0.172, 0.012, 0.012, 0.002, 0.   ])
    """
    p = pooled_tail(counts)
    p[:-1] += 1 / (len(counts) - 1)
    p /= p.sum()
    return p


def shrunk_by_votes(counts: np.ndarray, p_all: np.ndarray) -> np.ndarray:
    """How likely each rank is for each number of votes (n_votes, n_classes + 1), where few cases say little.

    Each line is shrunk to that of one vote more, the clearest to all cases;
    but never to one that promises more than all cases kept. So a split vote
    that was never seen is not taken for a clear one.

    >>> shrunk_by_votes(np.array([[0, 0, 0], [8, 2, 0], [25, 5, 0]]), np.array([0.8, 0.2, 0.0]))
    array([[0.8  , 0.2  , 0.   ],
           [0.8  , 0.2  , 0.   ],
           [0.825, 0.175, 0.   ]])
    """
    p = np.empty(counts.shape)
    expected = p_all
    for votes in range(len(counts) - 1, -1, -1):
        p[votes] = shrunk(counts[votes], expected)
        if p[votes, 0] < expected[0]:
            expected = p[votes]
    return p


def shrunk(counts: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How likely each rank is in one cell, where few cases say little: (n_classes + 1,).

    Ranks are walked from the first. At each, of the cases still left, some
    share has its true label here; the share in the cell is shrunk to the
    expected one, which weighs ten cases. So the first ranks, with many cases,
    are the cell's own, and late ones, with hardly any case left, fall off as
    expected.

    >>> shrunk(np.array([25, 5, 0]), np.array([0.8, 0.2, 0.0]))          # (25 + 8)/40
    array([0.825, 0.175, 0.   ])
    """
    counts = pooled_tail(counts)
    left = counts[::-1].cumsum()[::-1]
    left_expected = expected[::-1].cumsum()[::-1]
    share_expected = np.divide(expected, left_expected, out=np.ones_like(expected), where=left_expected > 0)
    share = (counts + STRENGTH * share_expected) / (left + STRENGTH)
    share[-1] = 1.0
    gone_on = np.cumprod(1 - share)
    share[1:] *= gone_on[:-1]
    return share
