"""Trees give the rows, and the order, of a double loop in float64, also while rows come and go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nearsay as ns
from nearsay.distances.named import DISTANCES, as_distance
from nearsay.errors import InputError
from nearsay.neighbors.neighbor_search import leave_one_out, nearest
from nearsay.search.exact import ExactSearch
from nearsay.search.trees import KINDS, NORMS, TreeSearch, why_no_tree
from tests.reference import neighbors as reference

L = np.array([[1.0, -2.0, 0.0], [0.0, 1.0, 1.0]])
PARAMETERS: dict[str, dict[str, Any]] = {"minkowski": {"p": 3.0}, "mahalanobis": {"L": L}}
SERVED = ["euclidean", "sqeuclidean", "manhattan", "chebyshev", "minkowski", "mahalanobis", "cosine", "correlation"]

every_kind = pytest.mark.parametrize("kind", KINDS)
every_distance = pytest.mark.parametrize("name", SERVED)


class Tree(TreeSearch):
    """Few queries among few rows go to the tree, too."""

    few_pairs = 0


def both(name: str, kind: str) -> tuple[TreeSearch, Callable]:
    """The search to test, with small leaves so that small collections have branches, and the slow distance."""
    given = PARAMETERS.get(name, {})
    return Tree(as_distance(name, **given), kind=kind, leaf_size=2), partial(getattr(reference, name), **given)


def never_constant(X: np.ndarray) -> np.ndarray:
    """Cosine refuses rows of zeros, and correlation constant ones."""
    X = X.copy()
    X[(X[:, :1] == X).all(axis=1), 0] += 1
    return X


def assert_same(table: ns.NeighborTable, expected: tuple[Any, list]) -> None:
    np.testing.assert_array_equal(table.indices, np.reshape(expected[0], table.indices.shape))
    np.testing.assert_allclose(table.distances, np.reshape(expected[1], table.distances.shape), rtol=1e-12, atol=0)


@st.composite
def rows_with_ties(draw: st.DrawFn, most: int = 40) -> np.ndarray:
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.int8]))
    n = draw(st.integers(1, most))
    return never_constant(draw(arrays(np.int8, (n, 3), elements=st.integers(-2, 2))).astype(dtype))


@every_kind
@every_distance
@given(X=rows_with_ties(), data=st.data())
@settings(max_examples=15)
def test_the_neighbors_are_those_of_a_double_loop(name, kind, X, data):
    Q = never_constant(X[:3] + X[:1])
    k = data.draw(st.integers(1, len(X)))
    search, slow = both(name, kind)
    assert_same(nearest(search.fit(X), Q, k), reference.nearest(X, Q, k, slow))


@every_kind
@given(X=rows_with_ties(), data=st.data())
@settings(max_examples=20)
def test_a_row_is_left_out_by_its_number(kind, X, data):
    X = np.concatenate([X, X[:1]])  # the first row has a twin
    k = data.draw(st.integers(1, len(X) - 1))
    search, slow = both("euclidean", kind)
    assert_same(leave_one_out(search.fit(X), k), reference.nearest(X, X, k, slow, leave_out_itself=True))


@every_kind
@every_distance
def test_a_large_common_offset_hides_no_neighbor(name, kind):
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X = never_constant((1e4 + rng.normal(scale=0.01, size=(150, 3))).astype(dtype))
        Q = never_constant((1e4 + rng.normal(scale=0.01, size=(4, 3))).astype(dtype))
        search, slow = both(name, kind)
        assert_same(nearest(search.fit(X), Q, 9), reference.nearest(X, Q, 9, slow))


@every_kind
@every_distance
@pytest.mark.parametrize("scale", [1e-161, 1e-120, 1e30])
def test_very_small_and_very_large_numbers_are_ordered_as_the_loop_orders_them(name, kind, scale):
    if name == "minkowski" and scale > 1:
        pytest.skip("the distance overflows on its own")
    rng = np.random.default_rng(1)
    X = never_constant(rng.integers(-3, 4, size=(120, 3)).astype(float)) * scale
    search, slow = both(name, kind)
    if DISTANCES[name].has_euclidean_form and scale < 1e-150:
        with pytest.raises(InputError, match=r"square|correlation"):
            search.fit(X)
        return
    assert_same(nearest(search.fit(X), X[:5], 7), reference.nearest(X, X[:5], 7, slow))


@every_kind
def test_no_queries_have_no_neighbors(kind):
    assert nearest(both("euclidean", kind)[0].fit(np.eye(5)), np.empty((0, 5)), 2).indices.shape == (0, 2)


@every_kind
def test_a_query_far_away_sees_the_order_that_float64_sees(kind):
    X = np.random.default_rng(2).normal(size=(300, 2))
    Q = np.array([[1e15, 0.0], [3e7, 1e7], [0.0, -1e9]])
    search, slow = both("euclidean", kind)
    assert_same(nearest(search.fit(X), Q, 20), reference.nearest(X, Q, 20, slow))


@every_kind
@pytest.mark.parametrize("name", ["cosine", "correlation"])
def test_rows_of_nearly_one_direction_are_ordered_by_the_measured_distance_not_by_the_finer_one_of_the_tree(name, kind):
    rng = np.random.default_rng(7)
    X = (np.array([1.0, 2.0, 4.0]) + 1e-8 * rng.normal(size=(200, 3))) * rng.integers(1, 9, size=(200, 1))
    search, slow = both(name, kind)
    assert_same(nearest(search.fit(X), X[:4], 6), reference.nearest(X, X[:4], 6, slow))


def test_a_small_distance_among_large_ones_is_not_lost_in_the_bounds_of_a_ball():
    rng = np.random.default_rng(8)
    q = np.zeros((1, 3))
    for _ in range(200):  # the tree alone misses a neighbor in about one of forty
        size = np.where(np.arange(60) < 10, 1e-9, 1e7) * (1 + rng.random(60))
        X = size[:, None] * rng.normal(size=(60, 3))
        search, slow = both("euclidean", "ball")
        assert_same(nearest(search.fit(X), q, 3), reference.nearest(X, q, 3, slow))


class TreeAlone(TreeSearch):
    """A tree that leaves no query to exact search."""

    def settle(self, Q, k, propose):
        candidates, unsettled = self._inside(Q, k, propose)
        assert not len(unsettled)
        return candidates


@every_kind
def test_spread_out_rows_are_settled_by_the_tree_alone(kind):
    X = np.random.default_rng(3).random((5000, 3)) + 1e3
    expected = nearest(ExactSearch().fit(X), X[:200], 10)
    found = nearest(TreeAlone(kind=kind).fit(X), X[:200], 10)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


@every_kind
def test_results_depend_neither_on_threads_nor_on_the_batch(kind):
    X = np.random.default_rng(4).integers(0, 12, size=(2000, 3)).astype(np.float32)
    search = Tree("manhattan", kind=kind).fit(X)
    with ns.threads(1):
        at_once = nearest(search, X[:600], 9)
    with ns.threads(3):
        np.testing.assert_array_equal(nearest(search, X[:600], 9).indices, at_once.indices)
    for i in range(0, 600, 97):
        np.testing.assert_array_equal(nearest(search, X[i : i + 1], 9).indices[0], at_once.indices[i])


Step = tuple[str, Any]


@st.composite
def comings_and_goings(draw: st.DrawFn) -> list[Step]:
    """Rows that are added, and numbers that are removed as shares of those alive, so that any order of steps works."""
    step = st.one_of(
        st.tuples(st.just("add"), rows_with_ties(most=12)),
        st.tuples(st.just("remove"), st.lists(st.floats(0, 1, exclude_max=True), max_size=8)),
    )
    return draw(st.lists(step, max_size=8))


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("room", [0, 3, 512], ids=lambda room: f"room for {room}")
@given(X=rows_with_ties(), steps=comings_and_goings(), k=st.integers(1, 50))
@settings(max_examples=15)
def test_while_rows_come_and_go_the_answers_are_those_of_the_rows_that_are_left(kind, room, X, steps, k):
    X = X.astype(float)
    rows, live = list(X), list(range(len(X)))
    search, slow = both("euclidean", kind)
    search.late_room = search.removed_room = room
    search.fit(X)
    for what, some in steps:
        if what == "add":
            numbers = search.add(some.astype(float)).tolist()
            assert numbers == list(range(len(rows), len(rows) + len(some)))
            rows += list(some.astype(float))
            live += numbers
        else:
            gone = {live[int(share * len(live))] for share in some if live}
            search.remove(np.array(sorted(gone), dtype=int))
            live = [number for number in live if number not in gone]
        if live:
            indices, distances = reference.nearest([rows[i] for i in live], X[:3], min(k, len(live)), slow)
            assert_same(nearest(search, X[:3], min(k, len(live))), (np.array(live)[np.array(indices)], distances))


def test_a_tree_is_built_anew_when_many_rows_have_come_and_seldom_otherwise():
    built = []

    class Counting(TreeSearch):
        def build(self, numbers):
            built.append(len(numbers))
            return super().build(numbers)

    search = Counting().fit(np.zeros((1000, 2)))
    for _ in range(2000):
        search.add(np.ones((1, 2)))
    search.remove(np.arange(1500))
    assert 4 <= len(built) <= 6
    assert built[-1] == 1500


def test_a_handful_of_queries_is_answered_without_the_tree():
    search = TreeSearch().fit(np.eye(100))
    search._tree = None
    assert nearest(search, np.eye(100)[7:9], 1).indices.ravel().tolist() == [7, 8]


def test_the_same_rows_serve_tree_and_exact_search_without_a_copy():
    X = np.random.default_rng(5).random((100, 2))
    search = Tree().fit(X)
    assert search.rows_.items is X
    assert np.shares_memory(search._tree.data, X)


@pytest.mark.parametrize("name", sorted(set(DISTANCES) - {"mahalanobis", "tangent", "shape_context"}))
def test_a_tree_serves_a_distance_or_says_why_not(name):
    distance = as_distance(name)
    if distance.has_euclidean_form or name in NORMS:
        assert why_no_tree(distance) == ""
    else:
        assert name in why_no_tree(distance)
        with pytest.raises(InputError, match=r'Use search="exact"'):
            Tree(distance).fit(np.eye(3))


def test_an_unknown_kind_of_tree_names_the_known_ones():
    with pytest.raises(InputError, match="ball, kd"):
        Tree(kind="oak").fit(np.eye(3))
