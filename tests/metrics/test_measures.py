"""Measures of answers whose truth is known, and the error that no classifier can beat."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.errors import InputError
from nearsay.metrics.bayes_error import bayes_error_range
from nearsay.metrics.probability import (
    accuracy,
    brier,
    expected_calibration_error,
    macro_precision,
    macro_recall,
    mean_log_posterior,
)
from tests.labeled import labeled_rows, letters_apart
from tests.reference import neighbors as reference


@settings(max_examples=40)
@given(
    p=st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=1, max_size=9),
    y=st.lists(st.integers(0, 2), min_size=9, max_size=9),
)
def test_the_mean_log_posterior_equals_the_loop_in_both_bases(p, y):
    p = np.array(p) / np.sum(p, axis=1, keepdims=True)
    y = y[: len(p)]
    expected = sum(math.log(row[c]) for row, c in zip(p, y, strict=True)) / len(p)
    assert mean_log_posterior(p, y) == pytest.approx(expected, rel=1e-12)
    assert mean_log_posterior(p, y, base=10) == pytest.approx(expected / math.log(10), rel=1e-12)
    assert mean_log_posterior(p, np.array(list("abc"))[y], classes=list("abc")) == mean_log_posterior(p, y)


@settings(max_examples=40)
@given(
    p=st.lists(st.lists(st.integers(1, 3), min_size=3, max_size=3), min_size=1, max_size=12),
    y=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    n_bins=st.integers(1, 15),
    order=st.randoms(use_true_random=False),
)
def test_brier_and_calibration_error_equal_their_loops_in_any_order_of_rows(p, y, n_bins, order):
    p = np.array(p) / np.sum(p, axis=1, keepdims=True)
    y = np.array(y[: len(p)])
    shuffled = order.sample(range(len(p)), len(p))
    expected = reference.expected_calibration_error(p.tolist(), y.tolist(), n_bins)
    assert brier(p, y) == pytest.approx(reference.brier(p.tolist(), y.tolist()), rel=1e-12)
    assert expected_calibration_error(p, y, n_bins=n_bins) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    again = expected_calibration_error(p[shuffled], y[shuffled], n_bins=n_bins)
    assert again == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=40)
@given(pairs=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=12))
def test_macro_precision_and_recall_equal_their_loops_and_scikit_learns(pairs):
    from sklearn.metrics import precision_score, recall_score

    predicted, y = (list(side) for side in zip(*pairs, strict=True))
    precision, recall = reference.macro_precision_and_recall(predicted, y)
    assert macro_precision(predicted, y) == pytest.approx(precision, rel=1e-12)
    assert macro_recall(predicted, y) == pytest.approx(recall, rel=1e-12)
    assert precision == pytest.approx(precision_score(y, predicted, average="macro", zero_division=0), rel=1e-12)
    assert recall == pytest.approx(recall_score(y, predicted, average="macro", zero_division=0), rel=1e-12)


def test_a_true_class_of_probability_zero_gives_minus_infinity_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mean_log_posterior([[1.0, 0.0], [0.5, 0.5]], [1, 1]) == -math.inf


def test_measures_refuse_what_does_not_fit_together():
    with pytest.raises(InputError, match="'z' is none of the 2 classes"):
        mean_log_posterior([[0.5, 0.5]], ["z"], classes=["a", "b"])
    with pytest.raises(InputError, match="column numbers 0 to 1"):
        mean_log_posterior([[0.5, 0.5]], [2])
    with pytest.raises(InputError, match="column numbers 0 to 1"):
        mean_log_posterior([[0.5, 0.5]], ["a"])
    with pytest.raises(InputError, match=r"\(1, 2\) and \(2,\)"):
        mean_log_posterior([[0.5, 0.5]], [0, 1])
    for measure in (accuracy, macro_precision, macro_recall):
        with pytest.raises(InputError, match="at least one"):
            measure([], [])
    for measure in (brier, expected_calibration_error):
        with pytest.raises(InputError, match="column numbers 0 to 1"):
            measure([[0.5, 0.5]], [2])
    for n_bins in (0, 1.5, True):
        with pytest.raises(InputError, match="n_bins must be a whole number"):
            expected_calibration_error([[0.5, 0.5]], [0], n_bins=n_bins)


# ---------------------------------------------------------------- the Bayes error


@settings(max_examples=40)
@given(data=labeled_rows(smallest=2))
def test_the_bayes_error_range_turns_the_bound_of_cover_and_hart_around(data):
    X, y = data
    low, high = bayes_error_range(X, y)
    n_classes = len(set(y.tolist()))
    if n_classes == 1:
        assert (low, high) == (0.0, 0.0)
        return
    chance = (n_classes - 1) / n_classes
    error = min(reference.nearest_neighbor_error(X, y), chance)
    assert high == error
    assert 0 <= low <= high
    assert low * (2 - low / chance) == pytest.approx(error, abs=1e-7)  # flat at chance: √ε there


def test_the_bayes_error_of_two_overlapping_classes_lies_in_the_range():
    rng = np.random.default_rng(10)
    X = rng.uniform(size=(4000, 1))
    y = rng.uniform(size=4000) < np.where(X[:, 0] > 0.5, 0.85, 0.15)
    low, high = bayes_error_range(X, y)
    assert low - 0.02 < 0.15 < high + 0.02
    assert high == pytest.approx(2 * 0.15 * 0.85, abs=0.03)


def test_the_bayes_error_needs_two_rows_and_a_label_for_each():
    with pytest.raises(InputError, match="at least 2"):
        bayes_error_range([[0.0]], [0])
    with pytest.raises(InputError, match=r"X has 2 rows, y has the shape \(3,\)"):
        bayes_error_range([[0.0], [1.0]], [0, 1, 0])
    assert bayes_error_range(["cat", "rat", "dog"], [0, 0, 1], metric=letters_apart).high == pytest.approx(1 / 3)
