"""One feature group seen in one way: which rows have it, who their neighbors are, in numbers of the whole."""

from __future__ import annotations

from collections.abc import Callable
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


class View:
    """The rows that have a feature group, searched by one distance.

    Rows that lack the group (NaN) are never neighbors; asked about, they have
    an empty line: −1 and +inf. Row numbers are those of the whole collection.

    Parameters
    ----------
    group : the name of the feature group.
    columns : its columns in X; None takes X as it is, whatever its items are.
    distance, search, n_jobs : as in ``NeighborIndex``.
    forgiving : bool
        Whether a row that the distance cannot measure counts as lacking the
        group, instead of being an error. For distances that the user did not
        ask for.
    look, looks : how the rows are mapped before they are measured, and the maps of the collection.
    taken : (n_taken,) int or None
        Numbers, within the group, of the columns that are measured; None for all.
    """

    taken: np.ndarray | None = None
    unseen = False  # whether maps that know labels have seen none of the rows that are asked about

    def __init__(
        self,
        group: str,
        columns: Any,
        distance: Any,
        search: Any = "auto",
        *,
        forgiving: bool = False,
        look: RowTransform | None = None,
        looks: LearnedTransforms | None = None,
        taken: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.group = group
        self.columns = columns
        self.distance: Distance = as_distance(distance)
        self.search = search
        self.forgiving = forgiving
        self.look = look
        self.looks = looks
        self.taken = taken
        self.n_jobs = n_jobs

    @property
    def seen_by(self) -> str:
        """The distance, or the map before it, for people."""
        return self.distance.name if self.look is None else self.look.name

    @property
    def name(self) -> str:
        """The group and the distance, for people."""
        return f"{self.group} ({self.seen_by})"

    @property
    def knows_labels(self) -> bool:
        """Whether distances are learned from the labels."""
        return self.look is not None and self.look.knows_labels

    def fit(self, X: Any, labels: np.ndarray, n_classes: int) -> View:
        """Hold the rows of X that have the group."""
        rows, here = self._present(X)
        if self.columns is not None and not len(here):
            raise InputError(
                f"No row has the feature group {self.group!r}: each has a missing value (NaN) in its columns."
                " Fill them in, or leave the group out."
            )
        self.n_rows = len(X)
        self.rows_ = here
        if self.taken is not None and len(self.taken) == rows.shape[1]:
            self.taken = None  # all of them: nothing is copied
        try:
            self.index_ = self._index(self.seen(rows))
        except InputError as error:
            raise self._placed(error, X) from None
        self.labeled_: LabeledNeighbors = self.index_.with_labels(labels[here], n_classes)
        self.past_ = PastCases(self.labeled_)
        return self

    def over(self, X: Any, labels: np.ndarray, n_classes: int) -> View:
        """The same view of other rows. Maps stay as they were learned: from none of the rows to be asked about."""
        other = copy(self)
        other.unseen = True
        return other.fit(X, labels, n_classes)

    @property
    def shown(self) -> np.ndarray:
        """Which classes have a row with this group: (n_classes,) bool."""
        found: np.ndarray = np.bincount(self.labeled_.labels, minlength=self.labeled_.n_classes) > 0
        return found

    def neighbors(self, X: np.ndarray, k: int, members: tuple[int, ...] | None) -> NeighborTable:
        """The ``k`` nearest rows of every query that has the group; −1 and +inf where there are fewer."""
        rows, here = self._present(X)
        try:
            table = self.labeled_.query(self.seen(rows), k, members, input_name="X")
        except InputError as error:
            placed = self._placed(error, X)
            if placed is not error or not self.forgiving:
                raise placed from None
            rows = self.seen(rows)
            measurable = np.array([_takes(self.distance, rows[i : i + 1]) for i in range(len(rows))], np.bool_)
            here = here[measurable]
            table = self.labeled_.query(rows[measurable], k, members)
        return self._spread(table, here, len(X))

    def past_cases(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray | None = None) -> NeighborTable:
        """The same for the rows themselves, each left out of its own neighbors: all of them, or some."""
        if rows is None and not self.knows_labels:
            table, _ = self.past_.judged(k, members, every_row=True)
            return self._spread(table, self.rows_, self.n_rows)
        rows = np.arange(self.n_rows) if rows is None else rows
        local = np.full(self.n_rows, -1)
        local[self.rows_] = np.arange(len(self.rows_))
        here = np.flatnonzero(local[rows] >= 0)
        left_out = self._past_by_folds if self.knows_labels and not self.unseen else self.past_.of_rows
        return self._spread(left_out(k, members, local[rows[here]]), here, len(rows))

    def _present(self, X: Any) -> tuple[Any, np.ndarray]:
        """The columns of the group, of the rows that have it, and the numbers of these rows."""
        return present(X, self.columns)

    def _past_by_folds(self, k: int, members: tuple[int, ...] | None, rows: np.ndarray) -> NeighborTable:
        """Past cases as they look to maps that have not seen them; rows are numbered among those with the group."""
        assert self.look is not None
        assert self.looks is not None
        parts: list[NeighborTable] = []
        places = []
        fold = self.looks.fold[rows]
        for number in np.unique(fold):
            here = np.flatnonzero(fold == number)
            index = self._index(self._mapped(self.looks.X, self.looks.without(int(number), self.look)))
            labeled = index.with_labels(self.labeled_.labels, self.labeled_.n_classes)
            parts.append(labeled.leave_one_out(k, members, rows[here]))
            places.append(here)
        if not parts:
            return self.labeled_.leave_one_out(k, members, rows)
        return joined(parts)[np.argsort(np.concatenate(places))]

    def seen(self, rows: Any) -> Any:
        """Rows as they are measured.

        What a function of the user's would not look at is checked; any other distance looks at the numbers itself.
        """
        if self.look is not None and self.looks is not None:
            return self._mapped(rows, self.looks.whole(self.look))
        if self.taken is not None:
            return self._mapped(rows, LinearMap.of_columns(self.taken))
        return as_rows(rows) if self.columns is not None and isinstance(self.distance, FunctionDistance) else rows

    def _mapped(self, rows: Any, by: Callable[[np.ndarray], np.ndarray]) -> Any:
        """Rows that passed through a map."""
        return by(as_rows(rows))

    def _index(self, rows: Any) -> Any:
        """Rows as they are measured, ready to be searched."""
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

    def _spread(self, table: NeighborTable, here: np.ndarray, n_lines: int) -> NeighborTable:
        """Put lines at their places among all, and rows under their numbers in the whole collection."""
        if len(here) == n_lines and len(self.rows_) == self.n_rows:
            return table
        shape = n_lines, table.n_neighbors
        indices, distances = np.full(shape, -1), np.full(shape, np.inf)
        indices[here] = np.where(table.indices >= 0, self.rows_[table.indices], -1)
        distances[here] = table.distances
        if table.classes is None:
            return NeighborTable(indices, distances)
        classes = NearestClasses.to_fill(n_lines, table.classes.numbers.shape[1], table.classes.members)
        classes[here] = table.classes
        return NeighborTable(indices, distances, classes)


def present(X: Any, columns: Any) -> tuple[Any, np.ndarray]:
    """Some columns of the rows that lack none of them, and the numbers of these rows; with None, X as it is."""
    return (X, np.arange(len(X))) if columns is None else _with_group(np.ascontiguousarray(X[:, columns]))


def _with_group(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows without a missing value, and their numbers."""
    if columns.dtype.kind == "f":
        missing = np.isnan(columns).any(axis=1)
        if missing.any():
            return columns[~missing], np.flatnonzero(~missing)
    return columns, np.arange(len(columns))


def _takes(distance: Distance, columns: np.ndarray) -> bool:
    try:
        distance.check(columns)
    except InputError:
        return False
    return True
