"""Rows in files, larger than memory or on many machines: opened by path, where the work is done.

    a folder or list of .npy ─┐
    a snapshot (.json) ───────┼─► ShardedRows: which rows lie where, and what tells that a file is the same
    Parquet, a Lance data set ┘         │ a few hundred bytes a shard; no row is read, none is sent
                                        └─► Shard.opened(), where the work is done: a read-only memory map

A file of more than 64 MB is cut into several shards, each mapped by itself, so that a process holds one of them at a
time. A shard carries the size, time stamp and a digest of 64 pieces of its file (of a snapshot, or opened with
``verify="full"``, of all of it), so opening a file that has changed is an error, not a wrong answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from nearsay.errors import InputError, unknown_name
from nearsay.search.stored.lance import is_lance
from nearsay.search.stored.mapped import RowMap
from nearsay.search.stored.places import full_path
from nearsay.search.stored.shard import HeldShard, Shard
from nearsay.search.stored.sources import shards_of_files, shards_of_lance, shards_of_snapshot

# Rows of one shard, in the bytes they take. So many, or fewer, are held in eight bits by exact search, and are put in
# the order of their classes without looking at the file again.
SHARD_BYTES = 64 << 20

VERIFY = ("sampled", "full")


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
        where: Any,
        *,
        columns: Sequence[str] | None = None,
        shard_bytes: int = SHARD_BYTES,
        verify: Literal["sampled", "full"] = "sampled",
    ) -> ShardedRows:
        """Open the files, without reading their rows.

        Parameters
        ----------
        where : path, URL, list of them, or Lance data set
            A folder of ``.npy`` or Parquet files, which are taken in order of their names, those of its partitions
            (folders named ``key=value``) too; one such file, or several in the order given; a snapshot of a
            collection, whose forgotten rows are ``removed``; or a Lance data set, or its path, which ends in
            ``.lance``, at its newest version.
        columns : names, optional
            Which columns of Parquet or Lance hold the numbers: one column of lists, or columns of single numbers;
            ``item.vector`` lies in a struct. By default the only column of lists, or all columns of numbers.
        shard_bytes : how much memory the rows of a shard may take; a row group of Parquet is never cut.
        verify : what a change of a file is noticed by, from now on
            "sampled": its size, a digest of 64 pieces of 4 KB, and, on this machine, when it was written. "full": all
            of its rows, which are read now for a checksum, and again, once, by every process that opens them.
        """
        if verify not in VERIFY:
            raise unknown_name("way to verify", verify, VERIFY)
        if hasattr(where, "shape"):
            raise InputError(
                f"Rows in shards are named by their files, and this is an array of shape {tuple(where.shape)}. Write it"
                " with np.save and pass the path, or pass the array to NeighborIndex or NeighborClassifier."
            )
        removed = np.empty(0, np.int64)
        if is_lance(where):
            shards = shards_of_lance(where, columns, shard_bytes)
        elif isinstance(where, str | os.PathLike) and os.fspath(where).endswith(".json"):
            shards, removed = shards_of_snapshot(full_path(where), shard_bytes)
        else:
            shards = shards_of_files(where, columns, shard_bytes)
        if verify == "full":
            shards = [replace(shard, checksum=shard.rows_checksum()) for shard in shards]
        return cls(_name(where, shards), tuple(shards), shards[0].n_columns, shards[0].dtype, removed)

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
        """How many live rows there are."""
        return len(self) - len(self.removed)

    @cached_property
    def live_numbers(self) -> np.ndarray:
        """Numbers of the live rows."""
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

    def with_held(self, more: np.ndarray, name: str) -> ShardedRows:
        """The rows with more behind them that are held in memory; ``name`` is what errors call these.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> np.save(f"{folder}/0.npy", np.array([[0.0], [1.0]], np.float32))
        >>> ShardedRows.open(folder).with_held(np.array([[5.0]]), "new rows")[:].ravel()
        array([0., 1., 5.])
        """
        if not len(more):
            return self
        held = HeldShard.of(more, len(self), name)
        return replace(self, shards=(*self.shards, held), dtype=np.result_type(self.dtype, held.dtype).str)

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
        return self.removed[here[0] : here[1]] - shard.first

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

    def __repr__(self) -> str:
        gone = f", {len(self.removed):,} of them removed" if len(self.removed) else ""
        return f"<ShardedRows {self.name}: {len(self):,} × {self.n_columns} in {len(self.shards):,} shards{gone}>"


def _name(where: Any, shards: Sequence[Shard]) -> str:
    """Where rows were opened, for people."""
    if isinstance(where, str | os.PathLike):
        return os.fspath(where)
    return shards[0].file if is_lance(where) else f"{len({shard.file for shard in shards})} files"
