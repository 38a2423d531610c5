"""Within-class whitening: the covariance within classes, its powers, and directions in which nothing is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from nearsay.errors import InputError
from nearsay.learn.whitening import (
    WithinClassWhitening,
    around_class_means,
    covariance,
    ledoit_wolf,
    power_of,
    pulling_metric,
    shrunk,
)
from tests.labeled import labeled_rows
from tests.reference import metrics as reference_metrics


def two_classes(n: int = 200, columns: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    return random.normal(size=(n, columns)) @ random.normal(size=(columns, columns)) + y[:, None], y


@given(rows=labeled_rows(), shrinkage=st.sampled_from([0.0, 0.25, 1.0]))
def test_the_covariance_is_that_of_loops(rows, shrinkage):
    X, y = rows
    S = reference_metrics.within_class_covariance(X, y)
    expected = (1 - shrinkage) * S + shrinkage * np.trace(S) / len(S) * np.eye(len(S))
    np.testing.assert_allclose(shrunk(covariance(around_class_means(X, y)), shrinkage), expected, atol=1e-12)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.5, 1.0])
def test_the_metric_is_a_power_of_the_inverse_covariance(power):
    X, y = two_classes()
    whitening = WithinClassWhitening(power, shrinkage=0).fit(X, y)
    expected = fractional_matrix_power(reference_metrics.within_class_covariance(X, y), -power)
    np.testing.assert_allclose(whitening.get_mahalanobis_matrix(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(whitening.components_, whitening.components_.T)


def test_at_full_power_distances_are_those_of_linear_discriminant_analysis():
    X, y = two_classes(columns=2)  # three classes: two directions, so that none is left out
    ours = WithinClassWhitening(1.0, shrinkage=0).fit(X, y).transform(X)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).transform(X)
    ratio = np.linalg.norm(ours[1:] - ours[0], axis=1) / np.linalg.norm(lda[1:] - lda[0], axis=1)
    np.testing.assert_allclose(ratio, ratio[0])


def test_at_full_power_classes_spread_alike_in_all_directions():
    X, y = two_classes()
    mapped = WithinClassWhitening(1.0, shrinkage=0).fit(X, y).transform(X)
    np.testing.assert_allclose(reference_metrics.within_class_covariance(mapped, y), np.eye(4), atol=1e-10)


def test_rows_that_never_differ_from_those_of_their_class_say_nothing():
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [5.0, 2.0]]), [0, 0, 1]
    whitening = WithinClassWhitening().fit(X, y)
    np.testing.assert_array_equal(whitening.components_, np.eye(2))
    assert whitening.shrinkage_ == 0


# ---------------------------------------------------------------- weighted rows


@given(rows=labeled_rows(), data=st.data())
def test_the_weighted_covariance_is_that_of_loops(rows, data):
    X, y = rows
    weights = np.array(data.draw(st.lists(st.sampled_from([0.25, 1.0, 3.0]), min_size=len(X), max_size=len(X))))
    expected = reference_metrics.within_class_covariance(X, y, weights)
    ours = covariance(around_class_means(X, y, weights), weights)
    np.testing.assert_allclose(ours, expected, atol=1e-12)


@given(rows=labeled_rows())
def test_the_shrinkage_is_that_of_scikit_learn(rows):
    X, y = rows
    centered = around_class_means(X, y)
    if np.linalg.norm(centered) > 1e-9:
        assert ledoit_wolf(centered) == pytest.approx(ledoit_wolf_shrinkage(centered, assume_centered=True), abs=1e-9)


@pytest.mark.parametrize("pull", [0.0, 1.0])
@pytest.mark.parametrize("shrinkage", ["auto", 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_a_weight_is_a_number_of_repetitions(seed, shrinkage, pull):
    """Weight 0 included: such a row, even one far away or the only one of its class, is as good as absent."""
    X, y = two_classes(n=40, seed=seed)
    weights = np.random.default_rng(seed).integers(0, 4, len(X))
    X, y = np.vstack([X, np.full((1, 4), 1e100)]), np.append(y, 7)
    weights = np.append(weights, 0)
    weighted = WithinClassWhitening(shrinkage=shrinkage, pull=pull).fit(X, y, sample_weight=weights)
    repeated = WithinClassWhitening(shrinkage=shrinkage, pull=pull).fit(X.repeat(weights, axis=0), y.repeat(weights))
    assert weighted.shrinkage_ == pytest.approx(repeated.shrinkage_)
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-8, atol=1e-10)


def test_weights_that_leave_no_row_or_one_class_are_refused():
    X, y = two_classes(n=6)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):  # newer versions of scikit-learn refuse it themselves
        WithinClassWhitening().fit(X, y, sample_weight=np.zeros(6))
    with pytest.raises(InputError, match="1 class"):
        WithinClassWhitening().fit(X, y, sample_weight=(y == y[0]).astype(float))
    with pytest.raises(ValueError, match="Negative values"):
        WithinClassWhitening().fit(X, y, sample_weight=[-1, 1, 1, 1, 1, 1])


# ---------------------------------------------------------------- pulled to the places of classes


@given(rows=labeled_rows())
def test_pulled_distances_are_those_of_what_regression_says_of_the_classes(rows):
    X, y = rows
    M = pulling_metric(X, y, like=np.eye(X.shape[1]))
    if not any(np.abs(X[y == label].mean(axis=0) - X.mean(axis=0)).max() > 1e-9 for label in np.unique(y)):
        assert not M.any()
        return
    said = reference_metrics.regression(X, np.eye(y.max() + 1)[y])
    theirs = [np.sum((a - b) ** 2) for a in said for b in said]
    ours = [(a - b) @ M @ (a - b) for a in X for b in X]
    plain = [np.sum((a - b) ** 2) for a in X for b in X]
    np.testing.assert_allclose(ours, np.array(theirs) * np.mean(plain) / np.mean(theirs), rtol=1e-6, atol=1e-6)


def test_at_pull_one_both_parts_of_the_distance_have_the_same_mean():
    X, y = two_classes()
    plain, pulled = (WithinClassWhitening(pull=pull).fit(X, y).transform(X) for pull in (0.0, 1.0))
    assert pulled.var(axis=0).sum() == pytest.approx(2 * plain.var(axis=0).sum())


def test_classes_with_the_same_mean_pull_nowhere():
    X, y = np.array([[0.1, 0.0], [0.7, 1.1], [0.1, 0.0], [0.7, 1.1]]), [0, 0, 1, 1]
    plain, pulled = (WithinClassWhitening(pull=pull).fit(X, y).get_mahalanobis_matrix() for pull in (0.0, 2.0))
    np.testing.assert_allclose(pulled, plain)


def test_powers_of_a_matrix_add_up():
    S = np.diag([1.0, 4.0, 9.0])
    np.testing.assert_allclose(power_of(S, -0.25) @ power_of(S, 0.75), power_of(S, 0.5), atol=1e-12)
    np.testing.assert_allclose(power_of(S, 1.0), S, atol=1e-12)
    np.testing.assert_array_equal(power_of(np.zeros((2, 2)), -1.0), np.eye(2))
