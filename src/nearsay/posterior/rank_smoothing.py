"""From counts of ranks to probabilities of ranks, where most of the late ranks were seen once or never.

Columns are the ranks 1 … C of the true label among all classes by their
nearest member; one more column counts the labels beyond the list.
"""

from __future__ import annotations

import numpy as np

# A rank counted ten times is known to about a third of itself (1/√10). Where each past case is judged by the table of
# the others (100 classes of 4 to 15 leaves), anything from 10 up does equally well; below, chance looks like a pattern.
FEW_CASES = 10

# How many cases the whole weighs against those of one cell. Judged in the same way, 5 to 20 are equally good, and all
# are far better than shrinking each cell by itself, n_cell + s·P(rank), for any s: two errors among 900 unanimous
# votes say hardly anything about ranks, yet every late rank would be 0 but for the ranks of those two.
STRENGTH = 10.0


def pooled_tail(counts: np.ndarray) -> np.ndarray:
    """The counts of ranks, with those of late ranks pooled until a later rank is never likelier than an earlier one.

    The tail begins where every further rank has fewer than ten cases: one
    case at rank 37 does not say that rank 37 is special. Ranks before it are
    counted as they are, in whatever order. The sum stays the same, and the
    last column, labels beyond the list, stays apart.

    >>> pooled_tail(np.array([80, 17, 0, 2, 0, 0]))
    array([80., 17.,  1.,  1.,  0.,  0.])
    """
    from scipy.optimize import isotonic_regression

    n_ranks = len(counts) - 1
    often = np.flatnonzero(counts[:-1] >= FEW_CASES)
    tail = slice(often[-1] + 1 if len(often) else 0, n_ranks)
    pooled: np.ndarray = counts.astype(np.float64)
    if tail.start < n_ranks:
        pooled[tail] = isotonic_regression(pooled[tail], increasing=False).x
    return pooled


def rank_probabilities(counts: np.ndarray) -> np.ndarray:
    """How likely the true label stands at each rank: (n_classes + 1,), summing to 1.

    As frequent as it was, the tail pooled. One more case, spread evenly over
    all ranks, keeps each of them possible.

    >>> rank_probabilities(np.array([80, 17, 0, 2, 0, 0]))         # 80 17 1 1 0, and 0.2 more for each rank
    array([0.802, 0.172, 0.012, 0.012, 0.002, 0.   ])
    """
    p = pooled_tail(counts)
    p[:-1] += 1 / (len(counts) - 1)
    p /= p.sum()
    return p


def shrunk_by_votes(counts: np.ndarray, p_all: np.ndarray) -> np.ndarray:
    """How likely each rank is for each number of votes (n_votes, n_classes + 1), where few cases say little.

    Each line is shrunk to that of one vote more, the clearest to all cases;
    but never to one that promises more than all cases kept. So a split vote
    that was never seen is not taken for a clear one.

    >>> shrunk_by_votes(np.array([[0, 0, 0], [8, 2, 0], [25, 5, 0]]), np.array([0.8, 0.2, 0.0]))
    array([[0.8  , 0.2  , 0.   ],
           [0.8  , 0.2  , 0.   ],
           [0.825, 0.175, 0.   ]])
    """
    p = np.empty(counts.shape)
    expected = p_all
    for votes in range(len(counts) - 1, -1, -1):
        p[votes] = shrunk(counts[votes], expected)
        if p[votes, 0] < expected[0]:
            expected = p[votes]
    return p


def shrunk(counts: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How likely each rank is in one cell, where few cases say little: (n_classes + 1,).

    Ranks are walked from the first. At each, of the cases still left, some
    share has its true label here; the share in the cell is shrunk to the
    expected one, which weighs ten cases. So the first ranks, with many cases,
    are the cell's own, and late ones, with hardly any case left, fall off as
    expected.

    >>> shrunk(np.array([25, 5, 0]), np.array([0.8, 0.2, 0.0]))          # (25 + 8)/40
    array([0.825, 0.175, 0.   ])
    """
    counts = pooled_tail(counts)
    left = counts[::-1].cumsum()[::-1]
    left_expected = expected[::-1].cumsum()[::-1]
    share_expected = np.divide(expected, left_expected, out=np.ones_like(expected), where=left_expected > 0)
    share = (counts + STRENGTH * share_expected) / (left + STRENGTH)
    share[-1] = 1.0
    gone_on = np.cumprod(1 - share)
    share[1:] *= gone_on[:-1]
    p: np.ndarray = share
    return p
