"""The structures of approximate search: faiss's navigable graph (HNSW) and inverted lists (IVF)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from nearsay.errors import require
from nearsay.search.exact import ExactSearch
from nearsay.search.ivf_cells import cell_centers, cell_count, nearest_cells

# More neighbors than this are searched exactly: a graph would have to visit so many rows that little is gained.
LARGEST_K = 256


def load_faiss() -> Any:
    return require("faiss", "faiss")


class Structure(ABC):
    """Protocol of faiss structures, over float32 rows numbered from 0 as they are added."""

    _index: Any

    @abstractmethod
    def __init__(self, X: np.ndarray, n_rows: int, rng: np.random.Generator) -> None:
        """An empty structure for ``n_rows`` rows like those of ``X``."""

    @abstractmethod
    def add(self, X: np.ndarray) -> None: ...

    @abstractmethod
    def efforts(self) -> list[int]:
        """Efforts worth trying, least first."""

    @abstractmethod
    def most_neighbors_at(self, effort: int, most: int) -> int:
        """How many neighbors, up to ``most``, this effort gives."""

    @abstractmethod
    def search(self, Q: np.ndarray, n_wanted: int, effort: int) -> np.ndarray:
        """Numbers of the nearest rows that this effort finds, nearest first; −1 fills up."""

    def copied(self) -> Self:
        """A copy to which rows can be added while this one is searched."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._index = load_faiss().clone_index(self._index)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_index": load_faiss().serialize_index(self._index)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._index = load_faiss().deserialize_index(state["_index"])


class Graph(Structure):
    """A navigable graph (HNSW): effort is the size of the candidate list (efSearch)."""

    links, view_when_building = 16, 100

    def __init__(self, X: np.ndarray, n_rows: int, rng: np.random.Generator) -> None:
        faiss = load_faiss()
        self._index = faiss.IndexHNSWFlat(X.shape[1], self.links)
        self._index.hnsw.efConstruction = self.view_when_building
        self._index.hnsw.rng = faiss.RandomGenerator(int(rng.integers(2**31)))

    def add(self, X: np.ndarray) -> None:
        # With more threads the links would depend on which of them came first.
        with faiss_threads(1):
            self._index.add(X)

    def efforts(self) -> list[int]:
        return gradually(16, 4 * LARGEST_K)

    def most_neighbors_at(self, effort: int, most: int) -> int:
        return min(effort, most)

    def search(self, Q: np.ndarray, n_wanted: int, effort: int) -> np.ndarray:
        parameters = load_faiss().SearchParametersHNSW(efSearch=max(effort, n_wanted))
        return self._index.search(Q, n_wanted, params=parameters)[1]


class InvertedLists(Structure):
    """Rows listed by the nearest of some centers (IVF): effort is how many lists are read.

    The lists to read are chosen by exact search among the centers, so that an answer does not depend on the queries
    beside it (faiss rounds differently in large batches).
    """

    def __init__(self, X: np.ndarray, n_rows: int, rng: np.random.Generator) -> None:
        faiss = load_faiss()
        centers = cell_centers(X, min(cell_count(n_rows), len(X)), rng)
        self._centers = ExactSearch("euclidean").fit(centers)
        quantizer = faiss.IndexFlatL2(X.shape[1])
        quantizer.add(centers)
        self._index = faiss.IndexIVFFlat(quantizer, X.shape[1], len(centers))
        self._index.is_trained = True

    def add(self, X: np.ndarray) -> None:
        cells = np.ascontiguousarray(nearest_cells(self._centers, X, 1)[0][:, 0])
        pointer = load_faiss().swig_ptr
        self._index.add_core(len(X), pointer(X), None, pointer(cells))

    def efforts(self) -> list[int]:
        # Reading a quarter of the rows this way costs as much as exact search.
        return gradually(1, max(1, self._index.nlist // 4))

    def most_neighbors_at(self, effort: int, most: int) -> int:
        return most

    def search(self, Q: np.ndarray, n_wanted: int, effort: int) -> np.ndarray:
        faiss = load_faiss()
        cells, distances = nearest_cells(self._centers, Q, effort)
        proposed = np.empty((len(Q), n_wanted), np.float32), np.empty((len(Q), n_wanted), np.int64)
        near = cells, distances.astype(np.float32)  # named, so that its memory lives as long as faiss reads it
        arrays = (faiss.swig_ptr(array) for array in (*near, *proposed))
        parameters = faiss.IVFSearchParameters(nprobe=effort)
        # The plain search_preassigned takes its effort from the index, where another thread could change it.
        self._index.search_preassigned_c(len(Q), faiss.swig_ptr(Q), n_wanted, *arrays, False, parameters)
        return proposed[1]


KINDS: dict[str, type[Structure]] = {"hnsw": Graph, "ivf": InvertedLists}


def gradually(first: int, last: int) -> list[int]:
    """Whole numbers that rise by about two fifths at a time, so that no more effort is spent than is needed.

    >>> gradually(1, 12)
    [1, 2, 3, 4, 6, 8, 11, 12]
    """
    steps = np.unique(np.round(first * 2.0 ** np.arange(0, np.log2(last / first), 0.5)).astype(int))
    return [*(int(step) for step in steps if step < last), last]


@contextmanager
def faiss_threads(count: int) -> Iterator[None]:
    """Let faiss use ``count`` threads inside the block, and as many as before after it.

    OpenMP keeps this setting per thread, so other threads do not interfere.
    """
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
