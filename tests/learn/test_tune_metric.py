"""Tuning a metric: the grid, the rows held out, the votes, and what comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearsay.errors import InputError
from nearsay.learn import tuning
from nearsay.learn.boost_metric import BoostMetric
from nearsay.learn.tuning import held_out_rows, neighbor_accuracy, tune_metric
from tests.reference.learn.boost_metric import majority


class Stretched(TransformerMixin, BaseEstimator):
    """The first column as it is, the second times ``by``; remembers how many rows it was fitted on."""

    def __init__(self, by: float = 1.0) -> None:
        self.by = by

    def fit(self, X, y):
        self.n_rows_ = len(X)
        return self

    def transform(self, X):
        return np.asarray(X) * [1.0, self.by]


def striped(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The second column says the class, quietly; the first says nothing, loudly."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return np.column_stack([random.normal(size=n) * 20, y + random.normal(size=n) / 5]), y


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=3, max_size=12),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_accuracy_is_that_of_votes_counted_one_by_one(rows, queries, k):
    X, labels = np.array([[float(x)] for x, _ in rows]), np.array([label for _, label in rows])
    right = 0
    for x, truth in queries:
        order = sorted(range(len(X)), key=lambda row: (abs(X[row, 0] - x), row))
        right += majority([int(labels[row]) for row in order[:k]]) == truth
    Q, truths = np.array([[float(x)] for x, _ in queries]), np.array([truth for _, truth in queries])
    assert neighbor_accuracy(X, labels, Q, truths, k) == right / len(queries)


def test_accuracy_does_not_depend_on_blocks():
    """For sixty neighbors each, votes of 1165 queries are counted at once."""
    X, y = striped()
    whole = neighbor_accuracy(X[:60], y[:60], X[60:], y[60:], 60)
    Q, truth = np.tile(X[60:], (50, 1)), np.tile(y[60:], 50)
    assert neighbor_accuracy(X[:60], y[:60], Q, truth, 60) == pytest.approx(whole)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.floats(0.01, 0.99), st.integers(0, 5))
def test_of_every_class_its_share_is_held_out_and_one_row_stays(labels, share, seed):
    labels = np.array(labels)
    held_out = held_out_rows(labels, share, np.random.RandomState(seed))
    for label in set(labels.tolist()):
        size = int((labels == label).sum())
        assert held_out[labels == label].sum() == min(round(share * size), size - 1)


def test_the_best_setting_wins_and_euclidean_stands_beside_it():
    X, y = striped()
    tuned = tune_metric(Stretched(), X, y, {"by": [0.0, 1.0, 1000.0, 2000.0]}, n_neighbors=5, random_state=0)
    by = (0.0, 1.0, 1000.0, 2000.0)
    assert [row["settings"] for row in tuned.table] == [{}, {"pull": 1.0}, *({"by": value} for value in by)]
    assert [row["metric"] for row in tuned.table] == ["Euclidean", "WithinClassWhitening", *["Stretched"] * 4]
    assert tuned.table[0]["accuracy"] == tuned.table[3]["accuracy"] == tuned.euclidean
    kept = tune_metric(Stretched(), X, y, {"by": by}, n_neighbors=5, random_state=0, keep_learner=True)
    assert (kept.metric, kept.settings) == ("Stretched", {"by": 1000.0})  # 2000 is no better, and comes later
    assert kept.table == [row for row in tuned.table if row["metric"] != "WithinClassWhitening"]
    assert tuned.accuracy == max(row["accuracy"] for row in tuned.table)
    assert tuned.gain == tuned.accuracy - tuned.euclidean > 0.3


def test_the_best_is_fitted_again_on_all_rows_unless_validation_rows_were_passed():
    X, y = striped(90)
    held_out = tune_metric(Stretched(), X, y, {"by": [1.0]}, random_state=0, keep_learner=True)
    assert held_out.best_.n_rows_ == 90
    valid = {"X_valid": X[60:], "y_valid": y[60:]}
    passed = tune_metric(Stretched(), X[:60], y[:60], {"by": [1.0]}, **valid, keep_learner=True)
    assert passed.best_.n_rows_ == 60
    assert passed.euclidean == neighbor_accuracy(X[:60], y[:60], X[60:], y[60:], 20)


def test_a_third_of_each_class_is_held_out_and_never_learned_from():
    seen = []

    class Noting(Stretched):
        def fit(self, X, y):
            seen.append((X, y))
            return self

    X, y = striped(90)
    tune_metric(Noting(), X, y, {"by": [1.0, 2.0]}, random_state=4, keep_learner=True)
    assert [len(rows) for rows, _ in seen] == [60, 60, 90]
    assert np.bincount(seen[0][1]).tolist() == [20, 20, 20]
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    seen.clear()
    tune_metric(Noting(), X[:60], y[:60], {"by": [1.0, 2.0]}, X_valid=X[60:], y_valid=y[60:], keep_learner=True)
    assert [len(rows) for rows, _ in seen] == [60, 60]  # nothing was held out, so nothing is fitted again


def test_each_candidate_is_searched_once(monkeypatch):
    searches = []
    search = tuning.nearest
    monkeypatch.setattr(tuning, "nearest", lambda *given: searches.append(given) or search(*given))
    tune_metric(Stretched(), *striped(), {"by": [1.0, 2.0, 3.0]}, random_state=0)
    assert len(searches) == 5  # Euclidean, whitening and three settings


LEARNERS = [Stretched(0.0), LinearDiscriminantAnalysis(), BoostMetric(random_state=0)]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("passed", [False, True])
def test_what_comes_back_is_never_worse_than_euclidean_and_leaves_rows_alone_where_nothing_gains(learner, seed, passed):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(90, 2)), np.arange(90) % 3  # the label is chance: no metric can help
    valid = {"X_valid": X[60:], "y_valid": y[60:]} if passed else {"random_state": seed}
    tuned = tune_metric(learner, X[:60], y[:60], {}, n_neighbors=5, **valid)
    assert tuned.gain >= 0
    assert tuned.accuracy == max(row["accuracy"] for row in tuned.table)
    first = next(row for row in tuned.table if row["accuracy"] == tuned.accuracy)
    assert (tuned.metric, tuned.settings) == (first["metric"], first["settings"])
    if tuned.gain == 0:
        assert tuned.metric == "Euclidean"
        np.testing.assert_array_equal(tuned.best_.transform(X), X)


def test_rows_stay_as_they_are_where_a_learner_only_harms():
    random, y = np.random.default_rng(0), np.arange(90) % 3
    X = np.column_stack([10.0 * y, random.normal(size=90)])  # the first column tells all; the learner hides it
    tuned = tune_metric(Stretched(), X, y, {"by": [1e5]}, n_neighbors=5, random_state=0)
    assert tuned.table[2]["accuracy"] < tuned.euclidean == 1.0
    assert (tuned.metric, tuned.settings, tuned.gain) == ("Euclidean", {}, 0.0)
    np.testing.assert_array_equal(tuned.best_.transform(X), X)
    kept = tune_metric(Stretched(), X, y, {"by": [1e5]}, n_neighbors=5, random_state=0, keep_learner=True)
    assert kept.metric == "Stretched"
    assert kept.gain < 0


def test_whitening_is_tried_before_the_grid_and_kept_where_no_setting_is_better():
    X, y = striped(200)
    tuned = tune_metric(Stretched(), X, y, {"by": [0.5, 1.0]}, n_neighbors=5, random_state=0)
    assert (tuned.metric, tuned.settings) == ("WithinClassWhitening", {"pull": 1.0})
    assert tuned.gain > 0.2
    assert tuned.best_.pull == 1.0


@pytest.mark.parametrize(
    ("learner", "grid"),
    [
        (BoostMetric(random_state=0), {"near": [(3, 10), (10, 30)]}),
        (NeighborhoodComponentsAnalysis(random_state=0, max_iter=20), {"n_components": [1, 2]}),
        (LinearDiscriminantAnalysis(), [{"solver": ["svd"]}, {"solver": ["eigen"], "shrinkage": [0.1, 0.5]}]),
        (make_pipeline(StandardScaler(), BoostMetric(random_state=0)), {"boostmetric__start": ["identity", "zero"]}),
        (LinearDiscriminantAnalysis(), {}),
    ],
)
def test_any_transformer_can_be_tuned_and_is_left_alone(learner, grid):
    X, y = load_wine(return_X_y=True)
    before = repr(learner)
    tuned = tune_metric(learner, X, y, grid, random_state=0, keep_learner=True)
    assert repr(learner) == before
    assert not hasattr(learner, "n_features_in_")
    assert tuned.gain > 0.1
    assert {name: tuned.best_.get_params()[name] for name in tuned.settings} == tuned.settings


def test_the_same_seed_gives_the_same_table_with_names_as_labels():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    numbers, words = (
        tune_metric(clone(LinearDiscriminantAnalysis()), X, labels, {"n_components": [1, 2]}, random_state=5)
        for labels in (y, names)
    )
    assert numbers.table == words.table


def test_more_neighbors_than_rows_means_all_rows():
    X, y = striped(12)
    tuned = tune_metric(Stretched(), X, y, {"by": [1.0]}, n_neighbors=50, random_state=0)
    assert 0 <= tuned.accuracy <= 1


@pytest.mark.parametrize(
    ("given_settings", "words"),
    [
        ({"n_neighbors": 0}, "at least 1"),
        ({"n_neighbors": 2.5}, "whole number"),
        ({"validation_fraction": 0.0}, r"in the range \(0, 1\)"),
        ({"validation_fraction": 0.001}, "No row can be held out"),
        ({"X_valid": [[0.0, 0.0]]}, "both X_valid and y_valid"),
    ],
)
def test_what_cannot_be_tuned_is_said(given_settings, words):
    with pytest.raises(InputError, match=words):
        tune_metric(Stretched(), *striped(), {"by": [1.0]}, **given_settings)


def test_an_unknown_setting_is_said():
    with pytest.raises(ValueError, match="byy"):
        tune_metric(Stretched(), *striped(), {"byy": [1.0]})


def test_a_grid_without_settings_is_said():
    with pytest.raises(InputError, match="holds no settings"):
        tune_metric(Stretched(), *striped(), [])
