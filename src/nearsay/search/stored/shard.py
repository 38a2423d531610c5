"""A shard: consecutive rows of a file, with digests that detect changes of the file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from nearsay.errors import StorageError
from nearsay.search.stored.files import open_part
from nearsay.search.stored.lance import fragment_digest
from nearsay.search.stored.mapped import RowMap
from nearsay.search.stored.places import Stamp, file_checksum, is_url, machine, sampled_digest, stamp_of


@dataclass(frozen=True)
class Shard:
    """Consecutive rows of a file.

    Attributes
    ----------
    first, n_rows : the number of its first row, and how many rows it has.
    file : the path or URL of the file; of Lance, of the data set.
    skipped : how many rows of the file (of Lance, the fragment) lie before it; of Parquet, how many row groups.
    n_columns, dtype : of every row of the file.
    columns : the names of the columns that hold the numbers, of Parquet and Lance.
    n_groups : of how many row groups of Parquet it is.
    fragment : the version of a Lance data set, and the number of the fragment.
    size, digest : identify the file.
    written : when it was written, and on which machine that was read; other machines may have copies.
    sha256 : the checksum of the whole file, if its writer recorded it.
    checksum : the checksum of the rows, if wanted.
    version : the version of the rows, in words.
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
    n_groups: int = 1
    fragment: tuple[int, int] | None = None
    written: tuple[int | str, str] | None = None
    checksum: str | None = None
    version: str = ""
    left_out: tuple[int, ...] = ()
    mapped: RowMap | None = None

    @property
    def end(self) -> int:
        """The row behind its last one."""
        return self.first + self.n_rows

    @property
    def nbytes(self) -> int:
        """The memory that its rows take, as they are opened."""
        opened = self if self.mapped is None else self.mapped
        return self.n_rows * opened.n_columns * np.dtype(opened.dtype).itemsize

    def known_by(self) -> list[Any]:
        """The identity of its rows, wherever they are stored; the rows are read for it, once."""
        content = [self.sha256, self.skipped] if self.sha256 else [self.rows_checksum()]
        identity = [self.first, self.n_rows, self.n_columns, self.dtype, content, list(self.left_out)]
        return identity if self.mapped is None else [*identity, self.mapped.known_by]

    def opened(self, places: Any = None) -> np.ndarray:
        """The rows, or those at some places: a read-only memory map, or what was read, or mapped.

        An error where the file is not what it was.
        """
        self.check()
        rows = self._all_rows()
        if self.left_out:
            rows = np.delete(rows, self.left_out, axis=0)
        if places is not None:
            rows = rows[places]
        return rows if self.mapped is None else self.mapped(rows)

    def rows_checksum(self) -> str:
        """SHA-256 of the rows as they are, which a process computes once as long as the file stays the same."""
        return _checksum_of_rows(self, self._looked_up()[0])

    def check(self) -> Stamp:
        """Raise if the file is missing or has changed; otherwise its stamp.

        One whose checksum is known is read once by each process, as long as the file stays the same.
        """
        stamp, digest = self._looked_up()
        if stamp.size != self.size:
            raise StorageError(
                f"The shard {self.file} has {stamp.size:,} bytes on {machine()}, but {self.size:,} when the rows"
                f" were opened.{self._remedy}"
            )
        if digest != self.digest or not self._is_as_written(stamp):
            raise StorageError(f"The shard {self.file} on {machine()} is not the file it was.{self._remedy}")
        return stamp

    def _is_as_written(self, stamp: Stamp) -> bool:
        """Whether the file is unchanged: by checksums if there are any, otherwise by its time of modification."""
        if self.sha256 is not None or self.checksum is not None:
            same_file = self.sha256 is None or file_checksum(self.file) == self.sha256
            return same_file and (self.checksum is None or _checksum_of_rows(self, stamp) == self.checksum)
        return self.written is None or self.written[1] != machine() or self.written[0] == stamp.modified

    def _looked_up(self) -> tuple[Stamp, str]:
        """The stamp of the file as it is, and its digest."""
        try:
            return looked_up(self.file, self.fragment)
        except FileNotFoundError:
            of = f" {self.version} needs it, so the copy on this machine is older." if self.version else ""
            raise StorageError(f"The shard {self.file} is missing on {machine()}.{of}{self._remedy}") from None
        except StorageError:
            raise
        except OSError as error:
            reason = error.strerror or error
            raise StorageError(f"The shard {self.file} cannot be read on {machine()}: {reason}.") from error

    @property
    def _remedy(self) -> str:
        return f" Copy it again from where {self.version or 'the rows'} came from, or open the rows anew."

    def _all_rows(self) -> np.ndarray:
        return open_part(self, self.n_rows + len(self.left_out))


@dataclass(frozen=True)
class HeldShard(Shard):
    """Rows in memory among shards of files: they are sent to the workers that search them.

    Attributes
    ----------
    rows : (n_rows, n_columns)
    """

    rows: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), compare=False, repr=False)

    @classmethod
    def of(cls, rows: np.ndarray, first: int, name: str) -> HeldShard:
        """Such rows, numbered from ``first``; ``name`` is what errors call them."""
        held = np.array(rows, order="C")
        held.flags.writeable = False
        digest = hashlib.sha256(held.data).hexdigest()
        return cls(first, len(held), name, 0, held.shape[1], held.dtype.str, held.nbytes, digest, rows=held)

    def rows_checksum(self) -> str:
        return self.digest

    def _looked_up(self) -> tuple[Stamp, str]:
        return Stamp(self.size, self.digest), self.digest

    def _all_rows(self) -> np.ndarray:
        return self.rows


def looked_up(file: str, fragment: tuple[int, int] | None) -> tuple[Stamp, str]:
    """The stamp of a file, and a digest of pieces of it."""
    if fragment is not None:
        size, digest = fragment_digest(file, *fragment)
        return Stamp(size, digest), digest
    stamp = stamp_of(file)
    return stamp, sampled_digest(file, stamp)


def written_on(file: str, stamp: Stamp, fragment: tuple[int, int] | None) -> tuple[int | str, str] | None:
    """The modification time of a local file; for object stores and Lance, digests detect changes."""
    return None if fragment is not None or is_url(file) else (stamp.modified, machine())


@lru_cache(maxsize=1 << 14)
def _checksum_of_rows(shard: Shard, stamp: Stamp) -> str:
    """SHA-256 of all rows of a shard; another ``stamp`` lets a file that was written to be read again."""
    return hashlib.sha256(np.ascontiguousarray(shard._all_rows()).data).hexdigest()
