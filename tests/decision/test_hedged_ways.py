"""A hedge takes the way that says the most at the accuracy asked for: of the rules, and of the posteriors left open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

from nearsay.decision.calibration import calibrate
from nearsay.decision.confidence_bound import right_answers_needed
from nearsay.decision.conformal import ConformalClassifier
from nearsay.decision.envelope import AccuracyCurve, accuracy_curve, operating_points
from nearsay.decision.fold_models import FoldModels
from nearsay.decision.guarantee import most_specific, setting_for
from nearsay.decision.hedged import RULES_TO_TRY, HedgedClassifier
from nearsay.posterior import Proportional
from nearsay.posterior.classifier import NeighborClassifier
from reproduce.promises.worlds import kinds_and_breeds
from tests.decision.samples import ACCURACIES, PETS, Sayer, hard_and_easy, pets, validation_rows, votes
from tests.reference.decision import hedging as reference
from tests.saving import saved_and_opened

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PLANE = kinds_and_breeds()
TREE = PLANE.taxonomy
VOTES = votes(9)


def said(hedged: HedgedClassifier) -> float:
    """The gain of the calibration rows at the setting in use."""
    curve = hedged.curve()
    return 0.0 if hedged.setting_ == np.inf else float(curve.gain[curve.place(hedged.setting_)])


# ---------------------------------------------------------------- rules


@settings(max_examples=40)
@given(rows=validation_rows(), accuracy=ACCURACIES)
def test_no_setting_of_either_rule_keeps_the_accuracy_and_says_more(rows, accuracy):
    taxonomy, p, labels, names = rows
    hedged = HedgedClassifier(Sayer(taxonomy.leaves), taxonomy, accuracy, cv="prefit").fit(p, names)
    expected = reference.most_said(p.tolist(), labels, taxonomy.parents, RULES_TO_TRY, accuracy)
    assert said(hedged) == pytest.approx(expected, abs=1e-6)
    right = taxonomy.covers_label(taxonomy.check_labels(hedged.predict(p).tolist()), np.array(labels))
    assert reference.keeps(int(right.sum()), len(p), accuracy, None)
    assert taxonomy.information[taxonomy.check_labels(hedged.predict(p).tolist())] @ right == pytest.approx(
        expected * len(p), abs=1e-6
    )


@pytest.mark.parametrize("rule", RULES_TO_TRY)
def test_a_rule_that_is_asked_for_is_used(rule):
    hedged = HedgedClassifier(VOTES, PETS, 0.9, rule=rule).fit(*pets(200))
    assert hedged.rule_ == rule
    both = HedgedClassifier(VOTES, PETS, 0.9).fit(*pets(200))
    assert said(both) >= said(hedged)


def test_one_rule_serves_all_branches_and_says_the_most_over_all_rows():
    X, y = hard_and_easy(600, seed=0)
    how = {"cv": "prefit", "branches": ["dog", "cat"]}
    gains = {}
    for rule in ("auto", *RULES_TO_TRY):
        hedged = HedgedClassifier(Sayer(PETS.leaves), PETS, 0.8, rule=rule, **how).fit(X, y)
        nodes = PETS.check_labels(hedged.predict(X).tolist())
        gains[rule] = PETS.information[nodes] @ PETS.covers_label(nodes, PETS.check_labels(y))
    assert gains["auto"] == pytest.approx(max(gains[rule] for rule in RULES_TO_TRY))


# ---------------------------------------------------------------- what a choice costs


@given(st.integers(1, 6), st.sampled_from([0.5, 0.8, 0.95]), st.sampled_from([0.6, 0.9, 0.95]))
def test_each_of_several_ways_is_held_to_a_higher_confidence(n_ways, accuracy, confidence):
    n_right = np.arange(150, 201)
    curve = AccuracyCurve("darts", np.arange(51.0), n_right, 2 - n_right / 200, 200, 2.0)
    _, (setting,) = most_specific([{0: curve}] * n_ways, accuracy, confidence)
    alone = setting_for(curve, accuracy, 1 - (1 - confidence) / n_ways, "fixed-sequence")
    assert setting == alone >= setting_for(curve, accuracy, confidence, "fixed-sequence")


def test_with_a_confidence_nothing_behind_a_failure_is_taken_however_much_it_says():
    needed = right_answers_needed(100, 0.8, 0.95)
    n_right = np.array([needed, needed - 1, needed, 100])
    curve = AccuracyCurve("darts", np.arange(4.0), n_right, np.array([2.0, 1.5, 1.0, 0.5]), 100, 2.0)
    assert most_specific([{0: curve}], 0.8, 0.95) == (0, [2.0])
    assert most_specific([{0: curve}], needed / 100) == (0, [0.0])


@pytest.mark.slow
def test_the_better_of_twenty_equally_bad_ways_keeps_its_promise():
    """Each is right half the time; chosen freely, the luckiest of them would be certified far too often."""
    random = np.random.default_rng(0)
    broken = {"paid": 0, "unpaid": 0}
    for _ in range(400):
        curves = [
            AccuracyCurve("darts", np.array([0.0, 1.0]), np.array([random.binomial(200, 0.5), 200]), gain, 200, 2.0)
            for gain in np.column_stack([random.uniform(1, 2, 20), np.zeros(20)])
        ]
        _, (setting,) = most_specific([{0: curve} for curve in curves], 0.5, 0.9)
        broken["paid"] += setting == 0
        broken["unpaid"] += any(most_specific([{0: curve}], 0.5, 0.9)[1][0] == 0 for curve in curves)
    assert broken["paid"] / 400 <= 0.1 + 3 * np.sqrt(0.09 / 400)
    assert broken["unpaid"] / 400 > 0.5


# ---------------------------------------------------------------- posteriors left open


@pytest.mark.slow
def test_neighbors_left_open_answer_by_the_posterior_that_says_most_at_the_accuracy_asked():
    X, y = PLANE.draw_alone(np.random.default_rng(0), 150)[:2]
    hedged = HedgedClassifier(NeighborClassifier(5, posterior="auto"), TREE, 0.8).fit(X, y)
    offered = {id(way.estimator): way.estimator for way in hedged._ways}
    assert len(offered) > 1
    curves = [
        accuracy_curve(operating_points(estimator.leave_one_out_proba(), TREE, rule), y, TREE)
        for estimator in offered.values()
        for rule in RULES_TO_TRY
    ]
    for accuracy in (0.7, 0.8, 0.95):
        hedged.set_accuracy(accuracy)
        assert said(hedged) == pytest.approx(max(curve.gain[curve.accuracy >= accuracy].max() for curve in curves))
        assert hedged.predict_proba(X[:5]).tolist() == hedged.estimator_.predict_proba(X[:5]).tolist()


def test_a_posterior_that_was_named_is_the_only_one():
    hedged = HedgedClassifier(VOTES, PETS, 0.9).fit(*pets(100))
    assert [way.estimator for way in hedged._ways] == [hedged.estimator_] * len(RULES_TO_TRY)


@pytest.mark.parametrize("cv", ["split", 3])
def test_where_rows_are_held_out_the_posterior_stays_what_was_chosen(cv):
    X, y = PLANE.draw_alone(np.random.default_rng(0), 120)[:2]
    hedged = HedgedClassifier(NeighborClassifier(5, posterior="auto"), TREE, 0.8, cv=cv).fit(X, y)
    assert len({id(way.estimator) for way in hedged._ways}) == 1


# ---------------------------------------------------------------- folds


@pytest.mark.parametrize("cv", [2, 5, KFold(3), ShuffleSplit(4, random_state=0)])
def test_the_models_that_judged_answer_together(cv):
    X, y = pets(120)
    found = calibrate(LogisticRegression(), X, y, cv)
    models = found.estimator.estimators_
    assert len(models) == (cv if isinstance(cv, int) else cv.get_n_splits())
    Q, _ = pets(30, seed=1)
    together = np.mean([model.predict_proba(Q) for model in models], axis=0)
    np.testing.assert_allclose(found.estimator.predict_proba(Q), together)
    assert found.estimator.predict(Q).tolist() == found.estimator.classes_[together.argmax(axis=1)].tolist()


def test_to_a_model_that_has_not_seen_a_class_it_has_probability_0():
    X, y = [[0.0], [0.1], [1.0], [1.1], [5.0]], ["a", "a", "b", "b", "c"]
    model = calibrate(NeighborClassifier(1, posterior=Proportional(model_failure=0.0)), X, y, LeaveOneOut()).estimator
    assert isinstance(model, FoldModels)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict_proba([[5.0], [0.0]]), [[0, 0.2, 0.8], [1, 0, 0]])
    assert model.predict([[5.0], [0.0]]).tolist() == ["c", "a"]
    never_seen = calibrate(votes(1), X, y, [([0, 1, 2, 3], [4])]).estimator
    assert never_seen.predict_proba([[5.0]])[0, 2] == 0


def crowded(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Kinds and breeds with thirty columns of noise, so that a model of few rows is too sure of itself."""
    X, y, _ = PLANE.draw_alone(random, n)
    return np.hstack([X, random.normal(size=(n, 30))]), y


@pytest.mark.slow
def test_around_a_linear_model_the_accuracy_asked_for_is_the_accuracy_got():
    random = np.random.default_rng(0)
    got = {"folds": [], "fitted on all": []}
    repetitions = 12
    for _ in range(repetitions):
        (X, y), (Q, truth) = crowded(random, 200), crowded(random, 1000)
        model = LogisticRegression(C=10.0, max_iter=200)
        hedged = HedgedClassifier(model, TREE, 0.9, rule="darts", cv=5).fit(X, y)
        got["folds"].append(hedged.score(Q, truth))
        hedged.estimator_ = model.fit(X, y)
        got["fitted on all"].append(hedged.score(Q, truth))
    assert np.mean(got["folds"]) >= 0.9 - 3 * np.std(got["folds"]) / np.sqrt(repetitions)
    assert np.mean(got["fitted on all"]) < np.mean(got["folds"])


def test_prediction_sets_around_folds_are_of_the_same_models():
    X, y = pets(120)
    sets = ConformalClassifier(LogisticRegression(), 0.9, cv=3).fit(X, y)
    assert isinstance(sets.estimator_, FoldModels)
    assert sets.n_features_in_ == 1
    assert sets.predict_set(X).any(axis=1).mean() > 0.8


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("estimator", [VOTES, LogisticRegression()])
def test_all_ways_are_saved(estimator):
    hedged = HedgedClassifier(estimator, PETS, 0.8, cv=3).fit(*pets(90))
    again = saved_and_opened(hedged)
    X, _ = pets(20, seed=1)
    for accuracy in (0.6, 0.95):
        assert again.set_accuracy(accuracy).predict(X).tolist() == hedged.set_accuracy(accuracy).predict(X).tolist()
        assert again.explain(X)[0].to_dict() == hedged.explain(X)[0].to_dict()
