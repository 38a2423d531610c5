"""Hedged answers around any classifier: the promise, its settings, batches, ragged trees and bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearsay.core.parallel import threads
from nearsay.decision.branches import branch_of
from nearsay.decision.envelope import accuracy_curve, operating_points
from nearsay.decision.guarantee import fit_reward_shifts_by_branch, most_specific
from nearsay.decision.hedged import HedgedClassifier
from nearsay.decision.rules import RULES, darts
from nearsay.errors import InputError
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.decision.samples import PETS, Sayer, hard_and_easy, pets, votes
from tests.public import declared

HALVES = True


@pytest.mark.slow
@parametrize_with_checks(
    [HedgedClassifier(LogisticRegression(), accuracy=0.5, cv=3)],  # around neighbors they pass in tests/estimators
    expected_failed_checks=declared,
)
def test_scikit_learns_checks_pass(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Oo]nly the root.*")
        check(estimator)


@pytest.mark.parametrize("rule", ["auto", *RULES])
@pytest.mark.parametrize("accuracy", [0.6, 0.8, 0.95])
def test_the_accuracy_asked_for_is_the_accuracy_got(rule, accuracy):
    X, y = pets(600)
    knn = votes(15)
    hedged = HedgedClassifier(knn, PETS, accuracy, rule=rule).fit(X, y)
    fresh, truth = pets(2000, seed=1)
    assert hedged.score(fresh, truth) >= accuracy - 0.03
    place = hedged.curve().place(hedged.setting_)
    assert hedged.curve().accuracy[place] >= accuracy


def test_the_setting_is_that_of_leave_one_out_probabilities():
    X, y = pets(300)
    knn = votes(9).fit(X, y)
    columns = [knn.classes_.tolist().index(leaf) for leaf in PETS.leaves]
    p_leaf = knn.leave_one_out_proba()[:, columns]
    hedged = HedgedClassifier(clone(knn), PETS, 0.9, rule="darts").fit(X, y)
    curve = accuracy_curve(operating_points(p_leaf, PETS), y, PETS)
    assert hedged.setting_ == most_specific([{"pet": curve}], 0.9)[1][0]
    nodes = darts(knn.predict_proba(X[:40])[:, columns], PETS, hedged.setting_)
    assert hedged.predict(X[:40]).tolist() == [PETS.nodes[node] for node in nodes]


def test_a_larger_accuracy_says_no_more_and_needs_no_fit():
    fits = []

    class Counting(NeighborClassifier):
        def fit(self, X, y):
            fits.append(1)
            return super().fit(X, y)

    X, y = pets(300)
    hedged = HedgedClassifier(Counting(9, posterior="proportional"), PETS, 0.5).fit(X, y)
    n_fits = len(fits)
    gains = []
    for accuracy in (0.5, 0.7, 0.9, 0.99):
        curve = hedged.set_accuracy(accuracy).curve()
        gains.append(curve.gain[curve.place(hedged.setting_)].round(9))
    assert gains == sorted(gains, reverse=True)
    assert hedged.accuracy == 0.99
    assert len(fits) == n_fits > 0


def test_confidence_makes_answers_more_careful():
    X, y = pets(300)
    plain, sure = (HedgedClassifier(votes(9), PETS, 0.8, confidence=c).fit(X, y) for c in (None, 0.95))
    assert sure.setting_ >= plain.setting_


@pytest.mark.parametrize("cv", [None, "split", 3, "prefit"])
def test_any_classifier_with_probabilities_can_hedge(cv):
    X, y = pets(400)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    fresh, truth = pets(400, seed=2)
    if cv == "prefit":
        model.fit(X, y)
        X, y = pets(400, seed=3)
    hedged = HedgedClassifier(model, PETS, 0.9, cv=cv).fit(X, y)
    assert hedged.score(fresh, truth) > 0.85
    assert set(hedged.predict(fresh)) <= set(PETS.nodes)


@pytest.mark.parametrize(("rule", "branches"), [("auto", None), ("climbing", ["dog", "cat"])])
def test_answers_do_not_depend_on_the_batch_nor_on_threads_as_in_hiclass_159(rule, branches):
    X, y = pets(200)
    hedged = HedgedClassifier(votes(5), PETS, 0.8, rule=rule, branches=branches).fit(X, y)
    fresh, _ = pets(30, seed=1)
    said = hedged.predict(fresh)
    for count in (1, 2):
        with threads(count):
            again = HedgedClassifier(votes(5), PETS, 0.8, rule=rule, branches=branches).fit(X, y)
            assert again.settings_.tolist() == hedged.settings_.tolist()
            assert hedged.predict(fresh).tolist() == said.tolist()
            one_by_one = [hedged.predict(fresh[i : i + 1]) for i in range(30)]
            assert np.concatenate(one_by_one).tolist() == said.tolist()
            assert {answer.dtype for answer in one_by_one} == {hedged.predict(fresh[:0]).dtype} == {said.dtype}
            paths = hedged.predict_path(fresh)
            assert [hedged.predict_path(fresh[i : i + 1])[0] for i in range(30)] == paths
    assert hedged.predict(fresh[:0]).shape == (0,)


def test_leaves_at_different_depths_are_answered_alike_as_in_hiclass_162():
    X, y = pets(300)
    hedged = HedgedClassifier(votes(5), PETS, 0.8).fit(X, y)
    assert hedged.predict([[30.0]]) == ["cat"]
    assert hedged.predict_path([[30.0]]) == [("pet", "cat")]
    assert hedged.predict_path([[0.5]])[0][:2] == ("pet", "dog")


def test_probabilities_of_nodes_add_up_along_the_tree():
    X, y = pets(300)
    hedged = HedgedClassifier(votes(5), PETS, 0.8).fit(X, y)
    p = dict(zip(PETS.nodes, hedged.predict_proba_nodes(X[:20]).T, strict=True))
    np.testing.assert_allclose(p["pet"], 1)
    np.testing.assert_allclose(p["dog"], p["small dog"] + p["large dog"])
    np.testing.assert_allclose(p["small dog"], p["corgi"] + p["pug"])


def test_labels_may_sit_on_inner_nodes():
    X, y = pets(300)
    y = y.astype(object)
    y[np.isin(y, ["corgi", "pug"])] = "small dog"
    hedged = HedgedClassifier(votes(5), PETS, 0.9).fit(X, y.astype(str))
    assert hedged.score(*pets(300, seed=1)) < 1  # a breed was never seen, so "small dog" at best
    assert set(hedged.predict(X)) & {"small dog", "dog"}


def test_a_class_on_an_inner_node_is_shared_out_among_its_leaves():
    said = np.array([[0.5, 0.3, 0.2]])
    hedged = HedgedClassifier(Sayer(["cat", "corgi", "dog"]), PETS, 0.9, cv="prefit").fit(said, ["cat"])
    p = dict(zip(PETS.nodes, hedged.predict_proba_nodes(said)[0], strict=True))
    expected = {"cat": 0.5, "corgi": 0.35, "pug": 0.05, "poodle": 0.05, "boxer": 0.05, "small dog": 0.4, "dog": 0.5}
    for name, share in expected.items():
        assert p[name] == pytest.approx(share)


def test_a_leaf_under_two_parents_counts_once_in_a_hedged_answer():
    dag = Taxonomy.from_edges([("R", "P"), ("R", "Q"), ("P", "a"), ("P", "b"), ("Q", "b"), ("Q", "c")])
    said = np.array([[0.3, 0.2, 0.5]])  # as the classes: c, a, b
    known = np.repeat(said, 10, axis=0)
    hedged = HedgedClassifier(Sayer(["c", "a", "b"]), dag, 0.8, cv="prefit").fit(known, list("bbbbbcccaa"))
    np.testing.assert_allclose(hedged.predict_proba_nodes(said), [[0.2, 0.5, 0.3, 0.7, 0.8, 1.0]])
    assert hedged.predict(said) == ["Q"]
    assert hedged.set_accuracy(0.5).predict(said) == ["b"]
    assert hedged.set_accuracy(0.9).predict(said) == ["R"]


def test_classes_that_got_nothing_or_too_much_are_made_to_sum_to_one_row_by_row():
    rows = np.array([[0.0, 0, 0, 0, 0], [0.2, 0.2, 0.2, 0.2, 0.2], [3, 0, 0, 0, 1]])
    hedged = HedgedClassifier(Sayer(sorted(PETS.leaves)), PETS, 0.5, cv="prefit").fit(rows, ["cat", "cat", "boxer"])
    leaves = hedged.predict_proba_nodes(rows)[:, : PETS.n_leaves]
    for i, alone in enumerate(rows):
        np.testing.assert_array_equal(hedged.predict_proba_nodes(alone[None])[0, : PETS.n_leaves], leaves[i])
    np.testing.assert_allclose(leaves[:2], 0.2)
    np.testing.assert_allclose(leaves[2, PETS.check_labels(["boxer", "pug"])], [0.75, 0.25])
    with pytest.raises(InputError, match="not a finite number"):
        hedged.predict(np.full((1, 5), np.nan))


# ---------------------------------------------------------------- a promise for each branch


@pytest.mark.parametrize("rule", RULES)
def test_each_branch_keeps_the_accuracy_where_one_promise_for_all_lets_one_down(rule):
    assert PETS.leaves[-1] == "cat"
    X, y = hard_and_easy(1500, seed=0)
    Q, truth = hard_and_easy(3000, seed=1)
    looks_like_a_cat = Q.argmax(axis=1) == 4

    def accuracies(hedged):
        right = PETS.covers_label(PETS.check_labels(hedged.predict(Q)), PETS.check_labels(truth))
        return right[~looks_like_a_cat].mean(), right[looks_like_a_cat].mean()

    model = Sayer(PETS.leaves)
    over_all = HedgedClassifier(model, PETS, 0.8, rule=rule, cv="prefit").fit(X, y)
    each = HedgedClassifier(model, PETS, 0.8, rule=rule, cv="prefit", branches=["dog", "cat"]).fit(X, y)
    assert min(accuracies(over_all)) < 0.7
    assert min(accuracies(each)) > 0.78
    assert each.settings_.shape == (2,)
    np.testing.assert_array_equal(each.curve().accuracy, over_all.curve().accuracy)
    careful, lower = each.settings_, each.set_accuracy(0.5).settings_
    assert (lower <= careful).all()
    assert lower[1] < careful[1]
    fresh = HedgedClassifier(model, PETS, 0.5, rule=rule, cv="prefit", branches=["dog", "cat"]).fit(X, y)
    assert lower.tolist() == fresh.settings_.tolist()


def test_the_shifts_of_branches_are_those_of_the_plain_function():
    X, y = hard_and_easy(600, seed=0)
    hedged = HedgedClassifier(
        Sayer(PETS.leaves), PETS, 0.8, confidence=0.9, rule="darts", cv="prefit", branches=["cat", "dog"]
    )
    plain = fit_reward_shifts_by_branch(X, y, PETS, 0.8, ["cat", "dog"], 0.9, "fixed-sequence")
    assert (hedged.fit(X, y).settings_ >= plain).all()  # the smallest that keep it; a larger one may say more
    nodes = darts(X, PETS, hedged.settings_[branch_of(X, PETS, ["cat", "dog"])])
    assert hedged.predict(X).tolist() == [PETS.nodes[node] for node in nodes]


def test_a_branch_whose_promise_cannot_be_kept_is_named_and_gets_the_root():
    X, y = hard_and_easy(300, seed=0)
    dogs = X.argmax(axis=1) != 4
    few = np.flatnonzero(dogs | (np.cumsum(~dogs) <= 5))
    hedged = HedgedClassifier(
        Sayer(PETS.leaves),
        PETS,
        0.8,
        confidence=0.95,
        rule="darts",
        cv="prefit",
        branches=["small dog", "large dog", "cat"],
    )
    with pytest.warns(UserWarning, match="ranch") as told:
        hedged.fit(X[few], y[few])
    words = " ".join(str(warning.message) for warning in told)
    assert "No validation row looks like branch 'large dog'" in words
    assert "Branch 'cat': An accuracy of 0.8 with confidence 0.95 takes at least 14 rows" in words
    assert "small dog" not in words
    assert np.isfinite(hedged.settings_).tolist() == [True, False, False]
    assert set(hedged.predict(X[~dogs])) == {"pet"}
    assert "pet" not in hedged.predict(X[dogs])


def test_one_setting_is_a_number_and_several_are_not():
    X, y = hard_and_easy(300, seed=0)
    all_rows = HedgedClassifier(Sayer(PETS.leaves), PETS, 0.8, cv="prefit").fit(X, y)
    assert all_rows.settings_.tolist() == [all_rows.setting_]
    root_alone = HedgedClassifier(Sayer(PETS.leaves), PETS, 0.8, cv="prefit", branches=["pet"]).fit(X, y)
    assert root_alone.setting_ == all_rows.setting_
    several = HedgedClassifier(Sayer(PETS.leaves), PETS, 0.8, cv="prefit", branches=["dog", "cat"]).fit(X, y)
    assert not hasattr(several, "setting_")


def test_without_a_taxonomy_each_predicted_class_can_have_its_promise():
    X, y = hard_and_easy(600, seed=0)
    hedged = HedgedClassifier(Sayer(PETS.leaves), accuracy=0.8, cv="prefit", branches=["corgi", "anything"]).fit(X, y)
    assert set(hedged.predict(X[X.argmax(axis=1) == 0])) == {"corgi"}
    assert "anything" in hedged.predict(X[X.argmax(axis=1) == 4])


def test_one_level_answers_or_says_nothing():
    X, y = pets(300)
    hedged = HedgedClassifier(votes(9), accuracy=0.95).fit(X, y)
    assert {"cat", "anything"} <= set(hedged.predict(X)) <= {*PETS.leaves, "anything"}
    numbers = HedgedClassifier(votes(9), accuracy=0.95).fit(X, np.unique(y, return_inverse=True)[1])
    assert numbers.predict(X).dtype == np.int64
    assert {-1} < set(numbers.predict(X)) <= {-1, 0, 1, 2, 3, 4}


def test_a_promise_that_cannot_be_kept_is_said_and_the_root_answered():
    X, y = pets(12)
    with pytest.warns(UserWarning, match="root"):
        hedged = HedgedClassifier(votes(3), PETS, 0.99, confidence=0.95).fit(X, y)
    assert set(hedged.predict(X)) == {"pet"}


def test_clones_and_leaves_the_estimator_alone():
    knn = votes(5)
    hedged = clone(HedgedClassifier(knn, PETS, 0.8)).fit(*pets(100))
    assert not hasattr(knn, "index_")
    assert hedged.taxonomy == PETS


@pytest.mark.parametrize(
    ("settings_of", "words"),
    [
        ({"accuracy": 90}, "share between 0 and 1"),
        ({"confidence": 1.0}, "share between 0 and 1"),
        ({"rule": "dart"}, "did you mean 'darts'"),
        ({"taxonomy": {"pet": ["cat"]}}, "must be a Taxonomy"),
        ({"taxonomy": Taxonomy.from_edges([("pet", "cat"), ("pet", "corgy")])}, "corg"),
        ({"estimator": RidgeClassifier()}, "no predict_proba"),
        ({"cv": "half"}, "cv must be"),
        ({"branches": ["dog"]}, "1 of 5 leaves are in no branch, among them 'cat'"),
        ({"branches": ["dog", "cat", "dog"]}, "Branch 'dog' is named twice"),
        ({"branches": ["dog", "cta", "pet"]}, "did you mean 'cat'"),
        ({"branches": "pet"}, "A list of names of nodes is expected"),
        ({"taxonomy": None, "branches": ["cat"]}, "4 of 5 leaves are in no branch"),
    ],
)
def test_bad_settings_are_said(settings_of, words):
    given = {"estimator": votes(3), "taxonomy": PETS, **settings_of}
    with pytest.raises(InputError, match=words):
        HedgedClassifier(**given).fit(*pets(60))
