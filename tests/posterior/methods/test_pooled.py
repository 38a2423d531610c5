"""The log-linear pool: weights, probabilities, few rows, duplicates, one group and many."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.errors import InputError
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.pool import log_linear
from nearsay.posterior.methods.pool.log_linear import (
    Cases,
    add_cases,
    failure_share,
    fit_weights,
    fits_of_some,
    likeliest,
    log_evidence,
)
from nearsay.posterior.methods.pool.pooled_features import softmax
from nearsay.posterior.methods.pooled import Pooled
from tests.labeled import labeled_rows, queries_for
from tests.reference import fusion as reference_fusion


def some_cases(seed: int, n: int = 30, n_classes: int = 5, n_weights: int = 3) -> Cases:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, n_classes, n_weights))
    return Cases(features, rng.normal(size=(n, n_classes)), rng.integers(0, n_classes, n))


def test_the_derivatives_are_those_of_the_likelihood():
    cases, step = some_cases(0), 1e-5

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        gradient, curvature = np.zeros(3), np.zeros((3, 3))
        lost = add_cases(cases, weights, np.empty(30), gradient, curvature)
        return lost, gradient, curvature

    at = np.array([0.3, -0.2, 0.7])
    _, gradient, curvature = loss(at)
    for j, apart in enumerate(step * np.eye(3)):
        above, below = loss(at + apart), loss(at - apart)
        assert gradient[j] == pytest.approx((above[0] - below[0]) / (2 * step), rel=1e-6)
        np.testing.assert_allclose(curvature[j], (above[1] - below[1]) / (2 * step), rtol=1e-6)


@given(seed=st.integers(0, 50), center=st.sampled_from([0.0, 1.0]), precision=st.sampled_from([0.03, 1.0, 50.0]))
@settings(max_examples=20)
def test_weights_are_where_the_gradient_is_zero(seed, center, precision):
    cases = some_cases(seed)
    weights, p_true = fit_weights(cases, center, precision)
    gradient = precision * (weights - center)
    add_cases(cases, weights, np.empty(30), gradient, np.zeros((3, 3)))
    assert np.abs(gradient).max() < 1e-6
    scores = cases.offsets - cases.features @ weights
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p_true, expected[np.arange(30), cases.truth], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [np.array([0.5, 2.0]), np.array([30.0, 5.0])])
def test_the_evidence_is_the_likelihood_of_all_cases_averaged_over_the_prior(precision):
    cases = some_cases(1, n=300, n_weights=2)
    weights, _ = fit_weights(cases, 0.2, precision)
    steps = np.linspace(-0.6, 0.6, 61)
    terms = []
    for one in weights[0] + steps:
        for other in weights[1] + steps:
            at = np.array([one, other])
            lost = add_cases(cases, at, np.empty(300), np.zeros(2), np.zeros((2, 2)))
            prior = np.log(precision / (2 * np.pi)) / 2 - precision * (at - 0.2) ** 2 / 2
            terms.append(prior.sum() - lost)
    largest = max(terms)
    integral = largest + np.log(np.exp(np.array(terms) - largest).sum() * (steps[1] - steps[0]) ** 2)
    assert log_evidence(cases, weights, 0.2, precision) == pytest.approx(integral, abs=0.05)


@pytest.mark.slow
def test_weights_of_views_are_held_closely_where_labels_are_noisy_and_a_line_knows_as_much():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 8))
    noisy = (X[:, 0] + X[:, 1] + 3 * rng.normal(size=900) > 0).astype(int)
    table = np.column_stack([np.where(X[:, 7] > 0, "up", "down").astype(object), X[:, :7]])
    assert NeighborClassifier().fit(table, noisy).model_.posterior.strictness_ > 1
    # Rings: neighbors know what a line does not.
    rings = (np.abs(X[:, :2]).max(axis=1) > 1).astype(int)
    assert NeighborClassifier().fit(table[:, :3], rings).model_.posterior.strictness_ == 1
    assert NeighborClassifier().fit(X, noisy).model_.posterior.strictness_ == 1  # only those of tables


def test_cases_that_any_weight_gets_right_do_not_drive_weights_to_infinity():
    cases = Cases(np.array([[[0.0], [1.0]]] * 50), np.zeros((50, 2)), np.zeros(50, np.int64))
    weights, _ = fit_weights(cases, center=0.0)
    assert 3 < weights[0] < 100


@given(st.integers(34, 140), st.integers(0, 10**6))
@settings(max_examples=20)
def test_four_of_each_group_of_far_classes_are_kept_and_count_for_it(n_classes, seed):
    rng = np.random.default_rng(seed)
    far = rng.permuted(np.tile(np.arange(n_classes), (3, 1)), axis=1)[:, :, None].astype(float)
    truth = rng.integers(0, n_classes, 3)
    few = likeliest(far, truth, far[:, :, 0])
    for i in range(3):
        kept = {float(value): 1.0 for value in [*range(32), far[i, truth[i], 0]]}
        for first, last in ((32, 64), (64, 128), (128, 140)):
            others = [rank for rank in range(first, min(last, n_classes)) if rank != far[i, truth[i], 0]]
            n_kept = min(4, len(others))
            for number in range(n_kept):
                kept[others[(2 * number + 1) * len(others) // (2 * n_kept)]] = len(others) / n_kept
        counts = {
            float(value): count
            for value, count in zip(few.features[i, :, 0], np.exp(few.offsets[i]), strict=True)
            if count > 0
        }
        assert counts == pytest.approx(kept)


def test_of_noise_in_many_classes_the_pool_says_hardly_more_than_that_it_knows_nothing():
    """Weights that told the truth from the averages of far classes gave new rows a log loss of 5.7."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(800, 12)), rng.integers(0, 100, 800)
    classifier = NeighborClassifier().fit(X[:300], y[:300])
    known = np.flatnonzero(np.isin(y, classifier.classes_) & (np.arange(800) >= 300))
    p = classifier.predict_proba(X[known])[np.arange(len(known)), np.searchsorted(classifier.classes_, y[known])]
    assert -np.log(p).mean() < np.log(len(classifier.classes_)) + 0.3


def test_far_classes_that_are_alike_count_as_if_all_were_kept():
    rng = np.random.default_rng(0)
    far = rng.normal(size=(40, 150, 2))
    order = np.argsort(far.sum(axis=2), axis=1)
    for first, last in ((32, 64), (64, 128), (128, 150)):  # classes of one group, all alike
        for i in range(40):
            far[i, order[i, first:last]] = 0.5 * last
    truth = rng.integers(0, 150, 40)
    few = likeliest(far, truth, far.sum(axis=2))
    assert few.features.shape == (40, 32 + 1 + 3 * 4, 2) == (40, log_linear.n_candidates(150), 2)
    weights = np.array([0.05, 0.02])
    for i in range(40):
        scores = few.offsets[i] - few.features[i] @ weights
        assert np.log(np.exp(scores).sum()) == pytest.approx(np.log(np.exp(-far[i] @ weights).sum()))
        assert (few.features[i, few.truth[i]] == far[i, truth[i]]).all()
        assert few.offsets[i, few.truth[i]] == 0


@pytest.mark.parametrize("n_classes", [33, 34, 64, 65, 128, 129, 256, 257])
def test_n_candidates_counts_the_candidates_of_a_case(n_classes):
    far = np.random.default_rng(0).normal(size=(5, n_classes, 1))
    few = likeliest(far, np.arange(5) % n_classes, far[:, :, 0])
    assert few.features.shape[1] == log_linear.n_candidates(n_classes)
    assert np.exp(few.offsets).sum(axis=1) == pytest.approx(n_classes)


@given(data=labeled_rows(smallest=3), members=st.sampled_from([(1,), (1, 4), (2, 3)]))
@settings(max_examples=30)
def test_the_pool_equals_the_loop(data, members):
    X, y = data
    if np.bincount(y).max() == 1:
        return
    Q = queries_for(X)
    clf = NeighborClassifier(1, posterior=Pooled(members=members)).fit(X, y)
    weights, p = reference_fusion.pooled([X], y, [Q], members, largest=0.01)
    np.testing.assert_allclose(clf.posterior_._all_weights, weights, atol=2e-4)
    np.testing.assert_allclose(clf.predict_proba(Q), p, atol=1e-4)
    np.testing.assert_allclose(clf.predict_proba(Q).sum(axis=1), 1, atol=1e-12)


@given(data=labeled_rows(smallest=4), lacking=st.integers(0, 3))
@settings(max_examples=20)
def test_a_pool_of_two_groups_with_missing_rows_equals_the_loop(data, lacking):
    X, y = data
    if np.bincount(y).max() == 1:
        return
    X = np.hstack([X[:, :1], X[:, :1] ** 2 + X[:, -1:]])
    X[lacking, 1] = np.nan
    Q = queries_for(X)
    groups = {"one": slice(0, 1), "two": slice(1, 2)}
    fused = FusedClassifier(groups, NeighborClassifier(1, posterior="pooled")).fit(X, y)
    weights, p = reference_fusion.pooled([X[:, :1], X[:, 1:]], y, [Q[:, :1], Q[:, 1:]], (1, 4, 16, 64), largest=0.01)
    np.testing.assert_allclose(fused.posterior_.posteriors_[0]._all_weights, weights, atol=2e-4)
    np.testing.assert_allclose(fused.predict_proba(Q), p, atol=1e-4)


@pytest.mark.parametrize("p_true", [[0.9] * 40, [0.9] * 39 + [1e-9], [1e-12], [0.25, 0.25], [1.0] * 1000])
def test_the_share_spread_evenly_is_the_most_likely_one(p_true):
    expected = reference_fusion.most_likely_failure(p_true, n_classes=4)
    assert failure_share(np.array(p_true), 4) == pytest.approx(expected, rel=1e-4)


def test_rows_that_are_all_equal_get_even_odds_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = NeighborClassifier(2, posterior="pooled").fit(np.ones((6, 3)), [0, 1, 2, 0, 1, 2])
        np.testing.assert_allclose(clf.predict_proba(np.ones((2, 3))), 1 / 3, atol=1e-12)


def test_classes_of_one_row_are_said_and_answered_sensibly():
    X, y = [[0.0], [4.0], [9.0]], ["a", "b", "c"]
    with pytest.warns(UserWarning, match="Every class has one row"):
        clf = NeighborClassifier(1, posterior="pooled").fit(X, y)
    p = clf.predict_proba([[1.0]])[0]
    assert p[0] > p[1] > p[2] > 0


def test_a_class_of_one_row_can_still_win():
    X = np.concatenate([np.random.default_rng(0).normal(size=(20, 2)), [[9.0, 9.0]]])
    clf = NeighborClassifier(3, posterior="pooled").fit(X, [0, 1] * 10 + [2])
    assert clf.predict([[9.1, 9.0]]) == [2]


def test_members_that_a_class_could_not_fill_are_lowered():
    X = np.random.default_rng(0).normal(size=(12, 2))
    pool = NeighborClassifier(1, posterior=Pooled(members=(1, 8))).fit(X, np.arange(12) % 4).posterior_
    assert pool.members_.tolist() == [1, 2]


def test_a_thousand_classes_are_answered_from_the_nearest_of_them():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(300, 8)) * 4
    y = np.repeat(np.arange(300), 4)
    X = centers[y] + rng.normal(size=(1200, 8))
    clf = NeighborClassifier(5, posterior="pooled").fit(X, y)
    Q = centers + rng.normal(size=(300, 8))
    p = clf.predict_proba(Q)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert (p.argmax(axis=1) == np.arange(300)).mean() > 0.9
    assert np.log(p[np.arange(300), np.arange(300)]).mean() > -0.5
    parts = np.vstack([clf.predict_proba(Q[:7]), clf.predict_proba(Q[7:])])
    np.testing.assert_allclose(parts, p, rtol=1e-12)


def test_one_score_stands_for_all_classes_that_are_not_listed():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.repeat(np.arange(150), 3), [7, 7]])
    X = rng.integers(0, 4, size=(len(y), 3)).astype(float)
    labeled = NeighborIndex().fit(X).with_labels(y)
    labeled.lists_all = False
    pool = Pooled(members=(1, 2)).fit(labeled.leave_one_out(3, (1, 2)), y, 150)
    table = labeled.query(rng.integers(0, 4, size=(40, 3)) + 0.5, 3, (1, 2))
    assert table.classes.numbers.shape[1] < 150
    scores = -(pool._features([table], slice(None)) @ pool._all_weights)
    dense = softmax(scores, None, pool.model_failure_, 150)
    np.testing.assert_allclose(pool.proba(table), dense, rtol=1e-10)


def test_bad_members_and_tables_without_classes_are_said():
    with pytest.raises(InputError, match="whole numbers"):
        NeighborClassifier(1, posterior=Pooled(members=(0,))).fit([[0.0], [1.0]], [0, 1])
    plain: NeighborTable = NeighborIndex().fit([[0.0], [1.0]]).leave_one_out(1)
    with pytest.raises(InputError, match="with_labels"):
        Pooled().fit(plain, np.array([0, 1]), 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [900, 1500])  # fitted anew, and by one step
def test_weights_without_a_fold_are_those_that_the_other_cases_teach(n, weighted):
    random = np.random.default_rng(n)
    features = random.normal(size=(n, 4, 3))
    scores = -features @ [1.5, 0.5, -0.3]
    truth = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    worth = random.integers(1, 4, n).astype(float) if weighted else None
    cases = Cases(features, np.zeros((n, 4)), truth, worth)
    center, precision = np.array([1.0, 0.0, 0.0]), np.array([3.0, 1.0, 1.0])
    weights, _ = fit_weights(cases, center, precision)
    taught = [np.arange(n) % 5 != fold for fold in range(5)]
    fits = fits_of_some(cases, [*taught, np.zeros(n, np.bool_)], weights, lambda some: center, lambda n: precision)
    for is_taught, fit in zip(taught, fits, strict=False):
        others = cases[np.flatnonzero(is_taught)]
        expected, p_true = fit_weights(others, center, precision)
        curvature = np.diag(precision)
        add_cases(others, expected, np.empty(len(others)), np.zeros(3), curvature)
        errors = np.sqrt(np.diag(np.linalg.inv(curvature)))
        assert (np.abs(fit.weights - expected) < 0.05 * errors).all()
        assert (np.abs(fit.weights - weights) > 0.05 * errors).any()  # the fold is missed
        np.testing.assert_allclose(fit.curvature, curvature, rtol=0.05, atol=0.02 * curvature.max())
        np.testing.assert_allclose(fit.p_true, p_true, atol=0.06)
        np.testing.assert_array_equal(fit.worth, others.worth)
    assert next(fits) is None
