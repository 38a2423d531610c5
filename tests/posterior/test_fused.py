"""Several feature groups, one answer: the product, its exponents, missing groups, priors, ties and evidence."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearsay.data.datasets import load_dataset
from nearsay.errors import InputError
from nearsay.neighbors.index import NeighborIndex
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.base import folds
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.fused_model import settle_ties
from nearsay.posterior.methods.fusion import Fusion, left_out_folds
from nearsay.posterior.methods.named import POSTERIORS
from tests.labeled import labeled_rows, queries_for
from tests.public import declared
from tests.reference import fusion as reference_fusion

HALVES = True

TWO = {"one": slice(0, 1), "two": slice(1, 2)}


def iris(n: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rows = load_dataset("iris")
    return rows.X[:n], rows.y[:n]


@pytest.mark.slow
@parametrize_with_checks(
    [
        FusedClassifier(estimator=NeighborClassifier(3, posterior="rank&votesplit"), exponents="learned"),
        FusedClassifier(estimator=NeighborClassifier(3, posterior="pooled", metric=["euclidean", "manhattan"])),
    ],
    expected_failed_checks=declared,
)
def test_the_fused_classifier_passes_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Every class has one row")
        warnings.filterwarnings("ignore", message=".*in every feature group")
        check(estimator)


@given(data=labeled_rows(smallest=3), posterior=st.sampled_from([name for name in POSTERIORS if name != "pooled"]))
@settings(max_examples=40)
def test_the_answer_is_the_product_of_what_each_group_says(data, posterior):
    X, y = data
    if np.bincount(y).max() == 1:
        return
    X = np.hstack([X[:, :1], X[:, :1] - 2 * X[:, -1:]])
    Q, base = queries_for(X), NeighborClassifier(2, posterior=posterior)
    fused = FusedClassifier(TWO, base).fit(X, y)
    alone = [clone(base).fit(X[:, columns], y) for columns in TWO.values()]
    each = [
        clf.posterior_.proba(clf.neighbors(Q[:, columns])) for clf, columns in zip(alone, TWO.values(), strict=True)
    ]
    expected = [reference_fusion.product([p[i] for p in each], [1.0, 1.0]) for i in range(len(Q))]
    np.testing.assert_allclose(fused.predict_proba(Q), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fused.predict_proba(Q).sum(axis=1), 1, atol=1e-12)
    assert (fused.classes_[fused.predict_proba(Q).argmax(axis=1)] == fused.predict(Q)).all()


@pytest.mark.parametrize("posterior", [*POSTERIORS, "auto"])
def test_a_missing_group_has_no_say_and_a_row_without_it_is_no_neighbor_there(posterior):
    X, y = iris()
    groups = {"sepal": slice(0, 2), "petal": slice(2, 4)}
    lacking = X.copy()
    lacking[::3, :2] = np.nan
    fused = FusedClassifier(groups, NeighborClassifier(3, posterior=posterior)).fit(lacking, y)
    sepal = next(view for view in fused.views_ if view.group == "sepal") if posterior != "auto" else None
    if sepal is not None:
        table = fused.neighbors(X)[fused.views_.index(sepal)]
        assert not np.isin(table.indices, np.arange(0, 150, 3)).any()
        assert (fused.neighbors(lacking)[fused.views_.index(sepal)].indices[::3] == -1).all()
    if posterior not in ("pooled", "auto"):
        petal = NeighborClassifier(3, posterior=posterior).fit(X[:, 2:], y)
        expected = petal.posterior_.proba(petal.neighbors(X[::3, 2:]))
        np.testing.assert_allclose(fused.predict_proba(lacking[::3]), expected, atol=1e-12)
    nothing = np.full((1, 4), np.nan)
    np.testing.assert_allclose(fused.predict_proba(nothing), 1 / 3, atol=1e-9)


def test_a_class_that_no_row_shows_in_a_group_is_not_harmed_by_it():
    X = np.array([[0.0, 0.0], [0.1, 0.1], [5.0, 5.0], [5.1, 5.1], [9.0, np.nan], [9.1, np.nan]])
    for posterior in ("proportional", "pooled"):
        fused = FusedClassifier(TWO, NeighborClassifier(2, posterior=posterior)).fit(X, [0, 0, 1, 1, 2, 2])
        assert fused.predict([[9.05, 2.5]]) == [2]


def test_learned_exponents_keep_a_group_that_is_said_twice_from_counting_twice():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = 1.2 * np.eye(3)[y][:, [0, 1, 1, 2]] + rng.normal(size=(300, 4))  # both halves tell something
    twice = np.hstack([X[:, :2], X[:, :2], X[:, 2:]])
    groups = {"a": slice(0, 2), "b": slice(2, 4), "c": slice(4, 6)}
    base = NeighborClassifier(9, posterior="rank&votesplit")
    learned = FusedClassifier(groups, base, exponents="learned").fit(twice, y)
    plain = FusedClassifier({"a": slice(0, 2), "c": slice(4, 6)}, base, exponents="learned").fit(twice, y)
    assert learned.exponents_[0] == pytest.approx(learned.exponents_[1])
    assert 0 < learned.exponents_[0] < plain.exponents_[0]
    assert (learned.exponents_ >= 0).all()


def test_a_group_of_noise_gets_a_small_exponent():
    X, y = iris()
    noisy = np.hstack([X, np.random.default_rng(0).normal(size=(150, 2))])
    groups = {"petal": slice(2, 4), "noise": slice(4, 6)}
    fused = FusedClassifier(groups, NeighborClassifier(5, posterior="proportional"), exponents="learned").fit(noisy, y)
    assert fused.exponents_[1] < 0.5 * fused.exponents_[0]


def test_priors_multiply_the_answer():
    X, y = (each[::2] for each in iris())
    groups = {"sepal": slice(0, 2), "petal": slice(2, 4)}

    def fused(priors):
        return FusedClassifier(groups, NeighborClassifier(5, posterior="pooled", priors=priors)).fit(X, y)

    plain, given = (fused(priors).predict_proba(X[::7]) for priors in (None, [1.0, 1.0, 8.0]))
    expected = plain * [0.1, 0.1, 0.8]
    np.testing.assert_allclose(given, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
    named = fused(dict(zip(np.unique(y), [1.0, 1.0, 8.0], strict=True)))
    np.testing.assert_array_equal(named.predict_proba(X[::7]), given)


def test_a_hundred_groups_and_ten_thousand_classes_do_not_underflow():
    n_classes = 10_000
    labels = np.arange(n_classes)
    rng = np.random.default_rng(0)
    tables = [NeighborTable(rng.integers(0, n_classes, (3, 5)), np.ones((3, 5))) for _ in range(100)]
    fusion = Fusion(POSTERIORS["proportional"]()).fit([None] * 100, labels, n_classes)
    p = fusion.proba(tables)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    certain = Fusion(POSTERIORS["proportional"](model_failure=0.0)).fit([None] * 100, labels, n_classes)
    assert np.isfinite(certain.proba(tables)).all()


@pytest.mark.parametrize("shown", [[True, True, True], [True, False, True]])
def test_the_product_of_one_group_is_what_that_group_says(shown):
    labels = np.array([0, 0, 1, 2])
    table = NeighborTable(np.array([[0, 1, 3], [2, 3, 0], [-1, -1, -1]]), np.ones((3, 3)))
    votes = POSTERIORS["proportional"](model_failure=0.0)
    p = Fusion(votes).fit([None], labels, 3, has_class=np.array([shown])).proba([table])
    said = np.array([[2 / 3, 0, 1 / 3], [1 / 3, 1 / 3, 1 / 3], [1 / 3, 1 / 3, 1 / 3]])
    said[:2, ~np.array(shown)] = 1 / 3  # of a class that no row shows in the group it says nothing
    np.testing.assert_allclose(p, said / said.sum(axis=1, keepdims=True), atol=1e-15)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_past_cases_come_with_classes_only_for_who_asks_for_them(posterior):
    X, y = np.arange(30.0)[:, None], np.arange(30) % 3
    table = NeighborIndex().fit(X).with_labels(y).leave_one_out(5, (1, 2, 4))
    asks = POSTERIORS[posterior]().members is not None
    for _, (asked,) in left_out_folds(Fusion(POSTERIORS[posterior]()), [table], y, 3, np.arange(30), None):
        assert (asked.classes is not None) == asks


@pytest.mark.parametrize("posterior", ["proportional", "rank&votesplit", "confmat", "pooled"])
def test_answers_do_not_depend_on_the_batch_or_on_class_order(posterior):
    X, y = iris()
    groups = {"sepal": slice(0, 2), "petal": slice(2, 4)}
    fused = FusedClassifier(groups, NeighborClassifier(5, posterior=posterior)).fit(X, y)
    p = fused.predict_proba(X)
    np.testing.assert_array_equal(np.vstack([fused.predict_proba(X[i : i + 1]) for i in range(0, 150, 10)]), p[::10])
    renamed = np.array([{"setosa": "z", "versicolor": "y", "virginica": "x"}[str(name)] for name in y])
    other = FusedClassifier(groups, NeighborClassifier(5, posterior=posterior)).fit(X, renamed)
    np.testing.assert_allclose(other.predict_proba(X)[:, ::-1], p, atol=1e-12)


def test_a_tie_goes_to_the_class_that_is_nearest_in_all_groups_together():
    labels = np.array([0, 1, 2, 3])
    # Class 3 is second in both groups, though in other units; 0 and 1 are first in one and last in the other.
    far = np.array([[1.0, 1.5, 3.0, 4.0]])
    tables = [NeighborTable(np.array([[0, 3, 2, 1]]), far), NeighborTable(np.array([[1, 3, 2, 0]]), 100 * far)]
    for tie_break, winner in (("nearest", 3), ("first", 0)):
        p = np.full((1, 4), 0.25)
        assert settle_ties(p, tables, labels, tie_break, 0) == [winner]
        assert p.argmax() == winner


def test_leave_one_out_probabilities_are_those_of_a_fit_without_the_row():
    X, y = iris()
    fused = FusedClassifier(
        {"sepal": slice(0, 2), "petal": slice(2, 4)}, NeighborClassifier(5, posterior="proportional")
    ).fit(X, y)
    p = fused.leave_one_out_proba()
    for row in range(0, 150, 17):
        others = np.arange(150) != row
        again = clone(fused).fit(X[others], y[others]).predict_proba(X[row : row + 1])[0]
        np.testing.assert_allclose(p[row], again, atol=1e-12)


@pytest.mark.parametrize("posterior", ["rank&votesplit", "pooled"])
def test_evidence_speaks_for_every_group_and_is_plain_data(posterior):
    X, y = iris()
    groups = {"sepal": slice(0, 2), "petal": slice(2, 4)}
    fused = FusedClassifier(groups, NeighborClassifier(5, posterior=posterior)).fit(X, y)
    query = X[[75]].copy()
    whole, partly = fused.explain(query)[0], fused.explain(np.where([True, True, False, False], np.nan, query))[0]
    assert json.loads(json.dumps(whole.to_dict()))["label"] == whole.label == fused.predict(query)[0]
    assert "sepal (euclidean)" in whole.text
    assert "times as likely as" in whole.text
    assert "past cases with a probability like this" in whole.text
    assert "sepal (euclidean): missing" in partly.text
    assert partly.groups[0].neighbors == []
    assert "<table>" in whole._repr_html_()
    odds = np.prod([group.factor for group in whole.groups])
    first, second = list(whole.probabilities.values())[:2]
    if posterior != "pooled":  # which also spreads a little evenly
        assert odds == pytest.approx(first / second, rel=1e-9)


def test_folds_share_out_every_class():
    labels = np.random.default_rng(0).integers(0, 3, 50)
    for label in range(3):
        counts = np.bincount(folds(labels)[labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(
    ("settings_of", "words"),
    [
        ({"feature_groups": {}}, "must name groups"),
        ({"feature_groups": {"a": slice(0, 9)}}, "columns 0 … 3"),
        ({"feature_groups": {"a": [7]}}, "columns 0 … 3"),
        ({"feature_groups": {"a": ["width"]}}, "columns 0 … 3"),
        ({"estimator": "knn"}, "NeighborClassifier"),
        ({"exponents": "lerned"}, "did you mean 'learned'"),
        ({"estimator": NeighborClassifier(priors=[1.0, 2.0])}, "each of the 3 classes"),
        ({"estimator": NeighborClassifier(priors=[1.0, 0.0, 2.0])}, "above 0"),
        ({"estimator": NeighborClassifier(priors={"setosa": 1.0})}, "every class"),
        ({"estimator": NeighborClassifier(5, posterior="rnak")}, "did you mean 'rank'"),
        ({"estimator": NeighborClassifier(1000, posterior="proportional")}, "n_samples=30"),
    ],
)
def test_bad_settings_are_said(settings_of, words):
    X, y = (each[::5] for each in iris())
    with pytest.raises(InputError, match=words):
        FusedClassifier(**settings_of).fit(X, y)


def test_rows_without_any_group_are_left_aside_and_groups_without_any_row_refused():
    X, y = iris()
    X = X.copy()
    X[3] = np.nan
    with pytest.warns(UserWarning, match="row 3 first"):
        fused = FusedClassifier({"sepal": slice(0, 2), "petal": slice(2, 4)}).fit(X, y)
    assert not (fused.neighbors(iris()[0])[0].indices == 3).any()
    X = iris()[0].copy()
    X[:, 0] = np.nan
    with pytest.raises(InputError, match="No row has the feature group 'sepal'"):
        FusedClassifier({"sepal": slice(0, 2), "petal": slice(2, 4)}).fit(X, y)


def test_columns_may_be_named():
    import pandas as pd

    X, y = iris()
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    by_name = FusedClassifier({"petal": ["pl", "pw"]}).fit(frame, y)
    np.testing.assert_array_equal(by_name.predict(frame), FusedClassifier({"petal": [2, 3]}).fit(X, y).predict(X))


def test_a_posterior_of_the_users_own_serves_every_group():
    class NearestAlone:
        def fit(self, table, labels, n_classes):
            self.labels, self.n_classes = labels, n_classes
            return self

        def proba(self, table):
            return np.eye(self.n_classes)[self.labels[table.indices[:, 0]]]

    X, y = iris()
    fused = FusedClassifier({"petal": slice(2, 4)}, NeighborClassifier(3, posterior=NearestAlone())).fit(X, y)
    assert (fused.predict(X) == y).mean() > 0.95
