"""Rows that do not all count the same: what weights mean to every estimator, and to what stands beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearsay as ns
from nearsay.errors import InputError
from nearsay.posterior.fused import FusedClassifier
from nearsay.posterior.methods.custom_posterior import CustomPosterior
from nearsay.posterior.methods.named import POSTERIORS
from nearsay.posterior.methods.rank_weights import decreasing_weights
from nearsay.posterior.methods.weighted import Weighted
from tests.labeled import letters_apart
from tests.reference import posteriors as loops
from tests.saving import saved_and_opened

pytestmark = pytest.mark.filterwarnings("ignore:Every class has one row")

HALVES = True

NeighborClassifier = ns.NeighborClassifier
GROUPS = {"one": slice(0, 1), "two": slice(1, 2)}
ESTIMATORS: dict[str, Any] = {
    **{name: NeighborClassifier(3, posterior=name) for name in POSTERIORS},
    "weighted, by row": NeighborClassifier(3, posterior=Weighted(by="row")),
    "any k": NeighborClassifier("auto", posterior="proportional"),
    "by default": NeighborClassifier(),
    "all views": NeighborClassifier(3, posterior="pooled", metric="auto"),
    "priors": NeighborClassifier(3, posterior="rank", priors="uniform"),
    "beside": NeighborClassifier(3, beside=LogisticRegression()),
    "fused": FusedClassifier(GROUPS, NeighborClassifier(3, posterior="rank", priors="uniform")),
    "fused, learned": FusedClassifier(GROUPS, NeighborClassifier(3, posterior="confmat"), exponents="learned"),
    "fused, pooled": FusedClassifier(GROUPS, NeighborClassifier(3, posterior="pooled")),
    "fused, auto": FusedClassifier(GROUPS),
}
# What chooses among all views of the rows takes longest, and does with weights what its parts do.
WITHOUT_ALL_VIEWS = [name for name in ESTIMATORS if name not in ("all views", "fused, auto")]
EVERY = [pytest.param(name, marks=[pytest.mark.slow][name in WITHOUT_ALL_VIEWS :]) for name in ESTIMATORS]
# What chooses among posteriors takes longest after these.
CHOOSE = ("by default", "beside", "all views")


def made_up(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of three classes that overlap, and a weight for each: few different ones, some of them 0."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    return y[:, None] + random.normal(size=(n, 2)), y, random.choice([0.0, 0.5, 1.0, 3.0], n)


@cache
def weighted(name: str) -> Any:
    """An estimator that was fitted to these rows and weights, for tests that only ask it."""
    return clone(ESTIMATORS[name]).fit(*made_up(), ids=np.arange(100, 160))


def all_that_is_said(clf: Any, Q: np.ndarray) -> list[Any]:
    return [clf.predict_proba(Q), clf.predict(Q), [found.to_dict() for found in clf.explain(Q)]]


# ---------------------------------------------------------------- what weights mean


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY[:-1])
def test_equal_weights_give_what_no_weights_give_to_the_last_bit(name: str) -> None:
    X, y, _ = made_up()
    without = all_that_is_said(clone(ESTIMATORS[name]).fit(X, y), X[:20] + 0.1)
    for constant in (3.7e300,) if name in CHOOSE else (0.1, 3.7e300):
        found = all_that_is_said(clone(ESTIMATORS[name]).fit(X, y, sample_weight=np.full(60, constant)), X[:20] + 0.1)
        np.testing.assert_array_equal(found[0], without[0])
        assert found[2] == without[2]


@pytest.mark.parametrize("name", EVERY)
def test_a_row_of_weight_0_is_as_if_it_were_not_there(name: str) -> None:
    X, y, weights = made_up()
    held, ids = np.flatnonzero(weights), np.arange(100, 160)
    clf = weighted(name)
    less = clone(ESTIMATORS[name]).fit(X[held], y[held], weights[held], ids=ids[held])
    Q = X[:20] + 0.1
    np.testing.assert_array_equal(clf.predict_proba(Q), less.predict_proba(Q))
    np.testing.assert_array_equal(clf.labels_, y)
    p = clf.leave_one_out_proba()
    np.testing.assert_array_equal(p[held], less.leave_one_out_proba())
    np.testing.assert_array_equal(p[weights == 0], clf.predict_proba(X[weights == 0]))
    frames = [each.explain(Q).to_frame() for each in (clf, less)]
    np.testing.assert_array_equal(frames[0]["row"], held[frames[1]["row"]])  # in the numbers of X as it was given
    columns = [column for column in frames[0] if column != "row"]
    assert frames[0][columns].equals(frames[1][columns])


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_ALL_VIEWS)
def test_only_proportions_of_weights_matter(name: str) -> None:
    X, y, weights = made_up()
    p = weighted(name).predict_proba(X)
    found = [clone(ESTIMATORS[name]).fit(X, y, weights * scale).predict_proba(X) for scale in (2.0**-300, 0.1)]
    np.testing.assert_array_equal(found[0], p)
    np.testing.assert_allclose(found[1], p, atol=1e-6)


@pytest.mark.parametrize("name", ["proportional", "weighted", "weighted, by row", "pooled", "any k", "by default"])
def test_heavy_rows_of_a_class_make_it_likelier(name: str) -> None:
    X, y, _ = made_up(150)
    light, heavy = (clone(ESTIMATORS[name]).fit(X, y, np.where(y == 2, w, 1.0)).predict_proba(X) for w in (0.2, 5.0))
    assert heavy[:, 2].mean() > light[:, 2].mean()


def test_records_count_past_cases_by_their_weight() -> None:
    # Where the labels of light rows are drawn by lot, a record of heads would say that sure answers are often wrong.
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 900)
    X, light = y[:, None] + 0.3 * random.normal(size=(900, 1)), np.arange(900) % 3 > 0
    labels = np.where(light, random.integers(0, 2, 900), y)
    clf = NeighborClassifier(9, posterior="pooled").fit(X, labels, np.where(light, 1e-3, 1.0))
    records = [(found.probability, found.record) for found in clf.explain([[0.0], [1.0]])]
    assert all(record["right"] / record["cases"] == pytest.approx(p, abs=0.05) for p, record in records)


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_priors_replace_the_weighted_frequencies(groups: Any) -> None:
    X, y, weights = made_up()
    base = NeighborClassifier(9, posterior="proportional")
    make: Any = clone(base) if groups is None else FusedClassifier(groups, base)
    plain = make.fit(X, y, weights).predict_proba(X)
    name = "priors" if groups is None else "estimator__priors"
    found = make.set_params(**{name: "uniform"}).fit(X, y, weights).predict_proba(X)
    times = 1 if groups is None else 2  # every group brings the frequencies with it
    expected = plain / np.bincount(y, weights) ** times
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)


def test_rows_keep_their_numbers_where_some_weigh_nothing() -> None:
    X, y, weights = made_up()
    held = np.flatnonzero(weights)
    clf = NeighborClassifier(4, posterior="proportional").fit(X, y, weights)
    near = KNeighborsClassifier(4).fit(X[held], y[held])
    for Q in (X[:9] + 0.1, None):
        lines = slice(None) if Q is not None else held
        distances, indices = clf.kneighbors(Q)
        np.testing.assert_array_equal(indices[lines], held[near.kneighbors(Q)[1]])
        graph = np.zeros((9 if Q is not None else 60, 60))
        graph[np.ix_(np.arange(9) if Q is not None else held, held)] = near.kneighbors_graph(Q).toarray()
        np.testing.assert_array_equal(clf.kneighbors_graph(Q).toarray(), graph)
    assert (indices[weights == 0] == -1).all()
    assert np.isinf(distances[weights == 0]).all()
    np.testing.assert_array_equal(clf.neighbors(X[:9]).indices, clf.explain(X[:9]).table.indices)
    twin = clf.explain(X[held[-1:]])[0].twin
    assert twin == held[-1]


def test_distances_and_items_of_weight_0_are_left_out_too() -> None:
    X, y, weights = made_up()
    held = np.flatnonzero(weights)
    between = np.linalg.norm(X[:, None] - X[None], axis=2)
    by_rows = NeighborClassifier(3, posterior="rank").fit(X, y, weights)
    by_matrix = NeighborClassifier(3, posterior="rank", metric="precomputed").fit(between, y, weights)
    np.testing.assert_array_equal(by_matrix.predict_proba(between), by_rows.predict_proba(X))
    np.testing.assert_array_equal(by_matrix.leave_one_out_proba(), by_rows.leave_one_out_proba())
    words = [f"{'abc'[label]}{row:03d}" for row, label in enumerate(y)]
    by_words = NeighborClassifier(3, posterior="rank", metric=letters_apart).fit(words, y, weights)
    kept = NeighborClassifier(3, posterior="rank", metric=letters_apart).fit([words[i] for i in held], y[held])
    assert set(by_words.neighbors(words).indices.ravel()) <= set(held)
    assert by_words.leave_one_out_proba().shape == (60, 3)
    assert kept.n_neighbors_ == by_words.n_neighbors_


def test_a_class_whose_rows_all_weigh_nothing_is_unknown() -> None:
    clf = NeighborClassifier(1, posterior="proportional").fit([[0.0], [1.0], [2.0]], ["a", "b", "c"], [1, 0, 2])
    assert clf.classes_.tolist() == ["a", "c"]
    assert clf.labels_.tolist() == [0, -1, 1]
    assert clf.predict([[1.1]]).tolist() == ["c"]


# ---------------------------------------------------------------- beside what else there is


class HeardWeights:
    """A posterior of a user's own that remembers what it, and its copies, were told of the rows."""

    everywhere: ClassVar[list[tuple[int, Any]]] = []

    def fit(self, table: Any, labels: np.ndarray, n_classes: int, sample_weight: Any = None) -> HeardWeights:
        self.heard, self.n_classes = (len(labels), sample_weight), n_classes
        HeardWeights.everywhere.append(self.heard)
        return self

    def proba(self, table: Any) -> np.ndarray:
        return np.full((len(table), self.n_classes), 1 / self.n_classes)


class HearsNone:
    def fit(self, table: Any, labels: np.ndarray, n_classes: int) -> HearsNone:
        self.n_classes = n_classes
        return self

    proba = HeardWeights.proba


def test_a_posterior_of_ones_own_hears_the_weights_if_its_fit_takes_them() -> None:
    X, y, weights = made_up()
    clf = NeighborClassifier(3, posterior=HeardWeights()).fit(X, y, weights)
    expected = np.array(loops.relative(weights[weights > 0]), float)
    np.testing.assert_allclose(clf.posterior_.heard[1], expected, rtol=1e-6)
    clf.leave_one_out_proba()  # by copies, which are told of some of the rows
    assert len(HeardWeights.everywhere) > 1
    assert all(len(heard) == n_labels for n_labels, heard in HeardWeights.everywhere)
    assert NeighborClassifier(3, posterior=HeardWeights()).fit(X, y).posterior_.heard == (60, None)
    NeighborClassifier(3, posterior=HearsNone()).fit(X, y, weights > 0)  # rows left out need no weights
    with pytest.raises(
        InputError, match=r"given a sample_weight, but the posterior .* makes no use of it\. Let its fit"
    ):
        NeighborClassifier(3, posterior=HearsNone()).fit(X, y, weights)
    assert not CustomPosterior(HearsNone()).takes_weights


def test_a_model_beside_is_fitted_with_the_weights_or_refused() -> None:
    X, y, weights = made_up()
    held = weights > 0
    clf = NeighborClassifier(3, posterior="pooled", beside=LogisticRegression()).fit(X, y, weights)
    alone = LogisticRegression().fit(X[held], y[held], sample_weight=weights[held] / weights[held].mean())
    np.testing.assert_allclose(clf.model_.views.models[0].model_.coef_, alone.coef_, rtol=1e-4)
    with pytest.raises(InputError, match=r"fit of beside=KNeighborsClassifier\(\) takes none\. Pass a model whose"):
        NeighborClassifier(3, beside=KNeighborsClassifier()).fit(X, y, weights)
    said = np.full((60, 3), 1 / 3)
    taken = NeighborClassifier(3, beside=KNeighborsClassifier().fit(X, y)).fit(X, y, weights, beside_proba=said)
    assert taken.predict_proba(X).shape == (60, 3)


@pytest.mark.parametrize("name", WITHOUT_ALL_VIEWS)
def test_what_was_saved_answers_the_same(name: str) -> None:
    X, clf = made_up()[0], weighted(name)
    again = saved_and_opened(clf)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(again.leave_one_out_proba(), clf.leave_one_out_proba())


def test_scikit_learn_hands_the_weights_on() -> None:
    X, y, weights = made_up(120)
    votes = NeighborClassifier(5, posterior="proportional")
    by_hand = clone(votes).fit(StandardScaler().fit_transform(X), y, weights)
    piped = make_pipeline(StandardScaler(), clone(votes)).fit(X, y, neighborclassifier__sample_weight=weights)
    np.testing.assert_array_equal(piped.predict_proba(X), by_hand.predict_proba(StandardScaler().fit_transform(X)))
    found = GridSearchCV(votes, {"n_neighbors": [3, 5]}, cv=3).fit(X, y, sample_weight=weights)
    expected = clone(found.best_estimator_).fit(X, y, weights)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    calibrated = CalibratedClassifierCV(votes, cv=3).fit(X, y, sample_weight=weights + 0.1)
    assert calibrated.predict_proba(X).shape == (120, 3)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(votes).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_validate(routed, X, y, cv=3, params={"sample_weight": weights + 0.1})
    assert len(scores["test_score"]) == 3


@pytest.mark.parametrize("make", [NeighborClassifier, FusedClassifier])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([1.0, 2.0], r"shape \(4,\), one number per row; got shape \(2,\)"),
        ([[1.0]] * 4, r"shape \(4,\)"),
        (2.0, r"shape \(4,\)"),
        ([1.0, -1.0, 1.0, 1.0], r"not be negative; got -1\.0 for row 1"),
        ([1.0, 1.0, np.nan, 1.0], r"be finite; got nan for row 2"),
        ([1.0, np.inf, 1.0, 1.0], r"be finite; got inf for row 1"),
        ([0.0] * 4, r"is zero for all 4 rows"),
        (["heavy"] * 4, r"must hold a number for every row; got \['heavy'"),
    ],
)
def test_weights_that_are_none_are_refused(make: Callable[[], Any], wrong: Any, said: str) -> None:
    with pytest.raises(InputError, match=f"sample_weight .*{said}"):
        make().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], wrong)


def test_more_neighbors_than_rows_that_weigh_something_are_refused() -> None:
    with pytest.raises(InputError, match=r"n_samples=2 rows to be neighbors.* sample_weight of 0 do not count"):
        NeighborClassifier(3).fit([[0.0], [1.0], [2.0]], [0, 0, 1], [1, 0, 1])


def test_every_posterior_by_name_takes_weights() -> None:
    assert all(make().takes_weights for make in POSTERIORS.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_weights_that_differ_by_sixteen_powers_of_ten_are_learned_from(seed: int) -> None:
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, 60 + 5 * seed)
    X = random.normal(size=(len(y), 3)) + 0.7 * y[:, None]
    weights = 10.0 ** random.uniform(-8, 8, len(y))
    for posterior in ("auto", "weighted"):
        p = NeighborClassifier(posterior=posterior).fit(X, y, weights).predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1)


@given(seed=st.integers(0, 10_000), k=st.integers(1, 30), spread=st.sampled_from([0.0, 2.0, 8.0, 16.0]))
def test_decreasing_weights_are_the_likeliest_however_much_cases_differ_in_worth(
    seed: int, k: int, spread: float
) -> None:
    random = np.random.default_rng(seed)
    right = random.random((random.integers(1, 80), k)) < 0.5
    right[:, 0] |= ~right.any(axis=1)
    worth = 10.0 ** random.uniform(-spread, spread, len(right))
    found = decreasing_weights(right, worth)
    assert (np.diff(found) <= 1e-12).all()
    assert found.sum() == pytest.approx(1)
    # No mixture with one of the even weightings makes the cases likelier: the derivative towards each is at most 0.
    even = right.cumsum(axis=1) / np.arange(1, k + 1)
    gain = (worth / worth.sum() / (right @ found)) @ even
    assert gain.max() <= 1 + 1e-6


# ---------------------------------------------------------------- around a classifier


def around(cv: Any, estimator: Any = None) -> list[Any]:
    estimator = NeighborClassifier(5, posterior="proportional") if estimator is None else estimator
    return [ns.HedgedClassifier(estimator, accuracy=0.8, cv=cv), ns.ConformalClassifier(estimator, 0.8, cv=cv)]


@pytest.mark.parametrize("cv", [None, "split", 3])
@pytest.mark.parametrize("estimator", [NeighborClassifier(5, posterior="proportional"), LogisticRegression()], ids=str)
def test_what_promises_hands_the_weights_to_its_estimator(cv: Any, estimator: Any) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 120)
    X = random.normal(size=(120, 2)) + y[:, None]
    weights = np.where(y == 1, 20.0, 1.0)
    for wrapped in around(cv, estimator):
        plain, even, heavy = (clone(wrapped).fit(X, y, w) for w in (None, np.ones(120), weights))
        np.testing.assert_array_equal(even.predict_proba(X), plain.predict_proba(X))
        assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1
        assert heavy.n_calibration_ == plain.n_calibration_  # each row once, whatever it weighs
    if cv is None and isinstance(estimator, NeighborClassifier):
        expected = clone(estimator).fit(X, y, weights).predict_proba(X)
        np.testing.assert_array_equal(heavy.predict_proba(X), expected)


@pytest.mark.parametrize(
    "cv", [None, "split", [(np.arange(0, 90), np.arange(90, 120)), (np.arange(60, 120), np.arange(60))]]
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_row_of_weight_0_neither_teaches_nor_judges(cv: Any, which: int) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 120)
    X = random.normal(size=(120, 2)) + y[:, None]
    weights = random.integers(0, 2, 120).astype(float)
    y[weights == 0] = random.permutation(y[weights == 0])
    y[np.flatnonzero(weights == 0)[:5]] = 7  # a class that nobody knows
    held = weights > 0
    without = cv
    if isinstance(cv, list):
        number = np.cumsum(held) - 1
        without = [tuple(number[rows[held[rows]]] for rows in split) for split in cv]
    weighted = around(cv)[which].fit(X, y, weights)
    left_out = around(without)[which].fit(X[held], y[held])
    np.testing.assert_array_equal(weighted.classes_, left_out.classes_)
    np.testing.assert_array_equal(weighted.predict_proba(X), left_out.predict_proba(X))
    np.testing.assert_array_equal(weighted.predict(X), left_out.predict(X))
    assert weighted.n_calibration_ == left_out.n_calibration_


def test_a_promise_over_shards_takes_weights_too(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 60)
    X = random.normal(size=(60, 2)) + y[:, None]
    np.save(tmp_path / "0.npy", X)
    weights = random.integers(0, 3, 60).astype(float)
    settings: dict[str, Any] = {"n_neighbors": 5, "posterior": "proportional"}
    sharded = ns.HedgedClassifier(ns.ShardedClassifier(ns.NeighborClassifier(**settings)), accuracy=0.8).fit(
        tmp_path, y, weights
    )
    in_memory = ns.HedgedClassifier(NeighborClassifier(**settings), accuracy=0.8).fit(X, y, weights)
    assert sharded.n_calibration_ == in_memory.n_calibration_ == np.count_nonzero(weights)
    np.testing.assert_array_equal(sharded.predict(X), in_memory.predict(X))


def test_weights_that_nothing_is_fitted_with_are_refused() -> None:
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    fitted = NeighborClassifier(3, posterior="proportional").fit(X, y)
    for wrapped in around("prefit", fitted):
        with pytest.raises(InputError, match='with cv="prefit" it is not'):
            wrapped.fit(X, y, np.ones(20))
    for wrapped in around(None, KNeighborsClassifier(3)):
        with pytest.raises(InputError, match="KNeighborsClassifier takes none"):
            wrapped.fit(X, y, np.ones(20))
    for wrapped in around(None):
        with pytest.raises(InputError, match="must not be negative"):
            wrapped.fit(X, y, -np.ones(20))
