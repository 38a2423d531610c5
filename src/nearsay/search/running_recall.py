"""Running estimate of the recall of an approximate search: some queries are also searched exactly.

Tuning measures recall on rows that were held out while the structure was built. Actual queries may differ, and rows
change, so it is measured again on one query in a thousand by default.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import numpy as np

# The estimate is the mean over so many of the last checked queries.
REMEMBERED = 1000


@dataclass(frozen=True)
class MeasuredRecall:
    """Recall on the last queries that were also searched exactly.

    Attributes
    ----------
    recall : mean share of the true neighbors that were found; NaN before the first such query.
    standard_error : of that mean; infinite before the second.
    n_queries : how many queries it is the mean of.

    >>> print(MeasuredRecall(0.973, 0.004, 310))
    recall 0.973 ± 0.004 on 310 queries
    """

    recall: float
    standard_error: float
    n_queries: int

    def __str__(self) -> str:
        if not self.n_queries:
            return "recall not measured yet"
        return f"recall {self.recall:.3f} ± {self.standard_error:.3f} on {self.n_queries:,} queries"


class RunningRecall:
    """Chooses queries to check, and keeps their recalls; thread-safe.

    >>> running = RunningRecall(share=0.5)
    >>> running.chosen(5), running.chosen(5)
    (array([1, 3]), array([0, 2, 4]))
    >>> running.tell(np.array([1.0, 0.5]))
    >>> running.measured().recall
    0.75
    """

    def __init__(self, share: float) -> None:
        self._every = round(1 / share) if share else 0
        self._n_queries = 0
        self._shares: deque[float] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()

    def chosen(self, n_queries: int) -> np.ndarray:
        """Which of the next queries to check: every so many, counted over all batches."""
        if not self._every:
            return np.empty(0, np.int64)
        with self._lock:
            before = self._n_queries
            self._n_queries += n_queries
        return np.arange(self._every - 1 - before % self._every, n_queries, self._every)

    def tell(self, shares: np.ndarray) -> None:
        """Record the recall of each of some queries."""
        with self._lock:
            self._shares.extend(shares.tolist())

    def measured(self) -> MeasuredRecall:
        """The estimate so far."""
        with self._lock:
            shares = np.array(self._shares)
        n = len(shares)
        error = float(shares.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
        return MeasuredRecall(float(shares.mean()) if n else float("nan"), error, n)

    def __reduce__(self) -> tuple[type[RunningRecall], tuple[float]]:
        """A copy, or one read from a file, starts from zero."""
        return type(self), (1 / self._every if self._every else 0.0,)
