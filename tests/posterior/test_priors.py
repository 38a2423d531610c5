"""Priors: classes as frequent as they will be among the queries, whatever they are among the training rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone

import nearsay as ns
from nearsay.errors import InputError
from nearsay.metrics.probability import mean_log_posterior
from tests.labeled import labeled_rows, queries_for
from tests.saving import saved_and_opened

GROUPS = {"first": slice(0, 1), "last": slice(1, 2)}


def exchanged(p: np.ndarray, y: np.ndarray, priors: list[float], times: int = 1) -> np.ndarray:
    """By loops: each class times its prior, divided by its share of the labels as often as that is in it."""
    out = np.empty_like(p)
    for i, row in enumerate(p):
        odds = [row[c] * priors[c] / (sum(y == c) / len(y)) ** times for c in range(len(row))]
        out[i] = [each / sum(odds) for each in odds]
    return out


@pytest.mark.parametrize("posterior", ["proportional", "rank&votesplit", "confmat", "pooled", "weighted"])
@settings(max_examples=30)
@given(data=labeled_rows(smallest=3), k=st.integers(1, 5), numbers=st.lists(st.integers(1, 9), min_size=4, max_size=4))
@pytest.mark.filterwarnings("ignore:Every class has one row")
def test_frequencies_are_divided_out_and_priors_put_in(posterior, data, k, numbers):
    X, y = data
    k, n_classes = min(k, len(X)), int(y.max()) + 1
    Q, priors = queries_for(X), [float(number) for number in numbers[:n_classes]]
    plain = ns.NeighborClassifier(k, posterior=posterior).fit(X, y)
    given_priors = ns.NeighborClassifier(k, posterior=posterior, priors=priors).fit(X, y)
    expected = exchanged(plain.predict_proba(Q), y, priors)
    found = given_priors.predict_proba(Q)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_array_equal(found.argmax(axis=1), given_priors.predict(Q))
    left_out = exchanged(plain.leave_one_out_proba(), y, priors)
    np.testing.assert_allclose(given_priors.leave_one_out_proba(), left_out, atol=1e-9)


@pytest.mark.parametrize(("posterior", "times"), [("proportional", 2), ("rank", 2), ("pooled", 1)])
def test_every_group_of_a_product_brings_the_frequencies_with_it_and_a_pool_holds_them_once(posterior, times):
    X, y, _ = two_groups(400, 0.1, seed=1)
    plain = ns.FusedClassifier(GROUPS, ns.NeighborClassifier(7, posterior=posterior)).fit(X, y)
    even = clone(plain).set_params(estimator__priors="uniform").fit(X, y)
    Q = two_groups(30, 0.5, seed=2)[0]
    np.testing.assert_allclose(even.predict_proba(Q), exchanged(plain.predict_proba(Q), y, [1, 1], times), atol=1e-9)
    Q[:, 1] = np.nan  # one of two groups is left
    np.testing.assert_allclose(even.predict_proba(Q), exchanged(plain.predict_proba(Q), y, [1, 1], 1), atol=1e-9)


@pytest.mark.parametrize("posterior", ["proportional", "rank", "pooled"])
def test_a_query_without_any_group_gets_the_priors(posterior):
    X, y, _ = two_groups(200, 0.1, seed=1)
    fused = ns.FusedClassifier(GROUPS, ns.NeighborClassifier(7, posterior=posterior, priors=[3, 1])).fit(X, y)
    np.testing.assert_allclose(fused.predict_proba([[np.nan, np.nan]]), [[0.75, 0.25]], atol=1e-12)


def two_groups(n: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of two columns, independent given the class; labels; and the log likelihood of both classes."""
    random = np.random.default_rng(seed)
    y = (random.random(n) < share).astype(int)
    X = random.normal(size=(n, 2)) + 1.5 * y[:, None]
    likelihood = np.stack([norm.logpdf(X - 1.5 * c).sum(axis=1) for c in (0, 1)], axis=1)
    return X, y, likelihood


WAYS: dict[str, Any] = {
    "votes": lambda priors: ns.NeighborClassifier(50, posterior="proportional", priors=priors),
    "pooled": lambda priors: ns.NeighborClassifier(5, posterior="pooled", priors=priors),
    "rank&votesplit": lambda priors: ns.NeighborClassifier(30, posterior="rank&votesplit", priors=priors),
    "fused votes": lambda priors: ns.FusedClassifier(
        GROUPS, ns.NeighborClassifier(50, posterior="proportional", priors=priors)
    ),
    "fused pool": lambda priors: ns.FusedClassifier(
        GROUPS, ns.NeighborClassifier(5, posterior="pooled", priors=priors)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_learned_where_one_in_twenty_is_rare_and_asked_where_half_are_it_is_nearly_as_good_as_can_be(way):
    X, y, _ = two_groups(3000, 0.05, seed=3)
    Q, truth, likelihood = two_groups(1500, 0.5, seed=4)
    best = np.exp(likelihood - np.logaddexp.reduce(likelihood, axis=1, keepdims=True))
    ideal, lost = mean_log_posterior(best, truth), {}
    for priors in (None, "uniform"):
        lost[priors] = ideal - mean_log_posterior(WAYS[way](priors).fit(X, y).predict_proba(Q), truth)
    assert lost["uniform"] < 0.5 * lost[None]
    assert lost["uniform"] < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("way", ["votes", "pooled", "fused pool"])
def test_with_priors_records_count_past_cases_as_often_as_queries_come(way):
    X, y, _ = two_groups(2500, 0.1, seed=5)  # all of them are asked
    Q, truth, _ = two_groups(2000, 0.5, seed=6)
    found = WAYS[way]("uniform").fit(X, y).explain(Q)
    right = found.predictions == truth
    share = np.array([one.record["right"] / max(one.record["cases"], 1) for one in found])
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.0)):
        here = np.array([low <= one.probability < high for one in found])
        assert here.sum() > 100
        assert abs(right[here].mean() - share[here].mean()) < 0.06


def test_priors_are_taken_by_name_by_order_and_by_word_and_only_their_ratios_count():
    X, y, _ = two_groups(300, 0.2, seed=7)
    names = np.array(["often", "rarely"])[y]
    single = partial(ns.NeighborClassifier, 5, posterior="pooled")
    fused = lambda **given: ns.FusedClassifier(GROUPS, single(**given))  # noqa: E731
    for make in (single, fused):
        same = [{"often": 1, "rarely": 1}, [5, 5], (0.5, 0.5), np.array([2.0, 2.0]), "uniform"]
        answers = [make(priors=priors).fit(X, names).predict_proba(X[:20]) for priors in same]
        for each in answers[1:]:
            np.testing.assert_allclose(each, answers[0], atol=1e-12)


def test_the_frequencies_of_training_as_priors_change_nothing():
    X, y, _ = two_groups(300, 0.2, seed=7)
    plain = ns.NeighborClassifier(5, posterior="proportional").fit(X, y)
    same = ns.NeighborClassifier(5, posterior="proportional", priors=np.bincount(y)).fit(X, y)
    np.testing.assert_allclose(same.predict_proba(X), plain.predict_proba(X), atol=1e-12)


def test_a_class_without_any_probability_stays_without():
    clf = ns.NeighborClassifier(1, posterior=ns.posterior.Proportional(model_failure=0.0), priors=[1, 1e6])
    np.testing.assert_array_equal(clf.fit([[0.0], [9.0]], ["a", "b"]).predict_proba([[1.0]]), [[1.0, 0.0]])


def test_a_hundred_groups_with_a_rare_class_do_not_overflow():
    random = np.random.default_rng(0)
    y = (np.arange(2000) == 7).astype(int) + 2 * (np.arange(2000) % 2)
    groups = {f"g{i}": slice(i, i + 1) for i in range(100)}
    X = random.normal(size=(2000, 100))
    fused = ns.FusedClassifier(groups, ns.NeighborClassifier(3, posterior="proportional", priors="uniform")).fit(X, y)
    p = fused.predict_proba(X[:20])
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("priors", "words"),
    [
        ([1.0, 2.0], "each of the 3 classes"),
        ([1.0, 0.0, 2.0], "above 0"),
        ([1.0, np.nan, 2.0], "above 0"),
        ({"a": 1.0}, r"every class once: \['a', 'b', 'c'\]; got \['a'\]"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "every class"),
        ({"a": 1, "b": "much", "c": 1}, "number above 0"),
        ("even", "\"uniform\"\\); got 'even'"),
        (5, "each of the 3 classes"),
    ],
)
def test_priors_that_cannot_be_are_refused_in_words(priors, words):
    X, y = [[0.0], [1.0], [2.0]], ["a", "b", "c"]
    neighbors = ns.NeighborClassifier(2, posterior="proportional", priors=priors)
    for estimator in (neighbors, ns.FusedClassifier(estimator=neighbors)):
        with pytest.raises(InputError, match=words):
            estimator.fit(X * 4, y * 4)


def test_saved_priors_are_kept():
    X, y, _ = two_groups(300, 0.2, seed=7)
    for way in WAYS.values():
        clf = way({0: 1, 1: 2}).fit(X, y)
        np.testing.assert_array_equal(saved_and_opened(clf).predict_proba(X), clf.predict_proba(X))
