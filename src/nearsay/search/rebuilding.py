"""One piece of work at a time in the background, such as a structure that is built while the old one answers."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Runs one piece of work in a thread of its own. A copy, or one read from a file, has nothing to do.

    >>> work = Background()
    >>> found = []
    >>> work.start(lambda: found.append(1))
    True
    >>> work.wait(), found
    (True, [1])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], object]) -> bool:
        """Begin, unless something is under way; what went wrong the last time is raised here."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._error = error

        with self._lock:
            if self.running:
                return False
            failed, self._error = self._error, None
            if failed is not None:
                raise failed
            self._thread = threading.Thread(target=run, name="nearsay rebuild", daemon=True)
            self._thread.start()
        return True

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Return when nothing is under way; False if that takes longer. What went wrong is raised here."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        if self.running:
            return False
        with self._lock:
            failed, self._error = self._error, None
        if failed is not None:
            raise failed
        return True

    def __reduce__(self) -> tuple[type[Background], tuple[()]]:
        return type(self), ()
