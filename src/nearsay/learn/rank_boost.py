"""RankBoost: an order of neighbors learned from keywords, over the ranks in several feature spaces.

::

    space 1: rank of row j for query i ──► [rank ≤ θ₁]·α₁ ─┐
    space 2: rank of row j for query i ──► [rank ≤ θ₂]·α₂ ─┼─► score(i, j) ──► the k rows of highest score
    space 1:            again          ──► [rank ≤ θ₃]·α₃ ─┘

A round takes the space and the threshold that get the most weight of preferences right, then raises the weights of
those that are wrong. The result is one lookup table of scores by rank for each space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows, check_n_neighbors, check_row_numbers, row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.parallel import in_parallel
from nearsay.core.settings import check_flag, check_randomness, check_whole
from nearsay.data.keywords import annotated_order, rows_and_keywords
from nearsay.data.rows import as_groups
from nearsay.errors import InputError
from nearsay.learn.preferences import Preferences, draw_preferences
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.joint.feature_spaces import HeldSpaces, as_spaces
from nearsay.neighbors.table import NeighborTable

# A weak ranker that is always right would have infinite weight; this one has about 10.
ALMOST_ALWAYS = 1 - 1e-9

ROUND = np.dtype(
    [("space", np.int64), ("threshold", np.int64), ("alpha", np.float64), ("error", np.float64), ("bound", np.float64)]
)

# Queries measured at once, in every space.
QUERIES_AT_ONCE = 16


@dataclass(frozen=True)
class Boosted:
    """The weak rankers of all rounds, with training errors and their bounds.

    spaces, thresholds, alphas : (max_iter,) in round t rows of rank ``thresholds[t]`` or less in space ``spaces[t]``
        get ``alphas[t]``.
    errors : (max_iter,) the weighted share of preferences that are wrong after each round; ties are wrong.
    bounds : (max_iter,) the product of the normalizers so far: an upper bound of the error.
    """

    spaces: np.ndarray
    thresholds: np.ndarray
    alphas: np.ndarray
    errors: np.ndarray
    bounds: np.ndarray

    def worth(self, space: int) -> tuple[np.ndarray, np.ndarray]:
        """The thresholds of a space in rising order, and the score of ranks up to each, and beyond the last.

        >>> two = Boosted(np.array([0, 0]), np.array([9, 3]), np.array([1.0, 0.5]), np.zeros(2), np.ones(2))
        >>> two.worth(0)
        (array([3, 9]), array([1.5, 1. , 0. ]))
        """
        taken = self.spaces == space
        thresholds, which = np.unique(self.thresholds[taken], return_inverse=True)
        alphas = np.bincount(which, self.alphas[taken], minlength=len(thresholds))
        return thresholds, np.append(np.cumsum(alphas[::-1])[::-1], 0.0)


def rank_boost(better: np.ndarray, worse: np.ndarray, weight: np.ndarray, n_ranks: int, max_iter: int) -> Boosted:
    """RankBoost on weighted preferences (Freund, Iyer, Schapire and Singer 2003).

    better, worse : (n_spaces, n_pairs) whole numbers from 1 to ``n_ranks``, the ranks of a pair's two rows in each
        space.
    weight : (n_pairs,)
    max_iter : largest number of rounds; fewer if no threshold is better than chance.

    Four pairs of equal weight in one space; three are right at rank 3, one is wrong:

    >>> found = rank_boost(np.array([[1, 2, 3, 5]]), np.array([[4, 6, 2, 6]]), np.ones(4), n_ranks=6, max_iter=1)
    >>> found.thresholds[0], found.alphas.round(6), found.bounds.round(6)
    (np.int64(3), array([0.549306]), array([0.788675]))
    """
    from nearsay.learn.rank_boost_kernels import reweigh

    start = weight / weight.sum()
    share, margin = start.copy(), np.zeros(len(start))
    rounds: list[tuple[int, int, float, float, float]] = []
    bound = 1.0
    for _ in range(max_iter):
        space, threshold, r = _best_threshold(better, worse, share, n_ranks)
        if r == 0:
            break
        alpha = float(np.arctanh(np.clip(r, -ALMOST_ALWAYS, ALMOST_ALWAYS)))
        normalizer, error = reweigh(better[space], worse[space], threshold, alpha, start, share, margin)
        share /= normalizer
        bound *= normalizer
        rounds.append((space, threshold, alpha, error, bound))
    table = np.array(rounds, dtype=ROUND)
    return Boosted(*(table[name] for name in ROUND.names or ()))


def _best_threshold(better: np.ndarray, worse: np.ndarray, weight: np.ndarray, n_ranks: int) -> tuple[int, int, float]:
    """The space and rank of the threshold with the largest |right − wrong| weight; the first at ties."""
    from nearsay.learn.rank_boost_kernels import weight_by_rank

    def search(space: int) -> tuple[float, int, int, float]:
        sums = np.zeros(n_ranks + 1)
        weight_by_rank(better[space], worse[space], weight, sums)
        # At the last rank all rows get the same score. What differs by rounding only is a tie.
        r = np.cumsum(sums)[:-1].round(12)
        threshold = int(np.abs(r).argmax())
        return -abs(float(r[threshold])), space, threshold, float(r[threshold])

    _, space, threshold, r = min(in_parallel(search, range(len(better))))
    return space, threshold, r


class RankBoostNeighbors(DocumentedEstimator):
    """Neighbors in an order learned from keywords by RankBoost (Cui et al. 2013).

    Every feature space ranks the rows by its own distance. The score of a rank in a space is learned from pairs of rows
    of which one shares more keywords with a third. No distance is learned. The paper draws its preferences from all
    pairs (``top=None``), and its NW-RNN gives them equal weights (``weighting="equal"``); it does not state the number
    of rounds.

    Parameters
    ----------
    features : None, {name: columns} or {name: (columns, distance)}
        The feature spaces; None is one, all columns by Euclidean distance.
    max_iter : int, default=300
        Weak rankers, one a round. Early ones separate near from far rows; the order of
        the nearest is learned last, and more rounds keep improving it.
    n_pairs : int, default=100
        Preferences drawn for every row.
    depth : int, default=200
        Depth of NDCG: the length of the list whose order matters.
    top : int or None, default=20
        Draw only preferences whose better row is among the first ``top`` of
        the ideal order; None draws from all pairs, few of which concern the top of the list.
    weighting : {"ndcg", "equal"}, default="ndcg"
        Preferences are weighted by the loss of NDCG at ``depth`` if they are violated, or equally.
    rest : float, default=1e-6
        The weight of preferences about rows below ``depth``.
    joint : bool, default=False
        Whether the mean of all distances, each by its largest, ranks the rows
        like one more space. The paper has no such space.
    random_state : int or None, default=0

    Attributes
    ----------
    boosted_ : Boosted
        The weak rankers, with training error and bound after every round.
    space_names_ : tuple of str
    n_preferences_ : int

    Examples
    --------
    The first column separates cats from dogs; the second is noise:

    >>> X = [[0, 5], [1, 0], [2, 7], [10, 1], [11, 6], [12, 2]]
    >>> Y = [[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    >>> ranking = RankBoostNeighbors({"shape": slice(0, 1), "noise": slice(1, 2)}).fit(X, Y)
    >>> ranking.neighbors([[1.5, 6]], k=3).indices
    array([[2, 1, 0]])
    """

    def __init__(
        self,
        features: Any = None,
        *,
        max_iter: int = 300,
        n_pairs: int = 100,
        depth: int = 200,
        top: int | None = 20,
        weighting: str = "ndcg",
        rest: float = 1e-6,
        joint: bool = False,
        random_state: int | None = 0,
    ) -> None:
        self.features = features
        self.max_iter = max_iter
        self.n_pairs = n_pairs
        self.depth = depth
        self.top = top
        self.weighting = weighting
        self.rest = rest
        self.joint = joint
        self.random_state = random_state

    def fit(self, X: Any, Y: Any, groups: Any = None) -> RankBoostNeighbors:
        """Learn the order of neighbors.

        Parameters
        ----------
        X, Y : as in ``KeywordAnnotator.fit``.
        groups : (n_rows,) hashable names, optional
            The group of each row, such as a photographer: rows of a row's group are not in its order.
        """
        check_whole("max_iter", self.max_iter, least=0)
        joint = check_flag("joint", self.joint)
        rows, keywords = rows_and_keywords(X, Y)
        groups = as_groups(groups, len(rows))
        spaces = as_spaces(self.features, rows.shape[1])
        order = annotated_order(rows, keywords.matrix)  # preferences are drawn and used in this order
        preferences = draw_preferences(
            csr_array(keywords.matrix[order]),
            self.n_pairs,
            depth=self.depth,
            top=self.top,
            weighting=self.weighting,
            rest=self.rest,
            seed=int(check_randomness(self.random_state).randint(2**31 - 1)),
            groups=None if groups is None else groups[order],
        )
        if not preferences.weight.any():
            raise InputError(
                f"The keywords of the {len(rows)} rows give no order: no row shares more of them with one"
                " row than with another. Pass rows that share some keywords and not others."
            )
        self._held = HeldSpaces(rows, spaces)
        self.n_features_in_ = rows.shape[1]
        self.space_names_ = (*(space.name for space in spaces), *(("joint",) if joint else ()))
        self.n_preferences_ = len(preferences)
        better, worse = self._ranks(preferences, order, groups)
        self.boosted_ = rank_boost(better, worse, preferences.weight, len(rows) - 1, self.max_iter)
        return self

    def neighbors(self, X: Any, k: int) -> NeighborTable:
        """The ``k`` rows of highest score for every query; their distance is −score.

        Equal scores: the row that is nearer in the mean of all spaces first, then the lower row number.
        """
        check_is_fitted(self, "boosted_")
        queries = as_rows(X, width=self.n_features_in_)
        return self._ordered(queries, check_n_neighbors(k, self._held.n_rows), None)

    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The same for the rows themselves (or ``rows``: numbers, or a mask), each left out of its own neighbors."""
        check_is_fitted(self, "boosted_")
        n_rows = self._held.n_rows
        numbers = np.arange(n_rows) if rows is None else check_row_numbers(rows, n_rows)
        queries = self._held.rows if rows is None else self._held.rows[numbers]
        return self._ordered(queries, check_n_neighbors(k, n_rows, left_out=1), numbers)

    def _ranks(
        self, preferences: Preferences, order: np.ndarray, groups: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ranks of the better and of the worse rows in every space, (n_spaces, n_pairs) each.

        A rank is one more than the number of rows that are nearer, the query and its group left out. Preferences name
        rows by their places in ``order``.
        """
        from nearsay.learn.rank_boost_kernels import rank_rows

        n_rows, n_spaces = self._held.n_rows, len(self.space_names_)
        ranks = np.empty((n_spaces, 2, len(preferences)), np.uint16 if n_rows < 2**16 else np.uint32)
        query = order[preferences.query]
        by_query = np.argsort(query, kind="stable")
        rows = order[np.stack([preferences.better, preferences.worse])[:, by_query]]
        starts = np.searchsorted(query[by_query], np.arange(n_rows + 1))

        def rank(space: int, first: int, distances: np.ndarray) -> None:
            if groups is not None:  # as far as any row, so nearer than none
                same = groups[first : first + len(distances), None] == groups
                np.copyto(distances, distances.max(axis=1, keepdims=True), where=same)
            in_parallel(
                lambda part: rank_rows(distances[part], first + part.start, starts, rows, ranks[space]),
                row_blocks(len(distances), size=QUERIES_AT_ONCE),
            )

        for lines in self._held.line_blocks():
            distances = np.empty((lines.stop - lines.start, n_rows))
            total = np.zeros(distances.shape if self.joint else 0)
            for space in range(len(self._held)):
                self._held.between_rows(space, lines, distances)
                rank(space, lines.start, distances)
                if self.joint:
                    total += np.divide(distances, self._held.scales[space], out=distances)
            if self.joint:
                rank(n_spaces - 1, lines.start, total)
        as_drawn = np.argsort(by_query)
        return np.take(ranks[:, 0], as_drawn, axis=1), np.take(ranks[:, 1], as_drawn, axis=1)

    def _in_each_space(self, Q: np.ndarray, left_out: np.ndarray | None) -> list[np.ndarray]:
        """Distances (n_queries, n_rows) in every space; +inf at the row left out."""
        measured = [self._held.distances(space, Q) for space in range(len(self._held))]
        if left_out is not None:
            for distances in measured:
                distances[np.arange(len(Q)), left_out] = np.inf
        return measured

    def _mean(self, in_each_space: list[np.ndarray]) -> np.ndarray:
        """The sum of distances in all spaces, each divided by the largest in its space."""
        return np.asarray(sum(far / scale for far, scale in zip(in_each_space, self._held.scales, strict=True)))

    def _ordered(self, Q: np.ndarray, k: int, left_out: np.ndarray | None) -> NeighborTable:
        from nearsay.learn.rank_boost_kernels import add_scores

        _ = self._held.scales  # computed once, before the threads need them

        table = neighbor_search.no_neighbors(len(Q), k)
        worths = [self.boosted_.worth(space) for space in range(len(self.space_names_))]

        def order(rows: slice) -> None:
            in_each_space = self._in_each_space(Q[rows], None if left_out is None else left_out[rows])
            in_each_space.append(self._mean(in_each_space))
            score = np.zeros(in_each_space[-1].shape)
            for distances, (thresholds, values) in zip(in_each_space, worths, strict=False):
                if len(thresholds):
                    for line, sums in zip(distances, score, strict=True):
                        add_scores(line, np.partition(line, thresholds - 1)[thresholds - 1], values, sums)
            if left_out is not None:
                score[np.arange(len(score)), left_out[rows]] = -np.inf
            nearest = neighbor_search.nearest_measured(-score, k, then=in_each_space[-1])
            table.indices[rows], table.distances[rows] = nearest.indices, nearest.distances

        in_parallel(order, row_blocks(len(Q), size=QUERIES_AT_ONCE))
        return table
