"""Estimators that take keywords, as citizens of scikit-learn: its checks that need no labels, and the others here."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

import nearsay as ns
from nearsay.annotate.scorers.two_pass_neighbors import TwoPassNeighbors
from nearsay.errors import InputError
from tests.estimators.test_sklearn_checks import takes_keywords
from tests.public import ESTIMATORS

KINDS = [kind for kind in ESTIMATORS.values() if takes_keywords(kind)]
SETTINGS = {
    ns.annotate.MLkNN: {"n_neighbors": 3},
}
ESTIMATORS = [kind(**SETTINGS.get(kind, {})) for kind in KINDS]
every_one = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)


def rows():
    random = np.random.default_rng(0)
    Y = np.eye(3, dtype=int)[np.arange(30) % 3]
    Y[::4, 0] = 1
    return random.normal(size=(30, 4)) + 2 * Y @ random.normal(size=(3, 4)), Y


@cache
def fitted_once(estimator):
    """To be asked only."""
    return clone(estimator).fit(*rows())


def answer(fitted, Q):
    """Whatever it is that the estimator is asked for."""
    for name in ("predict_proba", "scores", "transform"):
        if hasattr(fitted, name):
            return getattr(fitted, name)(Q)
    return fitted.neighbors(Q, 5).distances


def test_all_of_them_are_here():
    assert len(KINDS) >= 9
    assert {ns.KeywordAnnotator, ns.RankBoostNeighbors, TwoPassNeighbors} <= set(KINDS)


@every_one
@pytest.mark.parametrize(
    "check",
    [
        "check_parameters_default_constructible",
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_mixin_order",
        "check_valid_tag_types",
    ],
)
def test_scikit_learns_checks_that_need_no_labels_pass(estimator, check):
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


@pytest.mark.slow
@every_one
def test_fitting_leaves_settings_and_data_alone_and_gives_itself(estimator):
    X, Y = rows()
    given, before = (X.copy(), Y.copy()), clone(estimator)
    X.flags.writeable = Y.flags.writeable = False
    fitted = clone(estimator)
    assert fitted.fit(X, Y) is fitted
    assert fitted.n_features_in_ == 4
    assert str(fitted.get_params()) == str(before.get_params())
    np.testing.assert_array_equal(X, given[0])
    np.testing.assert_array_equal(Y, given[1])


@pytest.mark.slow
@every_one
def test_answers_are_the_same_fitted_again_from_frames_lists_or_sparse_and_after_pickling(estimator):
    X, Y = rows()
    Q = X[:7] + 0.01
    expected = answer(fitted_once(estimator), Q)
    fitted = clone(estimator).fit(X[::-1], Y[::-1]).fit(X, Y)  # what came first is forgotten
    np.testing.assert_array_equal(answer(fitted, Q), expected)
    for same_X, same_Y in (
        (pd.DataFrame(X), pd.DataFrame(Y)),
        (X.tolist(), Y.tolist()),
        (np.asfortranarray(X), csr_array(Y)),
    ):
        np.testing.assert_allclose(answer(clone(estimator).fit(same_X, same_Y), Q), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(answer(pickle.loads(pickle.dumps(fitted)), Q), expected)


@every_one
def test_each_query_is_answered_alone(estimator):
    fitted, Q = fitted_once(estimator), rows()[0][:6] + 0.01
    one_by_one = np.vstack([answer(fitted, Q[i : i + 1]) for i in range(6)])
    np.testing.assert_allclose(one_by_one, answer(fitted, Q), rtol=1e-7, atol=1e-9)


@every_one
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda X: np.where(X[3, 1] == X, np.nan, X), "nan at row 3, column 1"),
        (lambda X: np.where(X[3, 1] == X, np.inf, X), "inf at row 3, column 1"),
        (lambda X: X[:, 0], "two dimensions"),
        (lambda X: X + 1j, "complex numbers"),
        (lambda X: X[:, :0], "no columns"),
        (lambda X: csr_array(X), "sparse"),
        (lambda X: np.full(X.shape, "a"), "must hold numbers"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused_in_fit_and_in_queries(estimator, spoil, words):
    X, Y = rows()
    with pytest.raises(InputError, match=words):
        clone(estimator).fit(spoil(X), Y)
    if words != "no columns":
        with pytest.raises(InputError, match=words):
            answer(fitted_once(estimator), spoil(X))


@every_one
def test_the_wrong_width_too_few_keywords_and_too_early_questions_are_said(estimator):
    X, Y = rows()
    with pytest.raises(NotFittedError):
        answer(clone(estimator), X)
    with pytest.raises(InputError, match="3 columns, but 4 are expected"):
        answer(fitted_once(estimator), X[:, :3])
    if type(estimator) not in (
        ns.annotate.JointNeighbors,
        ns.annotate.LandmarkFeatures,
    ):  # these do not look at keywords
        with pytest.raises(InputError, match="every row needs its keywords"):
            clone(estimator).fit(X, Y[:9])
