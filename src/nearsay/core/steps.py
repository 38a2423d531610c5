"""The steps of a fit: how long each takes, and a line for each as it ends where progress is to be shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from nearsay.core.printable import printable


class Steps:
    """Measures steps by name, and prints them on stderr: on a terminal as in a notebook.

    Attributes
    ----------
    seconds : {name: float}
        How long each took; a step of several parts is their sum.
    """

    def __init__(self, doing: str = "", *, shown: bool = False) -> None:
        self.doing = doing
        self.shown = shown
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, *, is_part: bool = False) -> Iterator[None]:
        """Measure what is done inside; of a part of a step no line is printed."""
        start = perf_counter()
        yield
        taken = perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + taken
        if self.shown and not is_part:
            print(printable(f"{self.doing}: {name}, {taken:.2f} s"), file=sys.stderr, flush=True)
