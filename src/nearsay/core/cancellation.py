"""Long work that may not be wanted any more: between two blocks of rows it is asked whether to go on.

    with stoppable(check): ──► work on blocks ──► check() raises ──► the work ends there

Whoever starts the work says how it is told to stop. Without that, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def stoppable(check: Callable[[], None] | None) -> Iterator[None]:
    """Inside the block, work calls ``check`` now and then, which raises where it is to end; None: it goes on.

    It holds for the calling thread, and for threads that share its work.

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
    """Raise where the work is to end."""
    check = _check.get()
    if check is not None:
        check()
