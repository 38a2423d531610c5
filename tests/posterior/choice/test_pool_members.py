"""Members of a pool that do not pay are dropped, and are not asked by queries."""

from collections.abc import Iterator
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import nearsay as ns
from nearsay.posterior.methods.pool import log_linear
from nearsay.posterior.methods.pool.log_linear import Cases
from nearsay.posterior.methods.pool.pool_members import TaughtFold, members_that_pay
from nearsay.posterior.views.views import Views
from tests.saving import saved_and_opened

X, y = load_iris(return_X_y=True)


def made_up_fold(seed: int, n_weights: int, n_cases: int, *, weighted: bool) -> TaughtFold:
    random = np.random.default_rng(seed)
    root = random.normal(size=(n_weights, n_weights))
    worth = random.integers(1, 4, size=n_cases).astype(float) if weighted else None
    features = random.normal(size=(n_cases, 3, n_weights))
    cases = Cases(features, np.log(random.integers(1, 3, size=(n_cases, 3))), random.integers(0, 3, n_cases), worth)
    return TaughtFold(random.normal(size=n_weights), root @ root.T + np.eye(n_weights), cases)


def losses_without(folds: list[TaughtFold], dropped: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Case by case, with weights that are searched step by step; and how much each case counts."""
    lost, worth = [], []
    for fold in folds:
        kept = [place for place in range(len(fold.weights)) if place not in dropped]

        def at(some: np.ndarray, fold: TaughtFold = fold, kept: list[int] = kept) -> np.ndarray:
            weights = np.zeros(len(fold.weights))
            weights[kept] = some
            return weights

        def rise(some: np.ndarray, fold: TaughtFold = fold, at=at) -> float:
            moved = at(some) - fold.weights
            return float(moved @ fold.curvature @ moved)

        weights = at(minimize(rise, fold.weights[kept], tol=1e-12).x)
        for case in range(len(fold.held_out)):
            scores = fold.held_out.offsets[case] - fold.held_out.features[case] @ weights
            p = np.exp(scores) / np.exp(scores).sum()
            lost.append(-np.log(0.98 * p[fold.held_out.truth[case]] + 0.02 / 3))
            worth.append(1.0 if fold.held_out.worth is None else fold.held_out.worth[case])
    return np.array(lost), np.array(worth)


@given(seed=st.integers(0, 1000), weighted=st.booleans(), missed=st.sampled_from([0.005, 0.5]))
@settings(max_examples=6, deadline=None)
def test_members_are_dropped_one_by_one_while_they_are_not_missed(seed, weighted, missed):
    folds = [made_up_fold(seed, 5, 6, weighted=weighted), made_up_fold(seed + 1, 5, 4, weighted=weighted)]
    columns = [np.array([0, 1]), np.array([2]), np.array([3])]  # the last weight is the size's, of no member
    members = members_that_pay(folds, columns, failure=0.02, n_classes=3, missed=missed)
    worth = losses_without(folds, [])[1]

    def lost(dropped: list[int]) -> np.ndarray:
        return losses_without(folds, [int(place) for member in dropped for place in columns[member]])[0]

    idle: list[int] = []
    while True:
        without = {other: worth @ lost([*idle, other]) / worth.sum() for other in range(3) if other not in idle}
        least = min((other for other in without if other), key=lambda other: without[other], default=None)
        if least is None:
            break
        more = lost([*idle, least]) - lost([])
        mean = worth @ more / worth.sum()
        if mean + 2 * np.sqrt((worth**2 * (more - mean) ** 2).sum()) / worth.sum() > missed * (
            worth @ lost([]) / worth.sum()
        ):
            break
        idle.append(least)
    assert members.idle == tuple(idle)
    assert members.loss == pytest.approx(worth @ lost(idle) / worth.sum(), abs=1e-6)
    assert members.without == pytest.approx(without, abs=1e-6)


class Noise(GaussianNB):
    """Says nothing, whatever it is asked."""

    n_queries = 0

    def predict_proba(self, X):
        Noise.n_queries += len(X)
        p = 1 + np.sin(1e5 * X.sum(axis=1, keepdims=True) + np.arange(len(self.classes_)))
        return p / p.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def beside_noise() -> Iterator[ns.NeighborClassifier]:
    """Of 600 rows in three clouds that overlap."""
    random = np.random.default_rng(0)
    labels = np.arange(600) % 3
    rows = random.normal(size=(600, 2)) + 1.5 * np.eye(3)[labels][:, :2]
    with pytest.MonkeyPatch.context() as patch:
        # Where views are held closely, losses without the one model are far from those of second order.
        patch.setattr(log_linear, "STRICTER", (1.0,))
        yield ns.NeighborClassifier(beside=[("noise", Noise()), ("bayes", GaussianNB())]).fit(rows, labels)


def test_a_member_that_brings_nothing_is_not_asked_by_queries(beside_noise):
    assert "noise" not in beside_noise.choices_.chosen.distances
    before = Noise.n_queries
    beside_noise.predict_proba(X[:, :2])
    assert Noise.n_queries == before


def test_the_summary_says_what_every_member_cost_and_brought(beside_noise):
    summary = beside_noise.summary_
    assert isinstance(beside_noise.model_.views, Views)
    used = {one.name for one in summary.members if one.used}
    views = beside_noise.model_.views
    assert used == {*(view.metric_name for view in views.views), *views.model_names}
    by_name = {one.name: one for one in summary.members}
    assert not by_name["noise"].used
    assert by_name["noise"].without is None
    assert all(one.seconds > 0 for one in summary.members)
    assert all(one.without is not None for one in summary.members if one.used)
    assert str(summary).count("\n") == len(summary.members) + 1
    assert "<caption>log loss of 600 past cases" in summary._repr_html_()
    assert summary.rows()[0]["name"] == summary.members[0].name


def test_the_loss_without_a_member_is_about_that_of_a_pool_that_never_had_it(beside_noise):
    model = beside_noise.model_
    table, rows = model.past.judged(model.n_neighbors, model.members)
    without = {one.name: one.without for one in beside_noise.summary_.members}
    lost = []
    for number, name in enumerate(model.views.model_names):
        kept = np.setdiff1d(np.arange(len(model.views.models)), number)
        fewer = copy(table)
        object.__setattr__(fewer, "model_log_p", table.model_log_p[:, :, kept])
        pool = copy(model.posterior).fit(fewer, model.labels, 3, rows)
        p = pool.leave_one_out_proba(fewer, rows)
        lost.append((without[name], -np.log(p[np.arange(600), model.labels[rows]]).mean()))
    approximate, exact = np.transpose(lost)
    np.testing.assert_allclose(approximate, exact, rtol=0.02)


def test_a_line_is_printed_for_every_step_where_that_is_asked_for(capsys):
    ns.NeighborClassifier().fit(X[:60], y[:60])
    assert capsys.readouterr().err == ""
    clf = ns.NeighborClassifier(verbose=1).fit(X[20:80], y[20:80])
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("NeighborClassifier: ") and line.endswith(" s") for line in lines)
    steps = [line.removeprefix("NeighborClassifier: ").rpartition(",")[0] for line in lines]
    assert set(steps) == {*(one.name for one in clf.summary_.members), "choosing"}


def test_a_summary_is_saved():
    clf = ns.NeighborClassifier().fit(X[::2], y[::2])
    assert str(saved_and_opened(clf).summary_) == str(clf.summary_)


def test_nothing_is_summed_up_where_nothing_was_left_open():
    with pytest.raises(AttributeError, match="Nothing was left open"):
        _ = ns.NeighborClassifier(3, posterior="proportional").fit(X, y).summary_
