"""Ridge regression of keywords: a scorer without neighbors, to be combined with those that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows, check_sample_weight, evenly, row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_estimator, check_number
from nearsay.data.keywords import annotated_order, rows_and_keywords
from nearsay.learn.keyword_projection import Spanned, covariances
from nearsay.learn.linear_map import in_units

# Ridges that "auto" tries, and the number of rows it tries them on.
SHRINKAGES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
LEFT_OUT = 2000
MOST_PAIRS = 2**21
# The smallest divisor 1 − h: with leverage h = 1 a row determines its own prediction.
FAINTEST = 1e-9


class KeywordRegression(DocumentedEstimator):
    """Scores of keywords by ridge regression on the columns, one linear model per word.

    Parameters
    ----------
    transformer : None, a scikit-learn transformer or a pipeline of them, default=None
        Applied to the rows first, such as ``LandmarkFeatures``.
    shrinkage : float above 0, or "auto", default=1.0
        The ridge, as a multiple of the mean variance of the columns that are not constant. "auto" takes, from 0.001
        to 1000, what predicts rows best that are left out one at a time.

    Attributes
    ----------
    words_ : (n_words,) array
    shrinkage_ : float

    Examples
    --------
    >>> model = KeywordRegression(shrinkage=0.01).fit([[0.0], [1.0], [2.0], [3.0]], [[1], [1], [0], [0]])
    >>> model.scores([[0.0], [1.5], [3.0]]).round(2)
    array([[ 1.09],
           [ 0.5 ],
           [-0.09]])
    """

    def __init__(self, transformer: Any = None, *, shrinkage: float | str = 1.0) -> None:
        self.transformer = transformer
        self.shrinkage = shrinkage

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> KeywordRegression:
        """Learn the weights.

        Parameters
        ----------
        X, Y : as in ``KeywordAnnotator.fit``.
        sample_weight : (n_rows,), optional
            How much each row counts: a row of weight 2 counts like two rows. None weighs all rows the same.
            The transformer is fitted without it.
        """
        if not (isinstance(self.shrinkage, str) and self.shrinkage == "auto"):
            check_number("shrinkage", self.shrinkage, 0, closed="right", otherwise=', or "auto"')
        if self.transformer is not None:
            check_estimator("transformer", self.transformer, "fit", "transform")
        rows, keywords = rows_and_keywords(X, Y)
        self.n_features_in_ = rows.shape[1]
        self.words_ = keywords.words
        self.transformer_ = None if self.transformer is None else clone(self.transformer).fit(rows, keywords.matrix)
        moved, unit = in_units(self._moved(rows))
        weights = None if sample_weight is None else check_sample_weight(sample_weight, len(rows))
        spanned = Spanned(moved, weights)
        moved = spanned.rows
        mean, of_rows, of_both = covariances(moved, keywords.matrix, weights)
        self._share = _shares(keywords.matrix, weights)
        spread = spanned.mean_variance(of_rows)
        # Equal rows differ from their mean by rounding only: nothing can be learned.
        varies = spread > (8 * np.finfo(float).eps * float(abs(spanned.mean(mean)).max())) ** 2
        spread = spread if varies else 1.0
        if isinstance(self.shrinkage, str):
            order = annotated_order(rows, keywords.matrix)
            cases = order[evenly(len(rows), max(2, min(LEFT_OUT, MOST_PAIRS // max(len(self.words_), 1))))]
            counts = (np.ones(len(rows)) / len(rows) if weights is None else weights / weights.sum())[cases]
            missed = keywords.matrix[cases].toarray() - self._share
            self.shrinkage_ = _best_shrinkage(moved[cases] - mean, missed, counts, of_rows, of_both, spread)
        else:
            self.shrinkage_ = float(self.shrinkage)
        ridge = self.shrinkage_ * spread
        self._mean = spanned.mean(mean) * unit
        self._weights = spanned.weights(np.linalg.solve(of_rows + ridge * np.eye(len(of_rows)), of_both)) / unit
        return self

    def scores(self, X: Any) -> np.ndarray:
        """The predicted value of every word for every query, about 0 to 1: (n_queries, n_words)."""
        check_is_fitted(self, "words_")
        rows = self._moved(as_rows(X, width=self.n_features_in_))
        out = np.empty((len(rows), len(self.words_)))
        for part in row_blocks(len(rows), row_bytes=8 * rows.shape[1]):
            out[part] = (rows[part] - self._mean) @ self._weights + self._share
        return out

    def _moved(self, rows: np.ndarray) -> Any:
        return rows if self.transformer_ is None else self.transformer_.transform(rows)


def _best_shrinkage(
    centered: np.ndarray,
    missed: np.ndarray,
    counts: np.ndarray,
    of_rows: np.ndarray,
    of_both: np.ndarray,
    spread: float,
) -> float:
    """The shrinkage of least leave-one-out squared error.

    In closed form: the leave-one-out residual is the residual divided by 1 − h, where h is the leverage of the row.
    One eigendecomposition serves all shrinkages.

    centered : (n_cases, n_columns)
    missed : (n_cases, n_words) keywords minus their shares.
    counts : (n_cases,) the share of each row in the total weight.
    """
    strengths, vectors = np.linalg.eigh(of_rows)
    strengths, turned = np.maximum(strengths, 0.0), vectors.T @ of_both
    along = centered @ vectors
    errors = []
    for shrinkage in SHRINKAGES:
        shrunk = 1 / (strengths + shrinkage * spread)
        leverage = counts * (1 + along**2 @ shrunk)
        residuals = missed - along @ (turned * shrunk[:, None])
        errors.append(float(counts @ ((residuals / np.maximum(1 - leverage, FAINTEST)[:, None]) ** 2).sum(axis=1)))
    return SHRINKAGES[int(np.argmin(errors))]


def _shares(keywords: csr_array, weights: np.ndarray | None) -> np.ndarray:
    """The share of the rows, by weight, that have each word."""
    if weights is None:
        return np.asarray(keywords.mean(axis=0)).ravel()
    return np.asarray(keywords.T @ weights / weights.sum())
