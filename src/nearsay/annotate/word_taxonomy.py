"""Keywords in a taxonomy: a word implies the words above it, and an unsure word gives way to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nearsay.core.arrays import as_labels
from nearsay.data.keywords import Keywords
from nearsay.taxonomy.taxonomy import Taxonomy


def with_implied(keywords: Keywords, taxonomy: Taxonomy) -> Keywords:
    """The keywords with all that they imply, a column for each in the order of the taxonomy; the root says nothing.

    >>> pets = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})
    >>> closed = with_implied(Keywords.of([["corgi"], ["cat"], []]), pets)
    >>> closed.words.tolist(), closed.matrix.toarray().astype(int).tolist()
    (['corgi', 'cat', 'dog'], [[1, 0, 1], [0, 1, 0], [0, 0, 0]])
    """
    above = taxonomy.ancestry[taxonomy.check_labels(keywords.words.tolist())]
    table = (csr_array(keywords.matrix) @ above).tocsc()[:, : taxonomy.n_nodes - 1]
    kept = np.flatnonzero(np.diff(table.indptr) > 0)
    matrix = table[:, kept].tocsr()
    matrix.data = np.ones_like(matrix.data, dtype=keywords.matrix.dtype)
    matrix.sort_indices()
    return Keywords(matrix, as_labels([taxonomy.nodes[node] for node in kept.tolist()]), named=True)


@dataclass(frozen=True)
class ImpliedWords:
    """Which words imply which.

    ``above`` is (n_words, n_words): [w, u] is one where u is w or implied by it. Words come before what they imply.
    """

    above: Any

    @classmethod
    def of(cls, words: np.ndarray, taxonomy: Taxonomy) -> ImpliedWords:
        """For words in the order of the taxonomy."""
        numbers = taxonomy.check_labels(words.tolist())
        return cls(csr_array(taxonomy.ancestry[numbers][:, numbers]))

    def rising(self, p: np.ndarray) -> np.ndarray:
        """Probabilities (n_items, n_words) that never fall from a word to what it implies."""
        risen, below = p.copy(), self.above.tocsc()
        for word in range(p.shape[1]):
            risen[:, word] = p[:, below.indices[below.indptr[word] : below.indptr[word + 1]]].max(axis=1)
        return risen

    def most_specific(self, words: np.ndarray) -> np.ndarray:
        """Of some words those that no other one implies, in their order."""
        implied = self.above[words][:, words].toarray() > 0
        np.fill_diagonal(implied, val=False)
        return words[~implied.any(axis=0)]

    def with_implied(self, words: np.ndarray) -> np.ndarray:
        """Some words and all that they imply, rising."""
        return np.unique(self.above[words].indices)
