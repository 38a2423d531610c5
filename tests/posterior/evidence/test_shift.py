"""Queries unlike the collection: the false-alarm rate, the power, class shares, and a promise that is renewed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import nearsay as ns
from nearsay.posterior.class_shares import estimated_shares
from nearsay.posterior.evidence.records import Records
from nearsay.posterior.evidence.shift import drift_test, shift_test


def test_the_test_is_that_of_mann_and_whitney():
    rng = np.random.default_rng(0)
    for n, m in [(50, 10), (400, 50), (30, 200)]:
        past, new = rng.normal(size=n), rng.normal(0.3, size=m)
        novelty = (past < new[:, None]).mean(axis=1)
        expected = mannwhitneyu(new, past, alternative="greater", method="asymptotic", use_continuity=False)
        assert shift_test(novelty, n).p_value == pytest.approx(expected.pvalue)


@pytest.mark.parametrize(("n_past", "n_queries"), [(100, 20), (1000, 50), (100, 200)])
def test_alarms_are_as_frequent_as_stated(n_past, n_queries):
    rng, repetitions = np.random.default_rng(1), 8000
    past = np.sort(rng.random((repetitions, n_past)), axis=1)
    ranks = np.array([np.searchsorted(row, rng.random(n_queries)).mean() / n_past for row in past])
    alarms = np.mean([shift_test([rank] * n_queries, n_past).unlike for rank in ranks])
    assert 0.005 <= alarms <= 0.015


@pytest.mark.slow
@pytest.mark.parametrize(("sure", "too_sure"), [(4, 0.0), (4, 0.05), (20, 0.0)])
def test_answers_as_right_as_past_cases_are_called_drifted_as_seldom_as_stated(sure, too_sure):
    """Also where past cases were less right than their probabilities: what is new is what counts."""
    rng = np.random.default_rng(0)
    p, often = rng.beta(sure, 1.5, size=(2000, 150)), 0
    right = rng.random(p.shape) < p - too_sure
    for sureness, was_right in zip(p, right, strict=True):
        often += drift_test(sureness[100:], was_right[100:], Records.of(sureness[:100], was_right[:100])).drifted
    assert 0.005 <= often / len(p) <= 0.015


def test_answers_that_are_often_wrong_are_noticed():
    rng = np.random.default_rng(0)
    p = rng.beta(4, 1.5, size=400)
    past = Records.of(p, rng.random(400) < p)
    assert not drift_test(p[:50], np.arange(50) < 50, past).drifted
    found = drift_test(p[:50], rng.random(50) < p[:50] - 0.35, past)
    assert found.drifted
    assert found.expected == pytest.approx(p[:50].sum(), abs=3)


def four_classes(rng: np.random.Generator, n: int, shares: list[float] | None = None) -> tuple[np.ndarray, np.ndarray]:
    y = rng.choice(4, n, p=shares)
    return rng.normal(size=(n, 5)) + 2 * np.eye(5)[y], y


def test_a_batch_of_strangers_is_noticed_and_one_like_the_rows_is_not():
    rng = np.random.default_rng(2)
    X, y = four_classes(rng, 400)
    clf = ns.NeighborClassifier(10, posterior="weighted").fit(X, y)
    batches = [clf.shift(four_classes(rng, 50)[0]) for _ in range(40)]
    assert sum(batch.unlike for batch in batches) <= 3
    strangers = [clf.shift(rng.normal(size=(50, 5)) + 4 * np.eye(5)[4]) for _ in range(40)]
    assert all(batch.unlike for batch in strangers)
    assert str(strangers[0]).startswith("These 50 queries are unlike the collection (mean novelty 0.9")
    with pytest.raises(ns.InputError, match="rate must be"):
        clf.shift(X[:5], rate=2)
    with pytest.raises(ns.InputError, match="at least one query"):
        shift_test([], 10)


def test_class_shares_are_those_of_largest_likelihood():
    rng = np.random.default_rng(3)
    p, known = rng.dirichlet([1, 1], 60), np.array([0.7, 0.3])
    estimated = estimated_shares(p, known, np.array(["a", "b"]))
    grid = np.linspace(0.0005, 0.9995, 2000)
    likelihood = [np.log(p @ (np.array([share, 1 - share]) / known)).sum() for share in grid]
    assert estimated.shares[0] == pytest.approx(grid[int(np.argmax(likelihood))], abs=1e-3)
    assert estimated.shares.sum() == pytest.approx(1)


def test_shifted_class_shares_are_estimated_and_improve_the_answers():
    rng = np.random.default_rng(4)
    X, y = four_classes(rng, 600)
    Q, truth = four_classes(rng, 400, [0.85, 0.05, 0.05, 0.05])
    clf = ns.NeighborClassifier(20, posterior="pooled").fit(X, y)
    estimated = clf.estimate_priors(Q)
    assert estimated.shares == pytest.approx([0.85, 0.05, 0.05, 0.05], abs=0.06)
    assert estimated.p_value < 1e-6
    assert clf.estimate_priors(four_classes(rng, 400)[0]).p_value > 0.001
    adapted = ns.NeighborClassifier(20, posterior="pooled", priors=estimated.priors).fit(X, y)
    loss = [-np.log(model.predict_proba(Q)[np.arange(400), truth]).mean() for model in (clf, adapted)]
    assert loss[1] < loss[0] - 0.02
    assert adapted.estimate_priors(Q).shares == pytest.approx(estimated.shares, abs=0.03)


def test_fresh_labels_renew_a_promise():
    rng = np.random.default_rng(5)
    X, y = four_classes(rng, 600)
    names = np.array(["corgi", "poodle", "tabby", "Siamese"])
    tree = ns.Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": ["tabby", "Siamese"]}})
    hedged = ns.HedgedClassifier(ns.NeighborClassifier(15, posterior="weighted"), tree, 0.9).fit(X, names[y])

    def blurred(n: int) -> tuple[np.ndarray, np.ndarray]:
        rows, labels = four_classes(rng, n)
        return rows + rng.normal(size=rows.shape), names[labels]

    new = blurred(2000)
    before = hedged.score(*new)
    assert hedged.recalibrate(*blurred(400)) is hedged
    assert hedged.n_calibration_ == 400
    margin = 3 * math.sqrt(0.9 * 0.1 * (1 / 400 + 1 / 2000))
    assert before < 0.9 - margin
    assert abs(hedged.score(*new) - 0.9) < margin
    assert hedged.set_accuracy(0.5).score(*new) < 0.8
