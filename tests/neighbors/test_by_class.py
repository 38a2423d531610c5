"""The nearest members of each class, against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.errors import InputError
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.neighbor_search import leave_one_out
from nearsay.search.exact import ExactSearch
from tests.reference import neighbors as reference


@st.composite
def classes_with_ties(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 20))
    X = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return np.array(X, float), np.array(labels)


@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
@given(data=classes_with_ties(), n_members=st.integers(1, 4))
@settings(max_examples=40)
def test_members_of_each_class_are_those_of_a_loop(distance, data, n_members):
    X, labels = data
    search = ExactSearch(distance).fit(X)
    slow = getattr(reference, distance)
    labeled = LabeledNeighbors(search, labels, n_classes=5)
    for table, leave_out in (
        (labeled.query_by_class(X, n_members), False),
        (labeled.leave_one_out_by_class(n_members), True),
    ):
        rows, distances = reference.nearest_by_class(X, labels, X, n_members, 5, slow, leave_out_itself=leave_out)
        np.testing.assert_array_equal(table.indices, rows)
        np.testing.assert_allclose(table.distances, distances, rtol=1e-12)


@pytest.mark.parametrize("distance", ["euclidean", "cosine", "manhattan"])
def test_large_and_small_classes_over_many_blocks_agree_with_a_search_in_each_class(distance):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, size=(4000, 3)) + 1e-3 * rng.normal(size=(4000, 3)).round(2) + [1.0, 0.0, 0.0]
    labels = np.repeat([0, 1, 2, 3], [2500, 1, 1400, 99])
    rng.shuffle(labels)
    Q = X[:40]
    search = ExactSearch(distance).fit(X)
    search.remove([7, 11])
    table = LabeledNeighbors(search, labels).query_by_class(Q, 3)
    for c in range(4):
        members = np.flatnonzero((labels == c) & ~search.rows_.removed)
        k = min(3, len(members))
        alone = ns.nearest(X[members], Q, k, metric=distance, search="exact")
        np.testing.assert_array_equal(table.indices[:, c, :k], members[alone.indices])
        np.testing.assert_array_equal(table.distances[:, c, :k], alone.distances)
        assert (table.indices[:, c, k:] == -1).all()
    with ns.threads(1):
        np.testing.assert_array_equal(LabeledNeighbors(search, labels).query_by_class(Q, 3).indices, table.indices)


def test_an_index_gives_the_same_tables():
    X, labels = [[0.0], [1.0], [5.0]], [0, 0, 1]
    labeled = ns.NeighborIndex().fit(X).with_labels(labels)
    np.testing.assert_array_equal(labeled.query_by_class([[4.0]]).indices[0, :, 0], [1, 2])
    np.testing.assert_array_equal(labeled.leave_one_out_by_class().indices[:, :, 0], [[1, 2], [0, 2], [1, -1]])


def test_thousands_of_duplicates_in_a_class_are_no_trouble():
    X = np.zeros((3000, 4))
    labels = np.arange(3000) % 2
    table = LabeledNeighbors(ExactSearch().fit(X), labels).leave_one_out_by_class(2)
    np.testing.assert_array_equal(table.indices[0], [[2, 4], [1, 3]])
    np.testing.assert_array_equal(table.indices[1], [[0, 2], [3, 5]])


def test_the_nearest_over_all_classes_is_the_nearest_neighbor():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(300, 5)), rng.integers(0, 7, 300)
    search = ExactSearch().fit(X)
    by_class = LabeledNeighbors(search, labels).leave_one_out_by_class().distances[:, :, 0]
    np.testing.assert_array_equal(by_class.min(axis=1), leave_one_out(search, 1).distances[:, 0])


@pytest.mark.parametrize(
    ("labels", "n_classes", "words"),
    [
        ([0, 1, 0], None, "one class number for each of the 2 rows"),
        ([0.5, 1.0], None, "class number"),
        ([0, -1], None, "must lie in 0"),
        ([0, 3], 2, "must lie in 0 … 1"),
    ],
)
def test_bad_class_numbers_are_answered_in_words(labels, n_classes, words):
    index = ns.NeighborIndex().fit([[0.0], [1.0]])
    with pytest.raises(InputError, match=words):
        index.with_labels(labels, n_classes)


def test_a_number_of_members_below_one_is_answered_in_words():
    labeled = ns.NeighborIndex().fit([[0.0], [1.0]]).with_labels([0, 1])
    with pytest.raises(InputError, match="n_members must be a whole number of at least 1; got 0"):
        labeled.query_by_class([[0.0]], n_members=0)
