"""``NeighborTable``: row numbers and distances of the neighbors of each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.core.arrays import check_row_numbers
from nearsay.errors import InputError
from nearsay.neighbors.class_candidates import Candidates
from nearsay.neighbors.class_order import NearestClasses, joined_classes


@dataclass(frozen=True)
class NeighborTable:
    """For every query its neighbors, nearest first.

    Attributes
    ----------
    indices : (n_queries, k) int64
        Row numbers in the collection. Equal distances: lower row number first. −1 where there is none.
    distances : (n_queries, k) float64
        Their distances; +inf where there is no neighbor.
    classes : NearestClasses, optional
        The classes by their nearest member, if wanted.
    further : tuple of NearestClasses
        The same in further views of the rows, for a posterior that uses several.
    model_log_p : (n_queries, n_classes, n_models), optional
        Log probabilities of companion models, which are pooled with the neighbors.
    candidates : Candidates, optional
        In past cases of very many classes, the few that all views and models tell of: classes are then numbered by
        their places among them.

    >>> table = NeighborTable(np.array([[3, 1, 2]]), np.array([[0.0, 0.5, 0.5]]))
    >>> table.first(2).indices
    array([[3, 1]])
    """

    indices: np.ndarray
    distances: np.ndarray
    classes: NearestClasses | None = field(default=None, repr=False)
    further: tuple[NearestClasses, ...] = field(default=(), repr=False)
    model_log_p: np.ndarray | None = field(default=None, repr=False)
    candidates: Candidates | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_array("indices", self.indices, "iu", "whole numbers")
        _check_array("distances", self.distances, "f", "floats")
        if self.indices.shape != self.distances.shape or self.indices.ndim != 2:
            raise InputError(
                "A neighbor table needs row numbers and distances of one shape (queries × neighbors);"
                f" got {self.indices.shape} and {self.distances.shape}."
            )

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def n_neighbors(self) -> int:
        return int(self.indices.shape[1])

    def first(self, k: int) -> NeighborTable:
        """The ``k`` nearest alone: a smaller k never needs a new search."""
        if not 1 <= k <= self.n_neighbors:
            raise InputError(f"This table holds {self.n_neighbors} neighbors a query; {k} are too many.")
        return replace(self, indices=self.indices[:, :k], distances=self.distances[:, :k])

    def without(self, gone: np.ndarray, k: int | None = None) -> NeighborTable:
        """The first ``k`` neighbors left where some are ``gone`` (n_queries, n_neighbors); −1 and +inf fill up.

        >>> table = NeighborTable(np.array([[3, 1, 2]]), np.array([[0.0, 0.5, 0.5]]))
        >>> table.without(np.array([[False, True, False]])).indices
        array([[ 3,  2, -1]])
        """
        first = np.argsort(gone, axis=1, kind="stable")[:, :k]
        left = ~np.take_along_axis(gone, first, axis=1)
        indices = np.where(left, np.take_along_axis(self.indices, first, axis=1), -1)
        distances = np.where(left, np.take_along_axis(self.distances, first, axis=1), np.inf)
        return replace(self, indices=indices, distances=distances)

    def widened(self, k: int) -> NeighborTable:
        """The table with at least ``k`` columns: −1 and +inf fill up."""
        missing = ((0, 0), (0, max(k - self.n_neighbors, 0)))
        if not missing[1][1]:
            return self
        indices = np.pad(self.indices, missing, constant_values=-1)
        return replace(self, indices=indices, distances=np.pad(self.distances, missing, constant_values=np.inf))

    def graph(self, n_rows: int, *, distances: bool = False) -> csr_array:
        """A sparse (n_queries, n_rows) matrix: 1, or the distance, where a row is a query's neighbor.

        >>> table = NeighborTable(np.array([[2, 0], [1, -1]]), np.array([[0.5, 1.0], [0.0, np.inf]]))
        >>> table.graph(3).toarray()
        array([[1., 0., 1.],
               [0., 1., 0.]])
        """
        is_row = self.indices >= 0
        ends = np.concatenate([[0], np.cumsum(is_row.sum(axis=1))])
        values = self.distances[is_row] if distances else np.ones(int(ends[-1]))
        return csr_array((values, self.indices[is_row], ends), shape=(len(self), n_rows))

    def __getitem__(self, rows: Any) -> NeighborTable:
        """The same table for some of the queries: a slice, their numbers, or a mask."""
        lines = rows if isinstance(rows, slice) else check_row_numbers(rows, len(self))
        return NeighborTable(
            self.indices[lines],
            self.distances[lines],
            None if self.classes is None else self.classes[lines],
            tuple(view[lines] for view in self.further),
            None if self.model_log_p is None else self.model_log_p[lines],
            None if self.candidates is None else self.candidates[lines],
        )


def table_of(indices: np.ndarray, distances: np.ndarray) -> NeighborTable:
    """A table without checks of its arrays: these would take a tenth of the shortest searches.

    >>> table_of(np.array([[3, 1]]), np.array([[0.0, 0.5]]))
    NeighborTable(indices=array([[3, 1]]), distances=array([[0. , 0.5]]))
    """
    table = object.__new__(NeighborTable)
    known = vars(table)  # other fields have defaults in the class
    known["indices"], known["distances"] = indices, distances
    return table


def joined(tables: Sequence[NeighborTable]) -> NeighborTable:
    """The lines of several tables, one after the other; all of one width, with the same kinds of classes.

    >>> table = NeighborTable(np.array([[3, 1]]), np.array([[0.0, 0.5]]))
    >>> joined([table, table]).indices.tolist()
    [[3, 1], [3, 1]]
    """
    classes = [table.classes for table in tables if table.classes is not None]
    model_log_p = [table.model_log_p for table in tables if table.model_log_p is not None]
    return NeighborTable(
        np.concatenate([table.indices for table in tables]),
        np.concatenate([table.distances for table in tables]),
        joined_classes(classes) if classes else None,
        tuple(joined_classes(view) for view in zip(*(table.further for table in tables), strict=True)),
        np.concatenate(model_log_p) if model_log_p else None,
    )


def _check_array(name: str, given: Any, kinds: str, expected: str) -> None:
    if not isinstance(given, np.ndarray) or given.dtype.kind not in kinds:
        got = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
        raise InputError(f"The {name} of a neighbor table are an array of {expected}; got {got}.")
