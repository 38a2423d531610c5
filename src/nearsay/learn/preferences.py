"""Preferences for learning to rank: which of two rows should come first among a query's neighbors, with weights.

The row that shares more of the query's keywords should come first, and a
mistake near the top of the list costs more than one further down::

    query's keywords agree    1.0   .67   .67 │  .4   …    0    0
    place in the ideal order   1     2     3  │   4   …  n−2  n−1
                                   top k      │      rest
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.core.settings import check_choice, check_number, check_whole

WEIGHTINGS = ("ndcg", "equal")


@dataclass(frozen=True)
class Preferences:
    """For row ``query[p]``, row ``better[p]`` should come before row ``worse[p]``, with weight ``weight[p]``."""

    query: np.ndarray
    better: np.ndarray
    worse: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.query)


def agreement(Y: csr_array, Z: csr_array) -> np.ndarray:
    """The Dice coefficient of keywords: twice the number shared, divided by the sum of both numbers, from 0 to 1.

    Parameters
    ----------
    Y, Z : (n, n_words), (m, n_words) zeros and ones.

    Returns
    -------
    (n, m) float64; 0 where no keyword is shared, also where neither has any.

    >>> agreement(csr_array([[1, 1, 1, 0], [1, 0, 0, 0]]), csr_array([[1, 1, 0, 1], [0, 0, 0, 0]])).round(3)
    array([[0.667, 0.   ],
           [0.5  , 0.   ]])
    """
    shared = (Y @ Z.T).toarray().astype(np.float64)
    total = np.asarray(Y.sum(axis=1)).reshape(-1, 1) + np.asarray(Z.sum(axis=1)).reshape(1, -1)
    return 2 * shared / np.maximum(total, 1)


def swap_weights(
    better: Any, worse: Any, better_place: Any, worse_place: Any, ideal: Any, depth: int, rest: float
) -> np.ndarray:
    """The loss of NDCG at ``depth`` if two items of the ideal order are swapped.

    better, worse : agreements of the two with the query.
    better_place, worse_place : their ranks, from 1; ``better_place`` is the smaller.
    ideal : the discounted gain of the first ``depth`` items (``ideal_gain``).
    rest : the weight of a pair with both items below ``depth``.

    The agreements 1, ½, 0, 0 and a list of two:

    >>> ideal = ideal_gain(np.array([1.0, 0.5, 0.0, 0.0]), depth=2)
    >>> swap_weights([1, 0.5, 1, 0], [0.5, 0, 0, 0], [1, 2, 1, 3], [2, 4, 3, 4], ideal, depth=2, rest=1e-6).round(6)
    array([1.71402e-01, 2.07192e-01, 7.92808e-01, 1.00000e-06])
    """
    a, b = np.asarray(better_place, dtype=np.float64), np.asarray(worse_place, dtype=np.float64)
    lost = np.exp2(better) - np.exp2(worse)
    discount = 1 / np.log2(1 + a) - np.where(b <= depth, 1 / np.log2(1 + b), 0.0)
    return np.where(a <= depth, lost * discount / ideal, rest)


def ideal_gain(agreements: np.ndarray, depth: int) -> float:
    """The ideal DCG: Σ (2^r − 1) / log2(1 + place) over the first ``depth`` agreements, in falling order.

    >>> round(ideal_gain(np.array([1.0, 0.5, 0.0, 0.0]), depth=2), 5)
    1.26134
    """
    top = agreements[:depth]
    return float(((np.exp2(top) - 1) / np.log2(2 + np.arange(len(top)))).sum())


def draw_preferences(
    Y: csr_array,
    n_pairs: int,
    *,
    depth: int = 200,
    top: int | None = None,
    weighting: str = "ndcg",
    rest: float = 1e-6,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> Preferences:
    """Draw preferences from keywords: for each row, pairs of other rows of different agreement, with weights.

    For each row the others are ordered by ``agreement``, ties at random. Of all pairs whose agreements differ,
    ``n_pairs`` are drawn uniformly, with replacement. A row with no such pair (it has no keywords, or shares equally
    many with all) gives none.

    Y : (n_rows, n_words) zeros and ones.
    depth : how far down the order matters.
    top : draw only pairs whose better row is among the first ``top``: few of all pairs are.
    weighting : {"ndcg", "equal"}, "ndcg": what swapping the two would lose of NDCG at ``depth``.
    rest : the weight of pairs below ``depth``, small against the others.
    groups : (n_rows,) numbers, optional, rows of the group of a row are left out of its order.

    >>> Y = csr_array([[1, 1], [1, 1], [1, 0], [0, 0]])
    >>> found = draw_preferences(Y, 2, seed=1)
    >>> found.query.tolist(), found.better.tolist(), found.worse.tolist()
    ([0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 1, 1], [3, 2, 2, 3, 3, 3])
    """
    check_choice("weighting", weighting, WEIGHTINGS)
    check_whole("n_pairs", n_pairs, least=1)
    check_whole("depth", depth, least=1)
    if top is not None:
        check_whole("top", top, least=1)
    check_number("rest", rest, 0)

    def alike(row: int) -> np.ndarray:
        """Where the rows of its group are, itself among them."""
        return np.arange(Y.shape[0]) == row if groups is None else groups == groups[row]

    def draw_block(rows: slice) -> list[np.ndarray]:
        agreements = agreement(Y[rows], Y)
        drawn = [
            _draw(r, alike(i), i, n_pairs, depth, top, rest, np.random.default_rng([seed, i]))
            for i, r in enumerate(agreements, start=rows.start)
        ]
        return [np.concatenate(part) for part in zip(*drawn, strict=True)]

    blocks = in_parallel(draw_block, row_blocks(Y.shape[0], row_bytes=16 * Y.shape[0]))
    query, better, worse, weight = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return Preferences(query, better, worse, np.ones(len(query)) if weighting == "equal" else weight)


def _draw(
    agreements: np.ndarray,
    left_out: np.ndarray,
    row: int,
    n_pairs: int,
    depth: int,
    top: int | None,
    rest: float,
    random: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """One row's pairs (query, better, worse, weight), by a random generator of its own: threads do not matter."""
    others = random.permutation(len(agreements))
    others = others[~left_out[others]]
    others = others[np.argsort(-agreements[others], kind="stable")]
    r = agreements[others]
    # From this place on down, agreements are smaller than at each of the first ``top``.
    below = np.searchsorted(-r, -r[:top], side="right")
    n_worse = len(r) - below
    chances = np.cumsum(n_worse)
    if not len(chances) or not chances[-1]:
        none = np.empty(0, np.int64)
        return none, none, none, np.empty(0)
    a = np.searchsorted(chances, random.integers(chances[-1], size=n_pairs), side="right")
    b = below[a] + (random.random(n_pairs) * n_worse[a]).astype(np.int64)
    weight = swap_weights(r[a], r[b], a + 1, b + 1, ideal_gain(r, depth), depth, rest)
    return np.full(n_pairs, row), others[a], others[b], weight
