"""Several companion models, each a member of the pool of its own."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import nearsay as ns
from nearsay.errors import InputError
from nearsay.posterior.choice import model_fit
from nearsay.posterior.views.linear_classes import LinearClasses
from nearsay.posterior.views.model_beside import ModelBeside, companion_models
from nearsay.posterior.views.row_transforms import WHITENED_BESIDE, LearnedTransforms
from tests.saving import saved_and_opened

X, y = load_iris(return_X_y=True)
SPECIES = load_iris().target_names[y]
BOTH = [GaussianNB(), ("broad", GaussianNB(var_smoothing=0.1))]


@pytest.fixture(scope="module")
def beside_both() -> ns.NeighborClassifier:
    return ns.NeighborClassifier(5, posterior="pooled", beside=BOTH).fit(X[::2], SPECIES[::2])


def test_each_classifier_is_a_member_of_the_pool_with_past_cases_of_its_own(beside_both):
    models = beside_both.model_.views.models
    assert [model.name for model in models] == ["GaussianNB", "broad"]
    assert len(beside_both.posterior_.model_weights_) == 2
    classes, labels = np.unique(SPECIES[::2], return_inverse=True)
    for model, alone in zip(models, (GaussianNB(), GaussianNB(var_smoothing=0.1)), strict=True):
        expected = ModelBeside(alone, classes).fit(X[::2], SPECIES[::2], labels, order=beside_both.model_.order)
        np.testing.assert_array_equal(model.past_, expected.past_)


def test_one_classifier_in_a_list_answers_as_it_does_alone():
    one = ns.NeighborClassifier(beside=GaussianNB()).fit(X[::2], y[::2])
    listed = ns.NeighborClassifier(beside=[("bayes", GaussianNB())]).fit(X[::2], y[::2])
    np.testing.assert_array_equal(one.predict_proba(X), listed.predict_proba(X))
    assert "GaussianNB" in one.choices_.chosen.distances
    assert "bayes" in listed.choices_.chosen.distances


def test_probabilities_given_for_one_of_two_are_taken_and_the_other_is_fitted(beside_both):
    weights = np.ones(75)
    weights[-1] = 0.0
    fitted = GaussianNB().fit(X[1::2], SPECIES[1::2])
    P = fitted.predict_proba(X[::2])
    clf = ns.NeighborClassifier(5, posterior="pooled", beside=[fitted, BOTH[1]])
    clf.fit(X[::2], SPECIES[::2], weights, beside_proba=[P, None])
    taken, other = clf.model_.views.models
    assert taken.model_ is fitted
    np.testing.assert_allclose(np.exp(taken.past_), P[:-1], atol=1e-3)
    assert other.past_.shape == (74, 3)


def test_a_list_of_classifiers_is_cloned_and_saved(beside_both):
    again = clone(beside_both)
    assert [str(each) for each in again.beside] == [str(each) for each in BOTH]
    loaded = saved_and_opened(beside_both)
    np.testing.assert_array_equal(loaded.predict_proba(X), beside_both.predict_proba(X))
    assert loaded.explain(X[:3])[0].text == beside_both.explain(X[:3])[0].text


@pytest.mark.parametrize(
    ("beside", "proba", "message"),
    [
        ([GaussianNB(), 3], None, "predict_proba"),
        ([("forest", GaussianNB())], None, "a name of its own"),
        ([("one", GaussianNB()), ("one", GaussianNB())], None, "a name of its own"),
        ([GaussianNB()], np.ones((75, 3)) / 3, "None for a classifier that is to be fitted"),
    ],
)
def test_what_cannot_stand_beside_is_refused_in_words(beside, proba, message):
    with pytest.raises(InputError, match=message):
        ns.NeighborClassifier(beside=beside).fit(X[::2], y[::2], beside_proba=proba)


@pytest.mark.slow
def test_evidence_says_what_every_model_says_and_whose_votes_the_forest_counts():
    ids = [f"flower {row}" for row in range(75)]
    weights = np.ones(75)
    weights[3] = 0.0
    clf = ns.NeighborClassifier(8, beside=LogisticRegression(max_iter=1000)).fit(X[::2], SPECIES[::2], weights, ids=ids)
    queries = X[1::40]
    for line, one in enumerate(clf.explain(queries)):
        by_name = {model["name"]: model for model in one.models}
        assert set(by_name) == {model.name for model in clf.model_.views.models}
        logistic = clf.model_.views.models[0]
        assert by_name["LogisticRegression"]["label"] == logistic.model_.predict(queries[line : line + 1])[0]
        forest = by_name["forest"]
        fitted = next(model for model in clf.model_.views.models if model.name == "forest")
        voters = fitted.model_.neighbors(queries[line : line + 1], 8)
        rows = clf.rows_.held[fitted.rows_[voters.indices[0][voters.indices[0] >= 0]]]
        assert forest["neighbors"] == rows.tolist()
        assert forest["shares"] == (-voters.distances[0, : len(rows)]).tolist()
        assert forest["labels"] == SPECIES[::2][rows].tolist()
        assert forest["ids"] == [ids[row] for row in rows]
        n_agree = forest["labels"].count(forest["label"])
        assert f"({n_agree} of its {len(forest['labels'])} neighbors agree)" in one.text
        json.dumps(one.to_dict())


def test_plain_votes_have_no_models_to_show():
    assert ns.NeighborClassifier(3, posterior="proportional").fit(X, y).explain(X[:1])[0].models is None


@pytest.mark.parametrize(("wild", "is_shared"), [(0.0, True), (1e6, False)])
def test_a_line_is_learned_in_the_directions_of_a_view_unless_a_number_is_drawn_in(wild, is_shared, monkeypatch):
    random = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = random.normal(size=(150, 60)) + y[:, None] * (np.arange(60) % 5 == 0)
    X[7, 3] += wild
    order = random.permutation(150)
    monkeypatch.setattr(LinearClasses, "most_directions", 12)
    monkeypatch.setattr(LearnedTransforms, "most_columns", 12)
    maps = LearnedTransforms([WHITENED_BESIDE], X, y, order)
    alone, beside = (
        ModelBeside(LinearClasses(), np.arange(3), keeps_copies=True).fit(X, y, y, order=order, maps=each)
        for each in (None, maps)
    )
    for number, line in enumerate([beside.model_, *beside.copies_]):
        basis = maps.basis(number - 1 if number else None)
        assert (line._basis is basis) == is_shared
        assert line._basis.shape == (60, 12)
    assert not np.allclose(maps.basis(), maps.basis(0))  # rows are few for their columns
    np.testing.assert_allclose(beside.past_, alone.past_, atol=1e-4)
    np.testing.assert_allclose(beside.log_proba(X), alone.log_proba(X), atol=1e-4)


def test_a_classifier_finds_the_directions_of_a_line_and_of_a_whitened_view_once(monkeypatch):
    random = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = random.normal(size=(120, 60)) + y[:, None] * (np.arange(60) % 5 == 0)
    monkeypatch.setattr(LinearClasses, "most_directions", 12)
    monkeypatch.setattr(LearnedTransforms, "most_columns", 12)
    made = []

    def kept(*given, maps, **settings):
        models = companion_models(*given, maps=maps, **settings)
        made.extend((maps, model.model_) for model in models if isinstance(model.model_, LinearClasses))
        return models

    monkeypatch.setattr(model_fit, "companion_models", kept)
    ns.NeighborClassifier().fit(X, y)
    [(maps, line)] = made
    assert line._basis is maps.basis()
