"""The nearest members of *each class*: what ranks of labels and within-class distances are read from.

    rows, grouped by class      products with the queries
    ┌──────┬────┬─────────┐     ┌──────┬────┬─────────┐
    │ ant  │ bee│  cicada │ ──► │ best │best│  best   │ ──► measured, ordered: (queries, classes, members)
    └──────┴────┴─────────┘     └──────┴────┴─────────┘

Every class is a stretch of columns of one matrix product; a compiled pass
keeps of each stretch what can be among its nearest members. They are measured
by the distance itself, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nearsay.arrays import in_parallel, shares
from nearsay.errors import InputError
from nearsay.search.protocol import NeighborSearch
from nearsay.search.screen import Scorer, Screen

QUERIES_AT_ONCE = 512
COLUMNS_AT_ONCE = 1024
CANDIDATES_AT_ONCE = 1 << 21  # over all queries of a block: 32 MB with their distances
NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True)
class ClassTable:
    """For every query the nearest members of each class, nearest first.

    Attributes
    ----------
    indices : (n_queries, n_classes, n_members) int64
        Row numbers; −1 where a class has fewer members.
    distances : (n_queries, n_classes, n_members) float64
        Their distances; +inf where there is none.
    """

    indices: np.ndarray
    distances: np.ndarray

    def __len__(self) -> int:
        return len(self.indices)

    def first(self, n_members: int) -> ClassTable:
        """The nearest ``n_members`` of each class alone."""
        if not 1 <= n_members <= self.indices.shape[2]:
            raise InputError(f"This table holds {self.indices.shape[2]} members a class; {n_members} were asked for.")
        return ClassTable(self.indices[:, :, :n_members], self.distances[:, :, :n_members])


def nearest_by_class(
    search: NeighborSearch, labels: Any, Q: Any, n_members: int = 1, *, n_classes: int | None = None
) -> ClassTable:
    """The nearest ``n_members`` rows of each class for every query.

    ``labels`` gives the class number (0, 1, …) of every row that ``search`` holds.

    >>> from nearsay.search.exact import ExactSearch
    >>> search = ExactSearch().fit([[0.0], [1.0], [5.0]])
    >>> nearest_by_class(search, [0, 0, 1], [[2.0]]).distances
    array([[[1.],
            [3.]]])
    """
    Q = search.distance_.check(Q, name="Q", like=search.rows_.items)
    return _find(search, labels, Q.__getitem__, len(Q), n_members, n_classes, leave_out=False)


def leave_one_out_by_class(
    search: NeighborSearch, labels: Any, n_members: int = 1, *, n_classes: int | None = None
) -> ClassTable:
    """The nearest *other* ``n_members`` rows of each class for every row; a row is left out by its number.

    >>> from nearsay.search.exact import ExactSearch
    >>> search = ExactSearch().fit([[0.0], [1.0], [5.0]])
    >>> leave_one_out_by_class(search, [0, 0, 1]).indices[:, :, 0]
    array([[ 1,  2],
           [ 0,  2],
           [ 1, -1]])
    """
    held = search.rows_

    def rows(part: slice) -> Any:
        return held.between(part.start, part.stop)

    table = _find(search, labels, rows, len(held), n_members, n_classes, leave_out=True)
    if held.removed is not None:
        table.indices[held.removed] = -1
        table.distances[held.removed] = np.inf
    return table


def _find(
    search: NeighborSearch,
    labels: Any,
    queries: Callable[[slice], Any],
    n_queries: int,
    n_members: int,
    n_classes: int | None,
    *,
    leave_out: bool,
) -> ClassTable:
    from nearsay.neighbors.order import nearest_of_each_class

    labels, n_classes = _check_labels(labels, len(search.rows_), n_classes)
    if n_members < 1:
        raise InputError(f"At least one member of each class must be asked for; {n_members} came.")
    groups = _Groups(labels, search.rows_.live_numbers)
    screen = Screen(search.distance_, search.rows_) if search.distance_.has_euclidean_form else None
    table = ClassTable(
        np.empty((n_queries, n_classes, n_members), np.int64), np.empty((n_queries, n_classes, n_members))
    )

    def fill(part: slice) -> None:
        Q = queries(part)
        left_out = np.arange(part.start, part.stop) if leave_out else NOBODY
        candidates = groups.candidates(search, screen, Q, n_members, left_out)
        measured = np.empty(candidates.shape)
        for first, chunk in search.rows_.chunks():
            search.distance_.measure(Q, chunk, candidates, first, measured)
        nearest_of_each_class(candidates, measured, labels, table.indices[part], table.distances[part])

    fits = CANDIDATES_AT_ONCE // groups.room(n_members)
    in_parallel(fill, shares(n_queries, most=max(1, min(QUERIES_AT_ONCE, fits))))
    return table


def _check_labels(labels: Any, n_rows: int, n_classes: int | None) -> tuple[np.ndarray, int]:
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or (labels.dtype.kind not in "iu" and n_rows):
        raise InputError(
            f"Labels must be one class number for each of the {n_rows} rows;"
            f" an array of shape {labels.shape} and type {labels.dtype} came."
        )
    highest = int(labels.max(initial=-1))
    n_classes = highest + 1 if n_classes is None else n_classes
    if labels.min(initial=0) < 0 or highest >= n_classes:
        raise InputError(f"Class numbers must lie in 0 … {n_classes - 1}; {labels.min()} to {highest} came.")
    return labels.astype(np.int64, copy=False), n_classes


class _Groups:
    """Row numbers ordered by class, cut into blocks that each hold whole stretches of one class."""

    def __init__(self, labels: np.ndarray, live: np.ndarray) -> None:
        self.order = live[np.argsort(labels[live], kind="stable")]
        by_class = labels[self.order]
        # A very large class is cut into stretches; each gives its best, and ordering joins them again.
        longest = max(COLUMNS_AT_ONCE, len(live) // 128)
        changes = np.flatnonzero(np.diff(by_class)) + 1
        starts = np.concatenate([[0], changes, [len(live)]])
        self.starts = np.unique(
            np.concatenate([np.arange(a, b, longest) for a, b in pairwise(starts)] + [starts])
        ).astype(np.int64)
        self.column = np.full(len(labels), -1, np.int64)
        self.column[self.order] = np.arange(len(live))

    def blocks(self) -> Iterator[np.ndarray]:
        """Starts of the stretches (and the end of the last) of each block of about COLUMNS_AT_ONCE columns."""
        begin = 0
        while begin < len(self.starts) - 1:
            end = int(np.searchsorted(self.starts, self.starts[begin] + COLUMNS_AT_ONCE, side="right")) - 1
            end = max(end, begin + 1)
            yield self.starts[begin : end + 1]
            begin = end

    def room(self, n_members: int) -> int:
        """Candidates held for a query: one more than needed from each stretch, on average."""
        return (n_members + 1) * (len(self.starts) - 1) + 64

    def candidates(
        self, search: NeighborSearch, screen: Screen | None, Q: Any, n_members: int, left_out: np.ndarray
    ) -> np.ndarray:
        """Rows that hold the nearest members of each class; −1 fills up."""
        from nearsay.search.select import best_of_stretches

        score, slack = _measuring(search, Q) if screen is None else screen.scorer(Q)
        found = np.full((len(Q), self.room(n_members)), -1, np.int64)
        counts = np.zeros(len(Q), np.int64)
        crowded = np.zeros(len(Q), np.bool_)
        for starts in self.blocks():
            columns = self.order[starts[0] : starts[-1]]
            products, half_norms = score(columns)
            if len(left_out):
                self._hide(left_out, starts, products)
            best_of_stretches(
                products, half_norms, starts - starts[0], columns, n_members, slack, found, counts, crowded
            )
        if crowded.any():
            again = self.candidates(search, None, Q[crowded], n_members, left_out[crowded] if len(left_out) else NOBODY)
            found[crowded] = -1
            found[crowded, : again.shape[1]] = again
            counts[crowded] = (again >= 0).sum(axis=1)
        return found[:, : max(1, int(counts.max(initial=0)))]

    def _hide(self, left_out: np.ndarray, starts: np.ndarray, products: np.ndarray) -> None:
        """Put each query's own row out of reach."""
        columns = self.column[left_out] - starts[0]
        here = np.flatnonzero((columns >= 0) & (columns < starts[-1] - starts[0]))
        products[here, columns[here]] = -np.inf


def _measuring(search: NeighborSearch, Q: Any) -> tuple[Scorer, np.ndarray]:
    """Scores that are the distances themselves, in the shape of products."""

    def score(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distances = np.empty((len(Q), len(numbers)))
        wanted = np.broadcast_to(numbers, distances.shape)
        for first, chunk in search.rows_.chunks():
            search.distance_.measure(Q, chunk, wanted, first, distances)
        return -distances, np.zeros(len(numbers))

    return score, np.zeros(len(Q))
