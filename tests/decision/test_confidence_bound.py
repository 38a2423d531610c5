"""Answers that depend on each other count as fewer: of left-out rows, of groups, and of ways to choose from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

from nearsay.decision.calibration import calibrate
from nearsay.decision.confidence_bound import (
    LEFT_OUT_EXCESS,
    WRONG_IN_WHOLE_GROUPS,
    design_effect,
    effective_ways,
    right_answers_needed,
    rows_worth_one,
)
from nearsay.decision.conformal import ConformalClassifier
from nearsay.decision.envelope import accuracy_curve, operating_points
from nearsay.decision.guarantee import boldest_settings, most_specific
from nearsay.decision.hedged import HedgedClassifier
from nearsay.decision.rules import RULES
from nearsay.errors import InputError
from reproduce.promises.worlds import videos, writers
from tests.decision.samples import PETS, Sayer, hard_and_easy, pets, validation_rows, votes
from tests.reference.decision import hedging as reference
from tests.saving import saved_and_opened

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

VOTES = votes(5)


# ---------------------------------------------------------------- the bound


@settings(max_examples=30)
@given(n=st.integers(1, 40), accuracy=st.sampled_from([0.3, 0.5, 0.8, 0.95]), confidence=st.sampled_from([0.6, 0.9]))
def test_independent_answers_are_enough_where_the_exact_binomial_tail_is_small(n, accuracy, confidence):
    enough = [reference.tail(right, n, accuracy) < 1 - confidence for right in range(n + 1)]
    assert right_answers_needed(n, accuracy, confidence) == (enough.index(True) if any(enough) else n + 1)


@settings(max_examples=15)
@given(
    n=st.integers(5, 60),
    accuracy=st.sampled_from([0.5, 0.8, 0.9]),
    worth=st.sampled_from([1.0, 1.25, 1.5, 2.0]),
    data=st.data(),
)
def test_correlated_answers_are_enough_where_the_tail_of_their_wider_distribution_is_small(n, accuracy, worth, data):
    right = data.draw(st.integers(1, n - 1))
    tail = reference.tail_of_correlated(right, n, accuracy, worth)
    assume(abs(tail - 0.1) > 0.005)  # the sum of small steps is not exact
    assert (right_answers_needed(n, accuracy, 0.9, rows_worth_one=worth) <= right) == (tail < 0.1)


@given(st.integers(10, 400), st.sampled_from([0.5, 0.8, 0.95]), st.floats(1, 3), st.floats(0, 2))
def test_the_more_answers_are_worth_one_the_more_must_be_right(n, accuracy, worth, more):
    few = right_answers_needed(n, accuracy, 0.9, rows_worth_one=worth)
    assert right_answers_needed(n, accuracy, 0.9) <= few
    assert few <= right_answers_needed(n, accuracy, 0.9, rows_worth_one=worth + more)


@settings(max_examples=40)
@given(
    case=validation_rows(votes=[8]),  # where a sum is rounded, one row more may be right, and all be allowed
    rule=st.sampled_from(["darts", "fixed-threshold"]),
    accuracy=st.sampled_from([0.3, 0.5]),
)
def test_from_safe_to_bold_the_most_is_said_before_the_first_failure(case, rule, accuracy):
    taxonomy, p, labels, names = case
    curve = accuracy_curve(operating_points(p, taxonomy, rule), names, taxonomy)
    _, (setting,) = most_specific([{0: curve}], accuracy, 0.6)
    gain = 0.0 if setting == np.inf else curve.gain[curve.place(setting)]
    expected = reference.promised_gain(p.tolist(), labels, taxonomy.parents, rule, accuracy, 0.6)
    assert gain >= expected - 1e-6  # where rows are undecided, rounding sends one this way and another that way
    assert reference.keeps(int(curve.n_right[curve.place(setting)]), len(p), accuracy, 0.6) or setting == np.inf


def test_left_out_answers_count_as_fewer_where_more_of_them_may_be_wrong():
    worth = [rows_worth_one(accuracy, LEFT_OUT_EXCESS) for accuracy in np.linspace(0, 1, 21)]
    assert worth == sorted(worth, reverse=True)
    assert (worth[0], worth[-1]) == (1 + LEFT_OUT_EXCESS, 1.0)
    assert [rows_worth_one(0.8, excess) for excess in (0.0, -3.0, np.nan)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("cv", "excess"), [(None, LEFT_OUT_EXCESS), (3, LEFT_OUT_EXCESS), ("split", 0)])
def test_held_out_answers_count_in_full(cv, excess):
    assert calibrate(VOTES, *pets(60), cv).excess == excess


def test_an_accuracy_of_95_percent_is_shown_by_100_left_out_rows():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 100)
    X = 8.0 * y[:, None] + random.normal(size=(100, 2))
    hedged = HedgedClassifier(VOTES, None, 0.95, confidence=0.9).fit(X, y)
    assert (hedged.predict(X) == y).all()


# ---------------------------------------------------------------- groups


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=30))
def test_a_design_effect_is_that_of_all_pairs_within_a_group(rows):
    wrong, given_groups = (np.array(part) for part in zip(*rows, strict=True))
    groups = np.unique(given_groups, return_inverse=True)[1]
    expected = reference.design_effect(wrong.tolist(), groups.tolist(), WRONG_IN_WHOLE_GROUPS)
    assert design_effect(wrong, groups) == pytest.approx(expected)


def test_rows_that_are_wrong_together_count_as_one_and_a_sample_of_rows_shows_how_many_do():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(4000), 5)
    together = random.random(4000)[groups] < 0.1
    assert design_effect(together, groups) == pytest.approx(5, rel=0.01)
    assert design_effect(random.random(20_000) < 0.1, groups) < 1.1
    some = random.permutation(20_000)[:10_000]
    of_some = np.unique(groups[some], return_inverse=True)[1]
    assert design_effect(together[some], of_some, 20_000) == pytest.approx(5, rel=0.1)


def test_the_promise_to_grouped_rows_is_more_careful_and_none_is_judged_by_its_group():
    random, world = np.random.default_rng(1), videos()
    (X, y, groups), (Q, truth, _) = world.draw(random, 300), world.draw_alone(random, 500)
    blind, grouped = (HedgedClassifier(VOTES, world.taxonomy, 0.9, confidence=0.9) for _ in range(2))
    blind.fit(X, y)
    assert grouped.fit(X, y, groups=groups).score(Q, truth) > blind.score(Q, truth)


def test_an_estimator_that_takes_no_groups_is_judged_on_folds_of_whole_groups():
    X, y, groups = videos().draw(np.random.default_rng(1), 300)
    calibration = calibrate(KNeighborsClassifier(5), X, y, GroupKFold(5), groups=groups)
    for model, rows in zip(calibration.estimator.estimators_, calibration.estimator.fitted_on_, strict=True):
        assert model.n_features_in_ == 5
        assert not set(groups[rows]) & set(groups[np.setdiff1d(np.arange(300), rows)])


class Grouped(ClassifierMixin, BaseEstimator):
    """Remembers the groups it was given, and gives every class the same probability."""

    def fit(self, X, y, groups=None):
        self.groups_, self.classes_, self.n_ = groups, np.unique(y), len(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

    def leave_one_out_proba(self):
        return self.predict_proba(np.empty((self.n_, 1)))


def test_groups_are_handed_to_an_estimator_that_takes_them():
    groups = list("aabbc")
    calibration = calibrate(Grouped(), np.zeros((5, 1)), [0, 0, 0, 1, 2], None, groups=groups)
    assert calibration.estimator.groups_.tolist() == [0, 0, 1, 1, 2]
    assert calibration.groups.tolist() == [0, 0, 1, 1, 2]
    assert calibration.unseen.tolist() == [False, False, False, True, True]  # each class of one group is unseen without


@pytest.mark.parametrize("cv", [None, 4, "split", GroupKFold(3)])
def test_every_way_to_calibrate_leaves_groups_whole(cv):
    X, y, groups = writers().draw(np.random.default_rng(0), 120)
    calibration = calibrate(LogisticRegression(), X, y, cv, groups=groups)
    assert len(calibration.groups) == len(calibration.labels) == len(calibration.probabilities)
    if cv in (None, "split"):
        assert len(np.unique(calibration.groups)) < len(np.unique(groups)) / 3
    else:
        assert sorted(calibration.groups) == sorted(groups)
    sets = ConformalClassifier(LogisticRegression(), 0.8, cv=cv).fit(X, y, groups=groups)
    assert sets.n_calibration_ > 0


@pytest.mark.parametrize(
    ("groups", "words"), [([1, 2, 3], "groups holds 3 groups, but X has 60 rows"), (["a"] * 60, "of one group, 'a'")]
)
def test_bad_groups_are_refused(groups, words):
    with pytest.raises(InputError, match=words):
        HedgedClassifier(VOTES, PETS, 0.9).fit(*pets(60), groups=groups)


def test_groups_are_saved_with_the_answers():
    X, y, groups = writers().draw(np.random.default_rng(0), 150)
    hedged = HedgedClassifier(VOTES, writers().taxonomy, 0.8, confidence=0.8).fit(X, y, groups=groups)
    again = saved_and_opened(hedged)
    for accuracy in (0.6, 0.9):
        assert again.set_accuracy(accuracy).predict(X).tolist() == hedged.set_accuracy(accuracy).predict(X).tolist()


# ---------------------------------------------------------------- ways


@given(
    st.integers(1, 4).flatmap(
        lambda m: st.lists(st.lists(st.booleans(), min_size=m, max_size=m), min_size=2, max_size=20)
    )
)
def test_effective_ways_are_those_of_all_correlations(cases):
    wrong = np.array(cases).T
    assert effective_ways(wrong) == pytest.approx(reference.effective_ways(wrong.tolist()))


def test_ways_that_are_wrong_about_the_same_rows_are_paid_for_as_fewer():
    X, y = hard_and_easy(400, seed=0)
    hedged = HedgedClassifier(Sayer(PETS.leaves), PETS, 0.8, confidence=0.9, cv="prefit").fit(X, y)
    assert 1 <= hedged._dependence()["n_ways"] < 2
    (wrong, *_) = [way.past.wrong(boldest_settings(way.by_branch, 0.8)) for way in hedged._ways]
    assert wrong.sum() <= 80
    assert set(RULES) >= {hedged.rule_}
