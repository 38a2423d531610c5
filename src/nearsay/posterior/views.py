"""Several views of one collection, asked together: the first shows the neighbors, all tell how far the classes are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearsay.neighbors.labeled import LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.beside import ModelBeside
from nearsay.posterior.feature_group import View


class Views:
    """A labeled search through several views, asked as ``LabeledNeighbors`` is.

    Parameters
    ----------
    views : fitted, over one collection; neighbors are those of the first.
    beside : ModelBeside, optional
        A model that is asked too.
    """

    def __init__(self, views: Sequence[View], beside: ModelBeside | None = None) -> None:
        self.views = list(views)
        self.beside = beside

    @property
    def first(self) -> LabeledNeighbors:
        """The search of the first view."""
        return self.views[0].labeled_

    @property
    def labels(self) -> np.ndarray:
        """The class number of every row."""
        return self.first.labels

    @property
    def n_classes(self) -> int:
        return self.first.n_classes

    @property
    def live_numbers(self) -> np.ndarray:
        """Numbers of the rows that can be found."""
        return self.first.search.rows_.live_numbers

    def __len__(self) -> int:
        return len(self.first)

    def query(self, X: Any, k: int, members: tuple[int, ...] | None = None) -> NeighborTable:
        """The ``k`` nearest rows of every query in the first view, and its classes in all of them."""
        table = self.first.query(self.views[0].seen(X), k, members, input_name="X")
        said = None if self.beside is None or members is None else self.beside.said(X)
        return self._with_further(table, said, lambda view: view.neighbors(X, 1, members))

    def leave_one_out(
        self, k: int, members: tuple[int, ...] | None = None, rows: np.ndarray | None = None
    ) -> NeighborTable:
        """The same for every row (or for ``rows``) and the *other* rows; nothing learned has seen it."""
        table = self.views[0].past_cases(k, members, rows)
        said = None if self.beside is None or members is None else self.beside.past_cases(rows)
        return self._with_further(table, said, lambda view: view.past_cases(1, members, rows))

    def _with_further(
        self, table: NeighborTable, said: np.ndarray | None, ask: Callable[[View], NeighborTable]
    ) -> NeighborTable:
        if table.classes is None:  # who looks at the neighbors alone needs no more
            return table
        return with_further([table, *(ask(view) for view in self.views[1:])], said)


def with_further(tables: Sequence[NeighborTable], said: np.ndarray | None) -> NeighborTable:
    """The first table, with what the others say of the classes, and with what a model says."""
    further = tuple(table.classes for table in tables[1:] if table.classes is not None)
    return replace(tables[0], further=further, said=said)
