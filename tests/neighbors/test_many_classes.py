"""Hundreds and thousands of classes: all are listed, exactly, and nothing jumps where their number passes a limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nearsay as ns
from nearsay.metrics.probability import accuracy, mean_log_posterior
from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.by_class.queries import Queries
from nearsay.neighbors.by_class.ways import BlockProducts
from nearsay.neighbors.class_order import classes_in_order
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.past_cases import FEWEST, LISTING, MAX_PAST_CASES, SEARCHES, PastCases, rows_judged
from nearsay.search.exact import ExactSearch
from tests.neighbors.test_ways_by_class import only
from tests.reference import neighbors as reference

MEMBERS = (1, 4, 16, 64)


def many_classes(seed: int, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with ties and duplicates; some classes have hundreds of rows, some one, some none."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(n, 6)).astype(float)
    few = rng.integers(0, n_classes - n_classes // 10, n)
    return X, np.where(rng.random(n) < 0.3, 7, few)


def check_lines(
    table: NeighborTable, some: list[int], X: np.ndarray, labels: np.ndarray, n_classes: int, removed: list[int]
) -> None:
    expected = reference.nearest_classes(
        X, labels, X[some], MEMBERS, reference.euclidean, n_listed=n_classes, left_out=some, removed=removed
    )
    for found, by_loop in zip(table.classes[some].arrays, expected, strict=True):
        np.testing.assert_array_equal(found, by_loop)


@pytest.mark.parametrize(
    ("products", "dtype", "n_classes"),
    [
        *(("float32", np.float32, 129), ("float32", np.float64, 700), ("float32", np.uint8, 129)),
        *(("int8", np.float32, 700), ("int8", np.float64, 129), ("int8", np.uint8, 700)),
    ],
)
def test_what_is_told_of_many_classes_is_what_a_loop_finds_to_the_last_digit(products, dtype, n_classes):
    X, labels = many_classes(0, 2300, n_classes)
    removed = [3, 700, 2299]
    index = ns.NeighborIndex(search=ExactSearch(products=products)).fit(X.astype(dtype)).remove(removed)
    table = index.with_labels(labels, n_classes).leave_one_out(7, MEMBERS)
    plain = index.leave_one_out(7)
    np.testing.assert_array_equal(table.indices, plain.indices)
    np.testing.assert_array_equal(table.distances, plain.distances)
    check_lines(table, [0, 3, 41, 1150, 2298], X, labels, n_classes, removed)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 0.1, 1e-2, 1e-3, 1e-5, 1e-7])
def test_rows_of_a_class_closer_than_eight_bits_can_tell_are_told_apart(spread):
    """The row that eight bits put first is often not the nearest, and sometimes nearly as far off as they allow."""
    rng = np.random.default_rng(5)
    centers, labels = rng.normal(size=(150, 16)), np.arange(3000) % 150
    X = centers[labels] + spread * rng.normal(size=(3000, 16))
    Q = centers[:20] + spread * rng.normal(size=(20, 16))
    index = ns.NeighborIndex(search=ExactSearch(products="int8")).fit(X)
    rows = LabeledNeighbors(index.search_, labels, 150, make_plan=only("products, members afterward"))
    classes = rows.query(Q, 3, (1, 4)).classes
    expected = reference.nearest_classes(X, labels, Q, (1, 4), reference.euclidean, n_listed=150)
    for found, by_loop in zip(classes.arrays, expected, strict=True):
        np.testing.assert_array_equal(found, by_loop)


@pytest.mark.parametrize("n_members", [2, 4, 10])
@pytest.mark.parametrize(("few", "worth"), [(1, 0), (16, 0), (16, 1 << 40)])
def test_small_classes_are_searched_or_measured_whole_to_the_same_digit(n_members, few, worth):
    rng = np.random.default_rng(6)
    X, labels = rng.integers(0, 4, size=(2500, 5)) + 0.1 * rng.integers(0, 3, size=(2500, 5)), np.arange(2500) % 15
    labeled = ns.NeighborIndex(search="exact").fit(X).with_labels(labels)
    by_class = labeled._by_class.rows_by_class
    by_class.few_wanted, by_class.worth_saving = few, worth
    classes = labeled.leave_one_out(3, (1, n_members)).classes
    some = [0, 7, 1300]
    expected = reference.nearest_classes(
        X, labels, X[some], (1, n_members), reference.euclidean, n_listed=15, left_out=some
    )
    for found, by_loop in zip(classes[some].arrays, expected, strict=True):
        np.testing.assert_array_equal(found, by_loop)


@pytest.mark.parametrize("distance", ["manhattan", "cosine", "sqeuclidean"])
@pytest.mark.parametrize("search", ["exact", "trees"])
def test_other_distances_and_searches_list_many_classes_as_a_loop_does(distance, search):
    if (distance, search) in (("cosine", "trees"), ("sqeuclidean", "trees")):
        pytest.skip("trees are for other distances")
    X, labels = many_classes(1, 500, 150)
    X += 1.0
    table = ns.NeighborIndex(distance, search).fit(X).with_labels(labels, 150).query(X[:4] + 0.5, 5, MEMBERS)
    slow = getattr(reference, distance)
    expected = reference.nearest_classes(X, labels, X[:4] + 0.5, MEMBERS, slow, n_listed=150)
    np.testing.assert_array_equal(table.classes.numbers, expected[0])
    for found, by_loop in zip(table.classes.arrays[1:], expected[1:], strict=True):
        np.testing.assert_allclose(found, by_loop, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("measure_all_up_to", 64), ("measure_all_up_to", 1000), ("worth_saving", 0), ("_in_order", None)],
        *[("block_from", 0), ("block_from", 600), ("block_from", 1 << 40)],
    ],
)
def test_neither_threads_nor_blocks_nor_ways_of_measuring_change_a_digit(name, value):
    X, labels = many_classes(2, 1100, 200)
    X += np.random.default_rng(3).normal(size=X.shape)  # sums whose last digit shows the order of adding
    index = ns.NeighborIndex(search="exact").fit(X)
    with ns.threads(1):
        whole = index.with_labels(labels, 200).leave_one_out(5, MEMBERS)
    other = index.with_labels(labels, 200)
    by_class = other._by_class.rows_by_class
    vars(by_class.grouped if name == "_in_order" else by_class)[name] = value
    with ns.threads(2):
        for table, lines in (
            (other.leave_one_out(5, MEMBERS), slice(None)),
            (other.leave_one_out(5, MEMBERS, rows=np.array([17, 900, 17])), [17, 900, 17]),
        ):
            np.testing.assert_array_equal(table.indices, whole.indices[lines])
            for found, expected in zip(table.classes.arrays, whole.classes[lines].arrays, strict=True):
                np.testing.assert_array_equal(found, expected)
    way = BlockProducts(index.search_, labels, 200, by_class.grouped)
    way.member_bytes = 1 << 16
    in_blocks = way.search(Queries.of_rows(index.search_.rows_, None), 5, (1,))
    np.testing.assert_array_equal(in_blocks.indices, whole.indices)
    np.testing.assert_array_equal(in_blocks.classes.numbers, whole.classes.numbers)


def test_the_order_alone_is_that_of_the_distances():
    X, labels = many_classes(4, 900, 300)
    both = ns.NeighborIndex(search="exact").fit(X).with_labels(labels, 300)
    np.testing.assert_array_equal(
        both.leave_one_out(3, ()).classes.numbers, both.leave_one_out(3, (1,)).classes.numbers
    )


@pytest.mark.parametrize("distances", ["equal", "nearly equal", "spread out", "huge", "negative"])
@pytest.mark.parametrize("n_classes", [1, 17, 3000])
def test_classes_are_put_in_order_by_distance_and_then_by_row(distances, n_classes):
    """Thousands that are equally far are sorted another way than those that float32 tells apart."""
    rng = np.random.default_rng(5)
    far = {
        "equal": np.ones((3, n_classes)),
        "nearly equal": 1 + rng.integers(0, 9, (3, n_classes)) * 2.0**-50,
        "spread out": rng.random((3, n_classes)),
        "huge": rng.random((3, n_classes)) * 1e300,
        "negative": -rng.random((3, n_classes)),
    }[distances]
    rows = np.array([rng.permutation(n_classes) for _ in range(3)])
    gone = rng.random((3, n_classes)) < 0.2
    rows[gone], far[gone] = -1, np.inf
    numbers, nearest = np.empty((3, n_classes), np.int64), np.empty((3, n_classes))
    classes_in_order(rows, far, numbers, nearest)
    for q in range(3):
        expected = sorted((c for c in range(n_classes) if rows[q, c] >= 0), key=lambda c: (far[q, c], rows[q, c]))
        missing = n_classes - len(expected)
        assert numbers[q].tolist() == expected + [-1] * missing
        assert nearest[q].tolist() == [far[q, c] for c in expected] + [math.inf] * missing


# ---------------------------------------------------------------- where their number passes a constant


@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
def test_classes_met_among_the_nearest_rows_are_the_first_of_all_classes(distance):
    """What a collection with more classes than can be listed says is part of what one with all of them listed says."""
    X, labels = many_classes(6, 700, 150)
    index = ns.NeighborIndex(distance).fit(X)
    full = index.with_labels(labels, 150).leave_one_out(4, MEMBERS)
    rows = index.with_labels(labels, 150)
    rows.lists_all = False
    met = rows.leave_one_out(4, MEMBERS)
    np.testing.assert_array_equal(met.indices, full.indices)
    for line in range(0, 700, 7):
        n = int((met.classes.numbers[line] >= 0).sum())
        np.testing.assert_array_equal(met.classes.numbers[line, :n], full.classes.numbers[line, :n])
        np.testing.assert_array_equal(met.classes.nearest[line, :n], full.classes.nearest[line, :n])
        assert met.classes.beyond[line] <= full.classes.nearest[line, n]
        # Members that were not met count as no farther than that.
        assert (met.classes.means[line, :n] <= full.classes.means[line, :n]).all()


def blobs(n_classes: int, per_class: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The first so many of one list of overlapping blobs: a class more changes next to nothing for the others."""
    centers = np.random.default_rng(7).normal(size=(10_000, 12))[:n_classes]
    y = np.repeat(np.arange(n_classes), per_class)
    return centers[y] + 0.8 * np.random.default_rng(seed).normal(size=(10_000 * per_class, 12))[: len(y)], y


def judged(n_classes: int, posterior: str) -> tuple[float, float]:
    """Accuracy and log loss on rows of the first 100 classes, which are the same ones for any number of classes."""
    X, y = blobs(n_classes, 6, seed=8)
    Q, truth = blobs(100, 10, seed=9)
    clf = ns.NeighborClassifier(15, posterior=posterior).fit(X, y)
    p = clf.predict_proba(Q)
    return accuracy(clf.classes_[p.argmax(axis=1)], truth), -mean_log_posterior(p, truth)


@pytest.mark.slow
@pytest.mark.parametrize("posterior", ["pooled", "rank"])
def test_answers_change_with_the_number_of_classes_as_smoothly_as_that_changes(posterior):
    """A class more takes some of the probability: no more than its share, and a little for what is learned anew."""
    check_smooth([100, 127, 128, 129, 200], posterior)


@pytest.mark.slowest
@pytest.mark.parametrize("posterior", ["pooled", "rank"])
def test_answers_change_smoothly_up_to_ten_thousand_classes(posterior):
    check_smooth([128, 200, 2000, 9999, 10_000], posterior)


def check_smooth(numbers: list[int], posterior: str) -> None:
    found = [judged(n, posterior) for n in numbers]
    for (few, (right, lost)), (more, (right_of_more, lost_of_more)) in zip(
        zip(numbers, found, strict=True), list(zip(numbers, found, strict=True))[1:], strict=False
    ):
        share = math.log(more / few)
        # Without any knowledge the loss grows by the log of how many times as many classes there are; with some that
        # gets less, by a little more.
        assert -0.05 < lost_of_more - lost < 1.2 * share + 0.05, (few, more, found)
        assert -0.3 * share - 0.02 < right_of_more - right < 0.03, (few, more, found)


def test_classes_past_the_sixteenth_are_moved_as_far_as_the_sixteenth_usually_is():
    X, y = blobs(40, 9, seed=10)
    clf = ns.NeighborClassifier(5, posterior="pooled").fit(X, y)
    pool, table = clf.posterior_, clf.model_.past.judged(5, clf.model_.members)[0]
    floor, near = pool.floors_[0], table.classes
    for j, m in enumerate(pool.members_.tolist()):
        column = near.members.index(m)
        gaps = [
            math.log(near.means[i, 15, column] + floor) - math.log(near.nearest[i, 15] + floor) for i in range(len(y))
        ]
        assert pool.gaps_[0, j] == pytest.approx(sum(gaps) / len(gaps))
        features = pool._features([table], slice(None))
        late = [features[i, near.numbers[i, 16], j] - math.log(near.nearest[i, 16] + floor) for i in range(len(y))]
        np.testing.assert_allclose(late, pool.gaps_[0, j])
    assert pool.gaps_[0, 0] == 0 < pool.gaps_[0, 1]


# ---------------------------------------------------------------- as many past cases as are asked for


SIZES = [1, 100, 101, 9_999, 10_000, 10_001, 15_000, 49_999, 50_000, 1_000_000]


@pytest.mark.parametrize("max_past_cases", [None, 1, 99, 100, 101, 2_500, MAX_PAST_CASES])
@pytest.mark.parametrize("members", [None, (), (1, 4)])
def test_no_more_rows_are_judged_than_asked_for(max_past_cases, members):
    for n in SIZES[:7]:
        rows = rows_judged(n, 5, members, 10, max_past_cases=max_past_cases)
        asked = n if max_past_cases is None else min(n, max_past_cases)
        judged = n if rows is None else len(np.unique(rows))
        assert judged == asked or (members and n > FEWEST and FEWEST <= judged < asked)
        assert (rows is None) == (judged == n)


@pytest.mark.parametrize("n_views", [1, 2, 4, 5, 9, 20, 100])
def test_fewer_rows_are_judged_in_a_larger_collection_and_nothing_jumps(n_views):
    judged = [n if (rows := rows_judged(n, 5, (1, 4), 10, n_views)) is None else len(rows) for n in SIZES]
    whole = SIZES.index(MAX_PAST_CASES)
    assert max(judged) * n_views <= max(n_views, SEARCHES) * MAX_PAST_CASES
    for n, many in zip(
        SIZES[whole:], judged[whole:], strict=True
    ):  # times n: as much work as for the largest whole one
        assert many * n <= max(MAX_PAST_CASES**2, MAX_PAST_CASES // LISTING * n)
        assert many >= min(FEWEST, SEARCHES * MAX_PAST_CASES // n_views)
    assert judged[whole:] == sorted(judged[whole:], reverse=True)
    for n in (10_000, 49_999):
        assert abs(judged[SIZES.index(n)] - judged[SIZES.index(n + 1)]) <= 1


def test_past_cases_of_a_large_collection_are_those_of_some_rows():
    X, y = blobs(20, 10, seed=11)
    both = ns.NeighborIndex().fit(X).with_labels(y)
    table, rows = PastCases(both, max_past_cases=30).judged(3, (1,))
    assert rows is not None
    assert len(table) == len(rows) == 30
    np.testing.assert_array_equal(table.indices, both.leave_one_out(3).indices[rows])
    assert PastCases(both).judged(3, (1,))[1] is None
