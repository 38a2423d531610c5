"""One search for each feature group, and one answer from all of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearsay.core.parallel import in_jobs
from nearsay.core.settings import check_choice
from nearsay.core.validation import checked_rows, checked_rows_and_labels
from nearsay.errors import InputError
from nearsay.neighbors.near_duplicates import near_duplicate_groups
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.choice.row_groups import checked_validation, items_together, labels_together
from nearsay.posterior.classifier import NeighborClassifier, fit_options
from nearsay.posterior.evidence.evidence import EvidenceList
from nearsay.posterior.evidence.fused_evidence import FusedEvidence, fused_evidence
from nearsay.posterior.fused_model import FUSIONS, FusedModel, FusedOptions
from nearsay.posterior.methods.fusion import Fusion
from nearsay.posterior.neighbor_estimator import ModelEstimator
from nearsay.posterior.views.feature_group import View

EXPONENTS = ("learned",)


class FusedClassifier(ModelEstimator):
    """Class probabilities from several feature groups, each with neighbors of its own.

    By default past cases weigh the groups and all columns together in one pool.
    With a posterior by name, or ``fusion="product"``, each group has a posterior; the groups are
    multiplied (eq. 3 of Mallah & Orwell) and normalized, in logs. A row may
    lack a group (NaN in its columns): it is no neighbor there, and as a query
    it is answered by the groups it has.

    Parameters
    ----------
    feature_groups : {name: columns} or None, default=None
        Columns as a slice, or as a list of numbers or of names (for a
        DataFrame); ``LabeledRows.feature_groups`` fits. None takes all
        columns as one group.
    estimator : NeighborClassifier or None, default=None
        What each group uses: its ``n_neighbors``, ``posterior``, ``metric``
        and so on. "auto" for any of these chooses for all groups together, by
        the leave-one-out log posterior of the fused answer, and may leave a
        group out; ``choices_`` shows what was tried. ``metric`` may also be
        a list: each group is then compared by each of them. Its ``priors``
        are put in once: the frequencies of the training rows, which every group
        brings into the product, are divided out (eq. 1); None is the plain
        product. None is ``NeighborClassifier()``.
    fusion : {"pool", "product"}, default="pool"
        "pool" lets past cases weigh everything together, where the posterior
        of the estimator is "auto": the groups' views, and all columns together
        with every view and model that the estimator has of them. Should a
        product do clearly better, it is taken. "product" is the product of
        the groups' posteriors (eq. 3).
    exponents : None or "learned", default=None
        None is eq. (3). "learned" gives each group a power that makes past
        cases most likely, so that groups that repeat each other do not count
        twice.

    Attributes
    ----------
    model_ : FusedModel, all that was learned.
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
    groups_ : (n_rows,) the number of the group of each training row, or None where each is a group of its own.

    Examples
    --------
    The first column says "low", the second is missing in the query:

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

    model_: FusedModel

    def __init__(
        self,
        feature_groups: Mapping[str, Any] | None = None,
        estimator: NeighborClassifier | None = None,
        *,
        exponents: str | None = None,
        fusion: Literal["pool", "product"] = "pool",
    ) -> None:
        self.feature_groups = feature_groups
        self.estimator = estimator
        self.exponents = exponents
        self.fusion = fusion

    @in_jobs
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        validation: tuple[Any, Any] | None = None,
        ids: Any = None,
    ) -> FusedClassifier:
        """Hold the rows, search each group, and learn from past cases.

        Parameters
        ----------
        X : (n_rows, n_columns) numbers; NaN where a row lacks a group.
        y : (n_rows,) labels.
        sample_weight : (n_rows,) numbers of at least 0, optional
            How much each row counts, as in ``NeighborClassifier.fit``.
        groups, validation, ids : as in ``NeighborClassifier.fit``; ``groups="auto"`` compares rows by all groups
            of columns together, each column standardized, and a missing number as the mean.
        """
        estimator = self._checked_estimator()
        of_each = fit_options(estimator)
        X, given = checked_rows_and_labels(self, X, y, finite=False)  # NaN may be missing groups; views check the rest
        check_classification_targets(given)
        n_rows = len(given)
        if validation is not None:
            more, of_more = checked_validation(validation)
            X = items_together(X, checked_rows(self, more, finite=False, reset=False))
            given = labels_together(given, of_more)
        of_columns = _as_groups(self.feature_groups, X.shape[1], getattr(self, "feature_names_in_", None))
        _warn_of_empty_rows(X, of_columns)
        options = FusedOptions(of_each, of_columns, self.exponents, self.fusion)
        self._fit_given(
            options, X, given, sample_weight, groups, ids, n_rows=n_rows, near_duplicates=self._near_duplicates
        )
        return self

    def _near_duplicates(self, X: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
        return near_duplicate_groups(_standardized(X), labels, n_jobs=self.n_jobs)

    @property
    def views_(self) -> list[View]:
        """The groups that are used, each with its metric."""
        return self.model_.views.views

    @property
    def exponents_(self) -> np.ndarray:
        """The power of each view."""
        return self.posterior_.exponents_

    @property
    def posterior_(self) -> Fusion:
        """The fitted posteriors of all groups."""
        return self.model_.posterior

    @in_jobs
    def neighbors(self, X: Any) -> list[NeighborTable]:
        """For each of ``views_`` the nearest training rows of every query; −1 all along where it lacks the group."""
        return [self.rows_.table(table) for table in self._query(X)]

    def _query(self, X: Any) -> list[NeighborTable]:
        check_is_fitted(self)
        tables: Any = self.model_.query(checked_rows(self, X, finite=False, reset=False, ensure_min_samples=0))
        return list(tables)

    @in_jobs
    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every query: (n_queries,)."""
        tables = self._query(X)
        return self._names(self.model_.answer(tables)[1])

    @in_jobs
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_queries, n_classes), columns as in ``classes_``; every row sums to 1.

        A query without any group gets the priors. Among equals the one that
        ``predict`` names stands one rounding step higher.
        """
        tables = self._query(X)
        return self.model_.proba(tables)

    @in_jobs
    def leave_one_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of the training rows, each answered by the others.

        A row is neither among its neighbors nor among the past cases that the
        posteriors and the exponents learned from, and among fewer than 2,000
        rows nothing was chosen by it, as in ``NeighborClassifier``.
        """
        return self._left_out_proba()

    @in_jobs
    def explain(self, X: Any) -> EvidenceList[FusedEvidence]:
        """The evidence for every query, group by group, from one search.

        The list also has ``predictions``, ``probabilities`` and ``table``,
        equal to what ``predict``, ``predict_proba`` and ``neighbors`` give.
        Records are as in ``NeighborClassifier``.
        """
        tables = self._query(X)
        p, best = self.model_.answer(tables)
        record = self.model_.records.like(p.max(axis=1, initial=0.0))
        given = [self.rows_.table(table) for table in tables]
        log_odds = partial(self.posterior_.log_odds, tables)
        items = fused_evidence(log_odds, self.views_, given, p, best, self.labels_, self.classes_, record, self.ids_)
        return EvidenceList(items, predictions=self._names(best), probabilities=p, table=given)

    @property
    def n_jobs(self) -> int | None:
        """Threads, as ``estimator`` has them."""
        return self.estimator.n_jobs if isinstance(self.estimator, NeighborClassifier) else None

    def _checked_estimator(self) -> NeighborClassifier:
        estimator = NeighborClassifier() if self.estimator is None else self.estimator
        if not isinstance(estimator, NeighborClassifier):
            raise InputError(
                f"estimator must be a NeighborClassifier, which every feature group then uses; got {estimator!r}."
            )
        if self.exponents is not None:
            check_choice("exponents", self.exponents, EXPONENTS, " None is the plain product.")
        check_choice("fusion", self.fusion, FUSIONS)
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


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


def _standardized(X: np.ndarray) -> np.ndarray:
    """All columns on one scale; a missing number becomes the mean of its column."""
    n_known = np.count_nonzero(~np.isnan(X), axis=0)
    centered = np.nan_to_num(X - np.nansum(X, axis=0) / np.maximum(n_known, 1))
    spread = centered.std(axis=0)
    return centered / np.where(spread > 0, spread, 1.0)


def _warn_of_empty_rows(X: np.ndarray, groups: Mapping[str, Any]) -> None:
    """A training row without any group teaches nothing."""
    if X.dtype.kind != "f":
        return
    missing = np.isnan(X)
    rows = np.flatnonzero(np.all([missing[:, columns].any(axis=1) for columns in groups.values()], axis=0))
    if len(rows):
        warnings.warn(
            f"{len(rows)} rows have a missing value (NaN) in every feature group, row {rows[0]} first;"
            " there is nothing to compare them by, so they are left aside.",
            stacklevel=3,
        )
