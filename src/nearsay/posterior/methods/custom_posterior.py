"""Adapter for a posterior that the user wrote: any object with ``fit`` and ``proba`` as a Posterior."""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import Any, Protocol

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import Posterior


class PosteriorLike(Protocol):
    """An object of the user's that turns neighbors into probabilities."""

    def fit(self, table: Any, labels: np.ndarray, n_classes: int) -> Any: ...
    def proba(self, table: NeighborTable) -> np.ndarray: ...


def as_one(posterior: Any) -> Posterior:
    """The posterior itself, or an adapter around an object of the user's. It is not copied."""
    return posterior if isinstance(posterior, Posterior) else CustomPosterior(posterior)


class CustomPosterior(Posterior):
    """Wraps an object that has ``fit(table, labels, n_classes)`` and ``proba(table)``, and maybe more of a Posterior.

    What else it has (``needs_past_cases``, ``tables``, …) is used; a method
    that is missing is the one of Posterior.

    If its ``fit`` takes a ``sample_weight``, it gets how much each of the labeled rows counts, 1 in the mean.
    If its ``fit`` takes no ``rows``, and some rows are to teach it, it is
    fitted to a collection of these rows only: others are nobody's neighbors.
    """

    def __init__(self, custom: Any) -> None:
        self.custom = custom
        for name in ("needs_past_cases", "members", "max_past_cases", "counts_votes"):
            setattr(self, name, getattr(custom, name, getattr(Posterior, name)))
        self.takes_rows = "rows" in inspect.signature(custom.fit).parameters
        self.takes_weights = "sample_weight" in inspect.signature(custom.fit).parameters
        self._known: np.ndarray | None = None

    def check_parameters(self) -> None:
        """Parameters of the object are its business."""

    def __copy__(self) -> CustomPosterior:
        """Another to be fitted: only the object itself knows which of its parts can be shared."""
        other = CustomPosterior(deepcopy(self.custom))
        other.weights, other.row_groups = self.weights, self.row_groups
        return other

    def fit(self, table: Any, labels: np.ndarray, n_classes: int, rows: np.ndarray | None = None) -> CustomPosterior:
        """Fit the object."""
        self.labels_, self.n_classes_ = labels, n_classes
        every_row = rows is None or len(rows) == len(labels)
        if every_row and rows is not None and table is not None:
            table = table[np.argsort(rows)]  # the object takes line i to be about row i
        self._known = None if every_row or self.takes_rows else rows
        weights = None if self.weights is None else self.weights.relative
        if every_row:
            self.custom.fit(table, labels, n_classes, **_if_any(sample_weight=weights))
        elif self.takes_rows:
            self.custom.fit(table, labels, n_classes, rows=rows, **_if_any(sample_weight=weights))
        else:
            known = None if weights is None else weights[rows]
            self.custom.fit(self._among_known(table), labels[rows], n_classes, **_if_any(sample_weight=known))
        return self

    def proba(self, table: NeighborTable) -> np.ndarray:
        """The probabilities of the object."""
        return self.custom.proba(self._among_known(table))

    def leave_one_out_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities of past cases, by the method of the object or by folds."""
        if not self.needs_past_cases:
            return self.proba(table)
        if self._known is not None or not hasattr(self.custom, "leave_one_out_proba"):
            return self._proba_by_folds(table, rows)
        return self.custom.leave_one_out_proba(table, rows)

    def recorded_proba(self, table: NeighborTable, rows: np.ndarray | None = None) -> np.ndarray:
        """Probabilities of past cases by folds: how a method of the object leaves one out is not known here."""
        return super().leave_one_out_proba(table, rows)

    def tables(self) -> list[Any]:
        """The object's tables, if it keeps any."""
        return list(self.custom.tables()) if hasattr(self.custom, "tables") else []

    def _among_known(self, table: NeighborTable) -> NeighborTable:
        return table if self._known is None else among(table, self._known, len(self.labels_))


def _if_any(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def among(table: NeighborTable, rows: np.ndarray, n_rows: int) -> NeighborTable:
    """The table of a collection that holds these rows only, in this order: others are nobody's neighbors.

    >>> table = NeighborTable(np.array([[3, 0, 2]]), np.array([[1.0, 2.0, 3.0]]))
    >>> among(table, np.array([0, 2]), n_rows=4).indices
    array([[ 0,  1, -1]])
    """
    number = np.full(n_rows, -1)
    number[rows] = np.arange(len(rows))
    indices = np.where(table.indices >= 0, number[table.indices], -1)
    return NeighborTable(indices, table.distances, table.classes).without(indices < 0)
