"""Columns without anything to say of their own, and rows of very many columns: neither changes or breaks an answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearsay as ns
from nearsay.annotate import KeywordRegression
from nearsay.collection.live import LiveCollection
from nearsay.learn import KeywordProjection, WithinClassWhitening, keyword_projection
from nearsay.learn.linear_map import distinct_columns
from nearsay.posterior.views.gaussian_classes import GaussianClasses
from nearsay.posterior.views.row_transforms import STANDARDIZED, WHITENED, LinearMap, learn_maps, unequal_columns
from tests.saving import saved_and_opened

HALVES = True

CONSTANTS = {"one": [7.0], "a tenth": [0.1], "ten of all sizes": [1e6, -0.1, 0.0, 3.0, 1e-9, -8e5, 1.0, 1.0, 0.3, 1e7]}


def clouds(n: int, seed: int = 0, spreads: tuple[float, ...] = (1.0, 1.3, 0.8, 1.1)) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    centers = np.random.default_rng(9).normal(size=(3, len(spreads)))
    return (centers[y] + random.normal(size=(n, len(spreads)))) * spreads, y


def with_constants(X: np.ndarray, values: list[float]) -> np.ndarray:
    """Half of the constant columns before the others, half of them after."""
    constant = np.tile(values, (len(X), 1))
    return np.hstack([constant[:, ::2], X, constant[:, 1::2]])


# ---------------------------------------------------------------- which columns these are


def slow_distinct_columns(X: np.ndarray) -> list[int]:
    kept: list[int] = []
    for column in range(X.shape[1]):
        constant = all(value == X[0, column] for value in X[:, column])
        if not constant and not any((X[:, column] == X[:, other]).all() for other in kept):
            kept.append(column)
    return kept or [0]


@given(st.data())
def test_columns_that_say_something_are_those_of_the_loop(data):
    shape = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 40))
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    X = random.integers(-1, 2, shape) * data.draw(st.sampled_from([1.0, 0.1, -0.0, 1e300]))
    X = X.astype(data.draw(st.sampled_from([np.float64, np.float32, np.int8]))) if abs(X).max() < 2 else X
    X = np.asarray(X, order=data.draw(st.sampled_from(["C", "F"])))
    np.testing.assert_array_equal(distinct_columns(X), slow_distinct_columns(X))


def test_copies_are_known_whatever_their_place_and_number():
    random = np.random.default_rng(0)
    for n in (1, 7, 8, 129, 5000):
        X = random.normal(size=(n, 5))
        copied = X[:, random.integers(0, 5, 61)]
        for rows in (copied, np.asfortranarray(copied), copied[:, ::-1], copied.astype(np.float32)):
            assert len(distinct_columns(rows)) == (5 if n > 1 else 1)


# ---------------------------------------------------------------- constant columns


ONE_SCALE, ANY_SCALE = (1.0, 1.3, 0.8, 1.1), (1.0, 100.0, 0.01, 5.0)


@pytest.mark.parametrize(
    ("settings", "spreads", "name"),
    [
        *(({"posterior": "pooled"}, spreads, name) for spreads in (ONE_SCALE, ANY_SCALE) for name in CONSTANTS),
        ({}, ANY_SCALE, "ten of all sizes"),
        pytest.param({"metric": "auto", "posterior": "pooled"}, ANY_SCALE, "ten of all sizes", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_constant_columns_change_no_probability(settings, spreads, name):
    (X, y), (Q, _) = clouds(80, 0, spreads), clouds(60, 1, spreads)
    plain = ns.NeighborClassifier(**settings).fit(X, y)
    more = ns.NeighborClassifier(**settings).fit(with_constants(X, CONSTANTS[name]), y)
    queries = with_constants(Q, CONSTANTS[name])
    np.testing.assert_allclose(more.predict_proba(queries), plain.predict_proba(Q), rtol=0, atol=1e-9)
    np.testing.assert_allclose(more.leave_one_out_proba(), plain.leave_one_out_proba(), rtol=0, atol=1e-9)
    np.testing.assert_allclose(more.kneighbors(queries)[0], plain.kneighbors(Q)[0])


def test_a_hundred_constant_columns_do_not_make_the_default_worse():
    (X, y), (Q, truth) = clouds(200), clouds(400, 1)
    losses = []
    for more in (0, 10, 100):
        clf = ns.NeighborClassifier().fit(np.hstack([X, np.ones((200, more))]), y)
        p = clf.predict_proba(np.hstack([Q, np.ones((400, more))]))
        losses.append(-np.log(p[np.arange(400), truth]).mean())
    np.testing.assert_allclose(losses, losses[0], atol=1e-9)


def test_a_constant_column_that_differs_in_a_query_counts_in_the_distance_that_was_asked_for_only():
    X, y = clouds(80)
    X = np.hstack([X, np.full((80, 1), 7.0)])
    Q = X[:5] + np.array([0, 0, 0, 0, 3.0])
    distances, rows = ns.NeighborClassifier().fit(X, y).kneighbors(Q, 3)
    np.testing.assert_allclose(distances, np.linalg.norm(Q[:, None] - X[rows], axis=2))
    for look_map in learn_maps([STANDARDIZED, *WHITENED], X, y):
        np.testing.assert_array_equal(look_map(Q), look_map(X[:5]))
    gaussians = GaussianClasses(scores=True).fit(X, y)
    np.testing.assert_array_equal(gaussians.predict_proba(Q), gaussians.predict_proba(X[:5]))
    chosen = ns.NeighborClassifier(metric="auto").fit(X, y)
    np.testing.assert_array_equal(chosen.predict_proba(Q), chosen.predict_proba(X[:5]))


def test_a_number_that_is_missing_is_refused_in_a_constant_column_too():
    X, y = clouds(30)
    X = np.hstack([X, np.ones((30, 1))])
    for metric in ("euclidean", "auto"):
        clf = ns.NeighborClassifier(metric=metric).fit(X, y)
        for bad in (np.nan, np.inf):
            Q = X[:2].copy()
            Q[1, 4] = bad
            with pytest.raises(ns.InputError, match="column 4"):
                clf.predict(Q)
            with pytest.raises(ns.InputError, match="column 4"):
                ns.NeighborClassifier(metric=metric).fit(np.vstack([X, Q]), np.append(y, [0, 1]))


def test_whitening_shrinks_by_columns_that_differ():
    X, y = clouds(60)
    for settings in ({}, {"pull": 1.0}, {"power": 1.0}):
        plain = WithinClassWhitening(**settings).fit(X, y)
        more = WithinClassWhitening(**settings).fit(with_constants(X, [5.0, 0.1, 8.0]), y)
        assert more.shrinkage_ == plain.shrinkage_
        np.testing.assert_allclose(more.get_mahalanobis_matrix()[2:6, 2:6], plain.get_mahalanobis_matrix(), rtol=1e-9)


def test_columns_of_one_scale_stay_so_beside_a_constant_one():
    X, _ = clouds(40)
    assert not unequal_columns(X)
    assert not unequal_columns(np.hstack([X, np.full((40, 1), 0.1)]))


# ---------------------------------------------------------------- copied columns


@pytest.mark.slow
@pytest.mark.parametrize("spreads", [ONE_SCALE, ANY_SCALE], ids=["one scale", "any scale"])
def test_copied_columns_change_nothing_where_the_metric_is_left_open(spreads):
    (X, y), (Q, _) = clouds(80, 0, spreads), clouds(60, 1, spreads)
    plain = ns.NeighborClassifier(metric="auto").fit(X, y)
    copies = [0, 1, 2, 1, 3, 3, 3]
    more = ns.NeighborClassifier(metric="auto").fit(X[:, copies], y)
    np.testing.assert_allclose(more.predict_proba(Q[:, copies]), plain.predict_proba(Q), rtol=0, atol=1e-6)
    assert more.choices_.chosen.distances == plain.choices_.chosen.distances


def test_the_same_copies_of_all_columns_change_nothing_in_euclidean_distance_either():
    (X, y), (Q, _) = clouds(150), clouds(60, 1)
    plain = ns.NeighborClassifier().fit(X, y)
    more = ns.NeighborClassifier().fit(np.hstack([X, X, X]), y)
    np.testing.assert_allclose(more.predict_proba(np.hstack([Q, Q, Q])), plain.predict_proba(Q), rtol=0, atol=1e-6)


def test_copied_columns_change_neither_standardized_nor_whitened_views_nor_gaussians():
    X, y = clouds(90, spreads=ANY_SCALE)
    copied = np.hstack([X[:, :1], X, X[:, 2:], X[:, 1:2]])
    looks = [STANDARDIZED, *WHITENED]
    for plain, more in zip(learn_maps(looks, X, y), learn_maps(looks, copied, y), strict=True):
        np.testing.assert_allclose(more(copied), plain(X), rtol=0, atol=1e-9)
    for scores in (False, True):
        plain, more = GaussianClasses(scores=scores).fit(X, y), GaussianClasses(scores=scores).fit(copied, y)
        np.testing.assert_allclose(more.predict_proba(copied), plain.predict_proba(X), rtol=0, atol=1e-9)


def test_a_group_measured_as_past_cases_choose_takes_no_copies_and_no_constants():
    (X, y), (Q, _) = clouds(120), clouds(40, 1)
    base = ns.NeighborClassifier(3, metric="auto", posterior="pooled")
    plain = ns.FusedClassifier({"a": [0, 1], "b": [2, 3]}, base).fit(X, y)
    more, asked = np.hstack([X, X[:, :1], np.ones((120, 1))]), np.hstack([Q, Q[:, :1], np.ones((40, 1))])
    copied = ns.FusedClassifier({"a": [0, 1, 4, 5], "b": [2, 3, 5]}, base).fit(more, y)
    np.testing.assert_allclose(copied.predict_proba(asked), plain.predict_proba(Q), rtol=0, atol=1e-9)


# ---------------------------------------------------------------- little to see


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["euclidean", "auto"])
@pytest.mark.parametrize(
    "X",
    [np.arange(12.0)[:, None], np.full((12, 1), 3.0), np.full((12, 5), 0.1), np.eye(12)[:, :1] * [1.0, 1.0, 0.0]],
    ids=["one column", "one constant column", "constant columns", "one column, copied"],
)
def test_few_columns_that_differ_are_answered_all_the_same(metric, X):
    y = np.arange(12) % 3
    clf = ns.NeighborClassifier(metric=metric).fit(X, y)
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(saved_and_opened(clf).predict_proba(X), p)
    one = ns.NeighborClassifier(metric=metric).fit(X[:1], y[:1])
    assert (one.predict(X) == y[0]).all()


def test_what_was_saved_leaves_the_same_columns_out(tmp_path):
    (X, y), (Q, _) = clouds(120), clouds(30, 1)
    X, Q = (with_constants(np.hstack([rows, rows[:, 1:3]]), [4.0, 0.1]) for rows in (X, Q))
    for metric in ("euclidean", "auto"):
        clf = ns.NeighborClassifier(metric=metric).fit(X, y)
        ns.save(clf, tmp_path / metric)
        np.testing.assert_array_equal(ns.load(tmp_path / metric).predict_proba(Q), clf.predict_proba(Q))


@pytest.mark.slow
def test_constant_columns_change_no_answer_of_a_living_collection(tmp_path):
    (X, y), (Q, _) = clouds(120), clouds(30, 1)
    answers = []
    for name, constants in (("plain", []), ("more", [4.0, 0.1, 0.1])):
        rows, queries = (with_constants(each, constants).astype(np.float32) for each in (X, Q))
        with LiveCollection.create(tmp_path / name, n_columns=rows.shape[1]) as collection:
            collection.add([f"a{row}" for row in range(100)], rows[:100], y[:100].astype(str).tolist())
            collection.learn()
            collection.add([f"b{row}" for row in range(20)], rows[100:], y[100:].astype(str).tolist())
            answers.append([answer.probability for answer in collection.label(queries)])
        with LiveCollection.open(tmp_path / name, read_only=True) as again:
            assert [answer.probability for answer in again.label(queries)] == answers[-1]
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_rows_in_shards_are_answered_as_rows_in_memory(tmp_path):
    (X, y), (Q, _) = clouds(120), clouds(30, 1)
    X, Q = (with_constants(np.hstack([rows, rows[:, 1:3]]), [4.0, 0.1]) for rows in (X, Q))
    for number, part in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / f"{number}.npy", part)
    for metric in ("euclidean", "auto"):
        in_memory = ns.NeighborClassifier(metric=metric).fit(X, y).predict_proba(Q)
        sharded = ns.ShardedClassifier(ns.NeighborClassifier(metric=metric)).fit(tmp_path, y).predict_proba(Q)
        np.testing.assert_allclose(sharded, in_memory, rtol=0, atol=1e-9)


# ---------------------------------------------------------------- very many columns


@pytest.fixture(scope="module")
def wide():
    y = np.arange(40) % 3
    X = np.random.default_rng(0).normal(size=(40, 8000)).astype(np.float32)
    X[:, :2000] += y[:, None] * 0.5
    X[:, 5] *= 10  # columns of unequal scale, so that standardized ones are a view of their own
    return X, y


LIMITED = r"""
import re, sys
import numpy as np
import nearsay as ns
from nearsay.annotate import KeywordRegression
from nearsay.learn import KeywordProjection

with np.load(sys.argv[1]) as rows:
    X, y = rows["X"], rows["y"]
for metric in ("euclidean", "auto"):
    clf = ns.NeighborClassifier(metric=metric).fit(X, y)
    p = clf.predict_proba(X[:3] * np.float32(1.01))
    assert p.argmax(axis=1).tolist() == y[:3].tolist()
    ns.save(clf, sys.argv[2])
words = [[label] for label in y.astype(str)]
assert KeywordProjection().fit(X, words).components_.shape[1] == X.shape[1]
assert KeywordRegression().fit(X, words).scores(X[:3]).argmax(axis=1).tolist() == y[:3].tolist()
# What getrusage calls the peak of a process is that of its parent where that was higher.
with open("/proc/self/status") as status:
    print(int(re.search(r"VmHWM:\s*(\d+) kB", status.read())[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_rows_of_many_columns_are_fitted_answered_and_saved_in_little_memory(wide, tmp_path):
    np.savez(tmp_path / "rows.npz", X=wide[0], y=wide[1])
    given = [str(tmp_path / "rows.npz"), str(tmp_path / "saved")]
    done = subprocess.run([sys.executable, "-c", LIMITED, *given], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 550  # a square of the columns would be 490 more


def test_maps_of_many_columns_share_what_is_large(wide):
    X, y = wide
    maps = learn_maps([STANDARDIZED, *WHITENED], X, y)
    assert maps[0].matrix.shape == (X.shape[1],)
    assert len({id(each.matrix) for each in maps[1:]}) == 1
    assert all(each.further.shape == (39, 39) for each in maps[1:])


def test_a_map_of_two_matrices_is_that_of_their_product():
    random = np.random.default_rng(0)
    X, center, first, second = (random.normal(size=size) for size in ((70, 9), 9, (9, 4), (4, 4)))
    for unit in (False, True):
        both, product = LinearMap(center, first, unit, further=second), LinearMap(center, first @ second, unit)
        np.testing.assert_allclose(both(X), product(X))
        assert both.n_columns == product.n_columns == 4


def test_keywords_of_more_columns_than_rows_are_learned_as_with_all_columns():
    """A constant column adds nothing, but is one more than all are taken as they are."""
    random, most = np.random.default_rng(0), keyword_projection.MOST_COLUMNS
    X, Q, Y = random.normal(size=(25, most)), random.normal(size=(5, most)), random.random((25, 4)) < 0.4
    learned = []
    for constant in (0, 1):
        X, Q = (np.pad(rows, ((0, 0), (0, constant)), constant_values=1.0) for rows in (X, Q))
        projected = KeywordProjection().fit(X, Y)
        scores = [KeywordRegression(shrinkage=s).fit(X, Y, w).scores(Q) for s in (0.1, "auto") for w in (None, WEIGHTS)]
        learned.append([np.abs(projected.transform(Q)), projected.correlations_, *scores])
    for plain, thin in zip(*learned, strict=True):
        np.testing.assert_allclose(thin, plain, atol=1e-9)


WEIGHTS = np.arange(1.0, 26.0)
