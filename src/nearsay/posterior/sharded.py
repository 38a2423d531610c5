"""Class probabilities from rows in shards: what ``NeighborClassifier`` says, of more rows than memory holds.

    ShardedRows, labels ──► past cases: some rows, each asked about all others, shard by shard ──► posterior
         │                                                                                            │
         └─ as they are, or mapped where they are opened                                              │
    queries ──► shards ──► neighbors and classes, merged ─────────────────────────────────────────────┴──► answers

Only neighbor tables come from shards; all that follows is the code that serves one array.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils import _safe_indexing, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import places_among, row_blocks, rows_within
from nearsay.core.parallel import in_jobs
from nearsay.core.validation import checked_labels
from nearsay.data.rows import as_ids
from nearsay.distances.named import Metric
from nearsay.errors import InputError
from nearsay.neighbors.sharded.shard_search import NO_ROWS
from nearsay.neighbors.sharded.sharded_index import ANSWER_BYTES, MEMORY, LabeledShards, Progress, ShardedIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.choice.fit_checks import check_answering, check_beside, check_learning
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.label_scores import LabelScores
from nearsay.posterior.methods.custom_posterior import PosteriorLike
from nearsay.posterior.methods.named import PosteriorName
from nearsay.posterior.methods.past_case_table import Tabulated
from nearsay.posterior.past_cases import MAX_PAST_CASES, ROWS_AT_ONCE, possible_members, put_in, rows_not_judged
from nearsay.posterior.priors import PriorsLike
from nearsay.posterior.row_weights import rows_that_count
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside
from nearsay.posterior.views.shard_views import ModelOverShards, ShardView
from nearsay.search.shards import ShardedRows


class ShardedClassifier(NeighborClassifier):
    """A ``NeighborClassifier`` whose rows lie in shards, on disk: the same tables, probabilities and evidence.

    What is left open is chosen as there, among the same views and models. Views of mapped rows are never written: rows
    are mapped where their shard is opened. What is learned from rows themselves is learned in this process, as
    ``NeighborClassifier`` learns it: a map from all rows, or from 200,000 of them in even steps. There is one
    difference: ``beside``, and classes as Gaussians, are learned from at most 200,000 rows, drawn with a fixed seed,
    where ``NeighborClassifier`` takes all it has.

    Parameters
    ----------
    n_neighbors, posterior, metric, metric_params, tie_break, model_failure, smoothing, beside, criterion, \
max_past_cases, priors, random_state, n_jobs : as in ``NeighborClassifier``.
    search, recall, cluster, work_folder, memory, on_progress : as in ``ShardedIndex``.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[-1.0], [0.0], [1.0]]))
    >>> np.save(f"{folder}/1.npy", np.array([[3.0], [8.0], [9.0]]))
    >>> clf = ShardedClassifier(n_neighbors=3, posterior="proportional", model_failure=0.0)
    >>> clf = clf.fit(folder, ["low", "low", "low", "high", "high", "high"])
    >>> clf.predict_proba([[1.5]]).round(3)
    array([[0.333, 0.667]])
    """

    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = "auto",
        *,
        posterior: PosteriorName | tuple[PosteriorName, dict[str, Any]] | PosteriorLike = "auto",
        metric: Metric | Literal["auto"] = "euclidean",
        metric_params: Mapping[str, Any] | None = None,
        search: str = "exact",
        recall: float | None = None,
        tie_break: Literal["nearest", "random", "first"] = "nearest",
        model_failure: float = 0.01,
        smoothing: Literal["model_failure", "add-one"] = "model_failure",
        beside: Any = None,
        criterion: Literal["log_posterior", "accuracy"] = "log_posterior",
        max_past_cases: int | None = MAX_PAST_CASES,
        priors: PriorsLike = None,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        cluster: Any = None,
        work_folder: str | os.PathLike[str] | None = None,
        memory: int = MEMORY,
        on_progress: Progress | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.posterior = posterior
        self.metric = metric
        self.metric_params = metric_params
        self.search: Any = search
        self.recall = recall
        self.tie_break = tie_break
        self.model_failure = model_failure
        self.smoothing = smoothing
        self.beside = beside
        self.criterion = criterion
        self.max_past_cases = max_past_cases
        self.priors = priors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.cluster = cluster
        self.work_folder = work_folder
        self.memory = memory
        self.on_progress = on_progress

    @in_jobs
    def fit(
        self, where: Any, y: Any, sample_weight: Any = None, *, ids: Any = None, beside_proba: Any = None
    ) -> ShardedClassifier:
        """Look at the shards, and learn from past cases.

        Parameters
        ----------
        where : ShardedRows, or what ``ShardedRows.open`` takes.
        y : (n_rows,) labels, of removed rows too, where they are not looked at.
        sample_weight, ids, beside_proba : as in ``NeighborClassifier``.
        """
        check_learning(self.criterion, self.max_past_cases)
        check_answering(self)
        check_beside(self.beside, beside_proba, self)
        rows = self.opened(where)
        y = column_or_1d(checked_labels(y), warn=True)
        check_classification_targets(y)
        if len(y) != len(rows):
            raise InputError(f"There must be a label for each of the {len(rows):,} rows; got {len(y):,}.")
        self.ids_ = as_ids(ids, len(y))
        self.n_features_in_ = rows.n_columns
        self._held, self._given = None, rows
        if len(rows.removed):
            sample_weight = np.ones(len(y)) if sample_weight is None else np.array(sample_weight, float)
            sample_weight[rows.removed] = 0.0
        held, self._weights = rows_that_count(sample_weight, len(y))
        if held is None:
            self._fit_rows(rows, y, beside_proba)
            return self
        aside = np.setdiff1d(np.arange(len(y)), held)
        if beside_proba is not None and len(beside_proba) == len(y):
            beside_proba = _safe_indexing(beside_proba, held)
        self._fit_rows(rows.without(aside).renumbered(), y[held], beside_proba)
        self.labels_ = places_among(self.classes_, y)
        self._held = held
        return self

    def opened(self, where: Any) -> ShardedRows:
        """The rows that ``fit`` takes: what was opened, or files to be opened."""
        return where if isinstance(where, ShardedRows) else ShardedRows.open(where)

    @property
    def _view(self) -> Callable[..., View]:
        settings: dict[str, Any] = {
            "cluster": self.cluster, "work_folder": self.work_folder, "memory": self.memory,
            "on_progress": self.on_progress,
        }  # fmt: skip
        return partial(ShardView, ShardedIndex("euclidean", self.search, self.recall, **settings))

    @property
    def _model(self) -> type[ModelBeside]:
        return ModelOverShards

    def _like_this(self) -> NeighborClassifier:
        shared = [name for name in NeighborClassifier._get_param_names() if name != "search"]
        return NeighborClassifier(**{name: getattr(self, name) for name in shared})

    def left_out_numbers(self) -> np.ndarray:
        """Numbers of the rows that ``left_out_blocks`` tells of, in order: all but those that are removed."""
        check_is_fitted(self)
        return self._given.live_numbers

    def left_out_blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(row numbers, their probabilities) of all rows, each answered by the others, never all in memory.

        What ``leave_one_out_proba`` gives, some rows at a time, and not in their order; nothing of removed rows.
        """
        check_is_fitted(self)
        table, rows = self._past_cases(self._posterior, self.n_neighbors_)
        if table is None:
            table, rows = self._past.judged(self.n_neighbors_, self._members)
        p = self._answers.settled(self._posterior.leave_one_out_proba(table, rows), table)
        self._answer_otherwise(p, rows)
        yield self._numbers_given(np.arange(len(p)) if rows is None else rows), p
        # As many rows at a time as shards answer together, of which all classes are listed.
        at_once = rows_within(ANSWER_BYTES, 16 * len(self.classes_), most=ROWS_AT_ONCE)
        for others in rows_not_judged(rows, len(self._labels), at_once):
            table = self._views.leave_one_out(self.n_neighbors_, self._members, others)
            for part, p, _ in self._answers.by_block(table):
                for nested, of_nested in self._nested:
                    put_in(p, others[part], nested, of_nested)
                yield self._numbers_given(others[part]), p
        aside = NO_ROWS if self._held is None else np.setdiff1d(self.left_out_numbers(), self._held)
        for block in row_blocks(len(aside), size=at_once):
            for part, p, _ in self._answers.by_block(self._asked(self._given.take(aside[block]))):
                yield aside[block][part], p

    @in_jobs
    def leave_one_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of all rows, as in ``NeighborClassifier``; NaN for a removed row."""
        p = np.full((len(self.labels_), len(self.classes_)), np.nan)
        for rows, of_rows in self.left_out_blocks():
            p[rows] = of_rows
        return p

    def label_scores(self) -> LabelScores:
        """How well each row's label fits what the others say: ``order`` has likely mistakes first.

        Nothing is said of removed rows: they have NaN, and are not in ``order``.
        """
        answered = self.left_out_numbers()
        probability, margin, odds = np.full((3, len(self.labels_)), np.nan)
        suggested = self.labels_.copy()
        for rows, p in self.left_out_blocks():
            lines, own = np.arange(len(p)), self.labels_[rows]
            suggested[rows] = p.argmax(axis=1)
            probability[rows] = p[lines, own]
            p[lines, own] = 0.0
            rival = p.max(axis=1)
            margin[rows], odds[rows] = probability[rows] - rival, probability[rows] / (probability[rows] + rival)
        order = answered[np.argsort(odds[answered], kind="stable")]
        return LabelScores(probability, margin, self.classes_[self.labels_], self.classes_[suggested], order)


def count_past_cases(
    posterior: Tabulated, labeled: LabeledShards, k: int, rows: np.ndarray | None = None, at_once: int = 4096
) -> Tabulated:
    """Count the past cases of all rows, or of some, in a table: sums over blocks of rows, never held together.

    The counts are those of one ``fit`` to the whole leave-one-out table, for every posterior that counts past cases.
    "dist&votesplit" has to know the farthest neighbor before it counts, and asks all rows twice; with a work folder
    the second time is read from there.

    >>> import tempfile
    >>> from nearsay.posterior.methods.rank import Rank
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[0.0], [1.0], [5.0], [6.0]]))
    >>> labeled = ShardedIndex().fit(folder).with_labels([0, 0, 1, 1])
    >>> count_past_cases(Rank(), labeled, k=1, at_once=3).counts_
    array([[4, 0, 0]])
    """
    members = possible_members(posterior.members, labeled.labels)
    rows = labeled.live_numbers if rows is None else rows

    def blocks() -> Iterator[tuple[NeighborTable, np.ndarray]]:
        for part in row_blocks(len(rows), size=at_once):
            yield labeled.leave_one_out(k, members, rows[part]), rows[part]

    return posterior.fit_blocks(blocks, k, labeled.labels, labeled.n_classes)
