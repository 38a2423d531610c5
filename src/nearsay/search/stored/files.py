"""Files of rows: reads their headers, and some of their rows (``.npy`` mapped, Parquet and Lance read)."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from nearsay.core.arrays import READING_A_HEADER
from nearsay.errors import InputError, StorageError, require
from nearsay.search.stored import arrow_rows
from nearsay.search.stored.lance import read_fragment
from nearsay.search.stored.places import is_url, open_file, read_bytes, stamp_of

NPY, PARQUET = ".npy", ".parquet"
# The header of an .npy file is about 128 bytes; so many are read of one that is not on a disk.
HEADER_BYTES = 4096


@dataclass(frozen=True)
class FileHeader:
    """The header of a file.

    Attributes
    ----------
    n_columns : of every row; None where a file without rows cannot tell.
    group_rows : how many rows each row group of a Parquet file has; None of ``.npy``.
    columns : the names of the columns that hold the numbers; None of ``.npy``.
    """

    path: str
    n_rows: int
    n_columns: int | None
    dtype: str
    group_rows: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None


def file_kind(path: str) -> str | None:
    """The ending of a file whose rows can be read; None of any other."""
    return next((kind for kind in (NPY, PARQUET) if path.endswith(kind)), None)


def read_header(path: str, columns: Sequence[str] | None) -> FileHeader:
    """Read the header of a file."""
    try:
        stamp_of(path)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    kind = file_kind(path)
    if kind is None:
        raise InputError(f"{path} is neither {NPY} nor {PARQUET}. Write the rows as one of these.")
    return _npy_header(path)[0] if kind == NPY else _parquet_header(path, columns)


def open_part(part: Any, n_rows: int) -> np.ndarray:
    """So many rows of the file of a ``Shard``: a read-only map of ``.npy`` on a disk, otherwise what was read."""
    if part.fragment is not None:
        return read_fragment(part, n_rows)
    if part.columns is not None:
        return _read_groups(part, n_rows)
    path = part.file
    header, offset = _npy_header(path)
    if (header.n_columns, header.dtype) != (part.n_columns, part.dtype) or part.skipped + n_rows > header.n_rows:
        raise StorageError(
            f"{path} has {header.n_rows} × {header.n_columns} numbers of {header.dtype}, but {part.n_columns} columns"
            f" of {part.dtype} are expected. Open the rows anew."
        )
    width, shape = part.n_columns * np.dtype(part.dtype).itemsize, (n_rows, part.n_columns)
    start = offset + part.skipped * width
    if is_url(path):
        return np.frombuffer(read_bytes(path, start, n_rows * width), part.dtype).reshape(shape)
    return np.memmap(path, part.dtype, "r", start, shape)


def _npy_header(path: str) -> tuple[FileHeader, int]:
    """The header, and where the rows start."""
    try:
        with io.BytesIO(read_bytes(path, 0, HEADER_BYTES)) if is_url(path) else open_file(path) as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            with READING_A_HEADER:
                shape, by_column, dtype = read(file)
            offset = file.tell()
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not an {NPY} file that can be read ({error}).") from error
    if len(shape) != 2 or by_column or dtype.kind not in "fiub":
        got = f"{len(shape)} dimensions" if len(shape) != 2 else f"{dtype} {'by columns' if by_column else ''}"
        raise InputError(f"{path} must hold rows × columns of numbers, row by row; got {got.strip()}.")
    return FileHeader(path, shape[0], shape[1], dtype.str), offset


def _parquet_file(path: str) -> Any:
    parquet = require("pyarrow.parquet", "parquet")
    return parquet.ParquetFile(open_file(path) if is_url(path) else path)


def _parquet_header(path: str, columns: Sequence[str] | None) -> FileHeader:
    try:
        file = _parquet_file(path)
    except Exception as error:  # pyarrow raises many kinds
        raise InputError(f"{path} is not a Parquet file that can be read ({error}).") from error
    with file:
        schema = arrow_rows.flat_schema(file.schema_arrow)
        chosen = arrow_rows.number_columns(path, schema, columns)
        groups = tuple(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
        width = None
        if sum(groups):
            width = arrow_rows.width_of(path, schema, chosen, lambda: _first_row(file, chosen[0]))
    return FileHeader(path, sum(groups), width, arrow_rows.common_type(schema, chosen), groups, chosen)


def _first_row(file: Any, column: str) -> Any:
    batch = next(file.iter_batches(batch_size=1, columns=[column]))
    return require("pyarrow", "parquet").Table.from_batches([batch])


def _read_groups(part: Any, n_rows: int) -> np.ndarray:
    """The rows of some row groups that follow each other."""
    columns, groups = list(part.columns or ()), range(part.skipped, part.skipped + part.n_groups)
    with _parquet_file(part.file) as file:
        held = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        if sum(held[groups.start : groups.stop]) != n_rows:
            raise StorageError(f"{part.file} has other row groups than when the rows were opened. Open them anew.")
        table = file.read_row_groups(list(groups), columns=columns)
    return arrow_rows.as_rows(table, columns, part.n_columns, part.dtype, _row_of(part.file, held, groups.start))


def _row_of(path: str, held: list[int], group: int) -> Callable[[int], str]:
    """Describes the position of a row that was read with others from some row group on."""
    before = sum(held[:group])
    ends = list(accumulate(held))

    def place(row: int) -> str:
        number = before + row
        in_group = next(place for place, end in enumerate(ends) if number < end)
        return f"{path}, row {number} (row group {in_group})"

    return place
