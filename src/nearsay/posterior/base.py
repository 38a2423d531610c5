"""Posterior: the interface of all ways to turn neighbors into probabilities, past cases included.

    past cases ──fit──► posterior ──proba──► answers to new queries
        └──── without case i ──► posterior ──► answer to case i      (leave_one_out_proba)

Leaving a row out of its own neighbors is half of it: a table of past cases
that counts the case itself, or weights learned from it, still know its label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_whole
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.past_cases import MAX_PAST_CASES
from nearsay.posterior.row_weights import RowWeights

FOLDS = 5
# Where a case cannot be taken back from what was learned, it is learned again without each of so many folds. Fewer
# folds leave much less to learn from, so that probabilities mean something else; more take longer.
FOLDS_LEFT_OUT = 10
# The group of validation rows: never asked about each other, but each of them a case of its own.
FRESH = -1


class Posterior(DocumentedEstimator, ABC):
    """Turns neighbors into probabilities. The constructor only remembers its parameters, as in scikit-learn.

    Class attributes:

    ``name``
        What ``posterior=`` calls it; none where it is passed as an object.
    ``needs_past_cases = True``
        False: ``fit`` makes no use of the table; None is passed
        then, and the collection is not searched.
    ``members = None``
        () asks for the order of the classes (``table.classes``), increasing
        numbers such as (1, 4) also for the distance of the nearest member of
        each, and the mean distances of so many. Numbers that the usual class
        could not fill are lowered (``past_cases.possible_members``), so read
        from ``table.classes.members`` what the means are of.
    ``counts_votes = True``
        False: it reads the classes only, so that k makes no difference.
    ``takes_rows = True``
        False: it learns from a whole collection better than from
        some of its rows: ``fit`` gets the past cases of all, however many.
    ``counts_cases = False``
        True: it is made of counts of past cases, which are counted again when rows change;
        otherwise what was learned serves other rows too (``over``).
    ``takes_weights = False``
        True: it makes use of ``weights``. Otherwise rows that do not
        all count the same are refused.
    ``max_past_cases = 10_000``
        How many rows of a larger collection are asked about the others to learn from, at most; None for all.
    ``model_failure = 0.01``, ``smoothing = "model_failure"``
        How votes are smoothed where they choose k, as in ``Proportional``.

    Attributes
    ----------
    weights : RowWeights or None
        How much every row counts, as a neighbor and as a past case; set before ``fit``. None is the same for all.
    row_groups : (n_rows,) int or None
        Rows of one group are not in two folds; set before ``fit``.
    labels_ : (n_rows,) the class numbers given to ``fit``.
    n_classes_ : int
    """

    name: str
    needs_past_cases: bool = True
    members: Sequence[int] | None = None
    counts_votes: bool = True
    takes_rows: bool = True
    counts_cases: bool = False
    takes_weights: bool = False
    max_past_cases: int | None = MAX_PAST_CASES
    model_failure: float = 0.01
    smoothing: str = "model_failure"

    weights: RowWeights | None = None
    row_groups: np.ndarray | None = None
    labels_: np.ndarray
    n_classes_: int

    def groups_of(self, rows: np.ndarray) -> np.ndarray | None:
        """The groups of these rows; None where there are none."""
        return None if self.row_groups is None else self.row_groups[rows]

    def check_parameters(self) -> None:
        """Raise an InputError for parameters that cannot be used."""
        check_past_cases_and_failure(self.max_past_cases, self.model_failure)

    @abstractmethod
    def fit(self, table: Any, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> Self:
        """Learn from the past cases of the collection.

        ``table`` holds the k nearest *other* rows of every row (−1 and +inf
        where the collection has fewer), ``labels`` the class number of every
        row. ``rows`` is the row that each line of the table is about, where
        it is not about all of them in order.
        """

    @abstractmethod
    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes) for the neighbors of new queries; every row sums to 1."""

    def proba_on_gpu(self, table: NeighborTable) -> Any | None:
        """The same as a tensor, where the classes lie on a GPU and the posterior works there; None otherwise."""
        return None

    def over(self, labels: np.ndarray, n_classes: int, rows: np.ndarray) -> Self:
        """The same posterior over other rows than those it learned from.

        ``labels`` are the class numbers of all rows, ``rows`` the numbers of
        those that can be neighbors. Weights and counts stay.
        """
        other = copy(self)
        other.labels_, other.n_classes_ = labels, n_classes
        return other

    def tables(self) -> list[Any]:
        """Its CaseTables, if it keeps any."""
        return []

    def leave_one_out_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities (n_lines, n_classes) of the past cases that ``fit`` was given, each by what others taught.

        Here by folds: one case in ten at a time is answered by what was
        learned from the other nine. A posterior that can take a case back
        from what it learned does that instead.
        """
        if not self.needs_past_cases or np.bincount(self.labels_, minlength=1).max() < 2:
            return self.proba(table)  # nothing was learned from any case
        return self._proba_by_folds(table, rows)

    def recorded_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """The same for records, which count how many cases of one probability were right.

        A posterior that takes cases back from counts answers here with all of
        them counted: a right case that is taken back leaves one right case
        fewer, so its probability would be a step lower than that of a wrong
        case in the same cell.
        """
        return self.leave_one_out_proba(table, rows)

    def _proba_by_folds(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """The same by folds alone."""
        rows = np.arange(len(self.labels_)) if rows is None else rows
        p = np.empty((len(table), self.n_classes_))
        for rest, fold in splits(self.labels_[rows], FOLDS_LEFT_OUT, self.groups_of(rows)):
            others = copy(self)
            others.fit(table[rest], self.labels_, self.n_classes_, rows[rest])
            p[fold] = others.proba(table[fold])
        return p


def check_past_cases_and_failure(max_past_cases: Any, model_failure: Any) -> None:
    """Say what is wrong with two parameters that most posteriors have.

    >>> check_past_cases_and_failure(0, 0.01)
    Traceback (most recent call last):
    nearsay.errors.InputError: max_past_cases must be a whole number of at least 1; got 0.
    """
    if max_past_cases is not None:
        check_whole("max_past_cases", max_past_cases, least=1)
    number = isinstance(model_failure, int | float | np.number) and not isinstance(model_failure, bool)
    if not number or not 0 <= model_failure < 1:
        raise InputError(
            "model_failure is the share of the probability spread over all classes: a number from 0 up to but not"
            f" including 1 (at 1 the neighbors would have no say); got {model_failure!r}."
        )


def splits(
    labels: np.ndarray, n_folds: int = FOLDS, groups: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of the cases outside of each fold, and of those in it, for each fold in turn; no group is in two."""
    fold = folds_by(np.arange(len(labels)), labels, n_folds, groups)
    for number in range(fold.max(initial=-1) + 1):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def folds(labels: np.ndarray, n_folds: int = FOLDS) -> np.ndarray:
    """A fold for every case, dealt out class by class in turn: folds are even, and so are their shares of every class.

    Classes take their turn as they first come, so that names of classes make no difference.

    >>> folds(np.array([7, 7, 7, 3, 3, 7, 7, 7]))
    array([0, 1, 2, 1, 2, 3, 4, 0])
    """
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    fold = np.empty(len(labels), np.int64)
    fold[np.argsort(first[number], kind="stable")] = np.arange(len(labels)) % n_folds
    return fold


def folds_by(
    order: np.ndarray, labels: np.ndarray, n_folds: int = FOLDS, groups: np.ndarray | None = None
) -> np.ndarray:
    """The fold of every row, where cases come in this order of the rows; rows of one group share a fold.

    >>> folds_by(np.array([2, 0, 1]), np.array([5, 5, 6]), n_folds=2)
    array([1, 0, 0])
    >>> folds_by(np.array([2, 0, 1]), np.array([5, 5, 6]), n_folds=2, groups=np.array([8, 9, 8]))
    array([0, 1, 0])
    """
    fold = np.empty(len(labels), np.int64)
    if groups is None:
        fold[order] = folds(labels[order], n_folds)
        return fold
    groups = np.where(groups == FRESH, groups.max(initial=0) + 1 + np.arange(len(groups)), groups)
    # A group is dealt as its first row is.
    _, first, number = np.unique(groups[order], return_index=True, return_inverse=True)
    by_first = np.argsort(first)
    of_group = np.empty(len(first), np.int64)
    of_group[by_first] = folds(labels[order[first[by_first]]], n_folds)
    fold[order] = of_group[number]
    return fold


def judged_among(order: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """The rows that are asked as past cases, in this order: the validation rows where there are any, otherwise all.

    >>> judged_among(np.array([2, 0, 1]), np.array([0, FRESH, FRESH]))
    array([2, 1])
    """
    fresh = None if groups is None else groups[order] == FRESH
    return order if fresh is None or not fresh.any() else order[fresh]
