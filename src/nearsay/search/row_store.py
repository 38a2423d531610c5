"""The rows of a collection, by number: appended and removed without copies."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from nearsay.core.arrays import check_row_numbers, row_blocks, row_width, rows_within
from nearsay.core.growing_array import GrowingArray
from nearsay.errors import InputError

# Row numbers fit into 32 bits where candidates are listed by the million.
MOST_ROWS = 2**31 - 1
# Rows are brought into another form so many bytes at a time, however wide they are.
BLOCK_BYTES = 16 << 20


class HeldRows:
    """Rows by number: those given first are copied only if not in C order, later ones go to a second, growing chunk.

    The number of a removed row is never reused. Held rows never change: ``appended`` and ``without`` return new
    ones that share the memory. So a search that is running keeps its rows, and what was prepared from some rows
    stays valid as long as they are the same object.
    """

    def __init__(self, items: Any) -> None:
        _check_count(len(items))
        # Loops are compiled for rows that lie one after another, and pass over them faster.
        in_order = not isinstance(items, np.ndarray) or items.flags.c_contiguous
        self.items = items if in_order else np.ascontiguousarray(items)
        self._added: GrowingArray | list[Any] | None = None
        self._removed: GrowingArray | None = None
        self.n_removed = 0

    def __len__(self) -> int:
        """How many rows there are, removed ones included."""
        return len(self.items) + (0 if self._added is None else len(self._added))

    @property
    def n_live(self) -> int:
        return len(self) - self.n_removed

    @property
    def removed(self) -> np.ndarray | None:
        """A mask of removed rows, or None while none is."""
        return None if self._removed is None else self._removed.values

    def block_size(self, most: int) -> int:
        """How many rows, up to ``most``, are taken at once: in float64 they fill no more than ``BLOCK_BYTES``."""
        return rows_within(BLOCK_BYTES, 8 * row_width(self.items), most)

    @property
    def live_numbers(self) -> np.ndarray:
        return np.arange(len(self)) if self.removed is None else np.flatnonzero(~self.removed)

    def live_among(self, numbers: np.ndarray) -> np.ndarray:
        """Those of these row numbers whose rows are not removed."""
        return numbers if self.removed is None else numbers[~self.removed[numbers]]

    def chunks(self) -> list[tuple[int, Any]]:
        """(number of the first row, rows) of each stretch that lies together in memory."""
        if self._added is None:
            return [(0, self.items)]
        added = self._added.values if isinstance(self._added, GrowingArray) else self._added
        return [(0, self.items), (len(self.items), added)]

    def blocks(self, size: int) -> Iterator[tuple[int, Any]]:
        """The same, cut into blocks of at most ``size`` rows."""
        for first, chunk in self.chunks():
            for rows in row_blocks(len(chunk), size=size):
                yield first + rows.start, chunk[rows]

    def between(self, start: int, stop: int) -> Any:
        """Rows ``start`` to ``stop``, without a copy where they lie in one chunk."""
        parts = [chunk[max(start - first, 0) : max(stop - first, 0)] for first, chunk in self.chunks()]
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [item for part in parts for item in part]

    def take(self, numbers: np.ndarray) -> Any:
        """The rows of these numbers."""
        chunks = self.chunks()
        if not isinstance(self.items, np.ndarray):
            return [next(chunk[i - first] for first, chunk in reversed(chunks) if i >= first) for i in numbers]
        if len(chunks) == 1:
            return self.items[numbers]
        out = np.empty((len(numbers), *self.items.shape[1:]), self.items.dtype)
        for first, chunk in chunks:
            here = (numbers >= first) & (numbers < first + len(chunk))
            out[here] = chunk[numbers[here] - first]
        return out

    def appended(self, items: Any) -> HeldRows:
        """These rows and more, numbered after the last number used."""
        _check_count(len(self) + len(items))
        held = copy.copy(self)
        if isinstance(self.items, np.ndarray):
            before = self._added
            if before is None:
                before = GrowingArray(np.empty((0, *self.items.shape[1:]), self.items.dtype))
            assert isinstance(before, GrowingArray)
            held._added = before.appended(self._same_type(items))
        else:
            assert not isinstance(self._added, GrowingArray)
            held._added = [*(self._added or []), *items]
        if self._removed is not None:
            held._removed = self._removed.appended(np.zeros(len(items), dtype=bool))
        return held

    def _same_type(self, items: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            converted: np.ndarray = items.astype(self.items.dtype, copy=False)
        # A float64 row may be rounded to join a float32 collection; nothing else may change on the way in.
        both_floats = items.dtype.kind == converted.dtype.kind == "f"
        kept = (
            np.array_equal(np.isfinite(converted), np.isfinite(items))
            if both_floats
            else np.array_equal(converted, items)
        )
        if not kept:
            raise InputError(
                f"The added rows ({items.dtype}) do not fit the type of the collection ({self.items.dtype}) without"
                f" loss. Convert them, or fit the collection with rows of type {np.result_type(items, self.items)}."
            )
        return converted

    def without(self, numbers: Any) -> tuple[HeldRows, np.ndarray]:
        """The rows without some, named by number or by a mask, all or none of them; and their numbers, each once."""
        named = [numbers] if np.isscalar(numbers) else numbers
        given = np.unique(check_row_numbers(named, len(self), removed=self.removed))
        held = copy.copy(self)
        mask = np.zeros(len(self), dtype=bool) if self.removed is None else self.removed.copy()
        mask[given] = True
        held._removed = GrowingArray(mask)
        held.n_removed += len(given)
        return held, given

    def restored(self, numbers: Any) -> tuple[HeldRows, np.ndarray]:
        """The rows with some again that were removed, named by number or by a mask; and their numbers, each once."""
        given = np.unique(check_row_numbers(numbers, len(self)))
        not_removed = self.live_among(given)
        if len(not_removed):
            raise InputError(f"Row {not_removed[0]} has not been removed. Name only rows that were.")
        held = copy.copy(self)
        if self.removed is not None:
            mask = self.removed.copy()
            mask[given] = False
            held._removed = GrowingArray(mask)
            held.n_removed -= len(given)
        return held, given


def _check_count(n_rows: int) -> None:
    if n_rows > MOST_ROWS:
        raise InputError(f"A collection holds at most {MOST_ROWS:,} rows; got {n_rows:,}. Split it into several.")
