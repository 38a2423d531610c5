"""Cooperative cancellation for long loops.

with stoppable(check): ──► the loop calls go_on() between blocks ──► check() raises ──► the loop ends
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def stoppable(check: Callable[[], None] | None) -> Iterator[None]:
    """Let ``check`` cancel the work inside the block: long loops call it between blocks of rows, and it raises to stop.

    Applies to the calling thread and to the threads that share its work. None cancels nothing.

    >>> def stop():
    ...     raise TimeoutError("That is enough.")
    >>> with stoppable(stop):
    ...     go_on()
    Traceback (most recent call last):
    TimeoutError: That is enough.
    """
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def go_on() -> None:
    """A cancellation point: calls the caller's ``check``, which raises to stop."""
    check = _check.get()
    if check is not None:
        check()
