"""Rows of numbers from Arrow tables: choice of columns, their widths, and missing numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nearsay.errors import InputError, closest, require

REMEDY = "Fill in or drop such rows first."


def flat_schema(schema: Any) -> Any:
    """The schema with the fields of structs as columns: ``item.vector``."""
    return flat(schema.empty_table()).schema


def flat(table: Any) -> Any:
    """The table with the fields of structs as columns."""
    is_struct = require("pyarrow.types", "parquet").is_struct
    while any(is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def number_columns(source: str, schema: Any, names: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the columns of numbers: those given, or the only one of lists, or all single numbers."""
    lists = [one.name for one in schema if is_list(one.type) and number_type(one.type)]
    numbers = [one.name for one in schema if not is_list(one.type) and number_type(one.type)]
    if names is not None:
        unknown = [name for name in names if name not in [*lists, *numbers]]
        if unknown or not names:
            alike = closest(unknown[0], [*lists, *numbers]) if unknown else ""
            raise InputError(f"{source} has no column of numbers {unknown}{alike}. It has {[*lists, *numbers]}.")
        if len(names) > 1 and any(name in lists for name in names):
            raise InputError(f"Of {list(names)} one is a column of lists. Name it alone, or only single numbers.")
        return tuple(names)
    if len(lists) == 1:
        return (lists[0],)
    if lists or not numbers:
        problem = f"several columns of lists ({', '.join(lists)})" if lists else "no column of numbers"
        raise InputError(f"{source} has {problem}. Say by columns= which to take.")
    return tuple(numbers)


def common_type(schema: Any, columns: Sequence[str]) -> str:
    """The type that holds the numbers of all these columns."""
    return np.result_type(*(number_type(schema.field(name).type) for name in columns)).str


def width_of(source: str, schema: Any, columns: Sequence[str], first_row: Callable[[], Any]) -> int:
    """The number of columns of a row; ``first_row`` reads one row if the type of a list does not fix its length."""
    kind = plain(schema.field(columns[0]).type)
    if not is_list(kind):
        return len(columns)
    if require("pyarrow.types", "parquet").is_fixed_size_list(kind):
        return int(kind.list_size)
    first = flat(first_row()).column(columns[0])[0].as_py()
    if first is None:
        raise InputError(f"{source}, row 0: {columns[0]!r} has no value. {REMEDY}")
    return len(first)


def is_list(kind: Any) -> bool:
    """Whether each cell of a column of this type holds several values."""
    types, kind = require("pyarrow.types", "parquet"), plain(kind)
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def number_type(kind: Any) -> np.dtype | None:
    """The type of the numbers of a column; None where it holds none."""
    types, kind = require("pyarrow.types", "parquet"), plain(kind)
    inner = kind.value_type if is_list(kind) else kind
    return np.dtype(inner.to_pandas_dtype()) if types.is_integer(inner) or types.is_floating(inner) else None


def plain(kind: Any) -> Any:
    """The storage type: a tensor is a list, for example."""
    return getattr(kind, "storage_type", kind)


def as_rows(table: Any, columns: Sequence[str], n_columns: int, dtype: str, where: Callable[[int], str]) -> np.ndarray:
    """The numbers of a table, read-only; ``where`` describes the position of a row, for errors."""
    table = flat(table)
    rows = np.empty((table.num_rows, n_columns), dtype)
    for place, name in enumerate(columns):
        at = 0
        for chunk in table.column(name).chunks:
            try:
                numbers = _numbers(getattr(chunk, "storage", chunk), name, n_columns)
            except _BadRow as bad:
                raise InputError(f"{where(at + bad.row)}: {bad.reason}. {REMEDY}") from None
            rows[at : at + len(chunk), slice(None) if numbers.ndim == 2 else place] = numbers
            at += len(chunk)
    rows.flags.writeable = False
    return rows


class _BadRow(Exception):
    """The row of a chunk that cannot be used, and why."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row, self.reason = row, reason


def _numbers(chunk: Any, name: str, n_columns: int) -> np.ndarray:
    """A column of numbers as a vector, a column of lists as a matrix."""
    if chunk.null_count:
        raise _BadRow(_first_null(chunk), f"{name!r} has no value")
    if not is_list(chunk.type):
        return chunk.to_numpy(zero_copy_only=False)
    lengths = require("pyarrow.compute", "parquet").list_value_length(chunk).to_numpy(zero_copy_only=False)
    others = np.flatnonzero(lengths != n_columns)
    if len(others):
        raise _BadRow(int(others[0]), f"{name!r} has {lengths[others[0]]} numbers, but {n_columns} elsewhere")
    values = chunk.flatten()
    if values.null_count:
        row, column = divmod(_first_null(values), n_columns)
        raise _BadRow(row, f"number {column} of {name!r} is missing")
    return values.to_numpy(zero_copy_only=False).reshape(-1, n_columns)


def _first_null(array: Any) -> int:
    return int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
