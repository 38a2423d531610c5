"""What was chosen on some rows is judged on others, so that leave-one-out says what fresh rows will find."""

from __future__ import annotations

import numpy as np
import pytest

from nearsay.posterior.choice.k_curve import curves_of
from nearsay.posterior.choice.model_fit import FitOptions
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.records import range_in_words, record_of
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.nested import NESTED_BELOW, NESTED_BELOW_OF_MANY, NESTED_FOLDS, thirds


def noise(n: int, seed: int, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Labels that rows say nothing about, as many of each."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)), rng.permutation(np.arange(n) % n_classes)


@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.slow), {"posterior": "proportional"}])
def test_the_best_of_many_ways_says_no_more_than_chance_about_noise(options):
    said = []
    for seed in range(8):
        X, y = noise(201, seed)
        clf = NeighborClassifier(**options).fit(X, y)
        said.append((clf.leave_one_out_proba().argmax(axis=1) == y).mean())
    # Two standard errors of 1,608 answers: 0.024. Judged by the cases that chose, they say 0.37 to 0.41.
    assert np.mean(said) < 1 / 3 + 0.024


def test_records_tell_of_the_same_answers_as_leave_one_out():
    X, y = noise(90, 0)
    clf = NeighborClassifier().fit(X, y)
    p = clf.leave_one_out_proba()
    clf.explain(X[:1])
    assert len(clf.model_.records) == 90
    right = (p.argmax(axis=1) == y).sum()
    assert clf.model_.records.sums[2, -1] == right


def test_every_row_is_answered_once_by_settings_that_other_rows_chose():
    X, y = noise(60, 1)
    y[7] = 3  # alone in its class
    nested = NeighborClassifier().fit(X, y).model_.nested
    answered = [rows for rows, _ in nested.answers]
    assert len(answered) == NESTED_FOLDS
    assert sorted(np.concatenate(answered)) == [row for row in range(60) if row != 7]
    for rows, (taught, judged) in zip(answered, thirds(nested.order, y), strict=True):
        np.testing.assert_array_equal(rows, judged)
        assert not np.isin(rows, taught).any()
        assert 7 in taught


@pytest.mark.slow
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_what_was_learned_from_some_rows_is_asked_about_all_but_the_row_itself(posterior):
    X, y = noise(80, 2)
    clf = NeighborClassifier(5, posterior=posterior, metric="auto").fit(X, y)
    p = clf.leave_one_out_proba()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.leave_one_out_proba(), p)


@pytest.mark.slow
def test_groups_of_columns_are_judged_by_choices_made_without_the_case():
    said, fresh = [], []
    for seed in range(6):
        (X, y), (Q, wanted) = noise(100, seed), noise(600, 100 + seed)
        halves = {"first": slice(0, X.shape[1] // 2), "second": slice(X.shape[1] // 2, None)}
        # Many distances to choose from: judged by the cases that chose, it says 0.12 too much.
        fused = FusedClassifier(halves, NeighborClassifier(metric="auto", posterior="rank&votesplit")).fit(X, y)
        p = fused.leave_one_out_proba()
        np.testing.assert_allclose(p.sum(axis=1), 1)
        np.testing.assert_array_equal(fused.leave_one_out_proba(), p)
        said.append(np.mean(p.argmax(axis=1) == y))
        fresh.append(np.mean(fused.predict(Q) == wanted))
        assert fused.model_.records.like(np.array([p.max()]))[0] > 0
    assert np.mean(said) < np.mean(fresh) + 0.05


def test_many_rows_are_judged_by_what_they_chose_and_nothing_is_fitted_again(monkeypatch):
    X, y = noise(NESTED_BELOW, 3)
    clf = NeighborClassifier().fit(X, y)
    assert clf.model_.nested is None
    monkeypatch.setattr(FitOptions, "fit", None)
    clf.explain(X[:1])
    assert clf.leave_one_out_proba().shape == (NESTED_BELOW, 3)


@pytest.mark.parametrize("options", [{"metric": "auto"}, {"metric": "auto", "posterior": "proportional"}])
def test_where_more_is_tried_more_rows_are_judged_by_choices_made_without_them(options):
    assert NESTED_BELOW_OF_MANY > NESTED_BELOW
    X, y = noise(NESTED_BELOW, 3)
    assert NeighborClassifier(**options).fit(X, y).model_.nested is not None
    X, y = noise(NESTED_BELOW_OF_MANY, 3)
    assert NeighborClassifier(5, metric="auto", posterior="proportional").fit(X, y).model_.nested is None


def test_fused_groups_are_judged_by_choices_made_without_the_case_while_rows_are_few():
    X, y = noise(NESTED_BELOW, 3)
    fused = FusedClassifier({"first": slice(0, 3), "second": slice(3, None)}, NeighborClassifier(5)).fit(X, y)
    assert fused.model_.nested is not None


def test_a_k_is_the_best_by_the_cases_of_other_folds():
    X, y = noise(80, 4)
    clf = NeighborClassifier(posterior="proportional").fit(X, y)
    table, fold, rows = clf.model_.views.leave_one_out(30), np.arange(80) % 4, np.arange(80)
    whole, best = curves_of([(rows, table)], y, 3, 30, fold)
    np.testing.assert_array_equal(whole.k, np.arange(1, 31))
    for number in range(4):
        others = np.flatnonzero(fold != number)
        alone, _ = curves_of([(others, table[others])], y, 3, 30, np.zeros(80, np.int64))
        assert best[number] == alone.best


def test_a_few_right_answers_are_no_certainty():
    assert record_of(8, 8)["low"] < 0.7
    assert record_of(800, 800)["low"] > 0.99
    assert range_in_words(0, 0) == "0 to 100%"
    found = NeighborClassifier(posterior="proportional").fit([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]], list("aaabbb"))
    one = found.explain([[0.05]])[0]
    assert one.to_dict()["record"]["low"] < 0.7
    assert range_in_words(one.record["cases"], one.record["right"]) in one.text
