"""Parquet tables: one reader, used batch by batch, or as a whole by ``read_parquet``.

A column of lists of numbers stands for several columns; one of lists of words holds keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from nearsay.data.rows import LabeledRows
from nearsay.data.tables.columns import (
    Column,
    ColumnChoices,
    choose_roles,
    column_names,
    groups_of,
    id_and_label_columns,
    spelled_names,
)
from nearsay.errors import InputError, NearsayError, SavedFileError, require

ROWS_AT_ONCE, BYTES_AT_ONCE = 4096, 1 << 16


class ParquetTable:
    """The columns of a parquet file and their roles.

    names, roles : of all columns
    first : the first rows, as a record batch; None without rows
    is_list : whether each column holds lists
    """

    format = "parquet"

    def __init__(self, path: Path, choices: ColumnChoices, *, strict: bool = False) -> None:
        self.path = path
        types: Any = require("pyarrow.types", "parquet")
        with self.reading():
            schema, self.n_rows, self._batches = self._open()
            self.first = next(self._batches(), None)
        fields = list(schema)
        self.names = [field.name for field in fields]
        if len(set(self.names)) < len(self.names):
            raise InputError(
                f"{path.name} has two columns of the same name. Its columns: {', '.join(self.names[:20])}."
            )
        self.is_list = [
            types.is_list(field.type) or types.is_large_list(field.type) or types.is_fixed_size_list(field.type)
            for field in fields
        ]
        kinds = [
            field.type.value_type if lists else field.type for field, lists in zip(fields, self.is_list, strict=True)
        ]
        of_numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
        is_text = [not any(matches(kind) for matches in of_numbers) for kind in kinds]
        choices = choices.for_table(self.names, len(self.names))
        dates = [column for column, kind in enumerate(kinds) if types.is_temporal(kind)]
        self.roles = choose_roles(self.names, is_text, choices, path.name, dates=dates, strict=strict)
        self._widths = {column: self._width(column) for column in self.roles.features}

    def _open(self) -> tuple[Any, int, Callable[[], Iterator[Any]]]:
        """The schema, the number of rows, and what gives them as record batches."""
        parquet = require("pyarrow.parquet", "parquet")
        # Read as it is needed: a row group that waits in memory as it is on disk would count twice.
        self._file = parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=BYTES_AT_ONCE)
        batches = partial(self._file.iter_batches, batch_size=ROWS_AT_ONCE)
        return self._file.schema_arrow, int(self._file.metadata.num_rows), batches

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of pyarrow into SavedFileError."""
        try:
            yield
        except NearsayError:
            raise
        except Exception as error:  # pyarrow has errors of many kinds, not all of one family
            why = " ".join(str(error).split()).rstrip(". ")
            raise SavedFileError(
                f"{self.path.name} cannot be read as {self.format}: {why}. Copy or write it again."
            ) from error

    def _width(self, column: int) -> int:
        """How many numbers most lists of a column hold."""
        if not self.is_list[column]:
            return 1
        values = [] if self.first is None else self.first.column(column).to_pylist()
        lengths = [len(numbers) for numbers in values if numbers is not None]
        return max(set(lengths), key=lengths.count) if lengths else 0

    @property
    def columns(self) -> list[str]:
        """Names of the feature columns."""
        spelled = (spelled_names(self.names[column], width) for column, width in self._widths.items())
        return list(chain.from_iterable(spelled))

    @property
    def feature_groups(self) -> dict[str, slice]:
        """The groups that the names spell out; none where they contradict each other."""
        with suppress(InputError):
            return groups_of(self.columns, self.path.name)
        return {}

    def batches(self) -> Iterator[Any]:
        """The rows as record batches."""
        batches = self._batches()
        while True:
            with self.reading():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def whole_column(self, column: int) -> Any:
        """All values of a column, as an arrow array."""
        with self.reading():
            values = self._file.read(columns=[self.names[column]]).column(0).combine_chunks()
        if len(values) != self.n_rows:
            raise SavedFileError(
                f"{self.path.name} is damaged: its columns are not equally long. Copy or write it again."
            )
        return values

    def block(self, values: Any, column: int, refused: dict[int, str]) -> np.ndarray:
        """(n, width) numbers of a feature column, NaN where one is missing; lists of another length are refused."""
        if not self.is_list[column]:
            return _numbers(values)[:, None]
        width = self._widths[column]
        lengths = np.asarray(values.value_lengths().fill_null(-1))
        flat = _numbers(values.flatten())
        if (lengths == width).all():
            return flat.reshape(len(values), width)
        for place in np.flatnonzero(lengths != width).tolist():
            given = "nothing" if lengths[place] < 0 else f"{lengths[place]} numbers"
            reason = f"column {self.names[column]!r} holds {given}; most rows have {width} numbers"
            refused.setdefault(place, reason)
        block = np.zeros((len(values), width), flat.dtype)
        stops = np.cumsum(np.maximum(lengths, 0))
        for place in np.flatnonzero(lengths == width).tolist():
            block[place] = flat[stops[place] - width : stops[place]]
        return block


def _numbers(values: Any) -> np.ndarray:
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    return numbers if numbers.dtype.kind in "fiub" else values.cast("float64").to_numpy(zero_copy_only=False)


def read_parquet(
    path: Path, label: Column | None, id: Column | None, groups: Mapping[str, slice] | None
) -> LabeledRows:
    """Rows of a parquet file, with the types of its numbers; a column of equally long lists is a feature group."""
    table = ParquetTable(path, ColumnChoices(label, id=id), strict=True)
    refused: dict[int, str] = {}
    with table.reading():
        blocks = [table.block(table.whole_column(column), column, refused) for column in table.roles.features]
        y, ids = (
            None if column is None else table.whole_column(column).to_numpy(zero_copy_only=False)
            for column in (table.roles.label, table.roles.id)
        )
    if refused:
        row, reason = min(refused.items())
        raise InputError(f"{path.name}, row {row}: {reason}.")
    X = np.empty((table.n_rows, sum(block.shape[1] for block in blocks)), np.result_type(*blocks))
    stop = X.shape[1]
    while blocks:  # free what was copied, so that the numbers are never in memory twice
        block = blocks.pop()
        X[:, stop - block.shape[1] : stop] = block
        stop -= block.shape[1]
    return LabeledRows(X, y, groups_of(table.columns, path.name) if groups is None else groups, ids, path.stem)


def write_parquet(rows: LabeledRows, out: IO[bytes]) -> None:
    """Write one column per feature, with the names that ``read_parquet`` takes groups from."""
    parquet = require("pyarrow.parquet", "parquet")
    pyarrow = require("pyarrow", "parquet")
    columns = {**id_and_label_columns(rows), **dict(zip(column_names(rows), rows.X.T, strict=True))}
    # Parquet has one byte order only.
    native = {name: np.ascontiguousarray(values, values.dtype.newbyteorder("=")) for name, values in columns.items()}
    try:
        # pyarrow cuts the texts of an array at zero bytes.
        arrays = {name: pyarrow.array(v.tolist() if v.dtype.kind == "U" else v) for name, v in native.items()}
    except NotImplementedError as error:
        types = ", ".join(sorted({str(values.dtype) for values in native.values()}))
        raise InputError(
            f"A parquet file cannot hold all of these types: {types} ({error})."
            " Convert X to float64 first, or write .npz."
        ) from error
    parquet.write_table(pyarrow.table(arrays), out)
