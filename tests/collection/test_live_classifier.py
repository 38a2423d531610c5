"""The classifier of a collection does all that a classifier of rows does."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris

import nearsay as ns
from nearsay.collection import LiveCollection
from nearsay.errors import InputError

HALVES = True

IRIS = load_iris()
LABELS = IRIS.target_names[IRIS.target]
UNLABELED, FORGOTTEN = 7, 60
VOTES = np.setdiff1d(np.arange(150), [UNLABELED, FORGOTTEN])
POSTERIORS = ["auto", "pooled", "proportional", "rank", "confmat"]
# What each public method is called with; those not named are called without anything.
QUERIES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("predict", "predict_proba", "explain", "novelty", "neighbors", "check_queries", "estimate_priors", "shift"),
        (IRIS.data[::9],),
    ),
    "nearest": (IRIS.data[::9], 3),
    "score": (IRIS.data, LABELS),
    "fit": (IRIS.data, LABELS),
}
PUBLIC = sorted(name for name in dir(ns.NeighborClassifier) if not name.startswith("_") and not name.endswith("_"))


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """The folder of a collection that learned with a posterior, made when it is first needed."""

    @cache
    def made(posterior: str) -> Path:
        path = tmp_path_factory.mktemp("made") / "iris"
        with LiveCollection.create(path, 4) as collection:
            collection.add([f"iris {row}" for row in range(150)], IRIS.data, LABELS.tolist())
            collection.relabel([f"iris {UNLABELED}"], [None])
            collection.forget([f"iris {FORGOTTEN}"])
            collection.learn(posterior=posterior, n_neighbors="auto" if posterior == "auto" else 5)
        return path

    return made


@pytest.fixture(scope="module", params=POSTERIORS)
def classifier(request, folder_of):
    with LiveCollection.open(folder_of(request.param), read_only=True) as collection:
        yield collection.state().classifier


@pytest.fixture(params=POSTERIORS)
def classifier_to_change(request, folder_of):
    with LiveCollection.open(folder_of(request.param), read_only=True) as collection:
        yield collection.state().classifier


@pytest.mark.parametrize("classifier_to_change", ["auto"], indirect=True)
def test_every_public_method_of_a_classifier_works(classifier_to_change):
    with sklearn.config_context(enable_metadata_routing=True):
        for name in sorted(PUBLIC, key=lambda name: name == "fit"):  # which forgets the collection
            method = getattr(classifier_to_change, name)
            if name == "validation_proba":  # a collection has no rows for validation alone
                with pytest.raises(InputError, match="No validation rows"):
                    method()
            elif callable(method):
                method(*QUERIES.get(name, ()))


@pytest.mark.parametrize("classifier", ["auto"], indirect=True)
def test_it_has_what_a_fitted_classifier_has(classifier):
    fitted = ns.NeighborClassifier(5, posterior="proportional").fit(IRIS.data, LABELS)
    assert not [name for name in vars(fitted) if name.endswith("_") and not hasattr(classifier, name)]


def test_neighbors_by_the_name_of_scikit_learn_are_those_that_answer(classifier):
    table = classifier.neighbors(IRIS.data)
    distances, indices = classifier.kneighbors(IRIS.data)
    assert_array_equal(indices, table.indices)
    assert_array_equal(distances, table.distances)
    graph = classifier.kneighbors_graph(IRIS.data, 3)
    assert graph.shape == (150, 150)
    assert (graph.sum(axis=1) == 3).all()


def test_rows_that_vote_have_others_and_the_rest_has_none(classifier):
    distances, indices = classifier.kneighbors(n_neighbors=4)
    assert (indices[VOTES] >= 0).all()
    assert not (indices[VOTES] == VOTES[:, None]).any()
    assert (indices[[UNLABELED, FORGOTTEN]] == -1).all()
    assert np.isinf(distances[[UNLABELED, FORGOTTEN]]).all()
    assert not np.isin(indices, [UNLABELED, FORGOTTEN]).any()


def test_rows_left_out_have_probabilities_and_scores(classifier):
    p = classifier.leave_one_out_proba()
    np.testing.assert_allclose(p[VOTES].sum(axis=1), 1.0)
    assert np.isnan(p[[UNLABELED, FORGOTTEN]]).all()
    assert (classifier.classes_[p[VOTES].argmax(axis=1)] == LABELS[VOTES]).mean() > 0.9
    scores = classifier.label_scores()
    assert_array_equal(np.sort(scores.order), VOTES)
    assert_array_equal(scores.probability[VOTES], p[VOTES, classifier.labels_[VOTES]])
    assert len(scores.to_frame()) == len(VOTES)


def test_changing_its_index_changes_no_answer(classifier_to_change):
    before = classifier_to_change.predict_proba(IRIS.data[::9])
    classifier_to_change.index_.remove(VOTES[:100])
    assert_array_equal(classifier_to_change.predict_proba(IRIS.data[::9]), before)


@pytest.mark.parametrize("classifier", ["proportional"], indirect=True)
def test_fitted_to_other_rows_it_is_a_classifier_of_those(classifier):
    other = clone(classifier).fit(IRIS.data[:, :2], LABELS)
    plain = ns.NeighborClassifier(**classifier.get_params()).fit(IRIS.data[:, :2], LABELS)
    Q = IRIS.data[::9, :2]
    assert_array_equal(other.predict_proba(Q), plain.predict_proba(Q))
    assert_array_equal(other.leave_one_out_proba(), plain.leave_one_out_proba())
    assert_array_equal(other.label_scores().order, plain.label_scores().order)
    assert_array_equal(other.kneighbors(Q)[1], plain.kneighbors(Q)[1])
