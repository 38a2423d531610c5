"""scikit-learn's ``kneighbors`` and ``kneighbors_graph``, for a classifier that holds an index."""

from __future__ import annotations

from typing import Any, Literal

from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from nearsay.core.settings import check_choice
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.row_weights import HoldsRowsThatCount


class KNeighbors(HoldsRowsThatCount):
    """The nearest training rows by the index alone, in the numbers of the X that ``fit`` was given."""

    index_: NeighborIndex
    n_neighbors_: int

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """(distances, indices) of the nearest training rows, or the indices alone, as in scikit-learn.

        With ``X=None`` the training rows are asked, each about the others; one of weight 0 has none (−1 and +inf).
        """
        table = self._nearest(X, n_neighbors)
        return (table.distances, table.indices) if return_distance else table.indices

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        mode: Literal["connectivity", "distance"] = "connectivity",
    ) -> csr_array:
        """Who is whose neighbor: a sparse (n_queries, n_rows) matrix of ones, or of distances."""
        check_choice("mode", mode, ("connectivity", "distance"))
        return self._nearest(X, n_neighbors).graph(len(self.labels_), distances=mode == "distance")

    def _nearest(self, X: Any, n_neighbors: int | None) -> NeighborTable:
        check_is_fitted(self)
        asked = self.n_neighbors_ if n_neighbors is None else n_neighbors
        distances, indices = self.index_.kneighbors(None if X is None else self._seen(X), asked)
        table = self._as_given(NeighborTable(indices, distances))
        return table if X is not None else self._lines_given(table)

    def _seen(self, X: Any) -> Any:
        """Queries, checked, as the index takes them."""
        raise NotImplementedError
