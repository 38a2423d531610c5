"""A forest for all keywords at once, as a vote of the rows that share leaves with a query."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows, row_blocks
from nearsay.data.keywords import annotated_order, rows_and_keywords
from nearsay.learn.linear_map import distinct_columns
from nearsay.posterior.views.forest import ForestClasses
from nearsay.posterior.views.row_transforms import STANDARDIZED, learn_maps


class KeywordForest(ForestClasses):
    """Scores of keywords by randomized trees, grown for all words together.

    The score of a word is the share of the vote of the rows that have it, where a row's share of the vote on a query is
    the mean, over the trees, of its share of the leaf that the query falls into.

    Parameters
    ----------
    n_trees : int, default=100
    rows_a_tree : int, default=20_000, rows that each tree is grown from, at most.

    Attributes
    ----------
    words_ : (n_words,) array

    Examples
    --------
    >>> X, Y = [[0], [1], [2], [10], [11], [12]], [["cat"]] * 3 + [["dog"]] * 3
    >>> forest = KeywordForest(n_trees=20).fit(X, Y)
    >>> forest.scores([[1.5], [10.5]]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(self, *, n_trees: int = 100, rows_a_tree: int = 20_000) -> None:
        self.n_trees = n_trees
        self.rows_a_tree = rows_a_tree

    def fit(self, X: Any, Y: Any) -> KeywordForest:  # type: ignore[override]  # keywords, not classes
        """Grow the trees; ``X`` and ``Y`` are as in ``KeywordAnnotator.fit``."""
        rows, keywords = rows_and_keywords(X, Y)
        self.n_features_in_, self.words_ = rows.shape[1], keywords.words
        # Trees are grown from rows in this order.
        order = annotated_order(rows[:, distinct_columns(rows)], keywords.matrix)
        self._row = order
        rows, self._keywords = rows[order], csr_array(keywords.matrix[order])
        self.classes_, self._labels = np.zeros(1, np.int64), np.zeros(len(rows), np.int64)
        [self._standardized] = learn_maps([STANDARDIZED], rows, self._labels)
        columns = self._columns(rows)
        self._grow(columns, self._keywords.indptr, self._keywords.indices)
        self._queries = columns
        return self

    def scores(self, X: Any) -> np.ndarray:
        """The share of the vote of every word: (n_queries, n_words), from 0 to 1."""
        check_is_fitted(self, "words_")
        return self._shares_of_words(self._columns(as_rows(X, width=self.n_features_in_)))

    def out_of_bag_scores(self, rows: np.ndarray) -> np.ndarray:
        """The same for training rows by number, each by the trees that were grown without it; only before saving."""
        check_is_fitted(self, "words_")
        place = np.argsort(self._row)[rows]
        return self._shares_of_words(self._queries[place], 1.0 - self._has_drawn(place))

    def _shares_of_words(self, columns: np.ndarray, votes: np.ndarray | None = None) -> np.ndarray:
        out = np.empty((len(columns), len(self.words_)))
        for part in row_blocks(len(columns), row_bytes=64 * len(self._roots)):
            leaves = self._leaves(columns[part])
            shares = self._by_leaf(leaves, None if votes is None else votes[part]) @ self._row_shares
            out[part] = (shares @ self._keywords).toarray()
            total = np.asarray(shares.sum(axis=1))[:, None]
            out[part] /= np.where(total > 0, total, 1.0)
        return out

    def _to_saved(self) -> dict[str, Any]:
        return {name: value for name, value in super()._to_saved().items() if name != "_queries"}
