"""The log-linear pool: how far each class is, in every feature group, weighed by what past cases teach.

    score of class c = −Σ_{s,k} b_{s,k} · log(mean distance of the k nearest members of c in feature group s)

A class as near as 1/2 of another's distance gains b·log 2: in d dimensions the
density of a class falls with distance to the power d, so one weight a group
says how many dimensions its distances are worth, and groups that say the same
share it between them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

import numpy as np

from nearsay.arrays import evenly, row_blocks
from nearsay.errors import InputError
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FOLDS_LEFT_OUT, GroupPosterior, splits
from nearsay.posterior.log_linear import CANDIDATES, Cases, fit_weights, likeliest, stack
from nearsay.posterior.past_case_table import listed_classes

# Weights are few: more cases than this teach them nothing, and this much memory holds them.
MOST_CASES = 20_000
CASES_BYTES = 256 << 20

# Added to every distance, as a share of the usual one: a duplicate is near, not infinitely near.
FLOOR = 0.3

# With nothing to learn from, halving a distance doubles the odds.
UNTAUGHT = 1.0

# Worth of the belief that the pool may fail, in cases; below one, so that past cases decide.
BELIEF = 0.1
HALVINGS = 50


class Pooled(GroupPosterior):
    """Softmax of weighted log within-class distances; the weights by maximum likelihood on past cases.

    Parameters
    ----------
    model_failure : float, default=0.01
        The largest share of the probability that is spread evenly over all
        classes; how much of it is used is learned from past cases.
    members : sequence of int, default=(1, 4)
        How many nearest members of a class are averaged, one weight for each
        number. A number that the usual class could not fill when one of its
        rows is left out is lowered to what it can. Of a class with fewer
        members, or beyond the 16 nearest classes, whose first member alone is
        looked at, the mean is that of those there are.

    Attributes
    ----------
    weights_ : (n_groups, n_numbers)
    members_ : (n_numbers,) the numbers that are used.
    model_failure_ : float
        The share spread evenly.

    Examples
    --------
    >>> from nearsay.neighbors.index import NeighborIndex
    >>> X, labels = [[0.0], [1.0], [2.0], [5.0], [6.0], [7.5]], np.array([0, 0, 0, 1, 1, 1])
    >>> labeled = NeighborIndex().fit(X).with_labels(labels)
    >>> pool = Pooled().fit(labeled.leave_one_out(k=1, n_members=4), labels, n_classes=2)
    >>> pool.members_                           # left out, a row leaves two others in its class
    array([1, 2])
    >>> pool.proba(labeled.query([[3.0], [3.5], [4.5]], k=1, n_members=4)).round(2)
    array([[0.85, 0.15],
           [0.5 , 0.5 ],
           [0.03, 0.97]])
    """

    counts_votes = False

    def __init__(self, *, model_failure: float = 0.01, members: Sequence[int] = (1, 4)) -> None:
        self.model_failure = model_failure
        self.members = members

    @property
    def n_members(self) -> int:  # type: ignore[override]
        """How many members of each class are looked at."""
        return int(max(_check_members(self.members)))

    def fit(self, table: NeighborTable, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> Self:
        """Learn the weights of one feature group."""
        return self.fit_groups([table], labels, n_classes, rows)

    def fit_groups(
        self, tables: Sequence[NeighborTable], labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None
    ) -> Self:
        """Learn the weights of several feature groups together.

        Line i of every table is about row ``rows[i]``. A row that lacks a
        group has no neighbors and no classes there.
        """
        rows = np.arange(len(tables[0])) if rows is None else rows
        sizes = np.bincount(labels, minlength=n_classes)[labels[rows]]
        self.labels_, self.n_classes_ = labels, n_classes
        self.members_ = _possible_members(_check_members(self.members), sizes)
        self.floors_ = [FLOOR * _usual_distance(listed_classes(table)) for table in tables]
        cases = self._cases(tables, labels[rows], self._teachers(len(tables), rows))
        if len(cases) == 0:
            warnings.warn(
                "Every class has one row, so leaving it out leaves nothing to learn the pool's weights from:"
                " a distance half as long is taken to double the odds. Give at least two rows a class.",
                stacklevel=2,
            )
        self._learn(cases, len(tables))
        return self

    def _learn(self, cases: Cases, n_groups: int, start: np.ndarray | None = None) -> None:
        shape = (n_groups, len(self.members_))
        if len(cases) == 0:
            self.weights_, self.model_failure_ = np.full(shape, UNTAUGHT), self.model_failure
            return
        weights, p_true = fit_weights(cases, center=0.0, start=start)
        self.weights_ = weights.reshape(shape)
        self.model_failure_ = min(self.model_failure, failure_share(p_true, self.n_classes_))

    def leave_one_out_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities of past cases, one in ten at a time by the weights that the other nine teach.

        What else ``fit`` took from the table, the usual distance and the usual
        size of a class, does not tell the label of a case, and stays.
        """
        return self.leave_one_out_groups([table], rows)

    def leave_one_out_groups(self, tables: Sequence[NeighborTable], rows: np.ndarray | None = None) -> np.ndarray:
        """The same from several feature groups, as in ``fit_groups``."""
        if np.bincount(self.labels_, minlength=1).max() < 2:
            return self.proba_groups(tables)
        rows = np.arange(len(self.labels_)) if rows is None else rows
        p = np.empty((len(rows), self.n_classes_))
        teachers = self._teachers(len(tables), rows)
        cases = self._cases(tables, self.labels_[rows], teachers)
        for taught, asked in splits(self.labels_[rows], FOLDS_LEFT_OUT):
            others = copy(self)
            some = cases[np.flatnonzero(np.isin(teachers, taught))]
            others._learn(some, len(tables), start=self.weights_.ravel())
            p[asked] = others.proba_groups([table[asked] for table in tables])
        return p

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes) from one feature group; every row sums to 1."""
        return self.proba_groups([table])

    def proba_groups(self, tables: Sequence[NeighborTable]) -> np.ndarray:
        """Probabilities from several feature groups, the same as in ``fit_groups`` and in that order."""
        if len(tables) == 1 and listed_classes(tables[0]).numbers.shape[1] < self.n_classes_:
            return self._proba_of_listed(listed_classes(tables[0]))
        p = np.empty((len(tables[0]), self.n_classes_))
        for part in self._blocks(len(tables[0]), len(tables)):
            p[part] = self._softmax(self._features(tables, part))
        return p

    def _proba_of_listed(self, near: NearestClasses) -> np.ndarray:
        """The same where few of many classes are listed: all others are alike, so one score stands for them."""
        n, n_listed = near.numbers.shape
        listed = near.numbers >= 0
        places = np.where(listed, np.arange(n_listed), -1)
        far = np.empty((n, n_listed + 1, len(self.members_)))
        self._fill_features([NearestClasses(places, near.distances, near.beyond)], far)
        n_alike = self.n_classes_ - listed.sum(axis=1)
        scores = -(far @ self.weights_.ravel())
        scores[:, :-1][~listed] = -np.inf
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds *= (1 - self.model_failure_) / (odds[:, :-1].sum(axis=1) + n_alike * odds[:, -1])[:, None]
        odds += self.model_failure_ / self.n_classes_
        p = np.repeat(odds[:, -1:], self.n_classes_, axis=1)
        query, place = np.nonzero(listed)
        p[query, near.numbers[query, place]] = odds[query, place]
        return p

    def speaks_for(self, tables: Sequence[NeighborTable], these: np.ndarray, others: np.ndarray) -> np.ndarray:
        """How much each group raises the log odds of one class against another: (n_queries, n_groups)."""
        odds = np.empty((len(these), len(tables)))
        for part in self._blocks(len(these), len(tables)):
            features = self._features(tables, part)
            query = np.arange(len(features))
            nearer = features[query, others[part]] - features[query, these[part]]
            odds[part] = (nearer.reshape(len(query), *self.weights_.shape) * self.weights_).sum(axis=2)
        return odds

    def _teachers(self, n_groups: int, rows: np.ndarray) -> np.ndarray:
        """The lines that weights are learned from: of all rows that are not alone in their class, or an even choice."""
        usable = np.flatnonzero(np.bincount(self.labels_, minlength=self.n_classes_)[self.labels_[rows]] > 1)
        row_bytes = 8 * (min(self.n_classes_, CANDIDATES) + 1) * n_groups * len(self.members_)
        teachers: np.ndarray = usable[evenly(len(usable), max(1, min(MOST_CASES, CASES_BYTES // row_bytes)))]
        return teachers

    def _cases(self, tables: Sequence[NeighborTable], truth: np.ndarray, usable: np.ndarray) -> Cases:
        """What the weights are learned from."""
        parts = []
        everyone = len(usable) == len(truth)
        for part in self._blocks(len(usable), len(tables)):
            features = self._features(tables, part if everyone else usable[part])
            nearest = np.zeros(features.shape[:2])
            for first in range(0, features.shape[2], len(self.members_)):
                nearest += features[:, :, first]
            parts.append(likeliest(features, truth[usable[part]], nearest))
        if not parts:
            return Cases(np.empty((0, 1, 1)), np.empty((0, 1)), np.empty(0, np.int64))
        return stack(parts)

    def _blocks(self, n_queries: int, n_groups: int) -> Iterator[slice]:
        return row_blocks(n_queries, row_bytes=3 * 8 * self.n_classes_ * n_groups * len(self.members_))

    def _features(self, tables: Sequence[NeighborTable], part: slice | np.ndarray) -> np.ndarray:
        """(queries of this part, classes, groups × numbers) log mean distances."""
        groups = [listed_classes(table)[part] for table in tables]
        out = np.empty((len(groups[0]), self.n_classes_, len(groups) * len(self.members_)))
        self._fill_features(groups, out)
        return out

    def _fill_features(self, groups: Sequence[NearestClasses], out: np.ndarray) -> None:
        from nearsay.posterior.log_linear_kernels import log_mean_distances

        for number, (near, floor) in enumerate(zip(groups, self.floors_, strict=True)):
            first = number * len(self.members_)
            log_mean_distances(near.numbers, near.distances, near.beyond, self.members_, floor, first, out)

    def _softmax(self, features: np.ndarray) -> np.ndarray:
        scores = -(features @ self.weights_.ravel())
        scores -= scores.max(axis=1, keepdims=True)
        p: np.ndarray = np.exp(scores, out=scores)
        p /= p.sum(axis=1, keepdims=True)
        p *= 1 - self.model_failure_
        p += self.model_failure_ / self.n_classes_
        return p


def failure_share(p_true: np.ndarray, n_classes: int) -> float:
    """How much probability should be spread evenly, judged by what past cases gave to the truth.

    The share Δ that makes (1−Δ)·p + Δ/C most likely, with a tenth of a case
    of belief that the model may fail.

    >>> failure_share(np.array([0.9] * 99 + [1e-6]), n_classes=10) > 0.01 > failure_share(np.full(100, 0.9), 10) > 0
    True
    """
    even = 1 / n_classes
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):  # the log likelihood is concave in Δ: where it rises, the best lies above
        share = (low + high) / 2
        rise = float(np.sum((even - p_true) / ((1 - share) * p_true + share * even)))
        rise += BELIEF / share - BELIEF / (1 - share)
        low, high = (share, high) if rise > 0 else (low, share)
    return high


def _check_members(members: Sequence[int]) -> np.ndarray:
    numbers = np.unique(np.asarray(members))
    if numbers.size == 0 or numbers.dtype.kind not in "iu" or numbers[0] < 1:
        raise InputError(f"members must be whole numbers of at least 1, such as (1, 4); got {members!r}.")
    return numbers


def _possible_members(members: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Left out, a row leaves one fewer in its class: a mean over more would be of other things for the true class."""
    usual = int(np.median(sizes)) if len(sizes) else 1
    possible: np.ndarray = np.unique(np.minimum(members, max(1, usual - 1)))
    return possible


def _usual_distance(near: NearestClasses) -> float:
    """The median distance to the nearest class, of those that are not 0; 1 where all are."""
    nearest = near.distances[:, 0, 0] if near.distances.size else np.empty(0)
    positive = nearest[(nearest > 0) & (nearest < np.inf)]
    return float(np.median(positive)) if len(positive) else 1.0
