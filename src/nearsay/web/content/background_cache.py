"""Caches: a value that is computed in a background thread when its key changes, and the most recent things by key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Entry(Generic[T]):
    key: Hashable
    value: T | None
    error: Exception | None = None


class BackgroundCache(Generic[T]):
    """One value; only the newest is kept, and only one is computed at a time.

    Parameters
    ----------
    key : gives what the value depends on, such as the version of a collection.
    make : computes the value.

    >>> squares = BackgroundCache(lambda: 7, lambda: 7 * 7)
    >>> squares.get(wait=10)
    49
    """

    def __init__(self, key: Callable[[], Hashable], make: Callable[[], T]) -> None:
        self._key, self._make = key, make
        self._lock = threading.Lock()
        self._entry: _Entry[T] | None = None
        self._worker: threading.Thread | None = None

    def get(self, wait: float = 1.0) -> T | None:
        """The value, or None where computing it takes longer than ``wait`` seconds: try again later.

        An error of ``make`` is raised here.
        """
        key = self._key()
        with self._lock:
            entry = self._entry_of(key)
            if entry is None and (self._worker is None or not self._worker.is_alive()):
                self._worker = threading.Thread(target=self._work, args=(key,), daemon=True)
                self._worker.start()
            worker = self._worker
        if entry is None and worker is not None:
            worker.join(wait)
            with self._lock:
                entry = self._entry_of(key)
        if entry is None:
            return None
        if entry.error is not None:
            raise entry.error
        return entry.value

    def _entry_of(self, key: Hashable) -> _Entry[T] | None:
        return self._entry if self._entry is not None and self._entry.key == key else None

    def _work(self, key: Hashable) -> None:
        try:
            entry: _Entry[T] = _Entry(key, self._make())
        except Exception as error:
            entry = _Entry(key, None, error)
        with self._lock:
            self._entry = entry


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
