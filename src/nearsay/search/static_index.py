"""Searches over structures that are built once: removed rows are filtered, added ones searched exactly.

    rows ──► structure over most of them ──► proposals ──► less the removed ──┐
        └──► rows it does not hold ────────► exact search, beside it ─────────┼──► candidates
        └──► all rows ──► exact search, for queries the structure left open ──┘

A tree or a graph is built once. The few rows that are added later are searched exactly. Removed rows stay in the
structure and are dropped from its proposals, of which there are enough more. After many changes the structure takes
them in or is rebuilt, in the background if wanted: the old one serves until the new one is ready. Row numbers never
change.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from nearsay.core.growing_array import GrowingArray
from nearsay.distances.distance import Distance
from nearsay.errors import InputError
from nearsay.search.exact import ExactSearch
from nearsay.search.protocol import SearchWriterLock, Versioned
from nearsay.search.rebuilding import Background
from nearsay.search.row_store import HeldRows
from nearsay.search.screening.candidate_tables import replace_lines

# A structure proposes a few more than needed: they settle ties at the edge, and its rounding.
A_FEW_MORE = 4
# A second search for this many times as many costs less than exact search over all rows; a third does not.
SECOND_TIMES = 4
LATE_SHARE, REMOVED_SHARE = 0.02, 0.2


@dataclass(frozen=True)
class Proposals:
    """The proposals of a structure.

    Attributes
    ----------
    places : (n_queries, n_wanted) int64
        Places in the structure, nearest first; −1 where it has no more.
    certain : (n_queries,) int64
        How many of them, from the left, are settled: no row that was not proposed belongs before them.
    """

    places: np.ndarray
    certain: np.ndarray


class LateRows:
    """Exact search over some rows of a collection, under their own numbers (ascending).

    Immutable: ``with_rows`` and ``without`` return a new one.
    """

    def __init__(self, distance: Distance) -> None:
        self._distance = distance
        self._search: ExactSearch | None = None
        self._numbers = GrowingArray(np.empty(0, np.int64))

    @property
    def n_live(self) -> int:
        return 0 if self._search is None else self._search.rows_.n_live

    @property
    def live_numbers(self) -> np.ndarray:
        return self._numbers.values if self._search is None else self._numbers.values[self._search.rows_.live_numbers]

    def with_rows(self, X: np.ndarray, numbers: np.ndarray) -> LateRows:
        """These rows and more."""
        if not len(numbers):
            return self
        following = copy.copy(self)
        following._numbers = self._numbers.appended(numbers)
        if self._search is None:
            following._search = ExactSearch(self._distance).fit_checked(X, self._distance)
        else:
            following._search = self._search.snapshot()
            following._search.add(X)
        return following

    def without(self, numbers: np.ndarray) -> tuple[LateRows, int]:
        """Without those of these rows that are held here; and how many were."""
        here = np.flatnonzero(np.isin(self._numbers.values, numbers))
        if self._search is None or not len(here):
            return self, 0
        following = copy.copy(self)
        following._search = self._search.snapshot()
        following._search.remove(here)
        return following, len(here)

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Row numbers that hold the k nearest of the rows here, or all of these rows; −1 fills up."""
        if self._search is None or not self.n_live:
            return np.empty((len(Q), 0), np.int64)
        places = self._search.candidates(Q, min(k, self.n_live))
        return np.where(places >= 0, self._numbers.values[places], -1)


class StaticSearch(Versioned, ABC):
    """A backend over a structure that is built once.

    A subclass defines which distances it supports (``why_not``), builds over rows of given numbers (``build``), and
    answers ``candidates`` by ``settle`` with a function that proposes places in what it built.
    """

    exact: bool
    smallest: ClassVar[int] = 1  # with fewer rows nothing is built, and exact search serves
    background: bool = False  # whether a structure is built anew while the old one answers
    # Rows outside the structure, besides a share: so few that searching them costs little, so many that it is seldom
    # rebuilt. Removed rows only make it propose more than is needed, which is cheaper than building.
    late_room, removed_room = 512, 512
    _rebuilding: Background

    @abstractmethod
    def why_not(self, distance: Distance) -> str:
        """Why this search cannot serve the distance, in words; empty if it can."""

    @abstractmethod
    def build(self, numbers: np.ndarray) -> np.ndarray:
        """Build the structure over these rows; gives their numbers in the order of their places in it."""

    @abstractmethod
    def candidates(self, Q: Any, k: int) -> np.ndarray:
        """Row numbers (n_queries, at least k) that should hold the k nearest; −1 fills up."""

    def grow(self, numbers: np.ndarray) -> np.ndarray | None:
        """Take more rows into the structure, at the places after its last; None where it has to be built anew.

        Gives their numbers in the order of these places. Other threads may be searching the structure: what grows is a
        copy of it.
        """
        return None

    def fit_checked(self, items: Any, distance: Distance) -> Self:
        self._writing = SearchWriterLock()
        self._rebuilding = Background()
        self.distance_ = distance
        if reason := self.why_not(distance):
            raise InputError(reason)
        self._all = ExactSearch(distance).fit_checked(items, distance)
        self._build_anew()
        return self

    @property
    def rows_(self) -> HeldRows:
        return self._all.rows_

    def add(self, X: Any) -> np.ndarray:
        with self._next_version() as version:
            version._all = self._all.snapshot()
            numbers = version._all.add(X)
            if len(version._numbers):
                version._late = version._late.with_rows(version.rows_.take(numbers), numbers)
            version._keep_in_shape()
        self._rebuild_if_out_of_shape()
        return numbers

    def remove(self, rows: Any) -> None:
        with self._next_version() as version:
            version._all = self._all.snapshot()
            before = self.rows_.removed
            version._all.remove(rows)
            after = version.rows_.removed
            assert after is not None
            numbers = np.flatnonzero(after if before is None else after & ~before)
            if len(version._numbers):
                version._late, n_late = version._late.without(numbers)
                version._n_removed += len(numbers) - n_late
            version._keep_in_shape()
        self._rebuild_if_out_of_shape()

    def _build_anew(self) -> None:
        live = self.rows_.live_numbers
        self._numbers = self.build(live) if len(live) >= self.smallest else live[:0]  # by place in the structure
        self._n_removed = 0  # of the rows that the structure holds
        self._late = LateRows(self.distance_)

    def _keep_in_shape(self) -> None:
        """Insert late rows, or rebuild, if too many rows were added or removed; not if a background job does that."""
        if self.background and len(self._numbers):
            return
        n = len(self._numbers)
        if not n:
            if self.rows_.n_live >= self.smallest:
                self._build_anew()
        elif self._out_of_shape:
            self._build_anew()
        elif self._late.n_live > self.late_room + LATE_SHARE * n:
            self._take_in()

    @property
    def _out_of_shape(self) -> bool:
        return self._n_removed > self.removed_room + REMOVED_SHARE * len(self._numbers)

    def rebuild(self, *, wait: bool = True) -> bool:
        """Rebuild the structure over the live rows, while the old one serves; False if that is running already.

        Rows that are added meanwhile are searched exactly, and removed ones dropped from its proposals, as always.
        With ``wait`` this returns when the new one serves.
        """
        started = self._rebuilding.start(self._rebuild_and_swap)
        if wait:
            self._rebuilding.wait()
        return started

    @property
    def rebuilding(self) -> bool:
        """Whether a structure is being built in the background."""
        return self._rebuilding.running

    def _rebuild_if_out_of_shape(self) -> None:
        n = len(self._numbers)
        late = self._late.n_live > self.late_room + LATE_SHARE * n
        if self.background and n and (late or self._out_of_shape):
            self._rebuilding.start(self._rebuild_and_swap)

    def _rebuild_and_swap(self) -> None:
        """Build over the rows of this moment, then put the new structure in place of the old one, in one step."""
        fresh = copy.copy(self.snapshot())
        known = len(fresh.rows_)
        fresh._build_anew()
        with self._next_version() as version:
            kept = {"_all": version._all}
            version.__dict__.update({**fresh.__dict__, **kept})
            removed, rows = version.rows_.removed, version.rows_
            version._n_removed = 0 if removed is None else int(np.count_nonzero(removed[version._numbers]))
            late = rows.live_numbers[rows.live_numbers >= known]
            version._late = LateRows(version.distance_).with_rows(rows.take(late), late)

    def _take_in(self) -> None:
        """Move the late rows into the structure: let it grow if it can, otherwise rebuild it."""
        grown = self.grow(self._late.live_numbers)
        if grown is None:
            self._build_anew()
        else:
            self._numbers = np.concatenate([self._numbers, grown])
            self._late = LateRows(self.distance_)

    def settle(self, Q: np.ndarray, k: int, propose: Callable[[np.ndarray, int], Proposals]) -> np.ndarray:
        """Candidates from the structure and from late rows; queries it leaves open go to exact search over all rows.

        ``propose(Q, n_wanted)`` gives the places of the ``n_wanted`` nearest of what was built, for every query.
        """
        if not len(self._numbers) or not len(Q):
            return self._all.candidates(Q, k)
        candidates, unsettled = self._inside(Q, k, propose)
        candidates = np.hstack([candidates, self._late.candidates(Q, k)])
        if len(unsettled):
            candidates = replace_lines(candidates, unsettled, self._all.candidates(Q[unsettled], k))
        return candidates

    def _inside(
        self, Q: np.ndarray, k: int, propose: Callable[[np.ndarray, int], Proposals]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Live rows that the structure proposes, and the queries for which they are not certain to be enough."""
        n = len(self._numbers)
        live = n - self._n_removed

        def ask_structure(Q: np.ndarray, n_wanted: int) -> tuple[np.ndarray, np.ndarray]:
            proposals = propose(Q, min(n_wanted, n))
            numbers = self._live_numbers_at(proposals.places)
            return numbers, count_live(numbers, proposals.certain) >= min(k, live)

        n_wanted = A_FEW_MORE + -(-k * n // max(live, 1))  # the share that is removed comes on top
        candidates, enough = ask_structure(Q, n_wanted)
        unsettled = np.flatnonzero(~enough)
        if len(unsettled) and n_wanted < n:
            again, enough = ask_structure(Q[unsettled], SECOND_TIMES * n_wanted)
            candidates = replace_lines(candidates, unsettled, again)
            unsettled = unsettled[~enough]
        return candidates, unsettled

    def _live_numbers_at(self, places: np.ndarray) -> np.ndarray:
        """Row numbers at places of the structure; −1 for no place and for removed rows."""
        numbers = np.where(places >= 0, self._numbers[places], -1)
        if self._n_removed and self.rows_.removed is not None:
            numbers[self.rows_.removed[numbers] & (numbers >= 0)] = -1
        return numbers


def count_live(numbers: np.ndarray, certain: np.ndarray) -> np.ndarray:
    """How many of the first ``certain[i]`` numbers of each query are rows at all.

    >>> count_live(np.array([[7, -1, 4], [5, 6, 8]]), np.array([2, 3]))
    array([1, 3])
    """
    return ((numbers >= 0) & (np.arange(numbers.shape[1]) < certain[:, None])).sum(axis=1)
