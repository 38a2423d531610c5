"""The queries of a search by class: items, or rows of the collection that are left out of their own answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearsay.neighbors.neighbor_search import NOBODY
from nearsay.search.row_store import HeldRows

Lines = slice | np.ndarray


@dataclass(frozen=True)
class Queries:
    """Checked queries.

    Attributes
    ----------
    n : how many.
    take : gives those of a slice, or of an array of numbers.
    left_out : (n,) the row that each query is, or empty.
    """

    n: int
    take: Callable[[Lines], Any]
    left_out: np.ndarray = field(default_factory=lambda: NOBODY)

    @classmethod
    def of_items(cls, Q: Any, left_out: np.ndarray = NOBODY) -> Queries:
        def take(lines: Lines) -> Any:
            return Q[lines] if isinstance(Q, np.ndarray) or isinstance(lines, slice) else [Q[line] for line in lines]

        return cls(len(Q), take, left_out)

    @classmethod
    def of_rows(cls, held: HeldRows, rows: np.ndarray | None) -> Queries:
        """All rows, or those of these numbers."""
        numbers = np.arange(len(held)) if rows is None else rows

        def take(lines: Lines) -> Any:
            if rows is None and isinstance(lines, slice):
                return held.between(lines.start, lines.stop)
            return held.take(numbers[lines])

        return cls(len(numbers), take, numbers)

    def __getitem__(self, lines: Lines) -> Queries:
        """Some of them."""
        if isinstance(lines, np.ndarray):
            return Queries(len(lines), lambda few: self.take(lines[few]), self._left_out(lines))
        start = lines.start

        def take(few: Lines) -> Any:
            return self.take(slice(start + few.start, start + few.stop) if isinstance(few, slice) else start + few)

        return Queries(lines.stop - start, take, self._left_out(lines))

    def _left_out(self, lines: Lines) -> np.ndarray:
        return self.left_out[lines] if len(self.left_out) else self.left_out

    @property
    def items(self) -> Any:
        """All of them."""
        return self.take(slice(0, self.n))
