"""Arrays that grow: readers of the shorter one are not affected."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np


class GrowingArray:
    """An immutable array of rows with amortized appends (capacity doubles).

    ``appended`` gives a longer array, which shares the memory of this one if the place after its last row is
    still free. Readers of the shorter one are not affected.
    """

    def __init__(self, first: np.ndarray) -> None:
        self._room = _Room(first)
        self.values = first

    def __len__(self) -> int:
        return len(self.values)

    def appended(self, more: np.ndarray) -> GrowingArray:
        """These rows and then ``more``."""
        grown = object.__new__(type(self))
        grown._room, grown.values = self._room.after(self.values, more)
        return grown

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.values,)


class _Room:
    """Memory shared by arrays of different length; the longest ends at ``_filled``."""

    def __init__(self, store: np.ndarray) -> None:
        self._store, self._filled, self._lock = store, len(store), Lock()

    def after(self, values: np.ndarray, more: np.ndarray) -> tuple[_Room, np.ndarray]:
        """Append ``more`` to ``values``, in new memory if the space after them is used or too short."""
        n, needed = len(values), len(values) + len(more)
        with self._lock:
            room = self
            if n != self._filled or needed > len(self._store):
                room = _Room(np.empty((max(needed, 2 * n), *values.shape[1:]), values.dtype))
                room._store[:n] = values
            room._store[n:needed] = more
            room._filled = needed
            return room, room._store[:needed]
