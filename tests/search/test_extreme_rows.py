"""Rows of any size: what is learned from them does not depend on the unit, and what cannot be learned is said."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nearsay as ns
from nearsay.errors import InputError, NearsayError
from nearsay.learn.linear_map import in_units
from tests.estimators.test_settings import KEYWORDS, LABELS, QUICK, ROWS
from tests.estimators.test_sklearn_checks import takes_an_estimator, takes_keywords
from tests.public import ESTIMATORS

HALVES = True

SPREAD = ROWS * [1.0, 3.0, 0.3, 1.0]
KINDS = list(ESTIMATORS.values())
METRICS = {
    **{kind.__name__: kind(**QUICK.get(kind, {})) for kind in KINDS if hasattr(kind, "get_mahalanobis_matrix")},
    "ITML from random pairs": ns.ITML(n_neighbors=None, random_state=0),
    "ITML by covariance": ns.ITML(prior="covariance"),
    "ITML within classes": ns.ITML(prior="within-class"),
    "ITML from a matrix": ns.ITML(prior=np.diag([1.0, 2.0, 3.0, 4.0])),
    "LMNN to a line": ns.LMNN(max_iter=5, n_components=1),
    "WithinClassWhitening that pulls": ns.WithinClassWhitening(pull=1.0),
    "WithinClassWhitening, all of it": ns.WithinClassWhitening(1.0, shrinkage=0.0),
}
# Up to where nearsay's rows go, and down to where squares vanish and beyond.
POWERS = [40, 60, 300, 460, -40, -60, -300, -480, -540, -600, -900]


def fit(estimator: Any, X: np.ndarray, y: Any = LABELS, Y: Any = KEYWORDS) -> Any:
    """Fitted, with a fixed seed where there is one; warnings of numpy are errors."""
    if "random_state" in getattr(estimator, "get_params", dict)():
        estimator.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        if isinstance(estimator, ns.NeighborIndex):
            return estimator.fit(X)
        return estimator.fit(X, Y if takes_keywords(type(estimator)) else y)


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", METRICS)
def test_a_learned_metric_does_not_depend_on_the_unit_of_the_rows(name, power):
    X = SPREAD * 2.0**power
    near = [ns.leave_one_out(m / np.abs(m).max(), 5) for m in (fit(METRICS[name], Z).transform(Z) for Z in (SPREAD, X))]
    np.testing.assert_array_equal(near[0].indices, near[1].indices)
    np.testing.assert_allclose(near[0].distances, near[1].distances, rtol=1e-6)
    assert np.isfinite(METRICS[name].components_).all()


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("shift", [-14, -7])
def test_bounds_of_itml_are_squared_distances_in_the_unit_of_the_rows(power, shift):
    """With bounds, rows and bounds are multiplied alike; 2^shift brings small ones near where the unit changes."""
    if abs(2 * power) > 1000:
        pytest.skip("squared distances are no numbers")
    ones = fit(ns.ITML(bounds=(0.5, 8.0)), SPREAD)
    scale = 2.0 ** (power + shift)
    other = fit(ns.ITML(bounds=(0.5 * scale**2, 8.0 * scale**2)), SPREAD * scale)
    np.testing.assert_allclose(other.components_, ones.components_, rtol=1e-7)
    np.testing.assert_allclose(other.bounds_, [0.5 * scale**2, 8.0 * scale**2])


SCORERS = {
    "KeywordProjection": (ns.annotate.KeywordProjection(2), lambda one, X: one.transform(X)),
    "KeywordRegression": (ns.annotate.KeywordRegression(), lambda one, X: one.scores(X)),
    "TransformedNeighbors": (
        ns.annotate.TransformedNeighbors(ns.annotate.KeywordProjection(2)),
        lambda one, X: one.neighbors(X, 5).indices,
    ),
}


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", SCORERS)
def test_keywords_do_not_depend_on_the_unit_of_the_rows(name, power):
    estimator, ask = SCORERS[name]
    X = SPREAD * 2.0**power
    expected = ask(fit(estimator, SPREAD), SPREAD)
    np.testing.assert_allclose(ask(fit(estimator, X), X), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("largest", [1e-15, 1e15, 1e-15 * 0.999, 1e15 * 1.001, 1e-289, 1e300])
def test_units_round_nothing_and_are_one_where_they_can_be(largest):
    X = np.array([[largest, -largest / 3], [0.0, largest / 7]])
    scaled, unit = in_units(X)
    np.testing.assert_array_equal(scaled * unit, X)
    assert (unit == 1 and scaled is X) == (1e-15 <= largest <= 1e15)
    assert 0.5 <= np.abs(scaled).max() <= 1 or unit == 1


def test_rows_that_are_too_small_for_any_unit_are_refused():
    with pytest.raises(InputError, match="No number in X is larger than 3e-300, too small"):
        ns.WithinClassWhitening().fit([[1e-300], [2e-300], [3e-300]], [0, 0, 1])


# ---------------------------------------------------------------- strange rows, for every estimator


ODD_ROWS: dict[str, tuple[Any, Any, Any]] = {
    "all the same": (np.full_like(ROWS, 3.7), LABELS, KEYWORDS),
    "all the same and large": (np.full_like(ROWS, 1e100), LABELS, KEYWORDS),
    "zeros": (np.zeros_like(ROWS), LABELS, KEYWORDS),
    "a constant column": (np.column_stack([ROWS, np.full(len(ROWS), 7.0)]), LABELS, KEYWORDS),
    "one column": (ROWS[:, :1], LABELS, KEYWORDS),
    "one row": (ROWS[:1], LABELS[:1], KEYWORDS[:1]),
    "two rows": (ROWS[:2], LABELS[:2], KEYWORDS[:2]),
    "two rows that are the same": (ROWS[[0, 0]], LABELS[:2], KEYWORDS[:2]),
    "three rows": (ROWS[:3], LABELS[:3], KEYWORDS[:3]),
    "one class": (ROWS, np.zeros(len(ROWS), int), np.ones((len(ROWS), 1), int)),
    "a class a row": (ROWS, np.arange(len(ROWS)), np.eye(len(ROWS), dtype=int)),
    "no keywords": (ROWS, LABELS, 0 * KEYWORDS),
    "columns of all sizes": (ROWS * [1e-150, 1.0, 1e100, 1e139], LABELS, KEYWORDS),
    "far from zero": (ROWS + 1e15, LABELS, KEYWORDS),
    "far from zero, and the same": (ROWS + 1e139, LABELS, KEYWORDS),
    "large": (ROWS * 1e139, LABELS, KEYWORDS),
    "1e100": (ROWS * 1e100, LABELS, KEYWORDS),
    "small": (ROWS * 1e-100, LABELS, KEYWORDS),
    "1e-200": (ROWS * 1e-200, LABELS, KEYWORDS),
    "1e-300": (ROWS * 1e-300, LABELS, KEYWORDS),
    "smallest there are": (np.round(3 * ROWS) * 5e-324, LABELS, KEYWORDS),
    "duplicates": (np.round(ROWS / 3), LABELS, KEYWORDS),
    "booleans": (ROWS > 0, LABELS, KEYWORDS),
    "bytes": ((ROWS * 20).astype(np.uint8), LABELS, KEYWORDS),
    "half precision": (ROWS.astype(np.float16), LABELS, KEYWORDS),
    "large whole numbers": ((ROWS * 2**58).astype(np.int64), LABELS, KEYWORDS),
}


@pytest.mark.slow
@pytest.mark.parametrize("rows", ODD_ROWS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_odd_rows_give_finite_answers_or_are_refused_in_words(kind, rows):
    X, y, Y = ODD_ROWS[rows]
    few = {"n_neighbors": 1} if kind in (ns.NeighborClassifier, ns.annotate.MLkNN) else {}
    around = [ns.NeighborClassifier(1, posterior="proportional")] if takes_an_estimator(kind) else []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            fitted = fit(kind(*around, **{**QUICK.get(kind, {}), **few}), X, y, Y)
            asked = [name for name in ("predict_proba", "scores", "transform") if hasattr(fitted, name)]
            answers = [getattr(fitted, name)(X[:3]) for name in asked]
    except NearsayError as refused:
        assert len(str(refused)) > 30  # noqa: PT017 - that it is refused is one of two right outcomes
    except ValueError as refused:  # by scikit-learn's validation of X and y
        assert "a minimum of 2 is required" in str(refused)  # noqa: PT017
    else:
        for answer in answers:
            assert np.isfinite(np.asarray(answer, dtype=np.float64)).all()


def test_a_number_that_signals_that_it_is_none_is_refused_without_a_warning():
    X = np.zeros((3, 2), np.float32)
    X.view(np.uint32)[1, 1] = 0x7F800001
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="row 1, column 1"):
            ns.NeighborIndex().fit(X)
