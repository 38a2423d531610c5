"""LMNN: its loss against loops, the way down against the paper's, what the metric may depend on, bad input."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from nearsay.core.arrays import evenly
from nearsay.learn.lmnn import solve as lmnn_solve
from nearsay.learn.lmnn.descent import descend
from nearsay.learn.lmnn.impostors import GpuImpostors
from nearsay.learn.lmnn.lmnn import LMNN
from nearsay.learn.lmnn.loss import LMNNLoss
from nearsay.learn.lmnn.targets import target_neighbors
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.labeled import labeled_rows
from tests.learn.samples import stripes, wine
from tests.reference.learn import lmnn as reference


def total_loss(X: np.ndarray, y: np.ndarray, L: np.ndarray, k: int = 3, margin: float = 1.0) -> float:
    """The loss over all triples, by a loss that has seen no other map."""
    margins = np.full((y.max() + 1, y.max() + 1), margin)
    return LMNNLoss(X, y, target_neighbors(X, y, k), push=0.5, margins=margins)(L)[0]


# ---------------------------------------------------------------- targets and loss


@given(rows=labeled_rows(smallest=2), k=st.integers(1, 4))
def test_targets_are_those_of_a_loop(rows, k):
    X, y = rows
    expected = [found + [-1] * (k - len(found)) for found in reference.targets(X, y, k)]
    assert target_neighbors(X, y, k).tolist() == expected


def test_the_loss_of_three_rows_is_what_a_hand_finds():
    X, y = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1])
    loss, slope = LMNNLoss(X, y, target_neighbors(X, y, 1), push=0.5, margins=np.ones((2, 2)))(np.eye(2))
    assert loss == 1.5
    # Both targets pull along the first column; only row 0 has an impostor nearer than target and margin.
    assert slope.tolist() == [[0.5 * 2 + 0.5 * 1, 0.0], [0.0, -0.5 * 1]]


@st.composite
def losses(draw: st.DrawFn):
    """A loss with its parts, and some maps to ask it for."""
    X, y = draw(labeled_rows(smallest=2))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    targets = target_neighbors(X, y, draw(st.integers(1, 3)))
    margins = random.integers(1, 4, (y.max() + 1, y.max() + 1)) / 2
    push = draw(st.sampled_from([0.25, 0.5, 1.0]))
    n_rows = draw(st.one_of(st.none(), st.integers(1, len(X))))
    steps = draw(st.lists(st.sampled_from([0.0, 1e-3, 0.1, 1.0]), min_size=1, max_size=5))
    first = random.integers(-2, 3, (draw(st.integers(1, X.shape[1])), X.shape[1])) / 2
    maps = first + np.cumsum([step * random.normal(size=first.shape) for step in steps], axis=0)
    loss = LMNNLoss(X, y, targets, push=push, margins=margins, n_rows=n_rows)
    return loss, maps, (X, y, targets, push, margins, n_rows)


@given(losses())
def test_loss_and_slope_are_those_of_loops_for_one_map_after_another(given_loss):
    loss, maps, (X, y, targets, push, margins, n_rows) = given_loss
    rows = np.argsort(y, kind="stable")[evenly(len(X), n_rows or len(X))]
    listed = [[j for j in of_row if j >= 0] for of_row in targets.tolist()]
    for L in maps:
        expected = reference.loss_and_slope(X, y, listed, L.T @ L, push, margins, rows)
        value, slope = loss(L)
        assert value == pytest.approx(expected[0], abs=1e-9)
        # At a kink, where a triple is just at the margin, there are many slopes.
        beside = [reference.loss_and_slope(X, y, listed, L.T @ L, push, margins + e, rows)[1] for e in (-1e-9, 1e-9)]
        if np.array_equal(*beside):
            np.testing.assert_allclose(slope, expected[1], atol=1e-9)


@given(losses())
def test_what_is_kept_of_earlier_maps_changes_no_bit(given_loss):
    loss, maps, (X, y, targets, push, margins, n_rows) = given_loss
    for L in maps:
        value, slope = loss(L)
        again, slope_again = LMNNLoss(X, y, targets, push=push, margins=margins, n_rows=n_rows)(L)
        assert value == again
        assert np.array_equal(slope, slope_again)


def test_the_slope_is_that_of_finite_differences():
    X, y = wine()
    loss = LMNNLoss(X, y, target_neighbors(X, y, 3), push=0.5, margins=np.ones((3, 3)))
    random = np.random.default_rng(0)
    for _ in range(5):
        L, step = np.eye(13) + random.normal(0, 0.1, (13, 13)), 1e-7 * random.normal(size=(13, 13))
        slope = 2 * L @ loss(L)[1]
        assert (loss(L + step)[0] - loss(L - step)[0]) / 2 == pytest.approx(np.vdot(slope, step), rel=1e-4)


def test_lists_are_not_made_anew_while_little_moves():
    X, y = wine()
    loss = LMNNLoss(X, y, target_neighbors(X, y, 3), push=0.5, margins=np.ones((3, 3)))
    loss(np.eye(13))
    assert loss._lists.n_times_made == 1
    loss(1.001 * np.eye(13))
    loss(np.eye(13) + 1e-4)
    assert loss._lists.n_times_made == 1
    loss(np.eye(13) + 1.0)
    assert loss._lists.n_times_made == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("most_kept", 0), ("most_kept", 3000), ("blocks", [slice(at, min(at + 16, 178)) for at in range(0, 178, 16)])],
)
def test_neither_memory_nor_blocks_change_a_bit(name, value):
    X, y = wine()
    maps = [np.eye(13), np.eye(13) * 1.01, np.eye(13) + 0.2]
    parts = (X, y, target_neighbors(X, y, 3))
    losses = LMNNLoss(*parts, push=0.5, margins=np.ones((3, 3)))
    expected = [losses(L) for L in maps]
    losses = LMNNLoss(*parts, push=0.5, margins=np.ones((3, 3)))
    vars(losses._lists)[name] = value
    for L, (loss, slope) in zip(maps, expected, strict=True):
        found = losses(L)
        assert found[0] == loss
        np.testing.assert_allclose(found[1], slope, rtol=1e-12, atol=1e-9)
        assert losses._lists._n_kept <= losses._lists.most_kept


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch")
@pytest.mark.parametrize("far", [1.0, 1e30])
def test_lists_made_on_a_gpu_change_no_bit(far):
    """Its steps are taken on the CPU here."""
    rng = np.random.default_rng(0)
    X, y = np.round(rng.normal(size=(150, 4)), 1), rng.integers(0, 5, size=150)
    X[0] *= far
    here, there = (LMNNLoss(X, y, target_neighbors(X, y, 3), push=0.5, margins=np.ones((5, 5))) for _ in range(2))
    there._lists._device = "cpu"
    for L in (np.eye(4), 1.01 * np.eye(4), np.eye(4) + 0.2):
        for found, expected in zip(there(L), here(L), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert isinstance(there._lists._on_gpu, GpuImpostors)


def test_a_list_that_was_made_without_room_is_not_kept():
    # The one impostor comes within reach, 1 + (target at 1), as the map shrinks; none is in reach before.
    X, y, targets = np.array([[0.0], [1.0], [1.5]]), np.array([0, 0, 1]), np.array([[1], [-1], [-1]])
    loss = LMNNLoss(X, y, targets, push=0.5, margins=np.ones((2, 2)))
    loss._lists.most_kept = 0
    assert loss(np.array([[0.92]]))[0] == pytest.approx(0.5 * 0.92**2)  # 1.38² is beyond 1 + 0.92², and listed
    assert loss(np.array([[0.91]]))[0] == pytest.approx(0.5 * 0.91**2)  # still beyond, and without room not listed
    assert loss(np.array([[0.88]]))[0] == pytest.approx(0.5 * (0.88**2 + 1 + 0.88**2 - 1.32**2))


@pytest.mark.parametrize("classes", [[0, 1, 2], [3, 4, 5]])  # with targets, whose distances outweigh all, or without
@pytest.mark.parametrize("far", [1e5, 1e15, 1e25])
def test_no_impostor_is_missed_beside_rows_far_out(far, classes):
    X, y = stripes(40)
    X = np.vstack([X, [[far, 0.0], [far, 1.0], [-far, far]]])
    y = np.append(y, classes)
    listed = reference.targets(X, y, 2)
    loss = LMNNLoss(X, y, target_neighbors(X, y, 2), push=0.5, margins=np.ones((6, 6)))(np.eye(2))[0]
    expected = reference.loss_and_slope(X - X.mean(axis=0), y, listed, np.eye(2), 0.5, np.ones((6, 6)))[0]
    assert loss == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- the way down


def test_the_descent_passes_kinks_and_never_rises():
    def kinked(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(1 + np.abs(x) @ [1.0, 30.0] + x @ x), np.sign(x) * [1.0, 30.0] + 2 * x

    found = descend(kinked, np.array([3.0, -2.0]), max_iter=200, tol=1e-9)
    assert found.converged
    assert found.curve[-1] < 1.001
    assert np.all(np.diff(found.curve) < 0)
    assert found.curve[-1] == kinked(found.point)[0]


def test_a_descent_cut_short_says_so():
    def valley(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float((x**4).sum()), 4 * x**3

    assert not descend(valley, np.array([3.0, -2.0]), max_iter=2, tol=1e-9).converged
    at_the_bottom = descend(valley, np.zeros(2), max_iter=2, tol=0.0)
    assert at_the_bottom.converged
    assert at_the_bottom.curve == [0.0]


def test_wine_ends_below_the_references():
    X, y = wine()
    assert total_loss(X, y, np.eye(13)) == pytest.approx(1475.42, abs=0.01)
    lmnn = LMNN().fit(X, y)
    assert lmnn.loss_curve_[-1] < 209.7061  # metric-learn 0.7: 209.7754
    plain = reference.projected_gradient(X, y, reference.targets(X, y, 3), 0.5, 1.0, steps=150)
    assert lmnn.loss_curve_[-1] < plain < 211


@given(losses())
def test_the_plain_descent_goes_by_the_loss_of_loops(given_loss):
    _, maps, (X, y, targets, push, _, _) = given_loss
    listed = [[j for j in of_row if j >= 0] for of_row in targets.tolist()]
    assume(all(listed))
    loss = reference.loss_over_all(X, y, listed, push, 1.5)
    margins = np.full((y.max() + 1, y.max() + 1), 1.5)
    for L in maps:
        expected = reference.loss_and_slope(X, y, listed, L.T @ L, push, margins)
        assert loss(L.T @ L)[0] == pytest.approx(expected[0], abs=1e-6)


@pytest.mark.parametrize("n_components", [None, 2])
def test_the_reported_loss_is_that_over_all_impostors_and_never_rises(n_components):
    X, y = wine()
    lmnn = LMNN(n_components=n_components).fit(X, y)
    assert len(lmnn.loss_curve_) == lmnn.n_iter_ + 1
    assert np.all(np.diff(lmnn.loss_curve_) < 0)
    assert lmnn.loss_curve_[-1] == pytest.approx(total_loss(X, y, lmnn.components_))


@pytest.mark.slow
def test_steps_over_some_rows_first_lead_to_the_same_loss():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    problem = lmnn_solve.LMNNProblem(X, y, target_neighbors(X, y, 3), push=0.5, margins=np.ones((10, 10)))
    given = {"max_iter": 200, "tol": 1e-4, "report": lambda done, loss: None}
    at_once, by_stages = (lmnn_solve.solve(problem, np.eye(64), fewest_rows=n, **given).curve for n in (500, 20))
    assert by_stages[0] == at_once[0]
    assert np.all(np.diff(by_stages) < 0)
    assert by_stages[-1] == pytest.approx(at_once[-1], rel=2e-3)


def test_steps_over_some_rows_that_lead_up_are_not_taken(monkeypatch):
    X, y = wine()
    expected = LMNN().fit(X, y)
    monkeypatch.setattr(lmnn_solve, "_over_some", lambda problem, X, start, *_, **__: 9 * start)
    found = LMNN().fit(X, y)
    assert np.array_equal(found.loss_curve_, expected.loss_curve_)


# ---------------------------------------------------------------- the metric


def test_a_column_that_says_nothing_counts_for_little():
    X, y = stripes()
    M = LMNN().fit(X, y).get_mahalanobis_matrix()
    assert M[1, 1] < 0.1 * M[0, 0]


def test_the_margin_is_only_the_unit_of_the_learned_distances():
    X, y = wine()
    expected, found = LMNN().fit(X, y), LMNN(margin=4.0).fit(X, y)
    np.testing.assert_allclose(found.components_, 2 * expected.components_, rtol=1e-6, atol=1e-6)


def test_shrinkage_leads_from_what_was_learned_to_the_euclidean_metric():
    X, y = wine()
    learned, half, euclidean = (LMNN(shrinkage=share).fit(X, y) for share in (0.0, 0.5, 1.0))
    matrices = [lmnn.get_mahalanobis_matrix() for lmnn in (learned, half, euclidean)]
    np.testing.assert_allclose(matrices[1], (matrices[0] + matrices[2]) / 2, atol=1e-12)
    np.testing.assert_allclose(matrices[2], matrices[2][0, 0] * np.eye(13), atol=1e-12)
    apart = X[:, None] - X[target_neighbors(X, y, 3)]
    squares = [np.einsum("ijk,kl,ijl->", apart, M, apart) for M in matrices]
    np.testing.assert_allclose(squares, squares[0])


# ---------------------------------------------------------------- taxonomy

PETS = Taxonomy.from_nested({"pet": {"dog": ["corgi", "poodle"], "cat": {}}})


def test_margins_grow_with_the_distance_in_the_taxonomy_around_the_same_mean():
    margins = LMNN(margin=3.0, taxonomy=PETS)._margins(np.array(["cat", "corgi", "poodle"]))
    assert margins[1, 2] == margins[2, 1] < 3.0 < margins[0, 1] == margins[0, 2]
    assert margins[np.triu_indices(3, 1)].mean() == pytest.approx(3.0)


def test_a_taxonomy_without_levels_changes_nothing():
    X, y = stripes()
    names = np.array(["cat", "cow", "dog"])[y]
    flat = Taxonomy.from_nested({"pet": ["cat", "cow", "dog"]})
    expected, found = LMNN().fit(X, names), LMNN(taxonomy=flat).fit(X, names)
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-9)


def test_a_taxonomy_keeps_apart_what_it_sets_apart():
    # The first column tells cats from dogs, the second the dogs from each other; both as well as the other.
    random = np.random.default_rng(0)
    names = np.repeat(["cat", "corgi", "poodle"], 40)
    centers = {"cat": (0, 0.5), "corgi": (1, 0), "poodle": (1, 1)}
    X = np.array([centers[name] for name in names]) + random.normal(0, 0.3, (120, 2))
    plain, aware = (LMNN(taxonomy=taxonomy).fit(X, names).get_mahalanobis_matrix() for taxonomy in (None, PETS))
    assert aware[0, 0] / aware[1, 1] > 1.05 * plain[0, 0] / plain[1, 1]


# ---------------------------------------------------------------- odd and bad input


def test_small_classes_give_the_targets_they_have():
    X, y = stripes()
    X, y = np.vstack([X, [[9.0, 9.0]], [[-5.0, 0.0]], [[-5.0, 1.0]]]), np.append(y, [3, 4, 4])
    lmnn = LMNN(n_neighbors=5).fit(X, y)
    assert lmnn.loss_curve_[-1] < lmnn.loss_curve_[0]


def test_directions_without_difference_keep_a_multiple_of_the_identity():
    X, y = stripes()
    L = LMNN().fit(np.column_stack([X, np.ones((len(X), 2))]), y).components_
    assert L[2, 2] == pytest.approx(L[3, 3])
    assert L[2, 2] > 0
    np.testing.assert_allclose(L[2:, :2], 0, atol=1e-9)
