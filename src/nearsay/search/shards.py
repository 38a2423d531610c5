"""Rows in files, larger than memory or on many machines, known by path and opened by whoever works on them.

    a folder or list of .npy ─┐
    a snapshot (.json) ───────┼─► ShardedRows: which rows lie where, and what tells that a file is the same
    Parquet files ────────────┘         │ a few hundred bytes a shard; no row is read, none is sent
                                        └─► Shard.opened(), where the work is done: a read-only memory map

A file of more than 64 MB is cut into several shards, each mapped by itself, so that a process holds one of them at a
time. What a file is known by (its size and a digest of pieces of it; of a snapshot, its checksum) travels with the
shard, and whoever opens another file under that name is told so, instead of getting a wrong answer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.arrays import rows_within
from nearsay.errors import InputError, StorageError
from nearsay.search.mapped_shards import RowMap
from nearsay.search.shard_files import NPY, PARQUET, FoundFile, file_kind, look_at, open_part

# Rows of one shard, in the bytes they take. So many, or fewer, are held in eight bits by exact search, and are put in
# the order of their classes without looking at the file again.
SHARD_BYTES = 64 << 20

SNAPSHOT, SNAPSHOT_FORMAT = "nearsay snapshot", 1
# A digest of so many pieces of a file, evenly spaced, tells nearly any two files apart and reads next to nothing.
PIECES, PIECE_BYTES = 64, 4096


@dataclass(frozen=True)
class Shard:
    """Some rows that lie together in a file.

    Attributes
    ----------
    first, n_rows : the number of its first row, and how many rows it has.
    file : the path of the file.
    skipped : how many rows of the file lie before it; of Parquet, the number of its row group.
    n_columns, dtype : of every row of the file.
    columns : the names of the columns that hold the numbers, of a Parquet file.
    size, digest : what the file is known by.
    sha256 : the checksum of the whole file, where its writer told it.
    version : which version of the rows it belongs to, in words.
    left_out : rows of the file that are not counted, by their place among those after ``skipped``.
    mapped : what is done to the rows when they are opened; None leaves them as they are.
    """

    first: int
    n_rows: int
    file: str
    skipped: int
    n_columns: int
    dtype: str
    size: int
    digest: str
    sha256: str | None = None
    columns: tuple[str, ...] | None = None
    version: str = ""
    left_out: tuple[int, ...] = ()
    mapped: RowMap | None = None

    @property
    def end(self) -> int:
        """The row behind its last one."""
        return self.first + self.n_rows

    @property
    def known_by(self) -> list[Any]:
        """All that tells its rows from others, wherever the file is."""
        told = [self.first, self.n_rows, self.skipped, self.n_columns, self.dtype, list(self.columns or ())]
        told += [self.size, self.digest, self.sha256, list(self.left_out)]
        return told if self.mapped is None else [*told, self.mapped.known_by]

    @property
    def nbytes(self) -> int:
        """The memory that its rows take, as they are opened."""
        opened = self if self.mapped is None else self.mapped
        return self.n_rows * opened.n_columns * np.dtype(opened.dtype).itemsize

    def opened(self, places: Any = None) -> np.ndarray:
        """The rows, or those at some places: a read-only memory map, or read from Parquet, or mapped.

        An error where the file is not what it was.
        """
        self.check()
        rows = open_part(self, self.n_rows + len(self.left_out))
        if self.left_out:
            rows = np.delete(rows, self.left_out, axis=0)
        if places is not None:
            rows = rows[places]
        return rows if self.mapped is None else self.mapped(rows)

    def check(self) -> None:
        """Refuse a file that is missing or has changed. One whose checksum is known is read once by each process."""
        remedy = f" Copy it again from where {self.version or 'the rows'} came from, or open the rows anew."
        try:
            status = os.stat(self.file)
        except FileNotFoundError:
            of = f" {self.version} needs it, so the copy on this machine is older." if self.version else ""
            raise StorageError(f"The shard {self.file} is missing on {_machine()}.{of}{remedy}") from None
        except OSError as error:
            raise StorageError(f"The shard {self.file} cannot be read on {_machine()}: {error.strerror}.") from error
        if status.st_size != self.size:
            raise StorageError(
                f"The shard {self.file} has {status.st_size:,} bytes on {_machine()}, but {self.size:,} when the rows"
                f" were opened.{remedy}"
            )
        known = _digest(self.file, status.st_size, status.st_mtime_ns)
        if known != self.digest or (self.sha256 and _checksum(self.file, status.st_mtime_ns) != self.sha256):
            raise StorageError(f"The shard {self.file} on {_machine()} is not the file it was.{remedy}")


@dataclass(frozen=True, eq=False)
class ShardedRows:
    """Rows in several files, numbered in order from 0.

    Attributes
    ----------
    name : where they were opened, for people.
    shards : tuple of Shard, first rows first.
    n_columns, dtype : of every row, as it is opened.
    removed : (n_removed,) int64
        Numbers of rows that must not be found, ascending.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> np.save(f"{folder}/part-0.npy", np.array([[0.0], [1.0]]))
    >>> np.save(f"{folder}/part-1.npy", np.array([[5.0]]))
    >>> rows = ShardedRows.open(folder)
    >>> len(rows), rows.take(np.array([2, 0])).tolist()
    (3, [[5.0], [0.0]])
    """

    name: str
    shards: tuple[Shard, ...]
    n_columns: int
    dtype: str
    removed: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        columns: Sequence[str] | None = None,
        shard_bytes: int = SHARD_BYTES,
    ) -> ShardedRows:
        """Look at the files, without reading their rows.

        Parameters
        ----------
        where : path or list of paths
            A folder of ``.npy`` or Parquet files, which are taken in order of their names; one such file, or several
            in the order given; or a snapshot of a collection, whose forgotten rows are ``removed``.
        columns : names, optional
            Which columns of Parquet hold the numbers: one column of lists, or columns of single numbers. By default
            the only column of lists, or all columns of numbers.
        shard_bytes : how much memory the rows of a shard may take.
        """
        if isinstance(where, str | os.PathLike) and os.fspath(where).endswith(".json"):
            return _of_snapshot(Path(where), shard_bytes)
        files = _files(where)
        name = os.fspath(where) if isinstance(where, str | os.PathLike) else f"{len(files)} files"
        found = [look_at(path, columns) for path in files]
        return _joined(name, found, shard_bytes)

    def __len__(self) -> int:
        """How many numbers there are, removed rows included."""
        return self.shards[-1].end

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, removed ones included, and columns."""
        return len(self), self.n_columns

    @property
    def size(self) -> int:
        """How many numbers the rows hold, removed ones included."""
        return len(self) * self.n_columns

    def __getitem__(self, numbers: Any) -> np.ndarray:
        """Some rows, as an array: a slice, numbers, or a mask."""
        return self.take(np.arange(len(self))[numbers])

    @property
    def n_live(self) -> int:
        """How many rows can be found."""
        return len(self) - len(self.removed)

    @cached_property
    def live_numbers(self) -> np.ndarray:
        """Numbers of the rows that can be found."""
        return np.setdiff1d(np.arange(len(self)), self.removed, assume_unique=True)

    @cached_property
    def firsts(self) -> np.ndarray:
        """The number of the first row of each shard."""
        return np.array([shard.first for shard in self.shards])

    def without(self, numbers: Any) -> ShardedRows:
        """The rows without some more, which keep their numbers."""
        gone = np.union1d(self.removed, np.asarray(numbers, np.int64))
        if len(gone) and not 0 <= gone[0] <= gone[-1] < len(self):
            raise InputError(f"Rows are numbered 0 to {len(self) - 1}; got {gone[0]} to {gone[-1]} to be removed.")
        return replace(self, removed=gone)

    def renumbered(self) -> ShardedRows:
        """The rows that are left, numbered from 0 without gaps."""
        shards: list[Shard] = []
        for shard in self.shards:
            gone = tuple(self.removed_in(shard).tolist())
            if gone and shard.left_out:
                raise InputError("Rows that were renumbered cannot be once more. Remove them all at once.")
            if shard.n_rows > len(gone):
                first = shards[-1].end if shards else 0
                left = replace(shard, first=first, n_rows=shard.n_rows - len(gone), left_out=gone or shard.left_out)
                shards.append(left)
        if not shards:
            raise InputError(f"All rows of {self.name} are removed.")
        return replace(self, shards=tuple(shards), removed=np.empty(0, np.int64))

    def removed_in(self, shard: Shard) -> np.ndarray:
        """Which rows of a shard must not be found, counted from its first."""
        here = np.searchsorted(self.removed, [shard.first, shard.end])
        numbers: np.ndarray = self.removed[here[0] : here[1]] - shard.first
        return numbers

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """The rows of these numbers, in that order."""
        rows = np.empty((len(numbers), self.n_columns), self.dtype)
        of = np.searchsorted(self.firsts, numbers, side="right") - 1
        for number in np.unique(of):
            here, shard = of == number, self.shards[number]
            rows[here] = shard.opened(numbers[here] - shard.first)
        return rows

    def mapped(self, by: RowMap) -> ShardedRows:
        """The same rows, each mapped when it is opened."""
        shards = tuple(replace(shard, mapped=by) for shard in self.shards)
        return replace(self, shards=shards, n_columns=by.n_columns, dtype=by.dtype)

    def check(self) -> None:
        """Compare every file with what it is known by, checksums too where there are any."""
        for shard in self.shards:
            shard.check()

    @cached_property
    def fingerprint(self) -> str:
        """Names the rows: the same files with the same rows removed have the same."""
        digest = hashlib.sha256(json.dumps([shard.known_by for shard in self.shards]).encode())
        digest.update(self.removed.tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        gone = f", {len(self.removed):,} of them removed" if len(self.removed) else ""
        return f"<ShardedRows {self.name}: {len(self):,} × {self.n_columns} in {len(self.shards):,} shards{gone}>"


def _files(where: Any) -> list[Path]:
    """The files of a folder, or those that were named."""
    if not isinstance(where, str | os.PathLike):
        files = [Path(each) for each in where]
        if not files:
            raise InputError("No file was named. Pass a folder, a snapshot, or one or more .npy or Parquet files.")
        return files
    path = Path(where)
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.is_file() and file_kind(each))
        kinds = {file_kind(each) for each in files}
        if not files or len(kinds) > 1:
            held = f"both {NPY} and {PARQUET} files" if files else f"no {NPY} or {PARQUET} file"
            raise InputError(f"The folder {path} has {held}. Name the files, in order, or another folder.")
        return files
    return [path]


def _joined(name: str, found: Sequence[FoundFile], shard_bytes: int) -> ShardedRows:
    """All rows of some files, one after the other."""
    first = found[0]
    shards: list[Shard] = []
    for each in found:
        if (each.n_columns, each.dtype) != (first.n_columns, first.dtype):
            raise InputError(
                f"{each.path} has {each.n_columns} columns of {each.dtype}, but {first.path} has {first.n_columns} of"
                f" {first.dtype}. All shards need the same columns of one type."
            )
        shards += _cut(each, shards[-1].end if shards else 0, shard_bytes)
    if not shards:
        raise InputError(f"{name} has no rows: every file is empty.")
    return ShardedRows(name, tuple(shards), first.n_columns, first.dtype)


def _cut(found: FoundFile, first: int, shard_bytes: int, **known: Any) -> Iterator[Shard]:
    """The shards of one file, whose rows are numbered from ``first``."""
    status = os.stat(found.path)
    digest = _digest(str(found.path), status.st_size, status.st_mtime_ns)
    of_file = {
        "file": str(found.path), "n_columns": found.n_columns, "dtype": found.dtype, "columns": found.columns,
        "size": status.st_size, "digest": digest, **known,
    }  # fmt: skip
    if found.group_rows is not None:  # a row group of Parquet cannot be read in part
        for number, n_rows in enumerate(found.group_rows):
            if n_rows:
                yield Shard(first=first, n_rows=n_rows, skipped=number, **of_file)
                first += n_rows
        return
    most = rows_within(shard_bytes, found.n_columns * np.dtype(found.dtype).itemsize, most=max(1, found.n_rows))
    n_parts = -(-found.n_rows // most)
    for part in range(n_parts):
        start, stop = found.n_rows * part // n_parts, found.n_rows * (part + 1) // n_parts
        yield Shard(first=first + start, n_rows=stop - start, skipped=start, **of_file)


def _of_snapshot(path: Path, shard_bytes: int) -> ShardedRows:
    """The rows of a collection at one version, as its snapshot says where they are."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        known, newer = said["kind"] == SNAPSHOT, said["format"] > SNAPSHOT_FORMAT
    except FileNotFoundError:
        raise InputError(f"There is no snapshot {path}. LiveCollection.snapshot writes one.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a snapshot of a collection ({error!r}).") from error
    if not known or newer:
        raise InputError(
            f"{path} is {'a snapshot of a newer format' if known else 'not a snapshot of a collection'};"
            f" this version of nearsay reads snapshots up to format {SNAPSHOT_FORMAT}."
        )
    version = f"the snapshot {path.name} after event {said['event']}"
    shards: list[Shard] = []
    for each in said["shards"]:
        file = Path(os.path.normpath(path.resolve().parent / each["file"]))
        if not file.exists():
            raise StorageError(
                f"The shard {file} is missing, but {version} needs it. Copy the shards again, or read another snapshot."
            )
        found = look_at(file, None)
        if (found.n_rows, found.n_columns) != (each["n_rows"], said["n_columns"]):
            raise StorageError(
                f"The shard {file} has {found.n_rows} × {found.n_columns} numbers, but {each['n_rows']} ×"
                f" {said['n_columns']} in {version}. Copy the shards again."
            )
        shards += _cut(found, each["first"], shard_bytes, sha256=each["sha256"], version=version)
    if not shards:
        raise InputError(f"The snapshot {path} has no rows.")
    return ShardedRows(str(path), tuple(shards), said["n_columns"], shards[0].dtype, np.array(said["forgotten"], int))


def file_digest(path: str | os.PathLike[str]) -> str:
    """What a file is known by: SHA-256 of its size and of pieces of it."""
    status = os.stat(path)
    return _digest(os.fspath(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1 << 14)
def _digest(file: str, size: int, modified: int) -> str:
    """SHA-256 of evenly spaced pieces of a file; ``modified`` lets one that changed be looked at again."""
    digest = hashlib.sha256(str(size).encode())
    with open(file, "rb") as content:
        if size <= PIECES * PIECE_BYTES:
            digest.update(content.read())
        else:
            for piece in range(PIECES):
                content.seek((size - PIECE_BYTES) * piece // (PIECES - 1))
                digest.update(content.read(PIECE_BYTES))
    return digest.hexdigest()


@lru_cache(maxsize=1 << 14)
def _checksum(file: str, modified: int) -> str:
    """SHA-256 of a whole file, which a process reads once as long as the file stays the same."""
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _machine() -> str:
    import socket

    return socket.gethostname()
