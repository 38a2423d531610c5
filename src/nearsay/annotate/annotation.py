"""The keywords of one item, with the neighbors as evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearsay.core.tables import html_table
from nearsay.posterior.evidence.evidence import InWords

GIVERS_SHOWN = 5


@dataclass(frozen=True)
class Annotation(InWords):
    """The keywords of one item, best first, with the neighbors as evidence.

    Attributes
    ----------
    words : list
    probabilities : list of float
    neighbors : (n_neighbors,) row numbers, nearest first
    distances : (n_neighbors,)
    given_by : list of lists of int
        For every word, the row numbers of the neighbors that have it, nearest first.
    ids : list or None
        The names of the neighbors, where ``fit`` was given names.

    >>> print(Annotation(["sky"], [0.75], np.array([4, 7]), np.array([0.1, 0.2]), [[7]]))
    sky    75 %  1 of 2 neighbors: 7
    """

    words: list[Any]
    probabilities: list[float]
    neighbors: np.ndarray
    distances: np.ndarray
    given_by: list[list[int]]
    ids: list[Any] | None = None

    @property
    def text(self) -> str:
        """A line for each word: its probability, and how many neighbors have it."""
        width = max((len(str(word)) for word in self.words), default=0)
        lines = []
        for word, p, givers in zip(self.words, self.probabilities, self._givers(), strict=True):
            by = f"{len(givers)} of {len(self.neighbors)} neighbors" + (f": {_few(givers)}" if givers else "")
            lines.append(f"{word!s:<{width}}  {100 * p:4.0f} %  {by}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything, the text too, as values that ``json.dumps`` takes."""
        return {**super().to_dict(), "neighbors": self.neighbors.tolist(), "distances": self.distances.tolist()}

    def _repr_html_(self) -> str:
        each = zip(self.words, self.probabilities, self._givers(), strict=True)
        rows = [(str(word), f"{100 * p:.0f} %", _few(givers)) for word, p, givers in each]
        head = ("word", "probability", f"given by, of {len(self.neighbors)} neighbors")
        return html_table("", head, rows)

    def _givers(self) -> list[list[Any]]:
        """For every word the names, or row numbers, of the neighbors that have it."""
        if self.ids is None:
            return list(self.given_by)
        name = dict(zip(self.neighbors.tolist(), self.ids, strict=True))
        return [[name[row] for row in rows] for rows in self.given_by]


def _few(givers: list[Any]) -> str:
    return ", ".join(map(str, givers[:GIVERS_SHOWN])) + (", …" if len(givers) > GIVERS_SHOWN else "")
