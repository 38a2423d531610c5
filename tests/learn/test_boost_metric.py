"""BoostMetric: the loop reference, the paper's numbers, triplets, rounds that serve, and bad input."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from nearsay.learn.boost_metric import BoostMetric, Comparisons, boost, weight_of_identity
from nearsay.learn.boost_metric_kernels import best_weight
from nearsay.learn.triplets import Triplets, near_triplets, triplet_shares
from nearsay.learn.tuning import neighbor_accuracy
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.learn.samples import wine
from tests.reference.learn.boost_metric import bisected_weight, outer_difference
from tests.reference.learn.boost_metric import boost as looped_boost
from tests.reference.learn.boost_metric import loss as looped_loss

PAPER = {"start": "zero", "near": (3, 10), "validation_fraction": None}


def small_rows(n_classes: int = 3) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Whole numbers, so that ties and identical rows of different classes are common; at least two classes."""

    def build(values: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        rows = np.array(values, float)
        return rows[:, 1:], np.unique(np.r_[0, 1, rows[2:, 0] % n_classes], return_inverse=True)[1]

    numbers = st.lists(st.integers(0, 4), min_size=4, max_size=4)
    return st.lists(numbers, min_size=4, max_size=12).map(build)


def noisy(n: int = 150, n_features: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two columns tell three classes apart, badly; the others are louder."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = random.normal(size=(n, n_features)) * ([1.0, 1.0] + [4.0] * (n_features - 2))
    X[:, 0] += 2.5 * y
    return X, y


# ---------------------------------------------------------------------------- triplets


@given(small_rows(), st.integers(1, 60), st.integers(1, 4), st.integers(1, 6), st.integers(0, 3))
def test_triplets_are_near_distinct_and_shared_out_evenly(rows, n_triplets, n_same, n_other, seed):
    X, labels = rows
    triplets = near_triplets(X, labels, n_triplets, (n_same, n_other), np.random.RandomState(seed))
    assert len(set(zip(*triplets, strict=True))) == len(triplets.anchor) <= n_triplets
    D = cdist(X, X)
    for i, j, k in zip(*triplets, strict=True):
        assert i != j
        assert labels[i] == labels[j] != labels[k]
        assert (X[j] != X[k]).any()
        nearer_of_class = (labels == labels[i]) & (D[i] < D[i, j]) & (np.arange(len(X)) != i)
        nearer_of_others = (labels != labels[i]) & (D[i] < D[i, k])
        assert nearer_of_class.sum() < n_same
        assert nearer_of_others.sum() < n_other
    anchors = [row for row in range(len(X)) if (labels == labels[row]).sum() > 1]
    for row in anchors:
        assert (triplets.anchor == row).sum() <= math.ceil(n_triplets / len(anchors))


def test_what_does_not_divide_is_spread_over_classes():
    X, labels = noisy(30)
    triplets = near_triplets(X, labels, 36, (3, 10), np.random.RandomState(0))
    assert np.bincount(labels[triplets.anchor]).tolist() == [12, 12, 12]
    assert set(np.bincount(triplets.anchor)) == {1, 2}


def test_all_pairs_are_taken_where_as_many_are_asked_for():
    X, labels = wine()
    triplets = near_triplets(X, labels, 30 * len(X), (3, 10), np.random.RandomState(0))
    assert len(set(zip(*triplets, strict=True))) == 5340
    euclidean = Comparisons(X, triplets).margins(X)
    assert round(float((euclidean <= 0).mean()), 4) == 0.0208


def test_triplets_do_not_depend_on_blocks():
    X, labels = noisy(60)
    whole = near_triplets(X, labels, 200, (5, 20), np.random.RandomState(0))
    pieces = near_triplets(X, labels, 200, (5, 20), np.random.RandomState(0), rows_at_once=3)
    np.testing.assert_array_equal(whole, pieces)


def test_a_taxonomy_makes_triplets_of_far_classes_count_more():
    X, labels = noisy(30)
    triplets = near_triplets(X, labels, 100, (3, 10), np.random.RandomState(0))
    apart = np.array([[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]])
    shares = triplet_shares(triplets, labels, apart)
    far = apart[labels[triplets.anchor], labels[triplets.other]] == 1
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares[far], 1.5 * shares[~far].max())


# ---------------------------------------------------------------------------- one round


def test_the_weight_of_the_hand_example_is_a_quarter_of_log_3():
    weight = best_weight(np.log([0.5, 0.5]), np.array([3.0, -1.0]), 0.0)
    assert weight == pytest.approx(math.log(3) / 4, rel=1e-14)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(-4, 4)), min_size=1, max_size=8),
    st.sampled_from([0.0, 1e-7, 0.3]),
    st.sampled_from([1e-6, 1.0, 1e5]),
)
def test_the_weight_is_that_of_bisection(cases, penalty, scale):
    shares = np.array([count for count, _ in cases]) / sum(count for count, _ in cases)
    margins = scale * np.array([float(margin) for _, margin in cases])
    expected = bisected_weight(shares, margins, penalty * scale)
    found = best_weight(np.log(shares), margins, penalty * scale)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 / scale)


def test_the_identity_begins_with_the_weight_of_least_loss_and_with_one_where_none_lowers_it():
    X = np.array([[0.0], [1.0], [2.0], [0.0]])
    some = Comparisons(X, Triplets(np.array([0, 0]), np.array([1, 1]), np.array([2, 3])))  # margins 3 and -1
    assert weight_of_identity(some, np.array([0.5, 0.5]), 0.0) == pytest.approx(math.log(3) / 4)
    violated = Comparisons(X, Triplets(np.array([0]), np.array([1]), np.array([3])))
    assert weight_of_identity(violated, np.ones(1), 0.0) == 1.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_are_held_out_where_a_class_keeps_two():
    X, y = noisy(6, n_features=2)  # three classes of two: of one that is held out, one row stays
    assert BoostMetric(validation_fraction=0.5, max_iter=2).fit(X, y).validation_curve_ == {}
    X, y = noisy(9, n_features=2)
    assert 0 in BoostMetric(validation_fraction=0.34, max_iter=2).fit(X, y).validation_curve_


def test_margins_of_any_size_give_a_finite_weight():
    for scale in (1e-200, 1e-30, 1e30, 1e150):
        margins = np.array([3.0, -1.0]) * scale
        assert best_weight(np.log([0.5, 0.5]), margins, 0.0) * scale == pytest.approx(math.log(3) / 4, rel=1e-10)


@given(small_rows(), st.integers(0, 3))
def test_what_triplets_ask_for_is_the_sum_of_outer_products(rows, seed):
    X, labels = rows
    triplets = near_triplets(X, labels, 20, (3, 4), np.random.RandomState(seed))
    if not len(triplets.anchor):
        return
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(triplets.anchor)))
    each = [outer_difference(X, triplet) for triplet in zip(*triplets, strict=True)]
    comparisons = Comparisons(X, triplets)
    np.testing.assert_allclose(comparisons.mean_difference(shares), np.tensordot(shares, each, 1), atol=1e-12)
    np.testing.assert_allclose(comparisons.margins(X), [np.trace(A) for A in each], atol=1e-12)


@settings(max_examples=40)
@given(small_rows(), st.sampled_from([0.0, 0.2]), st.booleans())
def test_rounds_are_those_of_the_loops(rows, start, weighted):
    X, labels = rows
    # A little off the grid: where two directions are equally good, either may be taken.
    X = X + np.random.default_rng(0).normal(size=X.shape) / 7
    triplets = near_triplets(X, labels, 25, (3, 4), np.random.RandomState(0))
    if not len(triplets.anchor):
        return
    apart = 1 / (2 + np.add.outer(np.arange(3), np.arange(3))) if weighted else None
    shares = triplet_shares(triplets, labels, apart)
    expected = looped_boost(X, list(zip(*triplets, strict=True)), shares, start, 1e-7, 6)
    found = list(islice(boost(Comparisons(X, triplets), shares, start, 1e-7, 0.0), 7))
    for M, (learned, loss) in zip(expected, found, strict=False):
        if abs(M).max() > 100:  # triplets that differ in little but need much: digits are lost on both sides
            break
        np.testing.assert_allclose(learned, M, rtol=1e-10, atol=1e-10 * (1 + abs(M).max()))
        assert loss == pytest.approx(
            looped_loss(X, list(zip(*triplets, strict=True)), shares, M, 1e-7), rel=1e-10, abs=1e-10
        )
    assert (np.diff([loss for _, loss in found]) <= 1e-14).all()


def test_it_ends_where_no_direction_helps():
    # Each other row is as near as the row of the class, in the same direction: every margin is negative.
    X = np.array([[0.0], [2.0], [1.0]])
    triplets = Triplets(np.array([0]), np.array([1]), np.array([2]))
    rounds = list(boost(Comparisons(X, triplets), np.ones(1), 0.0, 1e-7, 0.0))
    assert len(rounds) == 1
    assert not rounds[0].M.any()


# ---------------------------------------------------------------------------- the estimator


def test_wine_falls_as_in_the_reference_run_and_ends_without_a_wrong_triplet():
    X, y = wine()
    triplets = near_triplets(X, y, 5340, (3, 10), np.random.RandomState(0))
    shares = triplet_shares(triplets, y)
    rounds = list(islice(boost(Comparisons(X, triplets), shares, 0.0, 1e-7, 0.0), 310))
    losses = np.array([loss for _, loss in rounds])
    assert losses[0] == pytest.approx(0, abs=1e-12)
    assert round(losses[1], 3) == -1.381
    assert losses[-1] <= -11.586
    assert (np.diff(losses) < 0).all()
    values, vectors = np.linalg.eigh(rounds[-1].M)
    assert values.min() > -1e-10 * values.max()
    mapped = X @ vectors * np.sqrt(np.maximum(values, 0))
    assert (Comparisons(X, triplets).margins(mapped) > 0).all()


def test_the_papers_form_has_no_more_directions_than_rounds(capsys):
    X, y = wine()
    with pytest.warns(ConvergenceWarning, match="still falling"):
        learned = BoostMetric(**PAPER, max_iter=4, random_state=0, verbose=True).fit(X, y)
    assert learned.n_iter_ == learned.n_rounds_ == 4
    assert learned.components_.shape == (4, 13)
    assert round(learned.loss_curve_[1], 3) == -1.381
    assert learned.validation_curve_ == {}
    assert f"4/4 loss {learned.loss_curve_[-1]:.6g}" in capsys.readouterr().err


def test_as_many_rounds_are_kept_as_served_held_out_rows_best():
    learned = BoostMetric(random_state=0).fit(*noisy(300))
    curve = learned.validation_curve_
    assert learned.n_iter_ == max(curve)
    assert len(learned.loss_curve_) == learned.n_rounds_ + 1
    assert list(curve)[:6] == [0, 1, 2, 3, 4, 6]
    assert curve[learned.n_rounds_] == max(curve.values()) > curve[0]
    fresh, truth = noisy(600, seed=1)
    X, y = noisy(300)
    plain = neighbor_accuracy(X, y, fresh, truth, 20)
    assert neighbor_accuracy(learned.transform(X), y, learned.transform(fresh), truth, 20) > plain + 0.05


def test_labels_without_meaning_leave_euclidean_or_nearly_so():
    random = np.random.default_rng(0)
    learned = BoostMetric(random_state=0, max_iter=8).fit(random.normal(size=(80, 4)), random.integers(0, 2, 80))
    assert learned.validation_curve_[learned.n_rounds_] >= learned.validation_curve_[0]


def test_a_taxonomy_is_taken_and_changes_what_is_learned():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    tree = Taxonomy.from_nested({"iris": {"beardless": ["versicolor", "virginica"], "setosa": {}}})
    plain = BoostMetric(**PAPER, random_state=0, tol=0.1).fit(X, names)
    aware = clone(plain).set_params(taxonomy=tree).fit(X, names)
    assert aware.loss_curve_[1] != plain.loss_curve_[1]


# ---------------------------------------------------------------- names of classes
