"""Weighted votes: the weights are the best there are, and make probabilities."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.errors import InputError
from nearsay.neighbors.table import NeighborTable
from nearsay.posterior.methods.rank_weights import decreasing_weights
from nearsay.posterior.methods.weighted import Weighted, weights_by_row
from tests.labeled import labeled_rows, queries_for
from tests.reference import posteriors as loops


def cases(*counted: tuple[tuple[int, ...], int]) -> np.ndarray:
    return np.array([case for case, times in counted for _ in range(times)], bool)


BY_HAND = [
    (cases(((1, 0), 3), ((0, 1), 1), ((1, 1), 5), ((0, 0), 2)), [3 / 4, 1 / 4]),
    (cases(((1, 0), 1), ((0, 1), 3), ((1, 1), 5)), [1 / 2, 1 / 2]),
    (cases(((1, 0, 0), 4), ((0, 1, 0), 1), ((0, 0, 1), 3)), [1 / 2, 1 / 4, 1 / 4]),
    (cases(((1, 0, 0), 2), ((1, 1, 0), 1), ((0, 1, 1), 1)), [2 / 3, 1 / 3, 0]),
]


@pytest.mark.parametrize(("right", "weights"), BY_HAND)
def test_weights_by_rank_are_those_found_by_hand(right: np.ndarray, weights: list[float]) -> None:
    np.testing.assert_allclose(decreasing_weights(right), weights, atol=1e-6)


def test_the_log_likelihood_is_the_one_found_by_hand() -> None:
    right, _ = BY_HAND[3]
    expected = 2 * math.log(2 / 3) + math.log(1 / 3)
    assert loops.log_likelihood(decreasing_weights(right).tolist(), right.tolist()) == pytest.approx(expected, abs=1e-8)


def test_seven_weighted_neighbors_give_the_posterior_found_by_hand() -> None:
    # Neighbors say a1 a1 b1 a2 a1 b2 a2 with weights 4 3 2 1 1 1 0 of 12.
    posterior = Weighted(model_failure=0.0)
    posterior.labels_, posterior.n_classes_ = np.array([0, 0, 2, 1, 0, 3, 1]), 4
    posterior.weights_ = np.array([4, 3, 2, 1, 1, 1, 0]) / 12
    p = posterior.proba(NeighborTable(np.arange(7)[None, :], np.zeros((1, 7))))
    np.testing.assert_allclose(p, [[8 / 12, 1 / 12, 2 / 12, 1 / 12]], atol=1e-15)


def decreasing_grid(k: int, steps: int) -> list[list[float]]:
    return [
        [w / steps for w in weights]
        for weights in product(range(steps + 1), repeat=k)
        if sum(weights) == steps and list(weights) == sorted(weights, reverse=True)
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4).flatmap(lambda k: st.lists(st.lists(st.booleans(), min_size=k, max_size=k), max_size=12)))
def test_no_decreasing_weights_are_likelier(right: list[list[bool]]) -> None:
    k = len(right[0]) if right else 3
    weights = decreasing_weights(np.array(right, bool).reshape(-1, k))
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(weights) <= 1e-12).all()
    assert (weights >= 0).all()
    here = loops.log_likelihood(weights.tolist(), right)
    assert all(loops.log_likelihood(other, right) <= here + 1e-7 for other in decreasing_grid(k, 12))


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_exclusive_cases_are_the_pooled_shares(seed: int) -> None:
    # Where a case has one right neighbor, the best decreasing weights are the shares of ranks in decreasing order.
    counts = np.random.default_rng(seed).integers(1, 30, 12)
    right = np.repeat(np.eye(12, dtype=bool), counts, axis=0)
    np.testing.assert_allclose(decreasing_weights(right), loops.decreasing(counts / counts.sum()), atol=1e-5)


def test_many_neighbors_reach_the_optimum_that_a_free_solver_finds() -> None:
    from scipy.optimize import minimize

    rng = np.random.default_rng(3)
    k = 30
    right = rng.random((3000, k)) < 0.35 / np.sqrt(1 + np.arange(k))
    weights = decreasing_weights(right)
    helped = right[right.any(axis=1)].astype(float)

    def surprise(steps: np.ndarray) -> float:
        # Decreasing by construction: softmax of sums of steps that are not negative.
        theta = steps[::-1].cumsum()[::-1]
        w = np.exp(theta - theta.max())
        return -float(np.log(helped @ (w / w.sum())).sum())

    other = -minimize(surprise, np.full(k, 0.05), bounds=[(0, None)] * k, method="L-BFGS-B").fun
    here = float(np.log(helped @ weights).sum())
    assert here >= other - 1e-6
    assert here == pytest.approx(other, abs=0.05)


@st.composite
def collections(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    X, y = draw(labeled_rows(smallest=3))
    if len(np.unique(y)) == len(y):
        y = np.zeros_like(y)
    return X, y, draw(st.integers(1, min(5, len(X))))


def table_of(X: np.ndarray, y: np.ndarray, Q: np.ndarray, k: int, *, left_out: bool) -> NeighborTable:
    lines = [loops.line(X, y, q, k, 1, i if left_out else None) for i, q in enumerate(Q)]
    rows = np.array([line.rows + [-1] * (k - len(line.rows)) for line in lines])
    return NeighborTable(rows, np.where(rows >= 0, 1.0, np.inf))


@pytest.mark.parametrize("by", ["rank", "row"])
@settings(max_examples=40, deadline=None)
@given(collection=collections(), model_failure=st.sampled_from([0.0, 0.01]))
def test_a_class_gets_the_weight_of_its_neighbors(by: str, collection: Any, model_failure: float) -> None:
    X, y, k = collection
    n_classes = int(y.max()) + 1
    found = Weighted(by=by, model_failure=model_failure)
    found.fit(table_of(X, y, X, k, left_out=True), y, n_classes)
    Q = queries_for(X)
    table = table_of(X, y, Q, k, left_out=False)
    for row, indices in zip(found.proba(table), table.indices, strict=True):
        present = [int(i) for i in indices if i >= 0]
        weights = [found.weights_[i if by == "row" else j] for j, i in enumerate(present)]
        expected = loops.weighted([int(y[i]) for i in present], weights, n_classes)
        np.testing.assert_allclose(row, loops.with_failure(expected, model_failure), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(collection=collections(), seed=st.integers(0, 99))
def test_no_weights_of_rows_nearby_are_likelier(collection: Any, seed: int) -> None:
    X, y, k = collection
    table = table_of(X, y, X, k, left_out=True)

    def objective(weights: np.ndarray) -> float:
        scores = np.log(weights / (1 - weights))
        total = -float(scores @ scores) / (2 * 2.0**2)
        for rows, truth in zip(table.indices, y, strict=True):
            present = [row for row in rows if row >= 0]
            right = sum(weights[row] for row in present if y[row] == truth)
            if right > 0 and list(y).count(truth) > 1:
                total += math.log(right / sum(weights[row] for row in present))
        return total

    several = np.bincount(y)[y] > 1
    weights = weights_by_row(table[several], y, np.flatnonzero(several))
    scores = np.log(weights / (1 - weights))
    for scale in (0.01, 0.3):
        moved = scores + scale * np.random.default_rng(seed).normal(size=len(scores))
        assert objective(1 / (1 + np.exp(-moved))) <= objective(weights) + 1e-6


def test_a_row_that_misleads_weighs_less() -> None:
    # The row at 2.0 sits among zeros with the label 1.
    X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [9.0], [10.0]]), np.array([0, 0, 1, 0, 0, 1, 1])
    found = Weighted(by="row").fit(table_of(X, y, X, 3, left_out=True), y, 2)
    assert found.weights_[2] == found.weights_.min() < 0.5
    assert found.tables() == []


def test_weights_by_rank_are_shown_with_how_often_each_rank_was_right() -> None:
    table = NeighborTable(np.array([[1, 2], [0, 2], [0, 1]]), np.ones((3, 2)))
    found = Weighted().fit(table, np.array([0, 0, 0]), 1)
    (shown,) = found.tables()
    assert shown.axes == ("rank of the neighbor",)
    assert shown.cases.tolist() == [3, 3]
    np.testing.assert_allclose(shown.probability, found.weights_)


def test_an_unknown_kind_of_weights_is_named() -> None:
    with pytest.raises(InputError, match=r"Unknown kind of weights 'ranks' \(did you mean 'rank'\?\)"):
        Weighted(by="ranks").fit(NeighborTable(np.array([[0]]), np.ones((1, 1))), np.array([0]), 1)
