"""What fitting computes once and uses again: the features of past cases, and the posterior that choosing fitted."""

from __future__ import annotations

import pickle
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.neighbors.by_class.labeled import LabeledNeighbors
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import splits
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.past_cases import rows_judged


def clouds(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around class centers, on a grid, so that many distances are equal."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(n) % n_classes)
    centers = random.normal(scale=3, size=(n_classes, 3))
    return np.round(centers[y] + random.normal(scale=2, size=(n, 3))), y


def past_tables(X: np.ndarray, y: np.ndarray, members: tuple[int, ...]) -> list[NeighborTable]:
    """The past cases of two views: the rows, and their directions."""
    return [
        NeighborIndex(metric).fit(X).with_labels(y).leave_one_out(1, members) for metric in ("euclidean", "manhattan")
    ]


def answers_one_by_one(pool: Pooled, tables: list[NeighborTable], y: np.ndarray, n_folds: int) -> np.ndarray:
    """Each case by a pool that learned from scratch, from the other folds, and counts one row less in its class."""
    p = np.empty((len(y), pool.n_classes_))
    sizes = np.bincount(y, minlength=pool.n_classes_)
    for taught, asked in splits(y, n_folds):
        others = copy(pool)
        lines = [table[taught] for table in tables]
        others._learn(others._cases(lines, taught, np.arange(len(taught))), len(tables), 0)
        for case in asked:
            left = sizes - (np.arange(len(sizes)) == y[case])
            others._far_by_size = -np.log(np.where(left > 1, left, np.median(sizes[sizes > 1])))
            p[case] = others.proba_groups([table[case : case + 1] for table in tables])[0]
    return p


@given(seed=st.integers(0, 1000), n_classes=st.sampled_from([2, 5, 40]), n_folds=st.sampled_from([2, 5]))
@settings(max_examples=15)
def test_a_case_is_judged_by_what_the_other_folds_teach_from_scratch(seed, n_classes, n_folds):
    X, y = clouds(3 * n_classes + 20, n_classes, seed)
    pool = Pooled(members=(1, 2))
    tables = past_tables(X, y, (1, 2))
    p = np.full((len(y), n_classes), np.nan)
    for lines, of_lines in pool.fit_and_leave_out(tables, y, n_classes, np.arange(len(y)), n_folds):
        p[lines] = of_lines
    np.testing.assert_allclose(p, answers_one_by_one(pool, tables, y, n_folds), atol=1e-5)
    whole = Pooled(members=(1, 2)).fit_groups(tables, y, n_classes)
    np.testing.assert_array_equal(pool.weights_, whole.weights_)


def test_features_are_computed_once_and_not_in_every_fold():
    made = []

    class Counting(Pooled):
        def _cases(self, *args):
            made.append(0)
            return super()._cases(*args)

    X, y = clouds(120, 4)
    tables = past_tables(X, y, (1, 2))
    list(Counting(members=(1, 2)).fit_and_leave_out(tables, y, 4, np.arange(120), 5))
    assert len(made) == 1


@pytest.mark.slow
@pytest.mark.parametrize("alone", [False, True], ids=["no class of one row", "a class of one row"])
@pytest.mark.parametrize("metric", ["euclidean", "auto"])
def test_the_posterior_that_choosing_fitted_is_the_one_that_fitting_again_gives(alone, metric):
    X, y = clouds(90, 3)
    if alone:
        y[0] = 3
    fitted = NeighborClassifier(metric=metric).fit(X, y)
    assert isinstance(fitted.posterior_, Pooled)
    table, rows = fitted.model_.past.judged(fitted.n_neighbors_, fitted.model_.members)
    again = Pooled().fit(table, fitted.labels_, len(fitted.classes_), rows)
    np.testing.assert_array_equal(fitted.posterior_._all_weights, again._all_weights)
    assert fitted.posterior_.floors_ == again.floors_
    assert fitted.posterior_.model_failure_ == again.model_failure_


def test_the_more_classes_are_listed_the_fewer_rows_are_judged():
    judged = [rows_judged(12_000, 5, (1, 4), n_classes=n) for n in (10, 100, 1_000, 10_000)]
    few, more, many, most = (len(rows) for rows in judged)
    assert few > 1.4 * more > 2 * many
    assert many >= most > 0
    assert rows_judged(2_000, 5, (1, 4), n_classes=500) is None
    assert rows_judged(9_000, 5, None, n_classes=1_000) is None  # nobody asks for classes


def test_no_row_is_asked_twice_by_choosing_learning_and_judging_a_fusion(monkeypatch):
    X, y = clouds(120, 4)
    asked = []
    leave_one_out = LabeledNeighbors.leave_one_out

    def counted(self, k, members=None, rows=None):
        asked.append(len(self) if rows is None else len(rows))
        return leave_one_out(self, k, members, rows)

    monkeypatch.setattr(LabeledNeighbors, "leave_one_out", counted)
    each = NeighborClassifier("auto", posterior=Pooled(max_past_cases=60))
    clf = FusedClassifier({"first": [0, 1], "last": [2]}, each).fit(X, y)
    clf.model_ = replace(clf.model_, nested=None)  # choosing anew asks anew
    again = pickle.loads(pickle.dumps(clf))
    kept = clf.leave_one_out_proba()
    assert sum(asked) == 2 * 120
    assert again.views_[0].past_._by_number is None
    np.testing.assert_array_equal(kept, again.leave_one_out_proba())
    assert sum(asked) > 2 * 120
