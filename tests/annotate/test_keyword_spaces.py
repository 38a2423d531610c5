"""Spaces for neighbors that pass on keywords: projections, landmarks, regression."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.linalg import eigh
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import nearsay as ns
from nearsay.annotate.scorers.joint_neighbors import JointNeighbors
from nearsay.annotate.scorers.landmarks import LandmarkFeatures
from nearsay.annotate.scorers.regression import KeywordRegression
from nearsay.annotate.scorers.transformed_neighbors import TransformedNeighbors
from nearsay.core.parallel import threads
from nearsay.errors import InputError
from nearsay.learn.keyword_projection import WORD_RIDGE, KeywordProjection, some_words

small = hnp.arrays(np.float64, st.tuples(st.integers(4, 9), st.integers(1, 4)), elements=st.integers(-3, 3))


def labels(n_rows: int, n_words: int, seed: int = 0) -> np.ndarray:
    table = (np.random.default_rng(seed).random((n_rows, n_words)) < 0.4).astype(int)
    table[0], table[1] = 0, 1
    return table


@given(small, st.integers(1, 6))
@settings(max_examples=40)
def test_correlations_are_those_of_the_generalized_eigenproblem(X, n_words):
    Y = labels(len(X), n_words)
    learned = KeywordProjection(10, shrinkage=0.3).fit(X, Y)
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    n, n_columns = X.shape
    of_rows = A.T @ A / n
    n_varying = max(np.count_nonzero(np.ptp(X, axis=0)), 1)
    of_rows += 0.3 * max(np.trace(of_rows) / n_varying, np.finfo(float).tiny) * np.eye(n_columns)
    of_words, of_both = B.T @ B / n + WORD_RIDGE * np.eye(n_words), A.T @ B / n
    expected = eigh(of_both @ np.linalg.solve(of_words, of_both.T), of_rows, eigvals_only=True)[::-1]
    found = learned.correlations_
    np.testing.assert_allclose(found**2, expected[: len(found)], atol=1e-9)
    np.testing.assert_allclose(expected[len(found) :], 0, atol=1e-9)
    # As long as they are strong, in the covariance of the rows.
    lengths = np.einsum("ij,jk,ik->i", learned.components_, of_rows, learned.components_)
    np.testing.assert_allclose(lengths, found**2, atol=1e-9)


def test_mapped_rows_have_length_one_and_a_row_at_the_mean_none():
    X = np.random.default_rng(0).normal(size=(30, 5))
    learned = KeywordProjection(3).fit(X, labels(30, 4))
    np.testing.assert_allclose(np.linalg.norm(learned.transform(X), axis=1), 1)
    assert learned.transform(X).shape == (30, 3)
    np.testing.assert_array_equal(learned.transform(learned.mean_[None]), 0)


def test_words_of_all_rows_or_none_have_no_part_and_of_many_the_rarest():
    Y = csr_array([[1, 0, 1, 1, 0], [1, 0, 1, 0, 1], [1, 0, 0, 0, 0]])
    assert some_words(Y).toarray().tolist() == [[1, 1, 0], [1, 0, 1], [0, 0, 0]]
    assert some_words(Y, most_words=1).toarray().tolist() == [[1], [1], [0]]


def test_like_keywords_are_nearer_than_before():
    random = np.random.default_rng(1)
    X, Y = random.normal(size=(200, 20)), np.zeros((200, 2), int)
    Y[:, 0] = X[:, 3] > 0.3
    Y[:, 1] = X[:, 7] < 0
    finders = [TransformedNeighbors(), TransformedNeighbors(KeywordProjection(2))]
    alike = []
    for finder in finders:
        table = finder.fit(X[:150], Y[:150]).neighbors(X[150:], 5)
        alike.append((Y[table.indices] == Y[150:, None]).mean())
    assert alike[1] > alike[0] + 0.1


def test_a_row_left_out_finds_the_others():
    X, Y = np.random.default_rng(2).normal(size=(20, 4)), labels(20, 3)
    finder = TransformedNeighbors(KeywordProjection(2)).fit(X, Y)
    table = finder.leave_one_out(3, rows=np.array([4, 9]))
    np.testing.assert_array_equal(table.indices, finder.leave_one_out(3).indices[[4, 9]])
    asked = finder.neighbors(X[[4, 9]], 4)
    for row, near, among in zip([4, 9], table.indices, asked.indices, strict=True):
        assert row not in near
        assert set(near) <= set(among)
    plain = TransformedNeighbors(metric="manhattan").fit(X, Y)
    np.testing.assert_array_equal(plain.leave_one_out(3).indices, ns.leave_one_out(X, 3, metric="manhattan").indices)


@pytest.mark.slow
@given(small)
@settings(max_examples=40)
def test_products_are_nearness_by_all_spaces(X):
    features = {"first": (slice(0, 1), "manhattan"), "all": slice(0, X.shape[1])}
    landmarks = LandmarkFeatures(features, sharpness=1.5).fit(X)
    columns = landmarks.transform(X)
    np.testing.assert_allclose(LandmarkFeatures(features, sharpness=1.5).fit_transform(X), columns, atol=1e-9)
    distances = JointNeighbors(features).fit(X).distances(X)
    mean = distances.mean() or 1.0
    np.testing.assert_allclose(columns @ columns.T, np.exp(-1.5 * distances / mean), atol=1e-5)


def test_few_landmarks_serve_as_an_approximation_whatever_the_threads():
    X = np.random.default_rng(3).random((80, 2))
    with threads(1):
        few = LandmarkFeatures(n_landmarks=40, n_components=30).fit(X)
        columns = few.transform(X)
    assert columns.shape == (80, 30)
    again = LandmarkFeatures(n_landmarks=40, n_components=30).fit_transform(X)
    np.testing.assert_allclose(again, columns, atol=1e-9)
    whole = LandmarkFeatures().fit(X)
    whole.mean_distance_, many = few.mean_distance_, whole.transform(X)
    assert np.abs(columns @ columns.T - many @ many.T).mean() < 0.05
    np.testing.assert_allclose(few.transform(X[5:6]), columns[5:6], atol=1e-12)
    assert few.transform(X[:0]).shape == (0, 30)


@given(small)
@settings(max_examples=40)
def test_regression_is_ridge_regression(X):
    Y = labels(len(X), 3)
    varying = np.ptp(X, axis=0) > 0
    spread = X.var(axis=0)[varying].mean() if varying.any() else 1.0
    expected = Ridge(alpha=0.7 * spread * len(X)).fit(X, Y).predict(X)
    np.testing.assert_allclose(KeywordRegression(shrinkage=0.7).fit(X, Y).scores(X), expected, atol=1e-8)


@given(small, st.data())
@settings(max_examples=40)
def test_a_row_of_weight_two_counts_like_two_rows_in_regression(X, data):
    Y = labels(len(X), 3)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)).filter(any)))
    repeated = KeywordRegression(shrinkage=0.7).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    for scale in (1, 0.25, 1e200):
        weighted = KeywordRegression(shrinkage=0.7).fit(X, Y, sample_weight=scale * weights)
        np.testing.assert_allclose(weighted.scores(X), repeated.scores(X), atol=1e-8)
    plain, ones = (KeywordRegression().fit(X, Y, sample_weight=given) for given in (None, np.ones(len(X))))
    np.testing.assert_allclose(plain.scores(X), ones.scores(X), atol=1e-12)


@given(st.floats(0.01, 100.0), st.integers(2, 9))
def test_rows_that_are_all_alike_leave_the_share_of_each_word(value, n_rows):
    Y = labels(n_rows, 3)
    learned = KeywordRegression().fit(np.full((n_rows, 2), value), Y)
    np.testing.assert_allclose(learned.scores([[value, 1.1 * value]]), Y.mean(axis=0)[None], atol=1e-6)


@pytest.mark.parametrize(
    ("sample_weight", "words"),
    [
        ([1.0], r"must have shape \(2,\), one number per row; got shape \(1,\)"),
        ([[1.0, 2.0]], r"got shape \(1, 2\)"),
        ([1.0, -2.0], "must not be negative; got -2.0 for row 1"),
        ([np.nan, 1.0], "must be finite; got nan for row 0"),
        ([1.0, np.inf], "must be finite; got inf for row 1"),
        ([0.0, 0.0], "is zero for all 2 rows"),
        (["much", "little"], "must hold a number for every row"),
    ],
)
def test_weights_that_are_none_are_refused_in_words(sample_weight, words):
    with pytest.raises(InputError, match=words):
        KeywordRegression().fit([[0.0], [1.0]], [[1], [0]], sample_weight=sample_weight)


def test_spaces_make_a_pipeline():
    X, Y = np.random.default_rng(4).random((40, 6)), labels(40, 5)
    pipeline = make_pipeline(LandmarkFeatures(n_components=10), KeywordProjection(4))
    assert TransformedNeighbors(pipeline).fit(X, Y).neighbors(X[:3], 2).indices.shape == (3, 2)


@pytest.mark.parametrize(
    ("estimator", "Y", "words"),
    [
        (KeywordProjection(0), [[1], [0]], "n_components must be a whole number of at least 1; got 0"),
        (KeywordProjection(shrinkage=0), [[1], [0]], r"shrinkage must be a number in the range \(0, "),
        (KeywordProjection(), [[1], [1]], "nothing to learn"),
        (KeywordRegression(shrinkage=-1), [[1], [0]], r"shrinkage must be a number in the range \(0, "),
        (LandmarkFeatures(n_landmarks=0), [[1], [0]], "n_landmarks must be a whole number of at least 1; got 0"),
        (LandmarkFeatures({"x": slice(5, 9)}), [[1], [0]], "is empty"),
    ],
)
def test_bad_settings_are_said(estimator, Y, words):
    with pytest.raises(InputError, match=words):
        estimator.fit([[0.0, 1.0], [1.0, 0.0]], Y)
