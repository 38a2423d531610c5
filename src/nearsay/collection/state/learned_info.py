"""A summary of what a collection has learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LearnedInfo:
    """What is learned, and from how many rows.

    Attributes
    ----------
    n_rows, version : the number of rows it was learned from, and the event it was learned after.
    n_voters : how many rows vote now.
    of_labels : whether any row had a label, or keywords.
    posterior, views, n_neighbors : what past cases chose.
    record : of all past answers: cases, right ones, and the range of the true share; None without any.

    >>> print(LearnedInfo(4500, 7, 6120, "pooled", ["euclidean"], 10))
    Learned on 4,500 rows, now 6,120: learn again to make use of them. pooled over euclidean, k = 10.
    """

    n_rows: int
    version: int
    n_voters: int
    posterior: str
    views: list[str]
    n_neighbors: int
    of_labels: bool = True
    record: dict[str, Any] | None = None

    @property
    def stale(self) -> bool:
        """Whether a tenth of the rows has come or gone since."""
        return abs(self.n_voters - self.n_rows) * 10 >= max(self.n_rows, 10)

    def __str__(self) -> str:
        if not self.of_labels:
            return f"Nothing is labeled yet. {self.n_voters:,} items are compared by {' + '.join(self.views)}."
        grown = f"Learned on {self.n_rows:,} rows, now {self.n_voters:,}"
        again = ": learn again to make use of them" if self.stale else ""
        return f"{grown}{again}. {self.posterior} over {' + '.join(self.views)}, k = {self.n_neighbors}."
