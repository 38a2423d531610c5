"""A collection that is queried and corrected: every change counts in the next answer, without training again.

add, relabel, confirm, forget, undo ──► store (durable) ──► state of the new version
                                                                │ one search
label(Q) ◄── class, probability, record, node, keywords, evidence, novelty
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import Any, Self

import numpy as np

from nearsay.collection.answers import Answer
from nearsay.collection.ingest.image_description import NUMBERS, SETTING
from nearsay.collection.ingest.table_encoding import StoredTable
from nearsay.collection.state.build_answers import answers_of, answers_of_rows
from nearsay.collection.state.collection_state import CollectionState
from nearsay.collection.state.feature_groups import FeatureGroups, check_measurable, check_metric
from nearsay.collection.state.learned import Learned, LearnedInfo
from nearsay.collection.state.live_items import LiveItems
from nearsay.collection.state.live_views import checked_queries
from nearsay.collection.state.row_groups import GROUP_BY, check_group_by, validation_rows
from nearsay.collection.state.state_tracker import LEARNED, StateTracker
from nearsay.collection.state.suggest.item_groups import ItemGroup, item_groups
from nearsay.collection.state.suggest.suggestions import (
    Duplicate,
    Mistake,
    ToLabel,
    label_next,
    likely_mistakes,
    near_duplicates,
)
from nearsay.collection.store.events import Event
from nearsay.collection.store.reader import TABLE
from nearsay.collection.store.store import Store
from nearsay.collection.store.validate_items import checked_edges, checked_ids, checked_vectors, checked_words
from nearsay.encode.table_columns import is_data_frame
from nearsay.encode.table_encoder import TableEncoder
from nearsay.errors import InputError
from nearsay.posterior.evidence.records import record_of
from nearsay.taxonomy.taxonomy import Taxonomy


class LiveCollection:
    """A folder of items with vectors, labels and keywords, which labels new items by their neighbors.

    Make one with ``LiveCollection.create`` or ``LiveCollection.open``. Every change is on disk when the call returns,
    and counts in the next answer. Any number of threads may query it while one changes it.

    A row votes when it has a label that a person gave or confirmed: a machine's label (``by="machine"``) waits for
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
        self.tracker = StateTracker(store)

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
        group_by: str | None = None,
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
        machines_vote : whether unconfirmed labels vote.
        group_by : the name of a detail, such as "patient": items in which it is the same never judge each other, so
            that what is learned, evaluated and promised is about new groups. "auto" takes near-duplicates for groups.
        settings : further settings to store, such as how the items were described.
        remember : whether to remember on this machine that the user trusts the paths in ``settings`` (``pictures``, a
            model); see ``user_decisions.py``.
        """
        if feature_groups is None:
            measured: dict[str, Any] = {"metric": check_metric(metric)}
        else:
            measured = FeatureGroups.of_parameters(feature_groups, metric, n_columns).to_settings()
        about = {**(settings or {}), **measured, "machines_vote": bool(machines_vote)}
        if group_by is not None:
            about[GROUP_BY] = check_group_by(group_by)
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
        """Open a collection; only counts are read before the first query.

        A second writer is refused with ``CollectionBusy``; any number may read at the same time.

        Parameters
        ----------
        path : its folder.
        read_only : bool
        pictures : path, optional
            The folder of its pictures on this machine, needed once for a collection that was made elsewhere. It is
            remembered, outside the collection.
        encoder : path, optional; the ``.onnx`` model that described its pictures, likewise.
        """
        collection = cls(Store.open(path, read_only=read_only))
        try:
            if pictures is not None or encoder is not None:
                collection.store.remembered.name(collection.store.settings, pictures, encoder)
        except BaseException:
            collection.close()
            raise
        return collection

    def close(self) -> None:
        """Close the collection; a second call does nothing."""
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
        """The number of items, without forgotten ones."""
        return len(self.items.row_of) if self.tracker.is_loaded else self.store.n_items

    @property
    def items(self) -> LiveItems:
        """All items at the newest version, without their vectors."""
        return self.tracker.items

    @property
    def taxonomy(self) -> Taxonomy | None:
        """The taxonomy of the labels, or None."""
        return self.store.tree

    @cached_property
    def table(self) -> StoredTable | None:
        """How rows are encoded and compared, where the items are rows of a table with words or gaps."""
        encoder = self.store.kept_object(TABLE)
        return None if encoder is None else StoredTable(encoder)

    @property
    def table_encoder(self) -> TableEncoder | None:
        """What encodes rows of the table that the collection was made of, where it has words or gaps."""
        return None if self.table is None else self.table.encoder

    @property
    def kind(self) -> str:
        """What items are: "pictures", "texts" or "numbers"."""
        return str((self.store.settings.get(SETTING) or {}).get("kind") or NUMBERS)

    def state(self) -> CollectionState:
        """The newest version; it stays as it is, whatever changes later."""
        return self.tracker.state()

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

        A machine's labels are not confirmed unless ``confirmed=True``.
        """
        ids = checked_ids(ids)
        X = check_measurable(checked_vectors(X, ids, self.n_columns), self.store.settings)
        for place, reason in self.unfit(X).items():
            raise InputError(f"The item {ids[place]!r} cannot be added: {reason}. Correct it, or leave it out.")
        sure = by != "machine" if confirmed is None else confirmed
        return self._follow(
            self.store.add(ids, X, labels, keywords, details=details, by=by, who=who, confirmed=sure), X
        )

    def unfit(self, X: np.ndarray) -> dict[int, str]:
        """Rows too far from all others for the learned transforms, {place in ``X``: why}; they cannot be added."""
        return {
            place: f"it is too far from all other items (it holds {X[place, np.abs(X[place]).argmax()]:g})"
            for transform in self.tracker.transforms()
            for place in np.flatnonzero(transform.out_of_range(X)).tolist()
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
        """Set the labels of items, and in the same event their keywords where they are given; None removes them."""
        sure = by != "machine" if confirmed is None else confirmed
        return self._follow(self.store.relabel(ids, labels, keywords, by=by, who=who, confirmed=sure))

    def set_keywords(
        self, ids: Sequence[str], keywords: Sequence[Sequence[str] | None], *, by: str = "person", who: str = ""
    ) -> int:
        """Set the keywords of items; None removes them."""
        return self._follow(self.store.set_keywords(ids, keywords, by=by, who=who))

    def confirm(self, ids: Sequence[str], *, by: str = "person", who: str = "") -> int:
        """Confirm the labels of items, so that they vote."""
        return self._follow(self.store.confirm(ids, by=by, who=who))

    def forget(self, ids: Sequence[str], *, by: str = "person", who: str = "") -> int:
        """Remove items; ``undo`` brings them back."""
        return self._follow(self.store.forget(ids, by=by, who=who))

    def undo(self, event: int | None = None, *, sure: bool = False, by: str = "person", who: str = "") -> int:
        """Undo the last change, or the event of this number. An undo is an event itself.

        An undo that removes more than one item, such as that of an ``add``, needs ``sure=True``, and is refused while
        later events changed these items.
        """
        return self._follow(self.store.undo(event, sure=sure, by=by, who=who))

    def set_taxonomy(
        self, taxonomy: Taxonomy | Sequence[tuple[str, str]] | None, *, by: str = "person", who: str = ""
    ) -> int:
        """Set the taxonomy of the labels, with the words of its nodes; ``learn`` then learns how to hedge.

        A taxonomy that lacks the label of an item is refused.
        """
        edges, words = _edges_and_words(taxonomy)
        return self._follow(self.store.set_taxonomy(edges, words, by=by, who=who))

    def learn(
        self,
        *,
        posterior: str = "auto",
        n_neighbors: int | str = "auto",
        validation: Sequence[str] | str | None = None,
        by: str = "person",
        who: str = "",
        learned: Learned | None = None,
    ) -> LearnedInfo:
        """Learn from the rows that vote: views, number of neighbors, weights, records, and the hedge of the taxonomy.

        Parameters
        ----------
        validation : ids, "answered" or None
            Past cases, where items are unlike those to come: each is answered by all that are not among them. They
            vote, too. "answered": items that came with a machine's label which a person confirmed or corrected.
        learned : what a cluster learned from this version (``learned_on``), to be kept.
        """
        with self.tracker.lock:
            if learned is None:
                rows = validation_rows(validation, self.store, self.items.voting().votes)
                learned = self.tracker.learn(posterior, n_neighbors, validation=rows)
            elif learned.version != self.store.version:
                raise InputError(
                    f"This was learned after event {learned.version}, and the collection is at event"
                    f" {self.store.version}. Learn again."
                )
            self._follow(self.store.keep(LEARNED, learned.write, by=by, who=who))
            self.tracker.forget_state()
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
        details: Sequence[Mapping[str, Any] | None] | None = None,
        within: str | None = None,
    ) -> list[Answer]:
        """Label new items by their neighbors: an ``Answer`` each, all from one search.

        Parameters
        ----------
        X : (n_items, n_columns) or a data frame, where the collection was made of a table with words or gaps.
        accuracy : required accuracy of hedged answers; 0.9 by default.
        n_keywords : maximum number of keywords.
        ids : names of the items in the answers.
        hedges_at : further accuracies, whose hedged answers are in ``Answer.hedges``.
        details : the cells of each item by column, to compare it with its neighbors in words.
        within : a node of the taxonomy, where items are known to be of a class below it: no other is considered.
        """
        state = self.state()
        if self.table is not None and is_data_frame(X):
            X = self.table.encoder.transform(X)
        X = check_measurable(checked_queries(X, self.n_columns), self.store.settings)
        answers = answers_of(state, X, accuracy, n_keywords, ids, hedges_at, within)
        return answers if details is None else self._compared(answers, details)

    def label_items(
        self,
        ids: Sequence[str],
        *,
        accuracy: float | None = None,
        n_keywords: int = 5,
        hedges_at: Sequence[float] = (),
    ) -> list[Answer]:
        """Label items of the collection, each by all others."""
        state, rows = self.state(), np.array([self.store.row_of(id) for id in ids], np.int64)
        votes = state.voting.votes[rows]
        settings: dict[str, Any] = {"accuracy": accuracy, "n_keywords": n_keywords, "hedges_at": hedges_at}
        answers: dict[int, Answer] = {}
        if votes.any():
            answers |= zip(rows[votes].tolist(), answers_of_rows(state, rows[votes], **settings), strict=True)
        others = rows[~votes]
        if len(others):
            X, names = state.views.all_rows()[others], [str(state.voting.ids[row]) for row in others.tolist()]
            answers |= zip(others.tolist(), answers_of(state, X, ids=names, **settings), strict=True)
        rows_given = rows.tolist()
        known = [replace(answers[row], item_text=state.text_of(row)) for row in rows_given]
        return self._compared(known, [state.details[row] for row in rows_given])

    def text_of(self, id: str) -> str | None:
        """The text of an item; None where it is none."""
        details = self.items.columns["details"][self.store.row_of(id)] or {}
        return details.get("text")

    def _compared(self, answers: list[Answer], details: Sequence[Mapping[str, Any] | None]) -> list[Answer]:
        """Answers that say in words how each neighbor is like the item; of tables with words or gaps only."""
        table, row_of, state = self.table, self.items.row_of, self.state()
        if table is None:
            return answers
        return [
            replace(answer, compared=table.compared(one, [state.details[row_of[near.id]] for near in answer.neighbors]))
            for answer, one in zip(answers, details, strict=True)
        ]

    def likely_mistakes(self, n: int | None = None) -> list[Mistake]:
        """Items whose neighbors contradict their label, with the label they suggest, the most certain first.

        An item whose label a person confirms again is not listed while it keeps that label; nor is the only one of a
        class where most classes have one alone.
        """
        return likely_mistakes(self.state(), n, self.store.confirmed_again())

    def near_duplicates(
        self, distance: float | None = None, *, across: str | Callable[[dict[str, Any]], Any] | None = None
    ) -> list[Duplicate]:
        """Pairs of items that are nearly the same, nearest first.

        Parameters
        ----------
        distance : pairs up to this far apart; None takes those far nearer than is usual here.
        across : only pairs that differ in this (a split, a camera): one of the details by name, or a function of
            them. Pairs across training and test items are leakage.
        """
        return near_duplicates(self.state(), distance, across)

    def label_next(self, n: int = 10) -> list[ToLabel]:
        """Unlabeled items to label next: uncertain, unlike what is labeled, and unlike each other."""
        return label_next(self.state(), n)

    def groups(self) -> list[ItemGroup]:
        """Items that lie together, the largest group first, the most typical items of each first."""
        return item_groups(self.state())

    @property
    def learned(self) -> LearnedInfo | None:
        """What is learned, and whether it is stale; None before anything is."""
        learned = self.tracker.learned()
        return None if learned is None else self._info(learned)

    def _info(self, learned: Learned) -> LearnedInfo:
        cases, right = learned.records.of_all()
        return LearnedInfo(
            learned.n_rows, learned.version, self.tracker.n_voters(), learned.posterior_name, learned.choices,
            learned.n_neighbors, learned.of_labels or not self.items.voting().is_unlabeled,
            record_of(cases, right) if cases else None,
        )  # fmt: skip

    def history(self, after: int = 0, n: int | None = None) -> list[Event]:
        """All events after this one, or the next ``n``, the oldest first, each with the undo that took it back."""
        undone = self.store.undone()
        return [replace(event, undone_by=undone.get(event.number)) for event in islice(self.store.events(after), n)]

    def labels_by_row(self) -> tuple[int, list[str], np.ndarray, np.ndarray, np.ndarray]:
        """The version, all labels ever used, and by row: the place of its label among them or −1, alive, confirmed."""
        with self.tracker.lock:
            items = self.items
            return items.version, list(items.number_of), *items.by_row()

    def to_frame(self) -> Any:
        """A pandas DataFrame with a line for every item: id, label, keywords, confirmed, by and details."""
        return self.store.items().to_frame()

    def _follow(self, event: int, added: np.ndarray | None = None) -> int:
        """The store has taken an event: bring the state up to date."""
        self.tracker.follow(added)
        return event


def _edges_and_words(taxonomy: Taxonomy | Sequence[tuple[str, str]] | None) -> tuple[Any, Any]:
    """The edges and words of a taxonomy to store; an error where it is not a tree."""
    if taxonomy is None:
        return None, None
    edges, words = (taxonomy.to_edges(), taxonomy.words) if isinstance(taxonomy, Taxonomy) else (taxonomy, None)
    checked = checked_edges(edges) or []
    Taxonomy.from_edges(checked)
    return checked, checked_words(words, checked)
