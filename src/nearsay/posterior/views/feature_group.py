"""A view: the rows that have a feature group, compared in one way. Row numbers are those of the whole collection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

from nearsay.core.arrays import as_rows
from nearsay.distances.distance import Distance
from nearsay.distances.functions import FunctionDistance
from nearsay.distances.named import as_distance
from nearsay.errors import InputError
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.class_order import NearestClasses
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable, joined
from nearsay.posterior.past_cases import PastCases
from nearsay.posterior.views.row_transforms import LearnedTransforms, LinearMap, RowTransform
from nearsay.search.shards import ShardedRows
from nearsay.search.stored.mapped import RowMap


class View:
    """The rows that have a feature group, searched by one distance.

    Rows that lack the group (NaN) are never neighbors; as queries they have
    an empty line: −1 and +inf.

    Rows in shards are searched where they lie, and mapped where their shard is opened; only the rows that teach a
    map are read into memory.

    Parameters
    ----------
    group : the name of the feature group.
    columns : its columns in X; None takes X as it is, whatever its items are.
    distance, search, n_jobs : as in ``NeighborIndex``; for rows in shards ``search`` is a ShardedIndex with the
        settings (cluster, work folder, …) to search them by.
    forgiving : bool
        Whether a row that the distance cannot measure counts as lacking the
        group, instead of being an error. For distances that the user did not
        ask for.
    transform, transforms : how rows are mapped before they are measured, and the maps of the collection.
    measured_columns : (n_measured,) int or None
        Numbers, within the group, of the columns that are measured; None for all.
    """

    measured_columns: np.ndarray | None = None
    groups_: np.ndarray | None = None
    _of_fold: dict[int, LabeledNeighbors] | None = None  # the last rows mapped without a fold, where they are kept
    maps_are_held_out = False  # whether maps that know labels were learned without the rows that are asked about

    def __init__(
        self,
        group: str,
        columns: Any,
        distance: Any,
        search: Any = "auto",
        *,
        forgiving: bool = False,
        transform: RowTransform | None = None,
        transforms: LearnedTransforms | None = None,
        measured_columns: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.group = group
        self.columns = columns
        self.distance: Distance = as_distance(distance)
        self.search = search
        self.forgiving = forgiving
        self.transform = transform
        self.transforms = transforms
        self.measured_columns = measured_columns
        self.n_jobs = n_jobs

    @property
    def metric_name(self) -> str:
        """The distance, or the transform before it, for people."""
        return self.distance.name if self.transform is None else self.transform.name

    @property
    def name(self) -> str:
        """The group and the metric, for people."""
        return f"{self.group} ({self.metric_name})"

    @property
    def knows_labels(self) -> bool:
        """Whether distances are learned from the labels."""
        return self.transform is not None and self.transform.knows_labels

    def fit(self, X: Any, labels: np.ndarray, n_classes: int) -> View:
        """Hold the rows of X that have the group.

        In a view that the user did not ask for, rows in shards are read once: all of them must be measurable.
        """
        rows, numbers = present(X, self.columns)
        if self.columns is not None and not len(numbers):
            raise InputError(
                f"No row has the feature group {self.group!r}: each has a missing value (NaN) in its columns."
                " Fill them in, or leave the group out."
            )
        self.n_rows = len(X)
        self.rows_ = numbers
        if self.measured_columns is not None and len(self.measured_columns) == rows.shape[1]:
            self.measured_columns = None  # all of them: nothing is copied
        try:
            self.index_ = self._index(self.measured(rows))
        except InputError as error:
            raise self._placed(error, X) from None
        if isinstance(X, ShardedRows) and (self.forgiving or self.transform is not None):
            self.index_.check_rows()
        self.labeled_: LabeledNeighbors = self.index_.with_labels(labels[numbers], n_classes)
        self.past_ = PastCases(self.labeled_)
        return self

    def leave_out_groups(self, groups: np.ndarray) -> None:
        """Never ask rows of one group about each other; ``groups`` has a number for each row of the collection."""
        self.groups_ = self.labeled_.groups = groups[self.rows_]
        self.past_ = PastCases(self.labeled_)

    def over(self, X: Any, labels: np.ndarray, n_classes: int, groups: np.ndarray | None = None) -> View:
        """The same view of other rows, with groups of them that are never asked about each other.

        Maps stay as they were learned: from none of the rows to be asked about.
        """
        other = copy(self)
        other.maps_are_held_out = True
        other.fit(X, labels, n_classes)
        if groups is not None:
            other.leave_out_groups(groups)
        return other

    @property
    def has_class(self) -> np.ndarray:
        """Which classes have a row with this group: (n_classes,) bool."""
        counts: np.ndarray = np.bincount(self.labeled_.labels, minlength=self.labeled_.n_classes)
        return np.asarray(counts > 0)

    def neighbors(self, X: np.ndarray, k: int, members: tuple[int, ...] | None) -> NeighborTable:
        """The ``k`` nearest rows of every query that has the group; −1 and +inf where there are fewer."""
        rows, lines = present(X, self.columns)
        try:
            table = self.labeled_.query(self.measured(rows), k, members, input_name="X")
        except InputError as error:
            placed = self._placed(error, X)
            if placed is not error or not self.forgiving:
                raise placed from None
            rows = self.measured(rows)
            measurable = np.array([_takes(self.distance, rows[i : i + 1]) for i in range(len(rows))], np.bool_)
            lines = lines[measurable]
            table = self.labeled_.query(rows[measurable], k, members)
        return self._spread(table, lines, len(X))

    def past_cases(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray | None = None) -> NeighborTable:
        """The same for the rows themselves, each left out of its neighbors: all of them, or some."""
        if rows is None and not self.knows_labels:
            table, _ = self.past_.judged(k, members, every_row=True)
            return self._spread(table, self.rows_, self.n_rows)
        rows = np.arange(self.n_rows) if rows is None else rows
        local = np.full(self.n_rows, -1)
        local[self.rows_] = np.arange(len(self.rows_))
        lines = np.flatnonzero(local[rows] >= 0)
        return self._spread(self._left_out(k, members, local[rows[lines]]), lines, len(rows))

    def _left_out(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray) -> NeighborTable:
        """The same for some of the rows that have the group, by their numbers among these."""
        by_folds = self.knows_labels and not self.maps_are_held_out
        return (self._past_by_folds if by_folds else self.past_.of_rows)(k, members, rows)

    def _past_by_folds(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray) -> NeighborTable:
        """Past cases by maps that were learned without them; rows are numbered among those with the group."""
        assert self.transforms is not None
        parts: list[NeighborTable] = []
        places = []
        fold = self.transforms.fold[rows]
        for number in np.unique(fold):
            lines = np.flatnonzero(fold == number)
            labeled = self._without(int(number))
            parts.append(labeled.leave_one_out(k, members, rows[lines]))
            places.append(lines)
        if not parts:
            return self.labeled_.leave_one_out(k, members, rows)
        return joined(parts)[np.argsort(np.concatenate(places))]

    def _without(self, fold: int) -> LabeledNeighbors:
        """All rows by the map that was learned without a fold."""
        assert self.transform is not None
        assert self.transforms is not None
        if self._of_fold is not None and fold in self._of_fold:
            return self._of_fold[fold]
        index = self._index(self._mapped(self.transforms.X, self.transforms.without(fold, self.transform)))
        labeled: LabeledNeighbors = index.with_labels(self.labeled_.labels, self.labeled_.n_classes)
        if self.groups_ is not None:
            labeled.groups = self.groups_
        if self._of_fold is not None:
            self._of_fold.clear()
            self._of_fold[fold] = labeled
        return labeled

    @contextmanager
    def keeping_a_fold(self) -> Iterator[None]:
        """For several calls of ``past_cases`` in the order of the folds: rows are mapped once a fold."""
        self._of_fold = {}
        try:
            yield
        finally:
            del self._of_fold

    def measured(self, rows: Any) -> Any:
        """Rows as they are measured.

        What a function of the user's would not check is checked here; any other distance checks the numbers itself.
        """
        if self.transform is not None and self.transforms is not None:
            return self._mapped(rows, self.transforms.whole(self.transform))
        if self.measured_columns is not None:
            return self._mapped(rows, LinearMap.of_columns(self.measured_columns))
        return as_rows(rows) if self.columns is not None and isinstance(self.distance, FunctionDistance) else rows

    def _mapped(self, rows: Any, by: Any) -> Any:
        """Rows that passed through a map; those in shards will, where their shard is opened."""
        if not isinstance(rows, ShardedRows):
            return by(as_rows(rows))
        dtype = by.dtype_of(np.dtype(rows.dtype).newbyteorder("="))
        return rows.mapped(RowMap.of(by, by.parts, by.n_columns, dtype.str, rows.dtype))

    def _index(self, rows: Any) -> Any:
        """An index over rows as they are measured."""
        if isinstance(rows, ShardedRows):
            return self.search.like(self.distance).fit(rows)
        return NeighborIndex(self.distance, self.search, n_jobs=self.n_jobs).fit(rows)

    def _placed(self, error: InputError, X: Any) -> InputError:
        """The error, with the number that is to blame, if one is, at its place in X and not in the group."""
        if self.columns is not None:
            group = np.zeros(X.shape, X.dtype)
            group[:, self.columns] = np.where(np.isnan(X[:, self.columns]), 0, X[:, self.columns])
            try:
                as_rows(group)
            except InputError as placed:
                return placed
        return error

    def _spread(self, table: NeighborTable, lines: np.ndarray, n_lines: int) -> NeighborTable:
        """Put lines at their places among all, and rows under their numbers in the whole collection."""
        if len(lines) == n_lines and len(self.rows_) == self.n_rows:
            return table
        return spread(table, lines, n_lines, self.rows_)


def spread(table: NeighborTable, lines: np.ndarray, n_lines: int, rows: np.ndarray) -> NeighborTable:
    """A table of some of ``n_lines`` queries as one of all; row i of it is ``rows[i]``. The other lines are empty."""
    shape = n_lines, table.n_neighbors
    indices, distances = np.full(shape, -1), np.full(shape, np.inf)
    indices[lines] = np.where(table.indices >= 0, rows[table.indices], -1)
    distances[lines] = table.distances
    further = tuple(_spread_classes(view, lines, n_lines) for view in table.further)
    log_p = None
    if table.model_log_p is not None:
        # A model gives all classes the same where it was not asked.
        log_p = np.full((n_lines, *table.model_log_p.shape[1:]), -np.log(table.model_log_p.shape[1]))
        log_p[lines] = table.model_log_p
    classes = None if table.classes is None else _spread_classes(table.classes, lines, n_lines)
    return NeighborTable(indices, distances, classes, further, log_p)


def _spread_classes(given: NearestClasses, lines: np.ndarray, n_lines: int) -> NearestClasses:
    classes = NearestClasses.to_fill(n_lines, given.numbers.shape[1], given.members)
    classes[lines] = given
    return classes


def present(X: Any, columns: Any) -> tuple[Any, np.ndarray]:
    """Some columns of the rows that lack none of them, and the numbers of these rows; with None, X as it is."""
    if columns is None:
        return X, np.arange(len(X))
    rows = np.ascontiguousarray(X[:, columns])
    if rows.dtype.kind == "f":
        missing = np.isnan(rows).any(axis=1)
        if missing.any():
            return rows[~missing], np.flatnonzero(~missing)
    return rows, np.arange(len(rows))


def _takes(distance: Distance, columns: np.ndarray) -> bool:
    try:
        distance.check(columns)
    except InputError:
        return False
    return True
