"""The leave-one-out table of a collection that changes is that of a rebuild, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from nearsay.collection.state.feature_groups import METRICS
from nearsay.core.parallel import threads
from nearsay.distances.named import as_distance
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.living.living_table import LivingTable
from nearsay.neighbors.table import NeighborTable
from nearsay.search.exact import ExactSearch
from nearsay.search.screening.screen import LIMITS
from tests.exact_searches import EIGHT_BITS
from tests.labeled import Counting
from tests.neighbors.test_ways_by_class import only

COORDINATE = st.integers(0, 3)  # few values, so that most distances are equal to others
POINT = st.tuples(COORDINATE, COORDINATE)
CHANGE = st.one_of(
    st.tuples(st.just("add"), st.lists(POINT, min_size=1, max_size=3)), st.tuples(st.just("remove"), st.integers(0, 40))
)


# Rough scores of rows as they are, and in eight bits, however few there are.
both_scores = pytest.mark.parametrize("limits", [LIMITS, EIGHT_BITS], ids=["rows as they are", "eight bits"])


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


@both_scores
@given(
    first=FIRST,
    changes=st.lists(CHANGE, max_size=12),
    k=st.integers(1, 4),
    spare=st.integers(0, 2),
    lie=ROWS_LIE,
)
def test_after_any_changes_the_table_is_that_of_a_rebuild(limits, first, changes, k, spare, lie):
    dtype, scale, offset = lie

    def rows(points):
        return (np.array(points) * scale + offset).astype(dtype)

    search = ExactSearch(limits=limits).fit(rows(first))
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


@pytest.mark.slow
@both_scores
@pytest.mark.parametrize("name", [*METRICS, "sqeuclidean"])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_many_rows_may_appear_at_once_by_any_distance(limits, name, at_once):
    rng = np.random.default_rng(0)
    X = rng.integers(1, 4, (150, 5)).astype(np.float32) + rng.choice([0, 0.01], (150, 5)).astype(np.float32)
    search = ExactSearch(name, limits=limits).fit(X[:60])
    living = LivingTable(search, k=3, spare=2)
    for start in range(60, 150 if at_once > 1 else 90, at_once):
        living.appear(search, search.add(X[start : start + at_once]))
        search.remove([start - 50])
        living.vanish(search, np.array([start - 50]))
    same_table(living, search)


@both_scores
def test_few_rows_are_measured_where_scores_rule_out_the_others(limits):
    X = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    distance = Counting()
    search = ExactSearch(distance, limits=limits).fit(X)
    living = LivingTable(search, k=5)
    distance.n_measured = 0
    living.appear(search, search.add(X[:1] + np.float32(0.5)))
    scanned(search, np.arange(3001) % 4, 4).query(X[:1] + np.float32(0.5), 5, (1, 4))
    assert 0 < distance.n_measured < 300
    same_table(living, search)


def test_rows_that_come_back_are_let_in_under_their_numbers():
    X = np.random.default_rng(0).integers(0, 4, (30, 2)).astype(np.float64)
    search = ExactSearch().fit(X)
    search.remove([3, 4, 20])
    living = LivingTable(search, k=3)
    search.restore([3, 4])
    living.appear(search, np.array([3, 4]))
    same_table(living, search)


def test_lines_run_out_of_spare_neighbors_and_are_searched_again():
    X = np.random.default_rng(1).normal(size=(60, 2))
    search = ExactSearch().fit(X)
    living = LivingTable(search, k=4, spare=1)
    for row in range(40):
        search.remove([row])
        living.vanish(search, np.array([row]))
    same_table(living, search)


@pytest.mark.parametrize("name", METRICS)
def test_distances_of_a_living_collection_are_the_same_both_ways(name):
    X = np.random.default_rng(0).random((12, 9))
    distances = as_distance(name).block(X, X)
    assert_array_equal(distances, distances.T)


def scanned(search: ExactSearch, labels: np.ndarray, n_classes: int) -> LabeledNeighbors:
    return LabeledNeighbors(search, labels, n_classes, make_plan=only("scan"))


def assert_same(table: NeighborTable, expected: NeighborTable) -> None:
    assert_array_equal(table.indices, expected.indices)
    assert_array_equal(table.distances, expected.distances)
    for ours, theirs in zip(table.classes.arrays, expected.classes.arrays, strict=True):
        assert_array_equal(ours, theirs)


@both_scores
@given(
    rows=st.lists(POINT, min_size=1, max_size=12),
    queries=st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=3),
    data=st.data(),
)
def test_a_scan_finds_what_products_find(limits, rows, queries, data):
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))))
    removed = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))
    k, members = data.draw(st.integers(1, 15)), data.draw(st.sampled_from([(), (1,), (1, 4), (2, 5)]))
    dtype, scale, offset = data.draw(ROWS_LIE)
    search = ExactSearch(limits=limits).fit((np.array(rows) * scale + offset).astype(dtype))
    if removed:
        search.remove(sorted(removed))
    Q = np.array(queries) * scale + offset
    others, products = LabeledNeighbors(search, labels, 5, make_plan=only("products")), scanned(search, labels, 5)
    assert_same(products.query(Q, k, members), others.query(Q, k, members))
    some = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4)))
    assert_same(products.leave_one_out(k, members, some), others.leave_one_out(k, members, some))


@both_scores
@pytest.mark.parametrize("count", [1, 3])
def test_the_same_among_many_rows_and_classes(limits, count):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 60, 3000)
    X = rng.normal(size=(3000, 20)).astype(np.float32) + labels[:, None] % 7
    search = ExactSearch(limits=limits).fit(X)
    expected = LabeledNeighbors(search, labels, make_plan=only("products")).query(X[:64] + 0.01, 15, (1, 4, 16, 64))
    with threads(count):
        assert_same(scanned(search, labels, 60).query(X[:64] + 0.01, 15, (1, 4, 16, 64)), expected)
