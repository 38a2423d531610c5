"""A bounded, thread-safe store of the most recent things by key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The last ``most`` values that were put in.

    >>> recent = Recent(2)
    >>> for key in "abc":
    ...     recent.put(key, key.upper())
    >>> recent.get("a"), recent.values()
    (None, ['B', 'C'])
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            return self._kept.get(key)

    def put(self, key: Hashable, value: T) -> None:
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def values(self) -> list[T]:
        """The oldest first."""
        with self._lock:
            return list(self._kept.values())
