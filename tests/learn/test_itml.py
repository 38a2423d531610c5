"""ITML: pairs of rows, one projection and whole sweeps against loops, convergence, taxonomies, and bad input."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.learn.constraints import Pairs, class_distances, near_pairs, sample_pairs
from nearsay.learn.itml import ITML, Constraints, as_constraints, itml_loss, itml_sweep
from nearsay.learn.whitening import WithinClassWhitening
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.labeled import labeled_rows
from tests.learn.samples import wine
from tests.reference import metrics as reference_metrics

GAMMAS = st.sampled_from([0.01, 0.5, 1.0, 10.0])
WORDS = Taxonomy.from_paths([("fruit", "orange"), ("color", "orange"), ("color", "red"), ("tool",)], root="word")
PETS = Taxonomy.from_nested({"pet": {"dog": {"small": ["corgi", "pug"], "large": ["boxer"]}, "cat": {}}})


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, Constraints]:
    """A prior and some constraints of small whole numbers, contradictory ones among them."""
    d = draw(st.integers(1, 3))
    whole = st.lists(st.integers(-2, 2), min_size=d, max_size=d)
    differences = draw(st.lists(whole.filter(any), min_size=1, max_size=8))
    n = len(differences)
    signs = draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=n, max_size=n))
    targets = draw(st.lists(st.sampled_from([0.5, 1.0, 4.0, 9.0]), min_size=n, max_size=n))
    root = np.tril(np.array(draw(st.lists(whole, min_size=d, max_size=d)), float), -1) + np.eye(d)
    return root @ root.T, Constraints(np.array(differences, float), np.array(signs), np.array(targets))


def swept(prior: np.ndarray, constraints: Constraints, gamma: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    M, duals = prior, np.zeros(len(constraints.signs))
    for _ in range(n):
        M, duals = itml_sweep(M, constraints, gamma, duals)
    return M, duals


# ---------------------------------------------------------------- pairs


@given(rows=labeled_rows(smallest=2), n_pairs=st.integers(1, 60), seed=st.integers(0, 99))
def test_pairs_are_of_two_rows_once_each_and_similar_where_the_class_is_the_same(rows, n_pairs, seed):
    _, labels = rows
    pairs = sample_pairs(labels, n_pairs, np.random.RandomState(seed))
    assert (pairs.first < pairs.second).all()
    assert len(set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))) == len(pairs.first)
    np.testing.assert_array_equal(labels[pairs.first] == labels[pairs.second], pairs.similar)
    same = [labels[a] == labels[b] for a in range(len(labels)) for b in range(a)]
    assert pairs.similar.sum() == min((n_pairs + 1) // 2, sum(same))
    assert (~pairs.similar).sum() == min(n_pairs // 2, len(same) - sum(same))


def test_every_class_gives_as_many_pairs_as_the_others_whatever_its_size():
    labels = np.repeat([0, 1, 2, 3], [300, 60, 40, 1])
    pairs = sample_pairs(labels, 600, np.random.RandomState(0))
    assert np.bincount(labels[pairs.first[pairs.similar]]).tolist() == pytest.approx([100, 100, 100], abs=12)
    ends = np.concatenate([labels[side[~pairs.similar]] for side in (pairs.first, pairs.second)])
    assert (np.bincount(ends)[:3] > 100).all()


def test_similar_and_dissimilar_pairs_are_mixed():
    pairs = sample_pairs(np.repeat(np.arange(10), 50), 2000, np.random.RandomState(0))
    turns = np.diff(pairs.similar.astype(int)) != 0
    assert 900 < turns.sum() < 1100


@settings(max_examples=40)
@given(rows=labeled_rows(smallest=2), k=st.integers(1, 4), seed=st.integers(0, 99))
def test_near_pairs_are_those_that_loops_find(rows, k, seed):
    X, labels = rows
    if labels.max() == 0:
        return
    own, others = reference_metrics.near_pairs(X, labels, k)
    pairs = near_pairs(X, labels, 1000, k, np.random.RandomState(seed))
    listed = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert len(set(listed)) == len(listed)
    assert {pair for pair, similar in zip(listed, pairs.similar, strict=True) if similar} == own
    assert {pair for pair, similar in zip(listed, pairs.similar, strict=True) if not similar} == others


def test_of_near_pairs_every_class_gives_as_many():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [200, 50, 20])
    pairs = near_pairs(random.normal(size=(270, 2)), labels, 180, 5, np.random.RandomState(0))
    assert np.bincount(labels[pairs.first[pairs.similar]]).tolist() == [30, 30, 30]
    assert len(pairs.first) == 180


@pytest.mark.parametrize("tree", [WORDS, PETS])
def test_class_distances_are_those_of_loops_in_trees_and_graphs(tree):
    expected = [
        [reference_metrics.class_distance(tree.parents, a, b) for a in range(tree.n_nodes)] for b in range(tree.n_nodes)
    ]
    np.testing.assert_allclose(class_distances(tree, tree.nodes), expected)


# ---------------------------------------------------------------- sweeps


@pytest.mark.parametrize(
    ("sign", "target", "gamma", "expected"),
    [(1.0, 1.0, math.inf, 0.25), (1.0, 1.0, 1.0, 0.4), (-1.0, 9.0, 1.0, 18 / 13), (-1.0, 9.0, math.inf, 9 / 4)],
)
def test_one_projection_is_as_by_hand(sign, target, gamma, expected):
    constraints = Constraints(np.array([[2.0]]), np.array([sign]), np.array([target]))
    M, _ = itml_sweep(np.eye(1), constraints, gamma, np.zeros(1))
    assert M.item() == pytest.approx(expected, rel=1e-14)


@settings(max_examples=40)
@given(problem=problems(), gamma=GAMMAS, n=st.integers(1, 4))
def test_sweeps_are_those_of_loops(problem, gamma, n):
    prior, constraints = problem
    M, duals = swept(prior, constraints, gamma, n)
    expected, expected_duals, slack = reference_metrics.itml(
        prior.tolist(), *(part.tolist() for part in constraints), gamma, n
    )
    np.testing.assert_allclose(M, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(duals, expected_duals, rtol=1e-10, atol=1e-12 * max(expected_duals))
    lagrangian = reference_metrics.itml_lagrangian(
        expected, prior.tolist(), *(part.tolist() for part in constraints), gamma, expected_duals, slack
    )
    assert itml_loss(M, prior, constraints, gamma, duals) == pytest.approx(-lagrangian, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0, math.inf])
def test_sweeps_over_wine_are_those_of_loops(gamma):
    X, y = wine()
    pairs = sample_pairs(y, 300, np.random.RandomState(0))
    constraints, _ = as_constraints(X, pairs, np.where(pairs.similar, 0.0, 1.0), np.eye(13), None)
    M, _ = swept(np.eye(13), constraints, gamma, 2)
    expected, _, _ = reference_metrics.itml(np.eye(13).tolist(), *(part.tolist() for part in constraints), gamma, 2)
    np.testing.assert_allclose(M, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@given(problem=problems(), gamma=GAMMAS)
def test_metrics_stay_symmetric_and_positive_definite_and_the_loss_falls(problem, gamma):
    prior, constraints = problem
    before = 0.0
    M, duals = prior, np.zeros(len(constraints.signs))
    for _ in range(5):
        M, duals = itml_sweep(M, constraints, gamma, duals)
        loss = itml_loss(M, prior, constraints, gamma, duals)
        assert loss <= before + 1e-9
        before = loss
        np.testing.assert_array_equal(M, M.T)
        assert np.linalg.eigvalsh(M)[0] > 0
        assert (duals >= 0).all()


def test_without_slack_constraints_that_can_be_kept_are_kept():
    constraints = Constraints(np.array([[2.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0]), np.array([1.0, 2.0]))
    M, _ = swept(np.eye(2), constraints, math.inf, 200)
    near, far = (v @ M @ v for v in constraints.differences)
    assert near <= 1 + 1e-6
    assert far >= 2 - 1e-6


def test_rows_that_all_but_coincide_can_be_pulled_apart():
    apart = Constraints(np.array([[1e-12, 0.0]]), np.array([-1.0]), np.array([1.0]))
    M, _ = itml_sweep(np.eye(2), apart, math.inf, np.zeros(1))
    assert M[0, 0] * 1e-24 == pytest.approx(1.0)
    closer_than_numbers_tell = apart._replace(differences=np.array([[1e-200, 0.0]]))
    np.testing.assert_array_equal(itml_sweep(np.eye(2), closer_than_numbers_tell, 1.0, np.zeros(1))[0], np.eye(2))


def test_identical_rows_are_no_constraint_and_bounds_are_percentiles_of_squared_distances():
    X = np.array([[0.0], [0.0], [3.0], [5.0]])
    pairs = Pairs(np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([True, True, False]))
    constraints, bounds = as_constraints(X, pairs, np.array([0.0, 0.0, 1.0]), 2 * np.eye(1), None)
    assert constraints.differences.tolist() == [[-3.0], [-5.0]]
    assert bounds == pytest.approx((18 + 0.05 * 32, 18 + 0.95 * 32))
    np.testing.assert_allclose(constraints.targets, bounds)


# ---------------------------------------------------------------- the estimator


def test_without_iterations_the_metric_is_the_prior():
    X, y = wine()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = {prior: ITML(prior=prior, max_iter=0).fit(X, y) for prior in ("identity", "within-class")}
    np.testing.assert_array_equal(nothing["identity"].components_, np.eye(13))
    np.testing.assert_allclose(nothing["within-class"].components_, WithinClassWhitening().fit(X, y).components_)
    assert nothing["identity"].n_iter_ == 0
    given_one = np.diag(np.arange(1.0, 14.0))
    np.testing.assert_allclose(ITML(prior=given_one, max_iter=0).fit(X, y).get_mahalanobis_matrix(), given_one)


def test_given_bounds_are_used():
    X, y = wine()
    itml = ITML(0.01, bounds=(2.0, 50.0), random_state=0).fit(X, y)
    assert itml.bounds_ == (2.0, 50.0)
    assert not np.allclose(itml.components_, ITML(0.01, random_state=0).fit(X, y).components_)


def test_near_means_near_in_the_prior_metric():
    # The nearest row of the other class differs in the second column, but in the prior metric in the first.
    X, y = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.1, 0.1]]), [0, 1, 1, 0]
    itml = ITML(n_constraints=100, n_neighbors=1, prior=np.diag([0.01, 100.0]), random_state=0)
    pairs = itml._pairs(X * [0.1, 10.0], np.array(y), np.random.RandomState(0))
    assert (0, 1) in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    expected, bounds = as_constraints(X, pairs, np.where(pairs.similar, 0.0, 1.0), np.diag([0.01, 100.0]), None)
    assert itml.fit(X, y).bounds_ == pytest.approx(bounds)
    assert len(expected.signs) == len(pairs.first)


# ---------------------------------------------------------------- a taxonomy


def test_with_a_taxonomy_next_of_kin_are_not_pushed_apart():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 3.0], [1.0, 3.0]])
    y = ["corgi", "corgi", "pug", "pug", "cat", "cat"]
    pairs = Pairs(np.array([0, 0, 0]), np.array([1, 2, 4]), np.array([True, False, False]))
    labels, classes = np.array([1, 1, 2, 2, 0, 0]), np.array(["cat", "corgi", "pug"])
    apart = ITML(taxonomy=PETS)._apart(pairs, labels, classes)
    np.testing.assert_allclose(apart, [0, 1 / 3, 1])
    constraints, _ = as_constraints(X, pairs, apart, np.eye(2), (1.0, 4.0))
    assert constraints.signs.tolist() == [1, 1, -1]
    np.testing.assert_allclose(constraints.targets, [1, 2, 4])
    plain, kin = (ITML(1.0, taxonomy=tree, random_state=0, max_iter=500).fit(X, y) for tree in (None, PETS))
    shares = [M[1, 1] / M[0, 0] for M in (plain.get_mahalanobis_matrix(), kin.get_mahalanobis_matrix())]
    assert shares[1] > 2 * shares[0]  # the second column sets cats apart, the first only two dogs


# ---------------------------------------------------------------- odd and bad input


# ---------------------------------------------------------------- what it is good for
