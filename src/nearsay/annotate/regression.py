"""Keywords by linear regression: not neighbors, but a witness beside them that sees a word's rows all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from nearsay.arrays import as_rows, row_blocks
from nearsay.data.keywords import rows_and_keywords
from nearsay.learn.keyword_projection import covariances
from nearsay.learn.linear_map import in_units
from nearsay.settings import check_estimator, check_number


class KeywordRegression(BaseEstimator):
    """How far each word is told by a weighted sum of the columns, all words by least squares with a ridge.

    Parameters
    ----------
    transformer : None, a scikit-learn transformer or a pipeline of them, default=None
        What the rows go through first, such as ``LandmarkFeatures``.
    shrinkage : float above 0, default=1.0
        How much of their mean is added to the variances of all directions of the rows.

    Attributes
    ----------
    words_ : (n_words,) array

    Examples
    --------
    >>> told = KeywordRegression(shrinkage=0.01).fit([[0.0], [1.0], [2.0], [3.0]], [[1], [1], [0], [0]])
    >>> told.scores([[0.0], [1.5], [3.0]]).round(2)
    array([[ 1.09],
           [ 0.5 ],
           [-0.09]])
    """

    def __init__(self, transformer: Any = None, *, shrinkage: float = 1.0) -> None:
        self.transformer = transformer
        self.shrinkage = shrinkage

    def fit(self, X: Any, Y: Any) -> KeywordRegression:
        """Learn the weights.

        Parameters
        ----------
        X : (n_rows, n_columns)
        Y : the keywords of every row, a table of zeros and ones (dense or sparse) or lists of words.
        """
        check_number("shrinkage", self.shrinkage, 0, closed="right")
        if self.transformer is not None:
            check_estimator("transformer", self.transformer, "fit", "transform")
        rows, keywords = rows_and_keywords(X, Y)
        self.n_features_in_ = rows.shape[1]
        self.words_ = keywords.words
        self.transformer_ = None if self.transformer is None else clone(self.transformer).fit(rows, keywords.matrix)
        moved, unit = in_units(self._moved(rows))
        mean, of_rows, of_both = covariances(moved, keywords.matrix)
        self._share = np.asarray(keywords.matrix.mean(axis=0)).ravel()
        ridge = self.shrinkage * (np.trace(of_rows) / len(of_rows) or 1.0)
        self._mean = mean * unit
        self._weights = np.linalg.solve(of_rows + ridge * np.eye(len(of_rows)), of_both) / unit
        return self

    def scores(self, X: Any) -> np.ndarray:
        """What regression says of every query and word, about 0 to 1: (n_queries, n_words)."""
        check_is_fitted(self, "words_")
        rows = self._moved(as_rows(X, width=self.n_features_in_))
        out = np.empty((len(rows), len(self.words_)))
        for part in row_blocks(len(rows), row_bytes=8 * rows.shape[1]):
            out[part] = (rows[part] - self._mean) @ self._weights + self._share
        return out

    def _moved(self, rows: np.ndarray) -> Any:
        return rows if self.transformer_ is None else self.transformer_.transform(rows)
