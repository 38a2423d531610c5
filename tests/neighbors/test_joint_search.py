"""Neighbors by several feature spaces at once: those of a double loop, whatever is ruled out on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.two_pass_neighbors import TwoPassNeighbors
from nearsay.core.parallel import threads
from nearsay.distances.named import as_distance
from nearsay.neighbors import neighbor_search
from nearsay.neighbors.joint.feature_spaces import HeldSpaces, as_spaces
from tests.reference.annotate import keywords as reference

L = [[2.0, 0.0, 1.0], [0.0, 1.0, -1.0]]
METRICS = [
    *("euclidean", "sqeuclidean", "manhattan", "chebyshev", "cosine", "correlation", "canberra", "braycurtis"),
    *("hamming", "jaccard", "chi2", "hellinger", "intersection", "jensen_shannon", "kullback_leibler"),
    *(("minkowski", {"p": 3.0}), ("mahalanobis", {"L": L})),
]


class Joint(JointNeighbors):
    """Screens rows even for few pairs."""

    def _hold(self, held, weights):
        super()._hold(held, weights)._index._search.few_pairs = 0
        return self


def unlikeness(a: np.ndarray, b: np.ndarray) -> float:
    return 1 / (1 + abs(float(a @ b)))


def some_rows(n: int, seed: int) -> np.ndarray:
    """Small whole numbers, full of ties and duplicates: three spaces of three columns, and one that is mostly empty.

    No row is empty or constant in the first nine columns, which cosine and others could not compare.
    """
    random = np.random.default_rng(seed)
    full = random.integers(1, 4, (n, 9))
    full[:, ::3] = random.integers(4, 6, (n, 3))
    return np.hstack([full, random.integers(1, 3, (n, 20)) * (random.random((n, 20)) < 0.1)])


def four_spaces(metrics: list) -> dict:
    three = {f"space {i}": (slice(3 * i, 3 * i + 3), metric) for i, metric in enumerate(metrics)}
    return {**three, "mostly empty": (slice(9, 29), "manhattan")}


def each_to_each(features: dict, Q: np.ndarray, X: np.ndarray) -> list:
    """The distance of each query to each row, in every space."""
    spaces = [(columns, as_distance(metric)) for columns, metric in features.values()]
    return [[[distance(q[columns], x[columns]) for x in X] for q in Q] for columns, distance in spaces]


def check(table: ns.NeighborTable, expected: list) -> None:
    assert table.indices.tolist() == [[row for _, row in line] for line in expected]
    assert table.distances.tolist() == [[distance for distance, _ in line] for line in expected]


@settings(max_examples=8)
@given(
    st.integers(0, 1000),
    st.lists(st.sampled_from([*METRICS, unlikeness]), min_size=3, max_size=3),
    st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=4, max_size=4).filter(any),
    st.integers(1, 17),
)
def test_neighbors_are_those_of_a_double_loop_to_the_last_bit(seed, metrics, weights, k):
    X, Q = some_rows(18, seed), some_rows(3, seed + 1)
    features = four_spaces(metrics)
    joint = Joint(features, weights=dict(zip(features, weights, strict=True))).fit(X)
    between = each_to_each(features, X, X)
    scales = [max(map(max, lines)) or 1.0 for lines in between]
    check(joint.neighbors(Q, k), reference.joint_neighbors(each_to_each(features, Q, X), weights, scales, k, None))
    some = [7, 0, 17]
    of_some = [[lines[row] for row in some] for lines in between]
    check(joint.leave_one_out(k, rows=some), reference.joint_neighbors(of_some, weights, scales, k, some))
    whole = joint.leave_one_out(k)
    assert (whole.indices[some] == joint.leave_one_out(k, rows=some).indices).all()


def full_lines(joint: JointNeighbors, Q: np.ndarray, k: int) -> ns.NeighborTable:
    return neighbor_search.nearest_measured(joint.distances(Q), k)


def same(one: ns.NeighborTable, other: ns.NeighborTable) -> bool:
    return np.array_equal(one.indices, other.indices) and np.array_equal(one.distances, other.distances)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric != ("mahalanobis", {"L": L})], ids=str)
def test_nothing_is_missed_among_rows_that_float32_cannot_tell_apart(metric, offset, size):
    random = np.random.default_rng(0)
    X = random.random((300, 12)) + offset
    X[:, 4:] *= random.random((300, 8)) < 0.2  # mostly empty
    X[50:80] = X[20:50] * (1 + 1e-9)  # nearly the same rows
    X[:, 0] += offset
    X[:, 4] += 0.1
    X *= size
    features = {"full": (slice(0, 4), metric), "mostly empty": (slice(4, 12), metric), "plain": slice(0, 12)}
    joint = Joint(features).fit(X)
    Q = np.vstack([X[20:40], X[:5] * 1.01, 1e12 * X[:2]])
    lines = joint.distances(Q)
    for k in (1, 7, 74, 75, 300):  # on both sides of where all rows are measured
        assert same(joint.neighbors(Q, k), neighbor_search.nearest_measured(lines, k))
    own = joint.distances()
    np.fill_diagonal(own, np.inf)
    assert same(joint.leave_one_out(9), neighbor_search.nearest_measured(own, 9))
    assert same(joint.leave_one_out(9, rows=range(30)), neighbor_search.nearest_measured(own[:30], 9))


@pytest.mark.slow
@pytest.mark.parametrize("n_filled", [2, 10])
@pytest.mark.parametrize("apart", [1e-9, 1e-8, 1e-7])
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_sums_of_differences_alone_miss_nothing_either(size, apart, n_filled):
    # The rows of one half are nearly the same; those of the other keep float32 from telling them apart.
    random = np.random.default_rng(0)
    X = random.random((400, 20)) * (np.arange(20) % 10 < n_filled)
    X[:200] = X[0] * (1 + apart * random.random((200, 20)))
    features = {"first": (slice(0, 10), "manhattan"), "second": (slice(10, 20), "manhattan")}
    joint = Joint(features).fit(X * size)
    Q = X[:30] * 1.0001 * size
    assert [space.mostly_empty for space in joint._index.distance.held.held] == [n_filled == 2] * 2
    assert same(joint.neighbors(Q, 5), full_lines(joint, Q, 5))
    own = HeldSpaces(X * size, as_spaces(features, 20))
    expected = [own.distances(space, own.rows).max() for space in range(2)]
    assert own.scales.tolist() == expected


def test_queries_out_of_the_reach_of_float32_are_answered_exactly():
    X = np.random.default_rng(0).random((100, 4))
    joint = Joint({"first": (slice(0, 2), "manhattan"), "second": slice(2, 4), "all": (slice(0, 4), "chi2")})
    joint.fit(X)
    Q = np.vstack([np.full((2, 4), 1e60), X[:2]])
    assert same(joint.neighbors(Q, 5), full_lines(joint, Q, 5))


MIXED = {
    "first": slice(0, 3),
    "second": (slice(3, 9), "manhattan"),
    "third": (slice(6, 9), "chi2"),
    "mostly empty": (slice(9, 29), "manhattan"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "rows", "few_pairs", "n_threads"),
    [(1, 8, 0, 2), (1, 8, 79, 1), (3, 7, 0, 1), (3, 7, 80, 2), (1000, 1000, 79, 2), (1000, 1000, 80, 1)],
)
def test_blocks_batches_and_threads_do_not_matter(queries, rows, few_pairs, n_threads):
    X, Q = some_rows(80, 0), some_rows(23, 1)
    expected = full_lines(Joint(MIXED).fit(X), Q, 6)
    with threads(n_threads):
        joint = Joint(MIXED).fit(X)
        search = joint._index._search
        search.few_pairs, search.queries_at_once, search.rows_at_once = few_pairs, queries, rows
        search.distance_.held.distances_kept = 80 * rows
        assert same(joint.neighbors(Q, 6), expected)
        singly = [joint.neighbors(query[None], 6) for query in Q]
        assert (np.vstack([one.distances for one in singly]) == expected.distances).all()
        own = joint.distances()
        np.fill_diagonal(own, np.inf)
        assert same(joint.leave_one_out(6), neighbor_search.nearest_measured(own, 6))


def test_lists_that_are_too_short_for_ties_leave_the_query_to_a_scan():
    X = np.repeat(some_rows(4, 0), 100, axis=0)
    joint = Joint(MIXED).fit(X)
    joint._index._search.wide_list = 0
    assert same(joint.neighbors(X[::40], 3), full_lines(joint, X[::40], 3))


def test_few_rows_are_left_to_be_measured():
    random = np.random.default_rng(0)
    X = np.hstack([random.random((2000, 40)), random.random((2000, 60)) * (random.random((2000, 60)) < 0.1)])
    features = {"first": slice(0, 20), "second": (slice(20, 40), "manhattan"), "third": (slice(40, 100), "manhattan")}
    search = Joint(features).fit(X)._index._search
    assert search.candidates(X[:50], 10).shape[1] < 20


@pytest.mark.slow
@pytest.mark.parametrize("n_columns", [1, 40])
@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric != ("mahalanobis", {"L": L})], ids=str)
def test_one_space_has_the_neighbors_of_an_index_in_other_units(metric, n_columns):
    random = np.random.default_rng(0)
    n_rows = 1200 if n_columns == 1 else 300  # enough for a tree, and all measured or screened
    X, Q = random.random((n_rows, n_columns)) + 0.5, random.random((30, n_columns)) + 0.5
    if metric == "correlation" and n_columns == 1:
        X, Q = np.hstack([X, X**2]), np.hstack([Q, Q**2])
    joint = Joint({"all": (slice(None), metric)}).fit(X)
    index = ns.NeighborIndex(metric).fit(X)
    scale = HeldSpaces(X, as_spaces({"all": (slice(None), metric)}, X.shape[1])).scales[0]
    plain = index.query(Q, 9).distances
    np.testing.assert_array_equal(joint.neighbors(Q, 9).distances, plain * (1 / scale))
    assert same(joint.neighbors(Q, 9), full_lines(joint, Q, 9))
    np.testing.assert_array_equal(joint.leave_one_out(3).distances, index.leave_one_out(3).distances * (1 / scale))


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("n_columns", [1, 40])
def test_distances_that_scaling_makes_equal_go_by_row_number(metric, n_columns):
    # By a tree (one column) and by products (forty): neighbors one step of float64 apart, nearer ones numbered higher.
    steps = 1.9 + np.arange(1200) * 2.0**-52
    X = np.zeros((1201, n_columns))
    X[:1200, 0], X[1200, 0] = steps[::-1], 5.2
    joint = Joint({"all": (slice(None), metric)}).fit(X)
    table = joint.neighbors(np.zeros((1, n_columns)), 400)
    assert len(np.unique(table.distances)) < 400
    assert same(table, full_lines(joint, np.zeros((1, n_columns)), 400))


def test_rows_too_short_to_square_are_refused_in_words_before_any_question():
    with pytest.raises(ns.InputError, match="squares vanish"):
        Joint().fit(np.arange(6.0).reshape(3, 2) * 1e-200)


def test_two_passes_see_all_rows_in_the_order_of_a_loop():
    X, Y = some_rows(40, 0), [["sky"]] * 39 + [["sun"]]
    table = TwoPassNeighbors(Joint(MIXED), per_word=3).fit(X, Y).neighbors(X[:5], 4)
    order = full_lines(Joint(MIXED).fit(X), X[:5], 40).indices
    expected = [sorted([*[row for row in line if row < 39][:3], 39], key=line.tolist().index) for line in order]
    assert table.indices.tolist() == expected
