"""Tables and arrays as blocks of raw rows: a row that cannot be read does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows, Reader
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


class TableReader(Reader):
    """A reader of a table, whose columns have roles.

    Attributes
    ----------
    path, names, roles : the file, the names of its columns (None without any), and what each is for.
    separator : of the keywords in a cell.
    """

    path: Path
    names: Sequence[str] | None
    roles: Roles
    separator: str | None = None

    def column_name(self, column: int) -> str:
        """The name of a column, or its number."""
        return str(column) if self.names is None else self.names[column]

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Texts, where a column holds some; pictures, where there are no numbers."""
        return "texts" if self.roles.text is not None else "numbers" if len(self.columns) else "pictures"

    @property
    def text_column(self) -> str | None:  # type: ignore[override]
        """The column of texts, where it has a name."""
        return None if self.names is None or self.roles.text is None else self.names[self.roles.text]

    @property
    def group_by(self) -> str | None:  # type: ignore[override]
        """The column of groups."""
        return None if self.roles.group is None else self.column_name(self.roles.group)

    @staticmethod
    def text_of(cell: Any) -> str:
        """A cell as text; bytes that are not UTF-8 are refused later, with their row."""
        if isinstance(cell, bytes):
            return cell.decode("utf-8", "surrogateescape")
        return "" if cell is None else str(cell)

    def raw_rows(
        self,
        rows: list[int],
        X: np.ndarray,
        cells: Callable[[int], list[Any]],
        refused: dict[int, str],
        lines: list[int] | None = None,
    ) -> RawRows:
        """Rows by their roles; ``cells`` gives a column of them."""

        def texts(column: int | None) -> list[str]:
            return [] if column is None else list(map(self.text_of, cells(column)))

        roles = self.roles
        details: list[dict[str, str]] = [{} for _ in rows]
        for column in roles.details:
            name = self.column_name(column)
            for detail, text in zip(details, texts(column), strict=True):
                if text.strip():
                    detail[name] = text
        for name, role in (("path", roles.picture), ("text", roles.text)):
            for detail, text in zip(details, texts(role), strict=False):
                if text.strip():
                    detail[name] = text.strip()
        return RawRows(
            rows,
            [f"{self.path.stem}:{row}" for row in rows] if roles.id is None else [id.strip() for id in texts(roles.id)],
            X,
            [label.strip() or None for label in texts(roles.label)],
            [] if roles.keywords is None else list(map(self._words, cells(roles.keywords))),
            details,
            refused,
            lines,
        )

    def _words(self, cell: Any) -> list[str] | None:
        """The keywords of a cell, a text or a list, each once; None where it is missing."""
        if isinstance(cell, list):
            words = (self.text_of(word).strip() for word in cell)
            return list(dict.fromkeys(word for word in words if word))
        return split_keywords(self.text_of(cell), self.separator) if isinstance(cell, str | bytes) else None


class TextSource(TextTable, TableReader):  # type: ignore[misc]  # columns are properties here
    """The rows of a table of text."""

    def __init__(self, path: Path, choices: ColumnChoices) -> None:
        super().__init__(path, choices)
        header = "no line names the columns: they go by number"
        if self.names is not None:
            header = "the first line names the columns" + ", but for the row names" * self.has_row_names
        self.chosen = [header, *self.roles.chosen]
        self.n_rows = self.count_rows()
        keywords = self.roles.keywords
        self.separator = None if keywords is None else separator_of([cells[keywords] for cells in self.sample])

    def __iter__(self) -> Iterator[RawRows]:
        records = enumerate(self.records())
        while block := list(islice(records, ROWS_AT_ONCE)):
            yield self._raw_rows(block)

    def _raw_rows(self, block: list[tuple[int, Record]]) -> RawRows:
        refused: dict[int, str] = {}
        X = np.zeros((len(block), len(self.roles.features)))
        for place, (_, (_, cells, fault, _)) in enumerate(block):
            if cells is None:
                refused[place] = fault
                continue
            try:
                X[place] = numbers_of(cells, self.roles.features, self.names)
            except InputError as error:
                refused[place] = str(error).rstrip(".")
        table = [[""] * self.width if cells is None else cells for _, (_, cells, *_) in block]
        lines = [line for _, (line, *_) in block]
        return self.raw_rows([row for row, _ in block], X, lambda c: [cells[c] for cells in table], refused, lines)


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


class ParquetSource(ParquetTable, TableReader):  # type: ignore[misc]
    """The rows of a parquet file."""

    def __init__(self, path: Path, choices: ColumnChoices) -> None:
        super().__init__(path, choices)
        if not self.n_rows or self.first is None:
            raise InputError(f"{path.name} has no rows.")
        self.chosen = self.roles.chosen
        keywords, text = self.roles.keywords, self.roles.text
        if text is not None and self.is_list[text]:
            raise InputError(f"{path.name}: column {self.names[text]!r} holds lists, and a text is a string.")
        if keywords is not None and not self.is_list[keywords]:
            self.separator = separator_of(list(map(self.text_of, self.first.column(keywords).to_pylist())))

    def __iter__(self) -> Iterator[RawRows]:
        start = 0
        for batch in self.batches():
            with self.reading():
                raw = self._raw_rows(batch, start)
            yield raw
            start += batch.num_rows

    def _raw_rows(self, batch: Any, start: int) -> RawRows:
        refused: dict[int, str] = {}
        blocks = [self.block(batch.column(column), column, refused) for column in self.roles.features]
        X = np.hstack(blocks) if blocks else np.zeros((batch.num_rows, 0))
        X = X if X.dtype == np.float32 else X.astype(np.float64)
        rows = list(range(start, start + batch.num_rows))
        return self.raw_rows(rows, X, lambda column: batch.column(column).to_pylist(), refused)


class LanceSource(ParquetSource):
    """The rows of a Lance data set, at its newest version."""

    format = "a Lance data set"

    def _open(self) -> tuple[Any, int, Callable[[], Iterator[Any]]]:
        data = newest_version(str(self.path))
        return data.schema, data.count_rows(), lambda: iter(data.to_batches(batch_size=ROWS_AT_ONCE))


class ArraySource(Reader):
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
        rows, stem, text_of = self._rows, self.path.stem, TableReader.text_of
        for block in row_blocks(self.n_rows, size=ROWS_AT_ONCE):
            numbers = list(range(self.n_rows)[block])
            ids = [f"{stem}:{row}" for row in numbers] if rows.ids is None else map(text_of, rows.ids[block].tolist())
            labels = [None] * len(numbers) if rows.y is None else map(text_of, rows.y[block].tolist())
            yield RawRows(
                numbers,
                list(ids),
                rows.X[block],
                [None if label is None else label.strip() or None for label in labels],
                [] if self._keywords is None else list(self._keywords[block]),
            )
