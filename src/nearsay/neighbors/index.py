"""``NeighborIndex``: fit, query, change, save and open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from nearsay.core.parallel import in_jobs
from nearsay.core.settings import check_choice
from nearsay.data.saved import saved_objects
from nearsay.distances.named import Metric, as_distance, with_parameters
from nearsay.errors import InputError, NotFitted
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from nearsay.search.choose import Choice, SearchBackend, choose
from nearsay.search.protocol import NeighborSearch


class NeighborIndex:
    """Neighbor search over rows that may change meanwhile.

    Any number of threads may query while others add and remove rows: every answer
    is that of the collection before or after a change, never in between.

    Parameters
    ----------
    metric : str, (str, dict), function or Distance, default="euclidean"
        A name (``nearsay.distances.DISTANCES`` lists them), a name with its parameters, a function of two items, a
        numba function of two vectors (fast), or "precomputed": then ``fit`` takes the square matrix of distances.
    search : str or search backend, default="auto"
        "exact", "trees", "approximate", "gpu", or "auto": the fastest that keeps the promise.
        ``chosen_`` says what was chosen and why.
    recall : float, optional
        The share of true neighbors that is enough; None means all of them.
    metric_params : dict, optional
        Parameters of the metric: ``metric="minkowski", metric_params={"p": 3}``.
    n_jobs : int, optional
        Threads, as in scikit-learn: None is every core (or what ``nearsay.threads`` says), −1 too, 1 is one.

    Attributes
    ----------
    chosen_ : Choice
        The backend that serves, and the reason.

    Examples
    --------
    >>> index = NeighborIndex().fit([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    >>> index.query([[4.0, 4.0]], k=2).indices
    array([[2, 1]])
    >>> index.add([[4.0, 4.0]])
    array([3])
    >>> index.remove([2]).query([[4.0, 4.0]], k=2).indices
    array([[3, 1]])
    """

    def __init__(
        self,
        metric: Metric = "euclidean",
        search: SearchBackend = "auto",
        recall: float | None = None,
        *,
        metric_params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.search = search
        self.recall = recall
        self.metric_params = metric_params
        self.n_jobs = n_jobs

    @in_jobs
    def fit(self, X: Any, y: Any = None) -> NeighborIndex:
        """Index the rows of ``X``, numbered from 0. They are copied only if necessary: do not write to them.

        A row that cannot be compared (NaN, infinite, not a number) is an error that names its place. ``y`` is
        ignored, as in scikit-learn.
        """
        distance = as_distance(with_parameters(self.metric, self.metric_params))
        items = distance.check(X)
        if not len(items):
            raise InputError("An index needs at least one row; X is empty.")
        self.chosen_: Choice = choose(self.search, distance, items, self.recall)
        self.search_: NeighborSearch = self.chosen_.search.fit_checked(items, distance)
        return self

    @in_jobs
    def query(self, Q: Any, k: int) -> NeighborTable:
        """The ``k`` nearest rows of every query, nearest first; equal distances by row number."""
        return neighbor_search.nearest(self._fitted, Q, k)

    @in_jobs
    def query_tensors(self, Q: Any, k: int) -> tuple[Any, Any]:
        """``query`` for a torch tensor, or an array that DLPack hands over: row numbers and distances as tensors.

        They are on the device of ``Q``. With ``search="gpu"`` and a tensor on the GPU nothing is copied to the CPU.
        """
        from nearsay.neighbors.gpu_queries import nearest_tensors

        return nearest_tensors(self._fitted, Q, k)

    def kneighbors(self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True) -> Any:
        """As in scikit-learn: (distances, indices), or the indices alone.

        With ``X=None`` of each row among the others.

        >>> NeighborIndex().fit([[0.0], [1.0], [5.0]]).kneighbors([[4.0]], n_neighbors=2)
        (array([[1., 3.]]), array([[2, 1]]))
        """
        table = self._neighbors_of(X, n_neighbors)
        return (table.distances, table.indices) if return_distance else table.indices

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int = 5, mode: Literal["connectivity", "distance"] = "connectivity"
    ) -> csr_array:
        """The neighbor graph: a sparse (n_queries, n_rows) matrix of ones, or of distances.

        With ``X=None`` of each row among the others.
        """
        check_choice("mode", mode, ("connectivity", "distance"))
        table = self._neighbors_of(X, n_neighbors)
        return table.graph(len(self._fitted.rows_), distances=mode == "distance")

    @in_jobs
    def _neighbors_of(self, X: Any, k: int) -> NeighborTable:
        search = self._fitted
        return (
            neighbor_search.leave_one_out(search, k)
            if X is None
            else neighbor_search.nearest(search, X, k, input_name="X")
        )

    @in_jobs
    def leave_one_out(self, k: int, rows: Any = None) -> NeighborTable:
        """The ``k`` nearest *other* rows of every row, or of some.

        Parameters
        ----------
        k : how many others.
        rows : None, row numbers (in any order, repeats allowed), or a mask: True or False for every row number.

        Returns
        -------
        A line for every row, or for each of ``rows`` in the order named; −1 and +inf for a removed row.
        """
        return neighbor_search.leave_one_out(self._fitted, k, rows)

    def with_labels(self, labels: Any, n_classes: int | None = None) -> LabeledNeighbors:
        """The rows as they are now, with their class numbers (0, 1, …): search for the nearest rows *and* classes.

        Keep the result for as long as neither rows nor labels change: it prepares itself once. Later changes of the
        index do not reach it.

        >>> index = NeighborIndex().fit([[0.0], [1.0], [5.0]])
        >>> labeled = index.with_labels([0, 0, 1])
        >>> labeled.query_by_class([[4.0]]).indices[0, :, 0]
        array([1, 2])
        >>> index.remove([1]).with_labels([0, 0, 1]).query_by_class([[4.0]]).indices[0, :, 0]
        array([0, 2])
        """
        return LabeledNeighbors(self._fitted, labels, n_classes, n_jobs=self.n_jobs)

    def add(self, X: Any) -> np.ndarray:
        """Hold more rows; gives their numbers, which follow on the last one given out."""
        return self._fitted.add(X)

    def remove(self, rows: Any) -> NeighborIndex:
        """Forget rows, by number or by a mask. The other rows keep their numbers, and no number is given out twice."""
        self._fitted.remove(rows)
        return self

    def __len__(self) -> int:
        """How many live rows there are."""
        return self._fitted.rows_.n_live

    @property
    def _fitted(self) -> NeighborSearch:
        try:
            return self.search_
        except AttributeError:
            raise NotFitted("This index holds no rows yet. Call fit(X) first.") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rows and settings to one file, as ``nearsay.save`` does."""
        self._fitted  # noqa: B018 - an index without rows is not worth a file
        saved_objects.save(self, path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> NeighborIndex:
        """Read an index that ``save`` wrote: the same answers, the same row numbers."""
        return saved_objects.load(path, expect="NeighborIndex")

    def __repr__(self) -> str:
        name = self.metric[0] if isinstance(self.metric, tuple) else self.metric
        given = f"metric={name!r}, search={self.search!r}"
        given += "" if self.recall is None else f", recall={self.recall}"
        held = f" of {len(self)} rows, searched by {self.chosen_.name}" if hasattr(self, "search_") else ""
        measured = getattr(getattr(self, "search_", None), "running_recall_", None)
        held += f", {measured}" if measured is not None and measured.n_queries else ""
        return f"NeighborIndex({given}){held}"


def nearest(X: Any, Q: Any, k: int, *, metric: Metric = "euclidean", search: SearchBackend = "auto") -> NeighborTable:
    """The ``k`` nearest rows of ``X`` for every query in ``Q``.

    Exactly those of a double loop in float64: nearest first, equal distances by
    row number. For more than one call build a ``NeighborIndex`` once.

    >>> nearest([[0.0], [1.0], [5.0]], [[4.0]], k=2).distances
    array([[1., 3.]])
    """
    return NeighborIndex(metric, search).fit(X).query(Q, k)


def leave_one_out(X: Any, k: int, *, metric: Metric = "euclidean", search: SearchBackend = "auto") -> NeighborTable:
    """The ``k`` nearest *other* rows of every row of ``X``; a row is left out by its number.

    >>> leave_one_out([[0.0], [0.0], [5.0]], k=1).indices.ravel()
    array([1, 0, 0])
    """
    return NeighborIndex(metric, search).fit(X).leave_one_out(k)
