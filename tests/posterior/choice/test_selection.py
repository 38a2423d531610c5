"""Which k: the curve over every k from one leave-one-out table."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.core.arrays import row_blocks
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.choice.k_curve import KCurve, PastVotes, largest_k
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.proportional import Proportional
from nearsay.posterior.votes import TIE_RULES, count_votes, neighbor_labels, winners
from tests.labeled import RULES_WITHOUT_CHANCE, SMOOTHED, count_searches, labeled_rows
from tests.reference import neighbors as reference


@settings(max_examples=40)
@given(data=labeled_rows(smallest=2), smoothed=SMOOTHED, rule=RULES_WITHOUT_CHANCE)
def test_the_k_curve_equals_judging_the_collection_anew_for_every_k(data, smoothed, rule):
    X, y = data
    smoothing, model_failure = smoothed
    options = {"smoothing": smoothing, "model_failure": model_failure}
    clf = NeighborClassifier("auto", posterior=Proportional(**options), tie_break=rule).fit(X, y)
    largest = largest_k(len(X))
    right, log_posterior = reference.k_curve(X, y, len(clf.classes_), largest, tie_break=rule, **options)
    assert clf.k_curve_.k.tolist() == list(range(1, largest + 1))
    np.testing.assert_allclose(clf.k_curve_.accuracy, right, rtol=1e-12)
    np.testing.assert_allclose(clf.k_curve_.log_posterior, log_posterior, rtol=1e-12, atol=1e-15)
    k, accuracy, log_p = (values.tolist() for values in clf.k_curve_)
    assert clf.n_neighbors_ == max(k, key=lambda k: (log_p[k - 1], accuracy[k - 1], -k))


@settings(max_examples=40)
@given(data=labeled_rows(smallest=2), rule=st.sampled_from(list(TIE_RULES)), seed=st.integers(0, 9))
def test_compiled_and_plain_tie_rules_name_the_same_winner_for_every_k(data, rule, seed):
    X, y = data
    n_classes, k = int(y.max()) + 1, len(X) - 1
    table = NeighborIndex().fit(X).leave_one_out(k)
    past = PastVotes(k, n_classes, tie_break=rule, seed=seed).add(table, y, np.arange(len(X)))
    for width in range(1, k + 1):
        first = table.first(width)
        named = winners(count_votes(neighbor_labels(first, y), n_classes), first, y, rule, seed)
        assert past.right[width - 1] == (named == y).sum()


def test_the_k_curve_is_the_same_in_small_blocks():
    rng = np.random.default_rng(4)
    X, y, rows = rng.integers(0, 5, (90, 2)).astype(float), rng.integers(0, 3, 90), np.arange(90)
    table = NeighborIndex().fit(X).leave_one_out(30)
    small = PastVotes(30, 3)
    for part in row_blocks(90, size=7):
        small.add(table[part], y, rows[part])
    for a, b in zip(PastVotes(30, 3).add(table, y, rows).curve(), small.curve(), strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=40)
@given(data=labeled_rows(smallest=2), k=st.integers(1, 13))
def test_leaving_some_rows_out_gives_those_lines_of_the_leave_one_out_table(data, k):
    X, _ = data
    k = min(k, len(X) - 1)
    index = NeighborIndex().fit(X)
    rows = np.arange(len(X))[::-2]
    part, whole = index.leave_one_out(k, rows), index.leave_one_out(k)
    np.testing.assert_array_equal(part.indices, whole.indices[rows])
    np.testing.assert_array_equal(part.distances, whole.distances[rows])


def test_among_equal_k_the_more_accurate_and_then_the_smaller_is_taken():
    k = np.array([1, 2, 3, 4])
    assert KCurve(k, np.array([0.5, 0.7, 0.9, 0.9]), np.full(4, -np.inf)).best == 3
    assert KCurve(k, np.full(4, 0.9), np.array([-2.0, -1.0, -1.0, -3.0])).best == 2


def test_auto_takes_many_neighbors_where_labels_are_noisy_and_few_where_they_are_not():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(400, 1))
    sure, noisy = (X[:, 0] > 0.5).astype(int), (rng.uniform(size=400) < 0.3 + 0.4 * (X[:, 0] > 0.5)).astype(int)
    assert (
        NeighborClassifier("auto", posterior="proportional").fit(X, sure).n_neighbors_
        < NeighborClassifier("auto", posterior="proportional").fit(X, noisy).n_neighbors_
    )


def test_auto_searches_each_row_once(monkeypatch):
    searches = count_searches(monkeypatch)
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)
    clf = NeighborClassifier("auto", posterior="proportional").fit(X, y)
    assert searches == {"leave_one_out": 1}
    # The pass that chooses k remembers whom it met, so neither records nor novelty ask again.
    clf.explain(X[:3])
    assert searches == {"leave_one_out": 1, "query": 1}
    clf.explain(X[:3])
    assert searches == {"leave_one_out": 1, "query": 2}


def test_a_second_fit_with_a_fixed_k_forgets_the_curve_of_the_first():
    clf = NeighborClassifier("auto", posterior="proportional").fit([[0.0], [1.0], [5.0]], [0, 0, 1])
    assert not hasattr(clf.set_params(n_neighbors=1).fit([[0.0], [1.0]], [0, 1]), "k_curve_")
