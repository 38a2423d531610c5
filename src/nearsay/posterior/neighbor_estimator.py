"""What every classifier over one table of neighbors does with its fitted model, once rows are reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import places_among
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.parallel import in_jobs
from nearsay.core.settings import check_choice
from nearsay.data.rows import as_groups, as_ids
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import FRESH
from nearsay.posterior.choice.fit_checks import check_n_neighbors
from nearsay.posterior.choice.model_fit import FitOptions
from nearsay.posterior.choice.row_groups import (
    are_automatic,
    groups_together,
    warn_of_near_duplicates,
    weights_together,
)
from nearsay.posterior.class_shares import ClassShares, estimated_shares
from nearsay.posterior.evidence.evidence import Evidence, EvidenceList
from nearsay.posterior.evidence.label_scores import LabelScores
from nearsay.posterior.evidence.shift import RATE, ShiftTest, shift_test
from nearsay.posterior.fused_model import FusedOptions
from nearsay.posterior.methods.custom_posterior import CustomPosterior
from nearsay.posterior.methods.named import is_auto
from nearsay.posterior.model import FittedModel
from nearsay.posterior.nested import fit_nested
from nearsay.posterior.priors import log_frequencies
from nearsay.posterior.row_weights import GivenRows, TrainingRows, held_out_of_rows, rows_that_count


class ModelEstimator(ClassifierMixin, DocumentedEstimator):
    """A classifier that holds a fitted model; subclasses say how rows are given, and fit it.

    Attributes
    ----------
    model_ : FittedModel
        All that was learned.
    rows_ : GivenRows
        The rows that ``fit`` was given.
    """

    model_: FittedModel
    rows_: GivenRows

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted: (n_classes,)."""
        return self.model_.classes

    @property
    def labels_(self) -> np.ndarray:
        """The class number of every training row; −1 where all rows of its class have weight 0."""
        return self.rows_.labels

    @property
    def ids_(self) -> np.ndarray | None:
        """The names of the training rows, or None."""
        return self.rows_.ids

    @property
    def groups_(self) -> np.ndarray | None:
        """The number of the group of each training row: (n_rows,); None where no row belongs to another."""
        return self.rows_.groups

    @property
    def n_neighbors_(self) -> int:
        """How many neighbors vote."""
        return self.model_.n_neighbors

    @property
    def choices_(self) -> Any:
        """Everything that was tried, best first, where past cases chose the posterior or the metric."""
        return _if_any(self.model_.choices, "Nothing was left open to choose among.")

    @property
    def summary_(self) -> Any:
        """What each view and model cost in seconds, and brought: the log loss of past cases with and without it."""
        return _if_any(self.model_.summary, "Nothing was left open, so that no member of a pool was judged.")

    def _fit_given(
        self,
        options: FitOptions | FusedOptions,
        X: Any,
        y: np.ndarray,
        sample_weight: Any,
        groups: Any,
        ids: Any,
        *,
        n_rows: int | None = None,
        near_duplicates: Callable[[Any, np.ndarray], np.ndarray | None] | None = None,
        held_out: list[Any] | None = None,
    ) -> None:
        """Fit the model to the rows that have a weight; those behind the first ``n_rows`` are validation rows.

        ``near_duplicates`` finds the groups of rows with such class numbers, where ``groups`` leaves that open.
        """
        n_rows = len(y) if n_rows is None else n_rows
        finds = are_automatic(groups)
        fresh = np.arange(len(y)) >= n_rows
        groups, ids = None if finds else as_groups(groups, n_rows), as_ids(ids, len(y))
        held, weights = rows_that_count(weights_together(sample_weight, n_rows, len(y) - n_rows), len(y))
        groups = groups_together(groups, fresh)
        rows, of_rows, others = X, y, None
        if held is not None:
            rows, others = self._held_and_others(options, X, held)
            of_rows, fresh = y[held], fresh[held]
            groups = None if groups is None else groups[held]
            held_out = held_out_of_rows(held_out, held, len(y))
        if not is_auto(options.n_neighbors):
            check_n_neighbors(options.n_neighbors, len(of_rows))
        classes, labels = np.unique(of_rows, return_inverse=True)
        if finds and near_duplicates is not None:
            groups = groups_together(near_duplicates(rows, labels), fresh)
        self.model_ = fit_nested(options, TrainingRows(rows, labels, classes, weights, held_out, groups))
        of_given = labels if held is None else places_among(classes, y)
        self.rows_ = GivenRows(of_given, ids, held, others).with_groups(groups)
        if finds and groups is not None and n_rows == len(y):
            warn_of_near_duplicates(self.model_.views.views[0].labeled_, self.n_neighbors_)

    def _held_and_others(self, options: FitOptions | FusedOptions, X: Any, held: np.ndarray) -> tuple[Any, Any]:
        """The rows of X that are held, and the other rows, as ``GivenRows`` has them."""
        return options.take(X, held, held), options.take(X, np.setdiff1d(np.arange(len(X)), held), held)

    def validation_proba(self) -> np.ndarray:
        """Probabilities (n_validation, n_classes) of the validation rows, each answered by the training rows alone.

        What was learned from the row itself is left out, as in ``leave_one_out_proba``.
        """
        check_is_fitted(self)
        fresh = np.empty(0, np.int64) if self.groups_ is None else np.flatnonzero(self.groups_ == FRESH)
        if not len(fresh):
            raise InputError("No validation rows were given to fit.")
        held = self.rows_.held
        return self.model_.left_out_proba_of(fresh if held is None else np.searchsorted(held, fresh))

    def _left_out_proba(self) -> np.ndarray:
        """Probabilities of the training rows, each answered by the others; one of weight 0 as a query."""
        check_is_fitted(self)
        model = self.model_
        return self.rows_.proba_of_each(model.left_out_proba(), lambda X: model.proba(model.query(X)))

    def _names(self, numbers: np.ndarray) -> np.ndarray:
        return self.classes_[numbers]


class NeighborEstimator(ModelEstimator):
    """Answers from one table of neighbors."""

    n_jobs: int | None

    @property
    def posterior_(self) -> Any:
        """The fitted posterior; of an object of the user's, the copy that was fitted."""
        posterior = self.model_.posterior
        return posterior.custom if isinstance(posterior, CustomPosterior) else posterior

    @property
    def index_(self) -> Any:
        """The index over the rows with a weight above 0, as the first view measures them."""
        return self.model_.views.views[0].index_

    @property
    def k_curve_(self) -> Any:
        """How every k did, where past cases chose k alone."""
        return _if_any(self.model_.k_curve, "k was not chosen by itself.")

    @in_jobs
    def neighbors(self, X: Any) -> NeighborTable:
        """The ``n_neighbors_`` nearest training rows of every query: the one search behind every answer."""
        table = self._query(X)
        return self.rows_.table(table)

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """(distances, indices) of the nearest training rows, or the indices alone, as in scikit-learn.

        With ``X=None`` the neighbors of each training row among the others; one of weight 0 has none (−1 and +inf).
        """
        table = self._nearest(X, n_neighbors)
        return (table.distances, table.indices) if return_distance else table.indices

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> csr_array:
        """Who is whose neighbor: a sparse (n_queries, n_rows) matrix of ones, or of distances."""
        check_choice("mode", mode, ("connectivity", "distance"))
        return self._nearest(X, n_neighbors).graph(len(self.labels_), distances=mode == "distance")

    @in_jobs
    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every query: (n_queries,). Equal probabilities go by ``tie_break``."""
        X = self.check_queries(X)
        return self._names(self.model_.best_of(X))

    @in_jobs
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n_queries, n_classes), columns as in ``classes_``; every row sums to 1.

        The largest of a row is always the one that ``predict`` names: among
        equals, the winner by ``tie_break`` stands one rounding step higher.
        """
        X = self.check_queries(X)
        return self.model_.proba_of(X)

    @in_jobs
    def explain(self, X: Any) -> EvidenceList[Evidence]:
        """The evidence for every query: an ``Evidence`` each, from one search.

        The record of each probability counts training rows, each answered
        by the others; the first call answers them, which takes about as long as
        ``leave_one_out_proba``.

        The list also has ``predictions``, ``probabilities`` and ``table``,
        equal to what ``predict``, ``predict_proba`` and ``neighbors`` give, so
        you can get all of them from a single search.
        """
        X = self.check_queries(X)
        table, forest = self.model_.query(X), self.model_.forest_neighbors(X)
        p = np.empty((len(table), len(self.classes_)))
        best = np.empty(len(table), np.int64)
        items = []
        for part, p[part], best[part] in self.model_.by_block(table):
            of_part = None if forest is None else forest[part]
            items += self.model_.evidence(table[part], p[part], best[part], self.rows_, of_part)
        arrays = {"predictions": self._names(best), "probabilities": p, "table": self.rows_.table(table)}
        return EvidenceList(items, **arrays)

    @in_jobs
    def novelty(self, X: Any, *, by_class: bool = False) -> np.ndarray:
        """How unusual each query is, from 0 to 1: the share of training rows that are less unusual: (n_queries,).

        It is high where the nearest row is far, where neighbors are farther
        than they are from one another, and where their labels disagree, each
        compared with what is usual among training rows. A value of 0.97 is
        reached by 3 in 100 rows of the kind that the training rows are.

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
        table = self._query(X)
        novelty = np.empty(len(table))
        for part, p, best in self.model_.by_block(table):
            novelty[part] = self.model_.novelty_of(table[part], p, best if by_class else None)
        return novelty

    def shift(self, X: Any, *, rate: float = RATE) -> ShiftTest:
        """Whether these queries, all together, are unlike the training rows: promises may not hold for such.

        A test on their novelty; ``rate`` is how often queries that are like the rows are called unlike them.

        >>> from nearsay.posterior.classifier import NeighborClassifier
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> clf = NeighborClassifier(5, posterior="weighted").fit(X, X[:, 0] > 0)
        >>> print(clf.shift(np.random.default_rng(1).normal(loc=2, size=(30, 2))))
        These 30 queries are unlike the collection (mean novelty 0.8...): promises may not hold.
        """
        novelty = self.novelty(X)
        return shift_test(novelty, self.model_.novelty.n_usual, rate)

    def estimate_priors(self, X: Any) -> ClassShares:
        """How frequent each class is among these queries, where that is not as among the training rows.

        By expectation maximization (Saerens et al. 2002), from their probabilities; ``priors=estimate.priors`` of a
        classifier puts them in.
        """
        check_is_fitted(self)
        model = self.model_
        known = log_frequencies(self.labels_, len(self.classes_), model.weights)
        in_them = known if model.priors is None else model.priors.log_priors
        return estimated_shares(self.predict_proba(X), np.exp(in_them), self.classes_)

    @in_jobs
    def leave_one_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of the training rows, each answered by the others.

        A row is neither among its neighbors nor among the past cases that the
        posterior learned from. Tables of past cases are counts, and the case
        is taken out of them: exactly what a fit without it would say. Weights
        ("weighted", "pooled", a posterior of yours) are learned again without
        each tenth of the cases. What stays is that the row is a neighbor of
        others. Where "auto" chose the posterior among fewer than 500 rows,
        or the metric among fewer than 2,000, everything is chosen and learned
        again without each third of the rows; with more rows, the choice was
        made with the row among the cases. A row of weight 0 is answered as a query
        is.
        """
        return self._left_out_proba()

    def label_scores(self) -> LabelScores:
        """How well each training row's label fits what the others say: ``order`` has likely mistakes first.

        From ``leave_one_out_proba``, so no row supports its own label.

        >>> from nearsay.posterior.classifier import NeighborClassifier
        >>> X, y = [[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2]], list("aabaddd")
        >>> scores = NeighborClassifier(2, posterior="proportional").fit(X, y).label_scores()
        >>> int(scores.order[0]), scores.suggested[scores.order[0]]
        (2, np.str_('a'))
        """
        return LabelScores.from_probabilities(self.leave_one_out_proba(), self.labels_, self.classes_)

    def check_queries(self, X: Any) -> Any:
        """Queries as the model takes them, or an error that says what is wrong with them."""
        raise NotImplementedError

    def nearest(self, X: Any, n_neighbors: int) -> NeighborTable:
        """The nearest rows of queries by the index alone, in the numbers of the model."""
        X = self.check_queries(X)
        queries = self.model_.views.views[0].measured(X)
        distances, indices = self.index_.kneighbors(queries, n_neighbors)
        return NeighborTable(indices, distances)

    def _query(self, X: Any) -> NeighborTable:
        X = self.check_queries(X)
        return self.model_.query(X)

    def _nearest(self, X: Any, n_neighbors: int | None) -> NeighborTable:
        check_is_fitted(self)
        k = self.n_neighbors_ if n_neighbors is None else n_neighbors
        if X is not None:
            return self.rows_.table(self.nearest(X, k))
        distances, indices = self.index_.kneighbors(None, k)
        return self.rows_.line_for_each(self.rows_.table(NeighborTable(indices, distances)))


def _if_any(value: Any, why_none: str) -> Any:
    if value is None:
        raise AttributeError(why_none)
    return value
