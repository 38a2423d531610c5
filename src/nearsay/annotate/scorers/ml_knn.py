"""ML-kNN (Zhang and Zhou 2007): keyword probabilities from the number of neighbors with the word, by Bayes' rule.

For every word by itself::

    v of the k neighbors have the word ──► P(word | v) = P(word) P(v | word) / (… + P(no word) P(v | no word))

where P(v | word) is learned from the rows that have the word: how many of *their* k neighbors have it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from nearsay.annotate.scorers.relevance import word_votes
from nearsay.core.arrays import as_rows, check_n_neighbors, row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_estimator, check_number
from nearsay.data.keywords import rows_and_keywords
from nearsay.data.rows import as_groups
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.other_groups import left_out
from nearsay.neighbors.table import NeighborTable


@dataclass(frozen=True)
class VoteRecord:
    """Counts of rows with and without each word, by the number of their neighbors that have it.

    has, lacks : (n_words, k + 1) whole numbers, rows with and without the word of whose k neighbors 0, 1, …, k have it.

    Four rows in a ring, of which the first two have the only word; two neighbors each:

    >>> table = NeighborTable(np.array([[1, 3], [0, 2], [1, 3], [2, 0]]), np.zeros((4, 2)))
    >>> record = VoteRecord.of(table, csr_array([[1], [1], [0], [0]]))
    >>> record.has, record.lacks
    (array([[0, 2, 0]]), array([[0, 2, 0]]))
    """

    has: np.ndarray
    lacks: np.ndarray

    @classmethod
    def of(cls, table: NeighborTable, keywords: csr_array) -> VoteRecord:
        """Count the votes in a leave-one-out table of all rows."""
        shape = (keywords.shape[1], table.n_neighbors + 1)
        every, has = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for rows in row_blocks(len(table), row_bytes=32 * shape[0]):
            votes = word_votes(table.indices[rows], keywords).astype(np.int64)
            has_word = keywords[rows].toarray() > 0
            every += _by_votes(votes, np.ones(votes.shape, np.bool_), shape)
            has += _by_votes(votes, has_word, shape)
        return cls(has, every - has)

    def proba(self, smoothing: float) -> np.ndarray:
        """P(word | votes): (n_words, k + 1).

        Each count starts at ``smoothing``, so that nothing is certain. With one
        neighbor, and its vote: (3/10)(3/4) with the word, (7/10)(1/8) without,
        so 0.225 / 0.3125 = 0.72.

        >>> VoteRecord(has=np.array([[0, 2]]), lacks=np.array([[6, 0]])).proba(1.0).round(3)
        array([[0.109, 0.72 ]])
        """
        smoothing = check_number("smoothing", smoothing, 0, closed="right")
        n_has, n_lacks = (part.sum(axis=1, keepdims=True) for part in (self.has, self.lacks))
        prior = (smoothing + n_has) / (2 * smoothing + n_has + n_lacks)
        n_sizes = self.has.shape[1]
        with_word = prior * (smoothing + self.has) / (smoothing * n_sizes + n_has)
        without = (1 - prior) * (smoothing + self.lacks) / (smoothing * n_sizes + n_lacks)
        return with_word / (with_word + without)


def _by_votes(votes: np.ndarray, counted: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    cells = votes + np.arange(shape[0]) * shape[1]
    return np.bincount(cells[counted], minlength=shape[0] * shape[1]).reshape(shape)


class MLkNN(DocumentedEstimator):
    """A probability for every keyword, from the number of neighbors that have it (Zhang and Zhou 2007).

    Parameters
    ----------
    n_neighbors : int, default=10
    base : None or an estimator with ``fit(X, Y)``, ``neighbors`` and ``leave_one_out``, default=None
        Finds the neighbors; None takes the nearest rows by Euclidean distance.
    smoothing : float, default=1.0
        Added to every count.

    Attributes
    ----------
    record_ : VoteRecord
        Counts of past votes.
    words_ : (n_words,) array
        The words, in the order of the columns of answers.

    Examples
    --------
    >>> X = [[0], [1], [2], [10], [11], [12]]
    >>> Y = [["cat"], ["cat"], ["cat"], ["dog"], ["dog"], ["dog"]]
    >>> ml = MLkNN(n_neighbors=2).fit(X, Y)
    >>> ml.words_, ml.predict([[1.5]]), ml.predict_proba([[1.5]])
    (array(['cat', 'dog'], dtype='<U3'), array([[1, 0]]), array([[0.8, 0.2]]))
    """

    def __init__(self, n_neighbors: int = 10, *, base: Any = None, smoothing: float = 1.0) -> None:
        self.n_neighbors = n_neighbors
        self.base = base
        self.smoothing = smoothing

    def fit(self, X: Any, Y: Any, groups: Any = None) -> MLkNN:
        """Find the neighbors of every row among the others, and count their votes.

        Parameters
        ----------
        X, Y : as in ``KeywordAnnotator.fit``.
        groups : (n_rows,) hashable names, optional
            The group of each row, such as a photographer: no row of its group votes on a past case.
        """
        if self.base is not None:
            check_estimator("base", self.base, "fit", "neighbors", "leave_one_out")
        rows, keywords = rows_and_keywords(X, Y)
        k = check_n_neighbors(self.n_neighbors, len(rows), left_out=1)
        groups = as_groups(groups, len(rows))
        if self.base is None:
            self._index: NeighborIndex | None = NeighborIndex().fit(rows)
        else:
            self._index = None
            self.base_ = clone(self.base).fit(rows, keywords.matrix)
        table = left_out(self.base_ if self._index is None else self._index, k, np.arange(len(rows)), groups)
        self.n_features_in_ = rows.shape[1]
        self.words_ = keywords.words
        self._keywords = keywords.matrix
        self.record_ = VoteRecord.of(table, keywords.matrix)
        self._proba = self.record_.proba(self.smoothing)
        return self

    def neighbors(self, X: Any) -> NeighborTable:
        """The neighbors that vote on every query."""
        check_is_fitted(self, "record_")
        queries = as_rows(X, width=self.n_features_in_)
        if self._index is not None:
            return self._index.query(queries, self.n_neighbors)
        return self.base_.neighbors(queries, self.n_neighbors)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability that each query has each word: (n_queries, n_words)."""
        return self._answers(self.neighbors(X), self._proba)

    def predict(self, X: Any) -> np.ndarray:
        """1 for every word with a probability of at least ½: (n_queries, n_words) of 0 and 1."""
        return self._answers(self.neighbors(X), (self._proba >= 0.5).astype(np.int64))

    def _answers(self, table: NeighborTable, by_votes: np.ndarray) -> np.ndarray:
        """Look up the votes of every query."""
        answers = np.empty((len(table), len(by_votes)), by_votes.dtype)
        for part in row_blocks(len(table), row_bytes=16 * len(by_votes)):
            votes = word_votes(table.indices[part], self._keywords).astype(np.int64)
            answers[part] = by_votes[np.arange(len(by_votes)), votes]
        return answers
