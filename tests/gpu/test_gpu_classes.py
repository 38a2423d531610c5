"""Classes found by a GPU search, its steps run on the CPU: the same order, means and bits as exact search."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.neighbors.by_class import class_order_on_gpu, class_search
from nearsay.posterior.methods import pooled
from nearsay.search import choose
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu import bounds, rows, steps
from nearsay.search.gpu import class_steps as gpu_class_steps
from nearsay.search.gpu.limits import Room
from tests.gpu.test_gpu import METRICS, assert_same, on_cpu, rows_and_queries, usable
from tests.saving import saved_and_opened

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch")


def assert_same_classes(one: ns.NeighborTable, other: ns.NeighborTable) -> None:
    assert_same(one, other)
    assert one.classes.members == other.classes.members
    for mine, theirs in zip(one.classes.arrays, other.classes.arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def both_ways(X, labels, n_classes, metric="euclidean", gone=(), **limits):
    return [
        ns.NeighborIndex(metric, search=search).fit(X).remove(list(gone)).with_labels(labels, n_classes)
        for search in (ExactSearch(metric), on_cpu(metric, **limits))
    ]


@given(data=st.data(), given_rows=rows_and_queries(), metric=st.sampled_from([*METRICS[:3], "hellinger"]))
@settings(max_examples=30)
def test_the_same_classes_in_order_and_means_as_exact_search(data, given_rows, metric):
    X, Q = usable(metric, *given_rows)
    if len(X) < 4 or not len(Q):
        return
    n_classes = data.draw(st.sampled_from([1, 2, 5, 9, 30]))
    labels = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, n_classes, size=len(X))
    gone = data.draw(st.lists(st.integers(0, len(X) - 2), max_size=3, unique=True))
    members = data.draw(st.sampled_from([(), (1,), (2,), (1, 4, 16), (1, 200)]))
    k = data.draw(st.sampled_from([1, 2, 40]))
    here, there = both_ways(X, labels, n_classes, metric, gone, wide=64)
    assert_same(there.query_by_class(Q), here.query_by_class(Q))
    assert_same_classes(there.query(Q, k, members), here.query(Q, k, members))
    assert_same_classes(there.leave_one_out(k, members), here.leave_one_out(k, members))
    some = np.array([len(X) - 1, 0, 0, 2])
    assert_same_classes(there.leave_one_out(k, members, some), here.leave_one_out(k, members, some))


def many_classes(n_rows=3000, n_queries=20, n_classes=300, *, far=True):
    rng = np.random.default_rng(0)
    X, Q = (rng.normal(size=(n, 8)).astype(np.float32) for n in (n_rows, n_queries))
    if far:
        Q[3] = 1e30  # too far for scores: every row is measured
    labels = rng.integers(0, n_classes, size=len(X))
    labels[labels == 7] = 8  # a class without rows
    return X, Q, labels


@pytest.mark.parametrize("step", ["nearest_of_classes", "members_of_lines"])
def test_many_classes_are_found_and_averaged_on_the_gpu(step):
    X, Q, labels = many_classes(far=False)
    here, there = both_ways(X, labels, 300)
    really = getattr(gpu_class_steps.ClassSteps, step)
    not_here = AssertionError("the CPU averaged")
    with (
        mock.patch.object(gpu_class_steps.ClassSteps, step, autospec=True, side_effect=really) as asked,
        mock.patch.object(class_search, "fill_means", side_effect=not_here),
    ):
        found = there.query(Q, 5, (1, 4))
        assert asked.called
    assert_same_classes(found, here.query(Q, 5, (1, 4)))
    assert_same(there.query_by_class(Q), here.query_by_class(Q))
    rows = np.arange(0, 3000, 7)
    assert_same_classes(there.leave_one_out(5, (1, 4), rows), here.leave_one_out(5, (1, 4), rows))


@pytest.mark.parametrize(("most", "on_gpu"), [(300, True), (299, False)])
def test_more_classes_than_a_gpu_numbers_are_left_to_the_cpu(most, on_gpu):
    X, Q, labels = many_classes(far=False)
    here, there = both_ways(X, labels, 300, most_classes=most)
    found = there.query(Q, 5, (1, 4))
    assert isinstance(found.classes, class_order_on_gpu.ClassesOnGpu) == on_gpu
    assert_same_classes(found, here.query(Q, 5, (1, 4)))


@pytest.mark.parametrize("ties", [False, True])
def test_classes_of_many_rows_and_of_few_are_averaged_on_the_gpu(ties):
    X, Q, labels = many_classes(n_classes=5)
    if ties:
        X, Q = np.round(X), np.round(Q)
    labels = np.where(labels < 3, 0, labels)  # one large class, and two of 600 rows
    labels[5::9] = 5  # one of 300
    labels[:2] = 6  # and one of two
    here, there = both_ways(X, labels, 8)
    with mock.patch.object(class_search, "fill_means", side_effect=AssertionError("the CPU averaged")):
        found = there.query(Q[4:], 5, (1, 4, 64))
    assert_same_classes(found, here.query(Q[4:], 5, (1, 4, 64)))
    some = np.arange(0, len(X), 60)
    assert_same_classes(there.leave_one_out(5, (1, 4), some), here.leave_one_out(5, (1, 4), some))


@pytest.mark.parametrize("middle", [0.0, 3.0])
def test_where_most_members_are_equal_all_are_measured(middle):
    X, _, labels = many_classes(n_classes=5, far=False)
    X[:2000] = middle  # with 0 the scores are 0, and tell no place
    X[2000] = -middle
    here, there = both_ways(X, labels, 6, gone=[7])
    really = gpu_class_steps.ClassSteps.measure_classes
    with mock.patch.object(gpu_class_steps.ClassSteps, "measure_classes", autospec=True, side_effect=really) as asked:
        assert_same_classes(there.query(X[:30] + 1, 5, (1, 4)), here.query(X[:30] + 1, 5, (1, 4)))
        assert_same_classes(there.leave_one_out(5, (1, 4), [1, 2999]), here.leave_one_out(5, (1, 4), [1, 2999]))
    assert asked.called


def test_keys_that_lost_their_digits_are_not_believed():
    """A GPU may take the smallest numbers for 0: then the place in the last digits is gone, here for all but one."""
    far = np.random.default_rng(0).integers(1, 9, size=(100, 4))
    X = np.vstack([far, -far, np.zeros((3, 4))]).astype(np.float32)  # of each class one is in the middle: a score of 0
    here, there = both_ways(X, np.arange(203) % 3, 3)
    really = steps.PlainSteps.group_lows

    def flushed(*given):
        keys = really(*given)
        tiny = keys.abs() < 2.0**-126
        assert tiny.any()
        return keys.where(~tiny, 0.0)

    with mock.patch.object(steps.PlainSteps, "group_lows", flushed):
        Q = X / 4
        assert_same_classes(there.query(Q, 3, (1, 4)), here.query(Q, 3, (1, 4)))
        assert_same_classes(there.leave_one_out(3, (1, 4)), here.leave_one_out(3, (1, 4)))


def test_without_the_bound_of_keys_the_nearest_of_a_class_would_be_missed():
    """Whole numbers that float16 and float32 hold as they are: nothing is lost but the last digits of keys."""
    rng = np.random.default_rng(0)
    half, Q = (rng.integers(-3, 4, size=(n, 8)).astype(np.float32) for n in (1000, 300))
    half[:, 0], Q[:, 0] = 1000, 900
    X = np.vstack([half, -half])
    here, there = both_ways(X, np.arange(len(X)) % 2, 2)
    expected = here.query(Q, 1, (1,))

    def nothing_lost(*given):
        bound = bounds.query_bounds(*given)
        return bounds.QueryBounds(bound.alpha, 0 * bound.beta, 0 * bound.gamma, bound.certain)

    with mock.patch.object(rows, "query_bounds", nothing_lost):
        assert_same_classes(there.query(Q, 1, (1,)), expected)
        with mock.patch.object(bounds, "lost_to_places", return_value=0.0):
            assert (there.query(Q, 1, (1,)).classes.nearest != expected.classes.nearest).any()


@pytest.mark.slow
def test_answers_do_not_depend_on_how_many_queries_are_asked_at_once():
    rng = np.random.default_rng(0)
    X, Q = (rng.integers(0, 3, size=(n, 5)).astype(np.float32) for n in (700, 600))
    labels = rng.integers(0, 20, size=len(X))
    _, there = both_ways(X, labels, 20)
    whole, others = there.query(Q, 9, (1, 4)), there.leave_one_out(9, (1, 4))
    _, other = both_ways(X, labels, 20, queries_at_once=256, member_bytes=1 << 16)
    with mock.patch.object(gpu_class_steps, "AT_ONCE", 1 << 12):
        assert_same_classes(other.query(Q, 9, (1, 4)), whole)
        assert_same_classes(other.leave_one_out(9, (1, 4)), others)


def test_queries_whose_lists_are_too_short_are_asked_again():
    X, Q, labels = many_classes()
    here, there = both_ways(X, labels, 300, room=Room(64, 4, 4))
    assert_same_classes(there.query(Q, 9, (1, 4)), here.query(Q, 9, (1, 4)))
    assert_same_classes(there.leave_one_out(9, (), [1, 2]), here.leave_one_out(9, (), [1, 2]))


@pytest.mark.parametrize("ask", [lambda it, Q: it.query(Q, 2, (1, 4)), lambda it, Q: it.query_by_class(Q)])
def test_a_gpu_that_runs_out_of_memory_leaves_classes_to_the_cpu(ask):
    torch = importlib.import_module("torch")
    X, Q, labels = many_classes()
    here, there = both_ways(X, labels, 300)
    full = torch.OutOfMemoryError("Tried to allocate 2.00 GiB. GPU 0 has …")
    with (
        mock.patch.object(gpu_class_steps.ClassSteps, "nearest_of_classes", side_effect=full),
        pytest.warns(UserWarning, match="so the CPU searches"),
    ):
        found = ask(there, Q)
    assert_same(found, ask(here, Q))
    assert_same(ask(there, Q), found)


# ---------------------------------------------------------------- probabilities


def fitted(X, labels, search, **given):
    return ns.NeighborClassifier(5, posterior="pooled", search=search, **given).fit(X, labels)


def ties_in_many_classes():
    """Small whole numbers, of which many lie in several classes at once."""
    rng = np.random.default_rng(0)
    X, Q = (rng.integers(0, 4, size=(n, 4)).astype(np.float32) for n in (600, 150))
    Q[3] = 1e30  # too far for scores
    return X, Q, rng.integers(0, 40, size=len(X))


@pytest.mark.slow
@pytest.mark.parametrize(("made", "metric"), [(many_classes, "euclidean"), (ties_in_many_classes, "sqeuclidean")])
def test_the_pool_says_the_same_on_the_gpu(made, metric):
    X, Q, labels = made()
    here, there = (fitted(X, labels, search, metric=metric) for search in (ExactSearch(metric), on_cpu(metric)))
    np.testing.assert_array_equal(there.posterior_.weights_, here.posterior_.weights_)  # past cases are the same
    p = there.predict_proba(Q)
    with mock.patch.object(pooled, "pooled_on_gpu", side_effect=AssertionError) as asked:
        with pytest.raises(AssertionError):
            there.predict_proba(Q)
        assert asked.called
    np.testing.assert_allclose(p, here.predict_proba(Q), rtol=1e-10)
    np.testing.assert_array_equal(there.predict(Q), there.classes_[p.argmax(axis=1)])
    np.testing.assert_array_equal(there.predict(Q), here.predict(Q))
    for part in (slice(0, 1), slice(3, 20), slice(7, 8)):
        np.testing.assert_array_equal(there.predict_proba(Q[part]), p[part])
    np.testing.assert_array_equal([each.probability for each in there.explain(Q[:9])], p[:9].max(axis=1))


@pytest.mark.parametrize("given", [{"priors": "uniform"}, {"n_jobs": 2}, {"tie_break": "random"}])
def test_other_ways_to_answer_are_the_same_on_the_gpu(given):
    X, Q, labels = ties_in_many_classes()
    here, there = (fitted(X, labels, search, **given) for search in (ExactSearch(), on_cpu()))
    p = there.predict_proba(Q)
    np.testing.assert_allclose(p, here.predict_proba(Q), rtol=1e-10)
    np.testing.assert_array_equal(there.predict(Q), here.predict(Q))
    np.testing.assert_array_equal(there.classes_[p.argmax(axis=1)], here.predict(Q))


def test_a_class_that_has_lost_its_rows_stands_where_the_others_do():
    X, Q, labels = ties_in_many_classes()
    pool = fitted(X, labels, ExactSearch()).posterior_
    gone = np.flatnonzero(labels == 5)
    tables = [labeled.query(Q, 5, tuple(pool.members_)) for labeled in both_ways(X, labels, 40, gone=gone)]
    assert isinstance(tables[1].classes, class_order_on_gpu.ClassesOnGpu)
    np.testing.assert_allclose(pool.proba(tables[1]), pool.proba(tables[0]), rtol=1e-10)


def test_what_stays_on_the_gpu_can_be_read_cut_copied_and_written_to():
    X, Q, labels = ties_in_many_classes()
    expected, table = (labeled.query(Q, 5, (1, 2)) for labeled in both_ways(X, labels, 40))
    lines = np.array([5, 3, 3])
    assert_same_classes(table[lines], expected[lines])
    assert_same_classes(table[10:20], expected[10:20])
    assert_same_classes(pickle.loads(pickle.dumps(table)), expected)
    table.classes[lines] = expected.classes[np.array([7, 8, 8])]
    assert_same_classes(
        ns.NeighborTable(expected.indices[lines], expected.distances[lines], table.classes[lines]),
        ns.NeighborTable(expected.indices[lines], expected.distances[lines], expected.classes[np.array([7, 8, 8])]),
    )


def test_copied_and_saved_classifiers_answer_alike(monkeypatch):
    monkeypatch.setitem(choose.SEARCHES, "gpu", lambda distance, recall: on_cpu(distance))
    X, Q, labels = ties_in_many_classes()
    classifier = fitted(X, labels, "gpu")
    p = classifier.predict_proba(Q)
    opened = saved_and_opened(classifier)
    for one in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier), opened):
        np.testing.assert_array_equal(one.predict_proba(Q), p)


def test_more_than_the_gpu_should_keep_comes_in_arrays():
    X, Q, labels = ties_in_many_classes()
    expected, table = (labeled.query(Q, 5, (1, 2)) for labeled in both_ways(X, labels, 40, kept_bytes=100))
    assert not isinstance(table.classes, class_order_on_gpu.ClassesOnGpu)
    assert_same_classes(table, expected)
