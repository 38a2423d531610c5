"""The choice of a search backend, with the reason."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from nearsay.core.settings import check_number
from nearsay.distances.distance import Distance
from nearsay.distances.named import as_distance
from nearsay.errors import InputError, unknown_name
from nearsay.search.approximate import ApproximateSearch, why_not_approximate
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu.gpu_search import GpuSearch, fits_gpu
from nearsay.search.protocol import NeighborSearch
from nearsay.search.trees import TreeSearch, why_no_tree

# From here on a graph answers more than twice as fast as exact search (20,000 × 64, one thread: 26 against 73
# microseconds a query). Building it takes as long as some 75,000 exact queries, at any size: hence only when asked.
APPROXIMATE_FROM = 20_000
DEFAULT_RECALL = 0.95
# From so many numbers on a GPU is faster for large batches; small ones run on the CPU in any case.
GPU_FROM = 1 << 24
# A tree holds the rows in float64, in memory that exact search does not need.
LARGEST_TREE = 128 << 20

# The methods that a backend must have (``protocol.py``).
BACKEND = ("fit_checked", "candidates", "add", "remove")

# How each backend is built, from a distance and the required recall.
SEARCHES: dict[str, Callable[[Distance, float], NeighborSearch]] = {
    "exact": lambda distance, recall: ExactSearch(distance),
    "gpu": lambda distance, recall: GpuSearch(distance),
    "trees": lambda distance, recall: TreeSearch(distance),
    "kd": lambda distance, recall: TreeSearch(distance, kind="kd"),
    "ball": lambda distance, recall: TreeSearch(distance, kind="ball"),
    "approximate": lambda distance, recall: ApproximateSearch(distance, recall=recall),
    "hnsw": lambda distance, recall: ApproximateSearch(distance, kind="hnsw", recall=recall),
    "ivf": lambda distance, recall: ApproximateSearch(distance, kind="ivf", recall=recall),
}


# The names, for type checkers; a test holds them against the table.
SearchName = Literal["auto", "exact", "gpu", "trees", "kd", "ball", "approximate", "hnsw", "ivf"]
# What a user may pass as a search.
SearchBackend: TypeAlias = SearchName | NeighborSearch


@dataclass(frozen=True)
class Choice:
    """The chosen backend, its name, and the reason."""

    search: NeighborSearch
    name: str
    why: str

    @property
    def products(self) -> str | None:
        """The kind of matrix products in use; None without any, or before a search was large enough to choose."""
        return getattr(self.search, "products_", None)

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose(search: SearchBackend, distance: Distance, X: Any, recall: float | None = None) -> Choice:
    """Build the backend that ``search`` names, or for "auto" the one that should be fastest here.

    Without a recall "auto" is always exact: which backend it takes changes the time, never the answer. With one, nearly
    as many of the true neighbors are enough, where that is faster. A backend that you pass is copied, never changed.

    >>> print(choose("auto", as_distance("euclidean"), np.zeros((50, 3))))
    exact: 50 rows are searched fastest by looking at all of them
    >>> print(choose("kd", as_distance("euclidean"), np.zeros((50, 3))))
    kd: requested
    """
    if recall is not None:
        check_number("recall", recall, 0, 1, closed="right", otherwise=" (1 is every neighbor), or None")
    if isinstance(search, type) or not (isinstance(search, str) or all(hasattr(search, name) for name in BACKEND)):
        raise unknown_name("search", search, ["auto", *SEARCHES], " You can also pass a search backend.")
    if not isinstance(search, str):
        return Choice(_copied(search, distance), type(search).__name__, "you passed it")
    if search != "auto" and search not in SEARCHES:
        raise unknown_name("search", search, ["auto", *SEARCHES], " You can also pass a search backend.")
    name, why = (search, "requested") if search != "auto" else _fastest(distance, X, recall)
    if search == "auto" and name == "exact" and distance.has_euclidean_form and X.size >= GPU_FROM and fits_gpu(X):
        name, why = "gpu", f"{X.shape[0]} × {X.shape[1]} numbers are worth copying to the GPU"
    return Choice(SEARCHES[name](distance, DEFAULT_RECALL if recall is None else recall), name, why)


def _copied(search: Any, distance: Distance) -> Any:
    metric = as_distance(getattr(search, "metric", distance))
    if not _same(metric, distance):
        raise InputError(
            f"This search backend uses {metric!r}, but the index has metric={distance!r}."
            f" Pass the same metric to both: {type(search).__name__}(metric=…)."
        )
    return copy.copy(search)


def _same(one: Distance, other: Distance) -> bool:
    if one is other:
        return True
    a, b = one.parameters(), other.parameters()
    return type(one) is type(other) and one.name == other.name and all(np.array_equal(a[name], b[name]) for name in a)


def _fastest(distance: Distance, X: Any, recall: float | None) -> tuple[str, str]:
    """The name of the backend that should be fastest, and why."""
    n = len(X)
    instead = ""
    if recall is not None and recall < 1:
        obstacle = _why_not_approximate(distance, n)
        if not obstacle:
            return "approximate", f"{n} rows, and a recall of {recall} is enough"
        instead = f"; not approximate, although a recall of {recall} is enough: {obstacle}"
    if why_no_tree(distance):
        return "exact", f"no tree can serve the distance {distance.name!r}{instead}"
    d = X.shape[1]
    if 8 * n * d > LARGEST_TREE:
        return "exact", f"a tree over {n} × {d} numbers would take more than {LARGEST_TREE >> 20} MB{instead}"
    if tree_is_faster(n, d):
        return "trees", f"{n} rows of {d} column{'s' if d > 1 else ''} are few dimensions for so many{instead}"
    if n < 1000:
        return "exact", f"{n} row{'s are' if n > 1 else ' is'} searched fastest by looking at all of them{instead}"
    return "exact", f"{n} rows of {d} columns are too many dimensions for a tree to rule rows out{instead}"


def tree_is_faster(n_rows: int, n_columns: int) -> bool:
    """Whether a kd tree should beat exact search.

    Measured on evenly spread rows, k = 10, one thread, microseconds a query (tree / exact): a tree wins as long as
    there are ten times as many rows for every further column. Manhattan distance crosses over in the same places.

    ========= ======== ======== ========= ==========
    rows       2        5        8         12
    ========= ======== ======== ========= ==========
    1,000       3/9      8/9      22/10     33/11
    10,000      3/27    17/29     74/31    347/34
    100,000     7/152   52/170   303/182  2141/207
    1,000,000  12/1364  90/1570  595/1710 6003/1993
    ========= ======== ======== ========= ==========

    Rows near a surface of few dimensions in a wide space can be worth a tree too (16 columns of intrinsic dimension 4:
    155/2302 for 1,000,000), but that cannot be told from the shape.

    >>> tree_is_faster(10_000, 5), tree_is_faster(10_000, 6), tree_is_faster(500, 2)
    (True, False, False)
    """
    return n_rows >= 1000 and n_rows >= 10 ** (n_columns - 1)


def _why_not_approximate(distance: Distance, n_rows: int) -> str:
    if why_not_approximate(distance):
        return f"the distance {distance.name!r} has no Euclidean form"
    if n_rows < APPROXIMATE_FROM:
        return f"below {APPROXIMATE_FROM} rows it gains nothing"
    if importlib.util.find_spec("faiss") is None:
        return 'it needs faiss; run: pip install "nearsay[faiss]"'
    return ""
