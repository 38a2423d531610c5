"""Regularized canonical correlation analysis (CCA) of rows and keywords.

    rows ──► whitened ─┐
                       ├─► correlations ──► the strongest directions, each as long as it is strong ──► unit length
    keywords ► whitened┘

Rows with the same keywords come near each other, also for rare keywords: whitening gives all words the same weight.
As in CCA-KNN (Murthy, Maji and Manmatha 2015), neighbors in this space predict keywords well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, qr, solve_triangular
from scipy.sparse import csr_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows, row_blocks
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_number, check_whole
from nearsay.data.keywords import rows_and_keywords
from nearsay.errors import InputError
from nearsay.learn.linear_map import in_units, varying_columns

# Most words; the rarest beyond are ignored: a matrix of the square of their number is factored.
MOST_WORDS = 2000
# Up to so many columns the covariance of all columns is computed, even if rows are fewer.
MOST_COLUMNS = 1024
# Added to the variance of every word: the variance of a word that one row in a thousand has.
WORD_RIDGE = 1e-3


class KeywordProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DocumentedEstimator):
    """A linear map to a space in which rows with similar keywords are near (CCA of rows and keywords).

    Parameters
    ----------
    n_components : int, default=200
        Dimensions of that space, or as many as there are columns or words.
    shrinkage : float above 0, default=0.3
        Ridge of the rows' covariance, as a share of the mean variance of the columns that are not
        constant. The larger, the less directions count in which rows hardly differ.

    Attributes
    ----------
    components_ : (n_components, n_columns)
    correlations_ : (n_components,)
        Of rows and keywords along each direction, falling; the length of a direction.
    mean_ : (n_columns,)

    Examples
    --------
    The first column separates cats from dogs; the second has a larger variance, and is noise:

    >>> X = [[0, 50], [1, 0], [0, 70], [9, 10], [8, 60], [9, 20]]
    >>> Y = [["cat"], ["cat"], ["cat"], ["dog"], ["dog"], ["dog"]]
    >>> KeywordProjection(1, shrinkage=0.001).fit(X, Y).transform(X).ravel()
    array([-1., -1., -1.,  1.,  1.,  1.])
    """

    def __init__(self, n_components: int = 200, *, shrinkage: float = 0.3) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage

    def fit(self, X: Any, Y: Any) -> KeywordProjection:
        """Learn the map; ``X`` and ``Y`` are as in ``KeywordAnnotator.fit``."""
        check_whole("n_components", self.n_components, least=1)
        check_number("shrinkage", self.shrinkage, 0, closed="right")
        rows, keywords = rows_and_keywords(X, Y)
        words = some_words(keywords.matrix)
        if not words.nnz:
            raise InputError("All rows have the same keywords: there is nothing to learn.")
        self.n_features_in_ = rows.shape[1]
        scaled, unit = in_units(rows)
        spanned = Spanned(scaled)
        mean, of_rows, of_both = covariances(spanned.rows, words)
        of_rows += self.shrinkage * max(spanned.mean_variance(of_rows), np.finfo(float).tiny) * np.eye(len(of_rows))
        share = np.asarray(words.sum(axis=0)).ravel() / len(rows)
        of_words = (words.T @ words).toarray() / len(rows) - np.outer(share, share)
        of_words += WORD_RIDGE * np.eye(len(of_words))
        components, self.correlations_ = _strongest(of_rows, of_words, of_both, self.n_components)
        self.mean_, self.components_ = spanned.mean(mean) * unit, spanned.weights(components.T).T / unit
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The rows in the learned space, each of length 1: (n_rows, n_components). A row at the mean is 0."""
        check_is_fitted(self, "components_")
        rows = as_rows(X, width=self.n_features_in_)
        out = np.empty((len(rows), len(self.components_)))
        for part in row_blocks(len(rows), row_bytes=8 * rows.shape[1]):
            out[part] = (rows[part] - self.mean_) @ self.components_.T
        return unit_length(out)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def unit_length(X: np.ndarray) -> np.ndarray:
    """Rows divided by their length; zeros stay.

    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


class Spanned:
    """Rows in the coordinates of their own span, if they have very many columns.

    A linear map learned with a ridge is 0 in every direction in which no row differs from the mean, so with
    fewer rows than columns a square matrix of all columns is not needed, and may not fit into memory.

    rows : the rows as they are; where they are fewer than their many columns, in as many directions as there are rows.
    """

    def __init__(self, X: np.ndarray, weights: np.ndarray | None = None) -> None:
        self._n_varying = max(len(varying_columns(X if weights is None else X[weights > 0])), 1)
        self._basis: np.ndarray | None = None
        self.rows = X
        if X.shape[1] > max(len(X), MOST_COLUMNS):
            self._center = X.mean(axis=0, dtype=np.float64)
            centered = X - self._center
            self._basis = qr(centered.T, mode="economic")[0]
            self.rows = centered @ self._basis

    def mean_variance(self, covariance: np.ndarray) -> float:
        """The mean variance of the columns that are not constant, given the covariance of ``rows``."""
        return float(np.trace(covariance)) / self._n_varying

    def mean(self, mean: np.ndarray) -> np.ndarray:
        """A mean of ``rows``, in the columns as they were given."""
        return mean if self._basis is None else self._center + self._basis @ mean

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Weights for the columns of ``rows`` as weights for all columns: (n_columns, n_words)."""
        return weights if self._basis is None else np.asarray(self._basis @ weights)


def some_words(keywords: csr_array, most_words: int = MOST_WORDS) -> csr_array:
    """The columns of words that some rows have and some lack, of these the most frequent: (n_rows, at most 2,000)."""
    counts = np.asarray(keywords.sum(axis=0)).ravel()
    informative = np.flatnonzero((counts > 0) & (counts < keywords.shape[0]))
    most = informative[np.argsort(-counts[informative], kind="stable")[:most_words]]
    return csr_array(keywords[:, np.sort(most)])


def covariances(
    rows: np.ndarray, words: csr_array, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean row, the covariance of the columns, and that of columns and words, in double precision.

    ``weights`` says how much every row counts; a row of weight 2 counts like two rows.
    """
    mean = rows.mean(axis=0, dtype=np.float64) if weights is None else np.average(rows, axis=0, weights=weights)
    of_rows, of_both = np.zeros((rows.shape[1], rows.shape[1])), np.zeros((rows.shape[1], words.shape[1]))
    for part in row_blocks(len(rows), row_bytes=8 * rows.shape[1]):
        centered = rows[part] - mean
        weighted = centered if weights is None else centered * weights[part, None]
        of_rows += weighted.T @ centered
        # Rows are centered, so words need not be.
        of_both += (words[part].T @ weighted).T
    total = len(rows) if weights is None else weights.sum()
    return mean, of_rows / total, of_both / total


def _strongest(
    of_rows: np.ndarray, of_words: np.ndarray, of_both: np.ndarray, n_components: int
) -> tuple[np.ndarray, np.ndarray]:
    """The directions of rows most correlated with words, of that length: (n_components, n_columns) and (n_components,).

    The first factors of the singular value decomposition of Lr⁻¹ C Lw⁻ᵀ, with LLᵀ the two covariances, by way of the
    smaller of its two squares.
    """
    root = cholesky(of_rows, lower=True)
    between = solve_triangular(root, of_both, lower=True)
    between = solve_triangular(cholesky(of_words, lower=True), between.T, lower=True).T
    n_columns, n_words = between.shape
    square = between @ between.T if n_columns <= n_words else between.T @ between
    n_components = min(n_components, len(square))
    squared, vectors = eigh(square, subset_by_index=[len(square) - n_components, len(square) - 1], driver="evx")
    correlations = np.sqrt(np.maximum(squared[::-1], 0.0))
    correlated = correlations > 1e-9 * max(correlations[0], np.finfo(float).tiny)
    correlated[0] = True  # where rows do not predict words, all are mapped to one point
    vectors, correlations = vectors[:, ::-1][:, correlated], correlations[correlated]
    # Columns of between @ vectors are the left singular vectors times the correlations, as wanted.
    scaled = vectors * correlations if n_columns <= n_words else between @ vectors
    directions: np.ndarray = solve_triangular(root, scaled, lower=True, trans="T").T
    # Either sign of a direction is as good; the largest entry decides.
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])
    return directions * signs[:, None], correlations
