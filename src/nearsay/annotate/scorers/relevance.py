"""Relevance of keywords to a query, from the keywords of its neighbors.

Every relevance is a weighted vote, Σ eᵢ [neighbor i has the word], compared with what as many random
rows would give. With π the share of all rows that have the word::

    count       Σ eᵢ[w]                                  e = 1
    prior       Σ eᵢ[w] − π Σ eᵢ                         e = 1 (Li, Snoek and Worring 2009)
    rank        Σ eᵢ[w] / Σ eᵢ                           e = decay^(i − 1)
    distance    Σ eᵢ[w] / Σ eᵢ                           e = exp(−(dᵢ − d₁) / bandwidth)
    exp-z       (Σ eᵢ[w] − π Σ eᵢ) / √(π(1 − π) Σ eᵢ²)    e = decay^(i − 1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from nearsay.core.settings import check_choice, check_number
from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable

# The weight halves every 23 neighbors: beyond about a hundred, more change little.
DECAY = 0.97


@dataclass(frozen=True)
class Relevance:
    """A weighted vote of neighbors for keywords.

    Parameters
    ----------
    kind : one of RELEVANCES
    decay : float between 0 and 1, default=0.97
        For "rank" and "exp-z": the weight of each neighbor relative to the one before it.
    bandwidth : float or None
        For "distance": the difference in distance at which the weight falls to 1/e. None
        takes the mean difference between a query's first neighbor and its others.
    sharpness : float above 0, default=1.0
        For "distance" without a bandwidth: divides that mean.
    """

    kind: str = "prior"
    decay: float = DECAY
    bandwidth: float | None = None
    sharpness: float = 1.0

    def scores(self, table: NeighborTable, keywords: csr_array) -> np.ndarray:
        """One number for every query and word: (n_queries, n_words). Missing neighbors do not vote.

        Parameters
        ----------
        table : the neighbors of the queries.
        keywords : (n_rows, n_words) zeros and ones of the rows they were found among.

        Four items, three words; the neighbors are the first two:

        >>> Y = csr_array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]])
        >>> table = NeighborTable(np.array([[0, 1]]), np.array([[0.0, 1.0]]))
        >>> Relevance("prior").scores(table, Y), Relevance("count").scores(table, Y)
        (array([[ 0.5,  0.5, -1. ]]), array([[2., 1., 0.]]))
        """
        weights = self.weights(table)
        _, hold_against = RELEVANCES[self.kind]
        share = np.asarray(keywords.sum(axis=0)).ravel() / max(keywords.shape[0], 1)
        return hold_against(weighted_votes(table.indices, weights, keywords), weights, share)

    def weights(self, table: NeighborTable) -> np.ndarray:
        """How much each neighbor counts: (n_queries, k), 0 where there is none.

        >>> Relevance("rank", decay=0.5).weights(NeighborTable(np.array([[4, 1, -1]]), np.array([[0.0, 1.0, np.inf]])))
        array([[1. , 0.5, 0. ]])
        """
        check_choice("relevance", self.kind, RELEVANCES)
        weigh, _ = RELEVANCES[self.kind]
        return np.where(table.indices >= 0, weigh(self, table), 0.0)


def weighted_votes(indices: np.ndarray, weights: np.ndarray, keywords: csr_array) -> np.ndarray:
    """Σ weights[q, i] · keywords[indices[q, i]] for every query: (n_queries, n_words).

    >>> weighted_votes(np.array([[1, 0]]), np.array([[2.0, 1.0]]), csr_array([[1, 0], [1, 1]]))
    array([[3., 2.]])
    """
    if indices.size and indices.max() >= keywords.shape[0]:
        raise InputError(
            f"A neighbor has the row number {indices.max()}, but there are keywords for {keywords.shape[0]} rows."
            " Pass the keywords of all rows among which neighbors were found."
        )
    exists = indices >= 0
    starts = np.concatenate([[0], np.cumsum(exists.sum(axis=1))])
    votes = csr_array((weights[exists], indices[exists], starts), shape=(len(indices), keywords.shape[0]))
    return (votes @ keywords).toarray()


def word_votes(indices: np.ndarray, keywords: csr_array) -> np.ndarray:
    """How many neighbors have each word: (n_queries, n_words). Missing ones have none."""
    return weighted_votes(indices, np.ones(indices.shape), keywords)


# ------------------------------------------------------------ weights of the neighbors


def _equal(relevance: Relevance, table: NeighborTable) -> np.ndarray:
    return np.ones(table.indices.shape)


def _by_rank(relevance: Relevance, table: NeighborTable) -> np.ndarray:
    check_number("decay", relevance.decay, 0, 1, closed="right")
    return np.broadcast_to(relevance.decay ** np.arange(table.n_neighbors), table.indices.shape)


def _by_distance(relevance: Relevance, table: NeighborTable) -> np.ndarray:
    exists = table.indices >= 0
    distances = np.where(exists, table.distances, 0.0)
    farther = np.where(exists, distances - distances[:, :1], 0.0)
    if relevance.bandwidth is None:
        mean = farther.sum(axis=1, keepdims=True) / np.maximum(exists.sum(axis=1, keepdims=True) - 1, 1)
        mean = mean / check_number("sharpness", relevance.sharpness, 0, closed="right")
        bandwidth = np.where(mean > 0, mean, 1.0)  # equally near neighbors have equal weights
    else:
        width = check_number("bandwidth", relevance.bandwidth, 0, closed="right", otherwise=", or None")
        bandwidth = np.full((len(table), 1), width)
    return np.exp(-farther / bandwidth)


# ------------------------------------------------------------ votes compared with those of random rows


def _nothing(votes: np.ndarray, weights: np.ndarray, share: np.ndarray) -> np.ndarray:
    return votes


def _all_votes(votes: np.ndarray, weights: np.ndarray, share: np.ndarray) -> np.ndarray:
    total = weights.sum(axis=1, keepdims=True)
    return votes / np.where(total > 0, total, 1.0)


def _expected(votes: np.ndarray, weights: np.ndarray, share: np.ndarray) -> np.ndarray:
    return votes - weights.sum(axis=1, keepdims=True) * share


def _chance(votes: np.ndarray, weights: np.ndarray, share: np.ndarray) -> np.ndarray:
    # A word that all rows or none have has no variance.
    spread = np.sqrt(share * (1 - share) * (weights**2).sum(axis=1, keepdims=True))
    return np.divide(_expected(votes, weights, share), spread, out=np.zeros(votes.shape), where=spread > 0)


Weigh = Callable[[Relevance, NeighborTable], np.ndarray]
HoldAgainst = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

RELEVANCES: dict[str, tuple[Weigh, HoldAgainst]] = {
    "count": (_equal, _nothing),
    "prior": (_equal, _expected),
    "rank": (_by_rank, _all_votes),
    "distance": (_by_distance, _all_votes),
    "exp-z": (_by_rank, _chance),
}
