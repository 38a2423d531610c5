"""Rows of a table as people read them: named cells, the most telling columns first, and where two rows differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearsay.collection.labeling import column_names
from nearsay.collection.live import LiveCollection
from nearsay.encode.comparisons import shown_cell
from nearsay.encode.encoded_columns import NumberColumn

# Rows that ranges, values and the order of columns are read from.
SAMPLED = 2000
# Values of a column of words that are suggested.
VALUES_SHOWN = 40
# Numbers differ where they are farther apart than this share of their range.
APART = 0.05
# The range of a column leaves this share out at both ends.
TAIL = 0.02
GAP = "–"


@dataclass(frozen=True)
class RowColumn:
    """A named column.

    Attributes
    ----------
    low, high : where nearly all of its numbers lie; None of words.
    values : its most frequent words.
    column : how it is encoded, or None where rows are compared as they are.
    """

    name: str
    low: float | None = None
    high: float | None = None
    values: list[str] = field(default_factory=list)
    column: Any = None

    def cell(self, text: str | None) -> dict[str, Any]:
        """A cell as it is shown: ``name``, ``text``, and ``at``, its place in the range of the column from 0 to 1."""
        number = self.number(text)
        if number is None:
            return {"name": self.name, "text": text if text else GAP, "at": None}
        at = None
        if self.low is not None and self.high is not None and self.high > self.low:
            at = round(min(max((number - self.low) / (self.high - self.low), 0.0), 1.0), 3)
        return {"name": self.name, "text": shown_cell(self.column, number), "at": at}

    def differs(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether two cells differ so much that it is worth showing."""
        if one["at"] is None or other["at"] is None:
            return bool(one["text"] != other["text"])
        return abs(float(one["at"]) - float(other["at"])) > APART

    def number(self, text: str | None) -> float | None:
        """The number in a cell; None where there is none, or the column is not one of numbers."""
        if text is None or text == "" or (self.column is not None and not isinstance(self.column, NumberColumn)):
            return None
        try:
            return float(text)
        except ValueError:
            return None


class TableRows:
    """The columns of a collection of rows, the most telling first, and its items as cells.

    Made by ``of``; None where columns have no names.
    """

    def __init__(self, collection: LiveCollection, columns: Sequence[RowColumn]) -> None:
        self._collection = collection
        self.columns = list(columns)

    @classmethod
    def of(cls, collection: LiveCollection) -> TableRows | None:
        """The columns of a collection whose rows have named ones."""
        table = collection.table
        names = column_names(collection)
        if names is None:
            return None
        rows = np.flatnonzero(collection.items.alive)
        rows = rows[np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(int)]
        kinds = [None] * len(names) if table is None else list(table.encoder.columns_)
        blocks = [(place, place + 1) for place in range(len(names))] if table is None else table.encoder.blocks_
        plain = cls(collection, [RowColumn(name, column=kind) for name, kind in zip(names, kinds, strict=True)])
        cells = plain.cells_of(rows.tolist())
        columns = [_with_range(column, [row.get(column.name) for row in cells]) for column in plain.columns]
        labels = [collection.items.columns["label"][row] for row in rows.tolist()]
        order = most_telling(collection.store.vectors(rows), labels, blocks)
        return cls(collection, [columns[place] for place in order])

    def cells_of(self, rows: Sequence[int]) -> list[dict[str, str]]:
        """The cells of some rows as texts, by column; gaps are left out."""
        if self._collection.table is not None:
            details = self._collection.items.columns["details"]
            return [{name: str(value) for name, value in (details[row] or {}).items()} for row in rows]
        names = column_names(self._collection) or []
        vectors = self._collection.store.vectors(list(rows))
        return [dict(zip(names, (f"{value:.7g}" for value in row), strict=True)) for row in vectors.tolist()]

    def shown(self, cells: Mapping[str, str], most: int | None = None) -> list[dict[str, Any]]:
        """Cells as they are shown, the most telling first, at most so many."""
        return [column.cell(cells.get(column.name)) for column in self.columns[:most]]

    def comparison(
        self, one: Mapping[str, str], others: Sequence[Mapping[str, str]], most: int | None = None
    ) -> dict[str, Any]:
        """A row beside others: ``columns``, ``first``, and ``rows``, whose cells say whether they differ from it."""
        first, chosen = self.shown(one, most), self.columns[:most]
        rows = [
            [
                {**cell, "differs": column.differs(of_one, cell)}
                for column, of_one, cell in zip(chosen, first, self.shown(other, most), strict=True)
            ]
            for other in others
        ]
        return {"columns": [column.name for column in chosen], "first": first, "rows": rows}

    def fields(self, cells: Mapping[str, str]) -> list[dict[str, Any]]:
        """A field for each column of the table, with what stands in it."""
        return [
            {
                "name": column.name,
                "value": cells.get(column.name, ""),
                "values": column.values,
                "is_number": column.low is not None,
            }
            for column in self.columns
        ]


def _with_range(column: RowColumn, texts: Sequence[str | None]) -> RowColumn:
    """The column with its range, or with its words."""
    known = [text for text in texts if text]
    numbers = [number for text in known if (number := column.number(text)) is not None]
    if len(numbers) == len(known) and numbers:
        low, high = np.quantile(numbers, [TAIL, 1 - TAIL])
        return RowColumn(column.name, float(low), float(high), [], column.column)
    words = [word for word, _ in Counter(known).most_common(VALUES_SHOWN)]
    return RowColumn(column.name, None, None, words, column.column)


def most_telling(X: np.ndarray, labels: Sequence[str | None], blocks: Sequence[tuple[int, int]]) -> list[int]:
    """Places of the blocks of columns, those first that differ most between labels for how they differ within them.

    The adjusted share of variance between labels; blocks as they come where fewer than two labels are known.

    >>> X = np.array([[0.0, 5.0], [1.0, 1.0], [0.0, 1.1], [1.0, 5.2]])
    >>> most_telling(X, ["a", "b", "b", "a"], [(0, 1), (1, 2)]), most_telling(X, [None] * 4, [(0, 1), (1, 2)])
    ([1, 0], [0, 1])
    """
    known = np.array([label is not None for label in labels], bool)
    names, numbers = np.unique([str(label) for label in labels if label is not None], return_inverse=True)
    X = np.asarray(X, np.float64)[known]
    if len(names) < 2 or len(X) <= len(names):
        return list(range(len(blocks)))
    total = ((X - X.mean(axis=0)) ** 2).sum(axis=0)
    sums = np.zeros((len(names), X.shape[1]))
    np.add.at(sums, numbers, X)
    within = (X**2).sum(axis=0) - (sums**2 / np.bincount(numbers)[:, None]).sum(axis=0)
    free = (len(X) - 1) / (len(X) - len(names))

    def share(block: tuple[int, int]) -> float:
        all_of_it = total[slice(*block)].sum()
        return 0.0 if all_of_it <= 0 else 1.0 - free * float(within[slice(*block)].sum() / all_of_it)

    return sorted(range(len(blocks)), key=lambda place: -share(blocks[place]))
