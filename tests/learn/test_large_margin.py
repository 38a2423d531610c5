"""LMNN as a view of the rows: what it learns, that past cases are seen without their labels, and where it is tried."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.exceptions import ConvergenceWarning

from nearsay.errors import InputError
from nearsay.learn import LMNN
from nearsay.posterior.base import folds
from nearsay.posterior.choice.candidate_views import transformed_views, transforms_to_try
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.views.principal_directions import ColumnDirections
from nearsay.posterior.views.row_transforms import (
    LARGE_MARGIN,
    LMNN_SHRINKAGE,
    LMNN_STEPS,
    LMNN_TARGETS,
    WHITENED,
    LearnedTransforms,
    large_margin_map,
    learn_maps,
)

HALVES = True


def stripes(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes alternate along the first of four columns, and each is everywhere in the others."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 8, n)
    X = random.normal(size=(n, 4))
    X[:, 0] = 0.5 * y + 0.08 * X[:, 0]
    return X * (1, 30, 0.2, 5), y % 3


@pytest.mark.parametrize("scale", [1.0, 2.0**400, 2.0**-400])
def test_rows_are_as_far_apart_as_lmnn_of_standardized_columns_says(scale):
    X, y = stripes(150)
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        lmnn = LMNN(LMNN_TARGETS, max_iter=LMNN_STEPS, shrinkage=LMNN_SHRINKAGE).fit(standardized, y)
    [found] = learn_maps([LARGE_MARGIN], X * scale, y)
    # Steps that stop early depend a little on the axes in which they are taken.
    np.testing.assert_allclose(pdist(found(X * scale)), pdist(lmnn.transform(standardized)), rtol=3e-3)


def test_the_column_that_tells_classes_apart_counts_most():
    X, y = stripes(300)
    [found] = learn_maps([LARGE_MARGIN], X, y)
    counts = np.linalg.norm(found.matrix * X.std(axis=0)[:, None], axis=1)
    assert counts.argmax() == 0
    assert counts[0] > 1.2 * counts[1:].max()


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3]], ids=["one class", "no class of two rows"])
def test_where_nothing_can_be_large_margin_map_directions_stay(labels):
    X = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_array_equal(large_margin_map(X, np.array(labels)), np.eye(3))


def test_a_class_that_a_fold_lacks_is_no_trouble():
    X, y = stripes(60)
    y[0] = 3  # the others of its fold are mapped by what was learned without it
    p = NeighborClassifier(metric="auto-large-margin").fit(X, y).predict_proba(X[:3])
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_past_cases_are_mapped_by_what_other_folds_teach():
    X, y = stripes(60)
    learned = LearnedTransforms([LARGE_MARGIN], X, y)
    scales = ColumnDirections.of(X, X.shape[1])  # which know no labels: those of all rows
    for number in range(5):
        others = folds(y) != number
        [expected] = learn_maps([LARGE_MARGIN], X[others], y[others], scales)
        np.testing.assert_array_equal(learned.without(number, LARGE_MARGIN).matrix, expected.matrix)


def log_posterior_of_past_cases(X: np.ndarray, y: np.ndarray) -> float:
    """What a pool of this view alone gives the truth of rows that are left out."""
    n_classes, rows = y.max() + 1, np.arange(len(y))
    [view] = transformed_views([LARGE_MARGIN], X, y, n_classes)
    log_p = np.empty(len(y))
    tables = [view.past_cases(1, (1, 4))]
    for lines, p in Pooled(members=(1, 4)).fit_and_leave_out(tables, y, n_classes, rows, 5):
        log_p[lines] = np.log(p[np.arange(len(lines)), y[lines]])
    return float(log_p.mean())


def test_labels_that_mean_nothing_do_not_look_good(monkeypatch):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(160, 40)), random.integers(0, 4, 160)
    by_chance = -np.log(4)
    honest = log_posterior_of_past_cases(X, y)
    assert honest < by_chance + 0.02
    # Maps that have seen the cases would be believed:
    monkeypatch.setattr(LearnedTransforms, "without", lambda self, fold, look: self.whole(look))
    assert log_posterior_of_past_cases(X, y) > honest + 0.2


@pytest.mark.slow
def test_auto_hears_it_and_says_how_long_it_took():
    X, y = stripes(150)
    auto = NeighborClassifier(metric="auto-large-margin").fit(X, y)
    assert LARGE_MARGIN.name in auto.choices_.chosen.distances
    seconds = auto.choices_.view_seconds
    assert 0 < seconds["all (large margin)"] < 60
    assert {f"all ({each.name})" for each in WHITENED} < set(seconds)


@pytest.mark.slow
def test_it_is_heard_only_where_it_is_asked_for():
    X, y = stripes(60)
    plain = NeighborClassifier(metric="auto").fit(X, y)
    assert all(LARGE_MARGIN.name not in one.distances for one in plain.choices_)
    assert LARGE_MARGIN in transforms_to_try(X, y, large_margin=True)
    assert LARGE_MARGIN not in transforms_to_try(X, np.zeros(60, np.int64), large_margin=True)


def test_parameters_of_auto_are_refused():
    X, y = stripes(20)
    with pytest.raises(InputError, match="takes no metric_params"):
        NeighborClassifier(metric="auto", metric_params={"p": 3}).fit(X, y)
