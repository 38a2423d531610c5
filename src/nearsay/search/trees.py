"""Tree search: kd and ball trees in few dimensions, exact to the last tie.

scikit-learn's trees measure in float64, but not necessarily in our order of operations, and which of several equally
distant rows they return is arbitrary. So they are searched for a few rows more than needed. A tree skips a row only if
a bound on its distance, off by rounding alone, exceeds the last distance it gave. Hence every row it gave that is
nearer than the last one by more than rounding can blur is settled; where fewer than k are, the query goes to exact
search.

The blur b (``bounds.tree_blur``) is a relative error; with reach = how far the
query and any row, or any center of a ball, can lie apart it comes to

    kd, a norm       b · distance           sums of positive terms round relatively
    ball             … + b · reach          its bound is a difference of two distances
    Euclidean form   b · reach², squared    and what the form itself loses in rounding
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearsay.core.arrays import largest_norm, row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.distances.distance import Distance
from nearsay.errors import unknown_name
from nearsay.search.screening import bounds
from nearsay.search.static_index import Proposals, StaticSearch

KINDS = ("kd", "ball")
# Norms of the difference that both trees know by the same name. A ball tree takes canberra and hamming too, but its
# balls hardly rule anything out there: on 20,000 rows of four columns it measured every fourth or second row.
NORMS = ("manhattan", "chebyshev", "minkowski")
QUERIES_AT_ONCE = 256


def why_no_tree(distance: Distance) -> str:
    """Why no tree serves this distance, in words; empty if one does.

    >>> from nearsay.distances.named import as_distance
    >>> why_no_tree(as_distance("manhattan"))
    ''
    """
    if distance.has_euclidean_form or distance.name in NORMS:
        return ""
    return (
        f"Trees cannot serve the distance {distance.name!r}: they need one with a Euclidean form (euclidean,"
        f' cosine, …) or one of {", ".join(NORMS)}. Use search="exact".'
    )


class TreeSearch(StaticSearch):
    """Finds the same neighbors as exact search; faster in few dimensions.

    Parameters
    ----------
    metric : name or Distance
        One with a Euclidean form, or manhattan, chebyshev, minkowski.
    kind : "kd" or "ball"
        Boxes or balls. Boxes are faster up to about ten columns; beyond that
        neither is faster than exact search, unless the rows lie near a surface of few dimensions.
    leaf_size : int
        Rows that are measured one by one at the end of a branch. Changes time and memory, never the answer.

    >>> search = TreeSearch("euclidean").fit([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> 2 in search.candidates(np.array([[5.0, 7.0]]), k=1)
    True
    """

    exact = True
    # scikit-learn's checks take a fifth of a millisecond before its tree is searched; exact search is done with so many
    # pairs of query and row in less.
    few_pairs = 1 << 15

    def __init__(self, metric: Any = "euclidean", *, kind: str = "kd", leaf_size: int = 20) -> None:
        self.metric = metric
        self.kind = kind
        self.leaf_size = leaf_size

    def why_not(self, distance: Distance) -> str:
        return why_no_tree(distance)

    def build(self, numbers: np.ndarray) -> np.ndarray:
        from sklearn.neighbors import BallTree, KDTree

        if self.kind not in KINDS:
            raise unknown_name("kind of tree", self.kind, KINDS)
        whole = len(numbers) == len(self.rows_)  # then float64 rows need no copy
        X = self.rows_.between(0, len(numbers)) if whole else self.rows_.take(numbers)
        form = self._form(X)
        self._low, self._high = form.min(axis=0), form.max(axis=0)
        self._largest_norm = largest_norm(X) if self._lossy else 0.0
        metric = {"metric": self.distance_.name, **self.distance_.parameters()} if self._is_norm else {}
        self._tree = (KDTree if self.kind == "kd" else BallTree)(form, leaf_size=self.leaf_size, **metric)
        return numbers

    def candidates(self, Q: Any, k: int) -> np.ndarray:
        if len(Q) * len(self.rows_) <= self.few_pairs:
            return self._all.candidates(Q, k)
        return self.settle(Q, k, self._propose)

    def _propose(self, Q: np.ndarray, n_wanted: int) -> Proposals:
        form = self._form(Q)
        distances, places = np.empty((len(form), n_wanted)), np.empty((len(form), n_wanted), np.int64)

        def ask(part: slice) -> None:
            distances[part], places[part] = self._tree.query(form[part], k=n_wanted)

        if len(form) <= QUERIES_AT_ONCE:
            ask(slice(None))
        else:
            in_parallel(ask, row_blocks(len(form), size=QUERIES_AT_ONCE))
        if n_wanted == len(self._tree.data):
            return Proposals(places, np.full(len(form), n_wanted))
        return Proposals(places, self._nearer_than_the_last(Q, form, distances).sum(axis=1))

    @property
    def _is_norm(self) -> bool:
        return not self.distance_.has_euclidean_form

    @property
    def _lossy(self) -> bool:
        """Whether the tree holds other vectors than those that the distance compares."""
        sample = self.rows_.items[:1]
        return not self._is_norm and self.distance_.euclidean_form(sample) is not sample

    def _form(self, X: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(X if self._is_norm else self.distance_.euclidean_form(X), dtype=np.float64)

    def _nearer_than_the_last(self, Q: np.ndarray, form: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Which of the distances, given in ascending order, are below the last by more than rounding can blur."""
        last = distances[:, -1:]
        blur = bounds.tree_blur(form.shape[1])
        # The 1-norm to the farthest corner of the box around all rows, and across it, bounds every norm.
        reach = (np.maximum(abs(form - self._low), abs(form - self._high)) + (self._high - self._low)).sum(axis=1)
        if self._lossy:
            moved = self.distance_.form_rounding(max(self._largest_norm, largest_norm(Q)), Q.shape[1])
            slack = (blur * reach**2 + bounds.taking_form(moved, 0.0).at(reach))[:, None]
            return np.asarray(distances**2 + 2 * slack < last**2 - 2 * slack)
        slack = blur * (last + (reach[:, None] if self.kind == "ball" else 0.0))
        power = self.distance_.parameters().get("p", 1.0) if self._is_norm else 2.0
        return np.asarray((distances + 2 * slack < last - 2 * slack) & (last > bounds.least_certain(power)))
