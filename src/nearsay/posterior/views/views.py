"""Several views of one collection, asked together: the first shows the neighbors, all tell how far the classes are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside, said_together


class Views:
    """A labeled search through several views, asked as ``LabeledNeighbors`` is.

    Parameters
    ----------
    views : fitted, over one collection; neighbors are those of the first.
    models : of ModelBeside
        Models that are asked too.
    """

    def __init__(self, views: Sequence[View], models: Sequence[ModelBeside] = ()) -> None:
        self.views = list(views)
        self.models = list(models)

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
        return self._with_further(table, lambda view: view.neighbors(X, 1, members), lambda model: model.said(X))

    def leave_one_out(
        self, k: int, members: tuple[int, ...] | None = None, rows: np.ndarray | None = None
    ) -> NeighborTable:
        """The same for every row (or for ``rows``) and the *other* rows; nothing learned has seen it."""
        table = self.views[0].past_cases(k, members, rows)
        return self._with_further(
            table, lambda view: view.past_cases(1, members, rows), lambda model: model.past_cases(rows)
        )

    def _with_further(
        self,
        table: NeighborTable,
        ask: Callable[[View], NeighborTable],
        ask_model: Callable[[ModelBeside], np.ndarray],
    ) -> NeighborTable:
        if table.classes is None:  # who looks at the neighbors alone needs no more
            return table
        said = said_together([ask_model(model) for model in self.models])
        return with_further([table, *(ask(view) for view in self.views[1:])], said)


def with_further(tables: Sequence[NeighborTable], said: np.ndarray | None) -> NeighborTable:
    """The first table, with what the others say of the classes, and with what models say."""
    further = tuple(table.classes for table in tables[1:] if table.classes is not None)
    return replace(tables[0], further=further, said=said)
