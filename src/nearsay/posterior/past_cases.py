"""The collection asked about its own rows, each left out by its number: the past cases that answers are judged by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearsay.arrays import row_blocks, rows_within
from nearsay.neighbors.class_table import LIST_ALL_UP_TO, ROWS_ASKED
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable

ROWS_AT_ONCE = 4096
# A table of past cases takes no more memory than this. Where one of all rows would, as many as fit are drawn.
TABLE_BYTES = 64 << 20
SAMPLE_ABOVE = 5000
SAMPLE_SIZE = 2000


def left_out_blocks(index: NeighborIndex, k: int) -> Iterator[tuple[np.ndarray, NeighborTable]]:
    """The whole leave-one-out table, as (row numbers, their neighbors) that need not be held together."""
    live = index.search_.rows_.live_numbers
    for block in row_blocks(len(live), size=ROWS_AT_ONCE):
        yield live[block], index.leave_one_out(k, live[block])


def rows_judged(n_rows: int, k: int, n_members: int | None, n_classes: int, n_groups: int = 1) -> np.ndarray | None:
    """Numbers of the rows that are asked as past cases, in order; None for all of them.

    Drawn with a fixed seed: a choice in even steps could meet the same class again and again.

    >>> rows_judged(60_000, 5, 4, n_classes=10) is None, len(rows_judged(60_000, 5, 4, n_classes=128))
    (True, 12905)
    """
    line = 16 * k
    if n_members is not None:
        line += 8 * (1 + n_members) * (n_classes if n_classes <= LIST_ALL_UP_TO else max(k, ROWS_ASKED))
    most = rows_within(TABLE_BYTES, line * n_groups, most=n_rows)
    if most == n_rows:
        return None
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def rows_not_judged(rows: np.ndarray | None, n_rows: int) -> Iterator[np.ndarray]:
    """Numbers of the other rows, some at a time."""
    others = np.setdiff1d(np.arange(n_rows), np.arange(n_rows) if rows is None else rows)
    for part in row_blocks(len(others), size=ROWS_AT_ONCE):
        yield others[part]


class PastCases:
    """Leave-one-out neighbors of a collection, searched for at most once in ``fit``.

    A pass over all rows also remembers the distances of a few, for novelty:
    of every row in a collection of up to 5,000, otherwise of a seeded sample
    of 2,000. Without such a pass those rows are searched when first asked for.
    """

    def __init__(self, index: NeighborIndex, seed: int) -> None:
        self.index = index
        self.seed = seed
        self._sampled: np.ndarray | None = None

    @property
    def n_others(self) -> int:
        """How many rows a row has beside itself."""
        return self.index.search_.rows_.n_live - 1

    def sample(self) -> np.ndarray:
        """Numbers of the rows whose distances are remembered, in order."""
        live = self.index.search_.rows_.live_numbers
        if len(live) <= SAMPLE_ABOVE:
            return live
        return np.sort(np.random.default_rng(self.seed).choice(live, SAMPLE_SIZE, replace=False))

    def remember(self, table: NeighborTable) -> None:
        """Take note of the leave-one-out neighbors of all row numbers, which someone searched for."""
        self._sampled = table.distances[self.sample()]

    def blocks(self, k: int) -> Iterator[tuple[np.ndarray, NeighborTable]]:
        """The same for live rows and ``k`` ≤ ``n_others``, block by block, so that it is never held whole."""
        sample, kept = self.sample(), []
        for rows, table in left_out_blocks(self.index, k):
            kept.append(table.distances[np.isin(rows, sample)])
            yield rows, table
        self._sampled = np.concatenate(kept)

    def usual_distances(self, k: int) -> np.ndarray:
        """How far the sampled rows are from their own k-th neighbor, smallest first; k ≤ ``n_others``."""
        if self._sampled is None or self._sampled.shape[1] < k:
            self._sampled = self.index.leave_one_out(k, self.sample()).distances
        return np.sort(self._sampled[:, k - 1])
