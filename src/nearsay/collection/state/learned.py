"""What a collection has learned, and the classifier that applies it to the current rows.

    learn:   rows then ──► views, k, weights of the posterior, records, hedge      kept, and named by an event
    answer:  rows now ───► neighbors in these views ──► the same weights ──► probability, record, novelty, node

Rows and labels change without learning again: a new row is a neighbor at once, and a new class a class like any other.
Posteriors that count past cases count the current rows again; everything else stays as it was learned.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.state.feature_groups import FeatureGroups, TextViews
from nearsay.collection.state.keywords.learned_keywords import LearnedKeywords
from nearsay.collection.state.live_items import NO_LABEL
from nearsay.collection.state.live_models import LearnedModel
from nearsay.collection.state.live_views import LiveTransform, LiveViews, checked_queries
from nearsay.collection.state.row_groups import NO_ROWS
from nearsay.core.arrays import row_blocks
from nearsay.data.saved import saved_objects
from nearsay.decision.calibration import left_out_calibration
from nearsay.decision.hedged import HedgedClassifier
from nearsay.decision.sets.class_scores import threshold
from nearsay.errors import SavedFileError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior
from nearsay.posterior.choice.fit_checks import check_n_neighbors
from nearsay.posterior.classifier import NeighborClassifier, fit_options
from nearsay.posterior.evidence.evidence import Evidence
from nearsay.posterior.evidence.novelty import Novelty
from nearsay.posterior.evidence.records import Records
from nearsay.posterior.methods.named import is_auto, name_of
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.model import FittedModel
from nearsay.posterior.nested import fit_nested
from nearsay.posterior.past_cases import ROWS_AT_ONCE, PastCases
from nearsay.posterior.row_weights import GivenRows, TrainingRows
from nearsay.posterior.views.feature_group import View
from nearsay.taxonomy.taxonomy import Taxonomy

FILE = "learned.nearsay"
LEARN = "Learn again: it is made from the items, and nothing else is lost."
MOST_NEIGHBORS = 1_000_000
# Up to so many rows are searched one by one, if the table of all rows is not kept already.
FEW_ROWS = 64


def fitted_to_rows(
    X: np.ndarray,
    labels: np.ndarray,
    metric: Any,
    posterior: Any,
    n_neighbors: Any,
    groups: FeatureGroups | TextViews | None = None,
    make: Callable[..., View] | None = None,
    blocks: tuple[tuple[int, int], ...] = (),
    views: Callable[..., list[View]] | None = None,
    row_groups: np.ndarray | None = None,
) -> NeighborClassifier:
    """A classifier fitted to rows and their labels, as a collection learns; ``make`` makes the views.

    ``views`` gives the views to take, instead of those that past cases choose. ``blocks`` are the columns that stand
    for one column of a table, as in ``FitOptions``. With feature groups there is one view of all groups together and
    one of each group; texts have views of their own. Rows of one of ``row_groups`` never judge each other.
    """
    classifier = NeighborClassifier(n_neighbors, posterior=posterior, metric=metric)
    options = replace(fit_options(classifier), keep_copies=True, make_view=make, blocks=blocks)
    if groups is not None:
        columns = np.concatenate([np.arange(*ends) for ends in groups.columns.values()])
        options = replace(options, views=views or groups.views, columns=np.sort(columns))
    elif views is not None:
        options = replace(options, views=views)
    if not is_auto(n_neighbors):
        check_n_neighbors(n_neighbors, len(X))
    classes, numbers = np.unique(labels, return_inverse=True)
    classifier.n_features_in_ = X.shape[1]
    classifier.model_ = fit_nested(options, TrainingRows(X, numbers, classes, groups=row_groups))
    classifier.rows_ = GivenRows(numbers).with_groups(row_groups)
    return classifier


class Learned:
    """What was learned from the rows of a collection at one version of it.

    Attributes
    ----------
    transforms : of the views; the neighbors of the first are shown.
    n_neighbors : int
    members : the nearest members used of each class, or None.
    posterior : with its weights; holds no labels.
    records : of past answers.
    set_shares : (99,) how much probability a prediction set must hold to be right in 1, 2, … 99 % of past cases.
    novelty : usual distances.
    hedge : a HedgedClassifier without its classifier, or None without a taxonomy.
    fold : (n_rows,) the fold of each row of the store; −1 for rows that did not vote.
    n_rows : how many rows voted.
    version : the event that they were read after.
    posterior_name, choices : names to show.
    keywords : how keywords are passed on, or None where too few items have any.
    models : companion models that are pooled with the neighbors.
    of_labels : whether any of the rows had a label.
    validation : numbers of the rows in the store that past cases were; all, where there are none.
    near_duplicates : (n_rows,) the group of each row of the store, where near-duplicates are groups; else empty.
    requested : (posterior, n_neighbors) as ``learn`` was given them, to learn in the same way again.
    """

    transforms: list[LiveTransform]
    n_neighbors: int
    members: tuple[int, ...] | None
    posterior: Any
    records: Records
    set_shares: np.ndarray
    novelty: Novelty
    hedge: HedgedClassifier | None
    fold: np.ndarray
    n_rows: int
    version: int
    posterior_name: str
    choices: list[str]
    models: list[LearnedModel]
    keywords: LearnedKeywords | None = None
    of_labels: bool = True
    requested: tuple[Any, Any] = ("auto", "auto")
    validation: np.ndarray = NO_ROWS
    near_duplicates: np.ndarray = NO_ROWS

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
        taxonomy: Taxonomy | None = None,
        **fitting: Any,
    ) -> Learned:
        """Learn from the rows that vote; ``numbers`` are theirs in the store.

        ``fitting`` are further arguments of ``fitted_to_rows``.
        """
        classifier = fitted_to_rows(X, labels, metric, posterior, n_neighbors, **fitting)
        learned, model = cls(), classifier.model_
        fitted = model.views.views
        learned.transforms = [transform_of(view) for view in fitted]
        learned.models = [LearnedModel.of(each, classifier.classes_, numbers) for each in model.views.models]
        learned.n_neighbors, learned.members = max(1, model.n_neighbors), model.members
        learned.n_rows, learned.version = len(X), version
        learned.requested = (posterior, n_neighbors)
        learned.fold = np.full(n_store_rows, -1, np.int8)
        for view in fitted:
            if view.knows_labels and view.transforms is not None:
                learned.fold[numbers] = view.transforms.fold
        learned.records = model.records
        learned.set_shares = set_shares(model.past_ahead)
        learned.novelty = model.novelty.learned(model.past_sureness)
        learned.posterior = _without_labels(model.posterior)
        learned.posterior_name = name_of(posterior) if model.choices is None else model.choices.chosen.posterior
        learned.choices = [
            *(transform.name for transform in learned.transforms),
            *(each.name for each in learned.models),
        ]
        learned.of_labels = bool((classifier.classes_ != NO_LABEL).any())
        learned.hedge = None
        if taxonomy is not None and len(classifier.classes_) > 1:
            calibration = left_out_calibration(classifier)
            learned.hedge = HedgedClassifier.calibrated(calibration, taxonomy).without_estimator()
        return learned

    @property
    def all_transforms(self) -> list[LiveTransform]:
        """The transforms for labels and for keywords."""
        return self.transforms if self.keywords is None else [*self.transforms, self.keywords.transform]

    def learn_keywords(
        self,
        X: np.ndarray,
        keywords: list[list[str]],
        numbers: np.ndarray,
        n_store_rows: int,
        row_groups: np.ndarray | None = None,
    ) -> None:
        """Learn keyword prediction from rows that have keywords, with their ``numbers`` in the store and groups."""
        by_itself = next((transform for transform in self.transforms if not transform.without), self.transforms[0])
        self.keywords = LearnedKeywords.from_rows(X, keywords, numbers, n_store_rows, by_itself, row_groups)

    def write(self, folder: Path) -> None:
        """Put it into a folder."""
        saved_objects.save(self, folder / FILE)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Learned:
        """Read what ``write`` wrote."""
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
            ) and all(model.fits(some) for model in self.models)
        except Exception as error:
            raise SavedFileError(f"What was learned cannot be used ({error!r:.200}). {LEARN}") from error
        if not usable:
            raise SavedFileError(f"What was learned does not fit rows of {n_columns} columns. {LEARN}")

    def prediction_set(self, p: np.ndarray, accuracy: float) -> np.ndarray:
        """The fewest classes, the most probable first, that hold the true one as often as asked for: class numbers."""
        share = self.set_shares[min(max(int(np.ceil(100 * accuracy - 1e-9)), 1), 99) - 1]
        order = np.argsort(-p, kind="stable")
        return order[: int(np.searchsorted(np.cumsum(p[order]), share - 1e-12)) + 1]

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
        name: Any = self.posterior_name
        classifier = LiveClassifier(self.n_neighbors, posterior=name)
        classifier.n_features_in_ = views.all_rows().shape[1]
        classifier.rows_ = GivenRows(views.labels, ids)
        past = CurrentRows(views)
        model = LiveModel(
            classes=classes,
            labels=views.labels,
            views=views,
            posterior=self.posterior,
            n_neighbors=self.n_neighbors,
            members=self.members,
            past=past,
            novelty=self.novelty.over(past, known_reach),
            learned_records=self.records,
            all_left_out=left_out,
        )
        classifier.model_ = model.over_rows()
        return classifier


class CurrentRows(PastCases):
    """The current rows of a collection as past cases: their nearest others are searched only when needed."""

    def others_of(self, rows: np.ndarray, k: int) -> NeighborTable:
        return self.search.leave_one_out(k, rows=rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class LiveModel(FittedModel):
    """What a collection has learned, over its rows at one version, numbered as in the store.

    Attributes
    ----------
    learned_records : of past answers.
    all_left_out : gives the nearest others of every row that votes.
    counted : where the posterior counts past cases, the one that counted those of the rows that vote; or None.
    place : (n_rows + 1,) the place of each row among those that vote; −1 where it does not, and in the end.
    """

    learned_records: Records
    all_left_out: Callable[[int], NeighborTable]
    counted: Posterior | None = None
    place: np.ndarray | None = None

    def over_rows(self) -> LiveModel:
        """The same with a posterior over these rows; past cases are counted again where it is made of counts."""
        live, n_classes, posterior = self.views.live_numbers, len(self.classes), self.posterior
        if not posterior.counts_cases:
            return replace(self, posterior=posterior.over(self.labels, n_classes, live))
        place = np.full(len(self.labels) + 1, -1)
        place[live] = np.arange(len(live))
        table = self.leave_one_out(live)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were given when it was learned
            counted = copy(posterior).fit(replace(table, indices=place[table.indices]), self.labels[live], n_classes)
        over = counted.over(self.labels, n_classes, live)
        return replace(self, posterior=over, counted=counted, place=place)

    @property
    def records(self) -> Records:
        """The records of past answers."""
        return self.learned_records

    def leave_one_out(self, rows: np.ndarray) -> NeighborTable:
        """The nearest others of some rows; of many rows from the table of all, unless classes are needed."""
        few = len(rows) <= FEW_ROWS and not self.views.first.transform.without
        if self.members is None and not few and self.views.groups is None:
            return self.all_left_out(self.n_neighbors)[rows]
        table: NeighborTable = self.views.leave_one_out(self.n_neighbors, self.members, rows)
        return table

    def left_out_of(self, rows: np.ndarray) -> Iterator[tuple[slice, NeighborTable, np.ndarray]]:
        """Rows that vote, some at a time, with their neighbors and probabilities (n, n_classes) by all others.

        The weights are those that were learned, from these rows among others. Of a table of past cases the case
        of the row is taken out.
        """
        for part in row_blocks(len(rows), size=ROWS_AT_ONCE):
            table = self.leave_one_out(rows[part])
            if self.counted is not None and self.place is not None:
                among = replace(table, indices=self.place[table.indices])
                p = self.counted.leave_one_out_proba(among, self.place[rows[part]])
            else:
                p = self.posterior.proba(table)
            if isinstance(self.posterior, Pooled):
                p = self.posterior.without_the_case(p, [table], rows[part])
            yield part, table, self.settled(p, table)

    def left_out_proba(self) -> np.ndarray:
        """Probabilities (n_rows, n_classes) of the rows that vote, each answered by the others; NaN for all others."""
        p, rows = np.full((len(self.labels), len(self.classes)), np.nan), self.views.live_numbers
        for part, _, p_part in self.left_out_of(rows):
            p[rows[part]] = p_part
        return p


class LiveClassifier(NeighborClassifier):
    """A classifier over the rows of a collection at one version, with what it has learned.

    Made by ``Learned.classifier``; it answers as every ``NeighborClassifier`` does. Rows have their numbers in the
    store, so that those that do not vote have a line, too: without neighbors, and with NaN for probabilities. Fitted
    to other rows, it is a ``NeighborClassifier`` of those.
    """

    model_: Any
    n_features_in_: int

    def check_queries(self, X: Any) -> Any:
        """Queries as rows of the collection."""
        live = isinstance(self.model_, LiveModel)
        return checked_queries(X, self.n_features_in_) if live else super().check_queries(X)

    def left_out_proba(self, rows: np.ndarray) -> Iterator[tuple[slice, NeighborTable, np.ndarray]]:
        """As ``LiveModel.left_out_of``."""
        blocks: Iterator[tuple[slice, NeighborTable, np.ndarray]] = self.model_.left_out_of(rows)
        return blocks

    def evidence_of(self, table: NeighborTable, p: np.ndarray) -> list[Evidence]:
        """The evidence of answers with these neighbors and probabilities, one for each line."""
        items: list[Evidence] = self.model_.evidence(table, p, p.argmax(axis=1), self.rows_)
        return items


def set_shares(ahead: np.ndarray) -> np.ndarray:
    """How much probability a set must hold for each accuracy from 1 to 99 %: at least that, and what past cases needed.

    ``ahead`` is the probability of the classes before the true one, of each past case. Where there are too few cases to
    say, the probabilities are taken at their word.

    >>> set_shares(np.array([0.0] * 18 + [0.97] * 2))[[49, 89, 98]].round(2)
    array([0.5 , 0.97, 0.99])
    """
    accuracies = np.arange(1, 100) / 100
    needed = np.array([threshold(ahead, float(accuracy)) for accuracy in accuracies])
    return np.maximum(accuracies, np.where(np.isfinite(needed), np.nextafter(needed, 2.0), 0.0))


def _fits(transform: LiveTransform, some: np.ndarray) -> bool:
    """Whether a transform fits, as a whole and in each fold."""
    if transform.columns is not None and not 0 <= transform.columns[0] < transform.columns[1] <= some.shape[1]:
        return False
    shapes = {replace(transform, whole=each).apply(some).shape for each in (transform.whole, *transform.without)}
    return all(len(shape) == 2 and shape[0] == len(some) for shape in shapes)


def transform_of(view: View) -> LiveTransform:
    """The transform of a view, as a collection keeps it."""
    if isinstance(view.columns, slice):
        return LiveTransform(view.name, view.distance.name, columns=(view.columns.start, view.columns.stop))
    transform, transforms = view.transform, view.transforms
    if transform is None or transforms is None:
        return LiveTransform(view.metric_name, view.distance.name)
    folds = range(transforms.fold.max(initial=-1) + 1) if view.knows_labels else ()
    without = tuple(transforms.without(fold, transform) for fold in folds)
    return LiveTransform(transform.name, transform.distance, transforms.whole(transform), without)


def _without_labels(posterior: Any) -> Any:
    bare = copy(posterior)
    bare.labels_ = np.empty(0, np.int64)
    if "ranks_" in vars(bare):  # the fallback where no class is sure
        bare.ranks_ = _without_labels(bare.ranks_)
    return bare


@dataclass(frozen=True)
class LearnedInfo:
    """What is learned, and from how many rows.

    Attributes
    ----------
    n_rows, version : the number of rows it was learned from, and the event it was learned after.
    n_voters : how many rows vote now.
    of_labels : whether any row had a label, or keywords.
    posterior, views, n_neighbors : what past cases chose.
    record : of all past answers: cases, right ones, and the range of the true share; None without any.

    >>> print(LearnedInfo(4500, 7, 6120, "pooled", ["euclidean"], 10))
    Learned from 4,500 rows; 6,120 vote now: learn again to use them. Model: pooled over euclidean, k = 10.
    """

    n_rows: int
    version: int
    n_voters: int
    posterior: str
    views: list[str]
    n_neighbors: int
    of_labels: bool = True
    record: dict[str, Any] | None = None

    @property
    def stale(self) -> bool:
        """Whether a tenth of the rows has come or gone since."""
        return abs(self.n_voters - self.n_rows) * 10 >= max(self.n_rows, 10)

    def __str__(self) -> str:
        if not self.of_labels:
            return f"Nothing is labeled yet. {self.n_voters:,} items are compared by {' + '.join(self.views)}."
        since = "" if self.n_voters == self.n_rows else f"; {self.n_voters:,} vote now"
        again = ": learn again to use them" if self.stale else ""
        grown = f"Learned from {self.n_rows:,} rows{since}{again}"
        return f"{grown}. Model: {self.posterior} over {' + '.join(self.views)}, k = {self.n_neighbors}."
