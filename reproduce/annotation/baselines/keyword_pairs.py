"""Pairs of rows that share keywords and pairs that share none: what weights are learned from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from nearsay.core.arrays import row_blocks
from nearsay.core.settings import check_whole
from nearsay.errors import InputError

# Rounds of drawing pairs that should share nothing: where only one pair in ten does, these still find nearly all.
ROUNDS = 20


@dataclass(frozen=True)
class KeywordPairs:
    """Rows ``first[p]`` and ``second[p]`` are alike where ``alike[p]``, and share nothing elsewhere."""

    first: np.ndarray
    second: np.ndarray
    alike: np.ndarray

    def __len__(self) -> int:
        return len(self.alike)


def draw_pairs(Y: csr_array, n_pairs: int, min_shared: int = 4, seed: int = 0) -> KeywordPairs:
    """Draw up to ``n_pairs`` pairs of rows that share at least so many keywords, and as many that share none.

    All pairs of the first kind have equal chances, without replacement; those
    of the second are drawn with replacement.

    Parameters
    ----------
    Y : (n_rows, n_words) zeros and ones.

    >>> pairs = draw_pairs(csr_array([[1, 1, 0], [1, 1, 1], [0, 0, 0]]), n_pairs=1, min_shared=2)
    >>> pairs.first[0], pairs.second[0], pairs.alike
    (np.int64(0), np.int64(1), array([ True, False]))
    """
    check_whole("n_pairs", n_pairs, least=1)
    check_whole("min_shared", min_shared, least=1)
    random = np.random.default_rng(seed)
    alike = _sharing(Y, min_shared)
    if not len(alike):
        raise InputError(
            f"No two of the {Y.shape[0]} rows share {min_shared} keywords, so none are known to be alike."
            " Lower min_shared."
        )
    alike = alike[np.sort(random.permutation(len(alike))[:n_pairs])]
    unlike = _sharing_nothing(Y, len(alike), random)
    if not len(unlike):
        raise InputError(
            f"All of the {Y.shape[0]} rows share some keyword with all others, so none are known to differ."
            " Leave out keywords that nearly all rows have."
        )
    both = np.concatenate([alike, unlike])
    return KeywordPairs(both[:, 0], both[:, 1], np.arange(len(both)) < len(alike))


def _sharing(Y: csr_array, least: int) -> np.ndarray:
    """All pairs (i, j), i < j, of rows with so many common keywords: (n, 2)."""
    blocks = []
    for rows in row_blocks(Y.shape[0], row_bytes=16 * Y.shape[0]):
        shared = (Y[rows] @ Y.T).tocoo()
        i = shared.row + rows.start
        keep = (shared.data >= least) & (i < shared.col)
        blocks.append(np.column_stack([i[keep], shared.col[keep]]).astype(np.int64))
    pairs = np.concatenate(blocks) if blocks else np.empty((0, 2), np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _sharing_nothing(Y: csr_array, n_pairs: int, random: np.random.Generator) -> np.ndarray:
    parts, missing = [np.empty((0, 2), np.int64)], n_pairs
    for _ in range(ROUNDS):
        drawn = random.integers(Y.shape[0], size=(2 * n_pairs, 2))
        shared = np.asarray(Y[drawn[:, 0]].multiply(Y[drawn[:, 1]]).sum(axis=1)).ravel()
        drawn = drawn[(shared == 0) & (drawn[:, 0] != drawn[:, 1])][:missing]
        parts.append(drawn)
        missing -= len(drawn)
        if not missing:
            break
    drawn = np.concatenate(parts)
    return drawn if len(drawn) else _first_sharing_nothing(Y, n_pairs, random)


def _first_sharing_nothing(Y: csr_array, n_pairs: int, random: np.random.Generator) -> np.ndarray:
    """For when such pairs are so few that none was drawn: some of those of the first rows that have any."""
    for rows in row_blocks(Y.shape[0], row_bytes=16 * Y.shape[0]):
        first, second = np.nonzero((Y[rows] @ Y.T).toarray() == 0)
        both = np.column_stack([first + rows.start, second])
        pairs: np.ndarray = both[both[:, 0] != both[:, 1]]
        if len(pairs):
            return pairs[random.integers(len(pairs), size=n_pairs)]
    return np.empty((0, 2), np.int64)
