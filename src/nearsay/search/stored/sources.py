"""Shards of a folder or list of files, of a snapshot of a collection, or of a Lance data set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nearsay.core.arrays import rows_within
from nearsay.errors import InputError, StorageError
from nearsay.search.stored.files import NPY, PARQUET, FileHeader, file_kind, read_header
from nearsay.search.stored.lance import LANCE, lance_fragments
from nearsay.search.stored.places import files_within, full_path, is_folder, is_url, open_file, relative_to, stamp_of
from nearsay.search.stored.shard import Shard, looked_up, written_on

SNAPSHOT, SNAPSHOT_FORMAT = "nearsay snapshot", 1


def shards_of_files(where: Any, columns: Sequence[str] | None, shard_bytes: int) -> list[Shard]:
    """The shards of a folder of files, or of those that were named, in order."""
    headers: list[FileHeader] = []
    for path in _files(where):
        # The columns chosen in the first file are read from the others.
        headers.append(read_header(path, headers[0].columns if headers and file_kind(path) == PARQUET else columns))
    name = full_path(where) if isinstance(where, str | os.PathLike) else f"{len(headers)} files"
    filled = [each for each in headers if each.n_rows]
    if not filled:
        raise InputError(f"{name} has no rows: every file is empty.")
    dtype = _common_type(filled)
    shards: list[Shard] = []
    for each in filled:
        shards += _cut(each, dtype, shards[-1].end if shards else 0, shard_bytes)
    return shards


def shards_of_lance(where: Any, columns: Sequence[str] | None, shard_bytes: int) -> list[Shard]:
    """The shards of a Lance data set, fragment by fragment."""
    shards: list[Shard] = []
    for header in lance_fragments(where, columns):
        fragment = (header.version, header.number)
        stamp, digest = looked_up(header.path, fragment)
        version = f"version {header.version} of {os.path.basename(header.path)}"
        for start, stop in _even_parts(header.n_rows, header.n_columns, header.dtype, shard_bytes):
            shards.append(
                Shard(
                    first=shards[-1].end if shards else 0, n_rows=stop - start, file=header.path, skipped=start,
                    n_columns=header.n_columns, dtype=header.dtype, size=stamp.size, digest=digest,
                    columns=header.columns, fragment=fragment, version=version,
                )
            )  # fmt: skip
    return shards


def shards_of_snapshot(path: str, shard_bytes: int) -> tuple[list[Shard], np.ndarray]:
    """The shards of a snapshot of a collection, and which of their rows are forgotten."""
    snapshot = _snapshot(path)
    version = f"the snapshot {os.path.basename(path)} after event {snapshot['event']}"
    shards: list[Shard] = []
    for each in snapshot["shards"]:
        if os.path.isabs(each["file"]) or is_url(each["file"]):
            raise InputError(
                f"The snapshot {path} names the shard {each['file']!r}, which is no relative path from where it lies."
            )
        file = relative_to(path, each["file"])
        try:
            stamp_of(file)
        except FileNotFoundError:
            raise StorageError(
                f"The shard {file} is missing, but {version} needs it. Copy the shards again, or read another snapshot."
            ) from None
        header = read_header(file, None)
        if (header.n_rows, header.n_columns) != (each["n_rows"], snapshot["n_columns"]):
            raise StorageError(
                f"The shard {file} has {header.n_rows} × {header.n_columns} numbers, but {each['n_rows']} ×"
                f" {snapshot['n_columns']} in {version}. Copy the shards again."
            )
        shards += _cut(header, header.dtype, each["first"], shard_bytes, sha256=each["sha256"], version=version)
    if not shards:
        raise InputError(f"The snapshot {path} has no rows.")
    return shards, np.array(snapshot["forgotten"], int)


def _snapshot(path: str) -> dict[str, Any]:
    """The content of a snapshot file."""
    try:
        with open_file(path) as file:
            snapshot: dict[str, Any] = json.loads(file.read().decode("utf-8"))
        known, newer = snapshot["kind"] == SNAPSHOT, snapshot["format"] > SNAPSHOT_FORMAT
    except FileNotFoundError:
        raise InputError(f"There is no snapshot {path}. LiveCollection.snapshot writes one.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a snapshot of a collection ({error!r}).") from error
    if not known or newer:
        raise InputError(
            f"{path} is {'a snapshot of a newer format' if known else 'not a snapshot of a collection'};"
            f" this version of nearsay reads snapshots up to format {SNAPSHOT_FORMAT}."
        )
    return snapshot


def _files(where: Any) -> list[str]:
    """The files of a folder, or those that were named."""
    if not isinstance(where, str | os.PathLike):
        files = [full_path(each) for each in where]
        if not files:
            raise InputError("No file was named. Pass a folder, a snapshot, or one or more .npy or Parquet files.")
        return files
    path = full_path(where)
    if not is_folder(path):
        return [path]
    files = [each for each in files_within(path) if file_kind(each)]
    kinds = {file_kind(each) for each in files}
    if not files or len(kinds) > 1:
        held = f"both {NPY} and {PARQUET} files" if files else f"no {NPY} or {PARQUET} file"
        raise InputError(
            f"The folder {path} has {held}. Name the files, in order, or another folder; a Lance data set by its name"
            f" that ends in {LANCE}."
        )
    return files


def _common_type(headers: Sequence[FileHeader]) -> str:
    """The type of all rows: that of every ``.npy``, which is mapped; one that holds the numbers of all tables."""
    first = headers[0]
    for each in headers:
        if each.n_columns != first.n_columns or (each.columns is None and each.dtype != first.dtype):
            raise InputError(
                f"{each.path} has {each.n_columns} columns of {each.dtype}, but {first.path} has {first.n_columns} of"
                f" {first.dtype}. All shards need the same columns of one type."
            )
    return np.result_type(*(np.dtype(each.dtype) for each in headers)).str if first.columns else first.dtype


def _cut(header: FileHeader, dtype: str, first: int, shard_bytes: int, **known: Any) -> Iterator[Shard]:
    """The shards of one file, whose rows are numbered from ``first``."""
    stamp, digest = looked_up(header.path, None)
    assert header.n_columns is not None
    of_file: dict[str, Any] = {
        "file": header.path, "n_columns": header.n_columns, "dtype": dtype, "columns": header.columns,
        "size": stamp.size, "digest": digest, "written": written_on(header.path, stamp, None), **known,
    }  # fmt: skip
    if header.group_rows is None:
        for start, stop in _even_parts(header.n_rows, header.n_columns, dtype, shard_bytes):
            yield Shard(first=first + start, n_rows=stop - start, skipped=start, **of_file)
        return
    most = rows_within(shard_bytes, header.n_columns * np.dtype(dtype).itemsize, most=header.n_rows)
    for group, n_groups, n_rows in _grouped(header.group_rows, most):
        yield Shard(first=first, n_rows=n_rows, skipped=group, n_groups=n_groups, **of_file)
        first += n_rows


def _even_parts(n_rows: int, n_columns: int, dtype: str, shard_bytes: int) -> list[tuple[int, int]]:
    """(start, stop) of parts of about one size that take no more than ``shard_bytes``."""
    most = rows_within(shard_bytes, n_columns * np.dtype(dtype).itemsize, most=max(1, n_rows))
    n_parts = -(-n_rows // most)
    return [(n_rows * part // n_parts, n_rows * (part + 1) // n_parts) for part in range(n_parts)]


def _grouped(group_rows: Sequence[int], most: int) -> Iterator[tuple[int, int, int]]:
    """(first row group, how many, their rows): groups that follow each other, as long as they have few rows together.

    A row group of Parquet cannot be read in part, so one of more than ``most`` rows is a shard all the same.

    >>> list(_grouped([3, 3, 0, 9, 1, 2], most=6))
    [(0, 3, 6), (3, 1, 9), (4, 2, 3)]
    """
    start, n_rows = 0, 0
    for number, more in enumerate(group_rows):
        if n_rows and n_rows + more > most:
            yield start, number - start, n_rows
            start, n_rows = number, 0
        n_rows += more
    if n_rows:
        yield start, len(group_rows) - start, n_rows
