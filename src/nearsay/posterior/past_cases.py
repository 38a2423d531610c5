"""The collection asked about its own rows, each left out by its number: the past cases that answers are judged by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearsay.arrays import row_blocks, rows_within
from nearsay.neighbors.labeled import LIST_ALL_UP_TO, ROWS_ASKED, LabeledNeighbors
from nearsay.neighbors.table import NeighborTable

ROWS_AT_ONCE = 4096
# A table of past cases takes no more memory than this. Where one of all rows would, as many as fit are drawn.
TABLE_BYTES = 64 << 20
SAMPLE_ABOVE = 5000
SAMPLE_SIZE = 2000


def left_out_blocks(labeled: LabeledNeighbors, k: int) -> Iterator[tuple[np.ndarray, NeighborTable]]:
    """The whole leave-one-out table, as (row numbers, their neighbors) that need not be held together."""
    live = labeled.search.rows_.live_numbers
    for block in row_blocks(len(live), size=ROWS_AT_ONCE):
        yield live[block], labeled.leave_one_out(k, rows=live[block])


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


def sample_of(rows: np.ndarray, seed: int) -> np.ndarray:
    """All of these rows, or of more than 5,000 a seeded sample of 2,000, in order."""
    if len(rows) <= SAMPLE_ABOVE:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, SAMPLE_SIZE, replace=False))


class PastCases:
    """The rows of a labeled search, each asked about the others; what is asked for again is kept.

    A pass over all rows also remembers the distances of a few, for novelty:
    of every row in a collection of up to 5,000, otherwise of a seeded sample
    of 2,000. Without such a pass those rows are searched when first asked for.
    """

    def __init__(self, labeled: LabeledNeighbors, seed: int = 0) -> None:
        self.labeled = labeled
        self.seed = seed
        self._kept: dict[tuple[int, int | None], tuple[NeighborTable, np.ndarray | None]] = {}
        self._sampled: np.ndarray | None = None

    @property
    def n_others(self) -> int:
        """How many rows a row has beside itself."""
        return len(self.labeled) - 1

    def judged(
        self, k: int, n_members: int | None, *, every_row: bool = False
    ) -> tuple[NeighborTable, np.ndarray | None]:
        """The leave-one-out table of the rows that are judged, and their numbers; None for all rows.

        ``every_row`` asks for all of them, however large the table.
        """
        rows = rows_judged(len(self.labeled.labels), k, n_members, self.labeled.n_classes)
        if every_row and rows is not None:
            return self.labeled.leave_one_out(k, n_members), None  # too large to be kept
        if (k, n_members) not in self._kept:
            table = self.labeled.leave_one_out(k, n_members, rows)
            self._kept = {(k, n_members): (table, rows)}
            if rows is None:
                self._sampled = table.distances[self.sample()]
        return self._kept[k, n_members]

    def sample(self) -> np.ndarray:
        """Numbers of the rows whose distances are remembered, in order."""
        return sample_of(self.labeled.search.rows_.live_numbers, self.seed)

    def sampled(self, k: int, n_members: int | None) -> tuple[NeighborTable, np.ndarray | None]:
        """The leave-one-out table of the sampled rows, and their numbers; as ``judged`` where all rows are."""
        rows = self.sample()
        if len(rows) == len(self.labeled):
            return self.judged(k, n_members)
        table = self.labeled.leave_one_out(k, n_members, rows)
        self._sampled = table.distances
        return table, rows

    def blocks(self, k: int) -> Iterator[tuple[np.ndarray, NeighborTable]]:
        """The neighbors of live rows, ``k`` ≤ ``n_others``, block by block, so that they are never held together."""
        sample, kept = self.sample(), []
        for rows, table in left_out_blocks(self.labeled, k):
            kept.append(table.distances[np.isin(rows, sample)])
            yield rows, table
        self._sampled = np.concatenate(kept)

    def usual_distances(self, k: int) -> np.ndarray:
        """How far the sampled rows are from their own k-th neighbor, smallest first; k ≤ ``n_others``."""
        if self._sampled is None or self._sampled.shape[1] < k:
            self._sampled = self.labeled.leave_one_out(k, rows=self.sample()).distances
        return np.sort(self._sampled[:, k - 1])
