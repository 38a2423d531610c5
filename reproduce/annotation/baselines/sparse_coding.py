"""Keywords by sparse coding (MSC; Wang, Yan, Zhang and Zhang 2009): a query as a mixture of few rows.

keywords of every row, as a mixture of few others' ──► graph ──► linear map: rows joined in the graph come close
query, mapped ≈ Σ bᵢ · row i, mapped + noise, few bᵢ other than 0 ──► score of a word = Σ bᵢ [row i has it]
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array, lil_array
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, orthogonal_mp_gram
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows, row_blocks
from nearsay.core.parallel import in_parallel
from nearsay.core.settings import check_number, check_randomness, check_whole
from nearsay.data.keywords import annotated_order, rows_and_keywords
from nearsay.errors import InputError
from nearsay.learn.linear_map import in_units
from nearsay.neighbors.joint.feature_spaces import as_spaces

# Steps of coordinate descent for one query; codes of rows that repeat each other settle slowly, and need not.
MOST_STEPS = 300

# Queries whose mixtures are held at once.
QUERIES_AT_ONCE = 16

# Sets of keywords that may take part in another: those most like it.
MOST_ALIKE = 100

# Added to the spread of the rows, as a share of its mean, so that directions in which they hardly differ count little.
RIDGE = 1e-3


class SparseCodingAnnotator(BaseEstimator):
    """Scores of keywords from the few rows of which a query is a mixture (MSC).

    Where this goes other ways than the paper: columns are first reduced to
    ``n_components`` principal components, because the linear map needs a matrix of columns × columns;
    keywords are coded by orthogonal matching pursuit, with at most ``n_mixed`` others, once for each different set
    of keywords, whose weight is shared evenly by the rows that have it; rows with the very
    same keywords are joined with each other as well; and coefficients of rows are not negative.

    Parameters
    ----------
    features : None or {name: columns}
        Groups of columns, each brought to the same mean length; None is one group.
    n_components : int, default=200
        Principal components that are kept.
    n_dimensions : int, default=50
        What rows and queries are mapped to.
    n_mixed : int, default=5
        Sets of keywords of which another is made up.
    penalty : float, default=0.1
        What a coefficient of 1 costs, as a share of the query's squared length, mapped. The larger, the fewer rows.
    random_state : int or None, default=0
        For the principal components of many columns.

    Attributes
    ----------
    words_ : (n_words,) array

    Examples
    --------
    >>> X = [[0, 1], [1, 9], [0, 2], [9, 1], [8, 9], [9, 2]]
    >>> Y = [["cat"], ["cat"], ["cat"], ["dog"], ["dog"], ["dog"]]
    >>> msc = SparseCodingAnnotator(n_components=2, n_dimensions=1).fit(X, Y)
    >>> msc.words_[msc.scores([[8, 5]]).argmax(axis=1)]
    array(['dog'], dtype='<U3')
    """

    def __init__(
        self,
        features: Any = None,
        *,
        n_components: int = 200,
        n_dimensions: int = 50,
        n_mixed: int = 5,
        penalty: float = 0.1,
        random_state: int | None = 0,
    ) -> None:
        self.features = features
        self.n_components = n_components
        self.n_dimensions = n_dimensions
        self.n_mixed = n_mixed
        self.penalty = penalty
        self.random_state = random_state

    def fit(self, X: Any, Y: Any) -> SparseCodingAnnotator:
        """Learn the linear map.

        Parameters
        ----------
        X : (n_rows, n_columns)
        Y : the keywords of every row, a table of zeros and ones (dense or sparse) or lists of words.
        """
        rows, keywords = rows_and_keywords(X, Y)
        for name in ("n_components", "n_dimensions", "n_mixed"):
            check_whole(name, getattr(self, name), least=1)
        check_number("penalty", self.penalty, 0, closed="right")
        random = check_randomness(self.random_state)
        self.n_features_in_ = rows.shape[1]
        self.words_ = keywords.words
        self._spaces = as_spaces(self.features, rows.shape[1])
        # Sums, and where mixing ends, go by the order of rows and by that in memory: the same rows shall give the same.
        order = annotated_order(rows, keywords.matrix)
        rows, self._keywords = np.ascontiguousarray(rows[order]), csr_array(keywords.matrix[order])
        self._means = rows.mean(axis=0, dtype=np.float64)
        self._lengths = [_mean_length(rows[:, space.columns]) for space in self._spaces]
        if (rows == rows[:1]).all():
            raise InputError(
                f"The {len(rows)} rows are all the same, so that no query is a mixture of some more than of others."
                " Pass rows that differ."
            )
        n_components = min(self.n_components, *rows.shape)
        self._reduced = PCA(n_components, random_state=random)
        reduced = self._reduced.fit_transform(self._scaled(rows))
        self._map = map_that_joins(reduced, keyword_graph(self._keywords, self.n_mixed), self.n_dimensions)
        self._rows = reduced @ self._map
        return self

    def scores(self, X: Any) -> np.ndarray:
        """How much of each query's mixture has each word: (n_queries, n_words), none negative."""
        check_is_fitted(self, "words_")
        queries = as_rows(X, width=self.n_features_in_)
        if not len(queries):
            return np.empty((0, len(self.words_)))
        scaled = self._scaled(queries)
        # The identity takes up what no row explains, either way: noise in single dimensions.
        identity = np.eye(self._map.shape[1])
        atoms = np.asfortranarray(np.column_stack([self._rows.T, identity, -identity]))

        def mapped(query: np.ndarray) -> np.ndarray:
            """One by one: BLAS rounds several rows otherwise than each alone, and where mixing ends depends on it."""
            one: np.ndarray = (self._reduced.transform(query[None]) @ self._map)[0]
            return one

        def code(part: slice) -> np.ndarray:
            mixtures = [mixture(atoms, mapped(query), self.penalty)[: len(self._rows)] for query in scaled[part]]
            scores: np.ndarray = (csr_array(np.array(mixtures)) @ self._keywords).toarray()
            return scores

        with warnings.catch_warnings():
            # A mixture that is not exact to the last digit serves. Caught here: within the threads it is not safe.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return np.concatenate(in_parallel(code, row_blocks(len(queries), size=QUERIES_AT_ONCE)))

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        centered = X - self._means  # in float64: what rows differ by may be lost among large numbers in float32
        parts = [centered[:, space.columns] / length for space, length in zip(self._spaces, self._lengths, strict=True)]
        return np.column_stack(parts).astype(np.float32)


def keyword_graph(Y: csr_array, n_mixed: int) -> csr_array:
    """How strongly rows are joined by their keywords: (n_rows, n_rows), symmetric, none negative.

    Every set of keywords is made up, as well as can be, of at most ``n_mixed``
    others; the size of a coefficient, 1 for the set itself, is shared evenly by
    the rows that have that set. A link is the mean of what each of its rows says.

    The last two rows are the first and the second together; they say 1 of these, who say ¼ of each of them:

    >>> keyword_graph(csr_array([[1, 0], [0, 1], [1, 1], [1, 1]]), n_mixed=2).toarray()[2]
    array([0.625, 0.625, 0.   , 0.5  ])
    """
    numbers: dict[tuple[int, ...], int] = {}
    of_row = np.array([numbers.setdefault(tuple(Y.indices[a:b].tolist()), len(numbers)) for a, b in pairwise(Y.indptr)])
    first = np.unique(of_row, return_index=True)[1]
    sizes = np.bincount(of_row)
    links = _codes(csr_array(Y[first], dtype=np.float64), n_mixed)
    # Rows without keywords are like no others, nor like each other.
    links.setdiag(np.where(np.diff(Y.indptr)[first] > 0, 1.0, 0.0))
    has_set = csr_array((np.ones(len(of_row)), (np.arange(len(of_row)), of_row)), shape=(len(of_row), len(sizes)))
    joined = csr_array(has_set @ csr_array(links) @ diags_array(1.0 / sizes) @ has_set.T)
    joined.setdiag(0.0)
    graph = csr_array((joined + joined.T) / 2)
    graph.eliminate_zeros()
    return graph


def _codes(sets: csr_array, n_mixed: int) -> Any:
    """The size of every set's part in the others, as orthogonal matching pursuit finds it: (n_sets, n_sets) sparse."""
    lengths = np.sqrt(np.maximum(np.asarray(sets.sum(axis=1)).ravel(), 1.0))
    unit = csr_array(diags_array(1 / lengths) @ sets)
    codes = lil_array((sets.shape[0], sets.shape[0]))
    for part in row_blocks(sets.shape[0], row_bytes=8 * sets.shape[0]):
        likeness = (unit[part] @ unit.T).toarray()
        for one, alike in enumerate(likeness, start=part.start):
            alike[one] = 0.0
            candidates = np.argsort(-alike, kind="stable")[:MOST_ALIKE]
            candidates = candidates[alike[candidates] > 0]
            if len(candidates):
                gram = (unit[candidates] @ unit[candidates].T).toarray()
                sizes = _matched(gram, alike[candidates] * lengths[one], min(n_mixed, len(candidates)))
                codes[one, candidates] = np.abs(sizes) / lengths[candidates]
    return codes


def _matched(gram: np.ndarray, products: np.ndarray, n_mixed: int) -> np.ndarray:
    with warnings.catch_warnings():
        # Where what is left is a mixture already, fewer are taken: all is explained.
        warnings.simplefilter("ignore", RuntimeWarning)
        coefficients: np.ndarray = orthogonal_mp_gram(gram, products, n_nonzero_coefs=n_mixed)
    return coefficients


def map_that_joins(X: np.ndarray, graph: csr_array, n_dimensions: int) -> np.ndarray:
    """A linear map after which rows joined in the graph are as near as can be, all dimensions spread alike.

    It minimizes Σ graph[i, j] |P'xᵢ − P'xⱼ|² where P'X'XP is the identity, times a
    number that makes the squared length of a row 1 in the mean.

    Parameters
    ----------
    X : (n_rows, n_columns), mean zero.

    Returns
    -------
    (n_columns, n_dimensions), or as many dimensions as there are columns.
    """
    n_dimensions = min(n_dimensions, X.shape[1])
    spread = X.T @ X
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    apart = X.T @ (degrees[:, None] * X - graph @ X)
    spread += RIDGE * np.trace(spread) / len(spread) * np.eye(len(spread))
    _, vectors = eigh((apart + apart.T) / 2, spread, subset_by_index=[0, n_dimensions - 1])
    linear: np.ndarray = vectors * np.sqrt(len(X) / n_dimensions)
    return linear


def mixture(atoms: np.ndarray, query: np.ndarray, penalty: float) -> np.ndarray:
    """Coefficients b ≥ 0 of the columns of ``atoms`` with the smallest ½|q − A b|² + penalty · |q|² Σ b.

    >>> mixture(np.asfortranarray([[1.0, 0.0], [0.0, 2.0]]), np.array([0.0, 2.0]), penalty=0.1).round(3)
    array([0. , 0.9])
    """
    length = float(query @ query)
    if length == 0:
        return np.zeros(atoms.shape[1])
    lasso = Lasso(penalty * length / len(query), fit_intercept=False, positive=True, max_iter=MOST_STEPS, tol=1e-4)
    coefficients: np.ndarray = lasso.fit(atoms, query).coef_
    return coefficients


def _mean_length(X: np.ndarray) -> float:
    """Root of the mean squared distance of the rows from their mean; 1 where all are alike."""
    if (X[:1] == X).all():
        return 1.0
    scaled, unit = in_units(X)
    return float(np.sqrt(scaled.var(axis=0, dtype=np.float64).sum())) * unit
