"""The classes by their nearest member, beside the nearest rows, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.errors import InputError
from nearsay.neighbors.by_class.labeled import ROWS_WITH_CLASSES, LabeledNeighbors
from nearsay.neighbors.table import NeighborTable
from nearsay.search.exact import ExactSearch
from tests.labeled import Counting, letters_apart
from tests.neighbors.test_ways_by_class import only
from tests.reference import neighbors as reference

N_CLASSES = 5  # one more than the labels use: it stays empty


@st.composite
def collections(draw: st.DrawFn, most: int = 16) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Few rows of small whole numbers, their labels, and some that are removed again."""
    n = draw(st.integers(1, most))
    X = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    removed = draw(st.sets(st.integers(0, n - 1), max_size=n - 1))
    return np.array(X, float), np.array(labels), sorted(removed)


# How many members means are asked of: none, one, several, more than a class has.
some_numbers = st.sets(st.integers(1, 6), max_size=4).map(lambda numbers: tuple(sorted(numbers)))


def assert_same(table: NeighborTable, k: int, rows: tuple[list, list], classes: tuple[list, ...]) -> None:
    for found, expected, filler in ((table.indices, rows[0], -1), (table.distances, rows[1], np.inf)):
        wide = [[*line, *[filler] * (k - len(line))] for line in expected]
        np.testing.assert_allclose(found, wide, rtol=1e-12)
    assert_same_classes(table, slice(None), classes)


def assert_same_classes(table: NeighborTable, lines: Any, expected: tuple[list, ...]) -> None:
    """Class by class what a loop found, to the last digit."""
    for found, by_loop in zip(table.classes[lines].arrays, expected, strict=True):
        np.testing.assert_array_equal(found, np.reshape(by_loop, found.shape))


def nearest_by_loop(
    X: Any, Q: Any, k: int, slow: Any, left_out: list[int] | None, removed: list[int]
) -> tuple[list, list]:
    indices, distances = [], []
    for i, q in enumerate(Q):
        itself = [] if left_out is None else [left_out[i]]
        live = [] if set(itself) & set(removed) else sorted(set(range(len(X))) - {*removed, *itself})
        (rows,), (far,) = reference.nearest([X[row] for row in live], [q], k, slow)
        indices.append([live[row] for row in rows])
        distances.append(far)
    return indices, distances


def check_against_loops(
    both: LabeledNeighbors, X: Any, labels: Any, removed: list[int], Q: Any, k: int, m: Any, slow: Any, asked: Any
) -> None:
    """Queries, all rows left out in turn, and some of them; ``asked`` nearest rows name their classes (None: all)."""
    some = list(range(len(X)))[::-2]
    for table, items, left_out in (
        (both.query(Q, k, m), Q, None),
        (both.leave_one_out(k, m), X, list(range(len(X)))),
        (both.leave_one_out(k, m, rows=np.array(some)), [X[i] for i in some], some),
    ):
        expected = reference.nearest_classes(
            X,
            labels,
            items,
            m,
            slow,
            n_listed=table.classes.numbers.shape[1],
            n_asked=asked,
            left_out=left_out,
            removed=removed,
        )
        assert_same(table, k, nearest_by_loop(X, items, k, slow, left_out, removed), expected)
        assert table.classes.members == m


@pytest.mark.parametrize("search", ["exact", "trees"])
@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
@given(data=collections(), k=st.integers(1, 18), m=some_numbers)
@settings(max_examples=40)
def test_the_classes_and_rows_are_those_of_a_loop(search, distance, data, k, m):
    X, labels, removed = data
    both = ns.NeighborIndex(distance, search).fit(X).remove(removed).with_labels(labels, N_CLASSES)
    check_against_loops(both, X, labels, removed, X + 0.5, k, m, getattr(reference, distance), None)


@given(data=collections(), k=st.integers(1, 6), m=some_numbers)
@settings(max_examples=30)
def test_cosine_precomputed_and_own_distances_list_the_classes_of_a_loop(data, k, m):
    X, labels, removed = data
    cosine = ns.NeighborIndex("cosine").fit(X).remove(removed)
    check_against_loops(cosine.with_labels(labels, N_CLASSES), X, labels, removed, X, k, m, reference.cosine, None)
    words = ["".join("abcd"[int(x)] for x in row) for row in X]
    own = ns.NeighborIndex(letters_apart).fit(words).remove(removed)
    check_against_loops(own.with_labels(labels, N_CLASSES), words, labels, removed, words, k, m, letters_apart, None)
    matrix = np.array([[letters_apart(a, b) for b in words] for a in words], float)
    given_matrix = ns.NeighborIndex("precomputed").fit(matrix).remove(removed)
    numbers = list(range(len(X)))
    expected = own.with_labels(labels).leave_one_out(k, m)
    table = given_matrix.with_labels(labels).leave_one_out(k, m)
    assert_same_classes(table, slice(None), expected.classes.arrays)
    np.testing.assert_array_equal(table.indices, expected.indices)
    assert len(given_matrix.with_labels(labels).query(matrix, k, m)) == len(numbers)


@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
@given(data=collections(most=24), k=st.integers(1, 20), m=some_numbers)
@settings(max_examples=40)
def test_of_many_classes_those_met_among_the_nearest_rows_are_listed(distance, data, k, m):
    X, labels, removed = data
    index = ns.NeighborIndex(distance).fit(X).remove(removed)
    both = index.with_labels(labels, N_CLASSES)
    both.lists_all = False
    asked = max(k, ROWS_WITH_CLASSES)
    check_against_loops(both, X, labels, removed, X + 0.5, k, m, getattr(reference, distance), asked)


@pytest.mark.slow
@pytest.mark.parametrize("products", ["float32", "int8"])
@pytest.mark.parametrize("way", ["small", "products"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("members", [(), (1,), (1, 3), (2, 64)])
def test_many_blocks_and_near_ties_change_nothing(products, way, dtype, members):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, size=(1300, 6)).astype(dtype)
    labels = np.where(np.arange(1300) < 1150, rng.integers(0, 3, 1300), rng.integers(3, 60, 1300))
    index = ns.NeighborIndex(search=ExactSearch(products=products)).fit(X).remove([3, 700])
    table = LabeledNeighbors(index.search_, labels, 61, make_plan=only(way)).leave_one_out(7, members)
    plain = index.leave_one_out(7)
    np.testing.assert_array_equal(table.indices, plain.indices)
    np.testing.assert_array_equal(table.distances, plain.distances)
    some = [0, 3, 299, 1299]
    expected = reference.nearest_classes(
        X.astype(float), labels, X[some].astype(float), members, reference.euclidean,
        n_listed=61, left_out=some, removed=[3, 700],
    )  # fmt: skip
    assert_same_classes(table, some, expected)


@pytest.mark.slow
@pytest.mark.parametrize("products", ["float32", "int8"])
@pytest.mark.parametrize("members", [(), (1,), (1, 4, 64)])
def test_spread_out_rows_are_told_apart_exactly(products, members):
    rng = np.random.default_rng(9)
    X, labels = rng.normal(size=(2300, 12)), rng.integers(0, 4, 2300)
    index = ns.NeighborIndex(search=ExactSearch(products=products)).fit(X)
    table = index.with_labels(labels).query(X[:25] + 0.1, 6, members)
    plain = index.query(X[:25] + 0.1, 6)
    np.testing.assert_array_equal(table.indices, plain.indices)
    expected = reference.nearest_classes(X, labels, X[:25] + 0.1, members, reference.euclidean, n_listed=4)
    assert_same_classes(table, slice(None), expected)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["small", "products, members afterward", "scan"])
@pytest.mark.parametrize("members", [(), (1,), (1, 4, 64)])
def test_the_sixteen_nearest_classes_have_all_means_and_others_the_first(way, members):
    rng = np.random.default_rng(10)
    X, labels = rng.normal(size=(500, 3)), rng.integers(0, 100, 500)
    X[::7] = X[:72]  # duplicates in other classes
    rows = LabeledNeighbors(ExactSearch().fit(X), labels, 100, make_plan=only(way))
    table = rows.leave_one_out(5, members)
    some = list(range(0, 500, 23))
    expected = reference.nearest_classes(X, labels, X[some], members, reference.euclidean, n_listed=100, left_out=some)
    assert_same_classes(table, some, expected)
    asked = rows.query(X[some], 5, members)
    expected = reference.nearest_classes(X, labels, X[some], members, reference.euclidean, n_listed=100)
    assert_same_classes(asked, slice(None), expected)


def test_an_order_that_scores_can_tell_is_not_measured():
    rng = np.random.default_rng(11)
    X, labels = rng.normal(size=(300, 4)), rng.integers(0, 30, 300)
    distance = Counting()
    ns.NeighborIndex(distance, search="exact").fit(X).with_labels(labels).leave_one_out(5, ())
    assert 0 < distance.n_measured < 300 * 7  # the five nearest rows, and hardly anyone else


def test_queries_far_beyond_the_rows_are_put_in_order_too():
    X, labels = np.arange(40.0)[:, None] % 20, np.arange(40) // 2
    index = ns.NeighborIndex(search="exact").fit(X)
    far = np.array([[1e30], [-1e30], [3.0]])
    for members in ((), (1, 2)):
        table = index.with_labels(labels).query(far, 3, members)
        expected = reference.nearest_classes(X, labels, far, members, reference.euclidean, n_listed=20)
        assert_same_classes(table, slice(None), expected)


@pytest.mark.parametrize("members", [(), (1, 2)])
@pytest.mark.parametrize("n_classes", [40, 400])
def test_neither_threads_nor_batches_nor_the_order_of_classes_matter(n_classes, members):
    rng = np.random.default_rng(6)
    X, labels = rng.integers(0, 4, size=(900, 5)).astype(float), rng.integers(0, n_classes, 900)
    index = ns.NeighborIndex(search="exact").fit(X)
    with ns.threads(1):
        whole = index.with_labels(labels, n_classes).leave_one_out(5, members)
    with ns.threads(2):
        same = index.with_labels(labels, n_classes).leave_one_out(5, members)
        alone = index.with_labels(labels, n_classes).leave_one_out(5, members, rows=np.array([17]))
    renamed = rng.permutation(n_classes)
    other = index.with_labels(renamed[labels], n_classes).leave_one_out(5, members)
    listed = whole.classes.numbers >= 0
    np.testing.assert_array_equal(other.classes.numbers >= 0, listed)
    np.testing.assert_array_equal(other.classes.numbers[listed], renamed[whole.classes.numbers[listed]])
    for table, lines in ((same, slice(None)), (alone, slice(17, 18)), (other, slice(None))):
        np.testing.assert_array_equal(table.indices, whole.indices[lines])
        np.testing.assert_array_equal(table.classes.nearest, whole.classes.nearest[lines])
        np.testing.assert_array_equal(table.classes.means, whole.classes.means[lines])
        np.testing.assert_array_equal(table.classes.beyond, whole.classes.beyond[lines])


def test_one_row_one_class_and_single_members_are_no_trouble():
    index = ns.NeighborIndex().fit([[1.0, 2.0]])
    alone = index.with_labels([0]).leave_one_out(k=3, members=(2,))
    assert alone.indices.tolist() == [[-1, -1, -1]]
    assert alone.classes.numbers.tolist() == [[-1]]
    asked = index.with_labels([0]).query([[1.0, 2.0]], k=2, members=(1,))
    assert asked.indices.tolist() == [[0, -1]]
    assert asked.classes.means.tolist() == [[[0.0]]]
    each_its_own = ns.NeighborIndex().fit([[0.0], [2.0], [5.0]]).with_labels([0, 1, 2]).leave_one_out(1, (1, 2))
    assert each_its_own.classes.numbers.tolist() == [[1, 2, -1], [0, 2, -1], [1, 0, -1]]
    assert each_its_own.classes.nearest.tolist() == [[2, 5, np.inf], [2, 3, np.inf], [3, 5, np.inf]]
    np.testing.assert_array_equal(each_its_own.classes.means[:, :, 1], each_its_own.classes.nearest)


@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
def test_thousands_of_equal_rows_go_by_their_number(distance):
    labels = np.arange(1500) % 2
    index = ns.NeighborIndex(distance, search="exact").fit(np.ones((1500, 3)))
    table = index.with_labels(labels).leave_one_out(3, (2,))
    assert table.indices[[0, 1, 9]].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 2]]
    assert table.classes.numbers[[0, 1, 9]].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert (table.classes.means == 0).all()


def test_an_approximate_search_keeps_its_neighbors_and_lists_every_class():
    pytest.importorskip("faiss")
    X = np.random.default_rng(8).normal(size=(3000, 8))
    labels = np.arange(3000) % 4
    index = ns.NeighborIndex(search="approximate", recall=0.9).fit(X)
    table = index.with_labels(labels).query(X[:50], 5, (1,))
    np.testing.assert_array_equal(table.indices, index.query(X[:50], 5).indices)
    exact = ns.NeighborIndex(search="exact").fit(X).with_labels(labels).query(X[:50], 5, (1,))
    np.testing.assert_array_equal(table.classes.numbers, exact.classes.numbers)
    left_out = index.with_labels(labels).leave_one_out(5, (1,))
    np.testing.assert_array_equal(left_out.indices, index.leave_one_out(5).indices)


def test_a_search_may_hold_no_rows_any_more():
    search = ExactSearch().fit([[0.0], [1.0]])
    search.remove([0, 1])
    for n_classes in (2, 200):
        both = LabeledNeighbors(search, [0, 1], n_classes)
        for table in (both.query([[0.0]], 2, (1,)), both.leave_one_out(2, (1,))):
            assert (table.indices == -1).all()
            assert (table.classes.numbers == -1).all()


@pytest.mark.parametrize(
    ("k", "members", "words"),
    [
        (0, None, "at least 1; got 0"),
        (0, (1,), "at least 1; got 0"),
        (1.5, None, "whole number; got 1.5"),
        (1, -1, "increasing whole numbers of at least 1.* Got members=-1"),
        (1, (0, 1), r"Got members=\(0, 1\)"),
        (1, (4, 1), r"Got members=\(4, 1\)"),
        (1, (2, 2), "increasing"),
        (1, (1.5,), r"Got members=\(1.5,\)"),
        (1, "14", "Got members='14'"),
    ],
)
def test_what_cannot_be_searched_for_is_answered_in_words(k, members, words):
    both = ns.NeighborIndex().fit([[0.0], [1.0]]).with_labels([0, 1])
    with pytest.raises(InputError, match=words):
        both.query([[0.0]], k, members)
    with pytest.raises(InputError, match=words):
        both.leave_one_out(k, members)
