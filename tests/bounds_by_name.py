"""Every distance, posterior and estimator at work on a few rows: run by ``test_hard_rows.py`` with bounds checked."""

from __future__ import annotations

import numpy as np
import pytest

import nearsay as ns
from nearsay.distances.named import as_distance
from nearsay.posterior.methods.named import POSTERIORS
from tests.estimators.test_settings import LABELS, ROWS, fit_and_ask
from tests.public import ESTIMATORS
from tests.search.test_exactness import NAMES, parameters, proper


@pytest.mark.parametrize("name", NAMES)
def test_every_distance_is_measured(name):
    X = proper(name, ROWS)
    index = ns.NeighborIndex(as_distance(name, **parameters(name, X.shape[1]))).fit(X)
    assert (index.query(X, 3).indices >= 0).all()


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_every_posterior_answers(posterior):
    clf = ns.NeighborClassifier(3, posterior=posterior).fit(ROWS, LABELS)
    np.testing.assert_allclose(clf.predict_proba(ROWS).sum(axis=1), 1)
    clf.leave_one_out_proba()


@pytest.mark.parametrize("kind", ESTIMATORS.values())
def test_every_estimator_learns(kind):
    fit_and_ask(kind)


@pytest.mark.parametrize("tie_break", ["nearest", "random", "first"])
def test_every_number_of_neighbors_is_tried(tie_break):
    clf = ns.NeighborClassifier(posterior="proportional", tie_break=tie_break).fit(ROWS, LABELS)
    assert len(clf.k_curve_.k) > 1


def test_neighbors_are_weighed_by_row():
    clf = ns.NeighborClassifier(3, posterior=ns.posterior.Weighted(by="row")).fit(ROWS, LABELS)
    np.testing.assert_allclose(clf.predict_proba(ROWS).sum(axis=1), 1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_pool_learns_from_more_classes_than_it_keeps():
    X = np.repeat(np.arange(50.0), 3)[:, None] + [0.0, 0.1]
    clf = ns.NeighborClassifier(posterior="pooled").fit(X, np.repeat(np.arange(50), 3))
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)


def test_classes_too_many_to_list_are_those_that_rows_meet():
    labeled = ns.NeighborIndex().fit(ROWS).with_labels(LABELS)
    labeled.lists_all = False
    table = labeled.query(ROWS, 3, (1, 4))
    assert (table.classes.numbers[:, 0] == LABELS[table.indices[:, 0]]).all()


def test_leaves_may_be_listed_in_another_order_than_classes():
    trees = ns.Taxonomy.from_nested({"tree": {"oak": {}, "broad": ["elm", "ash"]}})
    hedged = ns.HedgedClassifier(ns.NeighborClassifier(3), taxonomy=trees)
    names = hedged.fit(ROWS, np.array(["ash", "oak", "elm"])[LABELS]).predict(ROWS)
    assert set(names) <= {"ash", "oak", "elm", "broad", "tree"}


def test_prediction_sets_of_two_nodes_are_not_empty():
    trees = ns.Taxonomy.from_nested({"tree": {"oak": {}, "broad": ["elm", "ash"]}})
    known = ns.NeighborClassifier(3, posterior="proportional")
    sets = ns.ConformalClassifier(known, coverage=0.8, taxonomy=trees, max_nodes=2)
    names = np.array(["ash", "oak", "elm"])[LABELS]
    assert sets.fit(ROWS, names).predict_set(ROWS).any()
