"""Classes found on a graphics card, its steps taken on the CPU: the same order, means and bits as exact search."""

from __future__ import annotations

import importlib.util
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearsay as ns
from nearsay.neighbors import class_means
from nearsay.search import gpu_class_steps, gpu_classes, gpu_collection
from nearsay.search.exact import ExactSearch
from nearsay.search.gpu_collection import Room
from test_gpu import METRICS, assert_same, on_cpu, rows_and_queries, usable

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch")


def assert_same_classes(one: ns.NeighborTable, other: ns.NeighborTable) -> None:
    assert_same(one, other)
    assert one.classes.members == other.classes.members
    for mine, theirs in zip(one.classes.arrays, other.classes.arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def both_ways(X, labels, n_classes, metric="euclidean", gone=()):
    return [
        ns.NeighborIndex(metric, search=search).fit(X).remove(list(gone)).with_labels(labels, n_classes)
        for search in (ExactSearch(metric), on_cpu(metric))
    ]


@given(data=st.data(), given_rows=rows_and_queries(), metric=st.sampled_from(METRICS[:3]))
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
    here, there = both_ways(X, labels, n_classes, metric, gone)
    assert_same(there.query_by_class(Q), here.query_by_class(Q))
    with mock.patch.object(gpu_collection, "WIDE", 64):
        assert_same_classes(there.query(Q, k, members), here.query(Q, k, members))
        assert_same_classes(there.leave_one_out(k, members), here.leave_one_out(k, members))
        some = np.array([len(X) - 1, 0, 0, 2])
        assert_same_classes(there.leave_one_out(k, members, some), here.leave_one_out(k, members, some))


def many_classes(n_rows=3000, n_queries=20, n_classes=300):
    rng = np.random.default_rng(0)
    X, Q = (rng.normal(size=(n, 8)).astype(np.float32) for n in (n_rows, n_queries))
    Q[3] = 1e30  # too far for scores: every row is measured
    labels = rng.integers(0, n_classes, size=len(X))
    labels[labels == 7] = 8  # a class without rows
    return X, Q, labels


@pytest.mark.parametrize("step", ["groups_of_classes", "measure_classes"])
def test_many_classes_are_found_and_averaged_on_the_card(step):
    X, Q, labels = many_classes()
    here, there = both_ways(X, labels, 300)
    really = getattr(gpu_class_steps.ClassSteps, step)
    not_here = AssertionError("the processor averaged")
    with (
        mock.patch.object(gpu_class_steps.ClassSteps, step, autospec=True, side_effect=really) as asked,
        mock.patch.object(class_means, "fill_means", side_effect=not_here),
    ):
        found = there.query(Q, 5, (1, 4))
        assert asked.called
    assert_same_classes(found, here.query(Q, 5, (1, 4)))
    assert_same(there.query_by_class(Q), here.query_by_class(Q))
    rows = np.arange(0, 3000, 7)
    assert_same_classes(there.leave_one_out(5, (1, 4), rows), here.leave_one_out(5, (1, 4), rows))


def test_the_members_of_large_classes_are_averaged_by_the_processor():
    X, Q, labels = many_classes(n_classes=3)
    here, there = both_ways(X, labels % 3, 3)
    with mock.patch.object(gpu_classes, "MEASURED_WHOLE", 512):
        assert_same_classes(there.query(Q, 5, (1, 4)), here.query(Q, 5, (1, 4)))
        assert_same_classes(there.leave_one_out(5, (1, 4), [4, 5]), here.leave_one_out(5, (1, 4), [4, 5]))


def test_answers_do_not_depend_on_how_many_queries_are_asked_at_once():
    rng = np.random.default_rng(0)
    X, Q = (rng.integers(0, 3, size=(n, 5)).astype(np.float32) for n in (700, 600))
    labels = rng.integers(0, 20, size=len(X))
    _, there = both_ways(X, labels, 20)
    whole, others = there.query(Q, 9, (1, 4)), there.leave_one_out(9, (1, 4))
    with (
        mock.patch.object(gpu_classes, "QUERIES_AT_ONCE", 256),
        mock.patch.object(gpu_classes, "DISTANCE_BYTES", 1 << 16),
        mock.patch.object(gpu_class_steps, "AT_ONCE", 1 << 12),
    ):
        assert_same_classes(there.query(Q, 9, (1, 4)), whole)
        assert_same_classes(there.leave_one_out(9, (1, 4)), others)


def test_queries_whose_lists_are_too_short_are_asked_again():
    X, Q, labels = many_classes()
    here, there = both_ways(X, labels, 300)
    with mock.patch.object(Room, "first_look", return_value=Room(64, 4, 4)):
        assert_same_classes(there.query(Q, 9, (1, 4)), here.query(Q, 9, (1, 4)))
        assert_same_classes(there.leave_one_out(9, (), [1, 2]), here.leave_one_out(9, (), [1, 2]))


@pytest.mark.parametrize("ask", [lambda it, Q: it.query(Q, 2, (1, 4)), lambda it, Q: it.query_by_class(Q)])
def test_a_card_that_runs_out_of_memory_leaves_classes_to_the_processor(ask):
    torch = importlib.import_module("torch")
    X, Q, labels = many_classes()
    here, there = both_ways(X, labels, 300)
    full = torch.OutOfMemoryError("Tried to allocate 2.00 GiB. GPU 0 has …")
    with (
        mock.patch.object(gpu_class_steps.ClassSteps, "groups_of_classes", side_effect=full),
        pytest.warns(UserWarning, match="so the processor answers"),
    ):
        found = ask(there, Q)
    assert_same(found, ask(here, Q))
    assert_same(ask(there, Q), found)
