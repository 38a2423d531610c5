"""What is learned depends on rows and labels: not on the order they are listed in, and not on the names of classes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import nearsay as ns
from nearsay.data.content_order import content_order
from nearsay.posterior.base import folds_by
from nearsay.search.shards import ShardedRows

NAMES, OTHER_NAMES = np.array(["ash", "elm", "oak"]), np.array(["yew", "fir", "box"])
METRICS = ["euclidean", "auto"]


def clouds(n: int, seed: int, n_columns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Three classes that overlap, so that many ways of answering do about as well."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return 1.5 * rng.normal(size=(3, n_columns))[y] + rng.normal(size=(n, n_columns)), y


def answers(make, X, y, Q, order=None, names=NAMES):  # type: ignore[no-untyped-def]
    """The probabilities of the classes 0, 1 and 2, learned from rows in an order, under some names."""
    order = np.arange(len(X)) if order is None else order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = make().fit(X[order], names[y[order]]).predict_proba(Q)
    return p[:, np.argsort(np.argsort(names))]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n", "seeds"), [(60, 3), (100, 3), (150, 2), (300, 2), (1000, 1)])
def test_neither_the_order_of_rows_nor_the_names_of_classes_change_an_answer(n, seeds, metric):
    def make() -> ns.NeighborClassifier:
        return ns.NeighborClassifier(metric=metric)

    for seed in range(seeds):
        X, y = clouds(n, seed)
        Q = np.vstack([clouds(100, seed + 100)[0], X[:50] + 0.1])
        p = answers(make, X, y, Q)
        order = np.random.default_rng(seed).permutation(n)
        np.testing.assert_allclose(answers(make, X, y, Q, order), p, rtol=0, atol=1e-9)
        np.testing.assert_allclose(answers(make, X, y, Q, names=OTHER_NAMES), p, rtol=0, atol=1e-9)


def test_rows_that_are_drawn_from_many_do_not_depend_on_their_order():
    X, y = clouds(700, 0)
    Q = clouds(60, 1)[0]

    def make() -> ns.NeighborClassifier:
        return ns.NeighborClassifier(max_past_cases=150)

    p = answers(make, X, y, Q)
    np.testing.assert_allclose(answers(make, X, y, Q, np.arange(700)[::-1]), p, rtol=0, atol=1e-9)
    np.testing.assert_allclose(answers(make, X, y, Q, names=OTHER_NAMES), p, rtol=0, atol=1e-9)


def edits(a: str, b: str) -> float:
    return float(sum(one != other for one, other in zip(a, b, strict=True)))


def test_items_of_any_kind_and_given_distances_do_not_depend_on_their_order():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    words = np.array(["".join(rng.choice(list("abcde"[c:] + "xyz"[c] * 4), 12)) for c in y])
    by_function = ns.NeighborClassifier(metric=edits, posterior="pooled")
    X, y_rows = clouds(80, 2)
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    by_matrix = ns.NeighborClassifier(metric="precomputed")
    order = rng.permutation(60)
    there, again = (by_function.fit(words[o], y[o]).predict_proba(words) for o in (np.arange(60), order))
    np.testing.assert_allclose(again, there, rtol=0, atol=1e-9)
    order = rng.permutation(80)
    there = by_matrix.fit(D, y_rows).predict_proba(D)
    again = by_matrix.fit(D[np.ix_(order, order)], y_rows[order]).predict_proba(D[:, order])
    np.testing.assert_allclose(again, there, rtol=0, atol=1e-9)


def test_a_random_model_beside_is_taught_in_one_order():
    X, y = clouds(120, 3)
    forest = RandomForestClassifier(10, random_state=0)
    p = answers(lambda: ns.NeighborClassifier(beside=forest), X, y, X)
    again = answers(lambda: ns.NeighborClassifier(beside=forest), X, y, X, np.arange(120)[::-1])
    np.testing.assert_allclose(again, p, rtol=0, atol=1e-9)


@pytest.mark.parametrize("exponents", [None, "learned"])
def test_fused_groups_do_not_depend_on_the_order_of_rows_or_on_names(exponents):
    X, y = clouds(120, 4)
    X[::9, :3] = np.nan
    Q = clouds(50, 5)[0]

    def make() -> ns.FusedClassifier:
        return ns.FusedClassifier({"first": slice(0, 3), "last": slice(3, 6)}, exponents=exponents)

    p = answers(make, X, y, Q)
    np.testing.assert_allclose(answers(make, X, y, Q, np.random.default_rng(0).permutation(120)), p, rtol=0, atol=1e-9)
    np.testing.assert_allclose(answers(make, X, y, Q, names=OTHER_NAMES), p, rtol=0, atol=1e-9)


@pytest.mark.parametrize("estimator", [ns.NeighborClassifier(), LogisticRegression()])
def test_prediction_sets_depend_neither_on_the_order_of_rows_nor_on_names(estimator):
    X, y = clouds(150, 7)
    Q = clouds(80, 8)[0]
    order = np.random.default_rng(0).permutation(150)
    sets = ns.ConformalClassifier(estimator).fit(X, NAMES[y]).predict_set(Q)
    np.testing.assert_array_equal(ns.ConformalClassifier(estimator).fit(X[order], NAMES[y[order]]).predict_set(Q), sets)
    renamed = ns.ConformalClassifier(estimator).fit(X, OTHER_NAMES[y]).predict_set(Q)
    np.testing.assert_array_equal(renamed[:, np.argsort(np.argsort(OTHER_NAMES))], sets)


@pytest.mark.parametrize("estimator", [ns.NeighborClassifier(), LogisticRegression()])
def test_hedges_do_not_depend_on_the_order_of_rows(estimator):
    X, y = clouds(150, 9)
    Q = clouds(80, 10)[0]
    order = np.random.default_rng(0).permutation(150)
    trees = ns.Taxonomy.from_nested({"tree": {"broad": ["ash", "elm"], "oak": {}}})
    hedged = ns.HedgedClassifier(estimator, taxonomy=trees, accuracy=0.9)
    names = hedged.fit(X, NAMES[y]).predict(Q)
    assert len(set(names)) > 2
    np.testing.assert_array_equal(hedged.fit(X[order], NAMES[y[order]]).predict(Q), names)


def test_constant_and_copied_columns_have_no_say_in_the_order(tmp_path):
    X, y = clouds(60, 11)
    order = content_order(X, y)
    more = np.hstack([np.full((60, 1), 7.0), X[:, :3], X[:, 1:2], X[:, 3:], np.zeros((60, 2)), X[:, :1]])
    np.testing.assert_array_equal(content_order(more, y), order)
    for number, part in enumerate(np.array_split(more, 4)):
        np.save(tmp_path / f"{number}.npy", part)
    np.testing.assert_array_equal(content_order(ShardedRows.open(tmp_path), y), order)


def test_equal_rows_are_ordered_by_class_and_by_no_name():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(40, 2)).astype(float), rng.integers(0, 3, 40)  # equal rows of all classes
    first = content_order(X, y)
    for _ in range(5):
        shuffled, renamed = rng.permutation(40), rng.permutation(3)
        again = content_order(X[shuffled], renamed[y[shuffled]])
        np.testing.assert_array_equal(X[shuffled][again], X[first])
        np.testing.assert_array_equal(y[shuffled][again], y[first])
        np.testing.assert_array_equal(folds_by(again, renamed[y[shuffled]])[again], folds_by(first, y)[first])


def test_the_content_of_a_number_is_its_value():
    X, y = np.array([[0.0, 1.5], [2.0, -3.0], [7.0, 0.5]]), np.array([0, 0, 1])
    order = content_order(X, y)
    np.testing.assert_array_equal(content_order(X.astype(np.float32), y), order)
    np.testing.assert_array_equal(content_order(np.where(X == 0, -0.0, X), y), order)
    whole = np.random.default_rng(0).integers(-5, 5, size=(200, 3))
    labels = np.zeros(200, np.int64)
    np.testing.assert_array_equal(content_order(whole, labels), content_order(whole.astype(float), labels))


def test_rows_that_differ_hardly_ever_share_a_place():
    rng = np.random.default_rng(0)
    for X in (rng.integers(0, 3, size=(3000, 12)).astype(float), rng.normal(size=(3000, 1)), np.eye(500)):
        X = np.unique(X, axis=0)
        order = content_order(X, np.zeros(len(X), np.int64))
        back = content_order(X[::-1], np.zeros(len(X), np.int64))
        np.testing.assert_array_equal(X[order], X[::-1][back])
