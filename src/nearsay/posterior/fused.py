"""One system of neighbors for each feature group, and one answer from all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import evenly, places_among, row_blocks
from nearsay.core.parallel import in_jobs
from nearsay.core.settings import check_choice
from nearsay.core.validation import checked_rows, checked_rows_and_labels
from nearsay.data.content_order import content_order
from nearsay.data.rows import as_ids
from nearsay.distances.named import with_parameters
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior
from nearsay.posterior.choice.fit_checks import check_answering, check_n_neighbors, is_auto, posteriors_to_try, seed_of
from nearsay.posterior.choice.model_choice import (
    CASES_TO_CHOOSE_BY,
    Choices,
    Chooser,
    ModelCandidate,
    neighbors_to_try,
    views_to_try,
)
from nearsay.posterior.choice.nested import thirds, worth_nesting
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.evidence import EvidenceList
from nearsay.posterior.evidence.fused_evidence import FusedEvidence, fused_evidence
from nearsay.posterior.evidence.records import Records, records_of_answers
from nearsay.posterior.methods.fusion import Fusion
from nearsay.posterior.past_cases import possible_members, put_in, rows_judged, rows_not_judged, sample_of
from nearsay.posterior.priors import Priors, PriorsLike, log_frequencies
from nearsay.posterior.row_weights import HoldsRowsThatCount, rows_that_count
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.votes import neighbor_labels, winners

EXPONENTS = ("learned",)
# Products of the same numbers in another order differ in their last digits; they count as equal.
SAME = 1e-13


class FusedClassifier(HoldsRowsThatCount, ClassifierMixin, BaseEstimator):
    """Class probabilities from several feature groups: the product of what their neighbors say.

    Each group has its own neighbors and its own posterior; the groups are
    multiplied (eq. 3 of Mallah & Orwell) and normalized, in logs. A row may
    lack a group (NaN in its columns): it is no neighbor there, and as a query
    it is answered by the groups it has. The posterior "pooled" weighs all
    groups together instead.

    Parameters
    ----------
    feature_groups : {name: columns} or None, default=None
        Columns as a slice, or as a list of numbers or of names (for a
        DataFrame); ``LabeledRows.feature_groups`` fits. None takes all
        columns as one group.
    base : NeighborClassifier, default=None
        What each group uses: its ``n_neighbors``, ``posterior``, ``distance``
        and so on. "auto" for any of these chooses for all groups together, by
        the leave-one-out log posterior of the fused answer, and may leave a
        group out; ``choices_`` shows what was tried. ``metric`` may also be
        a list: each group is then seen by each of them.
    exponents : None or "learned", default=None
        None is eq. (3). "learned" gives each group a power that makes past
        cases most likely, so that groups that repeat each other do not count
        twice.
    priors : "uniform", (n_classes,) numbers, {label: number} or None, default=None
        How often each class is to be expected among the queries, in the order
        of ``classes_``. The frequencies of the training rows, which every
        group that speaks brings into the product, are divided out, and these
        are put in (eq. 1). None is the plain product.

    Attributes
    ----------
    classes_ : (n_classes,) the labels, sorted.
    views_ : list of View
        The groups that are used, each with its metric.
    exponents_ : (n_views,)
    posterior_ : Fusion
    n_neighbors_ : int
    choices_ : Choices
        Only with "auto": everything that was tried, best first.
    labels_ : (n_rows,) the class number of every training row; −1 where all rows of its class have weight 0.
    ids_ : (n_rows,) the names of the training rows, or None where none were given to ``fit``.

    Examples
    --------
    The first column says "low", the second has nothing to say about the query:

    >>> X = [[0.0, 5.0], [1.0, 6.0], [8.0, 5.0], [9.0, 6.0]]
    >>> votes = NeighborClassifier(2, posterior="proportional")
    >>> fused = FusedClassifier({"size": slice(0, 1), "hue": slice(1, 2)}, votes)
    >>> fused = fused.fit(X, ["low", "low", "high", "high"])
    >>> fused.predict([[0.5, np.nan]])
    array(['low'], dtype='<U4')
    >>> fused.predict_proba([[0.5, np.nan], [np.nan, np.nan]]).round(3)      # high, low
    array([[0.005, 0.995],
           [0.5  , 0.5  ]])
    """

    choices_: Choices
    _records: Records | None

    def __init__(
        self,
        feature_groups: Mapping[str, Any] | None = None,
        base: NeighborClassifier | None = None,
        *,
        exponents: str | None = None,
        priors: PriorsLike = None,
    ) -> None:
        self.feature_groups = feature_groups
        self.base = base
        self.exponents = exponents
        self.priors = priors

    @in_jobs
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, ids: Any = None) -> FusedClassifier:
        """Hold the rows, search each group, and learn from the collection's own past cases.

        Parameters
        ----------
        X : (n_rows, n_columns) numbers; NaN where a row lacks a group.
        y : (n_rows,) labels.
        sample_weight : (n_rows,) numbers of at least 0, optional
            How much each row counts, as in ``NeighborClassifier.fit``.
        ids : (n_rows,) names of the rows, as in ``NeighborClassifier.fit``.
        """
        base = self._check_settings()
        X, y = checked_rows_and_labels(self, X, y, finite=False)  # NaN may be missing groups; views look at the rest
        check_classification_targets(y)
        self.ids_ = as_ids(ids, len(y))
        self._held = self._aside = None  # until all is learned, rows are numbered as they are held
        held, self._weights = rows_that_count(sample_weight, len(y))
        if held is None:
            return self._fit_rows(base, X, y)
        self._fit_rows(base, X[held], y[held])
        self.labels_ = places_among(self.classes_, y)
        self._held, self._aside = held, np.delete(X, held, axis=0)
        return self

    def _fit_rows(self, base: NeighborClassifier, X: np.ndarray, y: np.ndarray) -> FusedClassifier:
        """Fit to rows that all count."""
        if not is_auto(base.n_neighbors):
            check_n_neighbors(base.n_neighbors, len(X))
        self.classes_, self.labels_ = np.unique(y, return_inverse=True)
        self._priors = Priors.of(self.priors, self.classes_, self.labels_, self._weights)
        self._records = None
        self._seed = seed_of(base.random_state)
        groups = _as_groups(self.feature_groups, X.shape[1], getattr(self, "feature_names_in_", None))
        if hasattr(self, "choices_"):
            del self.choices_  # of an earlier fit
        given = with_parameters(base.metric, base.metric_params)
        distances = given if isinstance(given, list) else [given]
        views = views_to_try(groups, distances, base.search, X, self.labels_, len(self.classes_), n_jobs=base.n_jobs)
        _warn_of_empty_rows(views.values(), len(X))
        makers = posteriors_to_try(base, every=True, weights=self._weights, of_groups=True)
        self._order = content_order(X, self.labels_)
        way = self._way(base, views, makers, len(X))
        self.views_ = [views[key] for key in way.views]
        self.n_neighbors_ = way.n_neighbors
        self._learn(makers[way.posterior]())
        nests = hasattr(self, "choices_") and worth_nesting(len(X), len(self.classes_), base.n_neighbors)
        self._nested: list[tuple[np.ndarray, np.ndarray]] = []
        self._taught_by = X if nests else None
        return self

    def _judged_by_other_choices(self, X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(row numbers, their probabilities): each row answered by all others, in a way that was learned without it."""
        base, y = self._check_settings(), self.classes_[self._labels]
        for rest, rows in thirds(self._order, self._labels):
            other = copy(self)
            other._held, other._weights = None, None if self._weights is None else self._weights[rest]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said when this classifier was fitted
                other._fit_rows(base, X[rest], y[rest])
            if len(other.classes_) < len(self.classes_):  # names that a file from elsewhere gives to two classes
                continue
            try:
                other.views_ = [view.over(X, self._labels, len(self.classes_)) for view in other.views_]
            except InputError:  # a distance that takes the rows it was chosen by, but not all
                continue
            other.labels_, other._weights = self._labels, self._weights
            other.posterior_ = other.posterior_.over(other.labels_, other._shown, other._weights)
            tables = other._past_cases(rows)
            yield rows, other._settled(other.posterior_.proba_without(tables, rows), tables)[0]

    def _answer_otherwise(self, p: np.ndarray, rows: np.ndarray | None) -> None:
        """Put in, in place, what past cases are told in the ways chosen without them; line i is about ``rows[i]``."""
        taught_by = self._taught_by  # other threads may be asking
        if taught_by is not None:
            self._nested = list(self._judged_by_other_choices(taught_by))
            self._taught_by = None
        for others, of_others in self._nested:
            put_in(p, rows, others, of_others)

    def _way(
        self,
        base: NeighborClassifier,
        views: dict[tuple[int, int], View],
        makers: Mapping[str, Callable[[], Posterior]],
        n_rows: int,
    ) -> ModelCandidate:
        """What was asked for; where that leaves something open, what past cases choose."""
        left_open = is_auto(base.posterior) or is_auto(base.metric) or is_auto(base.n_neighbors)
        if not left_open:
            return ModelCandidate(next(iter(makers)), int(base.n_neighbors), tuple(views))
        ks = neighbors_to_try(n_rows - 1) if is_auto(base.n_neighbors) else [int(base.n_neighbors)]
        chooser = Chooser(
            views,
            makers,
            self.labels_,
            len(self.classes_),
            ks=ks,
            rows=self._order[evenly(n_rows, CASES_TO_CHOOSE_BY)],
            exponents=self.exponents,
            weights=self._weights,
        )
        way = chooser.choose(together=True)
        self.choices_ = chooser.report()
        return way

    def _learn(self, posterior: Posterior) -> None:
        self._members = possible_members(posterior.members, self.labels_)
        tables: Sequence[NeighborTable | None] = [None] * len(self.views_)
        self._rows_judged = None
        if posterior.takes_rows:
            n, k, n_classes = len(self.labels_), self.n_neighbors_, len(self.classes_)
            places = rows_judged(n, k, self._members, n_classes, len(self.views_))
            self._rows_judged = self._order if places is None else self._order[places]
        if self._learns_from_past_cases(posterior):
            tables = self._past_cases(self._rows_judged)
        self.posterior_ = Fusion(posterior, self.exponents)
        self.posterior_.fit(tables, self.labels_, len(self.classes_), self._rows_judged, shown=self._shown)
        self.exponents_ = self.posterior_.exponents_

    @property
    def _shown(self) -> np.ndarray:
        """Whether any row of a class has a group: (n_views, n_classes)."""
        return np.stack([view.shown for view in self.views_])

    def _learns_from_past_cases(self, posterior: Posterior) -> bool:
        return posterior.needs_past_cases or self.exponents == "learned"

    def _past_cases(self, rows: np.ndarray | None) -> list[NeighborTable]:
        return [view.past_cases(self.n_neighbors_, self._members, rows) for view in self.views_]

    @in_jobs
    def neighbors(self, X: Any) -> list[NeighborTable]:
        """For each of ``views_`` the nearest training rows of every query; −1 all along where it lacks the group."""
        return [self._as_given(table) for table in self._neighbors(X)]

    def _neighbors(self, X: Any) -> list[NeighborTable]:
        check_is_fitted(self)
        return self._neighbors_of(checked_rows(self, X, finite=False, reset=False, ensure_min_samples=0))

    def _neighbors_of(self, X: np.ndarray) -> list[NeighborTable]:
        return [view.neighbors(X, self.n_neighbors_, self._members) for view in self.views_]

    @in_jobs
    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every query: (n_queries,)."""
        return self._names(self._answer(self._neighbors(X))[1])

    @in_jobs
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_queries, n_classes), columns as in ``classes_``; every row sums to 1.

        A query without any group gets the priors. Among equals the one that
        ``predict`` names stands one rounding step higher.
        """
        return self._answer(self._neighbors(X))[0]

    @in_jobs
    def leave_one_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of the training rows, each answered by the others.

        A row is neither among its neighbors nor among the past cases that the
        posteriors and the exponents learned from, and among fewer than 2,000
        rows it had no say in what was chosen, as in ``NeighborClassifier``.
        """
        check_is_fitted(self)
        return self._for_every_row(self._left_out(), lambda: self._answer(self._neighbors_of(self._aside))[0])

    def _left_out(self) -> np.ndarray:
        """The same of the rows that are held."""
        rows = self._rows_judged
        tables = self._past_cases(rows)
        judged = self._settled(self.posterior_.leave_one_out_proba(tables), tables)[0]
        p = judged
        if rows is not None:
            p = np.empty((len(self._labels), len(self.classes_)))
            p[rows] = judged
            for others in rows_not_judged(rows, len(p)):
                p[others] = self._answer(self._past_cases(others))[0]
        self._answer_otherwise(p, None)
        return p

    @in_jobs
    def explain(self, X: Any) -> EvidenceList[FusedEvidence]:
        """The evidence for every query, group by group, from one search.

        The list also carries ``predictions``, ``probabilities`` and ``table``,
        equal to what ``predict``, ``predict_proba`` and ``neighbors`` give.
        Records are as in ``NeighborClassifier``.
        """
        tables = self._neighbors(X)
        p, best = self._answer(tables)
        record = self._record_of(p.max(axis=1, initial=0.0))
        shown = [self._as_given(table) for table in tables]
        speaks_for = partial(self.posterior_.speaks_for, tables)
        found = fused_evidence(speaks_for, self.views_, shown, p, best, self.labels_, self.classes_, record, self.ids_)
        return EvidenceList(found, predictions=self._names(best), probabilities=p, table=shown)

    def _record_of(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many past cases had a probability like each p, and how many of them were right."""
        if self._records is None:
            rows = np.arange(len(self._labels)) if self._rows_judged is None else self._rows_judged
            if self._learns_from_past_cases(self.posterior_.posterior):
                tables = self._past_cases(rows)
                past = self._settled(self.posterior_.recorded_proba(tables), tables)[0]
            else:  # nothing was learned from any row, so that a few will do
                rows = sample_of(rows, self._seed)
                past = self._answer(self._past_cases(rows))[0]
            self._answer_otherwise(past, rows)
            self._records = records_of_answers(past, self._labels, rows, self._priors, self._weights)
        return self._records.like(p)

    def _answer(self, tables: list[NeighborTable]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities and the winning class numbers."""
        return self._settled(self.posterior_.proba(tables), tables)

    def _settled(self, p: np.ndarray, tables: list[NeighborTable]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities times priors, ties broken, and the winning class numbers."""
        if self._priors is not None:
            self._priors.put_in(p, self._log_frequencies(tables))
        tie_break = (self.base or NeighborClassifier()).tie_break
        best = np.empty(len(p), np.int64)
        for part in row_blocks(len(p), row_bytes=8 * 4 * len(self.classes_)):
            few = [table[part] for table in tables]
            best[part] = settle_ties(p[part], few, self._labels, tie_break, self._seed)
        return p, best

    def _log_frequencies(self, tables: list[NeighborTable]) -> np.ndarray:
        """The training frequencies that are in the answers to each query, as logs: (n_queries, n_classes).

        Every group that has a say in a product brings them with it, to the
        power of its exponent; a pool holds them once.
        """
        speaks = np.stack([table.indices[:, 0] >= 0 for table in tables], axis=1)
        n_classes = len(self.classes_)
        if self.posterior_.pools:
            return np.outer(speaks.any(axis=1), log_frequencies(self._labels, n_classes, self._weights))
        of_groups = [
            log_frequencies(
                view.labeled_.labels, n_classes, None if self._weights is None else self._weights[view.rows_]
            )
            for view in self.views_
        ]
        brought: np.ndarray = (speaks * self.exponents_) @ np.stack(of_groups)
        return brought

    def _names(self, numbers: np.ndarray) -> np.ndarray:
        names: np.ndarray = self.classes_[numbers]
        return names

    @property
    def n_jobs(self) -> int | None:
        """Threads: what ``base`` says."""
        return self.base.n_jobs if isinstance(self.base, NeighborClassifier) else None

    def _check_settings(self) -> NeighborClassifier:
        base = NeighborClassifier() if self.base is None else self.base
        if not isinstance(base, NeighborClassifier):
            raise InputError(f"base must be a NeighborClassifier, which every feature group then uses; got {base!r}.")
        if base.priors is not None:
            raise InputError(
                f"base has priors={base.priors!r}, but the answers of groups are multiplied before priors are put in."
                " Pass them to FusedClassifier(priors=…) instead."
            )
        if self.exponents is not None:
            check_choice("exponents", self.exponents, EXPONENTS, " None is the plain product.")
        check_answering(base)
        return base

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def settle_ties(
    p: np.ndarray, tables: Sequence[NeighborTable], labels: np.ndarray, tie_break: str, seed: int
) -> np.ndarray:
    """The winners, raised in place by one rounding step where they were equal to others.

    With "nearest" the class wins that is nearest in all groups taken
    together: its nearest member's distance in units of the k-th neighbor's,
    added up. Where that is equal too, the nearest neighbor of the first group
    decides, then that of the second, and so on.
    """
    highest = p.max(axis=1, keepdims=True)
    tied = p >= highest * (1 - SAME)
    if tie_break == "nearest":
        contested = np.flatnonzero(tied.sum(axis=1) > 1)
        far = sum(_how_far(table[contested], labels, p.shape[1]) for table in tables)
        far = np.where(tied[contested], far, np.inf)
        tied[contested] = far == far.min(axis=1, keepdims=True)
    best = winners(tied, _side_by_side(tables), labels, tie_break, seed)
    query = np.flatnonzero((p >= highest * (1 - SAME)).sum(axis=1) > 1)
    p[query, best[query]] = np.nextafter(highest[query, 0], np.inf)
    return best


def _how_far(table: NeighborTable, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """The distance of each class's nearest neighbor as a share of the k-th's; 2 where it has none there.

    >>> table = NeighborTable(np.array([[1, 0, 2]]), np.array([[1.0, 2.0, 4.0]]))
    >>> _how_far(table, np.array([0, 2, 2]), n_classes=3)
    array([[0.5 , 2.  , 0.25]])
    """
    said = neighbor_labels(table, labels)
    last = np.where(np.isfinite(table.distances), table.distances, 0.0).max(axis=1, keepdims=True)
    shares = np.divide(table.distances, last, out=np.zeros_like(table.distances), where=last > 0)
    far = np.full((len(table), n_classes + 1), 2.0)  # the last column takes who is missing
    for place in range(table.n_neighbors - 1, -1, -1):
        far[np.arange(len(table)), said[:, place]] = shares[:, place]
    return far[:, :-1]


def _side_by_side(tables: Sequence[NeighborTable]) -> NeighborTable:
    """The neighbors of all groups in one line: the nearest of each group, then the second of each, and so on."""
    indices = np.stack([table.indices for table in tables], axis=2)
    distances = np.stack([table.distances for table in tables], axis=2)
    return NeighborTable(indices.reshape(len(indices), -1), distances.reshape(len(indices), -1))


def _as_groups(given: Any, n_columns: int, names: Any) -> dict[str, Any]:
    """Feature groups as {name: slice or column numbers}."""
    if given is None:
        return {"all": slice(None)}
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            'feature_groups must name groups of columns, such as {"shape": slice(0, 64), "hue": [64, 65]};'
            f" got {given!r}."
        )
    return {str(name): _as_columns(name, columns, n_columns, names) for name, columns in given.items()}


def _as_columns(name: Any, columns: Any, n_columns: int, names: Any) -> Any:
    if isinstance(columns, slice):
        chosen = list(range(n_columns))[columns]
        beyond = max(columns.start or 0, columns.stop or 0) > n_columns
    else:
        known = {} if names is None else {column: number for number, column in enumerate(names)}
        chosen = [known.get(column, column) for column in np.atleast_1d(np.asarray(columns)).tolist()]
        beyond = not all(isinstance(column, int) and 0 <= column < n_columns for column in chosen)
    if not chosen or beyond:
        raise InputError(
            f"The feature group {name!r} asks for the columns {columns!r}; X has the columns 0 … {n_columns - 1}"
            + (f", named {', '.join(map(str, names))}." if names is not None else ".")
        )
    return columns if isinstance(columns, slice) else np.array(chosen)


def _warn_of_empty_rows(views: Iterable[View], n_rows: int) -> None:
    """A training row without any group teaches nothing."""
    empty = np.ones(n_rows, np.bool_)
    for view in views:
        empty[view.rows_] = False
    rows = np.flatnonzero(empty)
    if len(rows):
        warnings.warn(
            f"{len(rows)} rows have a missing value (NaN) in every feature group, row {rows[0]} first;"
            " there is nothing to compare them by, so they are left aside.",
            stacklevel=3,
        )
