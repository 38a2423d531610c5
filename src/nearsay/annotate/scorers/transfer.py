"""JEC's label transfer (Makadia et al. 2008): the nearest neighbor's keywords, then those that co-occur with them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from nearsay.annotate.scorers.relevance import word_votes
from nearsay.core.arrays import row_blocks
from nearsay.neighbors.table import NeighborTable


def transfer_scores(table: NeighborTable, keywords: csr_array) -> np.ndarray:
    """Scores whose order is that in which JEC transfers keywords: (n_queries, n_words).

    1. The words of the nearest neighbor come first, the more frequent ones among all rows before the others.
    2. Then the words of the other neighbors, by their co-occurrence with the
       words of the nearest (of the rows that have such a word, the share that
       has this one too, summed over those words), times the number of these
       neighbors that have them; ties by that number, then by frequency.
    3. Then all others, by frequency.

    The first n words are those that the paper transfers, for any n (with five
    neighbors). Words from steps 1 and 2 score above 1 and up to 2, evenly
    spaced; the score of the others is the share of rows that have them. If the
    nearest has no words, step 2 goes by number alone. Missing neighbors do not vote.

    table : the neighbors of the queries.
    keywords : (n_rows, n_words) zeros and ones of the rows they were found among.

    The nearest has the second word; of the other neighbors' words, the third co-occurs with it more often:

    >>> Y = csr_array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
    >>> transfer_scores(NeighborTable(np.array([[0, 1]]), np.array([[0.0, 1.0]])), Y)
    array([[1.33333333, 2.        , 1.66666667, 0.25      ]])
    """
    frequency = np.asarray(keywords.sum(axis=0), dtype=np.float64).ravel()
    # Shares, not counts: otherwise the most frequent word of the nearest would dominate.
    together = csr_array((keywords.T @ keywords).multiply(1 / np.maximum(frequency, 1)[:, None]))
    share = frequency / max(keywords.shape[0], 1)
    scores = np.tile(share, (len(table), 1))
    for part in row_blocks(len(table), row_bytes=32 * keywords.shape[1]):
        nearest = word_votes(table.indices[part, :1], keywords)
        others = word_votes(table.indices[part, 1:], keywords)
        alongside = (csr_array(nearest) @ together).toarray()
        for query in range(len(nearest)):
            words = np.flatnonzero((nearest[query] > 0) | (others[query] > 0))
            first = nearest[query, words] > 0
            support = np.where(first, 0.0, others[query, words])
            order = words[np.lexsort((-frequency[words], -support, -support * alongside[query, words], ~first))]
            scores[part.start + query, order] = 2 - np.arange(len(order)) / max(len(order), 1)
    return scores
