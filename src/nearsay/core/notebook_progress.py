"""Progress bars of notebooks: shown by themselves where tqdm is installed, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

Progress = Callable[[int, int], Any]


def shown_progress(on_progress: Progress | None, what: str) -> Progress | None:
    """What to call with (done, in all): the caller's function, or a bar in a notebook, or None."""
    if on_progress is not None or "ipykernel" not in sys.modules or find_spec("tqdm") is None:
        return on_progress
    return NotebookBar(what)


class NotebookBar:
    """A bar of ``tqdm.auto`` that appears with the first call and ends with the last."""

    def __init__(self, what: str) -> None:
        self._what, self._bar = what, None  # type: str, Any

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, desc=self._what)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._bar.close()
            self._bar = None
