"""Several views of one collection, searched together: the first gives the neighbors, all give the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside, stacked_models
from nearsay.search.gpu.gpu_search import GpuSearch


@dataclass(frozen=True, eq=False)
class Views:
    """A labeled search through several views, asked as ``LabeledNeighbors`` is.

    views : fitted, over one collection; neighbors are those of the first.
    models : of ModelBeside, companion models, whose probabilities go into the table too.
    """

    views: list[View]
    models: list[ModelBeside]

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
        """Numbers of the rows that can be neighbors."""
        return self.first.search.rows_.live_numbers

    def __len__(self) -> int:
        return len(self.first)

    def query(self, X: Any, k: int, members: tuple[int, ...] | None = None) -> NeighborTable:
        """The ``k`` nearest rows of every query in the first view, and its classes in all of them."""
        table = self.first.query(self.views[0].measured(X), k, members, input_name="X")
        return self._with_further(table, lambda view: view.neighbors(X, 1, members), lambda model: model.log_proba(X))

    @property
    def in_blocks(self) -> bool:
        """Whether some queries at a time take as long as all at once: not on a GPU, nor of rows in shards."""
        return type(self.first) is LabeledNeighbors and not isinstance(self.first.search, GpuSearch)

    @property
    def model_names(self) -> list[str]:
        """What the models are called."""
        return [model.name for model in self.models]

    def forest_neighbors(self, X: Any, k: int) -> NeighborTable | None:
        """The rows whose votes the forest's answers are made of; None without a forest."""
        return next((table for model in self.models if (table := model.neighbors(X, k)) is not None), None)

    def leave_one_out(
        self, k: int, members: tuple[int, ...] | None = None, rows: np.ndarray | None = None
    ) -> NeighborTable:
        """The same for every row (or for ``rows``) and the *other* rows; nothing learned knows its label."""
        table = self.views[0].past_cases(k, members, rows)
        return self._with_further(
            table, lambda view: view.past_cases(1, members, rows), lambda model: self._past_log_proba(model, rows)
        )

    def over(self, X: Any, labels: np.ndarray, n_classes: int, groups: np.ndarray | None = None) -> OtherRows:
        """The same views of other rows, with groups of them that are never asked about each other."""
        return OtherRows([view.over(X, labels, n_classes, groups) for view in self.views], self.models, X)

    def _past_log_proba(self, model: ModelBeside, rows: np.ndarray | None) -> np.ndarray:
        return model.past_cases(rows)

    def _with_further(
        self,
        table: NeighborTable,
        ask_view: Callable[[View], NeighborTable],
        ask_model: Callable[[ModelBeside], np.ndarray],
    ) -> NeighborTable:
        if table.classes is None:  # neighbors alone are read from the first view
            return table
        log_proba = stacked_models([ask_model(model) for model in self.models])
        return with_further([table, *(ask_view(view) for view in self.views[1:])], log_proba)


@dataclass(frozen=True, eq=False)
class OtherRows(Views):
    """Views of rows that nothing was learned from, so that models answer them as queries."""

    X: Any

    def _past_log_proba(self, model: ModelBeside, rows: np.ndarray | None) -> np.ndarray:
        return model.log_proba(self.X if rows is None else self.X[rows])


def with_further(tables: Sequence[NeighborTable], log_proba: np.ndarray | None) -> NeighborTable:
    """The first table, with the classes of the others, and with the log probabilities of models."""
    further = tuple(table.classes for table in tables[1:] if table.classes is not None)
    return replace(tables[0], further=further, model_log_p=log_proba)
