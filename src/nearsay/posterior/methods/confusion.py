"""Posteriors from the confusion matrix of past cases: which label was true when a label won the vote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

import numpy as np
from scipy import sparse

from nearsay.core.arrays import row_blocks
from nearsay.errors import unknown_name
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.past_case_table import (
    CaseTable,
    CountsCases,
    Tabulated,
    listed_classes,
    past_cases,
    worth_of,
)
from nearsay.posterior.methods.rank import Rank, RankVotesplit
from nearsay.posterior.past_cases import MAX_PAST_CASES

# Cells of the confusion matrix held dense at a time (32 MB) while probability is accumulated.
CELLS_AT_ONCE = 1 << 22

AXES = ("true class", "predicted class")


def of_true(counts: sparse.csc_matrix) -> np.ndarray:
    """How many cases truly were of each class (recall goes by them)."""
    return np.asarray(counts.sum(axis=1)).ravel()


def of_predicted(counts: sparse.csc_matrix) -> np.ndarray:
    """How many cases were predicted as each class (precision goes by them)."""
    return np.asarray(counts.sum(axis=0)).ravel()


NORMALIZATIONS: dict[str, Callable[[sparse.csc_matrix], np.ndarray]] = {
    "row": of_true,
    "column": of_predicted,
}


def confusion(truth: np.ndarray, predicted: np.ndarray, n_classes: int, worth: np.ndarray) -> sparse.csc_matrix:
    """How many cases of each true class (row) were predicted as each class (column), each as often as it is worth."""
    return sparse.csc_matrix((worth, (truth, predicted)), shape=(n_classes, n_classes))


def _share(right: np.ndarray, cases: np.ndarray, of_all: np.ndarray | float) -> np.ndarray:
    """How often it was right; without a case as often as all are."""
    return np.where(cases > 0, right / np.where(cases > 0, cases, 1), of_all)


class Confmat(Tabulated):
    """The predicted class is as likely as it was right in past cases; all others share the rest evenly.

    Parameters
    ----------
    model_failure, max_past_cases : as in ``Weighted``.
    normalize : {"row", "column"}, default="row"
        Right out of the cases that truly were of the class (recall), or out
        of those that were predicted as the class (precision).

    Attributes
    ----------
    counts_ : sparse (n_classes, n_classes) whole numbers
        Past cases by true class (row) and predicted class (column).
    right_ : (n_classes,)
        How often each class was right. A class without a case is right as often as all are.

    >>> table = NeighborTable(np.array([[1], [0], [1], [2]]), np.zeros((4, 1)))
    >>> confmat = Confmat(model_failure=0.0).fit(table, np.array([0, 0, 1, 1]), n_classes=2)
    >>> confmat.counts_.toarray()
    array([[2, 0],
           [1, 1]])
    >>> confmat.right_
    array([1. , 0.5])
    >>> confmat.proba(NeighborTable(np.array([[3]]), np.array([[0.0]])))
    array([[0.5, 0.5]])
    """

    name = "confmat"

    def __init__(
        self, *, model_failure: float = 0.01, normalize: str = "row", max_past_cases: int | None = MAX_PAST_CASES
    ) -> None:
        super().__init__(model_failure=model_failure, max_past_cases=max_past_cases)
        self.normalize = normalize

    def tables(self) -> list[CaseTable]:
        """The table as it can be shown."""
        others = (1 - self.right_) / max(self.n_classes_ - 1, 1)
        probability = np.tile(others, (self.n_classes_, 1))
        np.fill_diagonal(probability, self.right_)
        classes = list(range(self.n_classes_))
        return [CaseTable("confmat", AXES, (classes, classes), self.in_cases(self.counts_.toarray()), probability)]

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.normalize not in NORMALIZATIONS:
            raise unknown_name("normalization", self.normalize, NORMALIZATIONS)

    def _clear(self, tables: Iterator[NeighborTable]) -> None:
        self.counts_ = sparse.csc_matrix((self.n_classes_, self.n_classes_), dtype=self._zeros().dtype)

    def _count(self, table: NeighborTable, truth: np.ndarray, worth: np.ndarray) -> None:
        self.counts_ = self.counts_ + confusion(truth, self.elected_past(table)[0], self.n_classes_, worth)

    def _read(self) -> None:
        right, cases = self.counts_.diagonal(), NORMALIZATIONS[self.normalize](self.counts_)
        self.right_ = _share(right, cases, right.sum() / (self.counts_.sum() or 1))

    def _give(self, table: NeighborTable, p: np.ndarray) -> None:
        from nearsay.posterior.methods.past_case_table_kernels import give_to_predicted

        winner = self.elected(table)[0]
        give_to_predicted(winner, self.right_[winner], self.model_failure, p)

    def _left_out(self, table: NeighborTable, rows: np.ndarray) -> np.ndarray:
        from nearsay.posterior.methods.past_case_table_kernels import give_to_predicted

        truth, predicted, winner = self.labels_[rows], self.elected_past(table)[0], self.elected(table)[0]
        right, cases = self.counts_.diagonal(), NORMALIZATIONS[self.normalize](self.counts_)
        was_right, worth = truth == predicted, worth_of(rows, self.weights)
        in_cell = (truth if self.normalize == "row" else predicted) == winner
        of_all = (right.sum() - worth * was_right) / (self.counts_.sum() - worth)
        without = _share(right[winner] - worth * (was_right & in_cell), cases[winner] - worth * in_cell, of_all)
        p = np.empty((len(table), self.n_classes_))
        give_to_predicted(winner, without, self.model_failure, p)
        return p


class ConfmatRank(CountsCases):
    """A class is as likely as past cases of it found the predicted class probable, going by ``Rank``.

    What ``Rank`` gives to every class in a past case is added up in the row
    of its true class; one is added everywhere, rows are scaled to one, and a
    query reads the column of the class that wins its vote.

    Every case is weighed by the ranks of all cases, so there is no adding of
    cases one by one: ``fit`` takes them all.

    Parameters
    ----------
    model_failure, max_past_cases : as in ``Weighted``.

    Attributes
    ----------
    ranks_ : the fitted table of ranks
    counts_ : sparse (n_classes, n_classes) whole numbers
        Past cases by true class (row) and predicted class (column).
    base_ : (n_classes,)
        What every column of the matrix holds at least, from cases that do not list its class.
    extra_ : sparse (n_classes, n_classes)
        What a column holds beside that.
    """

    members = ()
    name = "confmat&rank"
    ranking: type[Rank] = Rank

    @property
    def n_cases_(self) -> int:  # type: ignore[override]
        """How many past cases were counted."""
        return self.ranks_.n_cases_

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> Self:
        """Count the past cases by rank, then add up the probabilities that these counts give to the same cases."""
        self.labels_, self.n_classes_ = labels, n_classes
        self.ranks_ = self.ranking(model_failure=self.model_failure)
        self.ranks_.weights = self.weights
        self.ranks_.fit(table, labels, n_classes, rows)
        table, rows = past_cases(table, labels, rows)
        worth = worth_of(rows, self.weights)
        self.counts_ = confusion(labels[rows], self.ranks_.elected_past(table)[0], n_classes, worth)
        mass, tail = self._accumulated(table, labels[rows], self.ranks_.in_cases(worth), n_classes)
        # Each case adds what it is worth to its row, and each cell starts at 1.
        row_totals = n_classes + self.ranks_.in_cases(of_true(self.counts_))
        self.base_ = (1 + tail) / row_totals
        self.extra_ = sparse.csc_matrix(sparse.diags(1 / row_totals) @ mass)
        return self

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes); every row sums to 1. Without any neighbor all classes are alike."""
        from nearsay.posterior.methods.past_case_table_kernels import give_column

        if not self.n_cases_:
            return self.ranks_.proba(table)
        p = np.empty((len(table), len(self.base_)))
        extra = self.extra_
        winner, _ = self.ranks_.elected(table)
        give_column(self.base_, extra.indptr, extra.indices, extra.data, winner, self.model_failure, p)
        return p

    def over(self, labels: np.ndarray, n_classes: int, rows: np.ndarray) -> Self:
        """The same counts, asked about other rows; the table of ranks too."""
        other = super().over(labels, n_classes, rows)
        other.ranks_ = self.ranks_.over(labels, n_classes, rows)
        return other

    def without(self, table: NeighborTable, rows: np.ndarray | None = None) -> Rank:
        """The ranks before they counted these cases: without any case both give the same."""
        return self.ranks_.without(table, rows)

    def _left_out(self, table: NeighborTable, rows: np.ndarray) -> np.ndarray:
        from nearsay.posterior.methods.past_case_table_kernels import give_columns_left_out

        numbers, truth = listed_classes(table).numbers, self.labels_[rows]
        n_listed = (numbers >= 0).sum(axis=1)
        # Who lists a class, and where: a column is added up from these alone.
        by_class = np.argsort(numbers, axis=None, kind="stable")
        starts = np.searchsorted(numbers.ravel()[by_class], np.arange(self.n_classes_ + 1))
        worth, n_true = self.ranks_.in_cases(worth_of(rows, self.weights)), self.ranks_.in_cases(of_true(self.counts_))
        cases = (numbers, n_listed, truth, worth, self.ranks_.past_cells(table), n_true)
        winner = self.ranks_.elected(table)[0]
        p = np.empty((len(table), self.n_classes_))
        for alike, ranks in self.ranks_.without_each(table, rows):
            alike = alike[np.argsort(winner[alike], kind="stable")]
            give_columns_left_out(
                *cases, by_class, starts, ranks.past_reading_, alike, winner[alike], self.model_failure, p
            )
        return p

    def tables(self) -> list[CaseTable]:
        """The table as it can be shown, and the table of ranks behind it."""
        columns = self.base_[:, None] + self.extra_.toarray()
        classes = list(range(len(columns)))
        probability = columns / columns.sum(axis=0)
        return [
            CaseTable(self.name, AXES, (classes, classes), self.ranks_.in_cases(self.counts_.toarray()), probability),
            *self.ranks_.tables(),
        ]

    def _accumulated(
        self, table: NeighborTable, truth: np.ndarray, worth: np.ndarray, n_classes: int
    ) -> tuple[sparse.csc_matrix, np.ndarray]:
        """The probability each case gives, added up by true class: by class (a matrix), and to every class (tail).

        A few columns at a time are held dense: with 10,000 classes the whole would take 800 MB.
        """
        from nearsay.posterior.methods.past_case_table_kernels import accumulate_by_rank

        numbers, cells = listed_classes(table).numbers, self.ranks_.past_cells(table)
        stretches, tail = [], np.zeros(n_classes)
        for columns in row_blocks(n_classes, size=max(1, CELLS_AT_ONCE // n_classes)):
            mass = np.zeros((n_classes, columns.stop - columns.start))
            tail[:] = 0
            accumulate_by_rank(numbers, truth, worth, cells, self.ranks_.past_reading_, columns.start, mass, tail)
            stretches.append(sparse.csc_matrix(mass))
        return sparse.csc_matrix(sparse.hstack(stretches)), tail


class ConfmatRankVotesplit(ConfmatRank):
    """As ``ConfmatRank``, but what a past case gives to every class goes by ``RankVotesplit``."""

    name = "confmat&rank&votesplit"
    ranking = RankVotesplit
