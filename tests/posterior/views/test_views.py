"""Several views of the rows in one pool, a model beside them, and what "auto" makes of both."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from nearsay.core.parallel import threads
from nearsay.errors import InputError
from nearsay.learn import WithinClassWhitening
from nearsay.neighbors.index import NeighborIndex
from nearsay.posterior.base import folds
from nearsay.posterior.choice import candidate_views
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.methods.named import FEW, Auto
from nearsay.posterior.methods.pooled import Pooled
from nearsay.posterior.views.feature_group import View
from nearsay.posterior.views.model_beside import COMPANIONS, SPREAD, ModelBeside
from nearsay.posterior.views.principal_directions import ColumnDirections, DirectionsWithout, principal_directions
from nearsay.posterior.views.row_transforms import (
    STANDARDIZED,
    STANDARDIZED_MANHATTAN,
    WHITENED,
    WHITENED_BESIDE,
    ClassSpread,
    LearnedTransforms,
    LinearMap,
    learn_maps,
)
from nearsay.posterior.views.views import with_further

HALVES = True


def blobs(n: int, n_classes: int = 3, n_columns: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = random.integers(0, n_classes, n)
    centers = np.random.default_rng(99).normal(size=(n_classes, n_columns))
    return (centers[y] + random.normal(size=(n, n_columns))) * (1, 100, 0.01, 5)[:n_columns], y


# ---------------------------------------------------------------- maps


@pytest.mark.parametrize("transform", [STANDARDIZED, *WHITENED])
@pytest.mark.parametrize("scale", [1.0, 2.0**400, 2.0**-400])
def test_rows_are_as_far_apart_as_whitening_of_standardized_columns_says(transform, scale):
    X, y = blobs(120)
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = standardized
    if transform.power is not None:
        expected = (
            WithinClassWhitening(transform.power, pull=transform.pull).fit(standardized, y).transform(standardized)
        )
    if transform.unit:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    [found] = learn_maps([transform], X * scale, y)
    if transform.unit:  # directions from the mean of the rows, which whitening does not subtract
        np.testing.assert_allclose(np.linalg.norm(found(X * scale), axis=1), 1)
    np.testing.assert_allclose(pdist(found(X * scale)), pdist(expected), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_row_is_mapped_alike_in_any_batch(dtype):
    X, y = blobs(150)
    X = (X / X.std(axis=0)).astype(dtype)
    for found in learn_maps([STANDARDIZED, *WHITENED], X, y):
        whole = found(X)
        assert whole.dtype == (np.float64 if dtype == np.float64 else np.float32)
        parts = [found(X[:1]), found(X[1:66]), found(X[66:])]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_constant_columns_and_rows_that_are_all_equal_are_mapped_to_finite_numbers():
    X, y = blobs(60)
    for rows in (np.hstack([X, np.full((60, 1), 7.0)]), np.full((60, 3), 2.5)):
        for found in learn_maps([STANDARDIZED, *WHITENED], rows, y):
            assert np.isfinite(found(rows)).all()


def test_many_columns_are_whitened_in_their_principal_directions():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(80, 12)), random.integers(0, 3, 80)
    few, unit = learn_maps([WHITENED[0], WHITENED[-1]], X, y, most_columns=5)
    assert few.matrix.shape == unit.matrix.shape == (12, 5)
    assert learn_maps([WHITENED[0]], X, y, most_columns=12)[0].matrix.shape == (12, 12)


@pytest.mark.parametrize(("n", "n_columns"), [(300, 80), (20, 80), (200, 400), (70, 60)])
def test_principal_directions_are_those_of_a_singular_value_decomposition(n, n_columns):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, n_columns)) @ np.diag(0.7 ** np.arange(n_columns)) @ random.normal(size=(n_columns,) * 2)
    X -= X.mean(axis=0)
    found = principal_directions(X, 5)
    np.testing.assert_allclose(found.T @ found, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(np.abs(np.linalg.svd(X)[2][:5] @ found), np.eye(5), atol=1e-6)


def test_directions_without_spread_are_left_out():
    X = np.random.default_rng(0).normal(size=(6, 40))
    assert principal_directions(X - X.mean(axis=0), 20).shape == (40, 5)


def test_folds_share_the_directions_of_all_rows_where_columns_are_many_and_rows_many_more():
    random = np.random.default_rng(0)
    for n, shared in ((79, False), (80, True)):
        X, y = random.normal(size=(n, 20)), np.arange(n) % 3
        transforms = LearnedTransforms([WHITENED[0]], X, y)
        transforms.most_columns = 5
        whole, without = transforms.whole(WHITENED[0]), transforms.without(1, WHITENED[0])
        assert np.array_equal(whole.matrix, without.matrix) == shared
        assert not np.array_equal(whole.further, without.further)
        seen = transforms.fold != 1
        if shared:  # classes of other folds, in the directions of all rows
            rows = LinearMap(whole.center, whole.matrix, unit=False)(X)
            factor = ClassSpread(rows[seen], y[seen]).factor(0.5, 0.0)
            np.testing.assert_allclose(without.further, factor, rtol=1e-7, atol=1e-9)


def test_past_cases_are_mapped_by_what_other_folds_teach():
    X, y = blobs(50)
    transforms = LearnedTransforms([WHITENED[2]], X, y)
    fold = folds(y)
    for number in range(5):
        seen = fold != number
        expected = learn_maps([WHITENED[2]], X[seen], y[seen], ColumnDirections.of(X, 512))[0]
        np.testing.assert_array_equal(transforms.without(number, WHITENED[2]).matrix, expected.matrix)


@pytest.mark.parametrize("n_columns", [12, 90])  # fewer than rows, and more
def test_directions_without_some_rows_are_those_of_the_others(n_columns):
    random = np.random.default_rng(1)
    X = random.normal(size=(60, n_columns)) * np.geomspace(10, 0.1, n_columns) + 3
    left_out = random.random(60) < 0.3
    some = X[~left_out]
    expected = principal_directions(some - some.mean(axis=0), 5)
    found = DirectionsWithout(X).without(left_out, 5)
    np.testing.assert_allclose(np.abs(np.diag(expected.T @ found)), 1, rtol=1e-9)
    np.testing.assert_array_equal(DirectionsWithout(X).without(left_out, n_columns), np.eye(n_columns))


def test_scales_are_those_of_all_rows_and_folds_of_few_rows_have_directions_of_their_own():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 20)) * np.geomspace(100, 1, 20), np.arange(60) % 3
    transforms = LearnedTransforms([WHITENED[0]], X, y)
    transforms.most_columns = 5
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    for number in range(5):
        without = transforms.without(number, WHITENED[0])
        some = standardized[transforms.fold != number]
        basis = without.matrix * X.std(axis=0)[:, None]
        expected = principal_directions(some - some.mean(axis=0), 5)
        np.testing.assert_allclose(np.abs(np.diag(expected.T @ basis)), 1, rtol=1e-9)
        np.testing.assert_allclose(without.center, X.mean(axis=0))


def test_standardized_columns_are_also_measured_by_manhattan_distance_where_rows_are_not_too_many():
    X, y = blobs(50)
    [view] = candidate_views.transformed_views([STANDARDIZED_MANHATTAN], X, y, 3)
    table = view.neighbors(X[:5], 3, None)
    far = np.abs((X[:5, None] - X[table.indices]) / X.std(axis=0)).sum(axis=2)
    np.testing.assert_allclose(table.distances, far)
    for limit in (X.size, X.size - 1):
        tried = candidate_views.transforms_to_try(X, y, most_measured=limit)
        assert (STANDARDIZED_MANHATTAN in tried) == (limit == X.size)


def test_past_cases_of_a_view_that_knows_labels_equal_the_loop():
    X, y = blobs(40)
    transforms = LearnedTransforms([WHITENED[3]], X, y)
    view = View("all", None, "euclidean", transform=WHITENED[3], transforms=transforms).fit(X, y, 3)
    rows = np.array([3, 17, 0, 39, 8])
    table = view.past_cases(4, (1, 4), rows)
    for line, row in enumerate(rows):
        mapped = transforms.without(int(folds(y)[row]), WHITENED[3])(X)
        distances = np.linalg.norm(mapped - mapped[row], axis=1)
        distances[row] = np.inf
        order = np.argsort(distances, kind="stable")[:4]
        np.testing.assert_array_equal(table.indices[line], order)
        np.testing.assert_allclose(table.distances[line], distances[order])
        nearest = [distances[y == c].min() for c in table.classes.numbers[line]]
        np.testing.assert_allclose(table.classes.nearest[line], nearest)


# ---------------------------------------------------------------- one pool of all


@given(seed=st.integers(0, 20), model=st.booleans())
@settings(max_examples=10)
def test_a_table_with_further_views_is_pooled_as_groups_are(seed, model):
    X, y = blobs(60, seed=seed)
    tables = [NeighborIndex().fit(rows).with_labels(y, 3).leave_one_out(5, (1, 4)) for rows in (X, X[:, :2], np.sin(X))]
    pool = Pooled(members=(1, 4))
    together = pool.fit(with_further(tables, None), y, 3)
    p = together.proba(with_further(tables, None))
    np.testing.assert_array_equal(p, Pooled(members=(1, 4)).fit_groups(tables, y, 3).proba_groups(tables))
    if model:
        said = np.log(np.random.default_rng(seed).dirichlet(np.ones(3), size=(60, 2))).swapaxes(1, 2)
        heard = Pooled(members=(1, 4)).fit(with_further(tables, said), y, 3)
        assert heard.model_weights_.shape == (2,)
        features = heard._features([with_further(tables, said)], slice(None))
        np.testing.assert_array_equal(features[:, :, -3:-1], -said)


@pytest.mark.slow
def test_answers_of_many_views_depend_on_neither_threads_nor_batch():
    X, y = load_digits(return_X_y=True)
    X, Q, y = X[:100], X[200:240], y[:100]
    answers = []
    for count in (1, 2):
        with threads(count):
            clf = NeighborClassifier(metric="auto").fit(X, y)
            assert len(clf.choices_.chosen.distances) > 1
            answers.append((clf.predict_proba(Q), clf.leave_one_out_proba()))
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    np.testing.assert_array_equal(answers[0][1], answers[1][1])
    np.testing.assert_array_equal(np.vstack([clf.predict_proba(Q[:9]), clf.predict_proba(Q[9:])]), answers[0][0])


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(NeighborClassifier(metric="auto"), marks=pytest.mark.slow),
        NeighborClassifier(beside=GaussianNB()),
    ],
)
def test_neither_maps_nor_a_model_know_labels_drawn_by_lot(estimator):
    repetitions, n = 6, 150
    random = np.random.default_rng(0)
    log_p = []
    for _ in range(repetitions):
        X, y = random.normal(size=(n, 6)), random.integers(0, 2, n)
        clf = clone(estimator).fit(X, y)
        clf.model_ = replace(clf.model_, nested=None)  # choosing anew without the case would hide what they know
        p = clf.leave_one_out_proba()
        log_p.append(np.log(p[np.arange(n), y]).mean())
    assert np.mean(log_p) < np.log(0.5) + 3 * np.std(log_p) / np.sqrt(repetitions) + 0.005


def test_columns_of_unequal_scale_are_standardized_where_that_is_better_and_only_there():
    wine = NeighborClassifier().fit(*load_wine(return_X_y=True))
    assert wine.choices_.chosen.distances[0] == "standardized"
    X, y = load_wine(return_X_y=True)
    distances, indices = wine.kneighbors(X[:3], 2)
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(distances[:, 1], np.linalg.norm(standardized[:3] - standardized[indices[:, 1]], axis=1))
    X, y = load_digits(return_X_y=True)
    assert NeighborClassifier().fit(X[:600], y[:600]).choices_.chosen.distances[0] == "euclidean"
    as_given = NeighborClassifier(5, posterior="proportional").fit(*load_wine(return_X_y=True))
    assert as_given.index_.search_.rows_.take(np.arange(1))[0, -1] == 1065.0


def test_a_second_view_and_models_are_pooled_by_default():
    n_rows = 120
    of_numbers = [name for name in COMPANIONS if name != "boosting"]  # which is for tables with words or gaps
    metrics = ("euclidean", WHITENED_BESIDE.name, *of_numbers)
    rng = np.random.default_rng(3)
    labels = np.arange(n_rows) % 3
    X = rng.normal(size=(n_rows, 4)) * [1, 1, 2, 2] + labels[:, None] * [1, 0, 0, 0]
    tried = {one.distances for one in NeighborClassifier().fit(X, labels).choices_}
    assert max(tried, key=len) == metrics
    # Where the metric is not left open, or no past cases are asked, rows are seen as they are given.
    for asked in ({"metric": "manhattan"}, {"posterior": "pooled"}):
        assert len(NeighborClassifier(**asked).fit(X, labels).model_.views.views) == 1


def test_the_default_tries_a_few_and_counts_their_seconds():
    clf = NeighborClassifier().fit(*load_iris(return_X_y=True))
    assert {one.posterior for one in clf.choices_} == set(FEW)
    assert all(one.seconds > 0 for one in clf.choices_)
    assert clf.choices_.rows()[0]["seconds"] == clf.choices_[0].seconds


def test_the_best_by_accuracy_is_taken_where_that_is_asked_for():
    clf = NeighborClassifier(posterior=Auto(criterion="accuracy")).fit(*load_iris(return_X_y=True))
    assert clf.choices_[0].accuracy == max(one.accuracy for one in clf.choices_)
    assert clf.choices_.why == "chosen by the accuracy of 150 past cases"
    with pytest.raises(InputError, match="criterion"):
        NeighborClassifier(posterior=Auto(criterion="acuracy")).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.slow
def test_no_more_past_cases_are_asked_than_allowed():
    X, y = blobs(300)
    auto, pooled = Auto(max_past_cases=60), Pooled(max_past_cases=60)
    for k, posterior, metric in (("auto", auto, "euclidean"), ("auto", auto, "auto"), (5, pooled, "euclidean")):
        clf = NeighborClassifier(k, posterior=posterior, metric=metric).fit(X, y)
        table, rows = clf.model_.past.judged(1, clf.model_.members)
        assert len(table) == len(rows) <= 60
        assert clf.leave_one_out_proba().shape == (300, 3)
    with pytest.raises(InputError, match="max_past_cases"):
        NeighborClassifier(posterior=Auto(max_past_cases=0)).fit(X, y)


# ---------------------------------------------------------------- a model beside


def test_the_model_is_asked_about_rows_it_has_not_seen():
    X, y = blobs(60)
    classes = np.unique(y)
    beside = ModelBeside(GaussianNB(), classes).fit(X, y, y)
    fold = folds(y)
    for row in range(60):
        seen = fold != fold[row]
        p = GaussianNB().fit(X[seen], y[seen]).predict_proba(X[[row]])[0]
        np.testing.assert_allclose(beside.past_[row], np.log((1 - SPREAD) * p + SPREAD / 3), rtol=1e-5)
    p = GaussianNB().fit(X, y).predict_proba(X[:5])
    np.testing.assert_allclose(beside.log_proba(X[:5]), np.log((1 - SPREAD) * p + SPREAD / 3))


def test_the_answer_is_no_worse_than_that_of_the_model_or_the_neighbors():
    X, y = blobs(900, n_classes=4, seed=3)
    Q, truth = blobs(2000, n_classes=4, seed=4)

    def lost(clf):
        return -np.log(clf.fit(X, y).predict_proba(Q)[np.arange(len(Q)), truth])

    both, neighbors, model = (
        lost(clf) for clf in (NeighborClassifier(beside=GaussianNB()), NeighborClassifier(), GaussianNB())
    )
    for alone in (neighbors, model):
        assert both.mean() < alone.mean() + alone.std() / np.sqrt(len(alone))


def test_a_fitted_model_is_taken_with_what_it_said_before():
    X, y = blobs(150)
    model = LogisticRegression(max_iter=1000).fit(X[:50] / X.std(axis=0), y[:50])
    P = model.predict_proba(X / X.std(axis=0))

    class Asked(LogisticRegression):
        def fit(self, X, y):
            raise AssertionError("it is fitted already")

        def predict_proba(self, X):
            return model.predict_proba(X / np.array([1, 1, 1, 1]))

    asked = Asked()
    asked.classes_ = model.classes_
    clf = NeighborClassifier(beside=asked).fit(X, y, beside_proba=P)
    np.testing.assert_allclose(clf.predict_proba(X[:3]).sum(axis=1), 1)
    for wrong, message in ((P[:10], "shape"), (P * 2, "sums to 1"), (-P, "sums to 1")):
        with pytest.raises(InputError, match=message):
            NeighborClassifier(beside=asked).fit(X, y, beside_proba=wrong)


def test_a_class_that_a_fold_or_the_model_lacks_is_not_impossible():
    X, y = blobs(60)
    y = y.astype(object).astype(str)
    y[0] = "rare"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = NeighborClassifier(beside=GaussianNB()).fit(X, y)
        p = clf.predict_proba(X)
    assert np.isfinite(np.log(p)).all()


@pytest.mark.parametrize(
    ("settings_", "fit", "message"),
    [
        ({"beside": GaussianNB(), "posterior": "rank", "n_neighbors": 3}, {}, "uses neighbors only"),
        ({"beside": GaussianNB}, {}, "Pass an object"),
        ({"beside": 3}, {}, "predict_proba"),
        ({}, {"beside_proba": np.ones((4, 2))}, "pass it as beside"),
    ],
)
def test_what_cannot_stand_beside_is_said(settings_, fit, message):
    with pytest.raises(InputError, match=message):
        NeighborClassifier(**settings_).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], **fit)


def test_one_huge_row_beside_which_all_others_are_equal_is_fitted():
    random = np.random.default_rng(7)
    X, y = random.normal(size=(1100, 40))[:880], random.integers(0, 3, 1100)[:880]
    X[0] *= 1e30
    p = NeighborClassifier().fit(X, y).predict_proba(X[:9])
    np.testing.assert_allclose(p.sum(axis=1), 1)
