"""What takes a while to make: made once in a thread of its own, and kept until something else is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Made(Generic[T]):
    key: Hashable
    value: T | None
    error: Exception | None = None


class BackgroundCache(Generic[T]):
    """One thing, made again when what it is made from has changed.

    Only the newest is kept, and only one is made at a time.

    Parameters
    ----------
    key : what it is made from, such as the version of a collection; equal keys, equal things.
    make : makes it.

    >>> squares = BackgroundCache(lambda: 7, lambda: 7 * 7)
    >>> squares.get(wait=10)
    49
    """

    def __init__(self, key: Callable[[], Hashable], make: Callable[[], T]) -> None:
        self._key, self._make = key, make
        self._lock = threading.Lock()
        self._made: _Made[T] | None = None
        self._at_work: threading.Thread | None = None

    def get(self, wait: float = 1.0) -> T | None:
        """The thing, or None where making it takes longer than ``wait`` seconds: ask again later.

        What went wrong while it was made is raised here.
        """
        key = self._key()
        with self._lock:
            found = self._found(key)
            if found is None and (self._at_work is None or not self._at_work.is_alive()):
                self._at_work = threading.Thread(target=self._work, args=(key,), daemon=True)
                self._at_work.start()
            at_work = self._at_work
        if found is None and at_work is not None:
            at_work.join(wait)
            with self._lock:
                found = self._found(key)
        if found is None:
            return None
        if found.error is not None:
            raise found.error
        return found.value

    def _found(self, key: Hashable) -> _Made[T] | None:
        return self._made if self._made is not None and self._made.key == key else None

    def _work(self, key: Hashable) -> None:
        try:
            made: _Made[T] = _Made(key, self._make())
        except Exception as error:
            made = _Made(key, None, error)
        with self._lock:
            self._made = made
