"""Tables and arrays as blocks of raw rows: a row that cannot be read does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows
from nearsay.core.arrays import row_blocks
from nearsay.data.keywords import Keywords
from nearsay.data.tables.array_file import Arrays, load_arrays, named_array, read_npy, rows_of
from nearsay.data.tables.columns import (
    KEYWORD_NAMES,
    PICTURE_NAMES,
    ColumnChoices,
    Roles,
    column_called,
    separator_of,
    split_keywords,
)
from nearsay.data.tables.parquet_table import ParquetTable
from nearsay.data.tables.text_format import Record, numbers_of
from nearsay.data.tables.text_table import TextTable
from nearsay.errors import InputError
from nearsay.search.stored.lance import newest_version

ROWS_AT_ONCE = 4096


class TextSource(TextTable):
    """The rows of a table of text."""

    def __init__(self, path: Path, choices: ColumnChoices) -> None:
        super().__init__(path, choices)
        header = "no line names the columns: they go by number"
        if self.names is not None:
            header = "the first line names the columns" + ", but for the row names" * self.has_row_names
        self.chosen = [header, *self.roles.chosen]
        self.n_rows = self.count_rows()
        keywords = self.roles.keywords
        self._separator = None if keywords is None else separator_of([cells[keywords] for cells in self.sample])

    def __iter__(self) -> Iterator[RawRows]:
        records = enumerate(self.records())
        while block := list(islice(records, ROWS_AT_ONCE)):
            yield self._raw_rows(block)

    def _raw_rows(self, block: list[tuple[int, Record]]) -> RawRows:
        roles = self.roles
        X = np.zeros((len(block), len(roles.features)))
        raw = RawRows([row for row, _ in block], [], X, [], [], [], lines=[line for _, (line, *_) in block])
        for place, (row, (_, cells, fault, _)) in enumerate(block):
            if cells is None:
                raw.refused[place] = fault
                cells = [""] * self.width
            else:
                try:
                    X[place] = numbers_of(cells, roles.features, self.names)
                except InputError as error:
                    raw.refused[place] = str(error).rstrip(".")
            raw.ids.append(f"{self.path.stem}:{row}" if roles.id is None else cells[roles.id].strip())
            raw.labels.append(None if roles.label is None else cells[roles.label].strip() or None)
            keywords = None if roles.keywords is None else split_keywords(cells[roles.keywords], self._separator)
            raw.keywords.append(keywords)
            details = {self.names[c] if self.names else str(c): cells[c] for c in roles.details if cells[c].strip()}
            if roles.picture is not None and cells[roles.picture].strip():
                details["path"] = cells[roles.picture].strip()
            if roles.text is not None:
                details["text"] = cells[roles.text].strip()
            raw.details.append(details)
        return raw


def table_of_labels(path: Path, choices: ColumnChoices) -> TextSource:
    """A table with the label or keywords of every id; the id is the first column unless another one is named so."""
    table = TextSource(path, choices)
    roles = table.roles
    id = column_called(PICTURE_NAMES, table.names) if roles.id is None else roles.id
    id = 0 if id is None else id
    label = None if roles.label == id else roles.label
    if label is None and roles.keywords is None:
        others = [column for column in (*roles.details, *roles.features) if column != id]
        if not others:
            raise InputError(f"{path.name} names items, but neither labels nor keywords. Add a column 'label'.")
        label = others[-1]
    table.roles = Roles(label, roles.keywords, id, None, [], [], [])
    return table


class ParquetSource(ParquetTable):
    """The rows of a parquet file."""

    def __init__(self, path: Path, choices: ColumnChoices) -> None:
        super().__init__(path, choices)
        if not self.n_rows or self.first is None:
            raise InputError(f"{path.name} has no rows.")
        self.chosen = self.roles.chosen
        keywords, text = self.roles.keywords, self.roles.text
        if text is not None and self.is_list[text]:
            raise InputError(f"{path.name}: column {self.names[text]!r} holds lists, and a text is a string.")
        self._separator = None
        if keywords is not None and not self.is_list[keywords]:
            self._separator = separator_of(_texts(self.first, keywords))

    def __iter__(self) -> Iterator[RawRows]:
        start = 0
        for batch in self.batches():
            with self.reading():
                raw = self._raw_rows(batch, start)
            yield raw
            start += batch.num_rows

    def _raw_rows(self, batch: Any, start: int) -> RawRows:
        roles, n = self.roles, batch.num_rows
        refused: dict[int, str] = {}
        blocks = [self.block(batch.column(column), column, refused) for column in roles.features]
        rows = list(range(start, start + n))
        ids = [f"{self.path.stem}:{row}" for row in rows] if roles.id is None else _texts(batch, roles.id)
        details: list[dict[str, str]] = [{} for _ in rows]
        known = {self.names[column]: column for column in roles.details}
        known |= {name: c for name, c in (("path", roles.picture), ("text", roles.text)) if c is not None}
        for name, column in known.items():
            for detail, cell in zip(details, _texts(batch, column), strict=True):
                if cell:
                    detail[name] = cell
        return RawRows(
            rows,
            [id.strip() for id in ids],
            _as_floats(np.hstack(blocks)) if blocks else np.zeros((n, 0)),
            [None] * n if roles.label is None else [cell.strip() or None for cell in _texts(batch, roles.label)],
            self._keywords(batch),
            details,
            refused,
        )

    def _keywords(self, batch: Any) -> list[list[str] | None]:
        column = self.roles.keywords
        if column is None:
            return [None] * batch.num_rows
        if self.is_list[column]:
            return [None if cell is None else _words(cell) for cell in batch.column(column).to_pylist()]
        return [split_keywords(cell, self._separator) for cell in _texts(batch, column)]


class LanceSource(ParquetSource):
    """The rows of a Lance data set, at its newest version."""

    format = "a Lance data set"

    def _open(self) -> tuple[Any, int, Callable[[], Iterator[Any]]]:
        data = newest_version(str(self.path))
        return data.schema, data.count_rows(), lambda: iter(data.to_batches(batch_size=ROWS_AT_ONCE))


def _as_floats(X: np.ndarray) -> np.ndarray:
    return X if X.dtype == np.float32 else X.astype(np.float64)


def _texts(batch: Any, column: int) -> list[str]:
    return [_text(value) for value in batch.column(column).to_pylist()]


def _text(value: Any) -> str:
    """A cell as text; bytes that are not UTF-8 are refused later, with their row."""
    return "" if value is None else value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _words(cell: list[Any]) -> list[str]:
    """The words of a list, each once; missing and empty ones are left out."""
    words = (str(word).strip() for word in cell if word is not None)
    return list(dict.fromkeys(word for word in words if word))


class ArraySource:
    """The rows of an npz or npy file."""

    def __init__(self, path: Path, choices: ColumnChoices) -> None:
        self.path = path
        arrays: Arrays = {}
        if path.suffix.lower() == ".npz":
            arrays = load_arrays(path)
            choices = choices.for_table(list(arrays), 0)
            self._rows = rows_of(arrays, path, choices.label, choices.id)
        else:
            choices = choices.for_table([], 0)
            self._rows = read_npy(path, choices.label, choices.id, None)
            if choices.keywords is not None:
                raise InputError(
                    f"{path.name} holds one array, and no keywords. Use an .npz file, or a separate table of labels."
                )
        if not self._rows.X.shape[1]:
            raise InputError(
                f"{path.name} holds rows of no numbers: shape {self._rows.X.shape}. Items need at least one."
            )
        self.n_rows = len(self._rows)
        self.feature_groups = self._rows.feature_groups
        self.columns = [str(column) for column in range(self._rows.X.shape[1])]
        name, keywords = named_array(arrays, choices.keywords, KEYWORD_NAMES[:3], path)
        self._keywords = None if name is None else self._lists(arrays, name, keywords)
        self.chosen = [
            f"X has {self.n_rows} rows of {len(self.columns)} numbers ({self._rows.X.dtype})",
            "there are no labels" if self._rows.y is None else "the labels are those stored with X",
            *([f"the keywords are the array {name!r}"] if name else []),
        ]

    def _lists(self, arrays: Arrays, name: str, array: Any) -> list[list[str]]:
        """The keywords of every row, from texts, or from zeros and ones."""
        if len(array) != self.n_rows:
            raise InputError(f"{self.path.name}: {name!r} holds {len(array)} items, X {self.n_rows} rows.")
        if array.ndim == 2:
            table = Keywords.of(array)
            words = arrays["words"] if "words" in arrays and name != "words" else None
            lists = (table if words is None else table.with_words(words.tolist())).lists()
            return [[str(word) for word in words] for words in lists]
        cells = [str(cell) for cell in array.tolist()]
        separator = separator_of(cells)
        return [split_keywords(cell, separator) for cell in cells]

    def __iter__(self) -> Iterator[RawRows]:
        rows, stem = self._rows, self.path.stem
        for block in row_blocks(self.n_rows, size=ROWS_AT_ONCE):
            numbers = list(range(self.n_rows)[block])
            ids = [f"{stem}:{row}" for row in numbers] if rows.ids is None else map(_text, rows.ids[block].tolist())
            labels = [None] * len(numbers) if rows.y is None else map(_text, rows.y[block].tolist())
            yield RawRows(
                numbers,
                list(ids),
                rows.X[block],
                [None if label is None else label.strip() or None for label in labels],
                [None] * len(numbers) if self._keywords is None else list(self._keywords[block]),
                [{} for _ in numbers],
            )
