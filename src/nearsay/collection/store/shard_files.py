"""Vectors on disk: sealed rows in ``.npy`` files that never change, the newest rows in SQLite.

    row   0 ............. 65,535 │ 65,536 ........ 131,071 │ 131,072 … 131,090
          shards/000000000000-….npy   shards/000000065536-….npy   table ``tail``
          read-only memory maps, opened when first used           one BLOB per row

A shard is written and synced before a transaction names it, with its checksum: a crash leaves a shard that counts, or a
file that nothing names, which the next writer removes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nearsay.collection.store.database import Database
from nearsay.collection.store.files.durable_files import (
    bytes_of,
    checksum,
    storage_errors,
    sync_folder,
    write_array,
)
from nearsay.collection.store.files.folder import SHARDS, Folder
from nearsay.data.saved.saved_file import npy_header
from nearsay.errors import StorageError

FOLDER = SHARDS
SHARD_ROWS = 65_536
BYTES_PER_VALUE = 4
# No collection comes near; a number beyond it was not written here.
LARGEST_ROW = 1 << 40


@dataclass(frozen=True)
class ShardFile:
    """A sealed file: its first row, its number of rows, its name in the folder and its checksum."""

    first: int
    n_rows: int
    file: str
    sha256: str

    @property
    def end(self) -> int:
        """The row after its last one."""
        return self.first + self.n_rows


class Shards:
    """The vectors of one collection."""

    most_rows = SHARD_ROWS  # of a shard

    def __init__(self, database: Database, collection: Folder, n_columns: int) -> None:
        self.database, self.n_columns = database, n_columns
        self._collection = collection
        self._opened: dict[str, np.ndarray] = {}

    @property
    def folder(self) -> Path:
        """Where the files of sealed rows lie."""
        return self._collection.path / FOLDER

    def sealed(self) -> list[ShardFile]:
        """All shards, first rows first, one behind the other."""
        shards = [ShardFile(*stored) for stored in self.database.all("SELECT * FROM shards ORDER BY first")]
        end = 0
        for shard in shards:
            whole = all(type(number) is int and 0 <= number < LARGEST_ROW for number in (shard.first, shard.n_rows))
            if not whole or shard.n_rows < 1 or not isinstance(shard.file, str) or not isinstance(shard.sha256, str):
                raise StorageError(
                    f"{self.database.file}: the shard of row {shard.first!r:.40} is not described as nearsay does"
                    f" ({shard.n_rows!r:.40} rows in {shard.file!r:.80}). Restore the collection from a backup."
                )
            if shard.first != end:
                raise StorageError(
                    f"{self.database.file}: the shards have no vectors of rows {min(end, shard.first)} to"
                    f" {max(end, shard.first) - 1}, or two. Restore the collection from a backup."
                )
            end = shard.end
        return shards

    def sealed_end(self) -> int:
        """The number of sealed rows; the tail starts here."""
        return self.database.one("SELECT first + n_rows FROM shards ORDER BY first DESC LIMIT 1") or 0

    def tail(self) -> np.ndarray:
        """The rows not sealed yet."""
        stored = self.database.all("SELECT vector FROM tail ORDER BY row")
        rows = b"".join(self._of_its_size(vector) for (vector,) in stored)
        return np.frombuffer(rows, dtype="<f4").reshape(len(stored), self.n_columns)

    def _of_its_size(self, vector: Any) -> bytes:
        if not isinstance(vector, bytes) or len(vector) != self.n_columns * BYTES_PER_VALUE:
            raise StorageError(
                f"{self.database.file}: a vector of the newest rows does not have {self.n_columns} values."
                " Restore the collection from a backup."
            )
        return vector

    def blocks(self) -> list[np.ndarray]:
        """All rows in order: sealed ones as memory maps that nothing was read from, then the tail."""
        with self.database.one_state():
            blocks = [self.opened(shard) for shard in self.sealed()]
            tail = self.tail()
        tail.flags.writeable = False
        return [*blocks, tail] if len(tail) else blocks

    def rows(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Some rows, in the given order."""
        wanted = np.asarray(numbers, dtype=np.int64)
        with self.database.one_state():
            shards = self.sealed()
            end = shards[-1].end if shards else 0
            newest = np.flatnonzero(wanted >= end)
            query = "SELECT vector FROM tail WHERE row = ?"
            vectors = [self._of_its_size(self.database.one(query, (int(wanted[place]),))) for place in newest]
        of = np.searchsorted([shard.first for shard in shards], wanted, side="right") - 1
        of[newest] = -1
        # Memory is allocated when the files are known to be as long as they should be.
        opened = {number: self.opened(shards[number]) for number in np.unique(of[of >= 0]).tolist()}
        X = np.empty((len(wanted), self.n_columns), np.float32)
        for place, vector in zip(newest, vectors, strict=True):
            X[place] = np.frombuffer(vector, dtype="<f4")
        for number, rows in opened.items():
            X[of == number] = rows[wanted[of == number] - shards[number].first]
        return X

    def opened(self, shard: ShardFile) -> np.ndarray:
        """A shard as a read-only memory map; refused where the file cannot be the one that was written."""
        if shard.file not in self._opened:
            folder = self._collection.folder(FOLDER)
            if folder is None:
                raise StorageError(f"The folder {self.folder} is missing. Restore the collection from a backup.")
            self._opened[shard.file] = opened_shard(
                lambda: folder.reading(shard.file), self.folder / shard.file, shard.n_rows, self.n_columns
            )
        return self._opened[shard.file]

    def checksum(self, shard: ShardFile) -> str:
        """SHA-256 of the file of a shard."""
        folder = self._collection.folder(FOLDER)
        assert folder is not None
        with folder.reading(shard.file) as file:
            return checksum(file)

    def write(self, first: int, parts: list[np.ndarray]) -> list[ShardFile]:
        """Write rows from ``first`` on as new shards, on the disk when this returns, but not recorded yet."""
        rows, written = sum(len(part) for part in parts), []
        with storage_errors(f"seal {rows:,} rows in {self.folder}"):
            folder = self._collection.made(FOLDER)
            for some in _cut(parts, self.most_rows):
                n_rows = sum(len(part) for part in some)
                file = f"{first:012d}-{secrets.token_hex(8)}.npy"
                written.append(ShardFile(first, n_rows, file, write_array(folder, file, some)))
                first += n_rows
            sync_folder(folder)
        return written

    def name(self, shards: list[ShardFile]) -> None:
        """Record shards, within the transaction that the caller holds, and remove their rows from the tail."""
        values = [(shard.first, shard.n_rows, shard.file, shard.sha256) for shard in shards]
        self.database.execute_many("INSERT INTO shards VALUES (?, ?, ?, ?)", values)
        self.database.execute("DELETE FROM tail WHERE row < ?", (shards[-1].end,))

    def append_to_tail(self, first: int, rows: np.ndarray) -> None:
        """Put rows into the tail, within the transaction that the caller holds."""
        vectors = ((first + place, bytes_of(row[None])) for place, row in enumerate(rows))
        self.database.execute_many("INSERT INTO tail VALUES (?, ?)", vectors)


def vectors_digest(parts: Iterable[np.ndarray]) -> str:
    """SHA-256 of float32 rows, however they are cut."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(bytes_of(part))
    return digest.hexdigest()


def open_shard(path: Path, n_rows: int, n_columns: int) -> np.ndarray:
    """A sealed file that the user named, such as one of a snapshot, as ``opened_shard`` gives it."""
    return opened_shard(lambda: open(path, "rb", buffering=0), path, n_rows, n_columns)


def opened_shard(open_file: Callable[[], BinaryIO], path: Path, n_rows: int, n_columns: int) -> np.ndarray:
    """A sealed file as a read-only memory map, after a check of its length and header."""
    header = npy_header("<f4", (n_rows, n_columns))
    expected = len(header) + n_rows * n_columns * BYTES_PER_VALUE
    advice = "Restore it from a backup."
    try:
        with open_file() as file:
            size = os.fstat(file.fileno()).st_size
            if size != expected:
                raise StorageError(f"The shard {path} has {size:,} bytes, but {expected:,} were written. {advice}")
            if file.read(len(header)) != header:
                raise StorageError(f"The shard {path} does not begin as it was written. {advice}")
            return np.memmap(file, dtype="<f4", mode="r", offset=len(header), shape=(n_rows, n_columns))
    except FileNotFoundError as error:
        raise StorageError(f"The shard {path} is missing. {advice}") from error
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"The shard {path} cannot be read: {error.strerror}.") from error


def _cut(parts: list[np.ndarray], size: int) -> list[list[np.ndarray]]:
    """The same rows in runs of ``size``, the last one shorter, without copying any."""
    runs: list[list[np.ndarray]] = []
    room = 0
    for part in parts:
        start = 0
        while start < len(part):
            if room == 0:
                runs.append([])
                room = size
            runs[-1].append(part[start : start + room])
            room -= len(runs[-1][-1])
            start += len(runs[-1][-1])
    return runs
