"""What a posterior is, and how it is asked about its own past cases: each is judged by what the others taught.

    past cases ──fit──► posterior ──proba──► answers to new queries
        └──── without case i ──► posterior ──► answer to case i      (leave_one_out_proba)

Leaving a row out of its own neighbors is half of it: a table of past cases
that holds the case itself, or weights learned from it, still know its label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.row_weights import RowWeights

FOLDS = 5
# Where what was learned cannot be taken back case by case, it is learned so many times anew. With fewer folds much less
# is known than in the end, so that probabilities mean something else; more take longer.
FOLDS_LEFT_OUT = 10


class Posterior(ABC):
    """Turns neighbors into probabilities.

    What a class says of itself:

    ``needs_past_cases = True``
        False says that ``fit`` makes no use of the table; None is passed
        then, and the collection is not searched.
    ``members = None``
        () asks for the order of the classes (``table.classes``), increasing
        numbers such as (1, 4) also for the distance of the nearest member of
        each, and the mean distances of so many. Numbers that the usual class
        could not fill are lowered (``past_cases.possible_members``), so read
        from ``table.classes.members`` what the means are of.
    ``counts_votes = True``
        False says that it reads the classes only, so that k makes no difference.
    ``takes_rows = True``
        False says that it learns from a whole collection better than from
        some of its rows: ``fit`` gets the past cases of all, however many.
    ``counts_cases = False``
        True says that it is made of counts of past cases, which have to be counted again when rows change;
        otherwise what was learned can be asked about other rows (``over``).
    ``takes_weights = False``
        True says that it makes use of ``weights``. Otherwise rows that do not
        all count the same are refused.

    Attributes
    ----------
    weights : RowWeights or None
        How much every row counts, as a neighbor and as a past case; set before ``fit``. None is the same for all.
    labels_ : (n_rows,) the class numbers given to ``fit``.
    n_classes_ : int
    """

    needs_past_cases: bool = True
    members: Sequence[int] | None = None
    counts_votes: bool = True
    takes_rows: bool = True
    counts_cases: bool = False
    takes_weights: bool = False

    weights: RowWeights | None = None
    labels_: np.ndarray
    n_classes_: int

    @abstractmethod
    def fit(self, table: Any, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> Self:
        """Learn from the collection's own past cases.

        ``table`` holds the k nearest *other* rows of every row (−1 and +inf
        where the collection has fewer), ``labels`` the class number of every
        row. ``rows`` is the row that each line of the table is about, where
        it is not about all of them in order.
        """

    @abstractmethod
    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes) for the neighbors of new queries; every row sums to 1."""

    def proba_there(self, table: NeighborTable) -> Any | None:
        """The same as a tensor, where the classes lie on a card and the posterior works there; None otherwise."""
        return None

    def over(self, labels: np.ndarray, n_classes: int, rows: np.ndarray) -> Self:
        """What was learned, asked about the neighbors among other rows than those that taught it.

        ``labels`` are the class numbers of all rows, ``rows`` the numbers of
        those that can be neighbors. Weights and counts stay.
        """
        other = copy(self)
        other.labels_, other.n_classes_ = labels, n_classes
        return other

    def tables(self) -> list[Any]:
        """Its CaseTables to look at, if it keeps any."""
        return []

    def leave_one_out_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities (n_lines, n_classes) of the past cases that ``fit`` was given, each by what others taught.

        Here by folds: one case in ten at a time is answered by what was
        learned from the other nine. A posterior that can take a case back
        from what it learned does that instead.
        """
        if not self.needs_past_cases or np.bincount(self.labels_, minlength=1).max() < 2:
            return self.proba(table)  # no case taught anything; none does where every class has one row
        return self._proba_by_folds(table, rows)

    def recorded_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """The same, for records, which ask how many cases of one probability were right.

        By default as above. A posterior that takes cases back from counts
        answers here with all of them counted: a right case that is taken back
        leaves one right case fewer, so that its probability is a step lower
        than that of a wrong one beside it, and would tell the two apart.
        """
        return self.leave_one_out_proba(table, rows)

    def _proba_by_folds(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """The same by folds alone."""
        rows = np.arange(len(self.labels_)) if rows is None else rows
        p = np.empty((len(table), self.n_classes_))
        for taught, asked in splits(self.labels_[rows], FOLDS_LEFT_OUT):
            others = copy(self)
            others.fit(table[taught], self.labels_, self.n_classes_, rows[taught])
            p[asked] = others.proba(table[asked])
        return p


class GroupPosterior(Posterior):
    """A posterior that can hear several feature groups together; line i of every table is about the same item.

    ``of_groups`` says whether tables are of feature groups, which tell of different things, or of views of the
    same rows; set before ``fit``.
    """

    of_groups: bool = False

    @abstractmethod
    def fit_groups(
        self, tables: Sequence[NeighborTable], labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None
    ) -> Self:
        """``fit``, from the tables of all groups."""

    @abstractmethod
    def proba_groups(self, tables: Sequence[NeighborTable]) -> np.ndarray:
        """``proba``, from the tables of all groups."""

    @abstractmethod
    def leave_one_out_groups(self, tables: Sequence[NeighborTable], rows: np.ndarray | None = None) -> np.ndarray:
        """``leave_one_out_proba``, from the tables of all groups."""

    @abstractmethod
    def without_the_case(self, p: np.ndarray, tables: Sequence[NeighborTable], rows: np.ndarray) -> np.ndarray:
        """``p`` of rows that are among those that answer, each as if its class had one row less."""

    def fit_and_leave_out(
        self, tables: Sequence[NeighborTable], labels: np.ndarray, n_classes: int, rows: np.ndarray, n_folds: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """``fit_groups``, and the probabilities of the same cases, a fold at a time, by what other folds taught.

        Gives lines and their probabilities (n_lines, n_classes). A posterior that can use the features of a case in
        every fold computes them once.
        """
        self.fit_groups(tables, labels, n_classes, rows)
        for taught, asked in splits(labels[rows], n_folds):
            others = copy(self)
            others.fit_groups([table[taught] for table in tables], labels, n_classes, rows[taught])
            yield asked, others.proba_groups([table[asked] for table in tables])

    @abstractmethod
    def speaks_for(self, tables: Sequence[NeighborTable], these: np.ndarray, others: np.ndarray) -> np.ndarray:
        """How much each group raises the log odds of one class against another: (n_queries, n_groups)."""


def splits(labels: np.ndarray, n_folds: int = FOLDS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of the cases to learn from and of those to ask about, for each fold in turn."""
    fold = folds(labels, n_folds)
    for number in range(fold.max(initial=-1) + 1):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def folds(labels: np.ndarray, n_folds: int = FOLDS) -> np.ndarray:
    """A fold for every case, dealt out class by class in turn: folds are even, and so are their shares of every class.

    Classes take their turn as they first come, so that their numbers, which go by their names, have no say.

    >>> folds(np.array([7, 7, 7, 3, 3, 7, 7, 7]))
    array([0, 1, 2, 1, 2, 3, 4, 0])
    """
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    fold = np.empty(len(labels), np.int64)
    fold[np.argsort(first[number], kind="stable")] = np.arange(len(labels)) % n_folds
    return fold


def folds_by(order: np.ndarray, labels: np.ndarray, n_folds: int = FOLDS) -> np.ndarray:
    """The fold of every row, where cases come in this order of the rows.

    >>> folds_by(np.array([2, 0, 1]), np.array([5, 5, 6]), n_folds=2)
    array([1, 0, 0])
    """
    fold = np.empty(len(labels), np.int64)
    fold[order] = folds(labels[order], n_folds)
    return fold
