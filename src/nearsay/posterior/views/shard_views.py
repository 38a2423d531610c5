"""Rows in shards as a classifier looks at them: as they are, mapped when they are opened, and told by models beside.

    ShardedRows ──┬──────────────────────────────► ShardView, measured as it is
                  ├─ some rows ──► a map ──► each row mapped where its shard is opened ──► ShardView
                  └─ some rows ──► a model ──► asked about the rows that are judged, when they are

What is learned from rows is learned from some of them where they are many, in this process; no more than these are read
into memory. What was learned is small, and goes to where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from nearsay.core.arrays import row_blocks
from nearsay.neighbors.sharded.sharded_index import ShardedIndex
from nearsay.posterior.base import folds_by
from nearsay.posterior.past_cases import ROWS_AT_ONCE
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import ModelBeside
from nearsay.posterior.views.row_transforms import ROWS_TO_LEARN_FROM, LinearMap
from nearsay.search.shards import ShardedRows
from nearsay.search.stored.mapped import RowMap


class ShardView(View):
    """Rows in shards, searched by one distance, as they are or mapped.

    Parameters
    ----------
    as_indexed : a ShardedIndex that is not fitted, whose settings (cluster, work folder, …) every search takes.
    others : as in ``View``.
    """

    def __init__(self, as_indexed: ShardedIndex, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.as_indexed = as_indexed

    def fit(self, X: ShardedRows, labels: np.ndarray, n_classes: int) -> ShardView:
        """Look at the shards. Where nobody asked for this view, every row is read once: all of them must be measurable.

        A view that was asked for says so when the shard of such a row is first searched.
        """
        super().fit(X, labels, n_classes)
        if self.forgiving or self.look is not None:
            self.index_.check_rows()
        return self

    def _index(self, rows: ShardedRows) -> ShardedIndex:
        return self.as_indexed.like(self.distance).fit(rows)

    def _mapped(self, rows: Any, by: Callable[[np.ndarray], np.ndarray]) -> Any:
        if not isinstance(rows, ShardedRows):
            return super()._mapped(rows, by)
        assert isinstance(by, LinearMap)
        dtype = by.dtype_of(np.dtype(rows.dtype).newbyteorder("="))
        return rows.mapped(RowMap.of(by, by.parts, by.n_columns, dtype.str))


class ModelOverShards(ModelBeside):
    """A model beside neighbors in shards: learned from at most 200,000 rows, and asked when an answer is needed.

    Of more rows as many are drawn, with a fixed seed. What copies say of rows that they had not seen is not kept for
    all rows, which may be billions of numbers: the copies are kept, one a fold, and asked about some rows at a time.
    """

    _without: list[Any] | None = None  # a model for each fold, which has not seen it

    def fit(
        self,
        X: ShardedRows,
        y: np.ndarray,
        labels: np.ndarray,
        held_out: Any = None,
        sample_weight: np.ndarray | None = None,
        *,
        order: np.ndarray | None = None,
    ) -> ModelOverShards:
        """Fit a clone to rows, and others to those of four folds out of five; or take the model as it is."""
        if held_out is not None:
            super().fit(X, y, labels, held_out)
            return self
        self._check_weights(sample_weight)
        order = np.arange(len(labels)) if order is None else order
        self._rows, self._fold = X, folds_by(order, labels)

        def fitted(rows: np.ndarray) -> Any:
            if len(np.unique(labels[rows])) < 2 and len(rows) < len(labels):
                return None  # few models can be fitted to one class
            some = _drawn(rows)
            weights = {} if sample_weight is None else {"sample_weight": sample_weight[some]}
            return clone(self.model).fit(X.take(some), y[some], **weights)

        fold = self._fold[order]
        self._without = [fitted(order[fold != number]) for number in range(fold.max(initial=-1) + 1)]
        self.model_ = fitted(order)
        return self

    def past_cases(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Log probabilities of the rows, or of some, by models that had not seen them."""
        if self._without is None:
            return super().past_cases(rows)
        rows = np.arange(len(self._fold)) if rows is None else rows
        said = np.full((len(rows), len(self.classes)), -np.log(len(self.classes)), np.float32)
        for number, model in enumerate(self._without):
            of_fold = np.flatnonzero(self._fold[rows] == number)
            for part in row_blocks(len(of_fold) if model is not None else 0, size=ROWS_AT_ONCE):
                lines = of_fold[part]
                said[lines] = self._said_by(model, self._rows.take(rows[lines]))
        return said.astype(np.float64)


def _drawn(rows: np.ndarray) -> np.ndarray:
    """All of these rows, or as many as a model is learned from."""
    if len(rows) <= ROWS_TO_LEARN_FROM:
        return rows
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), ROWS_TO_LEARN_FROM, replace=False))]
