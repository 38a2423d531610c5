"""A collection that is asked and corrected: what was just said counts in the next answer, without training anew.

    add, relabel, confirm, forget, undo ──► store (durable) ──► voters and views of this version
                                                                    │ one search
    label(Q) ◄── class, probability, record, node, keywords, evidence, novelty

Every change is an event of the store before it is seen here. Answers at a version are
the same however that version was reached: opened just now, or changed row by row.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from nearsay.collection.answers import Answer
from nearsay.collection.state.build_answers import answers_of, answers_of_rows
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.feature_groups import FeatureGroups, check_measurable, check_metric
from nearsay.collection.state.item_table import frame_of
from nearsay.collection.state.learned import Learned, fitted_to_rows
from nearsay.collection.state.live_items import LiveItems, VotingState
from nearsay.collection.state.live_views import LiveTransform, LiveViews, Voters, checked_queries
from nearsay.collection.state.suggestions import (
    Duplicate,
    Mistake,
    ToLabel,
    label_next,
    likely_mistakes,
    near_duplicates,
)
from nearsay.collection.store.events import Event
from nearsay.collection.store.store import Store
from nearsay.collection.store.validate_items import (
    checked_edges,
    checked_ids,
    checked_labels,
    checked_vectors,
    checked_words,
)
from nearsay.core.arrays import GrowingArray
from nearsay.core.cancellation import stoppable
from nearsay.errors import InputError
from nearsay.neighbors.living.living_table import LivingTable
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.views.feature_group import View
from nearsay.taxonomy.taxonomy import Taxonomy

LEARNED = "learned"


@dataclass(frozen=True)
class LearnedInfo:
    """What is learned, and on how many rows.

    Attributes
    ----------
    n_rows, version : the rows it was learned from, and the event it was learned after.
    n_rows_now : how many rows vote now.
    posterior, views, n_neighbors : what past cases chose.

    >>> print(LearnedInfo(4500, 7, 6120, "pooled", ["euclidean"], 10))
    Learned on 4,500 rows, now 6,120: learn again to make use of them. pooled over euclidean, k = 10.
    """

    n_rows: int
    version: int
    n_rows_now: int
    posterior: str
    views: list[str]
    n_neighbors: int

    @property
    def stale(self) -> bool:
        """Whether a tenth of the rows has come or gone since."""
        return abs(self.n_rows_now - self.n_rows) * 10 >= max(self.n_rows, 10)

    def __str__(self) -> str:
        grown = f"Learned on {self.n_rows:,} rows, now {self.n_rows_now:,}"
        again = ": learn again to make use of them" if self.stale else ""
        return f"{grown}{again}. {self.posterior} over {' + '.join(self.views)}, k = {self.n_neighbors}."


class LiveCollection:
    """Items with vectors, labels and keywords in a folder, that answer what their neighbors say.

    Make one with ``LiveCollection.create`` or ``LiveCollection.open``. Every change is on disk when the call returns,
    and counts in the next answer. Any number of threads may ask while one changes it.

    A row votes when it has a label that a person gave or confirmed: what a machine said (``by="machine"``) waits for
    ``confirm``, unless the collection was made with ``machines_vote=True``.

    Examples
    --------
    >>> import tempfile
    >>> leaves = LiveCollection.create(tempfile.mkdtemp() + "/leaves", n_columns=1)
    >>> leaves.add(["a", "b", "c", "d"], [[0.0], [0.2], [4.0], [4.3]], labels=["oak", "oak", "elm", "elm"])
    1
    >>> leaves.label([[0.1]])[0].label
    'oak'
    >>> leaves.relabel(["a", "b"], ["ash", "ash"])
    3
    >>> leaves.label([[0.1]])[0].label
    'ash'
    >>> leaves.undo()
    4
    >>> leaves.label([[0.1]])[0].label
    'oak'
    >>> leaves.close()
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._building = threading.Lock()
        self._items: LiveItems | None = None
        self._now: CollectionState | None = None
        self._living: LivingTable | None = None
        self._X: GrowingArray | None = None
        # The rows that were forgotten when ``_X`` was read, and are not in it.
        self._blank = np.empty(0, np.int64)
        # The event that kept what is learned, and how that sees rows.
        self._sights: tuple[int, list[LiveTransform]] | None = None

    # ------------------------------------------------------------ opening and closing

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        n_columns: int,
        *,
        metric: str | Mapping[str, str] = "euclidean",
        feature_groups: Mapping[str, slice | tuple[int, int]] | None = None,
        taxonomy: Taxonomy | Sequence[tuple[str, str]] | None = None,
        machines_vote: bool = False,
        settings: dict[str, Any] | None = None,
        remember: bool = True,
    ) -> LiveCollection:
        """Make an empty collection in a new folder.

        Parameters
        ----------
        path : a folder that does not exist yet, or is empty.
        n_columns : how many numbers a vector has.
        metric : how vectors are compared; one of ``feature_groups.METRICS``, or one for each feature group.
        feature_groups : {name: (start, stop) or slice}
            Columns that belong together, each group compared by its own metric; past cases say how much each
            counts. Neighbors are shown by all groups together, each divided by its mean distance.
        taxonomy : a Taxonomy of the labels, or its edges (parent, child), for hedged answers.
        machines_vote : whether labels that nobody confirmed count.
        settings : anything else to be remembered, such as what described the items.
        remember : whether paths in ``settings`` (``pictures``, a model) are used without asking when this collection
            is opened here again; see ``user_decisions.py``.
        """
        if feature_groups is None:
            measured: dict[str, Any] = {"metric": check_metric(metric)}
        else:
            measured = FeatureGroups.checked(feature_groups, metric, n_columns).to_settings()
        about = {**(settings or {}), **measured, "machines_vote": bool(machines_vote)}
        _edges_and_words(taxonomy)  # what cannot be used leaves no folder behind
        collection = cls(Store.create(path, n_columns, about))
        collection.store.remembered.name_recorded(about)
        if remember:
            collection.store.remembered.save()
        if taxonomy is not None:
            collection.set_taxonomy(taxonomy)
        return collection

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        pictures: str | os.PathLike[str] | None = None,
        encoder: str | os.PathLike[str] | None = None,
    ) -> LiveCollection:
        """Open a collection; nothing but counts is read until it is asked.

        A second writer is refused with ``CollectionBusy``; any number may read beside the one.

        Parameters
        ----------
        path : its folder.
        read_only : bool
        pictures : path, optional
            Where its pictures lie on this machine. A collection from elsewhere cannot choose that; one that was made
            here knows it. It is remembered, outside the collection.
        encoder : path, optional
            The ``.onnx`` model that described its pictures, likewise.
        """
        collection = cls(Store.open(path, read_only=read_only))
        try:
            collection._name(pictures, encoder)
        except BaseException:
            collection.close()
            raise
        return collection

    def _name(self, pictures: str | os.PathLike[str] | None, encoder: str | os.PathLike[str] | None) -> None:
        """The user says where pictures and model lie."""
        if pictures is None and encoder is None:
            return
        settings, remembered = self.store.settings, self.store.remembered
        if pictures is not None:
            remembered.name_pictures(settings.get("pictures"), pictures)
        if encoder is not None:
            recorded = (settings.get("described") or {}).get("model")
            if recorded is None:
                raise InputError("No model of a user described the items of this collection: leave the encoder out.")
            remembered.name_model(recorded, encoder)
        remembered.save()

    def close(self) -> None:
        """Give the collection back; a second time does nothing."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        rows = f"{self.store.n_rows:,} rows of {self.n_columns}"
        return f"<LiveCollection {self.store.path.name}: {rows}, event {self.version}>"

    @property
    def n_columns(self) -> int:
        return self.store.n_columns

    @property
    def version(self) -> int:
        """The number of the last event."""
        return self.store.version

    def __len__(self) -> int:
        """How many items there are, those forgotten not counted."""
        return self.store.n_items if self._items is None else len(self.items.row_of)

    @property
    def items(self) -> LiveItems:
        """What is known of the items, at the newest version."""
        with self._lock:
            if self.store.read_only:
                self._follow()
            if self._items is None:
                machines_vote = bool(self.store.settings.get("machines_vote", False))
                self._items = LiveItems(self.store.items(), machines_vote=machines_vote)
            return self._items

    # ------------------------------------------------------------ changes

    def add(
        self,
        ids: Sequence[str],
        X: Any,
        labels: Sequence[str | None] | None = None,
        keywords: Sequence[Sequence[str] | None] | None = None,
        *,
        details: Sequence[dict[str, Any] | None] | None = None,
        by: str = "person",
        who: str = "",
        confirmed: bool | None = None,
    ) -> int:
        """Add items under new ids, with labels or keywords or without; gives the event's number.

        What a machine says is not confirmed unless ``confirmed=True``.
        """
        self._check_labels(labels)
        ids = checked_ids(ids)
        X = check_measurable(checked_vectors(X, ids, self.n_columns), self.store.settings)
        for place, reason in self.unfit(X).items():
            raise InputError(f"The item {ids[place]!r} cannot be added: {reason}. Correct it, or leave it out.")
        sure = by != "machine" if confirmed is None else confirmed
        return self._changed(
            self.store.add(ids, X, labels, keywords, details=details, by=by, who=who, confirmed=sure), X
        )

    def unfit(self, X: np.ndarray) -> dict[int, str]:
        """Rows too far from all others for what is learned, {their place in ``X``: why}; those are not added."""
        return {
            place: f"it is too far from all other items (it holds {X[place, np.abs(X[place]).argmax()]:g})"
            for sight in self._learned_sights()
            for place in np.flatnonzero(sight.out_of_range(X)).tolist()
        }

    def relabel(
        self,
        ids: Sequence[str],
        labels: Sequence[str | None],
        keywords: Sequence[Sequence[str] | None] | None = None,
        *,
        by: str = "person",
        who: str = "",
        confirmed: bool | None = None,
    ) -> int:
        """Give items other labels, and in the same event other keywords where they are given.

        None takes a label, or the keywords of an item, away.
        """
        self._check_labels(labels)
        sure = by != "machine" if confirmed is None else confirmed
        return self._changed(self.store.relabel(ids, labels, keywords, by=by, who=who, confirmed=sure))

    def set_keywords(
        self, ids: Sequence[str], keywords: Sequence[Sequence[str] | None], *, by: str = "person", who: str = ""
    ) -> int:
        """Give items other keywords."""
        return self._changed(self.store.set_keywords(ids, keywords, by=by, who=who))

    def confirm(self, ids: Sequence[str], *, by: str = "person", who: str = "") -> int:
        """Agree with the labels of items, so that they vote."""
        return self._changed(self.store.confirm(ids, by=by, who=who))

    def forget(self, ids: Sequence[str], *, by: str = "person", who: str = "") -> int:
        """Take items out; ``undo`` brings them back."""
        return self._changed(self.store.forget(ids, by=by, who=who))

    def undo(self, event: int | None = None, *, sure: bool = False, by: str = "person", who: str = "") -> int:
        """Take back the last change, or the one of this number. It is an event itself.

        What takes more than one item out, such as undoing an ``add``, needs ``sure=True``, and is refused while later
        events changed these items.
        """
        return self._changed(self.store.undo(event, sure=sure, by=by, who=who))

    def set_taxonomy(
        self, taxonomy: Taxonomy | Sequence[tuple[str, str]] | None, *, by: str = "person", who: str = ""
    ) -> int:
        """Put a tree over the labels, with the words of its nodes; ``learn`` then learns how to hedge.

        A tree that lacks the label of an item is refused.
        """
        edges, words = _edges_and_words(taxonomy)
        return self._changed(self.store.set_taxonomy(edges, words, by=by, who=who))

    def learn(
        self,
        *,
        posterior: str = "auto",
        n_neighbors: int | str = "auto",
        by: str = "person",
        who: str = "",
        learned: Learned | None = None,
    ) -> LearnedInfo:
        """Learn anew from the rows that vote: views, neighbors, weights, records, and the hedge of the taxonomy.

        ``learned`` is what another machine learned from this version (``learned_elsewhere.learned_on``), to be kept.
        """
        with self._lock:
            if learned is None:
                learned = self._learned_anew(posterior, n_neighbors)
            elif learned.version != self.store.version:
                raise InputError(
                    f"This was learned after event {learned.version}, and the collection is at event"
                    f" {self.store.version}. Learn once more."
                )
            self._changed(self.store.keep(LEARNED, learned.write, by=by, who=who))
            self._now = None
            return self._info(learned)

    # ------------------------------------------------------------ answers

    def label(
        self,
        X: Any,
        *,
        accuracy: float | None = None,
        n_keywords: int = 5,
        ids: Sequence[str] | None = None,
        hedges_at: Sequence[float] = (),
    ) -> list[Answer]:
        """What the neighbors say of new items: an ``Answer`` each, all from one search.

        Parameters
        ----------
        X : (n_items, n_columns)
        accuracy : how often a hedged answer is to be right; 0.9 if not said.
        n_keywords : how many keywords at most.
        ids : what the items are called in the answers.
        hedges_at : further accuracies, whose hedged answers are in ``Answer.hedges``.
        """
        return answers_of(self.now(), self._checked(X), accuracy, n_keywords, ids, hedges_at)

    def label_items(
        self,
        ids: Sequence[str],
        *,
        accuracy: float | None = None,
        n_keywords: int = 5,
        hedges_at: Sequence[float] = (),
    ) -> list[Answer]:
        """The same about items of the collection, each answered by all others."""
        now, rows = self.now(), np.array([self.store.row_of(id) for id in ids], np.int64)
        votes = now.standing.votes[rows]
        asked: dict[str, Any] = {"accuracy": accuracy, "n_keywords": n_keywords, "hedges_at": hedges_at}
        said: dict[int, Answer] = {}
        if votes.any():
            said |= zip(rows[votes].tolist(), answers_of_rows(now, rows[votes], **asked), strict=True)
        others = rows[~votes]
        if len(others):
            X, names = now.views.all_rows()[others], [str(now.standing.ids[row]) for row in others.tolist()]
            said |= zip(others.tolist(), answers_of(now, X, ids=names, **asked), strict=True)
        return [said[row] for row in rows.tolist()]

    def likely_mistakes(self, n: int | None = None) -> list[Mistake]:
        """Items whose neighbors contradict their label, with the label they suggest, the most certain first.

        Where a person confirms such a label it is right, and not listed again while the item has it.
        """
        return likely_mistakes(self.now(), n, self.store.said_right())

    def near_duplicates(
        self, distance: float | None = None, *, across: str | Callable[[dict[str, Any]], Any] | None = None
    ) -> list[Duplicate]:
        """Pairs of items that are nearly the same, nearest first.

        Parameters
        ----------
        distance : pairs up to this far apart; None takes those far nearer than is usual here.
        across : what an item belongs to (a split, a camera): one of its details by name, or a function of them. Only
            pairs that differ in it are given: between training and test items these are leakage.
        """
        return near_duplicates(self.now(), distance, across)

    def label_next(self, n: int = 10) -> list[ToLabel]:
        """Items without a vote that would teach the most: uncertain, unlike what is labeled, and unlike each other."""
        return label_next(self.now(), n)

    @property
    def learned(self) -> LearnedInfo | None:
        """What is learned, and whether it has gone stale; None before anything is."""
        kept = self.store.kept(LEARNED)
        return None if kept is None else self._info(self._read(kept[1]) if self._now is None else self._now.learned)

    def history(self, after: int = 0) -> list[Event]:
        """All events after this one, the oldest first; each says whether it was undone since, and prints in a line."""
        undone = self.store.undone()
        return [replace(event, undone_by=undone.get(event.number)) for event in self.store.events(after)]

    def labels_by_row(self) -> tuple[int, list[str], np.ndarray, np.ndarray, np.ndarray]:
        """The version, the labels ever met, and by row: the place of its label among them (or −1), alive, confirmed."""
        with self._lock:
            items = self.items
            return items.version, list(items.number_of), *items.by_row()

    def to_frame(self) -> Any:
        """A pandas DataFrame with a line for every item: id, label, keywords, confirmed, by and details."""
        return frame_of(self.store.items())

    def now(self) -> CollectionState:
        """The collection as it is now: it stays so, whatever is changed later."""
        with self._lock:
            items = self.items
            if self._now is None:
                self._now = self._opened(items)
            return self._now

    # ------------------------------------------------------------ how versions follow each other

    def _opened(self, items: LiveItems) -> CollectionState:
        """From what is on disk."""
        standing = items.standing()
        if not standing.votes.any():
            raise InputError(
                "No item of this collection votes yet: none has a label that a person gave or confirmed."
                " Add labeled items, or confirm some."
            )
        self._all_rows()
        kept = self.store.kept(LEARNED)
        if kept is not None:
            learned = self._read(kept[1])
        elif self.store.read_only:
            learned = self._learned_anew("auto", "auto")
        else:
            learned = self._learned_anew("auto", "auto")
            self.store.keep(LEARNED, learned.write, by="machine")
            self._follow()
        X = self._all_rows()
        views = LiveViews.of(learned.sights, _voters(learned, standing), lambda: X)
        self._living = None
        return self._state(items, learned, standing, views)

    def _read(self, folder: Path) -> Learned:
        """What was kept, where it fits the rows."""
        learned = Learned.read(folder)
        learned.check(self.n_columns)
        return learned

    def _rows_that_vote(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows that labels are learned from now, in order of their numbers in the store, and their labels."""
        standing = self.items.standing()
        rows = np.flatnonzero(standing.votes)
        return self._all_rows()[rows], standing.classes[standing.labels[rows]]

    def _all_rows(self) -> np.ndarray:
        """The vectors of all rows. Instead of one that was forgotten stands another, so that no view is made of it."""
        if self._X is None:
            alive = (self.items if self._items is None else self._items).alive
            X = _together(self.store.blocks(), self.n_columns)[: len(alive)]
            self._blank = np.flatnonzero(~alive)
            if len(self._blank):
                X = X if X.flags.writeable else X.copy()
                X[self._blank] = X[int(alive.argmax())] if alive.any() else 0.0
            self._X = GrowingArray(X)
        return self._X.values

    def _learned_sights(self) -> list[LiveTransform]:
        """How what is learned sees rows; none before anything is."""
        with self._lock:
            if self._now is not None:
                return self._now.learned.all_sights
            kept = self.store.kept(LEARNED)
            if kept is None:
                return []
            if self._sights is None or self._sights[0] != kept[0]:
                self._sights = kept[0], self._read(kept[1]).all_sights
            return self._sights[1]

    def _fitted_anew(self, posterior: str, n_neighbors: Any, standing: VotingState) -> NeighborClassifier:
        """The classifier that learning from the rows that vote in ``standing`` would begin with."""
        rows, (metric, groups) = np.flatnonzero(standing.votes), self._measured_by()
        labels = standing.classes[standing.labels[rows]]
        return fitted_to_rows(self._all_rows()[rows], labels, metric, posterior, n_neighbors, groups)

    def _measured_by(self) -> tuple[Any, FeatureGroups | None]:
        """The metric of all columns together, and the feature groups, if any."""
        groups = FeatureGroups.of_settings(self.store.settings)
        return self.store.settings.get("metric", "euclidean") if groups is None else groups.together, groups

    def _learned_anew(
        self,
        posterior: str,
        n_neighbors: Any,
        standing: VotingState | None = None,
        make: Callable[..., View] | None = None,
    ) -> Learned:
        """Learned from the rows that vote now, or that vote in ``standing``; nothing is written.

        ``make`` makes the views that are searched.
        """
        standing = self.items.standing() if standing is None else standing
        if not standing.votes.any():
            raise InputError("There is nothing to learn from: no item has a label that a person gave or confirmed.")
        X, rows = self._all_rows(), np.flatnonzero(standing.votes)
        metric, groups = self._measured_by()
        learned = Learned.from_rows(
            X[rows],
            standing.classes[standing.labels[rows]],
            rows,
            n_store_rows=len(standing.votes),
            version=self.store.version,
            metric=metric,
            groups=groups,
            posterior=posterior,
            n_neighbors=n_neighbors,
            taxonomy=self.taxonomy,
            make=make,
        )
        # Rows that would vote, and do not in ``standing``, do not pass their keywords on either.
        gives = self.items.gives_keywords() & (standing.votes | ~self.items.standing().votes)
        rows = np.flatnonzero(gives)
        words = [self.items.columns["keywords"][row] for row in rows.tolist()]
        learned.learn_keywords(X[rows], words, rows, len(gives))
        return learned

    @property
    def taxonomy(self) -> Taxonomy | None:
        """The tree over the labels, or None."""
        edges = self.store.taxonomy
        return None if edges is None else Taxonomy.from_edges(edges).with_words(self.store.taxonomy_words)

    def _changed(self, event: int, added: np.ndarray | None = None) -> int:
        """The store has taken an event; see it here."""
        with self._lock:
            self._follow(added)
        return event

    def _follow(self, added: np.ndarray | None = None) -> None:
        """See the events that the store has taken since.

        They are on disk, whatever happens here: where it fails, all is read from there when it is asked for next.
        """
        if self._items is None:
            return
        try:
            with stoppable(None):  # half a change is none
                self._follow_to_the_end(added)
        except BaseException as error:
            self._items = self._now = self._living = self._X = None
            if not isinstance(error, Exception):
                raise

    def _follow_to_the_end(self, added: np.ndarray | None) -> None:
        assert self._items is not None
        before, rows_before = self._items.version, len(self._items)
        anew = False
        for event in self.store.events(before):
            self._items.apply(event)
            anew |= event.kind in ("keep", "taxonomy", "settings") or (event.kind == "undo" and not event.rows)
        if self._items.version == before:
            return
        if self._items.alive[self._blank].any():  # rows that were not read are back
            self._X, anew = None, True
        if self._X is not None and len(self._items) > rows_before:
            self._X = self._X.appended(self._added(rows_before, added))
        if anew:
            self._now = self._living = None
        elif self._now is not None:
            last = self._now
            self._now = self._next(last, self._items, self._all_rows()[rows_before:])
            if self._now is not None:
                self._now.follow(last)

    def _added(self, first: int, known: np.ndarray | None) -> np.ndarray:
        """The rows from this number on: ``known`` if they are those, else as they are on disk."""
        n_new = len(self.items_now) - first
        if known is not None and len(known) == n_new:
            return known
        return self.store.vectors(np.arange(first, first + n_new))

    @property
    def items_now(self) -> LiveItems:
        assert self._items is not None
        return self._items

    def _next(self, now: CollectionState, items: LiveItems, added: np.ndarray) -> CollectionState | None:
        """The version after this one, in two steps: rows that vote no more, then those that vote now."""
        standing = items.standing()
        if not standing.votes.any():
            self._living = None
            return None
        X, n_before = self._all_rows(), len(now.standing.votes)
        stay = standing.votes.copy()
        stay[:n_before] &= now.standing.votes
        stay[n_before:] = False
        views = now.views
        gone = np.flatnonzero(now.standing.votes & ~stay[:n_before])
        if len(gone):
            views = views.changed(added[:0], _voters(now.learned, standing, stay[:n_before], n_before), lambda: X)
            if self._living is not None:
                self._living.vanish(views.first.search, gone)
        come = np.flatnonzero(standing.votes & ~stay)
        views = views.changed(added, _voters(now.learned, standing), lambda: X)
        if self._living is not None:
            self._living.appear(views.first.search, come)
        return self._state(items, now.learned, standing, views)

    def _state(self, items: LiveItems, learned: Learned, standing: VotingState, views: LiveViews) -> CollectionState:
        views.kept_others = self._kept_others
        return CollectionState(self.left_out, items.version, learned, standing, views, items)

    def left_out(self, views: LiveViews, k: int) -> NeighborTable:
        """The nearest others of every row that votes, kept up to date from the first time they are asked for."""
        known = self._kept_table(views, k)
        if known is not None:
            return known
        with self._building:  # takes long, and others may ask and change meanwhile
            known = self._kept_table(views, k)
            if known is not None:
                return known
            to_be_kept = self._is_current(views) and self._living is None
            made = LivingTable(views.first.search, k) if to_be_kept else LivingTable(views.first.search, k, spare=0)
            table = made.table()
            with self._lock:
                if to_be_kept and self._is_current(views) and self._living is None:
                    self._living = made
            return table

    def _kept_table(self, views: LiveViews, k: int) -> NeighborTable | None:
        with self._lock:
            if not self._is_current(views) or self._living is None or self._living.k < k:
                return None
            return self._living.table().first(k)

    def _is_current(self, views: LiveViews) -> bool:
        return self._now is None or self._now.views is views

    def _checked(self, X: Any) -> np.ndarray:
        return check_measurable(checked_queries(X, self.n_columns), self.store.settings)

    def _kept_others(self, views: LiveViews, k: int, rows: np.ndarray) -> NeighborTable | None:
        """The same for some rows, but only where the table of all is kept for these views; else None."""
        with self._lock:
            current = self._now is not None and self._now.views is views
            if not current or self._living is None or self._living.k < k or views.first.sight.without:
                return None
            return self._living.table(rows).first(k)

    def _check_labels(self, labels: Sequence[str | None] | None) -> None:
        taxonomy = self.taxonomy
        if taxonomy is None or labels is None:
            return
        known = set(taxonomy.nodes)
        unknown = sorted({label for label in checked_labels(labels, len(labels)) if label is not None} - known)
        if unknown:
            raise InputError(
                f"{unknown[0]!r} is not in the taxonomy of this collection"
                + (f" (and {len(unknown) - 1} more labels are not)" if len(unknown) > 1 else "")
                + ". Use one of its nodes, or put another taxonomy over the labels with set_taxonomy."
            )

    def _info(self, learned: Learned) -> LearnedInfo:
        votes = 0
        if self._items is None:  # counted sooner than read
            votes = self.store.n_labeled(confirmed=not self.store.settings.get("machines_vote", False))
        votes = votes or int(np.count_nonzero(self.items.standing().votes))
        return LearnedInfo(
            learned.n_rows, learned.version, votes, learned.posterior_name, learned.choices, learned.n_neighbors
        )


def _edges_and_words(taxonomy: Taxonomy | Sequence[tuple[str, str]] | None) -> tuple[Any, Any]:
    """What is kept of a taxonomy, where a tree can be made of it."""
    if taxonomy is None:
        return None, None
    edges, words = (taxonomy.to_edges(), taxonomy.words) if isinstance(taxonomy, Taxonomy) else (taxonomy, None)
    checked = checked_edges(edges) or []
    Taxonomy.from_edges(checked)
    return checked, checked_words(words, checked)


def _voters(learned: Learned, standing: VotingState, votes: np.ndarray | None = None, n: int | None = None) -> Voters:
    votes = standing.votes if votes is None else votes
    return learned.voters(votes, standing.labels[:n], len(standing.classes))


def _together(blocks: list[np.ndarray], n_columns: int) -> np.ndarray:
    """All vectors in one array, without a copy where there is one block."""
    if not blocks:
        return np.empty((0, n_columns), np.float32)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
