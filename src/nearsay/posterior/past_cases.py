"""The collection asked about its own rows, each left out by its number: the past cases that answers are judged by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nearsay.arrays import row_blocks, rows_within
from nearsay.errors import InputError
from nearsay.neighbors.class_order import MEMBERS_OF_NEAREST
from nearsay.neighbors.labeled import LIST_ALL_UP_TO, ROWS_ASKED, LabeledNeighbors
from nearsay.neighbors.table import NeighborTable

ROWS_AT_ONCE = 4096
# A table of past cases takes no more memory than this. Where one of all rows would, as many as fit are drawn.
TABLE_BYTES = 256 << 20
# So many rows of a larger collection are asked as past cases. A share of them is then known to half a hundredth
# (one standard error is at most √(¼ / 10,000)), and a few weights far better; asking a million rows would take a
# hundred times as long, for a digit that answers do not need.
MAX_PAST_CASES = 10_000
SAMPLE_ABOVE = 5000
SAMPLE_SIZE = 2000


def left_out_blocks(labeled: LabeledNeighbors, k: int) -> Iterator[tuple[np.ndarray, NeighborTable]]:
    """The whole leave-one-out table, as (row numbers, their neighbors) that need not be held together."""
    live = labeled.search.rows_.live_numbers
    for block in row_blocks(len(live), size=ROWS_AT_ONCE):
        yield live[block], labeled.leave_one_out(k, rows=live[block])


def possible_members(members: Sequence[int] | None, labels: np.ndarray) -> tuple[int, ...] | None:
    """The numbers of members to ask for, where a posterior asks for these; None where it asks for no classes.

    Left out, a row leaves one fewer in its class: a mean over more than those
    would be of other things for the true class than for others. So a number that
    the usual class could not fill is lowered.

    >>> possible_members((1, 4, 16), np.array([0, 0, 0, 1, 1, 1]))
    (1, 2)
    """
    if members is None:
        return None
    numbers = np.unique(np.asarray(members, None if len(members) else np.int64))
    if numbers.dtype.kind not in "iu" or numbers.min(initial=1) < 1:
        raise InputError(f"members must be whole numbers of at least 1, such as (1, 4); got {members!r}.")
    usual = int(np.median(np.bincount(labels)[labels])) if len(labels) else 1
    return tuple(np.unique(np.minimum(numbers, max(1, usual - 1))).tolist())


def rows_judged(
    n_rows: int,
    k: int,
    members: tuple[int, ...] | None,
    n_classes: int,
    n_groups: int = 1,
    max_past_cases: int | None = MAX_PAST_CASES,
) -> np.ndarray | None:
    """Numbers of the rows that are asked as past cases, in order; None for all of them.

    At most ``max_past_cases`` (None: all), and no more than a table has room for.
    Drawn with a fixed seed: a choice in even steps could meet the same class again and again.

    >>> rows_judged(9_000, 5, (1, 4), n_classes=10) is None, len(rows_judged(60_000, 5, (1, 4), n_classes=10))
    (True, 10000)
    >>> rows_judged(60_000, 5, (1, 4), n_classes=10, max_past_cases=None) is None
    True
    """
    line = 16 * k
    if members is not None:
        n_listed = n_classes if n_classes <= LIST_ALL_UP_TO else max(k, ROWS_ASKED)
        line += 8 * (n_listed * (2 if members else 1) + min(n_listed, MEMBERS_OF_NEAREST) * len(members) + 1)
    most = rows_within(TABLE_BYTES, line * n_groups, most=min(n_rows, max_past_cases or n_rows))
    if most == n_rows:
        return None
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def rows_not_judged(rows: np.ndarray | None, n_rows: int) -> Iterator[np.ndarray]:
    """Numbers of the other rows, some at a time."""
    others = np.setdiff1d(np.arange(n_rows), np.arange(n_rows) if rows is None else rows)
    for part in row_blocks(len(others), size=ROWS_AT_ONCE):
        yield others[part]


class PastCases:
    """The rows of a labeled search, each asked about the others; what is asked for again is kept.

    A pass over all rows also remembers the distances of a few, for novelty:
    of every row in a collection of up to 5,000, otherwise of a seeded sample
    of 2,000. Without such a pass those rows are searched when first asked for.
    ``max_past_cases`` is how many rows of a larger collection are judged; None for all.
    """

    max_past_cases: int | None = MAX_PAST_CASES  # where a file of an earlier version does not say

    def __init__(
        self, labeled: LabeledNeighbors, seed: int = 0, *, max_past_cases: int | None = MAX_PAST_CASES
    ) -> None:
        self.labeled = labeled
        self.seed = seed
        self.max_past_cases = max_past_cases
        self._kept: dict[tuple[int, tuple[int, ...] | None], tuple[NeighborTable, np.ndarray | None]] = {}
        self._sampled: np.ndarray | None = None

    @property
    def n_others(self) -> int:
        """How many rows a row has beside itself."""
        return len(self.labeled) - 1

    def judged(
        self, k: int, members: tuple[int, ...] | None, *, every_row: bool = False
    ) -> tuple[NeighborTable, np.ndarray | None]:
        """The leave-one-out table of the rows that are judged, and their numbers; None for all rows.

        ``every_row`` asks for all of them, however large the table.
        """
        rows = rows_judged(
            len(self.labeled.labels), k, members, self.labeled.n_classes, max_past_cases=self.max_past_cases
        )
        if every_row and rows is not None:
            return self.labeled.leave_one_out(k, members), None  # too large to be kept
        if (k, members) not in self._kept:
            table = self.labeled.leave_one_out(k, members, rows)
            self._kept = {(k, members): (table, rows)}
            if rows is None:
                self._sampled = table.distances[self.sample()]
        return self._kept[k, members]

    def sample(self) -> np.ndarray:
        """Numbers of the rows whose distances are remembered, in order."""
        live = self.labeled.search.rows_.live_numbers
        if len(live) <= SAMPLE_ABOVE:
            return live
        return np.sort(np.random.default_rng(self.seed).choice(live, SAMPLE_SIZE, replace=False))

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
