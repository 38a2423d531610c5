"""Neighbors in a transformed space, which may be learned from keywords."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from nearsay.core.arrays import as_rows
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.settings import check_estimator
from nearsay.data.keywords import rows_and_keywords
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable


class TransformedNeighbors(DocumentedEstimator):
    """The nearest rows after a transformer.

    Parameters
    ----------
    transformer : None, a scikit-learn transformer or a pipeline of them, default=None
        Learned from rows and keywords, such as ``KeywordProjection``, or from rows alone; None for no transformer.
    metric : str, function or Distance, default="sqeuclidean"
        Between transformed rows.

    Attributes
    ----------
    transformer_ : the fitted transformer, or None.
    index_ : NeighborIndex of the transformed rows.

    Examples
    --------
    The first column separates cats from dogs; the second is noise:

    >>> from nearsay.learn.keyword_projection import KeywordProjection
    >>> X = [[0, 50], [1, 0], [0, 70], [9, 10], [8, 60], [9, 20]]
    >>> Y = [["cat"], ["cat"], ["cat"], ["dog"], ["dog"], ["dog"]]
    >>> TransformedNeighbors(KeywordProjection(1, shrinkage=0.001)).fit(X, Y).neighbors([[2, 15]], k=3).indices
    array([[0, 1, 2]])
    """

    def __init__(self, transformer: Any = None, *, metric: Any = "sqeuclidean") -> None:
        self.transformer = transformer
        self.metric = metric

    @property
    def learns_from_keywords(self) -> bool:
        """Whether neighbors may depend on keywords."""
        return self.transformer is not None and getattr(self.transformer, "learns_from_keywords", True)

    def fit(self, X: Any, Y: Any) -> TransformedNeighbors:
        """Fit the transformer and index the transformed rows; ``X`` and ``Y`` are as in ``KeywordAnnotator.fit``."""
        if self.transformer is not None:
            check_estimator("transformer", self.transformer, "fit", "transform")
        rows, keywords = rows_and_keywords(X, Y)
        self.n_features_in_ = rows.shape[1]
        self.transformer_ = None if self.transformer is None else clone(self.transformer).fit(rows, keywords.matrix)
        self.index_ = NeighborIndex(self.metric).fit(self._moved(rows))
        return self

    def neighbors(self, X: Any, k: int) -> NeighborTable:
        """The ``k`` nearest rows of every query, nearest first; equal distances by row number."""
        check_is_fitted(self, "index_")
        return self.index_.query(self._moved(as_rows(X, width=self.n_features_in_)), k)

    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The same for the rows themselves (or ``rows``: numbers, or a mask), each left out of its own neighbors.

        The transformer was fitted with the keywords of the row left out, so votes are slightly optimistic.
        """
        check_is_fitted(self, "index_")
        return self.index_.leave_one_out(k, rows)

    def _moved(self, rows: np.ndarray) -> Any:
        return rows if self.transformer_ is None else self.transformer_.transform(rows)
