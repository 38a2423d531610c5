"""What a collection has learned, and the classifier that applies it to the current rows.

    learn:   rows then ──► views, k, weights of the posterior, records, hedge      kept, and named by an event
    answer:  rows now ───► neighbors in these views ──► the same weights ──► probability, record, novelty, node

Rows and labels change without learning again: a new row is a neighbor at once, and a
new class is a class like any other. Posteriors that count past cases are counted again
from the current rows. Maps, weights, records of past answers, usual distances and the
hedge stay as they were learned.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.state.feature_groups import FeatureGroups
from nearsay.collection.state.learned_keywords import LearnedKeywords
from nearsay.collection.state.live_views import LiveTransform, LiveView, LiveViews, Voters, checked_queries
from nearsay.core.arrays import row_blocks
from nearsay.data.saved import saved_objects
from nearsay.decision.calibration import LEFT_OUT_ROWS_WORTH_ONE, Calibration
from nearsay.decision.hedged import HedgedClassifier
from nearsay.errors import SavedFileError
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.evidence import Evidence, evidence
from nearsay.posterior.evidence.label_scores import LabelScores
from nearsay.posterior.evidence.novelty import Novelty
from nearsay.posterior.evidence.records import Records
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.past_cases import ROWS_AT_ONCE, PastCases
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside
from nearsay.posterior.votes import neighbor_labels
from nearsay.search.choose import Choice
from nearsay.taxonomy.taxonomy import Taxonomy

FILE = "learned.nearsay"
LEARN = "Learn again: it is made from the items, and nothing else is lost."
MOST_NEIGHBORS = 1_000_000
# Up to so many rows are searched one by one, if the table of all rows is not kept already.
FEW_ROWS = 64


class NeighborsAlone(NeighborClassifier):
    """A classifier without companion models, which would not follow when labels change.

    With feature groups it has one view of all groups together and one of each group.
    """

    groups: FeatureGroups | None = None
    make: Callable[..., View] = View

    @classmethod
    def fitted(
        cls,
        X: np.ndarray,
        labels: np.ndarray,
        metric: Any,
        posterior: Any,
        n_neighbors: Any,
        groups: FeatureGroups | None,
        make: Callable[..., View] = View,
    ) -> NeighborsAlone:
        """Fitted to rows and their labels; ``make`` makes the views."""
        classifier = cls(n_neighbors, posterior=posterior, metric=metric)
        classifier.groups, classifier.make = groups, make
        classifier.fit(X, labels)
        return classifier

    @property
    def _view(self) -> Callable[..., View]:
        return self.make

    def _views_of(self, X: Any, makers: Mapping[str, Callable[[], Posterior]]) -> dict[tuple[int, int], View]:
        if self.groups is None:
            return super()._views_of(X, makers)
        views = self.groups.views(X, self.labels_, len(self.classes_), self._view)
        return {(0, number): view for number, view in enumerate(views)}

    def _of_one_scale(self, views: Any, makers: Any) -> dict[tuple[int, int], View]:
        return super()._of_one_scale(views, makers) if self.groups is None else views

    def _models(self, X: Any, y: Any, views: Any, beside_proba: Any) -> list[ModelBeside]:
        return []

    def _content_order(self, X: Any) -> np.ndarray:
        if self.groups is None:
            return super()._content_order(X)
        used = np.concatenate([np.arange(*ends) for ends in self.groups.columns.values()])
        return super()._content_order(np.asarray(X)[:, np.sort(used)])

    def _like_this(self) -> NeighborClassifier:
        other = copy(self)
        other.make = View  # few rows are faster to search here
        return other


class Learned:
    """What was learned from the rows of a collection at one version of it.

    Attributes
    ----------
    transforms : of the views; the neighbors of the first are shown.
    n_neighbors : int
    members : the nearest members used of each class, or None.
    posterior : with its weights; holds no labels.
    records : of past answers.
    novelty : usual distances.
    hedge : a HedgedClassifier without its classifier, or None without a taxonomy.
    fold : (n_rows,) the fold of each row of the store; −1 for rows that did not vote.
    n_rows : int
        How many rows voted.
    version : int
        The event that they were read after.
    posterior_name, choices : names to show.
    keywords : how keywords are passed on, or None where too few items have any.
    requested : (posterior, n_neighbors) as passed to ``learn``, to learn in the same way again.
    """

    transforms: list[LiveTransform]
    n_neighbors: int
    members: tuple[int, ...] | None
    posterior: Any
    records: Records
    novelty: Novelty
    hedge: HedgedClassifier | None
    fold: np.ndarray
    n_rows: int
    version: int
    posterior_name: str
    choices: list[str]
    keywords: LearnedKeywords | None = None
    requested: tuple[Any, Any] = ("auto", "auto")

    @classmethod
    def from_rows(
        cls,
        X: np.ndarray,
        labels: np.ndarray,
        numbers: np.ndarray,
        *,
        n_store_rows: int,
        version: int,
        metric: Any = "euclidean",
        posterior: Any = "auto",
        n_neighbors: Any = "auto",
        groups: FeatureGroups | None = None,
        taxonomy: Taxonomy | None = None,
        make: Callable[..., View] = View,
    ) -> Learned:
        """Learn from the rows that vote; ``numbers`` are theirs in the store. ``make`` makes the views."""
        classifier = NeighborsAlone.fitted(X, labels, metric, posterior, n_neighbors, groups, make)
        learned = cls()
        views = classifier._views.views
        learned.transforms = [transform_of(view) for view in views]
        learned.n_neighbors, learned.members = max(1, classifier.n_neighbors_), classifier._members
        learned.n_rows, learned.version = len(X), version
        learned.requested = (posterior, n_neighbors)
        learned.fold = np.full(n_store_rows, -1, np.int8)
        for view in views:
            if view.knows_labels and view.looks is not None:
                learned.fold[numbers] = view.looks.fold
        learned.records = _records(classifier)
        learned.novelty = _usual(classifier)
        learned.posterior = _without_labels(classifier._posterior)
        chosen = classifier.choices_.chosen if hasattr(classifier, "choices_") else None
        learned.posterior_name = str(posterior) if chosen is None else chosen.posterior
        learned.choices = [transform.name for transform in learned.transforms]
        learned.hedge = None
        if taxonomy is not None and len(classifier.classes_) > 1:
            calibration = Calibration(
                classifier,
                classifier.classes_[classifier.labels_],
                classifier.leave_one_out_proba(),
                np.bincount(classifier.labels_)[classifier.labels_] == 1,
                rows_worth_one=LEFT_OUT_ROWS_WORTH_ONE,
            )
            learned.hedge = _without_classifier(HedgedClassifier.calibrated(calibration, taxonomy))
        return learned

    @property
    def all_transforms(self) -> list[LiveTransform]:
        """The transforms for labels and for keywords."""
        return self.transforms if self.keywords is None else [*self.transforms, self.keywords.transform]

    def learn_keywords(self, X: np.ndarray, keywords: list[list[str]], numbers: np.ndarray, n_store_rows: int) -> None:
        """Learn from the rows that have keywords how to pass them on; ``numbers`` are theirs in the store."""
        by_itself = next((transform for transform in self.transforms if not transform.without), self.transforms[0])
        self.keywords = LearnedKeywords.from_rows(X, keywords, numbers, n_store_rows, by_itself)

    def write(self, folder: Path) -> None:
        """Put it into a folder."""
        saved_objects.save(self, folder / FILE)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Learned:
        """What ``write`` put there."""
        try:
            learned: Learned = saved_objects.load(Path(folder) / FILE, expect="Learned")
        except SavedFileError as error:
            raise SavedFileError(f"{error} {LEARN}") from error
        return learned

    def check(self, n_columns: int) -> None:
        """Check that this fits rows of so many columns: the file may have been changed."""
        try:
            some = np.zeros((2, n_columns), np.float32)
            usable = 1 <= self.n_neighbors <= MOST_NEIGHBORS and self.fold.dtype == np.int8 and self.fold.ndim == 1
            usable = (
                usable and bool(self.transforms) and all(_fits(transform, some) for transform in self.all_transforms)
            )
        except Exception as error:
            raise SavedFileError(f"What was learned cannot be used ({error!r:.200}). {LEARN}") from error
        if not usable:
            raise SavedFileError(f"What was learned does not fit rows of {n_columns} columns. {LEARN}")

    def voters(self, votes: np.ndarray, labels: np.ndarray, n_classes: int) -> Voters:
        """These voters, with the folds that they were in."""
        fold = np.full(len(votes), -1, np.int8)
        known = min(len(votes), len(self.fold))
        fold[:known] = self.fold[:known]
        return Voters(votes, labels, n_classes, fold)

    def classifier(
        self,
        views: LiveViews,
        classes: np.ndarray,
        ids: np.ndarray,
        left_out: Callable[[int], NeighborTable],
        known_reach: np.ndarray,
    ) -> LiveClassifier:
        """The classifier over these rows; ``left_out`` gives the nearest others of every row that votes.

        ``known_reach`` is what ``Novelty.over`` takes.
        """
        return LiveClassifier._of(self, views, classes, ids, left_out, known_reach)


class CurrentRows(PastCases):
    """The current rows of a collection as past cases: their nearest others are searched only when needed."""

    def others_of(self, rows: np.ndarray, k: int) -> NeighborTable:
        return self.asked.leave_one_out(k, rows=rows)


class LiveClassifier(NeighborClassifier):
    """A classifier over the rows of a collection at one version, with what it has learned.

    Made by ``Learned.classifier``; it answers as every ``NeighborClassifier`` does. Rows have their numbers in the
    store, so that those that do not vote have a line, too: without neighbors, and with NaN for probabilities. Fitted
    to other rows, it is a ``NeighborClassifier`` of those.
    """

    _views: Any
    n_features_in_: int
    _left_out_of: Callable[[int], NeighborTable]
    _place: np.ndarray
    _counted: Posterior

    @classmethod
    def _of(
        cls,
        learned: Learned,
        views: LiveViews,
        classes: np.ndarray,
        ids: np.ndarray,
        left_out: Callable[[int], NeighborTable],
        known_reach: np.ndarray,
    ) -> LiveClassifier:
        name: Any = learned.posterior_name
        made = cls(learned.n_neighbors, posterior=name)
        made.classes_, made.labels_, made.ids_ = classes, views.labels, ids
        made.n_features_in_ = views.all_rows().shape[1]
        made.n_neighbors_, made._members, made._seed = learned.n_neighbors, learned.members, 0
        made._views = views
        made.index_ = _index_of(views.first)
        made._records = learned.records
        made._novelty = learned.novelty.over(CurrentRows(views), known_reach)
        made._left_out_of = left_out
        made._posterior = made.posterior_ = made._current_posterior(learned.posterior)
        return made

    def _current_posterior(self, posterior: Posterior) -> Posterior:
        """The learned posterior over these rows; past cases are counted again where it counts them."""
        live, n_classes = self._views.live_numbers, len(self.classes_)
        if posterior.counts_cases:
            self._place = np.full(len(self.labels_) + 1, -1)  # among the rows that vote; the last is that of −1
            self._place[live] = np.arange(len(live))
            table = self._numbered(self._others(self.n_neighbors_, live))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # given when it was learned
                posterior = self._counted = copy(posterior).fit(table, self.labels_[live], n_classes)
        return posterior.over(self.labels_, n_classes, live)

    def _numbered(self, table: NeighborTable) -> NeighborTable:
        """The table with rows numbered among those that vote."""
        return replace(table, indices=self._place[table.indices])

    def _others(self, k: int, rows: np.ndarray) -> NeighborTable:
        """The nearest others of some rows; of many rows from the table of all, unless classes are needed."""
        few = len(rows) <= FEW_ROWS and not self._views.first.transform.without
        if self._members is None and not few:
            return self._left_out_of(k)[rows]
        table: NeighborTable = self._views.leave_one_out(k, self._members, rows)
        return table

    @property
    def _is_live(self) -> bool:
        """Whether its rows are those of a collection."""
        return isinstance(self._views, LiveViews)

    def _check_queries(self, X: Any) -> Any:
        return checked_queries(X, self.n_features_in_) if self._is_live else super()._check_queries(X)

    def _seen(self, X: Any) -> Any:
        return self._views.first.transform.apply(self._check_queries(X)) if self._is_live else super()._seen(X)

    def leave_one_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of the rows that vote, each answered by the others; NaN for all other rows.

        As ``left_out_proba`` gives them, a part at a time.
        """
        if not self._is_live:
            return super().leave_one_out_proba()
        p, rows = np.full((len(self.labels_), len(self.classes_)), np.nan), self._views.live_numbers
        for part, _, some in self.left_out_proba(rows):
            p[rows[part]] = some
        return p

    def label_scores(self) -> LabelScores:
        """How well the label of each row fits the others; ``order`` has only the rows that vote."""
        scores = super().label_scores()
        return replace(scores, order=scores.order[: len(self._views)]) if self._is_live else scores

    def left_out_proba(self, rows: np.ndarray) -> Iterator[tuple[slice, NeighborTable, np.ndarray]]:
        """Rows that vote, some at a time, with their neighbors and probabilities (n, n_classes) by all others.

        The weights are those that were learned, from these rows among others. Of a table of past cases the row's
        own case is taken out.
        """
        for part in row_blocks(len(rows), size=ROWS_AT_ONCE):
            table = self._others(self.n_neighbors_, rows[part])
            if self._posterior.counts_cases:
                p = self._counted.leave_one_out_proba(self._numbered(table), self._place[rows[part]])
            else:
                p = self._posterior.proba(table)
            if isinstance(self._posterior, Pooled):
                p = self._posterior.without_the_case(p, [table], rows[part])
            yield part, table, self._answers.settled(p, table)

    def evidence_of(self, table: NeighborTable, p: np.ndarray) -> list[Evidence]:
        """The evidence of answers with these neighbors and probabilities, one for each line."""
        return evidence(
            table,
            neighbor_labels(table, self.labels_),
            p.argmax(axis=1),
            p,
            self._novelty_of(table, p),
            self.classes_,
            self._record_of(p.max(axis=1)),
            self.ids_,
            self._novelty.twins(table),
        )


def _fits(transform: LiveTransform, some: np.ndarray) -> bool:
    """Whether a transform fits, as a whole and in each fold."""
    if transform.columns is not None and not 0 <= transform.columns[0] < transform.columns[1] <= some.shape[1]:
        return False
    shapes = {replace(transform, whole=each).apply(some).shape for each in (transform.whole, *transform.without)}
    return all(len(shape) == 2 and shape[0] == len(some) for shape in shapes)


def _index_of(view: LiveView) -> NeighborIndex:
    """The rows of a view as an index: changing it changes nothing else."""
    index, search = NeighborIndex(view.search.distance_), view.search.snapshot()
    index.search_, index.chosen_ = search, Choice(search, "exact", "a collection is searched exactly")
    return index


def transform_of(view: View) -> LiveTransform:
    """The transform of a view, as a collection keeps it."""
    if isinstance(view.columns, slice):
        return LiveTransform(view.name, view.distance.name, columns=(view.columns.start, view.columns.stop))
    if view.look is None or view.looks is None:
        return LiveTransform(view.seen_by, view.distance.name)
    whole = view.looks.whole(view.look)
    folds = range(view.looks.fold.max(initial=-1) + 1) if view.knows_labels else ()
    return LiveTransform(
        view.look.name, view.look.distance, whole, tuple(view.looks.without(f, view.look) for f in folds)
    )


def _records(classifier: NeighborClassifier) -> Records:
    classifier._record_of(np.array([0.5]))
    assert classifier._records is not None
    return classifier._records


def _usual(classifier: NeighborClassifier) -> Novelty:
    """The novelty statistics, without the past cases."""
    novelty = classifier._novelty
    if novelty.k:
        novelty._usual = novelty._learn(classifier._sureness)
        _ = novelty.twin_share, novelty._nearly_equal
    known = copy(novelty)
    known.__dict__ = {name: value for name, value in vars(novelty).items() if name not in ("past", "_past_reach")}
    known.__dict__.pop("_known_reach", None)
    return known


def _without_labels(posterior: Any) -> Any:
    bare = copy(posterior)
    bare.labels_ = np.empty(0, np.int64)
    if "ranks_" in vars(bare):  # the fallback where no class is sure
        bare.ranks_ = _without_labels(bare.ranks_)
    return bare


def _without_classifier(hedged: HedgedClassifier) -> HedgedClassifier:
    bare = copy(hedged)
    bare.estimator = bare.estimator_ = None
    bare._ways = [replace(way, estimator=None) for way in hedged._ways]
    bare._way = next(way for way in bare._ways if way.curve is hedged._way.curve)
    return bare
