"""Choosing posterior, k, distances and groups by past cases: what was tried, what won, and that nobody peeked."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearsay.data.datasets import load_dataset
from nearsay.posterior.choice import candidate_views
from nearsay.posterior.choice import model_choice as choice
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.fusion import Fusion, left_out_folds
from nearsay.posterior.methods.named import FEW, POSTERIORS
from nearsay.posterior.views.model_beside import COMPANIONS
from nearsay.posterior.views.row_transforms import STANDARDIZED, STANDARDIZED_MANHATTAN, WHITENED
from tests.labeled import letters_apart


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    rows = load_dataset("iris")
    return rows.X, rows.y


def test_all_ways_are_tried_and_the_table_says_which_was_taken(iris):
    clf = NeighborClassifier("auto", posterior="auto", metric="auto").fit(*iris)
    best = clf.choices_.chosen
    assert clf.choices_[0].log_posterior == max(one.log_posterior for one in clf.choices_)
    assert type(clf.posterior_) is POSTERIORS[best.posterior]
    if best.n_neighbors is not None:
        assert clf.n_neighbors_ == best.n_neighbors
    assert {one.posterior for one in clf.choices_} == set(POSTERIORS)
    tried = {name for one in clf.choices_ for name in one.distances}
    transforms = STANDARDIZED, STANDARDIZED_MANHATTAN, *WHITENED
    of_numbers = {*COMPANIONS} - {"boosting"}
    assert tried == {*candidate_views.DISTANCES_TO_TRY, *(each.name for each in transforms), *of_numbers}
    assert max(len(one.distances) for one in clf.choices_) == len(tried)  # all of them pooled
    lines = str(clf.choices_).splitlines()
    assert lines[0] == "chosen by the log posterior of 150 past cases"
    assert [line.split()[1] for line in lines if line.startswith("* ")] == [best.posterior]
    assert clf.choices_._repr_html_().count("<tr>") == len(clf.choices_) + 1
    assert [row["posterior"] for row in clf.choices_.rows() if row["chosen"]] == [best.posterior]


def test_what_is_given_is_not_chosen(iris):
    clf = NeighborClassifier(7, posterior="rank", metric="auto").fit(*iris)
    assert clf.n_neighbors_ == 7
    assert {one.posterior for one in clf.choices_} == {"rank"}
    clf = NeighborClassifier(7, posterior="auto", metric="manhattan").fit(*iris)
    assert {one.distances for one in clf.choices_} == {("manhattan",)}
    assert {one.n_neighbors for one in clf.choices_} == {7, None}


def test_a_distance_that_the_rows_do_not_allow_is_not_tried(iris):
    X, y = iris
    tried = {one.distances[0] for one in NeighborClassifier(5, posterior="rank", metric="auto").fit(X - 3, y).choices_}
    assert "hellinger" not in tried
    assert "euclidean" in tried
    nothing = X.copy()
    nothing[5] = 0.0
    tried = {
        one.distances[0] for one in NeighborClassifier(5, posterior="rank", metric="auto").fit(nothing, y).choices_
    }
    assert "cosine" not in tried


def test_a_query_that_a_chosen_distance_cannot_measure_is_answered_by_the_others(iris):
    X, y = iris
    base = NeighborClassifier(5, posterior="pooled", metric="auto")
    fused = FusedClassifier({"sepal": slice(0, 2), "petal": slice(2, 4)}, base).fit(X, y)
    p = fused.predict_proba([[5.0, 3.5, 0.0, 0.0], [-1.0, 3.5, 1.4, 0.2]])
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)


def test_a_group_that_clearly_does_harm_is_left_out():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    X = np.hstack([y[:, None] + 0.5 * rng.normal(size=(600, 1)), rng.normal(size=(600, 2))])
    groups = {"tells": slice(0, 1), "noise": slice(1, 3)}
    fused = FusedClassifier(groups, NeighborClassifier("auto", posterior="proportional")).fit(X, y)
    assert {view.group for view in fused.views_} == {"tells"}
    assert ("tells",) in {one.groups for one in fused.choices_}


def test_a_case_is_judged_by_posteriors_that_never_saw_it():
    # Labels at random: a table of cases that held the case itself would do better than chance.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    for posterior in POSTERIORS:
        clf = NeighborClassifier(5, posterior=posterior, metric="auto").fit(X, y)
        assert all(one.log_posterior < np.log(0.5) + 0.02 for one in clf.choices_), posterior


def test_every_case_is_asked_once_and_never_among_its_teachers():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 83)
    index = NeighborClassifier(3, posterior="rank").fit(rng.normal(size=(83, 2)), labels)
    table = index.model_.views.leave_one_out(3, (1,))
    taught: list[np.ndarray] = []

    class Noting(Fusion):
        def fit(self, tables, labels, n_classes, rows=None, *, has_class=None):  # type: ignore[no-untyped-def]
            taught.append(rows)
            return super().fit(tables, labels, n_classes, rows, has_class=has_class)

    asked = [rows for rows, _ in left_out_folds(Noting(POSTERIORS["rank"]()), [table], labels, 4, np.arange(83), None)]
    assert sorted(np.concatenate(asked)) == list(range(83))
    assert all(not np.isin(a, t).any() for a, t in zip(asked, taught, strict=True))


@pytest.mark.slow
def test_a_large_collection_is_chosen_by_some_of_its_cases(iris):
    X, y = (np.tile(part, reps) for part, reps in zip(iris, ((36, 1), 36), strict=True))
    clf = NeighborClassifier(5, posterior="auto").fit(X + 0.1 * np.random.default_rng(0).normal(size=X.shape), y)
    assert clf.choices_.n_cases == choice.CASES_TO_CHOOSE_BY < len(X)


def test_what_is_clearly_worse_than_the_pool_is_tried_with_one_number_of_neighbors_alone(iris):
    tried = {}
    for name, (X, y) in {"close": iris, "clear": load_wine(return_X_y=True)}.items():
        choices = NeighborClassifier().fit(X, y).choices_
        tried[name] = sorted(one.n_neighbors for one in choices if one.posterior == "weighted")
    assert tried == {"close": list(choice.NEIGHBORS_TO_TRY), "clear": [8]}


def test_items_that_are_not_vectors_can_be_chosen_for():
    words, kinds = ["aaa", "aab", "aba", "zzz", "zzy", "zyz"], ["early"] * 3 + ["late"] * 3
    clf = NeighborClassifier(1, posterior="auto", metric=letters_apart).fit(words, kinds)
    assert clf.predict(["abb", "yzz"]).tolist() == ["early", "late"]
    assert {one.posterior for one in clf.choices_} == set(FEW)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_collection_of_a_few_rows_is_answered_all_the_same(n):
    X, y = np.arange(n, dtype=float)[:, None] + 1, np.arange(n)
    clf = NeighborClassifier("auto", posterior="auto", metric="auto").fit(X, y)
    assert clf.predict(X[:1]) == [0]
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1, atol=1e-12)
