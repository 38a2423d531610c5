"""The rows of a collection, by number, as they grow and are forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nearsay.arrays import GrowingArray, check_row_numbers, row_blocks
from nearsay.errors import InputError

# Row numbers fit into 32 bits where candidates are listed by the million.
MOST_ROWS = 2**31 - 1


class HeldRows:
    """Rows by number: those given first are never copied, later ones go to a second, growing chunk.

    A removed row keeps its number, and its number is never given again.
    """

    def __init__(self, items: Any) -> None:
        _check_count(len(items))
        self.items = items
        self._added: GrowingArray | list[Any] | None = None
        self._removed: GrowingArray | None = None
        self.n_removed = 0
        self.n_changes = 0  # by which who prepared something from the rows can tell that it is out of date

    def __len__(self) -> int:
        """How many numbers have been given out, removed rows included."""
        return len(self.items) + (0 if self._added is None else len(self._added))

    @property
    def n_live(self) -> int:
        return len(self) - self.n_removed

    @property
    def removed(self) -> np.ndarray | None:
        """A mask of removed rows, or None while none is."""
        return None if self._removed is None else self._removed.values

    @property
    def live_numbers(self) -> np.ndarray:
        return np.arange(len(self)) if self.removed is None else np.flatnonzero(~self.removed)

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

    def append(self, items: Any) -> np.ndarray:
        """Hold more rows; gives their numbers."""
        start = len(self)
        _check_count(start + len(items))
        self.n_changes += 1
        if isinstance(self.items, np.ndarray):
            if self._added is None:
                self._added = GrowingArray(np.empty((0, *self.items.shape[1:]), self.items.dtype))
            assert isinstance(self._added, GrowingArray)
            self._added.append(self._same_type(items))
        else:
            if self._added is None:
                self._added = []
            assert isinstance(self._added, list)
            self._added.extend(items)
        if self._removed is not None:
            self._removed.append(np.zeros(len(items), dtype=bool))
        return np.arange(start, len(self))

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

    def remove(self, numbers: Any) -> np.ndarray:
        """Forget rows, by number or by a mask; all or none. Gives the numbers as an array, each once."""
        named = [numbers] if np.isscalar(numbers) else numbers
        given = np.unique(check_row_numbers(named, len(self), removed=self.removed))
        if self._removed is None:
            self._removed = GrowingArray(np.zeros(len(self), dtype=bool))
        self._removed.values[given] = True
        self.n_removed += len(given)
        self.n_changes += 1
        return given


def _check_count(n_rows: int) -> None:
    if n_rows > MOST_ROWS:
        raise InputError(f"A collection holds at most {MOST_ROWS:,} rows; {n_rows:,} came. Cut it into several.")
