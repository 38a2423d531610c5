"""Typical items: greedy medoids, each the item that brings all others nearest to those chosen before it and to it.

The first is the middle of the collection, and the next ones are the middles of what is far from them. There is nothing
to set, and more of them only continue the list. Of many items a sample is covered.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from nearsay.collection.state.collection_state import CollectionState
from nearsay.core.arrays import evenly, row_blocks
from nearsay.core.cancellation import go_on
from nearsay.core.parallel import one_blas_thread
from nearsay.distances.distance import Distance

# Items whose distances are all held; fewer where no matrix product gives them.
SAMPLE, SAMPLE_MEASURED = 3000, 1000
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class ComparedItems:
    """Living items in the view whose neighbors are shown, and how far apart they are.

    Attributes
    ----------
    rows : (n,) their row numbers.
    mapped : (n, n_columns) as they are measured; in the Euclidean form where the distance has one.
    distance : the distance, or None where Euclidean distance is in its order.
    """

    rows: np.ndarray
    mapped: np.ndarray
    distance: Distance | None

    @classmethod
    def of(cls, state: CollectionState) -> ComparedItems:
        """All living items."""
        rows, view = np.flatnonzero(state.alive), state.views.first
        distance = view.search.distance_
        mapped = distance.check(view.transform.apply(state.views.all_rows()[rows]))
        if not distance.has_euclidean_form:
            return cls(rows, mapped, distance)
        return cls(rows, np.asarray(distance.euclidean_form(mapped), np.float64), None)

    def sample(self) -> np.ndarray:
        """Places of the items to cover, evenly among all."""
        return np.asarray(evenly(len(self.rows), SAMPLE if self.distance is None else SAMPLE_MEASURED))

    def between(self, places: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(n_places, n_others) how far apart some items are."""
        far = np.empty((len(places), len(others)), np.float32)
        with one_blas_thread():  # several may add in another order
            for part in row_blocks(len(places), size=ROWS_AT_ONCE):
                go_on()
                far[part] = self._between(self.mapped[places[part]], self.mapped[others])
        return far

    def _between(self, Q: np.ndarray, X: np.ndarray) -> np.ndarray:
        if self.distance is not None:
            return np.asarray(self.distance.pairwise(Q, X))
        squares = (Q * Q).sum(axis=1)[:, None] + (X * X).sum(axis=1) - 2 * (Q @ X.T)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def greedy_medoids(far: np.ndarray, n: int, nearest: np.ndarray | None = None) -> list[int]:
    """Places of items, each the one that lowers the sum of the distances to the nearest chosen item the most.

    Parameters
    ----------
    far : (n_items, n_covered) the distance of each item that may be chosen to each that is covered.
    n : how many are chosen; fewer where there are no more items.
    nearest : (n_covered,) distances to the nearest of those chosen before, if any.

    Equal ones go by place.

    >>> line = np.array([0.0, 1.0, 2.0, 9.0, 10.0])
    >>> greedy_medoids(np.abs(line[:, None] - line), 2)
    [2, 3]
    """
    far = np.asarray(far, np.float64)
    left = np.full(far.shape[1], far.max(initial=0.0)) if nearest is None else np.asarray(nearest, np.float64).copy()
    # What an item gains only shrinks as others are chosen: it is computed again when it would be the next.
    queue = [(-gain, place, 0) for place, gain in enumerate(_gains(far, left).tolist())]
    heapq.heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < n:
        _, place, n_before = heapq.heappop(queue)
        if n_before < len(chosen):
            heapq.heappush(queue, (-float(_gains(far[place : place + 1], left)[0]), place, len(chosen)))
            continue
        chosen.append(place)
        left = np.minimum(left, far[place])
    return chosen


def _gains(far: np.ndarray, left: np.ndarray) -> np.ndarray:
    gains = np.empty(len(far))
    for place, line in enumerate(far):  # one by one: the sum of a line must not depend on the others
        gains[place] = np.maximum(left - line, 0.0).sum()
    return gains
