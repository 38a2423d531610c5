"""Classes as Gaussians, and what the pool makes of them, against slow and obvious sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import multivariate_normal, norm, rankdata
from sklearn.datasets import load_wine

from nearsay.encode.column_quantiles import OUTERMOST, ColumnQuantiles
from nearsay.learn.whitening import around_class_means, trusted_covariance
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.base import folds
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.pooled import CASES_TO_HOLD, CORE_VIEWS, Pooled
from nearsay.posterior.views.gaussian_classes import MOST_ANSWERS, GaussianClasses
from nearsay.posterior.views.model_beside import COMPANIONS, SPREAD, ModelBeside, companion_models, stacked_models
from nearsay.posterior.views.principal_directions import principal_directions
from nearsay.posterior.views.views import with_further
from tests.saving import saved_and_opened

HALVES = True

# Boosted trees are for tables with words or gaps.
OF_NUMBERS = [name for name in COMPANIONS if name != "boosting"]


def clouds(n: int, n_classes: int = 3, n_columns: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes around one mean, each of which spreads in directions of its own."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    turns = np.random.default_rng(7).normal(size=(n_classes, n_columns, n_columns)) * np.resize(
        (1, 3, 0.3, 1), n_columns
    )
    return np.einsum("ijk,ik->ij", turns[y], random.normal(size=(n, n_columns))), y


def slow_probabilities(X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """The formula, one class and one query at a time: X and Q in columns of one scale."""
    n, n_columns = X.shape
    classes = np.unique(y)
    centered = around_class_means(X, np.searchsorted(classes, y))
    within = trusted_covariance(centered) * n / (n - len(classes))
    p = np.empty((len(Q), len(classes)))
    for place, c in enumerate(classes):
        rows = X[y == c]
        apart = rows - rows.mean(axis=0)
        covariance = (apart.T @ apart + n_columns * within) / (len(rows) - 1 + n_columns)
        for line, query in enumerate(Q):
            p[line, place] = multivariate_normal.pdf(query, rows.mean(axis=0), covariance)
    return p / p.sum(axis=1, keepdims=True)


def slow_scores(X: np.ndarray) -> np.ndarray:
    """Normal scores of the training rows: average ranks."""
    shares = (rankdata(X, axis=0) - 0.5) / len(X)
    return norm.ppf(np.clip(shares, OUTERMOST, 1 - OUTERMOST))


@given(seed=st.integers(0, 100), n=st.integers(8, 60), n_classes=st.integers(2, 4), scale=st.sampled_from([1.0, 1e30]))
@settings(max_examples=25, deadline=None)
def test_probabilities_are_those_of_the_densities(seed, n, n_classes, scale):
    X, y = clouds(n, n_classes, seed=seed)
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    found = GaussianClasses().fit(X * scale, y).predict_proba(X * scale)
    np.testing.assert_allclose(found, slow_probabilities(standardized, y, standardized), rtol=1e-6, atol=1e-12)


@given(seed=st.integers(0, 100), decimals=st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_normal_scores_are_those_of_ranks_and_no_monotone_change_of_a_column_matters(seed, decimals):
    X, y = clouds(50, seed=seed)
    X = X.round(decimals)  # ties
    found = GaussianClasses(scores=True).fit(X, y).predict_proba(X)
    scores = slow_scores(X)
    np.testing.assert_allclose(found, slow_probabilities(scores, y, scores), rtol=1e-6, atol=1e-12)
    bent = np.exp(X / 4)
    np.testing.assert_allclose(GaussianClasses(scores=True).fit(bent, y).predict_proba(bent), found, rtol=1e-6)


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_is_told_alike_in_any_batch(scores, dtype):
    X, y = clouds(150)
    model = GaussianClasses(scores=scores).fit(X.astype(dtype), y)
    whole = model.predict_proba(X.astype(dtype))
    parts = [model.predict_proba(X[part].astype(dtype)) for part in (slice(0, 1), slice(1, 66), slice(66, None))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("scores", [False, True])
def test_constant_columns_lone_rows_and_queries_far_out_give_probabilities(scores):
    X, y = clouds(40)
    y[0] = 9
    for rows in (np.hstack([X, np.full((40, 1), 7.0)]), np.full((40, 3), 2.5), X * 1e-200, X[:, :1]):
        p = GaussianClasses(scores=scores).fit(rows, y).predict_proba(np.vstack([rows, rows * 1e100]))
        np.testing.assert_allclose(p.sum(axis=1), 1)


def test_many_columns_are_told_in_principal_directions_and_fewer_where_rows_and_classes_are_many():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(90, 12)) * np.arange(1, 13), np.arange(90) % 3
    model = GaussianClasses()
    assert model.fit(X, y)._basis.shape == (12, 12)
    model.most_directions = 5
    assert model.fit(X, y)._basis.shape == (12, 5)
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    seen = standardized @ principal_directions(standardized, 5)
    np.testing.assert_allclose(model.predict_proba(X), slow_probabilities(seen, y, seen), rtol=1e-6)
    model.most_products = 90 * 3 * 4
    assert model.fit(X, y)._basis.shape == (12, 2)


def test_no_model_is_learned_where_rows_and_classes_are_too_many_to_hold_their_probabilities():
    X, y = clouds(64)
    assert len(companion_models(X, y, 3)) == len(OF_NUMBERS)
    assert companion_models(X, y, MOST_ANSWERS // 64 + 1) == []


def test_columns_of_many_values_are_scored_between_some_of_them():
    X, _ = clouds(150)
    whole, some = ColumnQuantiles.of(X), ColumnQuantiles.of(X, knots=50)
    assert np.diff(some.starts).max() == 50
    scores = whole.normal_scores(X)
    inside = np.abs(scores) < 2
    np.testing.assert_allclose(some.normal_scores(X)[inside], scores[inside], atol=0.2)


# ---------------------------------------------------------------- in the pool


class FourDirections(GaussianClasses):
    most_directions = 4


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize(("kind", "n_columns"), [(GaussianClasses, 16), (FourDirections, 15), (FourDirections, 16)])
def test_past_cases_share_scales_and_are_told_by_the_classes_of_other_folds(kind, n_columns, scores):
    X, y = clouds(60, n_columns=n_columns)
    model = ModelBeside(kind(scores=scores), np.arange(3), "Gaussian").fit(X, y, y)
    rows = slow_scores(X) if scores else (X - X.mean(axis=0)) / X.std(axis=0)
    for number in range(5):
        rest = folds(y) != number
        # Of 15 columns 60 rows share the directions, of 16 they do not.
        some = rows if n_columns == 15 else rows[rest]
        mapped = rows @ principal_directions(some - some.mean(axis=0), kind.most_directions)
        p = slow_probabilities(mapped[rest], y[rest], mapped[~rest])
        np.testing.assert_allclose(model.past_[~rest], np.log((1 - SPREAD) * p + SPREAD / 3), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("settings_", [{}, {"metric": "auto"}])
def test_classes_that_only_their_spread_tells_apart_are_told_apart(settings_):
    X, y = clouds(300)
    Q, truth = clouds(600, seed=1)
    clf = NeighborClassifier(**settings_).fit(X, y)
    assert {*OF_NUMBERS} < {one.name for one in clf.summary_.members}
    lost = -np.log(clf.predict_proba(Q)[np.arange(600), truth])
    neighbors = NeighborClassifier(5, posterior="pooled").fit(X, y)
    lost_by_neighbors = -np.log(neighbors.predict_proba(Q)[np.arange(600), truth])
    assert lost.mean() < 0.9 * lost_by_neighbors.mean()


def test_what_was_asked_for_by_name_hears_no_gaussians():
    X, y = clouds(60)
    for clf in (NeighborClassifier(5, posterior="pooled"), NeighborClassifier(metric="manhattan")):
        assert not clf.fit(X, y).model_.views.models


@pytest.mark.slow
def test_classifiers_that_hear_gaussians_answer_alike_from_a_file():
    X, y = load_wine(return_X_y=True)
    clf = NeighborClassifier().fit(X, y)
    assert len(clf.model_.views.models) == len(OF_NUMBERS)
    again = saved_and_opened(clf)
    np.testing.assert_array_equal(again.predict_proba(X[:20]), clf.predict_proba(X[:20]))
    np.testing.assert_array_equal(again.leave_one_out_proba(), clf.leave_one_out_proba())


@pytest.mark.parametrize("n_views", [1, 2, 5])
@pytest.mark.parametrize("n_models", [0, 1, 3])
def test_views_are_held_by_the_root_of_their_number_and_models_more_closely(n_views, n_models):
    X, y = clouds(60)
    table = NeighborIndex().fit(X).with_labels(y, 3).leave_one_out(1, (1, 4))
    said = [np.log(np.random.default_rng(i).dirichlet(np.ones(3), size=60)) for i in range(n_models)]
    tables = [with_further([table] * n_views, stacked_models(said))]
    pool = Pooled(members=(1, 4)).fit_groups(tables, y, 3)
    weights, features = pool._all_weights, pool._features(tables, slice(None))
    odds = np.exp(-(features @ weights))
    p = odds / odds.sum(axis=1, keepdims=True)
    slope = (features[np.arange(60), y] - (p[:, :, None] * features).sum(axis=1)).sum(axis=0)
    precision = np.array([0.1 * np.sqrt(n_views)] * (2 * n_views) + [10.0] * n_models + [0.1 * np.sqrt(n_views)])
    center = np.zeros(len(weights))
    if n_views > CORE_VIEWS:  # held to what the first views have alone, and more closely as there are 60 cases only
        precision *= 1 + (CASES_TO_HOLD / 60) ** 3
        core = Pooled(members=(1, 4)).fit_groups([with_further([table] * CORE_VIEWS, stacked_models(said))], y, 3)
        center[: 2 * CORE_VIEWS], center[2 * n_views :] = core.weights_.ravel(), core._all_weights[2 * CORE_VIEWS :]
    np.testing.assert_allclose(slope, -precision * (weights - center), atol=1e-4)


def test_few_past_cases_that_are_all_right_do_not_make_a_model_certain():
    """Where a model errs on none of 40 cases, it may err on the next."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 3)), np.arange(40) % 2
    table = NeighborIndex().fit(X).with_labels(y, 2).leave_one_out(1, (1, 4))
    p = np.where(np.arange(2) == y[:, None], 0.9, 0.1)
    pool = Pooled(members=(1, 4)).fit(with_further([table], stacked_models([np.log(p)])), y, 2)
    assert 0 < pool.model_weights_[0] < 2


def test_a_model_that_is_far_too_sure_does_not_hide_the_classes_that_are_near():
    """With more classes than are kept of a case, what ranges over hundreds decided alone which ones were."""
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(90, 6))
    y = np.repeat(np.arange(90), 6)
    X = centers[y] + 0.5 * rng.normal(size=(len(y), 6))
    table = NeighborIndex().fit(X).with_labels(y).leave_one_out(5, (1, 4))
    blurred = centers + 1.2 * rng.normal(size=centers.shape)
    sure = log_softmax(-40 * ((X[:, None] - blurred) ** 2).sum(axis=2), axis=1)
    truth = np.arange(len(y)), y

    def lost(table):
        return -np.log(Pooled(members=(1, 4)).fit(table, y, 90).leave_one_out_proba(table)[truth]).mean()

    alone, beside = lost(table), lost(with_further([table], stacked_models([sure])))
    assert beside < alone + 0.02
