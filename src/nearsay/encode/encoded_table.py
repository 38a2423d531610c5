"""The table that a classifier was fitted to: its encoder, and its cells, to compare neighbors column by column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from nearsay.core.validation import check_names
from nearsay.encode.comparisons import comparison
from nearsay.encode.table_columns import TableColumns, read_columns
from nearsay.encode.table_encoder import TableEncoder


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """An encoder and the columns that it was fitted to.

    columns : TableColumns, of the training rows.
    names : (n_columns,) names of the columns, or None where they have none.
    """

    encoder: TableEncoder
    columns: TableColumns
    names: np.ndarray | None

    @classmethod
    def of(cls, estimator: Any, X: Any) -> EncodedTable:
        """The table that an estimator is fitted to."""
        check_names(X)
        validate_data(estimator, X, skip_check_array=True)
        columns = read_columns(X)
        encoder = TableEncoder().fit_columns(columns)
        return cls(encoder, columns.used_as(encoder.kinds_), getattr(estimator, "feature_names_in_", None))

    @property
    def rows(self) -> np.ndarray:
        """The training rows as numbers."""
        return self.encoded(self.columns)

    def name_columns(self, estimator: Any) -> None:
        """Give the estimator the names and the number of columns of the table, not of the encoded rows."""
        estimator.n_features_in_ = len(self.columns.names)
        if self.names is not None:
            estimator.feature_names_in_ = self.names

    def read(self, estimator: Any, X: Any) -> TableColumns:
        """The columns of queries, which must be those of the table."""
        check_names(X)
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return read_columns(X, self.columns.kinds)

    def encoded(self, columns: TableColumns) -> np.ndarray:
        """Rows of numbers."""
        return self.encoder.transform_columns(columns)

    def with_rows(self, more: TableColumns) -> EncodedTable:
        """The same with more rows behind those it has, encoded as these are."""
        columns = self.columns
        cells = [np.concatenate(both) for both in zip(columns.cells, more.cells, strict=True)]
        return replace(self, columns=TableColumns(columns.names, columns.kinds, cells))

    def compared(self, estimator: Any, X: Any, evidence: Any) -> Any:
        """Evidence in which each neighbor says, column by column, how it is like the query; in place."""
        queries = self.read(estimator, X)
        for number, item in enumerate(evidence):
            one = self._cells(queries, number)
            words = [comparison(self.encoder, one, self._cells(self.columns, row)) for row in item.neighbors]
            evidence[number] = replace(item, compared=words)
        return evidence

    def _cells(self, columns: TableColumns, row: int) -> list[Any]:
        return [columns.cells[place][row] for place in self.encoder.places_]
