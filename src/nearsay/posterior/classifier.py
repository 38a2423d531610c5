"""Algorithm 1, whole: the k nearest rows vote, and the vote becomes a probability with its evidence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import evenly, places_among
from nearsay.core.parallel import in_jobs
from nearsay.core.settings import with_hints
from nearsay.data.content_order import content_order
from nearsay.data.rows import as_ids
from nearsay.distances.functions import PrecomputedDistance
from nearsay.distances.named import Metric, as_distance, with_parameters
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.answers import Answers
from nearsay.posterior.base import FOLDS_LEFT_OUT, GroupPosterior, Posterior, folds_by
from nearsay.posterior.choice.fit_checks import (
    check_answering,
    check_beside,
    check_learning,
    check_n_neighbors,
    checked_auto,
    checked_items,
    checked_items_and_labels,
    is_auto,
    posteriors_to_try,
    seed_of,
)
from nearsay.posterior.choice.k_curve import KCurve, curves_of, largest_k
from nearsay.posterior.choice.model_choice import (
    Choices,
    Chooser,
    ModelCandidate,
    looks_to_try,
    mapped_views,
    members_asked,
    neighbors_to_try,
    views_to_try,
)
from nearsay.posterior.choice.nested import answers_by_other_choices, worth_nesting
from nearsay.posterior.evidence.evidence import Evidence, EvidenceList, evidence
from nearsay.posterior.evidence.label_scores import LabelScores
from nearsay.posterior.evidence.novelty import Novelty
from nearsay.posterior.evidence.records import Records, records_of_answers
from nearsay.posterior.kneighbors import KNeighbors
from nearsay.posterior.methods.custom_posterior import OwnPosterior, PosteriorLike
from nearsay.posterior.methods.named import PosteriorName
from nearsay.posterior.past_cases import (
    MAX_PAST_CASES,
    PastCases,
    lines_of,
    possible_members,
    put_in,
    rows_judged,
    rows_not_judged,
)
from nearsay.posterior.priors import Priors, PriorsLike
from nearsay.posterior.row_weights import rows_that_count
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside, gaussians_beside
from nearsay.posterior.views.row_transforms import STANDARDIZED, WHITENED_BESIDE, unequal_columns
from nearsay.posterior.views.views import Views
from nearsay.posterior.votes import neighbor_labels
from nearsay.search.choose import SearchBackend

# Metrics by name in which a column of large numbers drowns the others; and how many past cases say whether it should.
SCALES_MATTER = ("euclidean", "l2")
CASES_TO_SCALE_BY = 1000
# Up to so many rows a second view, which has learned which directions tell classes apart, is searched by default, and
# classes are seen as Gaussians too: that lowers the log loss on most data. In larger collections a search takes long
# enough not to be doubled unasked.
ROWS_TO_WHITEN = 20_000

# What users of scikit-learn's KNeighborsClassifier, and of faiss, look for.
INSTEAD = {
    "weights": 'posterior="weighted" learns how much each neighbor counts; "uniform" is posterior="proportional".',
    "algorithm": 'search="exact", "trees" or "approximate" says how neighbors are found; "auto" takes the fastest.',
    "leaf_size": "Pass search=nearsay.search.TreeSearch(leaf_size=…).",
    "p": 'Pass metric="minkowski", metric_params={"p": …}.',
    "distance": "It is called metric, as in scikit-learn.",
    "k": "It is called n_neighbors, as in scikit-learn.",
}


class NeighborClassifier(KNeighbors, ClassifierMixin, BaseEstimator):
    """Class probabilities from the labels of the nearest training rows, with the neighbors as evidence.

    Parameters
    ----------
    n_neighbors : int or "auto", default="auto"
        How many neighbors vote, and are shown as evidence; at most the number
        of training rows. "auto" tries a few from 1 to 30 with every posterior
        that is tried, and takes what past cases do best with. Where the
        posterior is given, it tries every k up to √n (at least 30, at most
        200, never more than the other rows), and the votes decide, smoothed
        as asked for: the largest mean log posterior, where equal the more
        accurate, then the smaller (``k_curve_``). One search serves every k.
    posterior : str, (str, dict) or object, default="auto"
        How neighbors become probabilities: a name ("proportional": the share
        of votes, "weighted", "dist&votesplit", "confmat", "rank",
        "rank&votesplit", "confmat&rank", "confmat&rank&votesplit", "pooled"),
        a name with its options, or an object with ``fit(table, labels,
        n_classes)`` and ``proba(table)``, which is copied before it is
        fitted. ``table`` in ``fit`` holds the ``n_neighbors_`` nearest
        *other* rows of every training row, and labels are class numbers.
        "auto" asks up to ``max_past_cases`` training rows about the others:
        votes, weighted votes and the pool are judged on them (with
        ``metric="auto"`` every name), the pool is taken unless another is
        clearly better, and none that is less accurate than the best plain
        votes by more than a standard error. ``choices_`` shows all of them.
        Euclidean columns of unequal scale are standardized first where that
        is clearly better. Up to 20,000 rows are searched a second time,
        whitened within classes, and classes are seen as Gaussians; the pool
        hears all of these.
    metric : str, function of two items, or Distance, default="euclidean"
        With a function, items need not be vectors: a list of strings will do.
        "precomputed" takes X as distances to the training rows. "auto" looks
        at the rows in up to ten ways (as they are, their directions,
        standardized, whitened within classes, …); the pool hears all of them
        together, and classes as Gaussians beside. The most trustworthy answers, for as many searches.
        Columns that are constant in training, and all but the first of columns that are copies, are
        left out of every view that is chosen or learned here, so they change no answer with "auto",
        nor with any metric what standardized and whitened views and Gaussians say. A metric given by name
        measures every column: copies count as often as they are there, and a constant one where a query differs.
    metric_params : dict or None, default=None
        Parameters of the metric: ``metric="minkowski", metric_params={"p": 3}``. With "auto",
        ``{"large_margin": True}`` lets LMNN learn one more view, which takes longer.
    search : str or search object, default="auto"
        How neighbors are found; ``index_.chosen_`` says what was chosen.
    tie_break : {"nearest", "random", "first"}, default="nearest"
        Who wins among equally probable classes: the one with the nearest
        neighbor, one drawn by lot, or the first in ``classes_``. The lot is
        drawn from the seed and the neighbors themselves, so the same query
        gets the same answer in any batch.
    model_failure : float, default=0.01
        Share of the probability spread evenly over all classes, from 0 up to
        but not including 1. Above zero, no class ever gets probability 0.
    smoothing : {"model_failure", "add-one"}, default="model_failure"
        (1−Δ)·votes/K + Δ/C with Δ = ``model_failure``, or (votes+1)/(K+C).
    beside : classifier or None, default=None
        A model of yours with ``fit`` and ``predict_proba``, asked beside the
        neighbors: what it says of rows it was fitted without, fold by fold, joins the
        pool, and past cases say how much it counts. One that is fitted already goes
        with ``fit(X, y, beside_proba=…)``.
    criterion : {"log_posterior", "accuracy"}, default="log_posterior"
        What "auto" chooses by.
    max_past_cases : int or None, default=10_000
        How many training rows of a larger collection are asked about the others, at most, to learn
        from and to choose by. Where all classes are listed (as the pool asks), fewer are, down to a
        fifth from five times as many rows on, and with several views fewer too, so that asking takes
        about as long as four searches of that many; learning comes on top. None asks all.
    priors : "uniform", (n_classes,) numbers, {label: number} or None, default=None
        How often each class is to be expected among the queries, in the order
        of ``classes_``. The frequencies of the training rows are divided out
        of the probabilities, and these are put in. None leaves them as they are.
    random_state : int, RandomState or None, default=0
        Seed of "random" ties and of the rows sampled for novelty in a large
        collection. None is the same as 0: nothing here differs from run to
        run unless asked to.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn: −1 is every core, 1 is one. None is every
        core too, or what ``nearsay.threads`` says. Answers never depend on it.

    Attributes
    ----------
    classes_ : (n_classes,) the labels, sorted.
    n_neighbors_ : int
    k_curve_ : KCurve
        Only with ``n_neighbors="auto"``: arrays ``k``, ``accuracy`` and ``log_posterior``.
    choices_ : Choices
        Only with "auto" for the posterior or the distance: everything that was tried, best first; prints as a table.
    index_ : NeighborIndex over the training rows; it holds, and numbers, only those that have a weight above 0.
    labels_ : (n_rows,) the class number of every training row; −1 where all rows of its class have weight 0.
    posterior_ : the fitted posterior; of an object of yours, the copy that was fitted.
    ids_ : (n_rows,) the names of the training rows, or None where none were given to ``fit``.
    n_features_in_, feature_names_in_ : as in scikit-learn, where X is a table of numbers.

    Examples
    --------
    Three neighbors of 1.5 stand at 1, 0 and 3; two of them say "low".

    >>> clf = NeighborClassifier(n_neighbors=3, posterior="proportional", model_failure=0.0)
    >>> clf = clf.fit([[-1.0], [0.0], [1.0], [3.0], [8.0], [9.0]], ["low", "low", "low", "high", "high", "high"])
    >>> clf.predict([[1.5]])
    array(['low'], dtype='<U4')
    >>> clf.predict_proba([[1.5]]).round(3)             # in the order of classes_: high, low
    array([[0.333, 0.667]])
    >>> print(clf.explain([[1.5]])[0])
    'low' with probability 0.67.
    2 of 3 neighbors say 'low', the nearest too (0.5 away); 1 says 'high'.
    Of 5 past cases with a probability like this, 5 were right (57 to 100%).
    Novelty 0.04: about 4% of the rows here are less unusual.
    """

    k_curve_: KCurve
    choices_: Choices
    ids_: np.ndarray | None = None
    _priors: Priors | None = None
    _records: Records | None = None
    _taught_by: Any = None
    _nested: Sequence[tuple[np.ndarray, np.ndarray]] = ()
    _rows_by_k: Mapping[int, np.ndarray] = MappingProxyType({})

    @with_hints(INSTEAD)
    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = "auto",
        *,
        posterior: PosteriorName | tuple[PosteriorName, dict[str, Any]] | PosteriorLike = "auto",
        metric: Metric | Literal["auto"] | Sequence[Metric | Literal["auto"]] = "euclidean",
        metric_params: Mapping[str, Any] | None = None,
        search: SearchBackend = "auto",
        tie_break: Literal["nearest", "random", "first"] = "nearest",
        model_failure: float = 0.01,
        smoothing: Literal["model_failure", "add-one"] = "model_failure",
        beside: Any = None,
        criterion: Literal["log_posterior", "accuracy"] = "log_posterior",
        max_past_cases: int | None = MAX_PAST_CASES,
        priors: PriorsLike = None,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.posterior = posterior
        self.metric = metric
        self.search = search
        self.tie_break = tie_break
        self.model_failure = model_failure
        self.smoothing = smoothing
        self.beside = beside
        self.criterion = criterion
        self.max_past_cases = max_past_cases
        self.priors = priors
        self.random_state = random_state
        self.metric_params = metric_params
        self.n_jobs = n_jobs

    @in_jobs
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, ids: Any = None, beside_proba: Any = None
    ) -> NeighborClassifier:
        """Hold the rows and their labels; with ``n_neighbors="auto"`` choose k.

        Parameters
        ----------
        X : (n_rows, n_columns) numbers (array, pandas or polars DataFrame), or items that ``distance`` compares.
            They are held, not copied.
        y : (n_rows,) labels: strings, whole numbers or booleans.
        sample_weight : (n_rows,) numbers of at least 0, optional
            How much each row counts: its vote as a neighbor ("proportional",
            "weighted", and the votes behind ``k_curve_``), and what it
            teaches as a past case (tables, weights, choices, records).
            Only proportions matter. A row of weight 0 is left aside, as if it
            had not been given, but rows keep their numbers. A row of weight
            2 is one neighbor, not two: distances, k, members of a class,
            views and novelty know no weights.
        ids : (n_rows,) names of the rows, strings or whole numbers, or None
            What ``explain`` calls the neighbors by. Rows may share a name.
        beside_proba : (n_rows, n_classes), optional
            What ``beside``, fitted already, said of these rows before it had seen them, columns in sorted
            order of the labels. It is then taken as it is, and not fitted again.
        """
        check_learning(self.criterion, self.max_past_cases)
        check_answering(self)
        check_beside(self.beside, beside_proba, self)
        distance = None if is_auto(self._metric) else as_distance(self._metric)
        X, y = checked_items_and_labels(self, distance, X, y)
        self.ids_ = as_ids(ids, len(y))
        self._held = self._aside = None  # until all is learned, rows are numbered as they are held
        held, self._weights = rows_that_count(sample_weight, len(y))
        if held is None:
            return self._fit_rows(X, y, beside_proba)
        if beside_proba is not None and len(beside_proba) == len(y):
            beside_proba = _safe_indexing(beside_proba, held)
        self._fit_rows(self._taken(X, held, held), y[held], beside_proba)
        self.labels_ = places_among(self.classes_, y)
        self._held, self._aside = held, self._taken(X, np.setdiff1d(np.arange(len(y)), held), held)
        return self

    def _taken(self, X: Any, rows: np.ndarray, held: np.ndarray) -> Any:
        """Some of the rows; of distances, those to the rows that are held."""
        taken = _safe_indexing(X, rows)
        return taken[:, held] if self._is_precomputed else taken

    def _fit_rows(self, X: Any, y: np.ndarray, beside_proba: Any) -> NeighborClassifier:
        """Fit to rows that all count."""
        if not is_auto(self.n_neighbors):
            check_n_neighbors(self.n_neighbors, len(X))
        self.classes_, self.labels_ = np.unique(y, return_inverse=True)
        self._priors = Priors.of(self.priors, self.classes_, self.labels_, self._weights)
        self._records = None
        self._seed = seed_of(self.random_state)
        self._rows_by_k = {}
        for earlier in ("k_curve_", "choices_"):
            if hasattr(self, earlier):
                delattr(self, earlier)
        makers = posteriors_to_try(self, every=is_auto(self._metric), weights=self._weights)
        learns = self._chooses or any(make().needs_past_cases for make in makers.values())
        self._order = self._content_order(X) if learns else None
        views = self._views_of(X, makers)
        models = self._models(X, y, views, beside_proba)
        fitted = None
        if self._chooses:
            if sum(not view.knows_labels for view in views.values()) > 1 and not is_auto(self._metric):
                views = self._of_one_scale(views, makers)
            way, fitted = self._choose(views, makers, models)
        else:
            # Where k alone is left open, the largest to try.
            k = largest_k(len(X)) if is_auto(self.n_neighbors) else int(self.n_neighbors)
            way = ModelCandidate(next(iter(makers)), k, tuple(views))
            self._hold(tuple(views.values()), models)
        self._learn(fitted or makers[way.posterior](), way.n_neighbors, is_fitted=fitted is not None)
        self._novelty = Novelty(self._past, self.n_neighbors_)
        self._nested = []
        self._taught_by = (X, beside_proba) if self._nests(len(X)) else None
        return self

    def _nests(self, n_rows: int) -> bool:
        """Whether past cases are judged by settings that were chosen without them."""
        named = isinstance(self.posterior, str)
        return self._chooses and named and worth_nesting(n_rows, len(self.classes_), self.n_neighbors)

    def _fitted_anew(self, X: Any, y: np.ndarray, beside_proba: Any, rows: np.ndarray) -> NeighborClassifier:
        """What this classifier would be, fitted to some of its rows."""
        other = self._like_this()
        other._held, other._weights = None, None if self._weights is None else self._weights[rows]
        given = None if beside_proba is None else _safe_indexing(beside_proba, rows)
        return other._fit_rows(self._taken(X, rows, rows), y[rows], given)

    def _like_this(self) -> NeighborClassifier:
        """A classifier with the same settings, to be fitted to rows in memory."""
        return copy(self)

    def _content_order(self, X: Any) -> np.ndarray:
        """The order in which rows are dealt into folds, drawn, and teach."""
        return content_order(X, self.labels_, pairwise=self._is_precomputed)

    def _views_of(self, X: Any, makers: Mapping[str, Callable[[], Posterior]]) -> dict[tuple[int, int], View]:
        """The rows as the metric sees them, and mapped; the first shows the neighbors unless past cases choose."""
        known: dict[str, Any] = {"n_jobs": self.n_jobs, "make": self._view}
        views = views_to_try({"all": None}, [self._metric], self.search, X, self.labels_, len(self.classes_), **known)
        return views | self._further_views(X, makers, len(views))

    @property
    def _view(self) -> Callable[..., View]:
        """What makes a view of the rows."""
        return View

    def _further_views(
        self, X: Any, makers: Mapping[str, Callable[[], Posterior]], first: int
    ) -> dict[tuple[int, int], View]:
        """Views of mapped rows: all that are worth a try for "auto"; otherwise, where open, columns of one scale,
        and whitened ones where a second search costs little.
        """
        if is_auto(self._metric):
            hears_several = any(isinstance(make(), GroupPosterior) for make in makers.values())
            large_margin = bool((self.metric_params or {}).get("large_margin", False))
            looks = looks_to_try(X, self.labels_, large_margin=large_margin) if hears_several else []
        else:
            left_open = self._chooses and isinstance(self.metric, str) and self.metric in SCALES_MATTER
            looks = [STANDARDIZED] if left_open and unequal_columns(X) else []
            if left_open and len(X) <= ROWS_TO_WHITEN:
                looks += [look for look in looks_to_try(X, self.labels_) if look == WHITENED_BESIDE]
        known: dict[str, Any] = {"n_jobs": self.n_jobs, "make": self._view, "order": self._order}
        more = mapped_views(looks, X, self.labels_, len(self.classes_), **known)
        return {(0, first + number): view for number, view in enumerate(more)}

    def _models(
        self, X: Any, y: np.ndarray, views: Mapping[tuple[int, int], View], beside_proba: Any
    ) -> list[ModelBeside]:
        """Models that are asked beside the neighbors: the user's, then Gaussians where rows are whitened too."""
        models = []
        if self.beside is not None:
            weights = None if self._weights is None else self._weights.relative
            models = [
                self._model(self.beside, self.classes_).fit(
                    X, y, self.labels_, beside_proba, weights, order=self._order
                )
            ]
        if any(view.knows_labels for view in views.values()):
            models += gaussians_beside(X, self.labels_, len(self.classes_), self._model, self._order)
        return models

    @property
    def _model(self) -> type[ModelBeside]:
        """What asks a model beside the neighbors."""
        return ModelBeside

    def _of_one_scale(
        self, views: dict[tuple[int, int], View], makers: Mapping[str, Callable[[], Posterior]]
    ) -> dict[tuple[int, int], View]:
        """The rows as they are, or standardized where a few past cases are clearly better off."""
        assert self._order is not None
        few = self._order[evenly(len(self._order), CASES_TO_SCALE_BY)]
        chooser = Chooser(views, makers, self.labels_, len(self.classes_), ks=[1], rows=few, weights=self._weights)
        shown = chooser.view_to_show().views
        return {key: view for key, view in views.items() if key in shown or view.knows_labels}

    def _choose(
        self,
        views: dict[tuple[int, int], View],
        makers: Mapping[str, Callable[[], Posterior]],
        models: Sequence[ModelBeside],
    ) -> tuple[ModelCandidate, Posterior | None]:
        """What past cases choose, where a posterior or a metric was left open; their tables are kept.

        The posterior comes with it where choosing has fitted it to all that are judged.
        """
        n_rows, n_classes = len(self.labels_), len(self.classes_)
        ks = neighbors_to_try(n_rows - 1) if is_auto(self.n_neighbors) else [int(self.n_neighbors)]
        members = members_asked(makers, self.labels_)
        assert self._order is not None
        places = rows_judged(n_rows, max(ks), members, n_classes, len(views), self.max_past_cases)
        rows = self._order if places is None else self._order[places]
        chooser = Chooser(
            views,
            makers,
            self.labels_,
            n_classes,
            ks=ks,
            rows=rows,
            models=models,
            criterion=self.criterion,
            weights=self._weights,
        )
        way = chooser.choose_one_group()
        self.choices_ = chooser.report()
        self._hold([views[key] for key in way.views], [models[number] for number in way.models])
        self._past.keep(chooser.table(way), rows)
        return way, chooser.fitted(way)

    def _hold(self, views: Sequence[View], models: Sequence[ModelBeside]) -> None:
        self._views = Views(views, models)
        self.index_ = views[0].index_
        self._past = PastCases(
            self._views, self._seed, n_views=len(views), max_past_cases=self.max_past_cases, order=self._order
        )

    def _learn(self, posterior: Posterior, k: int, *, is_fitted: bool = False) -> None:
        """Fit the posterior to past cases, unless it is; where k is still open, choose it on the same ones."""
        self._members = possible_members(posterior.members, self.labels_)
        table, rows = self._past_cases(posterior, max(k, 1))
        if is_auto(self.n_neighbors) and not self._chooses:
            self.k_curve_, without = self._curve(table, rows, k)
            k = self.k_curve_.best
            self._rows_by_k = {other: without[other] for other in without if other != k}
        self.n_neighbors_ = k
        if not is_fitted:
            posterior.fit(None if table is None else table.first(k), self.labels_, len(self.classes_), rows)
        self._posterior = posterior
        self.posterior_: Any = posterior.own if isinstance(posterior, OwnPosterior) else posterior

    def _past_cases(self, posterior: Posterior, k: int) -> tuple[NeighborTable | None, np.ndarray | None]:
        """The past cases that the posterior learns from, None if from none, and which rows they are of, None if all."""
        if not posterior.needs_past_cases:
            return None, None
        return self._past.judged(k, self._members, every_row=not posterior.takes_rows)

    @property
    def _chooses(self) -> bool:
        """Whether past cases choose more than k."""
        return is_auto(self.posterior) or is_auto(self._metric)

    @property
    def _metric(self) -> Any:
        if is_auto(self.metric):
            return checked_auto(self.metric, self.metric_params)
        return with_parameters(self.metric, self.metric_params)

    def _curve(
        self, table: NeighborTable | None, rows: np.ndarray | None, k: int
    ) -> tuple[KCurve, dict[int, np.ndarray]]:
        """How each k does, and the rows for which each is the best by the cases of other folds."""
        if k == 0:  # one row has no others to be judged by
            return KCurve(np.empty(0, np.int64), np.empty(0), np.empty(0)), {}
        numbers = np.arange(len(self.labels_)) if rows is None else rows
        parts = self._past.blocks(k) if table is None else [(numbers, table)]
        order = np.arange(len(self.labels_)) if self._order is None else self._order
        fold = folds_by(order, self.labels_, FOLDS_LEFT_OUT)
        curve, best = curves_of(
            parts,
            self.labels_,
            len(self.classes_),
            k,
            fold,
            weights=self._weights,
            model_failure=self.model_failure,
            smoothing=self.smoothing,
            tie_break=self.tie_break,
            seed=self._seed,
        )
        return curve, {each: np.flatnonzero(np.isin(fold, np.flatnonzero(best == each))) for each in np.unique(best)}

    @in_jobs
    def neighbors(self, X: Any) -> NeighborTable:
        """The ``n_neighbors_`` nearest training rows of every query: the one search behind every answer."""
        return self._as_given(self._neighbors(X))

    def _neighbors(self, X: Any) -> NeighborTable:
        check_is_fitted(self)
        return self._asked(self._check_queries(X))

    def _asked(self, X: Any) -> NeighborTable:
        """The neighbors of queries that were checked."""
        return self._views.query(X, self.n_neighbors_, self._members)

    def _seen(self, X: Any) -> Any:
        """Queries as the index takes them."""
        return self._views.views[0].seen(self._check_queries(X))

    @in_jobs
    def leave_one_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of the training rows, each answered by the others.

        A row is neither among its neighbors nor among the past cases that the
        posterior learned from. Tables of past cases are counts, and the case
        is taken out of them: exactly what a fit without it would say. Weights
        ("weighted", "pooled", a posterior of your own) are learned anew without
        each tenth of the cases. What stays is that the row is a neighbor of
        others. Where "auto" chose the posterior or the metric among fewer than
        2,000 rows, all that is chosen and learned is chosen and learned anew
        without each third of the rows; with more rows, the choice was made
        with the row among the cases. A row of weight 0 is answered as a query
        is.
        """
        check_is_fitted(self)
        return self._for_every_row(self._left_out(), lambda: self._answers.proba(self._asked(self._aside)))

    def _left_out(self) -> np.ndarray:
        """The same of the rows that are held."""
        p = np.empty((len(self._labels), len(self.classes_)))
        table, rows = self._past_cases(self._posterior, self.n_neighbors_)
        if table is None:
            table, rows = self._past.judged(self.n_neighbors_, self._members)
        p[slice(None) if rows is None else rows] = self._answers.settled(
            self._posterior.leave_one_out_proba(table, rows), table
        )
        for others in rows_not_judged(rows, len(p)):
            table = self._views.leave_one_out(self.n_neighbors_, self._members, others)
            for part, p_part, _ in self._answers.by_block(table):
                p[others[part]] = p_part
        self._answer_otherwise(p, None)
        return p

    def _answer_otherwise(self, p: np.ndarray, rows: np.ndarray | None, *, recorded: bool = False) -> None:
        """Put in, in place, what past cases are told where other settings are chosen without them.

        Line i of ``p`` is about row ``rows[i]``, or row i; ``recorded`` says whether it is for records.
        """
        taught_by = self._taught_by  # other threads may be asking
        if taught_by is not None:
            self._nested = list(answers_by_other_choices(self, *taught_by))
            self._taught_by = None
        for others, of_others in self._nested:
            put_in(p, rows, others, of_others)
        for k, others in self._rows_by_k.items():
            posterior = copy(self._posterior)
            table, judged = self._past_cases(posterior, k)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said when the posterior was fitted
                posterior.fit(None if table is None else table.first(k), self._labels, len(self.classes_), judged)
            if table is None:  # the pass that chose k remembers these
                table, judged = self._past.sampled(k, self._members), self._past.sample()
            table = table.first(k)
            answer = posterior.recorded_proba if recorded else posterior.leave_one_out_proba
            of_judged = self._answers.settled(answer(table, judged), table)
            others = others if judged is None else np.intersect1d(others, judged)
            put_in(p, rows, others, of_judged[lines_of(others, judged)])

    def label_scores(self) -> LabelScores:
        """How well each training row's label fits what the others say: ``order`` has likely mistakes first.

        From ``leave_one_out_proba``, so that no row speaks for its own label.

        >>> X, y = [[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2]], list("aabaddd")
        >>> found = NeighborClassifier(2, posterior="proportional").fit(X, y).label_scores()
        >>> int(found.order[0]), found.suggested[found.order[0]]
        (2, np.str_('a'))
        """
        return LabelScores.from_probabilities(self.leave_one_out_proba(), self.labels_, self.classes_)

    def _record_of(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many past cases had a probability like each p, and how many of them were right."""
        if self._records is None:
            table, rows = self._past_cases(self._posterior, self.n_neighbors_)
            if table is None:  # nothing was learned from any row, so that a few will do
                table, rows = self._past.sampled(self.n_neighbors_, self._members), self._past.sample()
                table = table.first(self.n_neighbors_)
            past = self._answers.settled(self._posterior.recorded_proba(table, rows), table)
            self._answer_otherwise(past, rows, recorded=True)
            rows = np.arange(len(past)) if rows is None else rows
            self._records = records_of_answers(past, self._labels, rows, self._priors, self._weights)
        return self._records.like(p)

    @in_jobs
    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every query: (n_queries,). Equal probabilities go by ``tie_break``."""
        table = self._neighbors(X)
        return self._names(self._answers.best(table))

    @in_jobs
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_queries, n_classes), columns as in ``classes_``; every row sums to 1.

        The largest of a row is always the one that ``predict`` names: among
        equals, the winner by ``tie_break`` stands one rounding step higher.
        """
        table = self._neighbors(X)
        return self._answers.proba(table)

    @in_jobs
    def explain(self, X: Any) -> EvidenceList[Evidence]:
        """The evidence for every query: an ``Evidence`` each, from one search.

        The record beside each probability counts training rows, each answered
        by others; the first call asks them, which takes about as long as
        ``leave_one_out_proba``.

        The list also carries ``predictions``, ``probabilities`` and ``table``,
        equal to what ``predict``, ``predict_proba`` and ``neighbors`` give, so
        you can get all of them from a single search.
        """
        table = self._neighbors(X)
        p = np.empty((len(table), len(self.classes_)))
        best = np.empty(len(table), np.int64)
        found = []
        for part, p[part], best[part] in self._answers.by_block(table):
            few = table[part]
            said, record = neighbor_labels(few, self._labels), self._record_of(p[part].max(axis=1))
            novelty, twins = self._novelty_of(few, p[part]), self._numbers_given(self._novelty.twins(few))
            few = self._as_given(few)
            found += evidence(few, said, best[part], p[part], novelty, self.classes_, record, self.ids_, twins)
        return EvidenceList(found, predictions=self._names(best), probabilities=p, table=self._as_given(table))

    @in_jobs
    def novelty(self, X: Any, *, by_class: bool = False) -> np.ndarray:
        """How unusual each query is, from 0 to 1: the share of training rows that are less unusual: (n_queries,).

        It is high where the nearest row is far, where neighbors are farther
        than they are from one another, and where their labels disagree, each
        compared with what is usual among training rows. A value of 0.97 is
        seen on 3 in 100 rows of the kind that the training rows are.

        Parameters
        ----------
        X : queries, as for ``predict``.
        by_class : bool, default=False
            Compare with training rows of the predicted class alone, where it has
            10 or more of them: some classes are wide, others narrow.

        NaN in a collection of one row. The first call asks the training rows about each other, or a sample of 2,000
        where they are more than 5,000, unless ``fit`` did. In such a large
        collection rows that are met as neighbors for the first time are
        searched too: up to five for a query.
        """
        table = self._neighbors(X)
        novelty = np.empty(len(table))
        for part, p, best in self._answers.by_block(table):
            novelty[part] = self._novelty_of(table[part], p, best if by_class else None)
        return novelty

    def _novelty_of(self, table: NeighborTable, p: np.ndarray, classes: np.ndarray | None = None) -> np.ndarray:
        return self._novelty.of(table, p.max(axis=1), past_sureness=self._sureness, classes=classes)

    def _sureness(self) -> np.ndarray:
        """The largest probability of each row that is sampled for novelty, answered by the others."""
        table = self._past.sampled(self.n_neighbors_, self._members).first(self.n_neighbors_)
        return np.concatenate([p.max(axis=1) for _, p, _ in self._answers.by_block(table)])

    def _check_queries(self, X: Any) -> Any:
        X = checked_items(self, self._views.first.search.distance_, X)
        return X[:, self._held] if self._is_precomputed and self._held is not None else X

    @property
    def _answers(self) -> Answers:
        """From neighbors to probabilities, as asked for."""
        n_classes = len(self.classes_)
        return Answers(self._posterior, self._labels, n_classes, self._priors, self.tie_break, self._seed)

    def _names(self, numbers: np.ndarray) -> np.ndarray:
        names: np.ndarray = self.classes_[numbers]
        return names

    @property
    def _is_precomputed(self) -> bool:
        """Whether X holds distances, not rows."""
        named = isinstance(self.metric, str) and self.metric == PrecomputedDistance.name
        return named or isinstance(self.metric, PrecomputedDistance)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        return tags
