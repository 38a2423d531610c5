"""One background job at a time, such as building a structure while the old one serves."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Runs one job in a thread. A copy, or one read from a file, has none.

    >>> work = Background()
    >>> results = []
    >>> work.start(lambda: results.append(1))
    True
    >>> work.wait(), results
    (True, [1])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], object]) -> bool:
        """Start a job, unless one is running; raises the error of the last job."""

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
        """Wait until no job is running; False if that takes longer. Raises the error of the job."""
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
