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

from nearsay.data.datasets import load_dataset
from nearsay.data.taxonomies import load_taxonomy
from nearsay.data.taxonomy import Taxonomy
from nearsay.decision.guarantee import fit_reward_shift
from nearsay.decision.hedged import HedgedClassifier
from nearsay.decision.rules import RULES, darts
from nearsay.errors import DatasetNotFound, InputError
from nearsay.posterior.classifier import NeighborClassifier

# Ragged: "cat" is a leaf right below the root, the dogs are three levels down.
PETS = Taxonomy.from_nested(
    {"pet": {"dog": {"small dog": ["corgi", "pug"], "large dog": ["poodle", "boxer"]}, "cat": {}}}
)


def pets(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dogs that are hard to tell apart, small from large less so, and cats far off."""
    centers = {"corgi": 0.0, "pug": 1.0, "poodle": 4.0, "boxer": 5.0, "cat": 30.0}
    random = np.random.default_rng(seed)
    y = random.choice(list(centers), n)
    return np.array([[centers[name] + random.normal()] for name in y]), y


@parametrize_with_checks(
    [
        HedgedClassifier(NeighborClassifier()),
        HedgedClassifier(LogisticRegression(), accuracy=0.5, cv=3),
        HedgedClassifier(NeighborClassifier(3), accuracy=0.5, rule="flat-reject", cv="split"),
    ]
)
def test_scikit_learns_checks_pass(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Oo]nly the root.*")
        check(estimator)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("accuracy", [0.6, 0.8, 0.95])
def test_the_accuracy_asked_for_is_the_accuracy_got(rule, accuracy):
    X, y = pets(600)
    hedged = HedgedClassifier(NeighborClassifier(15), PETS, accuracy, rule=rule).fit(X, y)
    fresh, truth = pets(2000, seed=1)
    assert hedged.score(fresh, truth) >= accuracy - 0.03
    place = hedged.curve().place(hedged.setting_)
    assert hedged.curve().accuracy[place] >= accuracy


def test_the_setting_is_that_of_leave_one_out_probabilities():
    X, y = pets(300)
    knn = NeighborClassifier(9).fit(X, y)
    columns = [knn.classes_.tolist().index(leaf) for leaf in PETS.leaves]
    hedged = HedgedClassifier(NeighborClassifier(9), PETS, 0.8).fit(X, y)
    assert hedged.setting_ == fit_reward_shift(knn.leave_one_out_proba()[:, columns], y, PETS, 0.8, method="exact")
    nodes = darts(knn.predict_proba(X[:40])[:, columns], PETS, hedged.setting_)
    assert hedged.predict(X[:40]).tolist() == [PETS.nodes[node] for node in nodes]


def test_a_larger_accuracy_gives_no_more_specific_answers_and_needs_no_fit(monkeypatch):
    X, y = pets(300)
    hedged = HedgedClassifier(NeighborClassifier(9), PETS, 0.5).fit(X, y)
    monkeypatch.setattr(NeighborClassifier, "fit", lambda *_: pytest.fail("fitted again"))
    settings = [hedged.set_accuracy(accuracy).setting_ for accuracy in (0.5, 0.7, 0.9, 0.99)]
    assert settings == sorted(settings)
    assert hedged.accuracy == 0.99


def test_confidence_makes_answers_more_careful():
    X, y = pets(300)
    plain, sure = (HedgedClassifier(NeighborClassifier(9), PETS, 0.8, confidence=c).fit(X, y) for c in (None, 0.95))
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


def test_answers_do_not_depend_on_the_batch_as_in_hiclass_159():
    X, y = pets(200)
    hedged = HedgedClassifier(NeighborClassifier(5), PETS, 0.8).fit(X, y)
    fresh, _ = pets(30, seed=1)
    one_by_one = [hedged.predict(fresh[i : i + 1])[0] for i in range(30)]
    assert hedged.predict(fresh).tolist() == one_by_one
    assert hedged.predict(fresh[:0]).shape == (0,)


def test_leaves_at_different_depths_are_answered_alike_as_in_hiclass_162():
    X, y = pets(300)
    hedged = HedgedClassifier(NeighborClassifier(5), PETS, 0.8).fit(X, y)
    assert hedged.predict([[30.0]]) == ["cat"]
    assert hedged.predict_path([[30.0]]) == [("pet", "cat")]
    assert hedged.predict_path([[0.5]])[0][:2] == ("pet", "dog")


def test_probabilities_of_nodes_add_up_along_the_tree():
    X, y = pets(300)
    hedged = HedgedClassifier(NeighborClassifier(5), PETS, 0.8).fit(X, y)
    p = dict(zip(PETS.nodes, hedged.predict_proba_nodes(X[:20]).T, strict=True))
    np.testing.assert_allclose(p["pet"], 1)
    np.testing.assert_allclose(p["dog"], p["small dog"] + p["large dog"])
    np.testing.assert_allclose(p["small dog"], p["corgi"] + p["pug"])


def test_labels_may_sit_on_inner_nodes():
    X, y = pets(300)
    y = y.astype(object)
    y[np.isin(y, ["corgi", "pug"])] = "small dog"
    hedged = HedgedClassifier(NeighborClassifier(5), PETS, 0.9).fit(X, y.astype(str))
    assert hedged.score(*pets(300, seed=1)) < 1  # a breed was never seen, so "small dog" at best
    assert set(hedged.predict(X)) & {"small dog", "dog"}


def test_one_level_answers_or_says_nothing():
    X, y = pets(300)
    hedged = HedgedClassifier(NeighborClassifier(9), accuracy=0.95).fit(X, y)
    assert {"cat", "anything"} <= set(hedged.predict(X)) <= {*PETS.leaves, "anything"}
    numbers = HedgedClassifier(NeighborClassifier(9), accuracy=0.95).fit(X, np.unique(y, return_inverse=True)[1])
    assert numbers.predict(X).dtype == np.int64
    assert {-1} < set(numbers.predict(X)) <= {-1, 0, 1, 2, 3, 4}


def test_a_promise_that_cannot_be_kept_is_said_and_the_root_answered():
    X, y = pets(12)
    with pytest.warns(UserWarning, match="root"):
        hedged = HedgedClassifier(NeighborClassifier(3), PETS, 0.99, confidence=0.95).fit(X, y)
    assert set(hedged.predict(X)) == {"pet"}


def test_clones_and_leaves_the_estimator_alone():
    knn = NeighborClassifier(5)
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
    ],
)
def test_bad_settings_are_said(settings_of, words):
    given = {"estimator": NeighborClassifier(3), "taxonomy": PETS, **settings_of}
    with pytest.raises(InputError, match=words):
        HedgedClassifier(**given).fit(*pets(60))


def test_on_tiny_imagenet_the_promise_holds_for_every_accuracy():
    try:
        train, test = load_dataset("tin200", split="train"), load_dataset("tin200", split="test")
        tree = load_taxonomy("tin200")
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    hedged = HedgedClassifier(NeighborClassifier(30, model_failure=0.0), tree).fit(train.X, train.y)
    for accuracy in (0.6, 0.8, 0.95):
        assert hedged.set_accuracy(accuracy).score(test.X, test.y) >= accuracy - 0.02
