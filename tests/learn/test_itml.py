"""ITML: pairs of rows, one projection and whole sweeps against loops, convergence, taxonomies, and bad input."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearsay.core.parallel import threads
from nearsay.data.datasets import load_dataset
from nearsay.errors import DatasetNotFound, InputError
from nearsay.learn.constraints import Pairs, class_distances, near_pairs, sample_pairs
from nearsay.learn.itml import ITML, Constraints, as_constraints, itml_loss, itml_sweep
from nearsay.learn.whitening import WithinClassWhitening
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.labeled import labeled_rows
from tests.reference import metrics as reference_metrics

GAMMAS = st.sampled_from([0.01, 0.5, 1.0, 10.0])
WORDS = Taxonomy.from_paths([("fruit", "orange"), ("color", "orange"), ("color", "red"), ("tool",)], root="word")
PETS = Taxonomy.from_nested({"pet": {"dog": {"small": ["corgi", "pug"], "large": ["boxer"]}, "cat": {}}})


def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return scale(X), y


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


@pytest.mark.slow
@parametrize_with_checks(
    [ITML(0.01, n_neighbors=None, prior="covariance", max_iter=10), ITML(prior="within-class", max_iter=10)]
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("prior", ["identity", "covariance", "within-class"])
def test_it_converges_and_says_how_and_distance_is_euclidean_after_transform(prior):
    X, y = wine()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        itml = ITML(0.01, prior=prior, random_state=0).fit(X, y)
    assert len(itml.loss_curve_) == itml.n_iter_ + 1
    assert itml.loss_curve_[0] == 0
    assert (np.diff(itml.loss_curve_) <= 0).all()
    mapped, metric, M = itml.transform(X), itml.metric(), itml.get_mahalanobis_matrix()
    for a in range(1, 20):
        difference = X[0] - X[a]
        assert metric(X[0], X[a]) == pytest.approx(np.linalg.norm(mapped[0] - mapped[a]))
        assert metric(X[0], X[a]) ** 2 == pytest.approx(difference @ M @ difference)
    np.testing.assert_array_equal(itml.components_, itml.components_.T)
    assert np.linalg.eigvalsh(M)[0] > 0


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


def test_stopping_short_is_said():
    X, y = wine()
    with pytest.warns(ConvergenceWarning, match="stopped after 1 sweeps.*Raise max_iter"):
        ITML(1.0, max_iter=1, random_state=0).fit(X, y)


def test_the_scale_of_the_rows_does_not_matter():
    X, y = wine()
    plain, large = (ITML(0.01, random_state=0).fit(rows, y).get_mahalanobis_matrix() for rows in (X, 1000 * X))
    np.testing.assert_allclose(large, plain, rtol=1e-8, atol=1e-10)


def test_columns_in_another_order_give_the_same_metric_in_that_order():
    X, y = wine()
    order = np.random.default_rng(0).permutation(13)
    for k in (5, None):
        plain, moved = (
            ITML(0.01, n_constraints=2000, n_neighbors=k, random_state=0).fit(rows, y) for rows in (X, X[:, order])
        )
        expected = plain.get_mahalanobis_matrix()[np.ix_(order, order)]
        np.testing.assert_allclose(moved.get_mahalanobis_matrix(), expected, atol=1e-9)


def test_the_same_seed_gives_the_same_metric_on_any_number_of_threads_and_after_pickling():
    X, y = wine()
    itml = ITML(0.01, random_state=3)
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(clone(itml).fit(X, y))
    np.testing.assert_array_equal(found[0].components_, found[1].components_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found[0])).transform(X), found[1].transform(X))
    assert not np.array_equal(ITML(0.01, n_constraints=50, random_state=4).fit(X, y).components_, found[0].components_)


def test_a_progress_bar_is_shown_on_request(capsys):
    ITML(random_state=0, verbose=True).fit(*wine())
    assert "ITML" in capsys.readouterr().err


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


def test_a_taxonomy_without_a_class_is_refused_with_its_name():
    with pytest.raises(InputError, match="'pug'"):
        ITML(taxonomy=WORDS).fit([[0.0], [1.0], [2.0], [3.0]], ["pug", "pug", "red", "red"])
    with pytest.raises(InputError, match="must be a Taxonomy"):
        ITML(taxonomy={"pet": []}).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])


# ---------------------------------------------------------------- odd and bad input


def test_classes_of_one_row_constant_columns_and_more_columns_than_rows_are_no_trouble():
    random = np.random.default_rng(0)
    X = random.normal(size=(12, 30))
    X[:, 4] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for prior in ("identity", "covariance", "within-class"):
            for k in (20, None):
                itml = ITML(n_neighbors=k, prior=prior, random_state=0)
                assert np.isfinite(itml.fit(X, [0] * 6 + [1] * 5 + [2]).components_).all()
                assert np.isfinite(itml.fit(X, np.arange(12)).components_).all()


def test_duplicates_are_no_trouble():
    X = np.repeat([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]], 4, axis=0)
    y = [0, 0, 0, 1] * 3
    assert np.isfinite(ITML(1.0, random_state=0).fit(X, y).components_).all()


@pytest.mark.parametrize(
    ("settings_of", "words"),
    [
        ({"gamma": 0}, r"gamma must be a number in the range \(0, inf\]; got 0"),
        ({"gamma": "much"}, "gamma"),
        ({"tol": math.nan}, "tol"),
        ({"max_iter": -1}, "max_iter must be a whole number of at least 0; got -1"),
        ({"n_constraints": 2.5}, "n_constraints"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"prior": "identiy"}, "did you mean 'identity'"),
        ({"prior": -np.eye(13)}, "eigenvalues above 0"),
        ({"prior": np.eye(3)}, "13"),
        ({"bounds": (9.0, 1.0)}, "0 < u <= l"),
        ({"bounds": 3.0}, "0 < u <= l"),
    ],
)
def test_bad_settings_are_said(settings_of: dict[str, Any], words):
    with pytest.raises(InputError, match=words):
        ITML(**settings_of).fit(*wine())


def test_rows_that_teach_nothing_are_refused():
    with pytest.raises(InputError, match="1 class"):
        ITML().fit([[0.0], [1.0]], [0, 0])
    with pytest.raises(InputError, match="All 4 rows are the same"):
        ITML().fit(np.ones((4, 2)), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="NaN"):
        ITML().fit([[0.0], [np.nan]], [0, 1])


# ---------------------------------------------------------------- what it is good for


@pytest.mark.slow
def test_on_tiny_imagenet_it_beats_the_euclidean_metric():
    try:
        train, test = load_dataset("tin200", split="train"), load_dataset("tin200", split="test")
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    X, Q = train.X[:, :50], test.X[:, :50]
    itml = ITML(0.01, random_state=0).fit(X, train.y)
    plain = NeighborClassifier(20, posterior="proportional").fit(X, train.y).score(Q, test.y)
    learned = (
        NeighborClassifier(20, posterior="proportional")
        .fit(itml.transform(X), train.y)
        .score(itml.transform(Q), test.y)
    )
    assert learned >= plain + 0.006
