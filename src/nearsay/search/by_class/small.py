"""A small collection: its products with a query fit into little memory, so all of them are at hand at once.

    rows by class ──► product with the queries ─┬─► best of all
                      (float32; of the rows     └─► lowest score of each class ──► classes in order, but for
                       with themselves, half)                                      those that float32 cannot tell apart

Where only the *order* of the classes is wanted, hardly any row has to be
measured: scores settle it unless two of them lie within the slack.

What that gains over going block by block (``python -m benchmarks.small_collections``,
one thread): 1.1 to 1.8 times as fast for the order of the classes of 1,600 or 2,000
rows, left one out, and 1.9 times for four members of each of 100 classes; 150 rows
lose, 1.5 times for 1,000 queries. The nearest rows alone gained 1.2 times at most and
lost for few rows, and several members of each of a few classes lost, so both go block
by block, as does one of each where classes are small (``neighbors/by_class/class_search.py``). Timed
apart: copying half of the products (``times_others``) gains 1.1 times with 64
columns, and 1.5 times with 256.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nearsay.core.arrays import row_blocks, row_width
from nearsay.core.parallel import in_parallel
from nearsay.distances.distance import Distance
from nearsay.search.by_class.grouped import GroupedRows, list_best_of_all
from nearsay.search.row_store import HeldRows
from nearsay.search.screening.prepared_rows import KEEP_UP_TO

SMALL = 2048  # rows whose products with each other take 16 MB
QUERIES_AT_ONCE = 240
ROOM = 2  # times the members wanted are listed at most
MOST_CLASSES = 128  # whose numbers fit beside a score (``small_kernels.CLASS_BITS``)


@dataclass(frozen=True)
class Multiplied:
    """Queries and their products with all rows.

    Attributes
    ----------
    products : (n_rows, n_queries) float32
        −inf for a row that is the query itself.
    slack : (n_queries,)
    """

    products: np.ndarray
    slack: np.ndarray


OwnBlock = tuple[np.ndarray, Multiplied]  # row numbers, and these rows as queries


@dataclass(frozen=True)
class ClassCandidates:
    """The classes of each query by score, and the rows that have to be measured to be certain.

    Attributes
    ----------
    numbers : (n_queries, n_classes) int64
        −1 fills up.
    members : (n_queries, n_listed) int64
        Row numbers, −1 fills up. Those of one class follow each other.
    full : (n_queries,) bool
        More rows lie too close than can be listed: nothing is certain.
    """

    numbers: np.ndarray
    members: np.ndarray
    full: np.ndarray


def is_small(distance: Distance, rows: HeldRows) -> bool:
    """Whether the rows in float32, and their products with each other, fit into little memory, if there are any."""
    few = 0 < rows.n_live <= SMALL and 4 * len(rows) * row_width(rows.items) <= KEEP_UP_TO
    return distance.has_euclidean_form and few


class SmallRows:
    """Not too many rows by class; ``n_classes`` is at most 128."""

    def __init__(self, rows: GroupedRows, n_classes: int) -> None:
        self.grouped = rows
        self.n_classes = n_classes
        self._starts = np.searchsorted(rows.labels, np.arange(n_classes + 1))

    @property
    def queries_at_once(self) -> int:
        return self.grouped.rows.block_size(QUERIES_AT_ONCE)

    def times(self, Q: np.ndarray, left_out: np.ndarray) -> Multiplied:
        """Multiply queries; ``left_out`` names the row that each of them is (or is empty)."""
        queries, slack = self.grouped.prepared(Q)
        return self._without(self.grouped.prepared_rows()[0] @ queries.T, left_out, slack)

    def times_others(self) -> list[Callable[[], OwnBlock]]:
        """All rows multiplied with all, each without itself: some at a time, for each thread to take in turn.

        A product is the same from both sides, so half of them are copied.
        """
        rows, order = self.grouped.prepared_rows()[0], self.grouped.order
        parts = list(row_blocks(len(rows), size=self.queries_at_once))
        slack = np.concatenate([self.grouped.prepared(self.grouped.rows.take(order[part]))[1] for part in parts])
        space = np.empty(len(rows) ** 2, np.float32)
        products = [
            space[len(rows) * part.start : len(rows) * part.stop].reshape(len(rows), part.stop - part.start)
            for part in parts
        ]

        def multiply(number: int) -> None:
            start = parts[number].start
            np.matmul(rows[start:], rows[parts[number]].T, out=products[number][start:])

        def block(number: int) -> OwnBlock:
            part, out = parts[number], products[number]
            for earlier in range(number):
                out[parts[earlier]] = products[earlier][part].T
            return order[part], self._without(out, order[part], slack[part])

        in_parallel(multiply, range(len(parts)))
        return [partial(block, number) for number in range(len(parts))]

    def nearest(self, queries: Multiplied, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers that hold the ``k`` nearest (−1 fills up), and whether there were too many to tell."""
        from nearsay.search.screening.shortlist_kernels import Shortlists, list_length

        lists = Shortlists(queries.slack, k, list_length(k), np.float32)
        list_best_of_all(queries.products, self.grouped.prepared_rows()[1], self.grouped.order, lists)
        return lists.finish(), lists.crowded

    def classes(self, queries: Multiplied, n_members: int, n_near: int) -> ClassCandidates:
        """The classes in order, and the rows to measure: for that order, and for the members that are asked for.

        These are the nearest ``n_members`` of the ``n_near`` nearest classes and the nearest of others, or none (0).
        """
        from nearsay.search.by_class import small_kernels as small_loops

        products, slack = queries.products, queries.slack
        half_norms, n = self.grouped.prepared_rows()[1], len(slack)
        lowest = np.empty((self.n_classes, n), np.float32)
        found = np.empty((n, self.grouped.room(max(1, n_members), ROOM) + 1), np.int64)
        counts, numbers = np.zeros(n, np.int64), np.empty((n, self.n_classes), np.int64)
        lines = products, half_norms, self.grouped.order, self._starts
        if n_members:
            places, following = np.empty(lowest.shape, np.int32), np.empty_like(lowest)
            small_loops.best_of_classes(products, half_norms, self._starts, lowest, places, following)
            self._order(lowest, numbers)
            best = lowest, places, following, numbers
            small_loops.members_of_classes(*lines, *best, slack, n_members, n_near, found, counts)
        else:
            small_loops.lowest_of_classes(products, half_norms, self._starts, lowest)
            self._order(lowest, numbers)
            small_loops.members_in_doubt(*lines, lowest, numbers, slack, found, counts)
        members = found[:, : int(counts.max(initial=0))]
        members[np.arange(members.shape[1]) >= counts[:, None]] = -1
        return ClassCandidates(numbers, members, counts == found.shape[1] - 1)

    def _order(self, lowest: np.ndarray, numbers: np.ndarray) -> None:
        """Fill in the classes by their lowest scores."""
        from nearsay.search.by_class.small_kernels import classes_by_score, sortable

        keys = np.empty(numbers.shape, np.int32)
        sortable(lowest.view(np.int32), keys)
        keys.sort(axis=1)
        classes_by_score(keys, lowest, numbers)

    def _without(self, products: np.ndarray, left_out: np.ndarray, slack: np.ndarray) -> Multiplied:
        own = self.grouped.place[left_out]
        here = np.flatnonzero(own >= 0)
        products[own[here], here] = -np.inf
        return Multiplied(products, slack)
