"""What a posterior is, and how it is asked about its own past cases: each is judged by what the others taught.

    past cases ──fit──► posterior ──proba──► answers to new queries
        └──── without case i ──► posterior ──► answer to case i      (leave_one_out_proba)

Leaving a row out of its own neighbors is half of it: a table of past cases
that holds the case itself, or weights learned from it, still know its label.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy, deepcopy
from typing import Any, Self

import numpy as np

from nearsay.neighbors.table import NeighborTable

FOLDS = 5
# Where what was learned cannot be taken back case by case, it is learned so many times anew. With fewer folds much less
# is known than in the end, so that probabilities mean something else; more take longer.
FOLDS_LEFT_OUT = 10


class Posterior(ABC):
    """Turns neighbors into probabilities.

    What a class says of itself; these are also taken for an object of the
    user's that does not say:

    ``needs_past_cases = True``
        False says that ``fit`` makes no use of the table; None is passed
        then, and the collection is not searched.
    ``n_members = None``
        0 asks for the order of the classes (``table.classes``), a larger
        number also for the distances of that many nearest members of each.
    ``counts_votes = True``
        False says that it reads the classes only, so that k makes no difference.

    Optional: ``record(table)``, how many past cases were like each query and
    in how many the answer was right; ``tables()``, its CaseTables to look at.

    Attributes
    ----------
    labels_ : (n_rows,) the class numbers given to ``fit``.
    n_classes_ : int
    """

    needs_past_cases: bool = True
    n_members: int | None = None
    counts_votes: bool = True

    labels_: np.ndarray
    n_classes_: int

    @abstractmethod
    def fit(self, table: Any, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> Self:
        """Learn from the collection's own past cases.

        ``table`` holds the k nearest *other* rows of every row (−1 and +inf
        where the collection has fewer), ``labels`` the class number of every
        row. ``rows`` is the row that each line of the table is about, where
        it is not about all of them in order; an object of the user's need not
        take it.
        """

    @abstractmethod
    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes) for the neighbors of new queries; every row sums to 1."""

    def leave_one_out_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities (n_lines, n_classes) of the past cases that ``fit`` was given, each by what others taught.

        Here by folds: one case in ten at a time is answered by what was
        learned from the other nine. A posterior that can take a case back
        from what it learned does that instead.
        """
        if np.bincount(self.labels_, minlength=1).max() < 2:
            return self.proba(table)  # where every class has one row, no case taught anything
        rows = np.arange(len(self.labels_)) if rows is None else rows
        p = np.empty((len(table), self.n_classes_))
        for taught, asked in splits(self.labels_[rows], FOLDS_LEFT_OUT):
            others = copy(self).fit(table[taught], self.labels_, self.n_classes_, rows[taught])
            p[asked] = others.proba(table[asked])
        return p


def left_out_proba(
    posterior: Any, table: NeighborTable, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None
) -> np.ndarray:
    """``leave_one_out_proba`` of any posterior, of the user's too.

    An object without that method is asked by folds. If its ``fit`` takes no
    ``rows``, it is fitted on a collection without the fold, so that the
    neighbor lists lack one row in ten.
    """
    if not getattr(posterior, "needs_past_cases", True):
        known: np.ndarray = posterior.proba(table)  # nothing was learned from any case
        return known
    if hasattr(posterior, "leave_one_out_proba"):
        left_out: np.ndarray = posterior.leave_one_out_proba(table, rows)
        return left_out
    some_rows = takes_rows(posterior)
    p = np.empty((len(table), n_classes))
    rows = np.arange(len(labels)) if rows is None else rows
    for taught, asked in splits(labels[rows], FOLDS_LEFT_OUT):
        others = deepcopy(posterior)
        if some_rows:
            others.fit(table[taught], labels, n_classes, rows[taught])
            p[asked] = others.proba(table[asked])
        else:
            known_rows = _among(table, rows[taught], len(labels))
            others.fit(known_rows[taught], labels[rows[taught]], n_classes)
            p[asked] = others.proba(known_rows[asked])
    return p


def takes_rows(posterior: Any) -> bool:
    """Whether a posterior can be fitted to the past cases of some of the rows."""
    return "rows" in inspect.signature(posterior.fit).parameters


def _among(table: NeighborTable, rows: np.ndarray, n_rows: int) -> NeighborTable:
    """The table of a collection that holds these rows only, in this order: others are nobody's neighbors.

    >>> table = NeighborTable(np.array([[3, 0, 2]]), np.array([[1.0, 2.0, 3.0]]))
    >>> _among(table, np.array([0, 2]), n_rows=4).indices
    array([[ 0,  1, -1]])
    """
    number = np.full(n_rows, -1)
    number[rows] = np.arange(len(rows))
    indices = np.where(table.indices >= 0, number[table.indices], -1)
    present_first = np.argsort(indices < 0, axis=1, kind="stable")
    indices = np.take_along_axis(indices, present_first, axis=1)
    distances = np.take_along_axis(table.distances, present_first, axis=1)
    return NeighborTable(indices, np.where(indices >= 0, distances, np.inf), table.classes)


def splits(labels: np.ndarray, n_folds: int = FOLDS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of the cases to learn from and of those to ask about, for each fold in turn."""
    fold = folds(labels, n_folds)
    for number in range(fold.max(initial=-1) + 1):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def folds(labels: np.ndarray, n_folds: int = FOLDS) -> np.ndarray:
    """A fold for every case, dealt out class by class in turn: folds are even, and so are their shares of every class.

    >>> folds(np.array([7, 7, 7, 3, 3, 7, 7, 7]))
    array([2, 3, 4, 0, 1, 0, 1, 2])
    """
    fold = np.empty(len(labels), np.int64)
    fold[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % n_folds
    return fold
