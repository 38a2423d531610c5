"""The newest version of a collection in memory, brought up to date event by event.

    store (on disk) ──► events since the last version ──► items, vectors, views, neighbors of the new version

The state at a version is the same however it was reached: read from disk, or followed event by event.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.feature_groups import FeatureGroups, TextViews
from nearsay.collection.state.learn_unlabeled import learned_unlabeled
from nearsay.collection.state.learned import Learned, fitted_to_rows
from nearsay.collection.state.live_items import LiveItems, VotingState
from nearsay.collection.state.live_views import LiveTransform, LiveViews, Voters
from nearsay.collection.state.row_groups import GROUP_BY, NO_ROWS, groups_by_detail, with_validation
from nearsay.collection.state.suggest.item_groups import n_groups
from nearsay.collection.store.reader import TABLE
from nearsay.collection.store.store import Store
from nearsay.collection.store.stored_values import not_as_written
from nearsay.core.cancellation import stoppable
from nearsay.core.growing_array import GrowingArray
from nearsay.encode.table_encoder import TableEncoder
from nearsay.errors import InputError
from nearsay.neighbors.living.living_table import LivingTable
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.choice.row_groups import automatic_groups
from nearsay.posterior.classifier import NeighborClassifier, fit_options
from nearsay.posterior.methods.named import AUTO
from nearsay.posterior.views.feature_group import View

LEARNED = "learned"
# After these events all is built again.
REBUILDS = ("keep", "taxonomy", "settings")
# Up to so many labels, twice as many are learned from anew without being asked: what a few labels taught is poor.
FEW_LABELS = 500


class StateTracker:
    """Holds the state of a collection at its newest version, and learns from it. Threads take turns.

    Attributes
    ----------
    store : Store
    lock : held while the state changes.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lock = threading.RLock()
        self._building = threading.Lock()
        self._items: LiveItems | None = None
        self._state: CollectionState | None = None
        self._living: LivingTable | None = None
        self._X: GrowingArray | None = None
        # The rows that were forgotten when ``_X`` was read, and are not in it.
        self._blank = np.empty(0, np.int64)
        # The event that kept what is learned, and its transforms.
        self._transforms: tuple[int, list[LiveTransform]] | None = None
        # The details by which items were grouped last, and their groups.
        self._grouped: tuple[Any, np.ndarray] | None = None

    # ------------------------------------------------------------ the newest version

    @property
    def is_loaded(self) -> bool:
        """Whether the items are in memory."""
        return self._items is not None

    @property
    def items(self) -> LiveItems:
        """All items at the newest version."""
        with self.lock:
            if self.store.read_only:
                self.follow()
            if self._items is None:
                machines_vote = bool(self.store.settings.get("machines_vote", False))
                self._items = LiveItems(self.store.items(), machines_vote=machines_vote)
            return self._items

    def state(self) -> CollectionState:
        """The newest version; it stays as it is, whatever changes later."""
        with self.lock:
            items = self.items
            if self._state is None:
                self._state = self._load(items)
            return self._state

    def forget_state(self) -> None:
        """Build the state again when it is next used."""
        with self.lock:
            self._state = None

    def _load(self, items: LiveItems) -> CollectionState:
        voting = items.voting()
        if not voting.votes.any():
            raise InputError("Nothing is labeled yet: the collection has no items. Add some, and answers begin.")
        self.all_rows()
        kept = self.store.latest_kept(LEARNED)
        learned = None if kept is None else self._read(kept[1])
        if learned is None or outgrown(learned, voting):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of too few labels: nobody asked to learn from them now
                before = () if learned is None else (*learned.requested, None, None, learned.validation)
                learned = self.learn(*before, by_itself=True)
            if not self.store.read_only:
                self.store.keep(LEARNED, learned.write, by="machine")
                self.follow()
        X = self.all_rows()
        views = LiveViews.of(learned.transforms, self._voters(learned, voting), lambda: X)
        self._living = None
        return self._build(items, learned, voting, views)

    def _build(self, items: LiveItems, learned: Learned, voting: VotingState, views: LiveViews) -> CollectionState:
        views.kept_others = self._kept_rows
        return CollectionState(self.left_out, items.version, learned, voting, views, items)

    def all_rows(self) -> np.ndarray:
        """The vectors of all rows. A forgotten row is replaced by another one, so that no view depends on it."""
        if self._X is None:
            alive = (self.items if self._items is None else self._items).alive
            X = _joined(self.store.blocks(), self.store.n_columns)[: len(alive)]
            if len(X) < len(alive):
                raise not_as_written("the vectors", f"there are {len(X):,} for {len(alive):,} items")
            self._blank = np.flatnonzero(~alive)
            if len(self._blank):
                X = X if X.flags.writeable else X.copy()
                X[self._blank] = X[int(alive.argmax())] if alive.any() else 0.0
            self._X = GrowingArray(X)
        return self._X.values

    # ------------------------------------------------------------ from one version to the next

    def follow(self, added: np.ndarray | None = None) -> None:
        """Apply the events that the store has taken since; ``added`` are the vectors of the last one.

        They are on disk, whatever happens here: after a failure all is read from there when it is next used.
        """
        with self.lock:
            if self._items is None:
                return
            try:
                with stoppable(None):  # half a change must not be left behind
                    self._apply_events(self._items, added)
            except BaseException as error:
                self._items = self._state = self._living = self._X = None
                if not isinstance(error, Exception):
                    raise

    def _apply_events(self, items: LiveItems, added: np.ndarray | None) -> None:
        before, n_before = items.version, len(items)
        rebuild = False
        for event in self.store.events(before):
            items.apply(event)
            rebuild |= event.kind in REBUILDS or (event.kind == "undo" and not event.rows)
        if items.version == before:
            return
        if items.alive[self._blank].any():  # rows that were not read are back
            self._X, rebuild = None, True
        if self._X is not None and len(items) > n_before:
            n_new = len(items) - n_before
            if added is None or len(added) != n_new:
                added = self.store.vectors(np.arange(n_before, n_before + n_new))
            self._X = self._X.appended(added)
        if rebuild:
            self._state = self._living = None
        elif self._state is not None:
            last = self._state
            self._state = self._next(last, items, self.all_rows()[n_before:])
            if self._state is not None:
                self._state.follow(last)

    def _next(self, last: CollectionState, items: LiveItems, added: np.ndarray) -> CollectionState | None:
        """The version after this one, in two steps: rows that no longer vote, then those that vote now."""
        voting = items.voting()
        if not voting.votes.any() or outgrown(last.learned, voting):
            self._living = None
            return None
        X, n_before = self.all_rows(), len(last.voting.votes)
        stay = voting.votes.copy()
        stay[:n_before] &= last.voting.votes
        stay[n_before:] = False
        views = last.views
        gone = np.flatnonzero(last.voting.votes & ~stay[:n_before])
        if len(gone):
            views = views.changed(added[:0], self._voters(last.learned, voting, stay[:n_before], n_before), lambda: X)
            if self._living is not None:
                self._living.vanish(views.first.search, gone)
        come = np.flatnonzero(voting.votes & ~stay)
        views = views.changed(added, self._voters(last.learned, voting), lambda: X)
        if self._living is not None:
            self._living.appear(views.first.search, come)
        return self._build(items, last.learned, voting, views)

    # ------------------------------------------------------------ the neighbors of every item, kept up to date

    def left_out(self, views: LiveViews, k: int) -> NeighborTable:
        """The nearest others of every row that votes, kept up to date from the first call on."""
        table = self._kept_table(views, k)
        if table is not None:
            return table
        with self._building:  # takes long, and others may query and change meanwhile
            table = self._kept_table(views, k)
            if table is not None:
                return table
            to_be_kept = self._is_current(views) and self._living is None
            living = LivingTable(views.first.search, k) if to_be_kept else LivingTable(views.first.search, k, spare=0)
            table = living.table()
            with self.lock:
                if to_be_kept and self._is_current(views) and self._living is None:
                    self._living = living
            return table

    def _kept_table(self, views: LiveViews, k: int) -> NeighborTable | None:
        with self.lock:
            if not self._is_current(views) or self._living is None or self._living.k < k:
                return None
            return self._living.table().first(k)

    def _kept_rows(self, views: LiveViews, k: int, rows: np.ndarray) -> NeighborTable | None:
        """The same for some rows, but only where the table of all is kept for these views; else None."""
        with self.lock:
            current = self._state is not None and self._state.views is views
            if not current or self._living is None or self._living.k < k or views.first.transform.without:
                return None
            return self._living.table(rows).first(k)

    def _is_current(self, views: LiveViews) -> bool:
        return self._state is None or self._state.views is views

    # ------------------------------------------------------------ learning

    def learned(self) -> Learned | None:
        """What was learned last; None before anything was."""
        kept = self.store.latest_kept(LEARNED)
        if kept is None:
            return None
        return self._read(kept[1]) if self._state is None else self._state.learned

    def _read(self, folder: Path) -> Learned:
        learned = Learned.read(folder)
        learned.check(self.store.n_columns)
        return learned

    def transforms(self) -> list[LiveTransform]:
        """The transforms that were learned; none before anything was."""
        with self.lock:
            if self._state is not None:
                return self._state.learned.all_transforms
            kept = self.store.latest_kept(LEARNED)
            if kept is None:
                return []
            if self._transforms is None or self._transforms[0] != kept[0]:
                self._transforms = kept[0], self._read(kept[1]).all_transforms
            return self._transforms[1]

    def learn(
        self,
        posterior: str = "auto",
        n_neighbors: Any = "auto",
        voting: VotingState | None = None,
        make: Callable[..., View] | None = None,
        validation: np.ndarray = NO_ROWS,
        *,
        by_itself: bool = False,
    ) -> Learned:
        """Learn from the rows that vote, or that vote in ``voting``; nothing is written. ``make`` makes the views.

        Past cases are the ``validation`` rows that vote, if there are any.

        ``by_itself``: nobody asked for it, so that few labels choose nothing (``learn_unlabeled``).
        """
        items = self.items
        voting = items.voting() if voting is None else voting
        if not voting.votes.any():
            raise InputError("There is nothing to learn from: the collection has no items.")
        X, rows = self.all_rows(), np.flatnonzero(voting.votes)
        metric, groups = self._metric()
        labels, sizes = voting.classes[voting.labels[rows]], {"n_store_rows": len(voting.votes)}
        further: dict[str, Any] = {**sizes, "version": self.store.version, "taxonomy": self.store.tree}
        covers = voting.has_labels and len(rows) < n_groups(int(np.count_nonzero(items.alive)))
        if voting.is_unlabeled or (by_itself and covers):
            learned = learned_unlabeled(X[rows], labels, rows, metric, groups, **further)
        else:
            chosen: dict[str, Any] = {"posterior": posterior, "n_neighbors": n_neighbors, "blocks": self._blocks()}
            validation = validation[voting.votes[validation]]
            if 0 < len(validation) == len(rows):
                raise InputError("All items that vote are for validation, so none is left to answer them. Name fewer.")
            alike = self._near_duplicates(X[rows], labels, rows, len(voting.votes), metric, groups)
            of_rows = self._row_groups(alike, validation, len(voting.votes))
            learned = Learned.from_rows(
                X[rows], labels, rows, metric=metric, groups=groups, make=make,
                row_groups=None if of_rows is None else of_rows[rows], **chosen, **further,
            )  # fmt: skip
            learned.validation, learned.near_duplicates = validation, alike
        # Rows that would vote, and do not in ``voting``, do not pass their keywords on either.
        gives = items.gives_keywords() & (voting.votes | ~items.voting().votes)
        rows = np.flatnonzero(gives)
        words = [items.columns["keywords"][row] for row in rows.tolist()]
        of_rows = self._row_groups(learned.near_duplicates, learned.validation, len(gives))
        learned.learn_keywords(X[rows], words, rows, len(gives), None if of_rows is None else of_rows[rows])
        return learned

    def _near_duplicates(
        self, X: np.ndarray, labels: np.ndarray, rows: np.ndarray, n_rows: int, metric: Any, groups: Any
    ) -> np.ndarray:
        """The group of every row where near-duplicates among ``rows`` are groups; empty where they are not."""
        if self.store.settings.get(GROUP_BY) != AUTO:
            return NO_ROWS
        X = X * groups.scales(X) if isinstance(groups, FeatureGroups) else X
        alike = automatic_groups(
            fit_options(NeighborClassifier(metric=metric)), X, np.unique(labels, return_inverse=True)[1]
        )
        of_rows = np.arange(n_rows)
        if alike is not None:
            of_rows[rows] = n_rows + alike
        return of_rows

    def _row_groups(self, near_duplicates: np.ndarray, validation: np.ndarray, n_rows: int) -> np.ndarray | None:
        """The group of every row; None where none has anything in common with others."""
        group_by, groups = self.store.settings.get(GROUP_BY), None
        if group_by == AUTO:
            groups = -2 - np.arange(n_rows)  # of rows that came later
            groups[: len(near_duplicates)] = near_duplicates[:n_rows]
        elif group_by is not None:
            groups = self._groups_by_detail(group_by)[:n_rows]
        return with_validation(groups, validation, n_rows)

    def _groups_by_detail(self, name: str) -> np.ndarray:
        details = self.items.columns["details"]
        if self._grouped is None or self._grouped[0] is not details:
            self._grouped = details, groups_by_detail(details, name)
        return self._grouped[1]

    def _voters(
        self, learned: Learned, voting: VotingState, votes: np.ndarray | None = None, n: int | None = None
    ) -> Voters:
        votes = voting.votes if votes is None else votes
        groups = self._row_groups(learned.near_duplicates, learned.validation, len(votes))
        return Voters.of(votes, voting.labels[:n], len(voting.classes), learned.fold, groups)

    def fit(
        self, posterior: str, n_neighbors: Any, voting: VotingState, row_groups: np.ndarray | None = None
    ) -> NeighborClassifier:
        """The classifier that learning from the rows that vote in ``voting`` begins with."""
        rows, (metric, groups) = np.flatnonzero(voting.votes), self._metric()
        labels = voting.classes[voting.labels[rows]]
        return fitted_to_rows(
            self.all_rows()[rows], labels, metric, posterior, n_neighbors, groups, blocks=self._blocks(),
            row_groups=None if row_groups is None else row_groups[rows],
        )  # fmt: skip

    def labeled_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows that vote, in order of their numbers in the store, and their labels."""
        voting = self.items.voting()
        rows = np.flatnonzero(voting.votes)
        return self.all_rows()[rows], voting.classes[voting.labels[rows]]

    def _metric(self) -> tuple[Any, FeatureGroups | TextViews | None]:
        """The metric of all columns together, and the feature groups or the views of texts, if any."""
        groups = FeatureGroups.of_settings(self.store.settings) or TextViews.of_settings(self.store.settings)
        return self.store.settings.get("metric", "euclidean") if groups is None else groups.joint_metric, groups

    def _blocks(self) -> tuple[tuple[int, int], ...]:
        """The columns that stand for one column of the table, where the items are rows of one with words or gaps."""
        encoder: TableEncoder | None = self.store.kept_object(TABLE)
        return () if encoder is None else encoder.blocks_

    def n_voters(self) -> int:
        """How many rows vote."""
        n_voters = 0
        if self._items is None:  # counting is faster than loading
            n_voters = self.store.n_labeled(confirmed=not self.store.settings.get("machines_vote", False))
        return n_voters or int(np.count_nonzero(self.items.voting().votes))


def outgrown(learned: Learned, voting: VotingState) -> bool:
    """Whether it was learned before there were labels, or from at most half of a few labels."""
    n_voters = int(np.count_nonzero(voting.votes))
    doubled = voting.has_labels and 2 * learned.n_rows <= n_voters <= FEW_LABELS
    return learned.of_labels != voting.has_labels or doubled


def _joined(blocks: list[np.ndarray], n_columns: int) -> np.ndarray:
    """All vectors in one array, without a copy where there is one block."""
    if not blocks:
        return np.empty((0, n_columns), np.float32)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
