"""Rows by class in float64, and the squared distances of queries to the nearest of each class, with bounds.

A squared distance comes as |x|² − 2q·x + |q|², of centered rows. For d columns and unit roundoff u it is off from the
square of the measured distance D by at most

    e = 24 (d + 8) u · (|q| + |x|)²,  where  |q| + |x| ≤ 1.001 (2|q| + √t)  for the computed square t.

Product and norms lose (d + 8)·u·(|q| + |x|)² at most, twice (``bounds.summing``), measuring eight times that, twice
(``bounds.measuring``); the rest of 24 is for |q|² and the sums. And |x| ≤ |q| + D, where D² ≤ t + e. So e grows with t:
the i-th lowest square of a class is no further off than e of the i-th lowest computed one. Squares that vanish in
float64 are nothing beside 10⁻²⁰ of the longest row's, which is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.neighbors.by_class.grouped_rows import GroupedRows
from nearsay.search.screening import bounds
from nearsay.search.screening.prepared_rows import KEEP_UP_TO


@dataclass(frozen=True)
class NearRows:
    """What products tell about the rows near some queries.

    candidates : (n_queries, n_listed) int64, row numbers among which are the nearest of all and of each class; −1
        fills up.
    lowest : (n_queries, n_classes, n_lowest) the lowest squared distances to members of each class, ascending; +inf
        where there are fewer.
    lengths : (n_queries,) of the centered queries.
    undecided : (n_queries,) bool, more rows lie too close than could be listed, or the query is too far away.
    """

    candidates: np.ndarray
    lowest: np.ndarray
    lengths: np.ndarray
    undecided: np.ndarray


class Float64Rows:
    """The rows by class, centered, with their squared norms in one more column; kept where they take little memory."""

    def __init__(self, grouped: GroupedRows, n_classes: int) -> None:
        self._grouped, self._n_classes = grouped, n_classes
        self._starts = np.searchsorted(grouped.labels, np.arange(n_classes + 1))
        self.largest = int(np.diff(self._starts).max(initial=0))
        n_columns = len(grouped.geometry.center)
        # Of an error: the share of (2|q| + √t)², and what is added.
        self.share = 24.5 * (n_columns + 8) * bounds.DOUBLE_ROUNDOFF
        self.least = self.share * 1e-20 * grouped.geometry.radius**2
        kept = 8 * n_columns * len(grouped.order) <= KEEP_UP_TO
        self._kept = self._prepared(slice(0, len(grouped.order))) if kept else None

    def _prepared(self, places: slice) -> np.ndarray:
        grouped = self._grouped
        rows = np.empty((places.stop - places.start, len(grouped.geometry.center) + 1))
        for part in row_blocks(len(rows), size=grouped.rows.block_size(len(rows))):
            some = rows[part, :-1]
            np.subtract(grouped.rows.take(grouped.order[places][part]), grouped.geometry.center, out=some)
            np.einsum("ij,ij->i", some, some, out=rows[part, -1])
        return rows

    def near(self, Q: np.ndarray, left_out: np.ndarray, k: int, n_lowest: int, room: int) -> NearRows:
        """The ``n_lowest`` squares of each class, and at most ``room`` candidates beside the ``k`` nearest of all."""
        from nearsay.neighbors.by_class.float64_kernels import keep_within, list_within

        n, grouped = len(Q), self._grouped
        # A product with a prepared row is |x|² − 2q·x.
        queries = np.ones((n, len(grouped.geometry.center) + 1))
        centered = np.subtract(Q, grouped.geometry.center, out=queries[:, :-1])
        of_queries = np.einsum("ij,ij->i", centered, centered)
        centered *= -2
        lengths = np.sqrt(of_queries)
        lowest = np.full((n, self._n_classes, n_lowest), np.inf)
        listed, counts = np.empty((n, 4 * k + room), np.int64), np.zeros(n, np.int64)
        of_listed = np.empty(listed.shape)
        best, farthest = np.empty((n, 0)), np.full(n, np.inf)  # the k lowest of all so far, and the last of them
        query_places, space = grouped.place[left_out], np.empty(n * self.largest)
        for number in range(self._n_classes):
            places = slice(int(self._starts[number]), int(self._starts[number + 1]))
            size = places.stop - places.start
            if not size:
                continue
            rows = self._prepared(places) if self._kept is None else self._kept[places]
            squares = np.matmul(queries, rows.T, out=space[: n * size].reshape(n, size))
            itself = np.flatnonzero((query_places >= places.start) & (query_places < places.stop))
            squares[itself, query_places[itself] - places.start] = np.inf
            low, groups = _lowest(squares, max(k, n_lowest))
            low += of_queries[:, None]
            lowest[:, number, : low.shape[1]] = low[:, :n_lowest]
            limits = low[:, 0]
            if k:
                best = np.hstack([best, low[:, :k]])
                best.partition(min(k, best.shape[1]) - 1, axis=1)
                best = best[:, :k]
                farthest = best[:, -1] if best.shape[1] == k else farthest
                limits = np.maximum(limits, farthest)
            limits = self._within(lengths, limits) - of_queries
            list_within(squares, groups, limits, grouped.order[places], listed, of_listed, counts)
        limits = np.maximum(lowest[:, :, 0], farthest[:, None]) if k else lowest[:, :, 0]
        limits = self._within(lengths[:, None], limits) - of_queries[:, None]
        width = keep_within(listed, of_listed, counts, grouped.label_of, limits)
        too_far = ~(lengths <= bounds.farthest(grouped.geometry.radius))
        return NearRows(listed[:, :width], lowest, lengths, (counts == listed.shape[1]) | too_far)

    def _within(self, lengths: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Up to which computed square a row may be as near as one with this computed square."""
        reach = 2 * lengths + np.sqrt(np.maximum(squares, 0.0))
        return squares + 2.1 * (self.share * reach * reach + self.least)


def _lowest(squares: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``n`` lowest numbers of each line, ascending, or all where there are fewer; and the lowest of its groups."""
    from nearsay.neighbors.by_class.float64_kernels import lowest_of_lines

    if squares.shape[1] <= n:
        return np.sort(squares, axis=1), squares
    size = max(1, squares.shape[1] // (2 * n))
    groups, low = np.empty((len(squares), squares.shape[1] // size)), np.empty((len(squares), 2 * n + 16))
    is_crowded, widest = lowest_of_lines(squares, n, size, groups, low)
    crowded = np.flatnonzero(is_crowded)
    low[crowded, :n] = np.partition(squares[crowded], n - 1, axis=1)[:, :n]
    low[crowded, n:] = np.inf
    low[:, :widest].sort(axis=1)  # what lies behind is infinite
    return low[:, :n], groups
