"""Rows of arrays (npz, npy) and of parquet tables, a block at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.batches import RawRows
from nearsay.collection.ingest.columns import KEYWORD_NAMES, ColumnChoices, choose_roles, separator_of, split_keywords
from nearsay.collection.ingest.text_source import ROWS_AT_ONCE
from nearsay.core.arrays import row_blocks
from nearsay.data.files import read_rows
from nearsay.data.keywords import Keywords
from nearsay.data.tables import groups_of
from nearsay.errors import InputError, SavedFileError, require


class ArraySource:
    """The rows of an npz or npy file."""

    def __init__(self, path: Path, asked: ColumnChoices) -> None:
        self.path = path
        packed = path.suffix.lower() == ".npz"
        asked = asked.of(_arrays_of(path) if packed else [], 0)
        self._rows = read_rows(path, label=asked.label, id=asked.id)
        if not self._rows.X.shape[1]:
            raise InputError(
                f"{path.name} holds rows of no numbers: shape {self._rows.X.shape}. Items need at least one."
            )
        self.n_rows = len(self._rows)
        self.feature_groups = self._rows.feature_groups
        self.columns = [str(column) for column in range(self._rows.X.shape[1])]
        if not packed and asked.keywords is not None:
            raise InputError(
                f"{path.name} holds one array, and no keywords. Use an .npz file, or a table of labels beside."
            )
        self._keywords, name = self._read_keywords(asked.keywords) if packed else (None, "")
        self.chosen = [
            f"X has {self.n_rows} rows of {len(self.columns)} numbers ({self._rows.X.dtype})",
            "there are no labels" if self._rows.y is None else "the labels are those stored beside X",
            *([f"the keywords are the array {name!r}"] if name else []),
        ]

    def _read_keywords(self, asked: Any) -> tuple[list[list[str]] | None, str]:
        with np.load(self.path, allow_pickle=False) as stored:
            if asked is not None and asked not in stored.files:
                raise InputError(
                    f"{self.path.name} holds no array {asked!r}. It holds {', '.join(sorted(stored.files))}."
                )
            name = next((name for name in ((asked,) if asked else KEYWORD_NAMES[:3]) if name in stored.files), None)
            if name is None:
                return None, ""
            array = stored[name]
            words = stored["words"] if "words" in stored.files and name != "words" else None
        if len(array) != self.n_rows:
            raise InputError(f"{self.path.name}: {name!r} holds {len(array)} items, X {self.n_rows} rows.")
        if array.ndim == 2:
            table = Keywords.of(array)
            lists = (table if words is None else table.with_words(words.tolist())).lists()
            return [[str(word) for word in words] for words in lists], name
        cells = [str(cell) for cell in array.tolist()]
        separator = separator_of(cells)
        return [split_keywords(cell, separator) for cell in cells], name

    def __iter__(self) -> Iterator[RawRows]:
        rows, stem = self._rows, self.path.stem
        for block in row_blocks(self.n_rows, size=ROWS_AT_ONCE):
            numbers = list(range(self.n_rows)[block])
            n = len(numbers)
            yield RawRows(
                numbers,
                [f"{stem}:{row}" for row in numbers] if rows.ids is None else _texts(rows.ids[block]),
                rows.X[block],
                [None] * n if rows.y is None else [label.strip() or None for label in _texts(rows.y[block])],
                [None] * n if self._keywords is None else list(self._keywords[block]),
                [{} for _ in numbers],
            )


def _arrays_of(path: Path) -> list[str]:
    """Names of the arrays of an npz file; none where it is damaged, which reading it tells."""
    try:
        with zipfile.ZipFile(path) as packed:
            return [name.removesuffix(".npy") for name in packed.namelist()]
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        return []


def _texts(values: np.ndarray) -> list[str]:
    return [str(value) for value in values.tolist()]


class ParquetSource:
    """The rows of a parquet file. A column of lists of numbers is many columns; one of lists of words, keywords."""

    def __init__(self, path: Path, asked: ColumnChoices) -> None:
        self.path = path
        parquet = require("pyarrow.parquet", "parquet")
        types: Any = require("pyarrow.types", "parquet")
        try:
            self._file = parquet.ParquetFile(path)
            fields = list(self._file.schema_arrow)
            first = next(self._file.iter_batches(batch_size=ROWS_AT_ONCE), None)
        except Exception as error:  # pyarrow has errors of many kinds, not all of one family
            raise SavedFileError(f"{path.name} cannot be read as parquet: {error}. Copy or write it again.") from error
        if first is None or first.num_rows == 0:
            raise InputError(f"{path.name} has no rows.")
        self.n_rows = int(self._file.metadata.num_rows)
        self.names = [field.name for field in fields]
        if len(set(self.names)) < len(self.names):
            raise InputError(
                f"{path.name} has two columns of the same name. Its columns: {', '.join(self.names[:20])}."
            )
        self._is_list = [_is_list(field.type, types) for field in fields]
        held = [
            field.type.value_type if listed else field.type for field, listed in zip(fields, self._is_list, strict=True)
        ]
        is_number = [types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) for kind in held]
        asked = asked.of(self.names, len(self.names))
        self.roles = choose_roles(self.names, [not number for number in is_number], asked, path.name)
        self.chosen = list(self.roles.chosen)
        self._widths = {column: self._width(first.column(column), column) for column in self.roles.features}
        spelled = (
            [name] if width == 1 else [f"{name}[{n}]" for n in range(width)] for name, width in self._named_widths()
        )
        self.columns = [name for names in spelled for name in names]
        keywords = self.roles.keywords
        self._separator = None
        if keywords is not None and not self._is_list[keywords]:
            self._separator = separator_of([str(cell) for cell in first.column(keywords).to_pylist() if cell])

    @property
    def feature_groups(self) -> dict[str, slice]:
        """Columns that belong together; none where their names do not follow on from each other."""
        with suppress(InputError):
            return groups_of(self.columns, self.path.name)
        return {}

    def _named_widths(self) -> list[tuple[str, int]]:
        return [(self.names[column], width) for column, width in self._widths.items()]

    def _width(self, values: Any, column: int) -> int:
        """How many numbers most lists of a column hold."""
        if not self._is_list[column]:
            return 1
        lengths = [len(numbers) for numbers in values.to_pylist() if numbers is not None]
        return max(set(lengths), key=lengths.count) if lengths else 0

    def __iter__(self) -> Iterator[RawRows]:
        start = 0
        for batch in self._file.iter_batches(batch_size=ROWS_AT_ONCE):
            yield self._raw_rows(batch, start)
            start += batch.num_rows

    def _raw_rows(self, batch: Any, start: int) -> RawRows:
        roles, n = self.roles, batch.num_rows
        refused: dict[int, str] = {}
        blocks = [self._block(batch.column(column), column, refused) for column in roles.features]
        rows = list(range(start, start + n))
        ids = [f"{self.path.stem}:{row}" for row in rows] if roles.id is None else self._cells(batch, roles.id)
        details: list[dict[str, str]] = [{} for _ in rows]
        known = {self.names[column]: column for column in roles.details}
        if roles.picture is not None:
            known["path"] = roles.picture
        for name, column in known.items():
            for detail, cell in zip(details, self._cells(batch, column), strict=True):
                if cell:
                    detail[name] = cell
        return RawRows(
            rows,
            [id.strip() for id in ids],
            np.hstack(blocks) if blocks else np.zeros((n, 0)),
            [None] * n if roles.label is None else [cell.strip() or None for cell in self._cells(batch, roles.label)],
            self._keywords(batch),
            details,
            refused,
        )

    def _cells(self, batch: Any, column: int) -> list[str]:
        return ["" if value is None else str(value) for value in batch.column(column).to_pylist()]

    def _keywords(self, batch: Any) -> list[list[str] | None]:
        column = self.roles.keywords
        if column is None:
            return [None] * batch.num_rows
        if self._is_list[column]:
            cells = batch.column(column).to_pylist()
            return [None if cell is None else _words(cell) for cell in cells]
        return [split_keywords(cell, self._separator) for cell in self._cells(batch, column)]

    def _block(self, values: Any, column: int, refused: dict[int, str]) -> np.ndarray:
        """The numbers of a column, NaN where there are none; lists of another length are refused."""
        width, name = self._widths[column], self.names[column]
        if not self._is_list[column]:
            numbers: np.ndarray = values.cast("float64").to_numpy(zero_copy_only=False)[:, None]
            return numbers
        lengths = np.asarray(values.value_lengths().fill_null(-1))
        for place in np.flatnonzero(lengths != width).tolist():
            given = "nothing" if lengths[place] < 0 else f"{lengths[place]} numbers"
            refused.setdefault(place, f"column {name!r} holds {given}; most rows have {width} numbers")
        block = np.zeros((len(values), width))
        flat = values.flatten().cast("float64").to_numpy(zero_copy_only=False)
        if (lengths == width).all():
            block[:] = flat.reshape(block.shape)
            return block
        stops = np.cumsum(np.maximum(lengths, 0))
        for place in np.flatnonzero(lengths == width).tolist():
            block[place] = flat[stops[place] - width : stops[place]]
        return block


def _words(cell: list[Any]) -> list[str]:
    """The words of a list, each once; what is missing or empty is none."""
    words = (str(word).strip() for word in cell if word is not None)
    return list(dict.fromkeys(word for word in words if word))


def _is_list(kind: Any, types: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
