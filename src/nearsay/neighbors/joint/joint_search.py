"""Exact search by a weighted sum of distances in several feature spaces, with one pass that rules rows out.

    distance(q, x) = Σ factor of space m · distance in space m

    space 1 ──► rough distances ─┐
    space 2 ──► rough distances ─┼─► sum (float32, off by no more than E) ──► shortlist ──► candidates
    space 3 ──► rough distances ─┘

Rough distances are off by at most what each space says, so their sum is off by at most E. A row farther than
the k-th best by more than 2E is ruled out; ``neighbor_search`` measures the others in every space and orders them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np

from nearsay.core.arrays import as_rows, check_n_neighbors, check_row_numbers, row_blocks
from nearsay.core.parallel import in_parallel, shares
from nearsay.distances.distance import Distance
from nearsay.distances.scaled import ScaledDistance
from nearsay.distances.vectors import VectorDistance
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.joint.feature_spaces import HeldSpaces
from nearsay.neighbors.joint.held_space import Rough
from nearsay.neighbors.table import NeighborTable
from nearsay.search.exact import ExactSearch
from nearsay.search.protocol import NeighborSearch
from nearsay.search.screening import bounds
from nearsay.search.screening.candidate_tables import replace_lines, stack_tables
from nearsay.search.trees import TreeSearch

# Queries measured exactly at once.
MEASURED_AT_ONCE = 16
# For this share of the rows or more all of them are measured: nothing is left to rule out.
MOST_OF_ALL = 0.25


class JointDistance(Distance):
    """The weighted sum of distances in several feature spaces, to rows that are held ready to be measured.

    held : the rows, in every space.
    factors : (n_spaces,) at least 0, what the distance in a space is multiplied by. A space with factor 0 is not
        measured.

    >>> from nearsay.neighbors.joint.feature_spaces import as_spaces
    >>> held = HeldSpaces([[0, 0], [3, 40]], as_spaces({"size": slice(0, 1), "price": slice(1, 2)}, 2))
    >>> JointDistance(held, np.array([1.0, 0.1])).block(np.array([[1, 0]]), held.rows)
    array([[1., 6.]])
    """

    name = "joint"

    def __init__(self, held: HeldSpaces, factors: np.ndarray) -> None:
        self.held = held
        self.factors = factors

    def _to_saved(self) -> dict[str, Any]:
        return {"held": self.held, "factors": self.factors}

    @property
    def counting(self) -> list[int]:
        """The spaces that count."""
        return [int(space) for space in np.flatnonzero(self.factors)]

    def check(self, items: Any, *, name: str = "X", like: Any = None) -> Any:
        rows = as_rows(items, name=name, width=self.held.rows.shape[1])
        for space in self.counting:
            part = self.held.held[space]
            part.distance.check(self.columns(rows, space), name=name, like=part.rows)
        return rows

    def columns(self, Q: np.ndarray, space: int) -> np.ndarray:
        """The columns of one space."""
        return Q[:, self.held.spaces[space].columns]

    def block(self, Q: Any, X: Any, first: int = 0) -> np.ndarray:
        total = np.zeros((len(Q), len(X)))
        for space in self.counting:
            total += self.factors[space] * self.held.distances(space, Q, slice(first, first + len(X)))
        return total

    def between_rows(self) -> np.ndarray:
        """The distances between all rows; symmetric ones are measured once."""
        total = np.zeros((self.held.n_rows, self.held.n_rows))
        measured = np.empty_like(total)
        for space in self.counting:
            self.held.between_rows(space, slice(0, self.held.n_rows), measured)
            measured *= self.factors[space]
            total += measured
        return total

    def measure(self, Q: Any, X: Any, candidates: np.ndarray, first: int, out: np.ndarray) -> None:
        out[:] = 0.0
        for space in self.counting:
            out += self.factors[space] * self.held.held[space].pairs(self.columns(Q, space), candidates)


class JointSearch:
    """Proposes the rows that can be nearest by several feature spaces at once.

    >>> from nearsay.neighbors.joint.feature_spaces import as_spaces
    >>> held = HeldSpaces([[0, 0], [3, 40], [2, 9]], as_spaces({"size": slice(0, 1), "price": slice(1, 2)}, 2))
    >>> 2 in JointSearch(JointDistance(held, np.array([1.0, 0.1]))).candidates(np.array([[2, 2]]), k=1)
    True
    """

    exact = True
    # So many pairs of query and row are measured sooner than any of them is ruled out.
    few_pairs = 1 << 15
    # Sums that are made at once for one thread: 1 MB in float32.
    queries_at_once, rows_at_once = 64, 4096
    # Candidates beyond twice k that a query can have before all rows are measured for it.
    wide_list = 1024

    def __init__(self, distance: JointDistance) -> None:
        self.distance_ = distance
        self._all = ExactSearch(distance).fit(distance.held.rows)
        self.rows_ = self._all.rows_

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: the rows, and not what is made of them."""
        return {name: value for name, value in self.__dict__.items() if name != "_rough"}

    def _to_saved(self) -> dict[str, Any]:
        return {"distance": self.distance_}

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> JointSearch:
        return cls(**fields)

    def snapshot(self) -> JointSearch:
        """The search as it is: its rows never change."""
        return self

    def candidates(self, Q: np.ndarray, k: int) -> np.ndarray:
        """Row numbers (n_queries, at least k) that hold the k nearest; −1 fills up."""
        if k >= MOST_OF_ALL * len(self.rows_) or len(Q) * len(self.rows_) <= self.few_pairs:
            return np.tile(np.arange(len(self.rows_)), (len(Q), 1))
        if not self._never_negative:
            return self._all.candidates(Q, k)
        _ = self._rough  # computed once, before threads use it
        parts = in_parallel(lambda part: self._shortlist(Q[part], k), shares(len(Q), most=self.queries_at_once))
        candidates = stack_tables([np.empty((0, k), np.int64), *parts])
        # Where too many rows lie too close, or so far away that float32 has no numbers left for them.
        undecided = np.flatnonzero(candidates[:, k - 1] < 0)
        return (
            replace_lines(candidates, undecided, self._all.candidates(Q[undecided], k))
            if len(undecided)
            else candidates
        )

    @property
    def _never_negative(self) -> bool:
        """Whether every sum grows with each space: only then what float32 loses is a share of the sum."""
        spaces = self.distance_.held.spaces
        return all(isinstance(spaces[space].distance, VectorDistance) for space in self.distance_.counting)

    @cached_property
    def _rough(self) -> tuple[list[Rough], np.ndarray]:
        """The spaces that count, measured roughly, and their factors in units in which rows are about 1 apart."""
        distance = self.distance_
        rough = in_parallel(lambda space: distance.held.held[space].rough(), distance.counting)
        factors = distance.factors[distance.counting]
        farthest = sum(factor * space.reach for factor, space in zip(factors, rough, strict=True))
        return rough, factors / (farthest or 1.0)

    def _shortlist(self, Q: np.ndarray, k: int) -> np.ndarray:
        """One pass over all rows: what can be among the k nearest. −1 alone where that is too much to list."""
        from nearsay.search.screening.shortlist_kernels import Shortlists, list_length

        rough, factors = self._rough
        counting = self.distance_.counting
        spaces = [one.prepare(self.distance_.columns(Q, space)) for one, space in zip(rough, counting, strict=True)]
        errors = np.sum([factor * one.errors for factor, one in zip(factors, spaces, strict=True)], axis=0)
        lists = Shortlists(2 * errors + bounds.FAINTEST, k, list_length(k) + self.wide_list, np.float32)
        for rows in row_blocks(len(self.rows_), size=max(self.rows_at_once, k)):
            total = np.zeros((len(Q), rows.stop - rows.start), np.float32)
            for factor, space in zip(factors, spaces, strict=True):
                space.add(factor, rows, total)
            if rows.start == 0:
                lists.slack += bounds.adding_up(len(counting), total[:, :k].max(axis=1) + errors)
            lists.see(slice(None), total, rows.start)
        return lists.finish()


class JointIndex:
    """Search for the rows nearest by several feature spaces at once.

    A single space that counts is searched like any other rows, by ``NeighborIndex``.

    held : the rows, in every space.
    factors : (n_spaces,) at least 0, what the distance in a space is multiplied by, one of them above 0.

    >>> from nearsay.neighbors.joint.feature_spaces import as_spaces
    >>> held = HeldSpaces([[0, 0], [3, 40], [2, 9]], as_spaces({"size": slice(0, 1), "price": slice(1, 2)}, 2))
    >>> JointIndex(held, np.array([1.0, 0.1])).query(np.array([[2, 2]]), k=2).distances
    array([[0.7, 2.2]])
    """

    def __init__(self, held: HeldSpaces, factors: np.ndarray) -> None:
        self.distance = JointDistance(held, factors)
        self._columns = slice(None)
        counting = self.distance.counting
        if len(counting) == 1 and not held.held[counting[0]].mostly_empty:
            only, self._columns = held.held[counting[0]], held.spaces[counting[0]].columns
            scaled = ScaledDistance(only.distance, float(factors[counting[0]]))
            self._search = NeighborIndex(scaled).fit(np.ascontiguousarray(only.rows)).search_
        else:
            self._search = cast(NeighborSearch, JointSearch(self.distance))  # its rows do not change

    def _to_saved(self) -> dict[str, Any]:
        return {"held": self.distance.held, "factors": self.distance.factors}

    @classmethod
    def _from_saved(cls, fields: dict[str, Any]) -> JointIndex:
        return cls(**fields)

    def query(self, Q: np.ndarray, k: int) -> NeighborTable:
        """The ``k`` nearest rows of every query, nearest first; equal distances by row number."""
        return neighbor_search.nearest(self._search, Q[:, self._columns], k)

    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The same for the rows themselves (or ``rows``: numbers, or a mask), each left out of its own neighbors."""
        n_rows = self.distance.held.n_rows
        numbers = None if rows is None else check_row_numbers(rows, n_rows)
        if self._rules_rows_out or (numbers is not None and len(numbers) < n_rows):
            return neighbor_search.leave_one_out(self._search, k, numbers)
        table = self._from_one_side(check_n_neighbors(k, n_rows, left_out=1))
        return table if numbers is None else table[numbers]

    @property
    def _rules_rows_out(self) -> bool:
        """Whether a search from every row takes less time than measuring every pair of rows once."""
        held = self.distance.held
        by_products = all(held.spaces[space].distance.has_euclidean_form for space in self.distance.counting)
        return by_products or isinstance(self._search, TreeSearch) or not held.fits_at_once

    def _from_one_side(self, k: int) -> NeighborTable:
        """Leave each row out once, and measure each pair of rows once."""
        distances = self.distances()
        np.fill_diagonal(distances, np.inf)
        return neighbor_search.nearest_measured(distances, k)

    def distances(self, Q: np.ndarray | None = None) -> np.ndarray:
        """How far every query (None: every row) is from every row: (n_queries, n_rows)."""
        rows = self.distance.held.rows
        if Q is None:
            return self.distance.between_rows()
        out = np.empty((len(Q), len(rows)))

        def fill(part: slice) -> None:
            out[part] = self.distance.block(Q[part], rows)

        in_parallel(fill, row_blocks(len(Q), size=MEASURED_AT_ONCE))
        return out
