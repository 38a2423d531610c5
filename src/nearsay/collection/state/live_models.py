"""Companion models of a collection: what was learned stays, while rows and classes come and go.

learn:   rows then ──► model, and one without each fold ──► kept
answer:  query ──► log probabilities of the classes known then ──► of the classes there are; new ones: as any
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.views.forest import ForestClasses
from nearsay.posterior.views.model_beside import ForestBeside, ModelBeside, log_shares, stacked_models


@dataclass(frozen=True)
class LearnedModel:
    """A companion model as a collection keeps it.

    Attributes
    ----------
    name : to show.
    classes : (n_known,) labels, by the class number of the model.
    whole : fitted to all rows that voted.
    without : fitted without each fold; () for a forest, which has trees that were grown without a row.
    rows : (n_taught,) the rows of the store that a forest was grown from, in its order; none for others.
    spread : the share of every answer that is spread evenly.
    """

    name: str
    classes: np.ndarray
    whole: Any
    without: tuple[Any, ...]
    rows: np.ndarray
    spread: float

    @classmethod
    def of(cls, model: ModelBeside, labels: np.ndarray, numbers: np.ndarray) -> LearnedModel:
        """What was learned, from rows of these numbers in the store; ``labels`` by class number."""
        rows = numbers[model.rows_] if isinstance(model, ForestBeside) else np.empty(0, np.int64)
        return cls(model.name or "", labels, model.model_, tuple(model.copies_), rows, model.spread)

    def log_proba(self, X: np.ndarray) -> np.ndarray:
        """Log probabilities (n_queries, n_known)."""
        return self._logs(self.whole, X)

    def past_cases(self, X: np.ndarray, rows: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """The same for rows of the store, by what was learned without each; ``fold`` is theirs, −1 for rows since."""
        if len(self.rows):
            by_number = np.argsort(self.rows)
            place = by_number[np.minimum(np.searchsorted(self.rows, rows, sorter=by_number), len(self.rows) - 1)]
            return self._logs(self.whole, X, np.where(self.rows[place] == rows, place, -1))
        log_p = np.empty((len(X), len(self.classes)))
        for number in np.unique(fold):
            lines = np.flatnonzero(fold == number)
            known = 0 <= number < len(self.without)
            log_p[lines] = self._logs(self.without[number] if known else self.whole, X[lines])
        return log_p

    def _logs(self, model: Any, X: np.ndarray, *given: np.ndarray) -> np.ndarray:
        p = np.zeros((len(X), len(self.classes)))
        if model is None:  # too few rows to learn from without a fold
            p[:] = 1 / len(self.classes)
        elif len(X):
            p[:, model.classes_] = model.predict_proba(X, *given)
        return log_shares(p, self.spread)

    def fits(self, some: np.ndarray) -> bool:
        """Whether it takes rows of so many columns: the file may have been changed."""
        if not 0 <= self.spread <= 1:
            return False
        if len(self.rows) and not (isinstance(self.whole, ForestClasses) and len(self.rows) == self.whole.n_rows):
            return False
        models = [model for model in (self.whole, *self.without) if model is not None]
        return all(np.isfinite(self._logs(model, some)).all() for model in models)


@dataclass(frozen=True)
class LiveModels:
    """The models of a collection at one version."""

    models: Sequence[LearnedModel]
    classes: np.ndarray

    def log_proba(self, X: np.ndarray) -> np.ndarray | None:
        """Log probabilities (n_queries, n_classes, n_models); None without models."""
        return stacked_models([self._of_present(model, model.log_proba(X)) for model in self.models])

    def forest_neighbors(self, X: np.ndarray, k: int, votes: np.ndarray) -> NeighborTable | None:
        """Rows of the store whose votes the forest's answers are made of, of those that vote; None without a forest."""
        forest = next((model for model in self.models if isinstance(model.whole, ForestClasses)), None)
        if forest is None or not len(forest.rows):
            return None
        table = forest.whole.neighbors(X, k)
        rows = np.where(table.indices >= 0, forest.rows[table.indices], -1)
        return NeighborTable(np.where((rows >= 0) & votes[rows], rows, -1), table.distances)

    def past_cases(self, X: np.ndarray, rows: np.ndarray, fold: np.ndarray) -> np.ndarray | None:
        """The same for rows of the store."""
        return stacked_models([self._of_present(model, model.past_cases(X, rows, fold)) for model in self.models])

    def _of_present(self, model: LearnedModel, log_p: np.ndarray) -> np.ndarray:
        """Columns of the classes there are; one that the model does not know has an even share."""
        if len(model.classes) == len(self.classes) and (model.classes == self.classes).all():
            return log_p
        place = {label: number for number, label in enumerate(model.classes.tolist())}
        known = [place.get(label, -1) for label in self.classes.tolist()]
        full = np.full((len(log_p), len(known)), -np.log(len(known)))
        here = np.flatnonzero(np.array(known) >= 0)
        full[:, here] = log_p[:, np.array(known)[here]]
        return full
