"""Algorithm 1, whole: the k nearest rows vote, and the vote becomes a probability with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearsay.arrays import evenly, row_blocks
from nearsay.data.rows import as_ids
from nearsay.distances.distance import Distance
from nearsay.distances.functions import FunctionDistance, PrecomputedDistance
from nearsay.distances.named import Metric, as_distance, with_parameters
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.parallel import in_jobs
from nearsay.posterior.base import GroupPosterior, Posterior
from nearsay.posterior.beside import ModelBeside, gaussians_beside
from nearsay.posterior.evidence import Evidence, EvidenceList, evidence
from nearsay.posterior.feature_group import View
from nearsay.posterior.k_curve import KCurve, PastVotes, largest_k
from nearsay.posterior.label_scores import LabelScores
from nearsay.posterior.model_choice import (
    CRITERIA,
    Candidate,
    Choices,
    Chooser,
    looks_to_try,
    mapped_views,
    members_asked,
    neighbors_to_try,
    views_to_try,
)
from nearsay.posterior.named import AUTO, FEW, POSTERIORS, PosteriorName, as_posterior, name_of
from nearsay.posterior.novelty import Novelty
from nearsay.posterior.own import OwnPosterior, PosteriorLike
from nearsay.posterior.past_cases import MAX_PAST_CASES, PastCases, possible_members, rows_judged, rows_not_judged
from nearsay.posterior.priors import Priors, PriorsLike
from nearsay.posterior.proportional import check_smoothing
from nearsay.posterior.records import Records, records_of_answers
from nearsay.posterior.row_maps import STANDARDIZED, WHITENED_BESIDE, unequal_columns
from nearsay.posterior.views import Views
from nearsay.posterior.votes import check_tie_break, lift, neighbor_labels, winners
from nearsay.search.choose import SearchBackend
from nearsay.settings import check_choice, check_randomness, check_whole, with_hints
from nearsay.validation import checked_labels, checked_rows, checked_rows_and_labels

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


class NeighborClassifier(ClassifierMixin, BaseEstimator):
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
        is clearly better.
    metric : str, function of two items, or Distance, default="euclidean"
        With a function, items need not be vectors: a list of strings will do.
        "precomputed" takes X as distances to the training rows. "auto" looks
        at the rows in up to ten ways (as they are, their directions,
        standardized, whitened within classes, …); the pool hears all of them
        together, and classes as Gaussians beside. The most trustworthy answers, for as many searches.
    metric_params : dict or None, default=None
        Parameters of the metric: ``metric="minkowski", metric_params={"p": 3}``.
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
        How many training rows of a larger collection are asked about the others, to learn
        from and to choose by; with several views fewer, so that ``fit`` takes about as long as four
        searches of that many. None asks all.
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
    index_ : NeighborIndex over the training rows.
    labels_ : (n_rows,) the class number of every training row.
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
    Of 5 past cases with a probability like this, 5 were right.
    Novelty 0.04: about 4% of the rows here are less unusual.
    """

    k_curve_: KCurve
    choices_: Choices
    # Files of earlier versions hold none of these.
    ids_: np.ndarray | None = None
    _priors: Priors | None = None
    _records: Records | None = None

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
    def fit(self, X: Any, y: Any, *, ids: Any = None, beside_proba: Any = None) -> NeighborClassifier:
        """Hold the rows and their labels; with ``n_neighbors="auto"`` choose k.

        Parameters
        ----------
        X : (n_rows, n_columns) numbers (array, pandas or polars DataFrame), or items that ``distance`` compares.
            They are held, not copied.
        y : (n_rows,) labels: strings, whole numbers or booleans.
        ids : (n_rows,) names of the rows, strings or whole numbers, or None
            What ``explain`` calls the neighbors by. Rows may share a name.
        beside_proba : (n_rows, n_classes), optional
            What ``beside``, fitted already, said of these rows before it had seen them, columns in sorted
            order of the labels. It is then taken as it is, and not fitted again.
        """
        self._check_settings(beside_proba)
        X, y = self._check_training(X, y)
        if not is_auto(self.n_neighbors):
            check_n_neighbors(self.n_neighbors, len(X))
        self.classes_, self.labels_ = np.unique(y, return_inverse=True)
        self.ids_ = as_ids(ids, len(self.labels_))
        self._priors = Priors.of(self.priors, self.classes_, self.labels_)
        self._records = None
        self._seed = seed_of(self.random_state)
        for earlier in ("k_curve_", "choices_"):
            if hasattr(self, earlier):
                delattr(self, earlier)
        views = views_to_try(
            {"all": None}, [self._metric], self.search, X, self.labels_, len(self.classes_), n_jobs=self.n_jobs
        )
        makers = posteriors_to_try(self, every=is_auto(self._metric))
        views |= self._further_views(X, makers, len(views))
        models = self._models(X, y, views, beside_proba)
        if self._chooses:
            if sum(not view.knows_labels for view in views.values()) > 1 and not is_auto(self._metric):
                views = self._of_one_scale(views, makers)
            way = self._choose(views, makers, models)
        else:
            # Where k alone is left open, the largest to try.
            k = largest_k(len(X)) if is_auto(self.n_neighbors) else int(self.n_neighbors)
            way = Candidate(next(iter(makers)), k, tuple(views))
            self._hold(tuple(views.values()), models)
        self._learn(makers[way.posterior](), way.n_neighbors)
        self._novelty = Novelty(self._past, self.n_neighbors_)
        return self

    def _further_views(
        self, X: Any, makers: Mapping[str, Callable[[], Posterior]], first: int
    ) -> dict[tuple[int, int], View]:
        """Views of mapped rows: all that are worth a try for "auto"; otherwise, where open, columns of one scale,
        and whitened ones where a second search costs little.
        """
        if is_auto(self._metric):
            hears_several = any(isinstance(make(), GroupPosterior) for make in makers.values())
            looks = looks_to_try(X, self.labels_) if hears_several else []
        else:
            left_open = self._chooses and isinstance(self.metric, str) and self.metric in SCALES_MATTER
            looks = [STANDARDIZED] if left_open and unequal_columns(X) else []
            if left_open and len(X) <= ROWS_TO_WHITEN:
                looks += [look for look in looks_to_try(X, self.labels_) if look == WHITENED_BESIDE]
        more = mapped_views(looks, X, self.labels_, len(self.classes_), n_jobs=self.n_jobs)
        return {(0, first + number): view for number, view in enumerate(more)}

    def _models(
        self, X: Any, y: np.ndarray, views: Mapping[tuple[int, int], View], beside_proba: Any
    ) -> list[ModelBeside]:
        """Models that are asked beside the neighbors: the user's, then Gaussians where rows are whitened too."""
        models = []
        if self.beside is not None:
            models = [ModelBeside(self.beside, self.classes_).fit(X, y, self.labels_, beside_proba)]
        if any(view.knows_labels for view in views.values()):
            models += gaussians_beside(X, self.labels_, len(self.classes_))
        return models

    def _of_one_scale(
        self, views: dict[tuple[int, int], View], makers: Mapping[str, Callable[[], Posterior]]
    ) -> dict[tuple[int, int], View]:
        """The rows as they are, or standardized where a few past cases are clearly better off."""
        few = evenly(len(self.labels_), CASES_TO_SCALE_BY)
        chooser = Chooser(views, makers, self.labels_, len(self.classes_), ks=[1], rows=few)
        shown = chooser.view_to_show().views
        return {key: view for key, view in views.items() if key in shown or view.knows_labels}

    def _check_settings(self, beside_proba: Any) -> None:
        check_tie_break(self.tie_break)
        check_smoothing(self.smoothing, self.model_failure)
        check_choice("criterion", self.criterion, CRITERIA)
        if self.max_past_cases is not None:
            check_whole("max_past_cases", self.max_past_cases, least=1)
        if not is_auto(self.posterior):
            posterior = self.fresh_posterior(self.posterior)  # fail early on unknown names
            if self.beside is not None and not isinstance(posterior, GroupPosterior):
                raise InputError(
                    f"posterior={self.posterior!r} hears neighbors alone, and cannot weigh the model beside them."
                    ' Pass posterior="pooled" or "auto", or beside=None.'
                )
        if self.beside is None and beside_proba is not None:
            raise InputError("beside_proba holds what a model said, but there is none: pass it as beside.")

    def _choose(
        self,
        views: dict[tuple[int, int], View],
        makers: Mapping[str, Callable[[], Posterior]],
        models: Sequence[ModelBeside],
    ) -> Candidate:
        """What past cases choose, where a posterior or a metric was left open; their tables are kept."""
        n_rows, n_classes = len(self.labels_), len(self.classes_)
        ks = neighbors_to_try(n_rows - 1) if is_auto(self.n_neighbors) else [int(self.n_neighbors)]
        members = members_asked(makers, self.labels_)
        rows = rows_judged(n_rows, max(ks), members, n_classes, len(views), self.max_past_cases)
        chooser = Chooser(
            views,
            makers,
            self.labels_,
            n_classes,
            ks=ks,
            rows=np.arange(n_rows) if rows is None else rows,
            models=models,
            criterion=self.criterion,
        )
        way = chooser.choose_one_group()
        self.choices_ = chooser.report()
        self._hold([views[key] for key in way.views], [models[number] for number in way.models])
        self._past.keep(chooser.table(way), rows)
        return way

    def _hold(self, views: Sequence[View], models: Sequence[ModelBeside]) -> None:
        self._views = Views(views, models)
        self.index_ = views[0].index_
        self._past = PastCases(self._views, self._seed, n_views=len(views), max_past_cases=self.max_past_cases)

    def _learn(self, posterior: Posterior, k: int) -> None:
        """Fit the posterior to past cases; where k is still open, choose it on the same ones."""
        self._members = possible_members(posterior.members, self.labels_)
        table, rows = self._past_cases(posterior, max(k, 1))
        if is_auto(self.n_neighbors) and not self._chooses:
            self.k_curve_ = self._curve(table, rows, k)
            k = self.k_curve_.best
        self.n_neighbors_ = k
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
        return with_parameters(self.metric, self.metric_params)

    def fresh_posterior(self, posterior: Any) -> Posterior:
        """A posterior for this name or object, with the smoothing asked for here."""
        return as_posterior(posterior, model_failure=self.model_failure, smoothing=self.smoothing)

    def _curve(self, table: NeighborTable | None, rows: np.ndarray | None, k: int) -> KCurve:
        if k == 0:  # one row has no others to be judged by
            return KCurve(np.empty(0, np.int64), np.empty(0), np.empty(0))
        votes = PastVotes(k, len(self.classes_), tie_break=self.tie_break, seed=self._seed)
        numbers = np.arange(len(self.labels_)) if rows is None else rows
        parts = self._past.blocks(k) if table is None else [(numbers, table)]
        for these, part in parts:
            votes.add(part, self.labels_, these)
        return votes.curve(model_failure=self.model_failure, smoothing=self.smoothing)

    @in_jobs
    def neighbors(self, X: Any) -> NeighborTable:
        """The ``n_neighbors_`` nearest training rows of every query: the one search behind every answer."""
        check_is_fitted(self)
        return self._views.query(self._check_queries(X), self.n_neighbors_, self._members)

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """(distances, indices) of the nearest training rows, or the indices alone, as in scikit-learn.

        With ``X=None`` the training rows are asked, each about the others.
        """
        check_is_fitted(self)
        asked = self.n_neighbors_ if n_neighbors is None else n_neighbors
        return self.index_.kneighbors(None if X is None else self._seen(X), asked, return_distance)

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> csr_array:
        """Who is whose neighbor: a sparse (n_queries, n_rows) matrix of ones, or of distances."""
        check_is_fitted(self)
        asked = self.n_neighbors_ if n_neighbors is None else n_neighbors
        return self.index_.kneighbors_graph(None if X is None else self._seen(X), asked, mode)

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
        others, and that k and the posterior, where "auto" chose them, were
        chosen with it among the cases. For thresholds and guarantees, this
        gives no data away.
        """
        check_is_fitted(self)
        p = np.empty((len(self.labels_), len(self.classes_)))
        table, rows = self._past_cases(self._posterior, self.n_neighbors_)
        if table is None:
            table, rows = self._past.judged(self.n_neighbors_, self._members)
        p[slice(None) if rows is None else rows] = self._settled(
            self._posterior.leave_one_out_proba(table, rows), table
        )
        for others in rows_not_judged(rows, len(p)):
            table = self._views.leave_one_out(self.n_neighbors_, self._members, others)
            for part, p_part, _ in self._answers(table):
                p[others[part]] = p_part
        return p

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
            past = self._settled(self._posterior.recorded_proba(table, rows), table)
            truth = self.labels_ if rows is None else self.labels_[rows]
            self._records = records_of_answers(past, truth, np.bincount(self.labels_), self._priors)
        return self._records.like(p)

    @in_jobs
    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every query: (n_queries,). Equal probabilities go by ``tie_break``."""
        table = self.neighbors(X)
        best = np.empty(len(table), np.int64)
        for part, _, winner in self._answers(table):
            best[part] = winner
        return self._names(best)

    @in_jobs
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_queries, n_classes), columns as in ``classes_``; every row sums to 1.

        The largest of a row is always the one that ``predict`` names: among
        equals, the winner by ``tie_break`` stands one rounding step higher.
        """
        table = self.neighbors(X)
        p = np.empty((len(table), len(self.classes_)))
        for part, p_part, _ in self._answers(table):
            p[part] = p_part
        return p

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
        table = self.neighbors(X)
        p = np.empty((len(table), len(self.classes_)))
        best = np.empty(len(table), np.int64)
        found = []
        for part, p[part], best[part] in self._answers(table):
            few = table[part]
            said, record = neighbor_labels(few, self.labels_), self._record_of(p[part].max(axis=1))
            novelty, twins = self._novelty_of(few, p[part]), self._novelty.twins(few)
            found += evidence(few, said, best[part], p[part], novelty, self.classes_, record, self.ids_, twins)
        return EvidenceList(found, predictions=self._names(best), probabilities=p, table=table)

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
        table = self.neighbors(X)
        novelty = np.empty(len(table))
        for part, p, best in self._answers(table):
            novelty[part] = self._novelty_of(table[part], p, best if by_class else None)
        return novelty

    def _novelty_of(self, table: NeighborTable, p: np.ndarray, classes: np.ndarray | None = None) -> np.ndarray:
        return self._novelty.of(table, p.max(axis=1), past_sureness=self._sureness, classes=classes)

    def _sureness(self) -> np.ndarray:
        """The largest probability of each row that is sampled for novelty, answered by the others."""
        table = self._past.sampled(self.n_neighbors_, self._members).first(self.n_neighbors_)
        return np.concatenate([p.max(axis=1) for _, p, _ in self._answers(table)])

    def _answers(self, table: NeighborTable) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(queries, their probabilities, the winning class numbers), a block of queries at a time."""
        for part in self._blocks(len(table)):
            p = np.array(self._posterior.proba(table[part]), dtype=np.float64)
            yield part, p, self._settle(p, table[part])

    def _blocks(self, n_queries: int) -> Iterator[slice]:
        # About eight arrays of a block's size come and go; together they should stay in the cache.
        return row_blocks(n_queries, row_bytes=8 * 8 * len(self.classes_))

    def _settled(self, p: np.ndarray, table: NeighborTable) -> np.ndarray:
        for part in self._blocks(len(table)):
            self._settle(p[part], table[part])
        return p

    def _settle(self, p: np.ndarray, table: NeighborTable) -> np.ndarray:
        """The winning class numbers, each raised in ``p`` above those equal to it; priors are put in first."""
        expected = (len(table), len(self.classes_))
        if p.shape != expected:
            raise InputError(
                f"The posterior {self.posterior!r} gave probabilities of shape {p.shape};"
                f" {expected} (queries × classes) is expected."
            )
        if self._priors is not None:
            self._priors.put_in(p)
        best = winners(p, table, self.labels_, self.tie_break, self._seed)
        lift(p, best)
        return best

    def _names(self, numbers: np.ndarray) -> np.ndarray:
        names: np.ndarray = self.classes_[numbers]
        return names

    def _check_training(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        distance = None if is_auto(self._metric) else as_distance(self._metric)
        if distance is None or _is_for_tables(distance, X):
            # A function of the user's takes any items; every other distance looks at the numbers itself, in the index.
            X, y = checked_rows_and_labels(self, X, y, finite=isinstance(distance, FunctionDistance))
        else:
            if y is None:
                raise InputError("fit needs a label for every item, but y is None.")
            check_consistent_length(X, y)
            y = column_or_1d(checked_labels(y), warn=True)
        check_classification_targets(y)
        return X, y

    def _check_queries(self, X: Any) -> Any:
        distance = self._views.first.search.distance_
        if _is_for_tables(distance, X):
            finite = isinstance(distance, FunctionDistance)  # as in fit
            return checked_rows(self, X, finite=finite, reset=False, ensure_min_samples=0)
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.metric
        tags.input_tags.pairwise = isinstance(given, PrecomputedDistance) or (
            isinstance(given, str) and given == PrecomputedDistance.name
        )
        return tags


def posteriors_to_try(classifier: NeighborClassifier, *, every: bool) -> dict[str, Callable[[], Posterior]]:
    """What makes a fresh posterior, with the smoothing that a classifier asks for, by name.

    For "auto" these are the few that do best on most data, or ``every`` one.
    """
    names: Any = [classifier.posterior]
    if is_auto(classifier.posterior):
        names = POSTERIORS if every else FEW
    return {name_of(name): partial(classifier.fresh_posterior, name) for name in names}


def is_auto(given: Any) -> bool:
    """Whether the choice was left to the past cases."""
    return isinstance(given, str) and given == AUTO


def _is_for_tables(distance: Distance, X: Any) -> bool:
    """Whether X should be a table of numbers; otherwise its items are for the distance alone to judge."""
    if not isinstance(distance, FunctionDistance):
        return True
    return len(getattr(X, "shape", ())) == 2 and not (isinstance(X, np.ndarray) and X.dtype.kind not in "fiub")


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn calls a random state; None is 0."""
    randomness = check_randomness(random_state)
    if random_state is None or isinstance(random_state, int | np.integer):
        return int(random_state or 0)
    return int(randomness.randint(2**31 - 1))


def check_n_neighbors(n_neighbors: Any, n_rows: int) -> None:
    """Say what is wrong with a number of neighbors."""
    whole = isinstance(n_neighbors, int | np.integer) and not isinstance(n_neighbors, bool)
    if not whole or n_neighbors < 1:
        raise InputError(f'n_neighbors must be a whole number of at least 1, or "auto"; got {n_neighbors!r}.')
    if n_neighbors > n_rows:
        raise InputError(
            f"n_neighbors={n_neighbors}, but there are n_samples={n_rows} rows to be neighbors."
            f" Ask for at most {n_rows}, or fit more rows."
        )
