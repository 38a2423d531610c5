"""Two-pass neighbors (2PKNN; Verma and Jawahar 2012): rare words get as many neighbors as frequent ones.

    all rows, nearest first:    sky   sky   sky,sun   sky   cat   sky,cat   sky   cat   sun   sun
    first pass, two per word:    ✓     ✓       ✓             ✓       ✓                   ✓
    second pass: the chosen rows vote, weighted by distance

The first pass is here; the second is a relevance by distance, such as ``Relevance("distance", bandwidth=0.03)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.core.arrays import as_rows, check_n_neighbors, check_row_numbers, row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_estimator, check_whole
from nearsay.data.keywords import rows_and_keywords
from nearsay.neighbors.table import NeighborTable

# Queries whose neighbors, all rows in order, are held at once: 100 MB among 100,000 rows.
QUERIES_AT_ONCE = 64


class TwoPassNeighbors(DocumentedEstimator):
    """The union of the nearest rows of *each keyword*, so that frequent words do not crowd out rare ones (2PKNN).

    Parameters
    ----------
    base : None or an estimator with ``fit(X, Y)``, ``neighbors`` and ``leave_one_out``, default=None
        Orders the rows: ``JointNeighbors`` (None: all columns by
        Euclidean distance), ``RankBoostNeighbors``, …
    per_word : int, default=2
        Rows of each word.

    Attributes
    ----------
    base_ : the fitted estimator.

    Examples
    --------
    Nearly all rows have "sky". The row with "sun" is far away, but it is included:

    >>> X, Y = [[0], [1], [2], [3], [9]], [["sky"], ["sky"], ["sky"], ["sky"], ["sun"]]
    >>> TwoPassNeighbors(per_word=2).fit(X, Y).neighbors([[0]], k=4).indices
    array([[ 0,  1,  4, -1]])
    """

    def __init__(self, base: Any = None, *, per_word: int = 2) -> None:
        self.base = base
        self.per_word = per_word

    @property
    def learns_from_keywords(self) -> bool:
        """Whether the base estimator does; choosing rows by their own keywords does not bias leave-one-out."""
        return self.base is not None and getattr(self.base, "learns_from_keywords", True)

    def fit(self, X: Any, Y: Any) -> TwoPassNeighbors:
        """Hold the rows and their keywords; ``X`` and ``Y`` are as in ``KeywordAnnotator.fit``."""
        keywords = rows_and_keywords(X, Y)[1].matrix
        check_whole("per_word", self.per_word, least=1)
        if self.base is not None:
            check_estimator("base", self.base, "fit", "neighbors", "leave_one_out")
        self.base_ = clone(JointNeighbors() if self.base is None else self.base).fit(X, keywords)
        self.n_features_in_ = self.base_.n_features_in_
        self._keywords = keywords
        return self

    def neighbors(self, X: Any, k: int) -> NeighborTable:
        """The ``k`` nearest of the rows that are among a word's nearest, nearest first.

        A query has at most ``per_word`` neighbors per word; padded with −1 and +inf.
        """
        check_is_fitted(self, "base_")
        queries, n_rows = as_rows(X, width=self.n_features_in_), self._keywords.shape[0]
        return self._first_pass(
            lambda part: self.base_.neighbors(queries[part], n_rows), len(queries), check_n_neighbors(k, n_rows)
        )

    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The same for the rows themselves (or ``rows``: numbers, or a mask), each left out of its own neighbors."""
        check_is_fitted(self, "base_")
        n_rows = self._keywords.shape[0]
        k = check_n_neighbors(k, n_rows, left_out=1)
        numbers = np.arange(n_rows) if rows is None else check_row_numbers(rows, n_rows)
        return self._first_pass(lambda part: self.base_.leave_one_out(n_rows - 1, rows=numbers[part]), len(numbers), k)

    def _first_pass(self, in_order: Callable[[slice], NeighborTable], n_queries: int, k: int) -> NeighborTable:
        """Choose rows for all queries; ``in_order`` gives all rows, nearest first, for some of the queries."""
        from nearsay.annotate.scorers.two_pass_kernels import nearest_of_each_word

        starts, words, n_words = self._keywords.indptr, self._keywords.indices, self._keywords.shape[1]
        table = NeighborTable(np.full((n_queries, k), -1, np.int64), np.full((n_queries, k), np.inf))
        for part in row_blocks(n_queries, size=QUERIES_AT_ONCE):
            rows = in_order(part)
            places = np.empty((len(rows), k), np.int64)
            nearest_of_each_word(rows.indices, starts, words, self.per_word, np.empty(n_words, np.int64), places)
            exists = places >= 0
            for every, chosen in ((rows.indices, table.indices), (rows.distances, table.distances)):
                chosen[part][exists] = np.take_along_axis(every, np.maximum(places, 0), axis=1)[exists]
        return table
