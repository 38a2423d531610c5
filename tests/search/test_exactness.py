"""Exact means exact: the rows, and the order, of a double loop in float64, whatever the distance."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nearsay as ns
from nearsay.distances.histograms import HistogramDistance
from nearsay.distances.named import DISTANCES, as_distance
from nearsay.distances.vectors import VectorDistance
from nearsay.errors import InputError
from nearsay.neighbors.neighbor_search import leave_one_out, nearest
from nearsay.search.exact import ExactSearch
from tests.exact_searches import MakeSearch
from tests.reference import neighbors as reference

# From the table itself, so that a new distance cannot be forgotten.
NAMES = [name for name, make in DISTANCES.items() if isinstance(make, type) and issubclass(make, VectorDistance)]
AMOUNTS = {"braycurtis", *(name for name in NAMES if issubclass(DISTANCES[name], HistogramDistance))}

every_distance = pytest.mark.parametrize("name", NAMES)


def parameters(name: str, d: int) -> dict[str, Any]:
    """Parameters for the distances that want some; an L of small integers and low rank, for more ties."""
    L = np.random.default_rng(d).integers(-2, 3, size=(max(d - 1, 1), d)).astype(float)
    return {"minkowski": {"p": 3.0}, "mahalanobis": {"L": L}}.get(name, {})


def both(name: str, d: int, make_search: MakeSearch = ExactSearch) -> tuple[ExactSearch, Callable]:
    """The search to test, and the slow distance to test it with."""
    given = parameters(name, d)
    slow = lru_cache(maxsize=None)(partial(getattr(reference, name), **given))
    return make_search(as_distance(name, **given)), lambda a, b: slow(tuple(a.tolist()), tuple(b.tolist()))


def proper(name: str, X: np.ndarray) -> np.ndarray:
    """Rows that the distance accepts: amounts where it compares amounts, and none constant or empty."""
    X = np.abs(X) if name in AMOUNTS or X.dtype.kind == "u" else X.copy()
    X[(X[:, :1] == X).all(axis=1), 0] += 1
    return X


def assert_same(table: ns.NeighborTable, expected: tuple[list, list]) -> None:
    np.testing.assert_array_equal(table.indices, np.reshape(expected[0], table.indices.shape))
    np.testing.assert_allclose(table.distances, np.reshape(expected[1], table.distances.shape), rtol=1e-12, atol=0)


@st.composite
def rows_with_ties(draw: st.DrawFn) -> np.ndarray:
    """Few small integers in every number type, so that ties and duplicates are everywhere."""
    dtype = draw(st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.int8, np.uint8]))
    shape = draw(st.tuples(st.integers(1, 16), st.integers(2, 5)))
    low = 0 if dtype is np.uint8 else -3
    return draw(arrays(np.int8, shape, elements=st.integers(low, 3))).astype(dtype)


@every_distance
@given(X=rows_with_ties(), data=st.data())
@settings(max_examples=40)
def test_the_neighbors_are_those_of_a_double_loop(name, X, data):
    X = proper(name, X)
    Q = proper(name, X[:: data.draw(st.integers(1, 3))] + X[0])
    search, slow = both(name, X.shape[1])
    k = data.draw(st.integers(1, len(X)))
    assert_same(nearest(search.fit(X), Q, k), reference.nearest(X, Q, k, slow))


@pytest.mark.slow
@every_distance
@given(X=rows_with_ties(), data=st.data())
@settings(max_examples=20)
def test_a_row_is_left_out_by_its_number(name, X, data):
    X = proper(name, np.concatenate([X, X[:1]]))  # the first row has a twin
    search, slow = both(name, X.shape[1])
    k = data.draw(st.integers(1, len(X) - 1))
    assert_same(leave_one_out(search.fit(X), k), reference.nearest(X, X, k, slow, leave_out_itself=True))


@pytest.mark.slow
@every_distance
@given(X=rows_with_ties(), data=st.data())
@settings(max_examples=20)
def test_added_rows_are_found_and_removed_ones_are_not(name, X, data):
    X = proper(name, X)
    search, slow = both(name, X.shape[1])
    cut = data.draw(st.integers(1, len(X)))
    removed = data.draw(st.sets(st.integers(0, len(X) - 1), max_size=len(X) - 1))
    search.fit(X[:cut])
    assert search.add(X[cut:]).tolist() == list(range(cut, len(X)))
    search.remove(sorted(removed))
    live = np.setdiff1d(np.arange(len(X)), sorted(removed))
    k = data.draw(st.integers(1, len(live)))
    indices, distances = reference.nearest(X[live], X, k, slow)
    assert_same(nearest(search, X, k), (live[np.array(indices)], distances))


@every_distance
def test_a_single_row_is_everyones_neighbor(name):
    search, slow = both(name, 3)
    X, Q = np.array([[1.0, 2.0, 5.0]]), np.array([[4.0, 0.0, 1.0], [1.0, 2.0, 5.0]])
    assert_same(nearest(search.fit(X), Q, 1), reference.nearest(X, Q, 1, slow))


@pytest.mark.slow
@every_distance
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_common_offset_hides_no_neighbor(name, dtype, exact_search):
    rng = np.random.default_rng(0)
    X = (1e4 + rng.normal(scale=0.01, size=(80, 6))).astype(dtype)
    Q = (1e4 + rng.normal(scale=0.01, size=(5, 6))).astype(dtype)
    search, slow = both(name, 6, exact_search)
    search.fit(X)
    assert_same(nearest(search, Q, 9), reference.nearest(X, Q, 9, slow))
    assert_same(leave_one_out(search, 9)[:5], reference.nearest(X, X[:5], 9, slow, leave_out_itself=True))


CROWDS = {
    "spread out": lambda rng: rng.normal(size=(3000, 6)),
    "six coordinates of 0 and 1": lambda rng: rng.integers(0, 2, size=(3000, 6)).astype(np.float32),
    "two kinds of row": lambda rng: np.repeat([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0]], [2990, 10], axis=0),
    "two clumps far away": lambda rng: (
        1e4 * np.eye(2, 5)[rng.integers(0, 2, 3000)] + rng.integers(0, 2, size=(3000, 5)) / 1024
    ),
}


@cache
def crowd_and_neighbors(name: str, crowd: str) -> tuple[np.ndarray, np.ndarray, tuple[list, list]]:
    """Rows, some of them as queries, and the 150 nearest by the slow distance: the same however they are searched."""
    X = proper(name, CROWDS[crowd](np.random.default_rng(0)))
    Q = X[np.linspace(0, 2999, 3).astype(int)]
    return X, Q, reference.nearest(X, Q, 150, both(name, X.shape[1])[1])


@pytest.mark.slow
@every_distance
@pytest.mark.parametrize("crowd", CROWDS)
def test_thousands_of_rows_and_near_ties_are_searched_exactly(name, crowd, exact_search):
    X, Q, (indices, distances) = crowd_and_neighbors(name, crowd)
    search = both(name, X.shape[1], exact_search)[0].fit(X)
    for k in (1, 12, 150):
        assert_same(nearest(search, Q, k), ([line[:k] for line in indices], [line[:k] for line in distances]))


@pytest.mark.slow
@every_distance
@pytest.mark.parametrize("crowd", CROWDS)
def test_results_depend_neither_on_threads_nor_on_the_batch(name, crowd, compiled_search):
    X = proper(name, CROWDS[crowd](np.random.default_rng(1)))
    Q = X[100:170]
    search = both(name, X.shape[1], compiled_search)[0].fit(X)
    with ns.threads(1):
        one_thread = nearest(search, Q, 7)
    with ns.threads(2):
        two_threads = nearest(search, Q, 7)
        one_by_one = [nearest(search, Q[i : i + 1], 7) for i in range(0, len(Q), 9)]
    np.testing.assert_array_equal(one_thread.indices, two_threads.indices)
    np.testing.assert_array_equal(one_thread.distances, two_threads.distances)
    np.testing.assert_array_equal(one_thread.indices[::9], np.concatenate([t.indices for t in one_by_one]))
    np.testing.assert_array_equal(one_thread.distances[::9], np.concatenate([t.distances for t in one_by_one]))


@pytest.mark.parametrize(
    ("dtype", "added"), [(np.int8, 300), (np.uint8, -1), (np.int64, 0.5), (np.float32, 1e39), (np.float16, 1e5)]
)
def test_a_row_that_its_collection_cannot_hold_is_not_added(dtype, added):
    search = ExactSearch().fit(np.ones((2, 1), dtype))
    with pytest.raises(InputError, match="do not fit the type of the collection"):
        search.add([[added]])
    assert nearest(search, [[1.0]], 2).distances.tolist() == [[0.0, 0.0]]
