"""The views of a collection: rows in one or several spaces, searched exactly, changed row by row.

    store rows ──► map of the view ──► exact search, numbered as in the store; rows that do not vote are left out

What was learned defines the views, and does not change with the rows. A view that depends on labels has maps that were
learned without each fold, for leave-one-out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearsay.collection.state.feature_groups import ScaledColumns
from nearsay.collection.state.live_models import LiveModels
from nearsay.collection.store.validate_items import LARGEST, check_range
from nearsay.core.arrays import as_rows
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.posterior.views.row_transforms import LinearMap
from nearsay.posterior.views.views import with_further
from nearsay.search.choose import Choice
from nearsay.search.exact import ExactSearch
from nearsay.search.protocol import NeighborSearch


@dataclass(frozen=True)
class LiveTransform:
    """The transform of a view: some columns or all, mapped or not, and a metric.

    Attributes
    ----------
    name : to show.
    metric : the name of the distance.
    whole : the map, or None.
    without : maps learned without each fold, where the map knows labels.
    columns : the first of them and the one after the last; None for all.
    """

    name: str
    metric: str
    whole: LinearMap | ScaledColumns | None = None
    without: tuple[LinearMap, ...] = ()
    columns: tuple[int, int] | None = None

    def apply(self, rows: np.ndarray, fold: int = -1) -> np.ndarray:
        """The rows in the view; with a fold, by the map that was learned without it."""
        if self.columns is not None:
            rows = np.ascontiguousarray(rows[:, slice(*self.columns)])
        mapped = self.whole if fold < 0 or not self.without else self.without[fold]
        return rows if mapped is None else mapped(rows)

    def out_of_range(self, rows: np.ndarray) -> np.ndarray:
        """(n_rows,) bool: the rows that have a number beyond ``LARGEST`` in the view."""
        largest = float(np.abs(rows).max(initial=0.0))
        # Most rows are far from that, which a bound shows without mapping them.
        if self.whole is None or self.whole.largest_mapped(largest) <= LARGEST:
            return np.zeros(len(rows), np.bool_)
        return np.asarray((np.abs(self.apply(rows)) > LARGEST).any(axis=1))


@dataclass(frozen=True)
class Voters:
    """Which rows vote for which class: all arrays are by row number of the store.

    Attributes
    ----------
    votes : (n_rows,) bool
    labels : (n_rows,) class numbers; 0 where a row does not vote.
    n_classes : int
    fold : (n_rows,) int, the fold that each row was in when the maps were learned; −1 for other rows.
    groups : (n_rows,) int, or None
        Rows of one group are never asked about each other.
    """

    votes: np.ndarray
    labels: np.ndarray
    n_classes: int
    fold: np.ndarray
    groups: np.ndarray | None = None

    @classmethod
    def of(cls, votes: np.ndarray, labels: np.ndarray, n_classes: int, fold: np.ndarray, groups: Any = None) -> Voters:
        """These voters, with the ``fold`` of the rows that there were then."""
        n, n_before = len(votes), min(len(votes), len(fold))
        folds = np.concatenate([fold[:n_before], np.full(n - n_before, -1, np.int8)])
        return cls(votes, labels, n_classes, folds, None if groups is None else groups[:n])

    def searched(self, search: NeighborSearch) -> LabeledNeighbors:
        """A labeled search of these rows."""
        return LabeledNeighbors(search, self.labels, self.n_classes, groups=self.groups)


class LiveView:
    """The rows in one view. Never changes: ``changed`` gives another one, which shares the memory."""

    def __init__(self, transform: LiveTransform, X: np.ndarray, voters: Voters) -> None:
        self.transform = transform
        self.voters = voters
        self.search = self._searched(X)

    def _searched(self, X: np.ndarray, fold: int = -1) -> ExactSearch:
        """All rows in the view, or in the one learned without a fold; those that do not vote are left out."""
        distance = as_distance(self.transform.metric)
        search = ExactSearch().fit_checked(distance.check(self.transform.apply(X, fold)), distance)
        if not self.voters.votes.all():
            search.remove(np.flatnonzero(~self.voters.votes))
        return search

    def changed(self, added: np.ndarray, voters: Voters) -> LiveView:
        """With more rows, and other voters."""
        before, after = self.voters.votes, voters.votes
        n_before = len(before)
        other = object.__new__(LiveView)
        other.transform, other.voters, other.search = self.transform, voters, self.search.snapshot()
        if len(added):
            other.search.add(self.transform.apply(added))
        gone = np.concatenate([np.flatnonzero(before > after[:n_before]), n_before + np.flatnonzero(~after[n_before:])])
        if len(gone):
            other.search.remove(gone)
        again = np.flatnonzero(after[:n_before] > before)
        if len(again):
            other.search.restore(again)
        return other

    def query(self, Q: np.ndarray, k: int, members: tuple[int, ...] | None) -> NeighborTable:
        """The nearest rows and classes of every query."""
        return self.labeled.query(self.transform.apply(Q), k, members, input_name="X")

    def measured(self, rows: np.ndarray) -> np.ndarray:
        """Rows as they are measured."""
        return self.transform.apply(rows)

    @cached_property
    def index_(self) -> NeighborIndex:
        """The rows as an index: changing it changes nothing else."""
        index, search = NeighborIndex(self.search.distance_), self.search.snapshot()
        index.search_, index.chosen_ = search, Choice(search, "exact", "a collection is searched exactly")
        return index

    @cached_property
    def labeled(self) -> LabeledNeighbors:
        """The labeled search of these rows."""
        return self.voters.searched(self.search)

    def leave_one_out(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray, all_rows: Any) -> NeighborTable:
        """The nearest others of some rows, in views that were learned without them."""
        if not self.transform.without or not len(rows):
            return self.labeled.leave_one_out(k, members, rows)
        fold, parts, places = self.voters.fold[rows], [], []
        for number in np.unique(fold).tolist():
            here = np.flatnonzero(fold == number)
            labeled = self.labeled if number < 0 else self.voters.searched(self._searched(all_rows(), number))
            parts.append(labeled.leave_one_out(k, members, rows[here]))
            places.append(here)
        return joined(parts)[np.argsort(np.concatenate(places))]


class LiveViews:
    """All views of a collection at one version, with the interface of ``posterior.views.Views``.

    ``kept_others`` gives the nearest others of some rows where a table of them is kept; else None.
    ``models`` are pooled with the neighbors.
    """

    kept_others: Callable[[LiveViews, int, np.ndarray], NeighborTable | None] | None = None
    models: LiveModels = LiveModels((), np.empty(0))

    def __init__(self, views: Sequence[LiveView], all_rows: Any) -> None:
        self.views = list(views)
        self.all_rows = all_rows

    @classmethod
    def of(cls, transforms: Sequence[LiveTransform], voters: Voters, all_rows: Any) -> LiveViews:
        """These views of all rows."""
        X = all_rows()
        return cls([LiveView(transform, X, voters) for transform in transforms], all_rows)

    def changed(self, added: np.ndarray, voters: Voters, all_rows: Any) -> LiveViews:
        """The same views of other rows."""
        return LiveViews([view.changed(added, voters) for view in self.views], all_rows)

    @property
    def first(self) -> LiveView:
        """The view whose neighbors are shown."""
        return self.views[0]

    @property
    def labels(self) -> np.ndarray:
        """The class number of every row."""
        return self.first.voters.labels

    @property
    def n_classes(self) -> int:
        return self.first.voters.n_classes

    @property
    def groups(self) -> np.ndarray | None:
        """The group of every row; None where each is a group of its own."""
        return self.first.voters.groups

    @property
    def live_numbers(self) -> np.ndarray:
        """Numbers of the rows that vote."""
        return np.flatnonzero(self.first.voters.votes)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.first.voters.votes))

    def query(self, X: Any, k: int, members: tuple[int, ...] | None = None) -> NeighborTable:
        """The ``k`` nearest rows of every query in the first view, and its classes in all of them."""
        table = self.first.query(X, k, members)
        if table.classes is None:
            return table
        further = [view.query(X, 1, members) for view in self.views[1:]]
        return with_further([table, *further], self.models.log_proba(X))

    @property
    def model_names(self) -> list[str]:
        """What the models are called."""
        return [model.name for model in self.models.models]

    def forest_neighbors(self, X: Any, k: int) -> NeighborTable | None:
        """Rows that vote now whose votes the forest's answers are made of; None without a forest."""
        return self.models.forest_neighbors(X, k, self.first.voters.votes)

    def leave_one_out(
        self, k: int, members: tuple[int, ...] | None = None, rows: np.ndarray | None = None
    ) -> NeighborTable:
        """The same for rows of the collection among all others: a line for each of ``rows``, or for every row."""
        rows = np.arange(len(self.labels)) if rows is None else rows
        if members is None and self.kept_others is not None and self.groups is None:
            kept = self.kept_others(self, k, rows)
            if kept is not None:
                return kept
        table = self.first.leave_one_out(k, members, rows, self.all_rows)
        if table.classes is None:
            return table
        more = [view.leave_one_out(1, members, rows, self.all_rows) for view in self.views[1:]]
        fold = self.first.voters.fold[rows]
        return with_further([table, *more], self.models.past_cases(self.all_rows()[rows], rows, fold))


def checked_queries(X: Any, n_columns: int, name: str = "X") -> np.ndarray:
    """Queries as rows of so many numbers, none beyond ``LARGEST``, in the type that a store keeps."""
    first = X[0] if isinstance(X, list | tuple | np.ndarray) and len(X) else X
    if isinstance(first, str):
        raise InputError(
            f"{name} holds texts; rows of {n_columns:,} numbers are expected. Ask about sentences, pictures and files"
            " with nearsay.collection.label_source(collection, texts)."
        )
    check_range(X)
    kept: np.ndarray = as_rows(X, name=name, width=n_columns).astype(np.float32)
    return kept
