"""A small collection: all its products with some queries are held at once.

    rows by class ──► products with the queries ─┬─► best of all
                      (float32)                  └─► lowest score of each class ──► classes in order, but for
                                                                                    those that float32 cannot tell apart

Where only the *order* of the classes is wanted, hardly any row has to be measured: scores decide it unless two of them
lie within the slack. ``plan.py`` says where this pays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearsay.neighbors.by_class.grouped_rows import GroupedRows, list_best_of_all

QUERIES_AT_ONCE = 240
ROOM = 2  # times the members wanted are listed at most


@dataclass(frozen=True)
class Multiplied:
    """Queries and their products with all rows.

    products : (n_rows, n_queries) float32, −inf for a row that is the query itself.
    slack : (n_queries,)
    """

    products: np.ndarray
    slack: np.ndarray


@dataclass(frozen=True)
class ClassCandidates:
    """The classes of each query by score, and the rows that have to be measured to be certain.

    numbers : (n_queries, n_classes) int64, −1 fills up.
    members : (n_queries, n_listed) int64, row numbers, −1 fills up. Those of one class follow each other.
    full : (n_queries,) bool, more rows lie too close than can be listed: nothing is certain.
    """

    numbers: np.ndarray
    members: np.ndarray
    full: np.ndarray


class SmallRows:
    """The rows of a small collection, by class; at most 128 classes, whose numbers fit beside a score."""

    def __init__(self, rows: GroupedRows, n_classes: int) -> None:
        self.grouped = rows
        self.n_classes = n_classes
        self._starts = np.searchsorted(rows.labels, np.arange(n_classes + 1))

    @property
    def block_size(self) -> int:
        """How many queries to search together."""
        return self.grouped.rows.block_size(QUERIES_AT_ONCE)

    def times(self, Q: np.ndarray, left_out: np.ndarray) -> Multiplied:
        """Multiply queries; ``left_out`` names the row that each of them is (or is empty)."""
        queries, slack = self.grouped.prepared(Q)
        products = self.grouped.prepared_rows()[0] @ queries.T
        places = self.grouped.place[left_out]
        is_row = np.flatnonzero(places >= 0)
        products[places[is_row], is_row] = -np.inf
        return Multiplied(products, slack)

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
        from nearsay.neighbors.by_class import small_kernels as small_loops

        products, slack = queries.products, queries.slack
        half_norms, n = self.grouped.prepared_rows()[1], len(slack)
        lowest = np.empty((self.n_classes, n), np.float32)
        listed = np.empty((n, self.grouped.room(max(1, n_members), ROOM) + 1), np.int64)
        counts, numbers = np.zeros(n, np.int64), np.empty((n, self.n_classes), np.int64)
        lines = products, half_norms, self.grouped.order, self._starts
        if n_members:
            places, following = np.empty(lowest.shape, np.int32), np.empty_like(lowest)
            small_loops.best_of_classes(products, half_norms, self._starts, lowest, places, following)
            self._order(lowest, numbers)
            best = lowest, places, following, numbers
            small_loops.members_of_classes(*lines, *best, slack, n_members, n_near, listed, counts)
        else:
            small_loops.lowest_of_classes(products, half_norms, self._starts, lowest)
            self._order(lowest, numbers)
            small_loops.members_in_doubt(*lines, lowest, numbers, slack, listed, counts)
        members = listed[:, : int(counts.max(initial=0))]
        members[np.arange(members.shape[1]) >= counts[:, None]] = -1
        return ClassCandidates(numbers, members, counts == listed.shape[1] - 1)

    def _order(self, lowest: np.ndarray, numbers: np.ndarray) -> None:
        """Fill in the classes by their lowest scores."""
        from nearsay.neighbors.by_class.small_kernels import classes_by_score, sortable

        keys = np.empty(numbers.shape, np.int32)
        sortable(lowest.view(np.int32), keys)
        keys.sort(axis=1)
        classes_by_score(keys, lowest, numbers)
