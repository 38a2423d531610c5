"""What a file of rows holds, told from its header, and some of its rows: ``.npy`` mapped, Parquet read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nearsay.errors import InputError, StorageError, require

NPY, PARQUET = ".npy", ".parquet"


@dataclass(frozen=True)
class FoundFile:
    """What the header of a file says.

    Attributes
    ----------
    group_rows : how many rows each row group of a Parquet file has; None of ``.npy``.
    columns : the names of the columns that hold the numbers; None of ``.npy``.
    """

    path: Path
    n_rows: int
    n_columns: int
    dtype: str
    group_rows: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None


class Part(Protocol):
    """Some rows of a file: a ``Shard``."""

    @property
    def file(self) -> str: ...
    @property
    def skipped(self) -> int: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...] | None: ...


def file_kind(path: Path) -> str | None:
    """The ending of a file whose rows can be read; None of any other."""
    return path.suffix if path.suffix in (NPY, PARQUET) else None


def look_at(path: Path, columns: Sequence[str] | None) -> FoundFile:
    """Read the header of a file."""
    kind = file_kind(path)
    if kind is None:
        raise InputError(f"{path} is neither {NPY} nor {PARQUET}. Write the rows as one of these.")
    if not path.exists():
        raise InputError(f"There is no file {path}.")
    return _npy_header(path)[0] if kind == NPY else _parquet_header(path, columns)


def open_part(part: Part, n_rows: int) -> np.ndarray:
    """So many rows of a file: a read-only map of ``.npy``, a row group of Parquet."""
    path = Path(part.file)
    if part.columns is not None:
        return _read_group(path, part, n_rows)
    found, offset = _npy_header(path)
    if (found.n_columns, found.dtype) != (part.n_columns, part.dtype) or part.skipped + n_rows > found.n_rows:
        raise StorageError(
            f"{path} has {found.n_rows} × {found.n_columns} numbers of {found.dtype}, but {part.n_columns} columns of"
            f" {part.dtype} are expected. Open the rows anew."
        )
    width = part.n_columns * np.dtype(part.dtype).itemsize
    return np.memmap(path, part.dtype, "r", offset + part.skipped * width, (n_rows, part.n_columns))


def _npy_header(path: Path) -> tuple[FoundFile, int]:
    """What the header says, and where the rows start."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_column, dtype = read(file)
            offset = file.tell()
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not an {NPY} file that can be read ({error}).") from error
    if len(shape) != 2 or by_column or dtype.kind not in "fiub":
        told = f"{len(shape)} dimensions" if len(shape) != 2 else f"{dtype} {'by columns' if by_column else ''}"
        raise InputError(f"{path} must hold rows × columns of numbers, row by row; got {told.strip()}.")
    return FoundFile(path, shape[0], shape[1], dtype.str), offset


def _parquet_header(path: Path, columns: Sequence[str] | None) -> FoundFile:
    parquet = require("pyarrow.parquet", "parquet")
    try:
        file = parquet.ParquetFile(path)
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(f"{path} is not a Parquet file that can be read ({error}).") from error
    with file:
        chosen = _columns(path, file.schema_arrow, columns)
        groups = tuple(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
        kinds = {_number_type(file.schema_arrow.field(name).type) for name in chosen}
        dtype = np.result_type(*kinds).str
        width = len(chosen)
        if _is_list(file.schema_arrow.field(chosen[0]).type):
            width = _list_width(path, file, chosen[0])
    return FoundFile(path, sum(groups), width, dtype, groups, chosen)


def _columns(path: Path, schema: Any, asked: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the columns that hold the numbers."""
    lists = [one.name for one in schema if _is_list(one.type) and _number_type(one.type)]
    numbers = [one.name for one in schema if not _is_list(one.type) and _number_type(one.type)]
    if asked is not None:
        unknown = [name for name in asked if name not in [*lists, *numbers]]
        if unknown or not asked:
            raise InputError(f"{path} has no column of numbers {unknown}. It has {[*lists, *numbers]}.")
        if len(asked) > 1 and any(name in lists for name in asked):
            raise InputError(f"Of {list(asked)} one is a column of lists. Name it alone, or only single numbers.")
        return tuple(asked)
    if len(lists) == 1:
        return (lists[0],)
    if lists or not numbers:
        told = f"several columns of lists ({', '.join(lists)})" if lists else "no column of numbers"
        raise InputError(f"{path} has {told}. Say by columns= which to take.")
    return tuple(numbers)


def _is_list(kind: Any) -> bool:
    types = require("pyarrow.types", "parquet")
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def _number_type(kind: Any) -> np.dtype | None:
    """The type of the numbers of a column; None where it holds none."""
    types = require("pyarrow.types", "parquet")
    inner = kind.value_type if _is_list(kind) else kind
    return np.dtype(inner.to_pandas_dtype()) if types.is_integer(inner) or types.is_floating(inner) else None


def _list_width(path: Path, file: Any, column: str) -> int:
    """How many numbers the lists of a column have."""
    kind = file.schema_arrow.field(column).type
    if require("pyarrow.types", "parquet").is_fixed_size_list(kind):
        return int(kind.list_size)
    first = next(file.iter_batches(batch_size=1, columns=[column]), None)
    if first is None:
        raise InputError(f"{path} has no rows, so that the width of its lists is not known.")
    return len(first.column(0)[0].as_py())


def _read_group(path: Path, part: Part, n_rows: int) -> np.ndarray:
    """The rows of one row group."""
    parquet = require("pyarrow.parquet", "parquet")
    columns = list(part.columns or ())
    with parquet.ParquetFile(path) as file:
        table = file.read_row_group(part.skipped, columns=columns).combine_chunks()
    expected = (n_rows, part.n_columns)
    missing = sum(table.column(name).null_count for name in columns)
    rows = np.empty(expected, part.dtype)
    if _is_list(table.schema.field(columns[0]).type):
        flat = table.column(0).combine_chunks().flatten().to_numpy(zero_copy_only=False)
        missing += len(flat) != rows.size
        if not missing:
            rows[:] = flat.reshape(expected)
    elif not missing:
        for place, name in enumerate(columns):
            rows[:, place] = table.column(name).to_numpy()
    if missing:
        raise InputError(
            f"{path}, row group {part.skipped}, must hold {n_rows} × {part.n_columns} numbers in"
            f" {', '.join(columns)}, and has gaps or lists of other lengths. Fill in or drop such rows first."
        )
    rows.flags.writeable = False
    return rows
