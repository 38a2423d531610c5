"""The log-linear pool: how far each class is, in every view of the rows, with weights learned from past cases.

    score of class c = −Σ_{s,m} b_{s,m} · log(mean distance of the m nearest members of c in view s)
                       + b_size · log(rows of c) + Σ_t b_t · log(p of model t for c)

Where rows have weights, the log likelihood of a past case counts as much as its
row, and so does a row in the size of its class; distances, and means of them, are
the same for all.

One member shows how near the class comes, many how dense it is around. A class
as near as 1/2 of another's distance gains b·log 2: in d dimensions the density
of a class falls with distance to the power d, so the weights of a view are as
many dimensions as its distances are worth, and redundant views share them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from nearsay.core.arrays import evenly, row_blocks
from nearsay.errors import InputError
from nearsay.neighbors.by_class.class_order_on_gpu import ClassesOnGpu
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FOLDS, FOLDS_LEFT_OUT, Posterior, splits
from nearsay.posterior.methods.past_case_table import listed_classes
from nearsay.posterior.methods.pool.log_linear import (
    PRECISION,
    Cases,
    WeightsFit,
    failure_share,
    fit_weights,
    fits_of_some,
    likeliest,
    n_candidates,
    stack,
    strictness,
)
from nearsay.posterior.methods.pool.pool_members import PoolMembers, TaughtFold, members_that_pay
from nearsay.posterior.methods.pool.pooled_features import (
    FLOOR,
    class_views,
    far_by_size,
    from_nearest,
    is_known,
    n_models,
    proba_of_listed,
    shared_members,
    softmax,
    usual_distance,
    usual_gaps,
    usual_size,
)
from nearsay.posterior.methods.pool.pooled_on_gpu import pooled_on_gpu
from nearsay.posterior.past_cases import MAX_PAST_CASES, possible_members
from nearsay.posterior.row_weights import relative_weights

# Weights are few: more cases than this teach them nothing, and this much memory holds them.
MOST_CASES = 20_000
CASES_BYTES = 256 << 20

# With nothing to learn from, halving a distance doubles the odds.
UNTAUGHT = 1.0

# Views are correlated. Were they equal, their weights would only add up, and the prior should hold each as many
# times as closely; were they independent, no closer. The truth lies between: by the root of their number. Feature
# groups measure different things, and do not count. A model gives probabilities already, so its weight is less than
# 1, not a few: past cases that are all right would let it grow without end.
MODEL_PRECISION = 10.0

# The first two views, the models and the sizes are expected to carry the pool. To many more views few cases would be
# overfitted: all weights are held to those that these few have alone, twice as closely as otherwise with so many cases,
# and with fewer by the third power of that ratio: nine times as closely with half as many.
CORE_VIEWS, CASES_TO_HOLD = 2, 1500

# So many cases say which members of the pool pay.
CASES_TO_DROP_BY = 2000


class Pooled(Posterior):
    """Softmax of weighted log within-class distances; the weights by maximum likelihood on past cases.

    Parameters
    ----------
    model_failure : float, default=0.01
        The largest share of the probability that is spread evenly over all
        classes; how much of it is used is learned from past cases.
    members : sequence of int, default=(1, 4, 16, 64)
        How many nearest members of a class are averaged, one weight for each
        number. A number that the usual class could not fill when one of its
        rows is left out is lowered to what it can. Of a class with fewer
        members the mean is that of those there are. Past the 16 nearest classes,
        the first member alone is used, and the log of the mean is taken to
        be as much larger as that of the 16th class usually is (``gaps_``).
    max_past_cases : int or None, default=10_000
        How many rows of a larger collection are asked about the others to learn from, at most; fewer where classes
        are many. None asks all.

    Attributes
    ----------
    weights_ : (n_views, n_numbers)
        For each feature group, and each further view of the rows.
    size_weight_ : float
        How much the log of a class's number of rows counts.
    model_weights_ : (n_models,)
        How much each companion model counts.
    members_ : (n_numbers,) the numbers that are used.
    gaps_ : (n_groups, n_numbers)
    model_failure_ : float
        The share spread evenly.
    strictness_ : float
        How many times as closely as usual the weights of views are held.

    Examples
    --------
    >>> from nearsay.neighbors.index import NeighborIndex
    >>> X, labels = [[0.0], [1.0], [2.0], [5.0], [6.0], [7.5]], np.array([0, 0, 0, 1, 1, 1])
    >>> labeled = NeighborIndex().fit(X).with_labels(labels)
    >>> pool = Pooled(members=(1, 2)).fit(labeled.leave_one_out(k=1, members=(1, 2)), labels, n_classes=2)
    >>> pool.proba(labeled.query([[3.0], [3.5], [4.5]], k=1, members=(1, 2))).round(2)
    array([[0.85, 0.15],
           [0.5 , 0.5 ],
           [0.03, 0.97]])
    """

    name = "pooled"
    counts_votes = False
    takes_weights = True
    _among: np.ndarray | None = None  # the rows that can be neighbors, where not all can
    strictness_ = 1.0
    of_groups = False  # whether tables are of feature groups, which measure different things; set before ``fit``
    of_table = False  # whether rows are those of a table with words or gaps, whose views may be held more closely

    def __init__(
        self,
        *,
        model_failure: float = 0.01,
        members: Sequence[int] = (1, 4, 16, 64),
        max_past_cases: int | None = MAX_PAST_CASES,
    ) -> None:
        self.model_failure = model_failure
        self.members = members
        self.max_past_cases = max_past_cases

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
        self._fit(tables, labels, n_classes, np.arange(len(tables[0])) if rows is None else rows)
        return self

    def _fit(
        self, tables: Sequence[NeighborTable], labels: np.ndarray, n_classes: int, rows: np.ndarray
    ) -> tuple[Cases, np.ndarray]:
        """``fit_groups``; gives the cases that it learned from, and their lines."""
        self.labels_, self.n_classes_ = labels, n_classes
        self._among = None
        self._take_sizes()
        groups = class_views(tables)
        self.members_ = shared_members(possible_members(self.members, labels), groups)
        self.floors_ = [FLOOR * usual_distance(near) for near in groups]
        self.gaps_ = np.array(
            [usual_gaps(near, floor, self._columns(near)) for near, floor in zip(groups, self.floors_, strict=True)]
        )
        teachers = self._teachers(tables, rows)
        cases = self._cases(tables, rows, teachers)
        if len(cases) == 0:
            warnings.warn(
                "Every class has one row, so leaving it out leaves nothing to learn the pool's weights from:"
                " a distance half as long is taken to double the odds. Give at least two rows a class.",
                stacklevel=3,
            )
        self.strictness_ = self._strictness(cases, len(groups), n_models(tables))
        self._learn(cases, len(groups), n_models(tables))
        return cases, teachers

    def _strictness(self, cases: Cases, n_views: int, n_models: int) -> float:
        if not self.of_table or not n_models or not len(cases):
            return 1.0
        n_views = min(n_views, CORE_VIEWS) if self._has_core(n_views) else n_views
        self.strictness_ = 1.0
        precision = self._precision(n_views, n_models, len(cases))
        is_of_view = np.arange(len(precision)) < n_views * len(self.members_)
        return strictness(cases.of_views(n_views * len(self.members_), n_models), precision, is_of_view)

    def over(self, labels: np.ndarray, n_classes: int, rows: np.ndarray) -> Self:
        """The same weights over other rows: the sizes of classes are those of the rows that can be neighbors."""
        other = super().over(labels, n_classes, rows)
        other._among = rows if len(rows) < len(labels) else None
        other._take_sizes()
        return other

    def _take_sizes(self) -> None:
        sizes, worth = self._sizes()
        self._far_by_size = far_by_size(sizes, worth, usual_size(sizes, worth))

    def _learn(self, cases: Cases, n_views: int, n_models: int) -> None:
        fit = None
        if len(cases):
            prior = self._center(n_views, n_models, cases), self._precision(n_views, n_models, len(cases))
            fit = WeightsFit(*fit_weights(cases, *prior), cases.worth)
        self._take(fit, n_views, n_models)

    def _take(self, fit: WeightsFit | None, n_views: int, n_models: int) -> None:
        """Weights of all features as they were fitted; None where there was nothing to learn from."""
        n_weights = n_views * len(self.members_)
        weights = np.append(np.full(n_weights + n_models, UNTAUGHT), 0.0) if fit is None else fit.weights
        of_views, self.model_weights_, size = np.split(weights, [n_weights, -1])
        self.weights_, self.size_weight_ = of_views.reshape(n_views, -1), float(size[0])
        self.model_failure_ = self.model_failure
        if fit is not None:
            self.model_failure_ = min(self.model_failure, failure_share(fit.p_true, self.n_classes_, fit.worth))

    def _center(self, n_views: int, n_models: int, cases: Cases) -> np.ndarray:
        """Where the prior has its mean: at zero, or at what the few members that are to carry the pool have alone."""
        n_weights = n_views * len(self.members_)
        if not self._has_core(n_views):
            return np.zeros(n_weights + n_models + 1)
        n_of_few = CORE_VIEWS * len(self.members_)
        precision = self._precision(CORE_VIEWS, n_models, len(cases))
        few, _ = fit_weights(cases.of_views(n_of_few, n_models), 0.0, precision)
        return np.insert(few, n_of_few, np.zeros(n_weights - n_of_few))

    def _precision(self, n_views: int, n_models: int, n_cases: int) -> np.ndarray:
        """How closely the prior holds each weight."""
        n_weights = n_views * len(self.members_)
        precision = np.full(n_weights + n_models + 1, PRECISION * (1.0 if self.of_groups else np.sqrt(n_views)))
        precision[:n_weights] *= self.strictness_
        precision[n_weights:-1] = MODEL_PRECISION
        return (1 + (CASES_TO_HOLD / n_cases) ** 3) * precision if self._has_core(n_views) else precision

    def _has_core(self, n_views: int) -> bool:
        """Whether the first views are expected to carry the pool; one view more is no burden."""
        return n_views > CORE_VIEWS + 1 and not self.of_groups

    def members_that_pay(self, tables: Sequence[NeighborTable], rows: np.ndarray) -> PoolMembers:
        """Which of the views (first) and models answer past cases better than the others do without them.

        ``tables`` and ``rows`` are what it was fitted to.
        """
        n_views, n_models = len(self.weights_), len(self.model_weights_)
        teachers = self._teachers(tables, rows)
        teachers = teachers[evenly(len(teachers), CASES_TO_DROP_BY)]
        cases = self._cases(tables, rows, teachers)
        folds = []
        for fold, others, curvature in self._taught_by_the_rest(cases, teachers, rows):
            held_out = cases[np.flatnonzero(np.isin(teachers, fold))]
            if curvature is not None and len(held_out):
                folds.append(TaughtFold(others._all_weights, curvature, held_out))
        numbers = np.arange(n_views * len(self.members_)).reshape(n_views, -1)
        columns = [*numbers, *(np.array([numbers.size + model]) for model in range(n_models))]
        if not folds:
            return PoolMembers(np.nan, {}, (), 0)
        return members_that_pay(folds, columns, self.model_failure_, self.n_classes_)

    @property
    def _all_weights(self) -> np.ndarray:
        """In the order of the features: views × numbers, models, the size."""
        return np.array([*self.weights_.ravel(), *self.model_weights_, self.size_weight_])

    def leave_one_out_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities of past cases, one in ten at a time by the weights that the other nine teach.

        The usual distance and size of a class do not depend on the label of a case, and stay.
        """
        return self.leave_one_out_groups([table], rows)

    def leave_one_out_groups(self, tables: Sequence[NeighborTable], rows: np.ndarray | None = None) -> np.ndarray:
        """The same from several feature groups, as in ``fit_groups``."""
        if np.bincount(self.labels_, minlength=1).max() < 2:
            return self.proba_groups(tables)
        rows = np.arange(len(self.labels_)) if rows is None else rows
        p = np.empty((len(rows), self.n_classes_))
        teachers = self._teachers(tables, rows)
        for lines, of_lines in self._by_folds(
            self._cases(tables, rows, teachers), teachers, tables, rows, FOLDS_LEFT_OUT
        ):
            p[lines] = of_lines
        return p

    def fit_and_leave_out(
        self, tables: Sequence[NeighborTable], labels: np.ndarray, n_classes: int, rows: np.ndarray, n_folds: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """``fit_groups``, then lines and their probabilities by what the other folds teach; features are made once."""
        cases, teachers = self._fit(tables, labels, n_classes, rows)
        return self._by_folds(cases, teachers, tables, rows, n_folds)

    def _by_folds(
        self,
        cases: Cases,
        teachers: np.ndarray,
        tables: Sequence[NeighborTable],
        rows: np.ndarray,
        n_folds: int,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Lines and their probabilities, by weights that the ``cases`` of the other folds teach."""
        for fold, others, _ in self._taught_by_the_rest(cases, teachers, rows, n_folds):
            some_tables = [table[fold] for table in tables]
            yield fold, others.without_the_case(others.proba_groups(some_tables), some_tables, rows[fold])

    def _taught_by_the_rest(
        self, cases: Cases, teachers: np.ndarray, rows: np.ndarray, n_folds: int = FOLDS
    ) -> Iterator[tuple[np.ndarray, Self, np.ndarray | None]]:
        """Lines of each fold, a pool that the ``cases`` of the others teach, and its curvature; None of no cases."""
        n_views, n_models = len(self.weights_), len(self.model_weights_)
        parts = list(splits(self.labels_[rows], n_folds, self.groups_of(rows)))
        center_of, precision_of = (partial(each, n_views, n_models) for each in (self._center, self._precision))
        taught = (np.isin(teachers, rest) for rest, _ in parts)
        fits = fits_of_some(cases, taught, self._all_weights, center_of, precision_of)
        for (_, fold), fit in zip(parts, fits, strict=True):
            others = copy(self)
            others._take(fit, n_views, n_models)
            yield fold, others, None if fit is None else fit.curvature

    def _sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """How many rows each class has, and how much they count together."""
        rows = slice(None) if self._among is None else self._among
        labels = self.labels_[rows]
        sizes = np.bincount(labels, minlength=self.n_classes_)
        if self.weights is None:
            return sizes, sizes
        return sizes, np.bincount(labels, self.weights.values[rows], minlength=self.n_classes_)

    def without_the_case(self, p: np.ndarray, tables: Sequence[NeighborTable], rows: np.ndarray) -> np.ndarray:
        """The same with one row less in the class of each case, as when the case is new.

        A size only scales the odds of its class, so the others' shares keep their proportions.
        """
        truth, (sizes, worth) = self.labels_[rows], self._sizes()
        some = tables[0].candidates
        place = truth if some is None else some.truth
        case = 1 if self.weights is None else self.weights.values[rows]
        without = far_by_size(sizes[truth] - 1, worth[truth] - case, usual_size(sizes, worth))
        farther = without - self._far_by_size[truth]
        odds = np.where(is_known(class_views(tables), tables[0].model_log_p), np.exp(-self.size_weight_ * farther), 1.0)
        even, cases = self.model_failure_ / self.n_classes_, np.arange(len(p))
        p = p - even
        share = p[cases, place] / (1 - self.model_failure_)
        p[cases, place] *= odds
        p /= (1 + share * (odds - 1))[:, None]
        p += even
        return p

    def proba(self, table: NeighborTable) -> np.ndarray:
        """Probabilities (n_queries, n_classes) from one feature group; every row sums to 1."""
        return self.proba_groups([table])

    def proba_groups(self, tables: Sequence[NeighborTable]) -> np.ndarray:
        """Probabilities from several feature groups, the same as in ``fit_groups`` and in that order.

        Of past cases with candidates those of each candidate, (n_cases, n_candidates).
        """
        views, some = class_views(tables), tables[0].candidates
        on_gpu = self.proba_on_gpu(tables[0]) if len(tables) == 1 else None
        if on_gpu is not None:
            return np.asarray(on_gpu.cpu().numpy())
        lists_few = some is None and views[0].numbers.shape[1] < self.n_classes_
        if lists_few and len(views) == 1 and tables[0].model_log_p is None:
            return self._proba_of_listed(views[0])
        p = np.empty((len(tables[0]), self._width(tables)))
        for part in self._blocks(len(p), tables):
            scores = -(self._features(tables, part) @ self._all_weights)
            offsets = None if some is None else some.offsets[part]
            p[part] = softmax(scores, offsets, self.model_failure_, self.n_classes_)
        return p

    def proba_on_gpu(self, table: NeighborTable) -> Any | None:
        near = listed_classes(table)
        if not isinstance(near, ClassesOnGpu) or table.further or table.model_log_p is not None:
            return None
        by_size = self.size_weight_ * self._far_by_size
        learned = self._columns(near), self.floors_[0], self.gaps_[0], self.weights_[0]
        return pooled_on_gpu(near, *learned, by_size, self.model_failure_)

    def _proba_of_listed(self, near: NearestClasses) -> np.ndarray:
        """The same where few of many classes are listed: all others are alike, so one score stands for them."""
        n, n_listed = near.numbers.shape
        places = np.where(near.numbers >= 0, np.arange(n_listed), -1)
        far = np.empty((n, n_listed + 1, len(self.members_)))
        self._fill_features([replace(near, numbers=places)], far)
        scores = -(far @ self.weights_.ravel())
        by_size = self.size_weight_ * (self._far_by_size - self._far_by_size.min())
        return proba_of_listed(near.numbers, scores, np.exp(-by_size), self.model_failure_)

    def log_odds(self, tables: Sequence[NeighborTable], these: np.ndarray, others: np.ndarray) -> np.ndarray:
        """How much each group raises the log odds of one class against another: (n_queries, n_groups)."""
        odds = np.empty((len(these), len(tables)))
        # The weights of each table stand together, those of its views; models are of the first.
        starts = len(self.members_) * np.cumsum([0, *(1 + len(table.further) for table in tables[:-1])])
        for part in self._blocks(len(these), tables):
            features = self._features(tables, part)
            query = np.arange(len(features))
            nearer = (features[query, others[part]] - features[query, these[part]]) * self._all_weights
            odds[part] = np.add.reduceat(nearer[:, : self.weights_.size], starts, axis=1)
            odds[part, 0] += nearer[:, self.weights_.size : -1].sum(axis=1)
        return odds

    def _teachers(self, tables: Sequence[NeighborTable], rows: np.ndarray) -> np.ndarray:
        """The lines that weights are learned from: of all rows that are not alone in their class, or an even choice."""
        usable = np.flatnonzero(np.bincount(self.labels_, minlength=self.n_classes_)[self.labels_[rows]] > 1)
        row_bytes = 8 * n_candidates(self.n_classes_) * self._n_features(tables)
        return usable[evenly(len(usable), max(1, min(MOST_CASES, CASES_BYTES // row_bytes)))]

    def _cases(self, tables: Sequence[NeighborTable], rows: np.ndarray, usable: np.ndarray) -> Cases:
        """What the weights are learned from: the ``usable`` lines, line i being about row ``rows[i]``."""
        parts, some = [], tables[0].candidates
        everyone = len(usable) == len(rows)
        for part in self._blocks(len(usable), tables):
            lines = part if everyone else usable[part]
            features = self._features(tables, lines)
            if some is not None:
                worth = relative_weights(self.weights, rows[usable[part]])
                parts.append(Cases(features, some.offsets[lines], some.truth[lines], worth))
                continue
            nearest = np.zeros(features.shape[:2])
            n_of_views = features.shape[2] - 1 - n_models(tables)
            for number in (*range(0, n_of_views, len(self.members_)), *range(n_of_views, features.shape[2] - 1)):
                nearest += from_nearest(features[:, :, number])  # of nearest members, and of models
            of_part = rows[usable[part]]
            parts.append(likeliest(features, self.labels_[of_part], nearest, relative_weights(self.weights, of_part)))
        if not parts:
            return Cases(np.empty((0, 1, 1)), np.empty((0, 1)), np.empty(0, np.int64))
        return stack(parts)

    def _n_features(self, tables: Sequence[NeighborTable]) -> int:
        return len(class_views(tables)) * len(self.members_) + n_models(tables) + 1

    def _width(self, tables: Sequence[NeighborTable]) -> int:
        """How many classes of each line have features: all, or the candidates of past cases."""
        some = tables[0].candidates
        return self.n_classes_ if some is None else some.width

    def _blocks(self, n_queries: int, tables: Sequence[NeighborTable]) -> Iterator[slice]:
        return row_blocks(n_queries, row_bytes=3 * 8 * self._width(tables) * self._n_features(tables))

    def _features(self, tables: Sequence[NeighborTable], part: slice | np.ndarray) -> np.ndarray:
        """(queries of this part, classes, features): views × numbers log mean distances, −log p of models, size."""
        views = [view[part] for view in class_views(tables)]
        out = np.empty((len(views[0]), self._width(tables), self._n_features(tables)))
        self._fill_features(views, out)
        log_p = None if tables[0].model_log_p is None else tables[0].model_log_p[part]
        if log_p is not None:
            out[:, :, -1 - n_models(tables) : -1] = -log_p
        # Of a query without any group nothing is known, not even that: all classes are alike.
        some = tables[0].candidates
        by_size = self._far_by_size if some is None else some[part].take(self._far_by_size)
        out[:, :, -1] = is_known(views, log_p)[:, None] * by_size
        return out

    def _fill_features(self, groups: Sequence[NearestClasses], out: np.ndarray) -> None:
        from nearsay.posterior.methods.pool.log_linear_kernels import log_mean_distances

        for number, (near, floor) in enumerate(zip(groups, self.floors_, strict=True)):
            first = number * len(self.members_)
            log_mean_distances(*near.arrays, self._columns(near), floor, self.gaps_[number], first, out)

    def _columns(self, near: NearestClasses) -> np.ndarray:
        """Where the means of this table are of the numbers that are used."""
        missing = set(self.members_.tolist()) - set(near.members)
        if missing:
            raise InputError(
                f"This pool averages {self.members_.tolist()} members, but the table has the means of"
                f" {list(near.members)}. Search with members={tuple(self.members_.tolist())}."
            )
        return np.searchsorted(near.members, self.members_)
