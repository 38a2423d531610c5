"""Lines between classes as a map of rows: those of a logistic regression, and honest about past cases."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from nearsay.collection.state.feature_groups import TextViews
from nearsay.collection.state.learned import fitted_to_rows
from nearsay.posterior.views.class_lines import CLASS_LINES, ClassLines, class_lines


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), n_classes=st.integers(3, 5))
def test_after_many_steps_the_lines_are_those_of_a_logistic_regression(seed, n_classes):
    rng = np.random.default_rng(seed)
    labels = np.arange(40) % n_classes
    X = rng.integers(0, 3, (40, 4)) + labels[:, None] * rng.normal(size=4)  # duplicates, and classes that overlap
    X = (X - X.mean(axis=0)).astype(np.float32)
    theirs = LogisticRegression(C=1 / 3.0, tol=1e-8, max_iter=5000).fit(X, labels).coef_.T
    ours = class_lines(X, labels, n_classes, ridge=3.0, steps=600)
    np.testing.assert_allclose(ours, theirs - theirs.mean(axis=1, keepdims=True), atol=0.02)


def test_the_map_of_a_past_case_does_not_know_its_label():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(60, 5)).astype(np.float32), rng.integers(0, 3, 60)
    lines = ClassLines(X, labels)
    row = 7
    other = labels.copy()
    other[row] = (labels[row] + 1) % 3
    changed = ClassLines(X, other)
    changed.fold = lines.fold
    before, after = (each.without(int(lines.fold[row]), CLASS_LINES)(X) for each in (lines, changed))
    np.testing.assert_array_equal(before, after)
    assert np.abs(lines.whole(CLASS_LINES)(X) - changed.whole(CLASS_LINES)(X)).max() > 1e-6


def test_labels_that_are_noise_stay_noise():
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(300, 30)).astype(np.float32), rng.integers(0, 3, 300)
    classifier = fitted_to_rows(X, labels, "euclidean", "auto", "auto", TextViews({"text": (0, 30)}, "euclidean"))
    right = (classifier.leave_one_out_proba().argmax(axis=1) == labels).mean()
    assert right < 0.45


def test_two_classes_and_one_class_have_views_too():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(20, 3)), 3 + rng.normal(size=(20, 3))]).astype(np.float32)
    views = TextViews({"text": (0, 3)}, "euclidean")
    labels = np.repeat(["low", "high"], 20)
    assert (fitted_to_rows(X, labels, "euclidean", "auto", "auto", views).predict(X) == labels).mean() > 0.9
    assert len(views.views(X, np.zeros(40, np.int64), 1)) == 1
