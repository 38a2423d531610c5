"""A collection learns what a classifier learns from the same rows, and keeps it while rows and classes change."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearsay.collection import LiveCollection
from nearsay.collection.state.live_models import LearnedModel, LiveModels
from nearsay.errors import SavedFileError
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.views.model_beside import COMPANIONS, companion_models

X, y = load_wine(return_X_y=True)
X = X.astype(np.float32)
LABELS = np.array(["barolo", "grignolino", "barbera"])[y]
IDS = [f"bottle {row}" for row in range(len(X))]
Q = X + np.float32(0.1)


@pytest.fixture(scope="module")
def wines(tmp_path_factory):
    with LiveCollection.create(tmp_path_factory.mktemp("wines") / "wines.nearsay", X.shape[1]) as collection:
        collection.add(IDS, X, LABELS)
        collection.learn()
        yield collection


def test_a_collection_answers_as_a_classifier_of_the_same_rows(wines):
    clf = NeighborClassifier().fit(X, LABELS)
    state = wines.state()
    names = [name for name in COMPANIONS if name != "boosting"]  # which is for tables with words or gaps
    assert state.learned.choices[-len(names) :] == names
    np.testing.assert_allclose(state.classifier.predict_proba(Q), clf.predict_proba(Q), rtol=1e-9, atol=1e-12)
    table, theirs = state.classifier.model_.leave_one_out(np.arange(9)), clf.model_.leave_one_out(np.arange(9))
    np.testing.assert_allclose(table.model_log_p, theirs.model_log_p, atol=1e-5)


def test_opened_again_it_answers_the_same(wines):
    before = wines.state().classifier.predict_proba(Q)
    with LiveCollection.open(wines.store.path, read_only=True) as again:
        np.testing.assert_array_equal(again.state().classifier.predict_proba(Q), before)


def test_a_new_class_is_as_likely_as_any_to_a_model_that_does_not_know_it(tmp_path):
    with LiveCollection.create(tmp_path / "wines.nearsay", X.shape[1]) as collection:
        collection.add(IDS[:120], X[:120], LABELS[:120])
        collection.learn()
        known = collection.state().classifier.predict_proba(Q)
        collection.add(IDS[130:], X[130:], LABELS[130:])
        classifier = collection.state().classifier
        assert classifier.classes_.tolist() == ["barbera", "barolo", "grignolino"]
        p = classifier.predict_proba(Q)
        assert known.shape[1] == 2
        assert (classifier.classes_[p[130:].argmax(axis=1)] == "barbera").mean() > 0.7
        log_p = classifier.model_.query(Q).model_log_p
        np.testing.assert_allclose(log_p[:, 0], -np.log(3))


def test_columns_follow_the_classes_there_are():
    models = [LearnedModel.of(each, np.array(["a", "b", "c"]), np.arange(len(X))) for each in companion_models(X, y, 3)]
    whole = LiveModels(models, np.array(["a", "b", "c"])).log_proba(Q)
    other = LiveModels(models, np.array(["a", "bb", "c"])).log_proba(Q)
    np.testing.assert_array_equal(other[:, [0, 2]], whole[:, [0, 2]])
    np.testing.assert_allclose(other[:, 1], -np.log(3))
    assert LiveModels((), np.array(["a"])).log_proba(Q) is None


def test_rows_that_came_since_are_asked_of_the_whole_model():
    for model in companion_models(X[:100], y[:100] % 2, 2, keep_copies=True):
        learned = LearnedModel.of(model, np.array(["a", "b"]), np.arange(100))
        rows, fold = np.array([99, 150]), np.array([2, -1])
        past = learned.past_cases(X[rows], rows, fold)
        np.testing.assert_allclose(past[1], learned.log_proba(X[150:151])[0])
        if learned.without:
            np.testing.assert_allclose(past[0], learned._logs(learned.without[2], X[99:100])[0])


def test_models_of_another_width_are_refused(wines):
    with pytest.raises(SavedFileError, match="Learn again"):
        wines.state().learned.check(12)


def test_a_forest_of_rows_that_a_file_made_up_takes_no_memory_and_is_refused():
    forest = LearnedModel.of(companion_models(X, y, 3)[-1], np.array(["a", "b", "c"]), np.arange(len(X)))
    far = replace(forest, rows=forest.rows + (1 << 60))
    np.testing.assert_allclose(far.past_cases(X[:2], np.array([0, 1]), np.array([-1, -1])), forest.log_proba(X[:2]))
    assert forest.fits(X[:2])
    assert not replace(forest, rows=forest.rows[:-1]).fits(X[:2])
    assert not replace(forest, spread=-1.0).fits(X[:2])
