"""Base of the posteriors that look past cases up in a table.

Every row of the collection is asked as a query, left out by its number: its
neighbors vote, and its true label is known. Such *past cases* are counted in
cells that a new query can be matched with. Counts are whole numbers, or sums of
weights that are as exact, and add up in any order; what is read from them is computed from the counts alone.

Left out, a class has one row fewer than a query will find. With n rows a
class and K ≥ n neighbors, a past case can get n−1 right votes where a query
gets n, so the cells would not mean the same. Past cases are therefore asked
with K' = min(K, n−1) neighbors, and v votes of a query are read at
v·K'/min(K, n): unanimous is unanimous on both sides. From n > K on nothing
changes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nearsay.errors import InputError
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior
from nearsay.posterior.methods.proportional import Proportional
from nearsay.posterior.past_cases import MAX_PAST_CASES
from nearsay.posterior.row_weights import RowWeights

# Gives parts of a leave-one-out table with the rows that their lines are about; None for all rows in order.
Blocks = Callable[[], Iterable[tuple[NeighborTable, np.ndarray | None]]]


@dataclass(frozen=True)
class CaseTable:
    """One table of a fitted posterior.

    name : what the table is called.
    axes : what each axis counts, in plain words; one or two of them.
    ticks : the values along each axis.
    cases : array, one axis for each of ``axes``, how many past cases, or how much of them, each cell holds.
    probability : array of the same shape, what the posterior reads from the cell.

    >>> table = CaseTable("rank", ("rank of the true label",), ([1, 2],), np.array([9, 1]), np.array([0.9, 0.1]))
    >>> table.cases.sum()
    np.int64(10)
    """

    name: str
    axes: tuple[str, ...]
    ticks: tuple[list[Any], ...]
    cases: np.ndarray
    probability: np.ndarray


def typical_class_size(labels: np.ndarray) -> int:
    """How many rows the class of a row in the middle has: half of all rows are in classes at least as large.

    Rows are counted, not classes: many tiny classes beside a few large ones hardly ever vote.

    >>> typical_class_size(np.array([0, 1, 2, 2, 2, 2]))
    4
    """
    if not len(labels):
        return 0
    of_row = np.sort(np.bincount(labels)[labels])
    return int(of_row[len(of_row) // 2])


def matching_votes(n_neighbors: int, class_size: int) -> np.ndarray:
    """The votes of a past case that v = 0 … K votes of a query compare with; a fraction lies between two cells.

    >>> matching_votes(3, class_size=3)                    # past cases have 2 voters; 1.33 lies between 1 and 2
    array([1.        , 1.        , 1.33333333, 2.        ])
    >>> matching_votes(3, class_size=4)
    array([1., 1., 2., 3.])
    """
    voters = voters_of_past_cases(n_neighbors, class_size)
    votes = np.arange(n_neighbors + 1) * voters / max(1, min(n_neighbors, class_size))
    return np.clip(votes, 1, voters)


def voters_of_past_cases(n_neighbors: int, class_size: int) -> int:
    """K' = min(K, n−1): as many neighbors as a class has rows left when one is left out.

    >>> [voters_of_past_cases(5, n) for n in (1, 2, 4, 6, 100)]
    [1, 1, 3, 5, 5]
    """
    return max(1, min(n_neighbors, class_size - 1))


def elected(table: NeighborTable, labels: np.ndarray, n_classes: int, n_voters: int) -> tuple[np.ndarray, np.ndarray]:
    """The most voted label of every query and its votes; −1 and 0 without a neighbor. Ties go to the nearest.

    >>> table = NeighborTable(np.array([[2, 0, 1]]), np.array([[1.0, 2.0, 3.0]]))
    >>> elected(table, np.array([0, 0, 1]), n_classes=2, n_voters=3)
    (array([0]), array([2]))
    >>> elected(table, np.array([0, 0, 1]), n_classes=2, n_voters=2)
    (array([1]), array([1]))
    """
    from nearsay.posterior.methods.past_case_table_kernels import elect

    winner, votes = np.empty((2, len(table)), np.int64)
    elect(table.indices[:, :n_voters], labels, np.zeros(n_classes, np.int64), winner, votes)
    return winner, votes


def past_cases(table: NeighborTable, labels: np.ndarray, rows: np.ndarray | None) -> tuple[NeighborTable, np.ndarray]:
    """The lines of a leave-one-out table that something can be learned from, and the rows they are about.

    Left out are rows without any neighbor, and the only row of a class: no other row has its label.
    """
    usable = is_usable(table, labels, rows)
    rows = np.arange(len(labels)) if rows is None else rows
    return (table, rows) if usable.all() else (table[usable], rows[usable])


def is_usable(table: NeighborTable, labels: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """Which lines of a leave-one-out table something can be learned from: (n_lines,) bool."""
    truth = labels if rows is None else labels[rows]
    return (np.bincount(labels, minlength=1)[truth] > 1) & (table.indices[:, 0] >= 0)


def worth_of(rows: np.ndarray, weights: RowWeights | None) -> np.ndarray:
    """How often the case of each row is counted: once, or as often as the row weighs. Sums are exact."""
    return np.ones(len(rows), np.int64) if weights is None else weights.values[rows]


def warn_of_no_past_cases(labels: np.ndarray) -> None:
    """Say so where no class has two rows."""
    if len(labels) and np.bincount(labels).max() < 2:
        warnings.warn(
            "Every class has one row, so leaving a row out leaves no row of its class: there are no past"
            " cases to learn from, and probabilities are the shares of the votes. Give two or more rows a class.",
            UserWarning,
            stacklevel=3,
        )


def listed_classes(table: NeighborTable) -> NearestClasses:
    """The classes of a table by their nearest member, or an error that says how to ask for them."""
    if table.classes is None:
        raise InputError(
            "This posterior goes by the order of the classes, but the table has none (table.classes is None)."
            " Search with members, () or more: index.with_labels(labels).leave_one_out(k, members=())."
            " NeighborClassifier does so by itself."
        )
    return table.classes


class CountsCases(Posterior):
    """A posterior that counts past cases, and can take a case back from its counts."""

    takes_weights = True
    counts_cases = True
    n_cases_: int

    def __init__(self, *, model_failure: float = 0.01, max_past_cases: int | None = MAX_PAST_CASES) -> None:
        self.model_failure = model_failure
        self.max_past_cases = max_past_cases

    def leave_one_out_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities of the past cases that ``fit`` was given, each after it was taken out of the counts.

        Exactly what a fit without that case would say.
        """
        rows = np.arange(len(self.labels_)) if rows is None else rows
        counted = is_usable(table, self.labels_, rows)
        p = np.empty((len(table), self.n_classes_))
        p[~counted] = self.proba(table[~counted])
        if self.n_cases_ == 1:
            p[counted] = self.without(table[counted], rows[counted]).proba(table[counted])
        elif self.n_cases_ > 1:
            p[counted] = self._left_out(table[counted], rows[counted])
        return p

    def recorded_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """The answer to a query with the neighbors of each past case: the same for all cases of a cell."""
        return self.proba(table)

    def without(self, table: NeighborTable, rows: np.ndarray | None = None) -> Posterior:
        """The same posterior before it counted these cases; line i is about row ``rows[i]``, or row i."""
        raise NotImplementedError

    def _left_out(self, table: NeighborTable, rows: np.ndarray) -> np.ndarray:
        """The probabilities of counted cases, two or more, each without itself."""
        raise NotImplementedError


class Tabulated(CountsCases):
    """Base of the posteriors that count past cases in a table.

    Where rows have weights, a past case counts as much as its row; what it is
    matched by (who is elected, with how many votes) goes by heads.

    ``fit`` starts from zero and adds every case; ``add`` adds more of them,
    so a collection can be counted in blocks, and ``without`` takes some back.
    Where every class has one row only, there is nothing to count: a warning
    says so, and the votes alone are used.
    """

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> Self:
        """Count the past cases of a leave-one-out table; line i is about row ``rows[i]``, or row i."""
        return self.fit_blocks(lambda: [(table, rows)], table.n_neighbors, labels, n_classes)

    def fit_blocks(self, blocks: Blocks, n_neighbors: int, labels: np.ndarray, n_classes: int) -> Self:
        """The same from a leave-one-out table that is never held: (table, rows) of some rows at a time.

        ``blocks`` is called once, or twice where all cases have to be read before the first is counted.
        """
        self.check_parameters()
        self.n_classes_ = n_classes
        self.n_neighbors_ = n_neighbors
        self.class_size_ = typical_class_size(labels)
        self.n_voters_ = voters_of_past_cases(self.n_neighbors_, self.class_size_)
        self.n_cases_, self.labels_ = 0, labels
        warn_of_no_past_cases(labels)
        self._clear(past_cases(table, labels, rows)[0] for table, rows in blocks())
        for table, rows in blocks():
            self.add(table, labels, rows)
        return self

    def add(self, table: NeighborTable, labels: np.ndarray, rows: np.ndarray | None = None) -> Self:
        """Count more past cases; ``labels`` are those of the whole collection."""
        self.labels_ = labels
        self._take(*past_cases(table, labels, rows), times=1)
        return self

    def without(self, table: NeighborTable, rows: np.ndarray | None = None) -> Self:
        """The same posterior before it counted these cases; line i is about row ``rows[i]``, or row i."""
        others = copy(self)
        others._take(*past_cases(table, self.labels_, rows), times=-1)
        return others

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes); every row sums to 1. Without any neighbor all classes are alike."""
        if not self.n_cases_:
            votes = Proportional(model_failure=self.model_failure)
            votes.weights = self.weights
            return votes.fit(None, self.labels_, self.n_classes_).proba(table)
        p = np.empty((len(table), self.n_classes_))
        self._give(table, p)
        return p

    def elected(self, table: NeighborTable) -> tuple[np.ndarray, np.ndarray]:
        """The most voted label of every query and its votes."""
        return elected(table, self.labels_, self.n_classes_, self.n_neighbors_)

    def elected_past(self, table: NeighborTable) -> tuple[np.ndarray, np.ndarray]:
        """The same for past cases, which have fewer voters where classes are small."""
        return elected(table, self.labels_, self.n_classes_, self.n_voters_)

    def read_between(self, past: np.ndarray) -> np.ndarray:
        """What v = 0 … K votes of a query read from ``past`` (K', …), which has a line for 1 … K' votes."""
        return self.between(lambda lines: past[lines], np.arange(self.n_neighbors_ + 1))

    def between(self, past: Callable[[np.ndarray], np.ndarray], votes: np.ndarray) -> np.ndarray:
        """What queries with these votes read, given what there is to read at the line of each (0 for one vote)."""
        place = self._matching()[votes] - 1
        below = place.astype(np.int64)
        above = np.minimum(below + 1, self.n_voters_ - 1)
        fraction = (place - below)[:, None]
        return (1 - fraction) * past(below) + fraction * past(above)

    def _matching(self) -> np.ndarray:
        return matching_votes(self.n_neighbors_, self.class_size_)

    def _clear(self, tables: Iterator[NeighborTable]) -> None:
        """Start all counts from zero; ``tables`` hold the cases to come, for those who have to know them."""
        raise NotImplementedError

    def _count(self, table: NeighborTable, truth: np.ndarray, worth: np.ndarray) -> None:
        """Add cases whose true labels are ``truth``, each as often as it is worth; earlier arrays stay as they were."""
        raise NotImplementedError

    def _read(self) -> None:
        """Compute from the counts what a query reads."""
        raise NotImplementedError

    def _give(self, table: NeighborTable, p: np.ndarray) -> None:
        """Fill in the probabilities of queries."""
        raise NotImplementedError

    def _take(self, table: NeighborTable, rows: np.ndarray, times: int) -> None:
        """Count the cases of these rows, or take them back (−1 times)."""
        self.n_cases_ += times * len(rows)
        self._count(table, self.labels_[rows], times * worth_of(rows, self.weights))
        self._read()

    def _zeros(self, *shape: int) -> np.ndarray:
        """Counts to start from."""
        return np.zeros(shape, np.int64 if self.weights is None else np.float64)

    def in_cases(self, counts: Any) -> Any:
        """What was counted, as a number of cases: where rows have weights, of such as weigh as much as the mean."""
        return counts if self.weights is None else self.weights.in_rows(counts)
