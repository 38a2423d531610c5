"""Novelty: how unusual a query is, by four signs, each compared with what is usual among the rows of a collection.

    log d₁                          how far the nearest row is
    mean log d₁ … d₁₀               how far its surroundings are, which one near row by chance does not hide
    log d₅ − log (d₅ of those rows) how much farther its neighbors are from it than from their neighbors
    log (1 − p)                     how little its neighbors agree, p the largest probability

The first two are high far from everything, the third just outside a dense group, the last
between groups. Each is centered and scaled by past cases, every row asked about the others, and the four are added.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.past_cases import PastCases

# The sign of surroundings goes by so many neighbors, or by as many as were asked for.
SURROUNDINGS = 10
# The sign of density goes by so many, or by one fewer than were asked for.
REACH = 5
# Added to every distance, as a share of the usual d₁, and to every 1 − p: the logarithm of 0 says nothing.
NEARLY_EQUAL = 1e-3
NEARLY_SURE = 1e-6
# A class with fewer past cases than this cannot say what is usual in it.
FEWEST_OF_CLASS = 10
# A twin is nearer than a quarter of what is usual, and so near as an even scatter of rows brings one row in so many.
TWIN_SHARE = 0.25
TWIN_CHANCE = 1 / 800
# Less than this, in spread or between two scores, is rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class UsualSigns:
    """What past cases are like.

    center, scale : (4,) mean and standard deviation of each sign
    scores : (n,) the sum of the four, centered and scaled, of every past case; smallest first
    labels : (n,) their class numbers
    """

    center: np.ndarray
    scale: np.ndarray
    scores: np.ndarray
    labels: np.ndarray


class Novelty:
    """The share of the collection's rows that are less unusual than a query.

    From 0 to 1; a row exactly as unusual counts half, and beyond all n rows it
    goes on from 1 − 1/(2n) towards 1. What is usual comes from the rows that
    ``PastCases`` samples, each asked about the others; it is computed once,
    when first needed. How far a neighbor's own neighbors are is looked up in
    the same pass; in a collection that is sampled, such rows are searched
    when they are first met.

    A collection of one row has nothing to compare: NaN.

    >>> from nearsay.neighbors.index import NeighborIndex
    >>> X = np.array([[0.0], [1.0], [2.0], [3.5], [5.0], [7.0], [9.0]])
    >>> index = NeighborIndex().fit(X)
    >>> novelty = Novelty(PastCases(index.with_labels([0] * 7)), k=2)
    >>> table = index.query([[1.4], [20.0]], 2)
    >>> novelty.of(table, np.ones(2), past_sureness=lambda: np.ones(7)).round(3)
    array([0., 1.])
    >>> novelty.twins(table), novelty.twins(index.query([[2.0], [2.001]], 2))
    (array([-1, -1]), array([2, 2]))
    """

    _usual: UsualSigns | None = None

    def __init__(self, past: PastCases, k: int) -> None:
        self.past = past
        self.k = min(k, past.n_others)

    @property
    def n_usual(self) -> int:
        """How many past cases queries are compared with; 0 before the first query."""
        return 0 if self._usual is None else len(self._usual.scores)

    @property
    def reach(self) -> int:
        """How many neighbors the sign of density goes by."""
        return max(1, min(REACH, self.k - 1))

    @property
    def surroundings(self) -> int:
        """How many neighbors the sign of surroundings goes by."""
        return min(SURROUNDINGS, self.k)

    def of(
        self,
        table: NeighborTable,
        sureness: np.ndarray,
        *,
        past_sureness: Callable[[], np.ndarray],
        classes: np.ndarray | None = None,
    ) -> np.ndarray:
        """Novelty of every query from its neighbors and its largest probability: (n_queries,).

        ``past_sureness`` gives the largest probability of each sampled row,
        answered by the others. With ``classes``, a class number for every
        query, it is compared with past cases of that class alone, unless
        there are fewer than 10 of them.
        """
        if self.k == 0:
            return np.full(len(table), np.nan)
        if self._usual is None:
            self._usual = self._learn(past_sureness)
        usual = self._usual
        scores = self._scores(self._signs(table, self._reach_of(table.indices), sureness), usual.center, usual.scale)
        share = _share_below(usual.scores, scores)
        for number in () if classes is None else np.unique(classes):
            of_class = usual.scores[usual.labels == number]
            if len(of_class) >= FEWEST_OF_CLASS:
                share[classes == number] = _share_below(of_class, scores[classes == number])
        return share

    def learned(self, past_sureness: Callable[[], np.ndarray]) -> Novelty:
        """What is usual among past cases, without the cases themselves: for ``over``."""
        if self.k:
            self._usual = self._learn(past_sureness)
            _ = self.twin_share, self._nearly_equal  # computed once, and kept
        other = copy(self)
        for name in ("past", "_past_reach", "_known_reach"):
            vars(other).pop(name, None)
        return other

    def over(self, past: PastCases, known_reach: np.ndarray) -> Novelty:
        """The same idea of what is usual, over other rows; ``known_reach`` (n_rows) is filled in, NaN where unknown."""
        other = copy(self)
        other.past, other._known_reach = past, known_reach
        return other

    def twins(self, table: NeighborTable) -> np.ndarray:
        """The row that each query repeats: its nearest, where it is equal or far nearer than is usual; −1 elsewhere.

        Usual is how far the neighbors of the nearest row are from it.
        """
        nearest, distance = table.indices[:, 0], table.distances[:, 0]
        if self.k == 0:
            return np.where(distance == 0, nearest, -1)
        reach = self._reach_of(table.indices[:, :1])[:, 0]
        reach = np.where(np.isfinite(reach), reach, 0.0)  # of a row without so many others nothing is usual
        return np.where((distance == 0) | (distance < self.twin_share * reach), nearest, -1)

    @cached_property
    def twin_share(self) -> float:
        """What is nearer than this share of the nearest row's reach is a twin of it."""
        table = self._past_table
        distances = table.distances[:, : min(self.reach + 1, self.past.n_others)]
        reach = self._past_reach[:, 0]
        usable = (distances[:, 0] > 0) & np.isfinite(distances[:, -1]) & (reach > 0) & np.isfinite(reach)
        if not usable.any():
            return 0.0
        distances, nearness = distances[usable], distances[usable, 0] / reach[usable]
        # Among evenly scattered rows, nearness^dimensions is below x with chance 1 − (1 + x)^−reach.
        low, middle, high, rare = (
            np.log((1 - chance) ** (-1 / self.reach) - 1) for chance in (0.25, 0.5, 0.75, TWIN_CHANCE)
        )
        quartiles = np.quantile(np.log(nearness), (0.25, 0.75))
        slower = max(float(np.ptp(quartiles)) / (high - low), 1 / dimensions(distances))
        return float(np.median(nearness) * min(TWIN_SHARE, np.exp((rare - middle) * slower)))

    @property
    def _past_table(self) -> NeighborTable:
        return self.past.sampled(max(self.reach + 1, self.surroundings))

    @cached_property
    def _past_reach(self) -> np.ndarray:
        return self._reach_without(self.past.sample(), self._past_table.indices)

    @cached_property
    def _nearly_equal(self) -> float:
        usual = self._past_table.distances[:, 0]
        usual = usual[(usual > 0) & np.isfinite(usual)]
        return NEARLY_EQUAL * float(np.median(usual)) if len(usual) else 1.0

    def _learn(self, past_sureness: Callable[[], np.ndarray]) -> UsualSigns:
        signs = self._signs(self._past_table, self._past_reach, past_sureness())
        has_neighbors = np.isfinite(signs).all(axis=1)  # an approximate search may find none
        signs, rows = signs[has_neighbors], self.past.sample()[has_neighbors]
        scale = signs.std(axis=0)
        scale[scale < ROUNDING] = 1.0
        center = signs.mean(axis=0)
        scores = self._scores(signs, center, scale)
        order = np.argsort(scores, kind="stable")
        return UsualSigns(center, scale, scores[order], self.past.search.labels[rows][order])

    def _signs(self, table: NeighborTable, reach: np.ndarray, sureness: np.ndarray) -> np.ndarray:
        """The four signs of each query: (n_queries, 4). ``reach`` is that of each neighbor, as ``_reach_of`` gives.

        A query with fewer neighbors than a sign goes by is judged by those it has.
        """
        around = table.indices[:, : self.surroundings] >= 0
        logs = np.log(np.where(around, table.distances[:, : self.surroundings], 0.0) + self._nearly_equal)
        mean = np.where(around, logs, 0.0).sum(axis=1) / np.maximum(around.sum(axis=1), 1)
        present = table.indices[:, : self.reach] >= 0
        farthest = np.where(present, table.distances[:, : self.reach], 0.0).max(axis=1)
        # Where a neighbor has no others, nothing says that they would be nearer.
        reach = np.where(present & np.isfinite(reach), reach, farthest[:, None])
        farther = np.log(farthest + self._nearly_equal) - np.log(reach + self._nearly_equal).mean(axis=1)
        nearest = np.where(present[:, 0], logs[:, 0], np.inf)
        return np.column_stack([nearest, mean, farther, np.log(1 - sureness + NEARLY_SURE)])

    @staticmethod
    def _scores(signs: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return ((signs - center) / scale).sum(axis=1)

    def _reach_of(self, neighbors: np.ndarray) -> np.ndarray:
        """How far the own ``reach``-th neighbor of each neighbor is, up to ``reach`` of them; of a missing one, NaN."""
        neighbors = neighbors[:, : self.reach]
        met = np.unique(neighbors[neighbors >= 0])
        unknown = met[np.isnan(self._known_reach[met])]
        if len(unknown):
            self._known_reach[unknown] = self.past.others_of(unknown, self.reach).distances[:, self.reach - 1]
        return np.where(neighbors >= 0, self._known_reach[neighbors], np.nan)

    @cached_property
    def _known_reach(self) -> np.ndarray:
        """The reach of every row that was met; NaN elsewhere."""
        return np.full(len(self.past.search.labels), np.nan)

    def _reach_without(self, rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
        """``_reach_of`` in a collection without the row itself, as if it were a query."""
        neighbors = neighbors[:, : self.reach]
        met, place = np.unique(neighbors, return_inverse=True)
        place = place.reshape(neighbors.shape)
        others = self.past.others_of(np.maximum(met, 0), self.reach + 1)
        is_one = (others.indices[place, : self.reach] == rows[:, None, None]).any(axis=2)
        reach = np.where(is_one, others.distances[place, self.reach], others.distances[place, self.reach - 1])
        return np.where(neighbors >= 0, reach, np.nan)


def _share_below(usual: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The share of the usual scores, in order, that lie below each score; equal ones count half.

    Beyond the last of them it goes on: the half that the last row has to itself is divided by e with every unit, so
    that what is very unusual can still be put in order.

    >>> _share_below(np.array([1.0, 2.0, 2.0, 5.0]), np.array([2.0, 3.0, 5.0, 6.0, 50.0])).round(3)
    array([0.5  , 0.75 , 0.875, 0.954, 1.   ])
    """
    below, not_above = np.searchsorted(usual, scores - ROUNDING), np.searchsorted(usual, scores + ROUNDING)
    share: np.ndarray = (below + not_above) / (2 * len(usual))
    half, before, behind = 1 / (2 * len(usual)), not_above == 0, below == len(usual)
    share[before] = half * np.exp(scores[before] - usual[0])
    share[behind] = 1 - half * np.exp(usual[-1] - scores[behind])
    return share


def dimensions(distances: np.ndarray) -> float:
    """As how many dimensions rows are scattered in, by how fast distances grow from the nearest to the last.

    ``distances`` are (n_rows, n_nearest). By the median, so that twins among the rows change little. Infinite where
    distances do not grow, or where there is but one.

    >>> X = np.random.default_rng(0).random((2000, 3))
    >>> from nearsay.neighbors.index import NeighborIndex
    >>> round(dimensions(NeighborIndex().fit(X).leave_one_out(6).distances), 1)
    2.9
    """
    n_more = distances.shape[1] - 1
    growth = float(np.median(np.log(distances[:, -1] / distances[:, 0])))
    # (nearest / last)^dimensions is the least of n_more uniform numbers.
    return -float(np.log(1 - 0.5 ** (1 / n_more))) / growth if n_more and growth > 0 else np.inf
