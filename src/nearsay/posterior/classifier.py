"""The k nearest rows vote, and the vote becomes a probability with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nearsay.core.parallel import in_jobs
from nearsay.core.settings import check_flag, with_hints
from nearsay.distances.distance import Distance
from nearsay.distances.named import Metric, as_distance
from nearsay.encode.encoded_table import EncodedTable
from nearsay.errors import InputError
from nearsay.posterior.choice.candidate_views import is_auto_metric
from nearsay.posterior.choice.fit_checks import (
    check_answering,
    check_beside,
    checked_items,
    checked_items_and_labels,
    checked_metric,
    seed_of,
    table_to_encode,
)
from nearsay.posterior.choice.model_fit import FitOptions, is_precomputed
from nearsay.posterior.choice.row_groups import automatic_groups, checked_validation, items_together, labels_together
from nearsay.posterior.evidence.evidence import Evidence, EvidenceList
from nearsay.posterior.methods.custom_posterior import PosteriorLike
from nearsay.posterior.methods.named import Auto, PosteriorName
from nearsay.posterior.neighbor_estimator import NeighborEstimator
from nearsay.posterior.priors import PriorsLike
from nearsay.posterior.views.model_beside import held_out_of_each, named_models
from nearsay.search.choose import SearchBackend

AutoMetric: TypeAlias = Literal["auto", "auto-large-margin"]

# Parameters that users of scikit-learn's KNeighborsClassifier, and of faiss, may try.
INSTEAD = {
    "weights": 'posterior="weighted" learns how much each neighbor counts; "uniform" is posterior="proportional".',
    "algorithm": 'search="exact", "trees" or "approximate" says how neighbors are found; "auto" takes the fastest.',
    "leaf_size": "Pass search=nearsay.search.TreeSearch(leaf_size=…).",
    "p": 'Pass metric="minkowski", metric_params={"p": …}.',
    "distance": "It is called metric, as in scikit-learn.",
    "k": "It is called n_neighbors, as in scikit-learn.",
}


class NeighborClassifier(NeighborEstimator):
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
    posterior : str or object, default="auto"
        How neighbors become probabilities: a name ("proportional": the share
        of votes, "weighted", "dist&votesplit", "confmat", "rank",
        "rank&votesplit", "confmat&rank", "confmat&rank&votesplit", "pooled"),
        or, to set its options, an object of ``nearsay.posterior``, such as
        ``Proportional(smoothing="add-one")`` or ``Auto(criterion="accuracy")``.
        An object of yours needs ``fit(table, labels, n_classes)`` and
        ``proba(table)``; it is copied before it is fitted. ``table`` in
        ``fit`` holds the ``n_neighbors_`` nearest *other* rows of every
        training row, and labels are class numbers.
        "auto" asks up to 10,000 training rows about the others:
        votes, weighted votes and the pool are judged on them (with
        ``metric="auto"`` every name), and the pool is taken unless another is
        clearly better. ``choices_`` shows all of them.
        Euclidean columns of unequal scale are standardized first where that
        is clearly better. Rows are searched a second time, whitened within
        classes; classes are modeled as Gaussians, by a line (logistic
        regression) and by a forest; the pool combines all of these.
    metric : str, function of two items, or Distance, default="euclidean"
        With a function, items need not be vectors: a list of strings will do.
        "precomputed" takes X as distances to the training rows. "auto" compares
        the rows in up to ten ways (as they are, their directions,
        standardized, whitened within classes, …); the pool combines all of them,
        and the models. The most trustworthy answers, for as many searches.
        "auto-large-margin" adds one more view, which LMNN learns, and takes longer.
        Columns that are constant in training, and all but the first of columns that are copies, are
        left out of every view that is chosen or learned here, so they change no answer with "auto",
        nor, with any metric, standardized and whitened views and models. A metric given by name
        measures every column: copies count as often as they occur, and a constant one where a query differs.
    metric_params : dict or None, default=None
        Parameters of the metric: ``metric="minkowski", metric_params={"p": 3}``.
    search : str or search object, default="auto"
        How neighbors are found; ``index_.chosen_`` says what was chosen.
    tie_break : {"nearest", "random", "first"}, default="nearest"
        Who wins among equally probable classes: the one with the nearest
        neighbor, one drawn by lot, or the first in ``classes_``. The lot is
        drawn from the seed and the neighbors themselves, so the same query
        gets the same answer in any batch.
    beside : classifier, list of classifiers or (name, classifier) pairs, or None, default=None
        Companion models with ``fit`` and ``predict_proba``, pooled with the
        neighbors: copies of each are fitted without each fold, and past cases say
        how much it counts. Those that are fitted already go with
        ``fit(X, y, beside_proba=…)``.
    priors : "uniform", (n_classes,) numbers, {label: number} or None, default=None
        How often each class is to be expected among the queries, in the order
        of ``classes_``. The frequencies of the training rows are divided out
        of the probabilities, and these are put in. None leaves them as they are.
    random_state : int, RandomState or None, default=0
        Seed of "random" ties and of the rows sampled for novelty in a large
        collection. None draws a new one in every fit, as in scikit-learn.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn: −1 is every core, 1 is one. None is every
        core too, or what ``nearsay.threads`` says. Answers never depend on it.
    verbose : int, default=0
        1 prints a line for each step of ``fit``, and how long it took, on stderr.

    Attributes
    ----------
    model_ : FittedModel, all that was learned.
    classes_ : (n_classes,) the labels, sorted.
    n_neighbors_ : int
    k_curve_ : KCurve
        Only with ``n_neighbors="auto"``: arrays ``k``, ``accuracy`` and ``log_posterior``.
    choices_ : Choices
        Only with "auto" for the posterior or the distance: everything that was tried, best first; prints as a table.
    summary_ : PoolSummary
        Likewise: what each view and model cost, in seconds, and brought: the log loss of past cases with and
        without it. Members that brought nothing were left out, and cost queries no time. Prints as a table.
    index_ : NeighborIndex over the training rows; it holds, and numbers, only those that have a weight above 0.
    labels_ : (n_rows,) the class number of every training row; −1 where all rows of its class have weight 0.
    posterior_ : the fitted posterior; of an object of yours, the copy that was fitted.
    ids_ : (n_rows,) the names of the training rows, or None where none were given to ``fit``.
    groups_ : (n_rows,) the number of the group of each training row, or None where each is a group of its own.
    table_ : EncodedTable, how a table with words, dates or gaps was encoded; None of any other X.
    n_features_in_, feature_names_in_ : as in scikit-learn, where X is a table.

    Examples
    --------
    Three neighbors of 1.5 stand at 1, 0 and 3; two of them say "low".

    >>> from nearsay.posterior import Proportional
    >>> clf = NeighborClassifier(n_neighbors=3, posterior=Proportional(model_failure=0.0))
    >>> clf = clf.fit([[-1.0], [0.0], [1.0], [3.0], [8.0], [9.0]], ["low", "low", "low", "high", "high", "high"])
    >>> clf.predict([[1.5]])
    array(['low'], dtype='<U4')
    >>> clf.predict_proba([[1.5]]).round(3)             # in the order of classes_: high, low
    array([[0.333, 0.667]])
    >>> print(clf.explain([[1.5]])[0])
    'low' with probability 0.67.
    2 of 3 neighbors say 'low', the nearest too (0.5 away); 1 says 'high'.
    Of 5 past cases with a probability like this, 5 were right (57 to 100%).
    Novelty 0.02: about 2% of the rows here are less unusual.
    """

    table_: EncodedTable | None = None

    @with_hints(INSTEAD)
    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = "auto",
        *,
        posterior: PosteriorName | Auto | PosteriorLike = "auto",
        metric: Metric | AutoMetric | Sequence[Metric | AutoMetric] = "euclidean",
        metric_params: Mapping[str, Any] | None = None,
        search: SearchBackend = "auto",
        tie_break: Literal["nearest", "random", "first"] = "nearest",
        beside: Any = None,
        priors: PriorsLike = None,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: bool | int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.posterior = posterior
        self.metric = metric
        self.search = search
        self.tie_break = tie_break
        self.beside = beside
        self.priors = priors
        self.random_state = random_state
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.verbose = verbose

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
        beside_proba: Any = None,
    ) -> NeighborClassifier:
        """Hold the rows and their labels; with ``n_neighbors="auto"`` choose k.

        Parameters
        ----------
        X : (n_rows, n_columns) numbers (array, pandas or polars DataFrame), or items that ``metric`` compares.
            They are held, not copied. A table may also hold words, dates and gaps: a ``TableEncoder`` makes numbers
            of its columns, in ``fit`` and in queries.
        y : (n_rows,) labels: strings, whole numbers or booleans.
        sample_weight : (n_rows,) numbers of at least 0, optional
            How much each row counts: its vote as a neighbor ("proportional",
            "weighted", and the votes behind ``k_curve_``), and what it
            teaches as a past case (tables, weights, choices, records).
            Only proportions matter. A row of weight 0 is left aside, as if it
            had not been given, but rows keep their numbers. A row of weight
            2 is one neighbor, not two: distances, k, members of a class,
            views and novelty know no weights.
        groups : (n_rows,) hashable names, "auto" or None
            A patient, a video, a writer: rows of one group are never asked about each other, as in scikit-learn's
            ``GroupKFold``. What past cases choose and weigh, records, novelty and leave-one-out answers are then those
            for queries of new groups. Queries are answered by all rows.
            "auto" takes near-duplicates for groups: rows of a class that lie closer together than independent ones
            would (``nearsay.neighbors.near_duplicates``). Where there are none, nothing changes; where votes are
            clearly worse without them, a NearDuplicateWarning says so.
        validation : (rows, labels), optional
            Rows like those that will be asked about, where training rows are not: new patients, a later month. Past
            cases are these alone, each asked about all training rows: weights, choices, records and novelty are
            learned from them. Then they join the voters, numbered behind the training rows; ``ids`` and
            ``beside_proba`` are to name them too.
        ids : (n_rows,) names of the rows, strings or whole numbers, or None
            What ``explain`` calls the neighbors by. Rows may share a name.
        beside_proba : (n_rows, n_classes), optional
            Probabilities that ``beside``, fitted already, gives to these rows without having been fitted to them,
            columns in sorted order of the labels. It is then taken as it is, and not fitted again. Where ``beside``
            is a list, a list of as many, with None for a classifier that is to be fitted.
        """
        options = fit_options(self, beside_proba)
        distance = None if is_auto_metric(options.metric) else as_distance(options.metric)
        self.table_ = table_to_encode(self, distance, X)
        X, y = checked_items_and_labels(self, distance, X if self.table_ is None else self.table_.rows, y)
        if self.table_ is not None:
            self.table_.name_columns(self)
            options = replace(options, blocks=self.table_.encoder.blocks_)
        n_rows = len(y)
        if validation is not None:
            X, y = self._with_validation(distance, X, y, *checked_validation(validation))
        self._fit_given(
            options,
            X,
            y,
            sample_weight,
            groups,
            ids,
            n_rows=n_rows,
            near_duplicates=partial(automatic_groups, options),
            held_out=None if beside_proba is None else held_out_of_each(self.beside, beside_proba),
        )
        return self

    def _with_validation(
        self, distance: Distance | None, X: Any, y: np.ndarray, rows: Any, labels: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """Training rows with validation rows behind them, and the labels of both."""
        if is_precomputed(self.metric):
            raise InputError('metric="precomputed" takes no validation rows: X holds distances to training rows alone.')
        if self.table_ is None:
            more = checked_items(self, as_distance("euclidean") if distance is None else distance, rows)
        else:
            columns = self.table_.read(self, rows)
            more, self.table_ = self.table_.encoded(columns), self.table_.with_rows(columns)
        return items_together(X, more), labels_together(y, labels)

    def check_queries(self, X: Any) -> Any:
        """Queries as the model takes them, or an error that says what is wrong with them."""
        check_is_fitted(self)
        if self.table_ is not None:
            return self.table_.encoded(self.table_.read(self, X))
        X = checked_items(self, self.model_.views.first.search.distance_, X)
        return X[:, self.rows_.held] if is_precomputed(self.metric) and self.rows_.held is not None else X

    @in_jobs
    def explain(self, X: Any) -> EvidenceList[Evidence]:
        """As in ``NeighborEstimator``; of a table with words or gaps, each neighbor says what it has in common."""
        evidence = super().explain(X)
        return evidence if self.table_ is None else self.table_.compared(self, X, evidence)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.metric)
        return tags


def fit_options(classifier: NeighborClassifier, beside_proba: Any = None) -> FitOptions:
    """The settings of a classifier, checked, as a model is fitted with them."""
    check_answering(classifier.posterior, classifier.tie_break)
    check_beside(classifier.beside, beside_proba, classifier.posterior)
    return FitOptions(
        n_neighbors=classifier.n_neighbors,
        posterior=classifier.posterior,
        metric=checked_metric(classifier.metric, classifier.metric_params),
        search=classifier.search,
        tie_break=classifier.tie_break,
        beside=tuple(named_models(classifier.beside)),
        priors=classifier.priors,
        seed=seed_of(classifier.random_state),
        n_jobs=classifier.n_jobs,
        verbose=check_flag("verbose", classifier.verbose),
    )
