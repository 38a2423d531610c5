"""The leave-one-out table of a collection that changes is that of a rebuild, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from nearsay.collection.state.feature_groups import METRICS
from nearsay.core import compiling
from nearsay.core.parallel import threads
from nearsay.distances.named import as_distance
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.living.living_table import LivingTable
from nearsay.neighbors.living.scanned_classes import FEW_QUERIES, scanned, scanned_others, serves
from nearsay.search.exact import ExactSearch

COORDINATE = st.integers(0, 3)  # few values, so that most distances are equal to others
POINT = st.tuples(COORDINATE, COORDINATE)
CHANGE = st.one_of(
    st.tuples(st.just("add"), st.lists(POINT, min_size=1, max_size=3)), st.tuples(st.just("remove"), st.integers(0, 40))
)


@pytest.fixture(autouse=True, params=["as they are", "in eight bits"])
def _scores(request, monkeypatch):
    """Rough scores of rows as they are, and in eight bits, however few there are."""
    if request.param == "in eight bits":
        monkeypatch.setattr("nearsay.search.screening.screen.FEWEST_NUMBERS", 0)
        monkeypatch.setattr("nearsay.search.screening.screen.LOOK_EVERY", 1)
    with compiling.forced(True):
        yield


def same_table(living: LivingTable, search: ExactSearch) -> None:
    others = max(search.rows_.n_live - 1, 0)
    expected = (
        neighbor_search.leave_one_out(search, min(living.k, others))
        if others
        else neighbor_search.no_neighbors(len(search.rows_), 0)
    )
    n = expected.n_neighbors
    table = living.table()
    assert_array_equal(table.indices[:, :n], expected.indices)
    assert_array_equal(table.distances[:, :n], expected.distances)
    assert (table.indices[:, n:] == -1).all()
    assert (table.distances[:, n:] == np.inf).all()


# Far from the origin float32 products cannot tell such rows apart, and in other units neither.
ROWS_LIE = st.sampled_from(
    [(np.float64, 1.0, 0.0), (np.float32, 1.0, 0.0), (np.float32, 0.37, 4097.0), (np.float32, 1e-3, 3.0)]
)
FIRST = st.lists(POINT, min_size=1, max_size=12)


@given(FIRST, st.lists(CHANGE, max_size=12), st.integers(1, 4), st.integers(0, 2), ROWS_LIE)
def test_after_any_changes_the_table_is_that_of_a_rebuild(first, changes, k, spare, lie):
    dtype, scale, offset = lie

    def rows(points):
        return (np.array(points) * scale + offset).astype(dtype)

    search = ExactSearch().fit(rows(first))
    living = LivingTable(search, k, spare)
    same_table(living, search)
    for what, given_ in changes:
        if what == "add":
            living.appear(search, search.add(rows(given_)))
        elif search.rows_.n_live > 1:
            row = search.rows_.live_numbers[given_ % search.rows_.n_live]
            search.remove([row])
            living.vanish(search, np.array([row]))
        same_table(living, search)


@pytest.mark.parametrize("name", [*METRICS, "sqeuclidean"])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_many_rows_may_appear_at_once_by_any_distance(name, at_once, monkeypatch):
    monkeypatch.setattr("nearsay.neighbors.living.living_table.ROWS_AT_ONCE", 20)
    rng = np.random.default_rng(0)
    X = rng.integers(1, 4, (150, 5)).astype(np.float32) + rng.choice([0, 0.01], (150, 5)).astype(np.float32)
    search = ExactSearch(name).fit(X[:60])
    living = LivingTable(search, k=3, spare=2)
    for start in range(60, 150 if at_once > 1 else 90, at_once):
        living.appear(search, search.add(X[start : start + at_once]))
        search.remove([start - 50])
        living.vanish(search, np.array([start - 50]))
    same_table(living, search)


def test_few_rows_are_measured_where_scores_rule_out_the_others(monkeypatch):
    X = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    search = ExactSearch().fit(X)
    living = LivingTable(search, k=5)
    counted = []
    measure = neighbor_search.measured
    monkeypatch.setattr(neighbor_search, "measured", lambda *given: counted.append(given[2].size) or measure(*given))
    living.appear(search, search.add(X[:1] + np.float32(0.5)))
    scanned(search, np.arange(3001) % 4, 4, X[:1] + np.float32(0.5), 5, (1, 4))
    assert 0 < sum(counted) < 300
    monkeypatch.undo()
    same_table(living, search)


def test_rows_that_come_back_are_let_in_under_their_numbers():
    X = np.random.default_rng(0).integers(0, 4, (30, 2)).astype(np.float64)
    search = ExactSearch().fit(X)
    search.remove([3, 4, 20])
    living = LivingTable(search, k=3)
    search.restore([3, 4])
    living.appear(search, np.array([3, 4]))
    same_table(living, search)


def test_lines_run_out_of_spare_neighbors_and_are_searched_again(monkeypatch):
    X = np.random.default_rng(1).normal(size=(60, 2))
    search = ExactSearch().fit(X)
    living = LivingTable(search, k=4, spare=1)
    searched = []
    look = neighbor_search.leave_one_out
    monkeypatch.setattr(neighbor_search, "leave_one_out", lambda *given: searched.append(given) or look(*given))
    for row in range(40):
        search.remove([row])
        living.vanish(search, np.array([row]))
    assert searched
    monkeypatch.undo()
    same_table(living, search)


def test_reverse_neighbors_are_those_who_have_the_row_in_their_line():
    search = ExactSearch().fit([[0.0], [1.0], [1.5], [9.0]])
    assert_array_equal(LivingTable(search, k=1).reverse_neighbors(2), [1, 3])


@pytest.mark.parametrize("name", METRICS)
def test_distances_of_a_living_collection_are_the_same_both_ways(name):
    X = np.random.default_rng(0).random((12, 9))
    distances = as_distance(name).block(X, X)
    assert_array_equal(distances, distances.T)


@given(
    st.lists(POINT, min_size=1, max_size=12),
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=3),
    st.data(),
)
def test_measuring_every_row_gives_what_the_labeled_search_gives(rows, queries, data):
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))))
    removed = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))
    k, members = data.draw(st.integers(1, 15)), data.draw(st.sampled_from([None, (), (1,), (1, 4), (2, 5)]))
    dtype, scale, offset = data.draw(ROWS_LIE)
    search = ExactSearch().fit((np.array(rows) * scale + offset).astype(dtype))
    if removed:
        search.remove(sorted(removed))
    Q = np.array(queries) * scale + offset
    expected = LabeledNeighbors(search, labels, 5).query(Q, k, members)
    found = scanned(search, labels, 5, Q, k, members)
    assert_array_equal(found.indices, expected.indices)
    assert_array_equal(found.distances, expected.distances)
    if members is not None:
        for ours, theirs in zip(found.classes.arrays, expected.classes.arrays, strict=True):
            assert_array_equal(ours, theirs)


@given(FIRST, st.data())
def test_looking_at_every_row_gives_the_nearest_others_of_a_few(points, data):
    dtype, scale, offset = data.draw(ROWS_LIE)
    search = ExactSearch().fit((np.array(points) * scale + offset).astype(dtype))
    removed = data.draw(st.sets(st.integers(0, len(points) - 1), max_size=len(points) - 1))
    if removed:
        search.remove(sorted(removed))
    live = search.rows_.live_numbers
    rows = np.array(data.draw(st.lists(st.sampled_from(live.tolist()), min_size=1, max_size=4)))
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(points), max_size=len(points))))
    k, members = data.draw(st.integers(1, 15)), data.draw(st.sampled_from([None, (), (1,), (1, 4), (2, 5)]))
    expected = LabeledNeighbors(search, labels, 5).leave_one_out(k, members, rows)
    found = scanned_others(search, labels, 5, rows, k, members)
    assert_array_equal(found.indices, expected.indices)
    assert_array_equal(found.distances, expected.distances)
    if members is not None:
        for ours, theirs in zip(found.classes.arrays, expected.classes.arrays, strict=True):
            assert_array_equal(ours, theirs)


def test_the_same_among_many_rows_and_classes():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 60, 3000)
    X = rng.normal(size=(3000, 20)).astype(np.float32) + labels[:, None] % 7
    search = ExactSearch().fit(X)
    Q = X[:FEW_QUERIES] + np.float32(0.01)
    expected = LabeledNeighbors(search, labels).query(Q, 15, (1, 4, 16, 64))
    for count in (1, 3):
        with threads(count):
            found = scanned(search, labels, 60, Q, 15, (1, 4, 16, 64))
            others = scanned_others(search, labels, 60, np.arange(FEW_QUERIES), 4, None)
        assert_array_equal(found.indices, expected.indices)
        for ours, theirs in zip(found.classes.arrays, expected.classes.arrays, strict=True):
            assert_array_equal(ours, theirs)
        assert_array_equal(others.indices, neighbor_search.leave_one_out(search, 4, np.arange(FEW_QUERIES)).indices)


def test_few_queries_of_classes_that_are_listed_are_served():
    search = ExactSearch().fit([[0.0], [1.0]])
    assert serves(search, 1, 2)
    assert serves(search, FEW_QUERIES, 2)
    assert not serves(search, FEW_QUERIES + 1, 2)
    assert not serves(ExactSearch("manhattan").fit([[0.0], [1.0]]), FEW_QUERIES, 2)
    assert not serves(search, 1, 10_001)
