"""Class probabilities from rows in shards: ``NeighborClassifier`` for more rows than memory holds.

    ShardedRows, labels ──► past cases: some rows, each asked about all others, shard by shard ──► posterior
         │                                                                                            │
         └─ as they are, or mapped where they are opened                                              │
    queries ──► shards ──► neighbors and classes, merged ─────────────────────────────────────────────┴──► answers

Only neighbor tables come from shards; all that follows is the code that serves one array.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows, row_blocks, rows_within
from nearsay.core.parallel import in_jobs
from nearsay.core.validation import checked_labels
from nearsay.errors import InputError
from nearsay.neighbors.sharded.shard_search import NO_ROWS
from nearsay.neighbors.sharded.sharded_index import ANSWER_BYTES, MEMORY, LabeledShards, Progress, ShardedIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.choice.fit_checks import checked_items
from nearsay.posterior.choice.row_groups import are_automatic, checked_validation, labels_together
from nearsay.posterior.classifier import NeighborClassifier, fit_options
from nearsay.posterior.evidence.label_scores import LabelScores, odds_against_rival
from nearsay.posterior.methods.past_case_table import Tabulated
from nearsay.posterior.neighbor_estimator import NeighborEstimator
from nearsay.posterior.past_cases import ROWS_AT_ONCE, possible_members
from nearsay.posterior.views.model_beside import held_out_of_each
from nearsay.search.shards import ShardedRows


class ShardedClassifier(NeighborEstimator):
    """A ``NeighborClassifier`` whose rows lie in shards, on disk: the same tables, probabilities and evidence.

    What is left open is chosen as there, among the same views and models. Views of mapped rows are never written: rows
    are mapped where their shard is opened. What is learned from rows themselves is learned in this process, as
    ``NeighborClassifier`` learns it: a map from all rows, or from 200,000 of them in even steps. There is one
    difference: ``beside`` is learned from at most 200,000 rows, drawn with a fixed seed, where ``NeighborClassifier``
    takes all it has.

    Parameters
    ----------
    estimator : NeighborClassifier or None, default=None
        What to do with the rows: its ``n_neighbors``, ``posterior``, ``metric`` and so on, but for its ``search``.
        None is ``NeighborClassifier()``.
    search, recall, cluster, work_folder, memory, on_progress : as in ``ShardedIndex``.

    Attributes
    ----------
    shards_ : ShardedRows, the rows; all others as in ``NeighborClassifier``.

    Examples
    --------
    >>> import tempfile
    >>> from nearsay.posterior import Proportional
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/0.npy", np.array([[-1.0], [0.0], [1.0]]))
    >>> np.save(f"{folder}/1.npy", np.array([[3.0], [8.0], [9.0]]))
    >>> clf = ShardedClassifier(NeighborClassifier(n_neighbors=3, posterior=Proportional(model_failure=0.0)))
    >>> clf = clf.fit(folder, ["low", "low", "low", "high", "high", "high"])
    >>> clf.predict_proba([[1.5]]).round(3)
    array([[0.333, 0.667]])
    """

    rows_at_once = ROWS_AT_ONCE  # that are left out together, at most

    def __init__(
        self,
        estimator: NeighborClassifier | None = None,
        *,
        search: str = "exact",
        recall: float | None = None,
        cluster: Any = None,
        work_folder: str | os.PathLike[str] | None = None,
        memory: int = MEMORY,
        on_progress: Progress | None = None,
    ) -> None:
        self.estimator = estimator
        self.search = search
        self.recall = recall
        self.cluster = cluster
        self.work_folder = work_folder
        self.memory = memory
        self.on_progress = on_progress

    @property
    def n_jobs(self) -> int | None:  # type: ignore[override]
        """Threads, as ``estimator`` has them."""
        return None if self.estimator is None else self.estimator.n_jobs

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
    ) -> ShardedClassifier:
        """Open the shards, and learn from past cases.

        Parameters
        ----------
        X : ShardedRows, or what ``ShardedRows.open`` takes, such as a folder.
        y : (n_rows,) labels, of removed rows too, where they are not used.
        sample_weight, groups, ids, beside_proba : as in ``NeighborClassifier``; groups are given, of removed rows
            too, not found.
        validation : (rows, labels), optional
            As in ``NeighborClassifier``. These rows are numbers, as queries are; they are held in memory, and sent to
            workers with what they search.
        """
        estimator = NeighborClassifier() if self.estimator is None else self.estimator
        options = fit_options(estimator, beside_proba)
        given = self.opened(X)
        y = column_or_1d(checked_labels(y), warn=True)
        check_classification_targets(y)
        if len(y) != len(given):
            raise InputError(f"There must be a label for each of the {len(given):,} rows; got {len(y):,}.")
        if are_automatic(groups):
            raise InputError(
                'groups="auto" compares all rows with each other in memory, and these lie in shards. Pass a number or a'
                " name for each row."
            )
        self.n_features_in_, n_rows = given.n_columns, len(y)
        if len(given.removed):
            sample_weight = np.ones(len(y)) if sample_weight is None else np.array(sample_weight, float)
            sample_weight[given.removed] = 0.0
        if validation is not None:
            rows, of_rows = checked_validation(validation)
            rows = as_rows(rows, name="validation", width=given.n_columns)
            given, y = given.with_held(rows, "the validation rows"), labels_together(y, of_rows)
        index = ShardedIndex(
            "euclidean",
            self.search,
            self.recall,
            cluster=self.cluster,
            work_folder=self.work_folder,
            memory=self.memory,
            on_progress=self.on_progress,
        )
        held_out = None if beside_proba is None else held_out_of_each(estimator.beside, beside_proba)
        options = replace(options, shards=index)
        self._fit_given(options, given, y, sample_weight, groups, ids, n_rows=n_rows, held_out=held_out)
        self.shards_ = given
        return self

    def _held_and_others(self, options: Any, X: ShardedRows, held: np.ndarray) -> tuple[ShardedRows, None]:
        return X.without(np.setdiff1d(np.arange(len(X)), held)).renumbered(), None

    def opened(self, X: Any) -> ShardedRows:
        """The rows that ``fit`` takes: what was opened, or files to be opened."""
        return X if isinstance(X, ShardedRows) else ShardedRows.open(X)

    def check_queries(self, X: Any) -> Any:
        """Queries as the model takes them, or an error that says what is wrong with them."""
        check_is_fitted(self)
        return checked_items(self, self.model_.views.first.search.distance_, X)

    def left_out_numbers(self) -> np.ndarray:
        """Numbers of the rows that ``left_out_blocks`` answers, in order: all but those that are removed."""
        check_is_fitted(self)
        return self.shards_.live_numbers

    def left_out_blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(row numbers, their probabilities) of all rows, each answered by the others, never all in memory.

        What ``leave_one_out_proba`` gives, some rows at a time, and not in their order; nothing of removed rows.
        """
        check_is_fitted(self)
        model, given = self.model_, self.rows_
        # As many rows at a time as shards answer together, of which all classes are listed.
        at_once = rows_within(ANSWER_BYTES, 16 * len(self.classes_), most=self.rows_at_once)
        for rows, p in model.left_out_blocks(at_once):
            yield given.numbers(rows), p
        others = NO_ROWS if given.held is None else np.setdiff1d(self.left_out_numbers(), given.held)
        for block in row_blocks(len(others), size=at_once):
            for part, p, _ in model.by_block(model.query(self.shards_.take(others[block]))):
                yield others[block][part], p

    @in_jobs
    def leave_one_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of all rows, as in ``NeighborClassifier``; NaN for a removed row."""
        p = np.full((len(self.labels_), len(self.classes_)), np.nan)
        for rows, of_rows in self.left_out_blocks():
            p[rows] = of_rows
        return p

    def label_scores(self) -> LabelScores:
        """How well each row's label fits what the others say: ``order`` has likely mistakes first.

        Removed rows have NaN, and are not in ``order``.
        """
        probability, margin, odds = np.full((3, len(self.labels_)), np.nan)
        suggested = self.labels_.copy()
        for rows, p in self.left_out_blocks():
            suggested[rows] = p.argmax(axis=1)
            probability[rows], margin[rows], odds[rows] = odds_against_rival(p, self.labels_[rows])
        answered = self.left_out_numbers()
        order = answered[np.argsort(odds[answered], kind="stable")]
        return LabelScores(probability, margin, self.classes_[self.labels_], self.classes_[suggested], order)


def count_past_cases(
    posterior: Tabulated, labeled: LabeledShards, k: int, rows: np.ndarray | None = None, at_once: int = 4096
) -> Tabulated:
    """Count the past cases of all rows, or of some, in a table: sums over blocks of rows, never held together.

    The counts are those of one ``fit`` to the whole leave-one-out table, for every posterior that counts past cases.
    "dist&votesplit" has to know the farthest neighbor before it counts, and searches twice; with a work folder
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
