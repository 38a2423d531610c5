"""Good citizens of scikit-learn: its own checks on every estimator, data in every form, and bad input one by one."""

from __future__ import annotations

import inspect
import json
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearsay.errors import InputError
from nearsay.learn import BoostMetric
from nearsay.metrics.probability import accuracy
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.named import CRITERIA, POSTERIORS, Auto
from nearsay.posterior.methods.proportional import SMOOTHINGS, Proportional
from nearsay.posterior.votes import TIE_RULES
from nearsay.search.exact import ExactSearch
from tests.public import ESTIMATORS, declared


def exported() -> list[BaseEstimator]:
    """Every estimator among nearsay's public names, as it comes, around a classifier of ours where it needs one.

    It learns in few steps where it takes many. Those that take keywords are left out: scikit-learn's checks pass one
    label a row. They have checks of their own, in test_keyword_estimators.py.
    """
    estimators = [kind for kind in ESTIMATORS.values() if issubclass(kind, BaseEstimator)]
    kinds = [kind for kind in estimators if not takes_keywords(kind)]
    made = [
        kind(NeighborClassifier(5, posterior="proportional")) if takes_an_estimator(kind) else kind() for kind in kinds
    ]
    return [each.set_params(max_iter=10) if "max_iter" in each.get_params() else each for each in made]


def takes_keywords(kind: type[BaseEstimator]) -> bool:
    return "Y" in inspect.signature(kind.fit).parameters


def takes_an_estimator(kind: type[BaseEstimator]) -> bool:
    return next(iter(inspect.signature(kind).parameters)) == "estimator"


OTHER_MOODS = [
    NeighborClassifier("auto", posterior="proportional"),
    NeighborClassifier(5, tie_break="random", posterior=Proportional(smoothing="add-one")),
    NeighborClassifier(5, posterior="rank", metric="auto"),  # all distances; the default above chooses everything else
    *(NeighborClassifier(3, posterior=name) for name in ("weighted", "dist&votesplit", "rank", "confmat", "pooled")),
]


def _passes(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Every class has one row")
        warnings.filterwarnings("ignore", message=".*in every feature group")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)  # after ten steps
        check(estimator)


TAKE_LONG = [each for each in exported() if isinstance(each, FusedClassifier | BoostMetric)]


@parametrize_with_checks(
    [each for each in exported() if type(each) not in map(type, TAKE_LONG)], expected_failed_checks=declared
)
def test_scikit_learns_own_checks_pass(estimator, check):
    _passes(estimator, check)


@pytest.mark.slow
@parametrize_with_checks([*TAKE_LONG, *OTHER_MOODS], expected_failed_checks=declared)
def test_so_they_do_with_other_settings_and_what_takes_long(estimator, check):
    _passes(estimator, check)


def test_the_checks_reach_the_classifiers():
    assert {NeighborClassifier, FusedClassifier} <= set(map(type, exported()))


@pytest.mark.parametrize("labels", [["b", "a", "b", "a"], [7, -2, 7, -2], [True, False, True, False]])
def test_labels_come_back_as_they_were_given(labels):
    clf = NeighborClassifier(1, posterior="proportional").fit([[0.0], [1.0], [0.1], [1.1]], labels)
    predicted = clf.predict([[0.0], [1.0]])
    assert predicted.dtype == np.asarray(labels).dtype
    assert predicted.tolist() == labels[:2]
    assert clf.classes_.tolist() == sorted(set(labels))
    json.dumps(clf.explain([[0.0]])[0].to_dict())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_go_in_and_their_columns_are_remembered(library):
    frames = pytest.importorskip(library)
    columns = {"width": [0.0, 1.0, 5.0], "height": [1.0, 1.0, 3.0]}
    frame = frames.DataFrame(columns)
    clf = NeighborClassifier(1, posterior="proportional").fit(frame, frames.Series(["a", "b", "c"]))
    assert clf.feature_names_in_.tolist() == ["width", "height"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clf.predict(frame).tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frames.DataFrame({"height": [1.0], "width": [0.0]}))


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        clf = NeighborClassifier(1, posterior="proportional").fit([[0.0], [1.0]], [[0], [1]])
    assert clf.predict([[0.9]]) == [1]


def test_one_class_and_one_row_work():
    clf = NeighborClassifier("auto", posterior="proportional").fit([[2.0, 2.0]], ["only"])
    assert clf.n_neighbors_ == 1
    assert len(clf.k_curve_.k) == 0
    assert clf.predict([[0.0, 0.0]]) == ["only"]
    assert clf.predict_proba([[0.0, 0.0]]).tolist() == [[1.0]]
    assert clf.explain([[0.0, 0.0]])[0].novelty is None
    assert NeighborClassifier(2, posterior="proportional").fit([[0.0], [1.0]], [3, 3]).predict_proba(
        [[0.0]]
    ).tolist() == [[1.0]]


def test_every_row_can_be_a_neighbor():
    clf = NeighborClassifier(4, posterior=Proportional(model_failure=0.0)).fit(
        [[0.0], [1.0], [2.0], [3.0]], [0, 0, 0, 1]
    )
    np.testing.assert_allclose(clf.predict_proba([[9.0]]), [[0.75, 0.25]])


def test_it_can_be_cloned_pickled_shown_and_searched_over():
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    clf = NeighborClassifier("auto", tie_break="first", posterior="proportional").fit(X, y)
    assert clone(clf).get_params() == clf.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict(X), clf.predict(X))
    assert "NeighborClassifier" in clf._repr_html_()
    piped = make_pipeline(StandardScaler(), NeighborClassifier(5, posterior="proportional"))
    found = GridSearchCV(piped, {"neighborclassifier__n_neighbors": [1, 3, "auto"]}, cv=3).fit(X, y)
    assert 0 <= found.best_score_ <= 1
    assert piped.fit(X, y).score(X, y) == accuracy(piped.predict(X), y)


def test_what_was_passed_in_is_not_written_to():
    X, y, search = np.arange(6.0).reshape(-1, 1), np.array(["a", "b"] * 3), ExactSearch()
    before = dict(vars(search))
    X.flags.writeable = y.flags.writeable = False
    clf = NeighborClassifier("auto", search=search, tie_break="random", random_state=1, posterior="proportional").fit(
        X, y
    )
    clf.explain(X)
    assert vars(search) == before


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, bool])
def test_numbers_of_any_type_are_held_as_they_are(dtype):
    X = np.array([[0, 0], [1, 1], [1, 0]]).astype(dtype)
    clf = NeighborClassifier(1, posterior="proportional").fit(X, [0, 1, 2])
    assert clf.predict(X).tolist() == [0, 1, 2]


# ---------------------------------------------------------------- bad input, one by one

ROWS, LABELS = np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1]


def fit(**options: Any) -> NeighborClassifier:
    return NeighborClassifier(**options).fit(ROWS, LABELS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    rows = ROWS.copy()
    rows[2, 1] = bad
    with pytest.raises(ValueError, match=f"X holds {bad} at row 2, column 1"):
        NeighborClassifier(1, posterior="proportional").fit(rows, LABELS)
    with pytest.raises(ValueError, match=f"X holds {bad} at row 2, column 1"):
        fit().predict(rows)


def test_queries_of_another_width_are_refused_with_both_widths():
    with pytest.raises(ValueError, match="3 features, but NeighborClassifier is expecting 2 features"):
        fit().predict(np.ones((1, 3)))


def test_no_queries_give_no_answers_of_the_right_shapes():
    clf = NeighborClassifier(2, posterior="proportional").fit(ROWS, ["a", "b"] * 3)
    none = np.empty((0, 2))
    assert clf.predict(none).shape == (0,)
    assert clf.predict(none).dtype == clf.classes_.dtype
    assert clf.predict_proba(none).shape == (0, 2)
    found = clf.explain(none)
    assert list(found) == []
    assert found.probabilities.shape == (0, 2)


def test_more_neighbors_than_rows_are_refused_with_both_numbers():
    with pytest.raises(InputError, match=r"n_neighbors=7, but there are n_samples=6 rows"):
        fit(n_neighbors=7)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "best"])
def test_a_number_of_neighbors_that_is_none_is_refused(k):
    with pytest.raises(InputError, match=r'whole number of at least 1, or "auto"; got .*'):
        fit(n_neighbors=k)


@pytest.mark.parametrize(
    ("option", "settings", "table"),
    [
        ("posterior", {"posterior": "nobody"}, POSTERIORS),
        ("tie_break", {"tie_break": "nobody"}, TIE_RULES),
        ("smoothing", {"posterior": Proportional(smoothing="nobody")}, SMOOTHINGS),
        ("criterion", {"posterior": Auto(criterion="nobody")}, CRITERIA),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(option, settings, table):
    with pytest.raises(InputError) as raised:
        fit(**settings)
    assert f"Unknown {option} 'nobody'" in str(raised.value)
    assert all(name in str(raised.value) for name in table)


@pytest.mark.parametrize("posterior", [3, None, object(), StandardScaler()])
def test_a_posterior_that_is_neither_name_nor_object_is_refused(posterior):
    with pytest.raises(InputError, match="object with fit"):
        fit(posterior=posterior)


@pytest.mark.parametrize("model_failure", [-0.1, 1.0, 1.5, np.nan, np.inf, "little", None, True])
def test_a_model_failure_that_is_no_share_is_refused(model_failure):
    with pytest.raises(InputError, match="from 0 up to but not including 1"):
        fit(posterior=Proportional(model_failure=model_failure))


@pytest.mark.parametrize("option", ["metric", "search"])
def test_an_unknown_metric_or_search_is_refused(option):
    with pytest.raises(InputError, match="nobody"):
        fit(**{option: "nobody"})


def test_sparse_rows_are_refused_with_the_remedy():
    from scipy.sparse import csr_matrix

    with pytest.raises(TypeError, match="toarray"):
        NeighborClassifier(1, posterior="proportional").fit(csr_matrix(ROWS), LABELS)


def test_labels_that_are_no_classes_are_refused():
    with pytest.raises(ValueError, match="Unknown label type"):
        NeighborClassifier(1, posterior="proportional").fit(ROWS, np.linspace(0, 1, 6))
    with pytest.raises(ValueError, match="requires y to be passed"):
        NeighborClassifier(1, posterior="proportional").fit(ROWS, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        NeighborClassifier(1, posterior="proportional").fit(ROWS, LABELS[:-1])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "explain", "neighbors"])
def test_asking_before_fit_is_refused(method):
    with pytest.raises(NotFittedError):
        getattr(NeighborClassifier(5, posterior="proportional"), method)(ROWS)
